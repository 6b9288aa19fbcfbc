"""A VM whose boot fails says so on its console: the machine says it at once, and is given up after a while."""

from datetime import timedelta

import pytest

from kubewright.api.machine.names import OperationState, OperationType, Phase
from kubewright.api.machine.v1alpha1 import LastOperation, Machine
from kubewright.driver.answers import NOTHING_WRITTEN
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.living import awaits_boot
from kubewright.machines.machine.seen import Begun, Seen
from kubewright.testing.scenes import ENSURED, NOW, SILENT, being_made, machine, minutes, node, seen

FAILED = "cloud-init[9]: 2030-01-01 11:58:00,000 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (x)"
AWAITED = "VM created on cloud provider. Waiting for node registration"
SAID = "Machine m1 has not joined the cluster: cloud-init failed in module scripts-user.\n" + (
    f"The end of its VM's console:\n{FAILED}"
)
GIVEN_UP = SAID.replace("has not joined", "failed to join")
FIRST, AGAIN = timedelta(seconds=5), timedelta(seconds=15)


def booting(since: timedelta = timedelta(minutes=1), failed: timedelta | None = None) -> Machine:
    """A machine whose VM boots; ``failed``: how long ago that was said to have failed."""
    operation = LastOperation(description=AWAITED, type=OperationType.CREATE, state=OperationState.PROCESSING)
    if failed is not None:
        operation = LastOperation(
            description=SAID,
            type=OperationType.CREATE,
            state=OperationState.FAILED,
            last_update_time=NOW - failed,
        )
    return machine(Phase.PENDING, age=minutes(5), since=since, operation=operation)


def look(of: Machine, console: str = "", **more: object) -> Seen:
    return seen(of, vm=ENSURED, console=console, **more)


LEFT = minutes(15) + timedelta(milliseconds=1)
CASES = [
    ("it has just begun to boot", look(booting(timedelta(seconds=10))), None, "", FIRST),
    ("its driver shows no console", look(booting()), None, "", LEFT),
    ("it has written nothing yet", look(booting(), NOTHING_WRITTEN), None, "", AGAIN),
    ("it boots", look(booting(), "[  OK  ] Reached target multi-user.target"), None, "", AGAIN),
    ("its boot has failed", look(booting(), FAILED), Phase.PENDING, SAID, AGAIN),
    ("that was said a minute ago", look(booting(failed=minutes(1)), FAILED), Phase.PENDING, SAID, AGAIN),
    ("it is soon given up", look(booting(failed=minutes(1.9)), FAILED), Phase.PENDING, SAID, timedelta(seconds=6.001)),
    ("it is given up", look(booting(failed=minutes(2.1)), FAILED), Phase.FAILED, GIVEN_UP, "any"),
    ("it was booted anew", look(booting(failed=minutes(9)), f"{FAILED}\nLinux version 6.1.0"), Phase.PENDING, AWAITED, AGAIN),
    ("for now its console is not shown", look(booting(failed=minutes(9))), None, "", LEFT),
    ("this process saw it fail later than the date says",
     look(booting(failed=minutes(9)), FAILED, begun=Begun(boot_since=NOW - minutes(1))), Phase.PENDING, SAID, AGAIN),
    ("nothing could be watched meanwhile",
     look(booting(failed=minutes(9)), FAILED, visible_since=NOW - minutes(1)), Phase.PENDING, SAID, AGAIN),
]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "phase", "says", "wake"), [each[1:] for each in CASES], ids=[each[0] for each in CASES]
)
def test_a_boot_that_fails_is_told_at_once_and_ends_after_a_while(found, phase, says, wake):
    plan = decide(found)
    report = plan.report
    assert (report and report.phase, report.description if report else "") == (phase, says)
    assert wake in ("any", plan.wake)


def test_a_boot_that_failed_is_an_event_with_the_last_line_of_the_console():
    reason, text = decide(look(booting(), FAILED)).warning
    assert (reason, text.splitlines()) == ("BootFailed", [text])
    assert text.endswith(f"Its VM's console ends with: {FAILED}")
    assert decide(look(booting(), FAILED)).milestone is None, "that its VM exists was told when it came"


def test_a_node_that_joins_although_its_boot_failed_makes_the_machine_run():
    found = seen(booting(failed=minutes(1)), node(), vm=ENSURED)
    assert decide(found).report.phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("found", "awaits"),
    [
        pytest.param(look(booting()), True, id="it boots"),
        pytest.param(look(booting(timedelta(seconds=10))), False, id="for ten seconds"),
        pytest.param(seen(booting(), node(SILENT), vm=ENSURED), False, id="it is a node that is not well yet"),
        pytest.param(look(machine(Phase.RUNNING)), False, id="it has run"),
        pytest.param(look(being_made()), False, id="it is being made"),
        pytest.param(look(booting(), unreachable="target"), False, id="nodes cannot be seen"),
        pytest.param(look(machine(Phase.PENDING, deleted=minutes(1))), False, id="it is being deleted"),
    ],
)  # fmt: skip
def test_the_console_is_read_while_a_vm_boots_and_no_longer(found, awaits):
    assert awaits_boot(found) is awaits
