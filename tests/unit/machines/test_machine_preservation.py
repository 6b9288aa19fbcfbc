"""A machine that people want to keep: what is decided about it, look by look (PRE-01 to PRE-12)."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeCondition, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import OperationState, OperationType, Phase, Preserve
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.api.meta import OwnerReference
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.preservation import Preservation, drains_preserved, requested
from kubewright.machines.machine.seen import (
    Annotate,
    EndPreservation,
    Report,
    SetPreservationMarks,
    SetPreservedCondition,
)
from kubewright.machines.machine.states import machine_status
from kubewright.nodes.drain.plan import DrainPlan, Held, Obstacle
from kubewright.testing.scenes import ENSURED, NOW, POD, READY, SILENT, machine, minutes, node, seen

PRESERVE, LAST = names.PRESERVE_ANNOTATION, names.LAST_APPLIED_PRESERVE_ANNOTATION
CALM, BY_US = names.SCALE_DOWN_DISABLED_ANNOTATION, names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION
LATER, PAST = NOW + timedelta(hours=1), NOW - timedelta(seconds=1)
TAINT = Taint(key=names.PRESERVED_TAINT, effect="NoSchedule", time_added=NOW)
UNTIL = "Machine preserved until 2030-01-01T13:00:00Z."
FAIL = Report(Phase.FAILED, OperationType.HEALTH_CHECK, OperationState.FAILED, "sick")


def of(phase: str, own: str = "", *, last: str = "", until: datetime | None = None, **spec: Any) -> Machine:
    """A machine; ``own`` its annotation, ``last`` what its node asked for last."""
    made = machine(phase, **spec)
    asked = {key: value for key, value in ((PRESERVE, own), (LAST, last)) if value}
    meta = structs.replace(made.metadata, annotations={**made.metadata.annotations, **asked})
    current = structs.replace(made.status.current_status, preserve_expiry_time=until)
    return structs.replace(made, metadata=meta, status=structs.replace(made.status, current_status=current))


def says(message: str, status: str = "True", reason: str = "Preserved by user.") -> NodeCondition:
    return NodeCondition(type="Preserved", status=status, reason=reason, message=message)


def at(said: str = "", *conditions: NodeCondition, sick: bool = False, **notes: bool) -> Node:
    """A node; ``said`` its annotation. ``calm``, ``ours``, ``tainted``: the marks that it has."""
    marked = (TAINT,) if notes.get("tainted") else ()
    made = node(SILENT if sick else READY, *conditions, taints=marked)
    keys = ((PRESERVE, said), (CALM, notes.get("calm") and "true"), (BY_US, notes.get("ours") and "true"))
    found = {key: str(value) for key, value in keys if value}
    return structs.replace(made, metadata=structs.replace(made.metadata, annotations=found))


REQUESTS = [
    # phase, machine's annotation, node's last word, node, expiry -> until, drop, value, by the node
    ("no annotation", "Failed", "", "", at(), None, None, False, None, False),
    ("now, while all is well", "Running", "now", "", at(), None, "new", False, Preserve.NOW, False),
    ("when-failed, while all is well", "Running", "when-failed", "", at(), None, None, False, Preserve.WHEN_FAILED, False),
    ("when-failed, and it failed", "Failed", "when-failed", "", at(), None, "new", False, Preserve.WHEN_FAILED, False),
    ("when-failed, and it recovered", "Running", "when-failed", "", at(), LATER, None, False, Preserve.WHEN_FAILED, False),
    ("an expiry is never moved", "Failed", "now", "", at(), LATER, LATER, False, Preserve.NOW, False),
    ("also in the moment in which it is", "Running", "now", "", at(), NOW, None, True, Preserve.NOW, False),
    ("now, and its time is over", "Running", "now", "", at(), PAST, None, True, Preserve.NOW, False),
    ("when-failed, and its time is over", "Failed", "when-failed", "", at(), PAST, None, True, Preserve.WHEN_FAILED, False),
    ("false ends it, and stays", "Failed", "false", "", at(), LATER, None, False, None, False),
    ("false stays when the time is over", "Failed", "false", "", at(), PAST, None, False, Preserve.FALSE, False),
    ("the annotation was taken off", "Failed", "", "", at(), LATER, None, False, None, False),
    ("auto-preserved, and it failed", "Failed", "auto-preserved", "", at(), None, "new", False, Preserve.AUTO, False),
    ("auto-preserved, and it recovered", "Running", "auto-preserved", "", at(), LATER, None, True, Preserve.AUTO, False),
    ("the node asks", "Running", "", "", at("now"), None, "new", False, Preserve.NOW, True),
    ("when it fails", "Failed", "", "", at("when-failed"), None, "new", False, Preserve.WHEN_FAILED, True),
    ("the set, by the node", "Failed", "", "", at("auto-preserved"), None, "new", False, Preserve.AUTO, True),
    ("until its time is over", "Failed", "", "", at("now"), PAST, None, True, Preserve.NOW, True),
    ("the node overrides the machine", "Failed", "now", "", at("false"), LATER, None, False, None, True),
    ("the node took back what it had said", "Failed", "now", "now", at(), LATER, None, False, None, True),
    ("a node that never said anything leaves it to the machine", "Failed", "now", "", at(), None, "new", False, Preserve.NOW, False),
    ("without a node the machine's own counts", "Failed", "now", "false", None, None, "new", False, Preserve.NOW, False),
    ("what cannot be read begins nothing", "Failed", "forever", "", at(), None, None, False, None, False),
    ("nor on the node", "Failed", "", "", at("yes"), None, None, False, None, False),
    ("on the node it leaves it to the machine", "Failed", "now", "", at("yes"), None, "new", False, Preserve.NOW, False),
    ("nor does it end what goes on", "Failed", "", "now", at("yes"), LATER, LATER, False, Preserve.NOW, False),
    ("but time does", "Failed", "", "now", at("yes"), PAST, None, True, Preserve.NOW, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "own", "last", "where", "expiry", "until", "drop", "value", "by_its_node"),
    [case[1:] for case in REQUESTS],
    ids=[case[0] for case in REQUESTS],
)
def test_what_is_wanted(
    phase: str,
    own: str,
    last: str,
    where: Node | None,
    expiry: Any,
    until: Any,
    drop: bool,
    value: Preserve | None,
    by_its_node: bool,
) -> None:
    found = requested(seen(of(phase, own, last=last, until=expiry), where), Phase(phase))
    end = NOW + timedelta(hours=96) if until == "new" else until
    assert found == Preservation(end, drop, value, by_its_node)


def test_the_machines_own_timeout_counts() -> None:
    found = requested(seen(of("Running", "now", machine_preserve_timeout="2h"), at()), Phase.RUNNING)
    assert found.until == NOW + timedelta(hours=2)


def test_a_machine_that_fails_is_preserved_in_the_same_write() -> None:
    """A set that saw it Failed and without an expiry would delete it (defect 35)."""
    look = seen(of("Unknown"), at("when-failed", sick=True))
    assert machine_status(look, FAIL, NOW).current_status.preserve_expiry_time == NOW + timedelta(hours=96)
    assert machine_status(look, None, NOW).current_status.preserve_expiry_time is None


def test_deletion_ends_a_preservation() -> None:
    going = Report(Phase.TERMINATING, OperationType.DELETE, OperationState.PROCESSING, "draining")
    dying = of("Failed", "now", until=LATER, deleted=minutes(1))
    assert machine_status(seen(dying, at()), going, NOW).current_status.preserve_expiry_time is None


def test_nothing_begins_while_a_cluster_cannot_be_seen() -> None:
    look = seen(of("Running", "now"), at(), unreachable="target")
    assert machine_status(look, None, NOW).current_status.preserve_expiry_time is None


def steps(look: Any) -> list[Any]:
    return list(decide(look).steps)


def test_the_autoscaler_is_reported_to_leave_it_alone() -> None:
    marked, said = steps(seen(of("Running", "now", until=LATER), at()))
    assert marked == SetPreservationMarks({"metadata": {"annotations": {CALM: "true", BY_US: "true"}}})
    assert said.patch["status"]["conditions"][0]["message"] == UNTIL
    assert said.patch["status"]["conditions"][0]["reason"] == "Preserved by user."


def test_what_a_person_told_the_autoscaler_is_not_made_ours() -> None:
    (said,) = steps(seen(of("Running", "now", until=LATER), at(calm=True)))
    assert isinstance(said, SetPreservedCondition)


def test_a_failed_machine_takes_no_new_pods_and_the_old_ones_leave() -> None:
    kept = of("Failed", "now", until=LATER)
    (marked,) = steps(seen(kept, at(sick=True, calm=True)))
    assert [taint["key"] for taint in marked.patch["spec"]["taints"]] == [names.PRESERVED_TAINT]
    assert not drains_preserved(kept, at(sick=True))
    assert drains_preserved(kept, at(sick=True, tainted=True))
    busy = DrainPlan(evict=(POD,), wake=timedelta(seconds=5))
    found = steps(seen(kept, at("", says(UNTIL), sick=True, tainted=True, calm=True), drain=busy))
    assert [type(step).__name__ for step in found] == ["Drain"]


def test_the_condition_says_how_the_drain_ended() -> None:
    kept, where = of("Failed", "now", until=LATER), at("", says(UNTIL), sick=True, tainted=True, calm=True)
    (said,) = steps(seen(kept, where, drain=DrainPlan(done=True)))
    told = said.patch["status"]["conditions"][0]
    assert (told["status"], told["message"]) == ("True", f"Preserved node drained successfully. {UNTIL}")
    over = at("", says(told["message"]), sick=True, tainted=True, calm=True)
    assert not drains_preserved(kept, over)
    assert steps(seen(kept, over)) == []
    held = (Held(Obstacle("no pod may go", firm=True), ("default/web",)),)
    (said,) = steps(seen(kept, where, drain=DrainPlan(waiting=(POD,), held=held)))
    told = said.patch["status"]["conditions"][0]
    assert told["status"] == "False"
    assert told["message"].startswith("Preserved node could not be drained. error while evicting pod ")


def test_who_runs_again_takes_pods_again() -> None:
    (marked,) = steps(seen(of("Running", "now", until=LATER), at("", says(UNTIL), tainted=True, calm=True)))
    assert marked.patch["spec"]["taints"] is None


def test_the_node_in_control_leaves_only_a_memory_on_the_machine() -> None:
    note, *_ = steps(seen(of("Running", "when-failed"), at("false")))
    assert note == Annotate({"annotations": {PRESERVE: None, LAST: "false"}})
    note, *_ = steps(seen(of("Running", last="now"), at()))
    assert note == Annotate({"annotations": {LAST: None}})


def test_what_is_over_is_undone_and_the_expiry_goes_last() -> None:
    over = of("Failed", "now", last="now", until=PAST)
    where = at("now", says(UNTIL), sick=True, tainted=True, calm=True, ours=True)
    marked, said, note = steps(seen(over, where))
    assert marked.patch["metadata"]["annotations"] == {CALM: None, BY_US: None, PRESERVE: None}
    assert marked.patch["spec"]["taints"] is None
    assert said.patch["status"]["conditions"][0]["reason"] == "Preservation stopped."
    assert note == Annotate({"annotations": {PRESERVE: None, LAST: None}})
    clean = seen(of("Failed", until=PAST), at("", says("", "False", "Preservation stopped."), sick=True))
    (end,) = steps(clean)
    assert isinstance(end, EndPreservation)
    assert "its time is over" in end.because


def test_a_failed_machine_of_a_set_keeps_its_past_expiry_for_the_set_to_read() -> None:
    """Else a set that may keep what fails would keep it anew, and for ever."""
    owner = OwnerReference(kind="MachineSet", name="s", uid="s1", controller=True)
    where = at("", says("", "False", "Preservation stopped."), sick=True)
    for expiry in (NOW, PAST):
        over = of("Failed", until=expiry)
        over = structs.replace(over, metadata=structs.replace(over.metadata, owner_references=(owner,)))
        assert steps(seen(over, where)) == []
    recovered = structs.replace(over.status.current_status, phase="Running")
    over = structs.replace(over, status=structs.replace(over.status, current_status=recovered))
    assert [type(step) for step in steps(seen(over, where))] == [EndPreservation]


def test_cut_anywhere_the_end_goes_on() -> None:
    """The node is clean already; the machine still carries its annotation: it must not begin anew."""
    look = seen(
        of("Failed", "now", until=PAST), at("", says("", "False", "Preservation stopped."), sick=True)
    )
    assert steps(look) == [Annotate({"annotations": {PRESERVE: None}})]
    assert machine_status(look, None, NOW).current_status.preserve_expiry_time == PAST


def test_a_persons_word_to_the_autoscaler_outlives_it() -> None:
    marked, *_ = steps(
        seen(of("Failed", until=LATER), at("", says(UNTIL), calm=True, tainted=True, sick=True))
    )
    assert CALM not in marked.patch.get("metadata", {}).get("annotations", {})


def test_it_is_awake_when_it_ends() -> None:
    where = at("", says(UNTIL), calm=True)
    assert decide(seen(of("Running", "now", until=LATER), where)).wake == minutes(60) + timedelta(
        milliseconds=1
    )
    assert decide(seen(of("Running", "now"), at())).wake == timedelta(seconds=1)


def test_what_cannot_be_read_is_reported() -> None:
    plan = decide(seen(of("Running", "forever"), at()))
    assert plan.warning is not None
    assert plan.warning[1].startswith(f'The machine\'s annotation {PRESERVE} is "forever", and none of ')
    assert all(value.value in plan.warning[1] for value in Preserve)
    assert plan.topics == {plan.warning[1]}


def test_what_cannot_be_read_is_reported_when_nothing_else_is() -> None:
    joined = decide(seen(of("", "forever"), at(), vm=ENSURED))
    assert joined.report is not None
    assert joined.warning is None


def test_a_plan_tells_until_when_a_machine_that_fails_now_is_preserved() -> None:
    until = "; it is preserved until 2030-01-05T12:00:00Z"
    plain = seen(of("Unknown", since=minutes(11)), at(sick=True))
    asked = replace(plain, machine=of("Unknown", "when-failed", since=minutes(11)))
    assert decide(asked).because == decide(plain).because + until
    waiting = seen(of("Unknown", "when-failed"), at(sick=True))
    assert until not in decide(waiting).because


def test_a_machine_without_the_annotation_is_not_looked_at_twice() -> None:
    plan = decide(seen(machine("Running"), node()))
    assert (plan.steps, plan.wake) == ((), None)
