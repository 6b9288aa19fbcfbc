"""An update of a node in place, from the machine's side: each row of the table of marks, and the drain."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase, UpdateReason
from kubewright.base import delays
from kubewright.base.plan import AT_ONCE
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.living import drains_for_update, update_in_place
from kubewright.machines.machine.look import drain_began
from kubewright.machines.machine.seen import Begun, Drain, Seen, SetUpdateCondition
from kubewright.machines.settings import ReplacementCounts, counts_as_replaced
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.volumes import Attachment
from kubewright.testing.scenes import NOW, POD, READY, SILENT, machine, minutes, node, seen

CANDIDATE, SELECTED = {names.CANDIDATE_LABEL: "true"}, {names.SELECTED_LABEL: "true"}
BOTH = CANDIDATE | SELECTED
GOOD, BAD = ({names.UPDATE_RESULT_LABEL: said} for said in ("successful", "failed"))
BUSY = DrainPlan(evict=(POD,), waiting=(POD,), wake=timedelta(seconds=5))
EMPTY = DrainPlan(done=True)


def at(
    labels: dict[str, str],
    reason: str = "",
    *conditions: NodeCondition,
    cordoned: bool = False,
    why: str = "",
) -> Node:
    """A node with these labels, whose condition InPlaceUpdate has this reason."""
    said = NodeCondition(type="InPlaceUpdate", status="True", reason=reason, last_transition_time=NOW)
    found = node(*(conditions or (READY,)), *([said] if reason else []), cordoned=cordoned)
    noted = {names.UPDATE_FAILED_REASON_ANNOTATION: why} if why else {}
    meta = structs.replace(found.metadata, labels={**found.metadata.labels, **labels}, annotations=noted)
    return structs.replace(found, metadata=meta)


def condition(look: Seen) -> tuple[str, str] | None:
    """Reason and message of the condition that is written next; None: another plan, or none."""
    plan = update_in_place(look)
    wrote = [step for step in plan.steps if isinstance(step, SetUpdateCondition)] if plan is not None else []
    if not wrote:
        return None
    said = wrote[0].patch["status"]["conditions"][0]
    return said["reason"], said["message"]


A_CANDIDATE = ("CandidateForUpdate", "Node is a candidate for in-place update")
A_SELECTED = ("SelectedForUpdate", "Node is selected for in-place update")
DRAINED = ("DrainSuccessful", "Node draining successful")
READIED = ("ReadyForUpdate", "Node is ready for in-place update")
UPDATED = ("UpdateSuccessful", "Node in-place update successful")
BROKEN = ("UpdateFailed", "Node in-place update failed: no disk")
MARKS: list[tuple[str, str, Node, tuple[str, str] | None]] = [
    ("a node without the candidate's label is left alone", "Running", at(SELECTED), None),
    ("so is one with a result alone", "Running", at(GOOD), None),
    ("a candidate is told so", "Running", at(CANDIDATE), A_CANDIDATE),
    ("once", "Running", at(CANDIDATE, UpdateReason.CANDIDATE), None),
    ("one that was updated before is a candidate again", "Running", at(CANDIDATE, UpdateReason.SUCCESSFUL), A_CANDIDATE),
    ("a candidate that is selected is told so", "Running", at(BOTH, UpdateReason.CANDIDATE), A_SELECTED),
    ("a selection is not called off by its label", "Running", at(CANDIDATE, UpdateReason.SELECTED), None),
    ("a machine that has not joined is not updated", "Pending", at(BOTH), None),
    ("nor one that is to be replaced", "Failed", at(BOTH), None),
    ("a drained node is ready once the phase says so", "InPlaceUpdating", at(BOTH, UpdateReason.DRAINED), READIED),
    ("and not before", "Running", at(BOTH, UpdateReason.DRAINED), None),
    ("then its agent is awaited", "InPlaceUpdating", at(BOTH, UpdateReason.READY), None),
    ("a round that was called off begins anew", "Running", at(CANDIDATE, UpdateReason.READY), A_CANDIDATE),
    ("a good result is told", "Running", at(BOTH | GOOD, UpdateReason.READY), UPDATED),
    ("in any state", "Running", at(BOTH | GOOD, UpdateReason.SELECTED), UPDATED),
    ("a bad one with its reason", "InPlaceUpdateFailed", at(BOTH | BAD, UpdateReason.READY, why="no disk"), BROKEN),
    ("a result of another word is none", "InPlaceUpdating",
     at(BOTH | {names.UPDATE_RESULT_LABEL: "perhaps"}, UpdateReason.READY), None),
    ("without its result a failed update is tried again", "InPlaceUpdateFailed", at(BOTH, UpdateReason.FAILED), A_SELECTED),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "found", "says"), [c[1:] for c in MARKS], ids=[c[0] for c in MARKS])
def test_the_condition_follows_from_labels_and_condition(phase, found, says):
    assert condition(seen(machine(phase), found)) == says


def selected(*conditions: NodeCondition, **more: Any) -> Seen:
    """A Running machine whose cordoned node is selected."""
    return seen(machine("Running"), at(BOTH, UpdateReason.SELECTED, *conditions, cordoned=True), **more)


def test_a_selected_node_is_cordoned_before_its_pods_are_looked_at():
    look = seen(machine("Running"), at(BOTH, UpdateReason.SELECTED))
    assert not drains_for_update(look)
    version = {"resourceVersion": look.node.metadata.resource_version}
    assert [step.patch for step in decide(look).steps if step.patch != {}][-1] == {
        "metadata": version,
        "spec": {"unschedulable": True},
    }


def test_pods_are_listed_once_it_is_cordoned():
    assert drains_for_update(selected())


def test_also_of_a_node_whose_condition_another_program_left_without_a_date():
    look = selected()
    (ready, told) = look.node.status.conditions
    bare = structs.replace(told, last_transition_time=None)
    node = structs.replace(look.node, status=structs.replace(look.node.status, conditions=(ready, bare)))
    assert drains_for_update(replace(look, node=node))
    assert drain_began(replace(look, node=node), node) == look.phase_since


def test_the_drain_counts_from_when_this_process_saw_the_selection_whatever_its_date():
    look = selected()
    assert drain_began(look, look.node) == NOW
    later = replace(look, begun=Begun(update_since=NOW + minutes(11)))
    assert drain_began(later, look.node) == NOW + minutes(11)
    deleted = replace(later, machine=machine("Running", deleted=minutes(3)))
    assert drain_began(deleted, look.node) == NOW - minutes(3)


def test_the_condition_waits_for_the_last_pod():
    look = selected(drain=BUSY)
    assert condition(look) is None
    assert Drain(BUSY) in decide(look).steps


def test_an_empty_node_is_drained():
    assert condition(selected(drain=EMPTY)) == DRAINED


def test_volumes_of_pods_that_left_are_awaited_in_limited_time():
    held = (Attachment("a", "1"),)
    assert condition(selected(drain=EMPTY, attachments=held, drained_since=NOW)) is None
    assert condition(selected(drain=EMPTY, attachments=held, drained_since=NOW - minutes(3))) == DRAINED


def test_pods_that_cannot_be_listed_hold_the_update():
    plan = decide(selected())
    assert (plan.wake, plan.report) == (delays.REFUSED, None)


def test_a_node_that_falls_silent_while_it_is_drained_makes_its_machine_unknown():
    report = decide(selected(SILENT, drain=BUSY)).report
    assert report is not None
    assert report.phase is Phase.UNKNOWN


def test_an_unknown_machine_is_drained_on_until_its_health_timeout():
    found = at(BOTH, UpdateReason.SELECTED, SILENT, cordoned=True)
    plan = decide(seen(machine("Unknown"), found, drain=BUSY))
    assert Drain(BUSY) in plan.steps
    late = decide(seen(machine("Unknown", since=minutes(11)), found, drain=BUSY, counts=ReplacementCounts()))
    assert late.report is not None
    assert late.report.phase is Phase.FAILED


PHASES: list[tuple[str, Seen, Phase | None, str]] = [
    ("an update begins when the node is drained",
     seen(machine("Running"), at(BOTH, UpdateReason.DRAINED)), Phase.IN_PLACE_UPDATING,
     "Machine m1 is undergoing an in-place update"),
    ("the agent's good result ends it", seen(machine("InPlaceUpdating"), at(BOTH | GOOD, UpdateReason.READY)),
     Phase.IN_PLACE_UPDATE_SUCCESSFUL, "Machine m1 successfully updated dependencies"),
    ("also after a failure", seen(machine("InPlaceUpdateFailed"), at(BOTH | GOOD, UpdateReason.FAILED)),
     Phase.IN_PLACE_UPDATE_SUCCESSFUL, "Machine m1 successfully updated dependencies"),
    ("its bad result fails it", seen(machine("InPlaceUpdating"), at(BOTH | BAD, UpdateReason.READY, why="no disk")),
     Phase.IN_PLACE_UPDATE_FAILED, "Machine m1 failed to update dependencies: no disk"),
    ("a silent node that is updated is waited for",
     seen(machine("InPlaceUpdating"), at(BOTH, UpdateReason.READY, SILENT)), None, ""),
    ("so is one that is gone", seen(machine("InPlaceUpdating")), None, ""),
    ("until the time-out", seen(machine("InPlaceUpdating", since=minutes(21))), Phase.IN_PLACE_UPDATE_FAILED,
     "Machine m1 failed to in-place update in 20m0s."),
    ("of its own", seen(machine("InPlaceUpdating", since=minutes(2), in_place_update_timeout="1m")),
     Phase.IN_PLACE_UPDATE_FAILED, "Machine m1 failed to in-place update in 1m0s."),
    ("a failed update is not ended by a healthy node",
     seen(machine("InPlaceUpdateFailed"), at(BOTH | BAD, UpdateReason.FAILED)), None, ""),
    ("but by the health timeout",
     seen(machine("InPlaceUpdateFailed", since=minutes(11)), at(BOTH | BAD, UpdateReason.FAILED), counts=ReplacementCounts()),
     Phase.FAILED, "Machine m1 health checks failing since last 10m0s."),
    ("however well its node is", seen(machine("Failed"), at(BOTH, UpdateReason.READY)), None, ""),
    ("until the node is let go", seen(machine("Failed"), at({}, UpdateReason.READY)), Phase.RUNNING, "Machine m1"),
    ("or the agent has updated it after all", seen(machine("Failed"), at(BOTH | GOOD, UpdateReason.SUCCESSFUL)),
     Phase.RUNNING, "Machine m1"),
    ("unless that is disabled", seen(
        machine("InPlaceUpdateFailed", since=minutes(11), disable_health_timeout=True),
        at(BOTH | BAD, UpdateReason.FAILED)), None, ""),
    ("an updated machine with a healthy node runs",
     seen(machine("InPlaceUpdateSuccessful"), at(BOTH | GOOD, UpdateReason.SUCCESSFUL)), Phase.RUNNING, "Machine m1"),
    ("and is Unknown where the node does not come back",
     seen(machine("InPlaceUpdateSuccessful"), at(BOTH | GOOD, UpdateReason.SUCCESSFUL, SILENT)), Phase.UNKNOWN,
     "Machine m1 is unhealthy"),
]  # fmt: skip


@pytest.mark.parametrize(("look", "phase", "says"), [c[1:] for c in PHASES], ids=[c[0] for c in PHASES])
def test_the_phase(look, phase, says):
    report = decide(look).report
    assert (report.phase if report else None) == phase
    assert says in (report.description if report else "")


def test_two_machines_whose_updates_failed_do_not_hold_up_the_replacement_of_each_other():
    failed, updating = (machine(phase) for phase in ("InPlaceUpdateFailed", "InPlaceUpdating"))
    assert (counts_as_replaced(failed, ()), counts_as_replaced(updating, ())) == (False, True)


def test_a_step_comes_with_what_the_node_lacks_and_at_once():
    bare = at(CANDIDATE)
    bare = structs.replace(bare, metadata=structs.replace(bare.metadata, labels=CANDIDATE))
    plan = decide(seen(machine("Running"), bare))
    assert ([type(step).__name__ for step in plan.steps], plan.wake) == (
        ["SyncNode", "SetUpdateCondition"],
        AT_ONCE,
    )


def test_a_drain_that_waiting_does_not_end_is_told_in_the_status():
    """The phase stays: the pods may leave yet, and at the end of the drain's time they are deleted."""
    report = decide(selected(drain=DrainPlan(overdue=(POD,), waiting=(POD,), wake=delays.POLL))).report
    assert report is not None
    assert (report.phase, report.type, report.state) == (Phase.RUNNING, "DrainNode", "Processing")
    assert report.description.startswith("Drain failed due to - ")
    assert report.description.endswith(". Will retry in next sync. Initiate node drain")
