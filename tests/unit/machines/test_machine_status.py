"""What a machine's status says: written when something changed, left alone otherwise."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeCondition, NodeStatus
from kubewright.api.machine.names import OperationState, OperationType, Phase
from kubewright.api.machine.v1alpha1 import CurrentStatus, LastOperation, Machine, MachineStatus
from kubewright.api.meta import ObjectMeta
from kubewright.driver.life.seen import VmSeen
from kubewright.machines.machine.seen import Report, Seen
from kubewright.machines.machine.states import machine_status
from kubewright.machines.settings import MachineSettings

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
READY = NodeCondition(type="Ready", status="True", last_heartbeat_time=NOW)
REFUSED = Report(
    Phase.CRASH_LOOP_BACK_OFF, OperationType.CREATE, OperationState.FAILED, "no (request 1)", "Internal"
)


def seen(status: MachineStatus, *conditions: NodeCondition) -> Seen:
    machine = Machine(metadata=ObjectMeta(name="m1", uid="u1"), status=status)
    node = Node(status=NodeStatus(conditions=conditions)) if conditions else None
    return Seen(machine=machine, settings=MachineSettings(), now=NOW, wall=NOW, node=node)


def failed(ago: timedelta) -> MachineStatus:
    operation = LastOperation(
        description="no (request 1)",
        error_code="Internal",
        state="Failed",
        type="Create",
        last_update_time=NOW - ago,
    )
    return MachineStatus(last_operation=operation, current_status=CurrentStatus(phase="CrashLoopBackOff"))


def test_nothing_to_report_changes_nothing() -> None:
    status = failed(timedelta(minutes=1))
    assert machine_status(seen(status), None, NOW) == status


def test_the_same_report_again_changes_nothing() -> None:
    status = failed(timedelta(minutes=1))
    assert machine_status(seen(status), REFUSED, NOW) == status


@pytest.mark.parametrize(
    ("ago", "written"),
    [
        pytest.param(timedelta(minutes=1), False, id="a request id alone is no change"),
        pytest.param(timedelta(minutes=6), True, id="but an old description is refreshed"),
    ],
)
def test_words_that_differ(ago: timedelta, written: bool) -> None:
    status = failed(ago)
    report = Report(
        REFUSED.phase, REFUSED.type, REFUSED.state, "no (request 2)", REFUSED.error_code
    )  # fmt: skip
    assert (machine_status(seen(status), report, NOW) != status) is written


def test_other_words_are_written_at_once_where_the_phase_moves_on() -> None:
    """As when a boot that was said to have failed is given up: the words of the phase before are wrong."""
    status = failed(timedelta(minutes=1))
    given_up = replace(REFUSED, phase=Phase.FAILED, description="no (request 2)")
    assert machine_status(seen(status), given_up, NOW).last_operation.description == "no (request 2)"


def test_words_that_change_only_with_the_matter_are_soon_written() -> None:
    for ago, written in ((9, False), (11, True)):
        report = replace(REFUSED, description="another budget", exact=True)
        status = failed(timedelta(seconds=ago))
        assert (machine_status(seen(status), report, NOW) != status) is written


def test_a_report_is_written_whole() -> None:
    status = machine_status(seen(MachineStatus()), REFUSED, NOW)
    assert status.last_operation == LastOperation(
        description="no (request 1)",
        error_code="Internal",
        last_update_time=NOW,
        state="Failed",
        type="Create",
    )


@pytest.mark.parametrize(
    ("told", "written"),
    [
        pytest.param("3 pods are leaving. Soon. Draining", False, id="the same step"),
        pytest.param("2 pods are leaving. Late. Deleting", True, id="another step"),
    ],
)
def test_other_words_of_what_goes_on_wait_unless_they_name(told: str, written: bool) -> None:
    report = Report(
        Phase.TERMINATING,
        OperationType.DELETE,
        OperationState.PROCESSING,
        "2 pods are leaving. Late. Draining",
    )
    before = machine_status(seen(MachineStatus()), report, NOW - timedelta(seconds=5))
    after = machine_status(seen(before), replace(report, description=told), NOW)
    assert (after.last_operation != before.last_operation) is written


def test_a_description_of_five_minutes_is_old() -> None:
    report = replace(REFUSED, description="no (request 2)")
    assert (
        machine_status(seen(failed(timedelta(minutes=5))), report, NOW).last_operation.last_update_time == NOW
    )


@pytest.mark.parametrize(
    ("phase", "report", "copied"),
    [
        pytest.param("Running", None, True, id="of a machine that runs"),
        pytest.param("Pending", None, False, id="not while it joins"),
        pytest.param("Pending", REFUSED, True, id="unless there is something to report"),
    ],
)
def test_conditions_of_the_node_are_copied(phase: str, report: Report | None, copied: bool) -> None:
    before = MachineStatus(current_status=CurrentStatus(phase=phase))
    assert machine_status(seen(before, READY), report, NOW).conditions == ((READY,) if copied else ())


def test_the_reason_of_an_update_in_place_is_copied() -> None:
    old, new = (NodeCondition(type="InPlaceUpdate", status="True", reason=reason) for reason in "ab")
    before = MachineStatus(conditions=(old,), current_status=CurrentStatus(phase="Running"))
    assert machine_status(seen(before, new), None, NOW).conditions == (new,)


def test_the_node_is_awaited_only_while_the_machine_is_pending() -> None:
    sick = Report(
        Phase.UNKNOWN, OperationType.HEALTH_CHECK, OperationState.PROCESSING, "silent", joining=True
    )
    before = MachineStatus(current_status=CurrentStatus(phase="Unknown"))
    assert not machine_status(seen(before), sick, NOW).current_status.timeout_active


def test_a_new_phase_starts_its_clock() -> None:
    report = Report(Phase.UNKNOWN, OperationType.HEALTH_CHECK, OperationState.PROCESSING, "silent")
    status = machine_status(seen(MachineStatus(current_status=CurrentStatus(phase="Running"))), report, NOW)
    assert status.current_status.phase == "Unknown"
    assert status.current_status.last_update_time == NOW


def test_the_same_phase_keeps_its_clock() -> None:
    began = NOW - timedelta(minutes=5)
    status = MachineStatus(current_status=CurrentStatus(phase="Unknown", last_update_time=began))
    report = Report(Phase.UNKNOWN, OperationType.HEALTH_CHECK, OperationState.PROCESSING, "still silent")
    assert machine_status(seen(status), report, NOW).current_status.last_update_time == began


@pytest.mark.parametrize("joining", [True, False], ids=["its node is waited for", "its VM is being made"])
def test_a_pending_machine_says_whether_its_vm_is_made(joining: bool) -> None:
    report = Report(Phase.PENDING, OperationType.CREATE, OperationState.PROCESSING, "made", joining=joining)
    assert machine_status(seen(MachineStatus()), report, NOW).current_status.timeout_active is joining


def test_a_machine_that_is_pending_already_begins_to_wait_for_its_node() -> None:
    began = NOW - timedelta(minutes=5)
    status = MachineStatus(current_status=CurrentStatus(phase="Pending", last_update_time=began))
    report = Report(Phase.PENDING, OperationType.CREATE, OperationState.PROCESSING, "made", joining=True)
    current = machine_status(seen(status), report, NOW).current_status
    assert (current.timeout_active, current.last_update_time) == (True, began)


def test_the_end_of_a_preservation_is_not_ours_to_drop() -> None:
    status = MachineStatus(current_status=CurrentStatus(phase="Running", preserve_expiry_time=NOW))
    report = Report(Phase.UNKNOWN, OperationType.HEALTH_CHECK, OperationState.PROCESSING, "silent")
    assert machine_status(seen(status), report, NOW).current_status.preserve_expiry_time == NOW


def test_heartbeats_are_not_copied() -> None:
    old = structs.replace(READY, last_heartbeat_time=NOW - timedelta(minutes=1))
    status = MachineStatus(conditions=(old,), current_status=CurrentStatus(phase="Running"))
    assert machine_status(seen(status, READY), None, NOW) == status


def test_a_condition_that_turns_is_copied() -> None:
    status = MachineStatus(conditions=(READY,), current_status=CurrentStatus(phase="Running"))
    silent = structs.replace(READY, status="Unknown")
    assert machine_status(seen(status, silent), None, NOW).conditions == (silent,)


@pytest.mark.parametrize(
    ("was", "is_now", "ago", "written"),
    [
        pytest.param(
            "3 left. Initiate node drain", "2 left. Initiate node drain", 3, False, id="progress waits"
        ),
        pytest.param(
            "3 left. Initiate node drain", "2 left. Initiate node drain", 11, True, id="but not long"
        ),
        pytest.param(
            "1 left. Initiate node drain", "gone. Initiate VM deletion", 3, True, id="a step does not"
        ),
    ],
)
def test_progress(was: str, is_now: str, ago: int, written: bool) -> None:
    operation = LastOperation(
        description=was, state="Processing", type="Delete", last_update_time=NOW - timedelta(seconds=ago)
    )
    status = MachineStatus(last_operation=operation, current_status=CurrentStatus(phase="Terminating"))
    report = Report(Phase.TERMINATING, OperationType.DELETE, OperationState.PROCESSING, is_now)
    assert (machine_status(seen(status), report, NOW) != status) is written


MADE = Report(Phase.PENDING, OperationType.CREATE, OperationState.PROCESSING, "made")


@pytest.mark.parametrize("report", [MADE, None], ids=["with a report", "without one"])
@pytest.mark.parametrize(
    ("left", "written"),
    [
        pytest.param("half", "half", id="a new state is written"),
        pytest.param("", "", id="a void one is removed"),
        pytest.param(None, "old", id="else the one on record stays"),
    ],
)
def test_what_a_driver_leaves_is_written(report: Report | None, left: str | None, written: str) -> None:
    of = seen(MachineStatus(last_known_state="old")).machine
    picture = Seen(
        machine=of, settings=MachineSettings(), now=NOW, wall=NOW, vm=VmSeen(last_known_state=left)
    )
    assert machine_status(picture, report, NOW).last_known_state == written
