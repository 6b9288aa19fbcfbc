"""The plans of a preservation: which steps, when to look again, and why; and the marks on the node."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.machines.test_machine_preservation import (
    BY_US,
    CALM,
    LATER,
    PAST,
    PRESERVE,
    UNTIL,
    at,
    of,
    says,
)

from kubewright.api.core import Node, NodeSpec, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine, NodeTemplateSpec
from kubewright.api.meta import ObjectMeta
from kubewright.base.plan import AT_ONCE
from kubewright.machines import node_marks
from kubewright.machines.machine.decide import unread_because
from kubewright.machines.machine.preservation import (
    asked_by_node,
    drains_preserved,
    invalid_annotation,
    new_expiry,
    next_look,
    preserve,
)
from kubewright.machines.machine.seen import Seen, SetPreservedCondition
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.testing.scenes import NOW, machine, minutes, node, seen
from kubewright.wire.errors import Forbidden

NEW = NOW + timedelta(hours=96)
KEPT = of("Failed", "now", until=LATER)
BUSY = DrainPlan(waiting=(), wake=timedelta(seconds=5))
MARKED = at("", says(UNTIL), calm=True, ours=True)
HIDDEN = unread_because(Forbidden("no"))
OVER = "its preservation ends: "
PLANS = [
    pytest.param(seen(of("Running", "now"), at()), None, "", id="before its expiry is written nothing is marked"),
    pytest.param(seen(of("Running", "now", until=LATER), at()), ["SetPreservationMarks", "SetPreservedCondition"],
                 "it is preserved until 2030-01-01T13:00:00Z", id="then the node is marked"),
    pytest.param(seen(of("Running", "now", until=LATER), MARKED), None, "", id="once"),
    pytest.param(seen(of("Running", "now", until=PAST), MARKED),
                 ["SetPreservationMarks", "SetPreservedCondition", "Annotate"], f"{OVER}its time is over",
                 id="when its time is over all of it is taken back"),
    pytest.param(seen(of("Running", "now", until=NOW), MARKED),
                 ["SetPreservationMarks", "SetPreservedCondition", "Annotate"], f"{OVER}its time is over",
                 id="also in that moment"),
    pytest.param(seen(of("Running", "when-failed", until=LATER), MARKED),
                 ["SetPreservationMarks", "SetPreservedCondition"], f"{OVER}it has not failed, it is Running",
                 id="and when it recovers"),
    pytest.param(seen(of("", "when-failed", until=LATER), MARKED),
                 ["SetPreservationMarks", "SetPreservedCondition"], f"{OVER}it has not failed, it is new",
                 id="or never had a phase"),
    pytest.param(seen(of("Running", until=LATER), MARKED),
                 ["SetPreservationMarks", "SetPreservedCondition"], f"{OVER}it is not asked for any more",
                 id="and when a user takes it back"),
    pytest.param(seen(of("Running"), MARKED), ["SetPreservationMarks", "SetPreservedCondition"],
                 f"{OVER}it is not asked for any more", id="also when the expiry is gone already"),
    pytest.param(seen(of("Running"), at("", says("", "False"), calm=True, ours=True)), None, "",
                 id="a node that is not marked as preserved is left alone"),
    pytest.param(seen(of("Running", "when-failed"), at("false")), ["Annotate"],
                 "its node says whether to preserve it", id="what its node says is noted"),
    pytest.param(seen(of("Running", "when-failed", last="false"), at()), ["Annotate"],
                 "its node says whether to preserve it", id="and that it does not any more"),
    pytest.param(seen(of("Running", last="now", until=LATER), unread=HIDDEN), None, "",
                 id="a node that the server refuses to show is believed to say what it said last"),
    pytest.param(seen(of("Running", last="now", until=PAST), unread=HIDDEN), ["Annotate"],
                 f"{OVER}its time is over", id="until its time is over"),
    pytest.param(seen(of("Running", last="now", until=LATER)), ["EndPreservation"],
                 f"{OVER}it is not asked for any more", id="one that is gone asks for nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("look", "steps", "because"), PLANS)
def test_a_plan(look: Seen, steps: list[str] | None, because: str) -> None:
    plan = preserve(look)
    if steps is None:
        assert plan is None
        return
    assert plan is not None
    assert ([type(step).__name__ for step in plan.steps], plan.wake, plan.because) == (
        steps,
        AT_ONCE,
        because,
    )


@pytest.mark.parametrize(
    ("own", "reason"), [("now", "Preserved by user."), ("auto-preserved", "Preserved by MCM.")]
)
def test_the_condition_says_who_preserves_it(own: str, reason: str) -> None:
    plan = preserve(seen(of("Failed", own, until=LATER), at(tainted=True, calm=True)))
    assert plan is not None
    (said,) = plan.steps
    assert isinstance(said, SetPreservedCondition)
    assert said.patch["status"]["conditions"][0]["reason"] == reason


@pytest.mark.parametrize(
    ("look", "until"),
    [
        pytest.param(seen(of("Running", "now"), at()), NEW, id="one that begins"),
        pytest.param(seen(of("Running", "now", until=LATER), at()), None, id="not one that goes on"),
        pytest.param(seen(of("Running", "now", deleted=minutes(1)), at()), None, id="nor of one that is being deleted"),
        pytest.param(seen(of("Running", "now"), at(), unreachable="target"), None, id="nor while its node cannot be seen"),
    ],
)  # fmt: skip
def test_an_expiry_is_written_for(look: Seen, until: datetime | None) -> None:
    assert new_expiry(look, Phase.RUNNING) == until


@pytest.mark.parametrize(
    ("made", "expect"),
    [
        pytest.param(of("Failed", last="now", until=LATER), True, id="its node asked for it"),
        pytest.param(of("Failed", last="now"), False, id="and it has not begun"),
        pytest.param(of("Failed", "now", until=LATER), False, id="the machine's annotation asked"),
        pytest.param(of("Failed", last="now", until=LATER, vm=False), False, id="it has no node"),
    ],
)
def test_a_machine_is_preserved_by_its_node(made: Machine, expect: bool) -> None:
    assert asked_by_node(made) is expect


@pytest.mark.parametrize(
    ("made", "where", "expect"),
    [
        pytest.param(KEPT, at(tainted=True), True, id="that is Failed and preserved, when new pods stay away"),
        pytest.param(KEPT, at(), False, id="not before"),
        pytest.param(KEPT, None, False, id="nor without a node"),
        pytest.param(of("Failed", "now"), at(tainted=True), False, id="nor before its expiry is written"),
        pytest.param(of("Running", "now", until=LATER), at(tainted=True), False, id="nor while it runs"),
    ],
)  # fmt: skip
def test_the_node_of_a_machine_is_drained(made: Machine, where: Node | None, expect: bool) -> None:
    assert drains_preserved(made, where) is expect


@pytest.mark.parametrize(
    ("look", "wake"),
    [
        pytest.param(seen(of("Running"), at()), None, id="not when it is not preserved"),
        pytest.param(seen(of("Running", "now"), at()), timedelta(seconds=1), id="when the preservation has begun"),
        pytest.param(seen(KEPT, at()), timedelta(hours=1, milliseconds=1), id="when it expires"),
        pytest.param(seen(of("Failed", "now", until=NOW), at()), None, id="not when it has"),
        pytest.param(seen(KEPT, at(), drain=BUSY), timedelta(seconds=5), id="sooner during a drain"),
        pytest.param(seen(KEPT, at(), drain=DrainPlan(done=True)), timedelta(hours=1, milliseconds=1), id="not after it"),
    ],
)  # fmt: skip
def test_it_is_looked_at_again(look: Seen, wake: timedelta | None) -> None:
    assert next_look(look) == wake


@pytest.mark.parametrize(
    ("own", "theirs", "what"),
    [("", "", ""), ("now", "false", ""), ("odd", "", "machine"), ("", "odd", "node")],
)
def test_an_unknown_value_is_named_with_those_that_are_known(own: str, theirs: str, what: str) -> None:
    values = '"now", "when-failed", "auto-preserved", "false"'
    text = f'The {what}\'s annotation {PRESERVE} is "odd", and none of {values}'
    assert invalid_annotation(seen(of("Running", own), at(theirs))) == (text if what else "")


TAINTED = {"key": names.PRESERVED_TAINT, "effect": "NoSchedule", "timeAdded": "2030-01-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("phase", "tainted", "taints"),
    [
        pytest.param(Phase.FAILED, False, {"taints": [TAINTED]}, id="once it is Failed new pods stay away"),
        pytest.param(Phase.RUNNING, True, {"taints": None}, id="and come again when it runs"),
        pytest.param(Phase.UNKNOWN, True, None, id="not while it is Unknown"),
    ],
)
def test_the_taint_of_a_preserved_node(phase: Phase, tainted: bool, taints: Any) -> None:
    patch = node_marks.preserved(at(tainted=tainted), NOW, phase)
    assert patch["metadata"]["annotations"] == {CALM: "true", BY_US: "true"}
    assert patch.get("spec") == taints


@pytest.mark.parametrize("drop", [True, False])
def test_the_annotation_that_asked_for_it_stays_unless_its_time_is_over(drop: bool) -> None:
    patch = node_marks.unpreserved(at("now", calm=True, ours=True), drop=drop)
    asked = {PRESERVE: None} if drop else {}
    assert patch == {"metadata": {"annotations": {CALM: None, BY_US: None, **asked}}}


def test_when_a_taint_of_the_template_was_added_is_no_part_of_what_is_remembered() -> None:
    taint = Taint(key="a", effect="NoSchedule", time_added=NOW)
    template = NodeTemplateSpec(metadata=ObjectMeta(), spec=NodeSpec(taints=(taint,)))
    made = machine("Running", node_template=template)
    notes = node_marks.sync_node(node(), made)["metadata"]["annotations"]
    assert notes == {
        names.LAST_APPLIED_ANNOTATION: '{"metadata":{},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}'
    }
