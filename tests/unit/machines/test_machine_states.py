"""The table of phases: what follows from each finding, and that no report comes from anywhere else."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from kubewright import machines
from kubewright.api.machine.names import OperationState, OperationType, Phase
from kubewright.machines.machine import states
from kubewright.machines.machine.seen import Report
from kubewright.machines.machine.states import TABLE, Finding
from kubewright.testing.scenes import ENSURED, NOW, SILENT, machine, minutes, node, seen

CREATE, HEALTH, DELETE = OperationType.CREATE, OperationType.HEALTH_CHECK, OperationType.DELETE
PROCESSING, FAILED, SUCCESSFUL = OperationState.PROCESSING, OperationState.FAILED, OperationState.SUCCESSFUL
QUOTA = "Cloud provider message - quota"

REPORTS = [
    ("a call that lasts makes it Pending", Phase.NONE, Finding.CALL_LASTS,
     Report(Phase.PENDING, CREATE, PROCESSING,
            "Creating machine on cloud provider. The driver has not answered since 2030-01-01T11:59:00Z")),
    ("a VM without a node is Pending, and its time runs", Phase.CRASH_LOOP_BACK_OFF, Finding.NODE_AWAITED,
     Report(Phase.PENDING, CREATE, PROCESSING,
            "VM created on cloud provider. Waiting for node registration", joining=True)),
    ("a VM that cannot be made is tried again", Phase.PENDING, Finding.CREATION_FAILED,
     Report(Phase.CRASH_LOOP_BACK_OFF, CREATE, FAILED, QUOTA, "ResourceExhausted")),
    ("a Failed machine stays Failed while its VM cannot be made", Phase.FAILED, Finding.CREATION_FAILED,
     Report(Phase.FAILED, CREATE, FAILED, QUOTA, "ResourceExhausted")),
    ("past its time it is Failed", Phase.CRASH_LOOP_BACK_OFF, Finding.CREATION_FAILED_LATE,
     Report(Phase.FAILED, CREATE, FAILED, QUOTA, "ResourceExhausted")),
    ("a node's name that is taken fails it", Phase.NONE, Finding.NODE_NAME_TAKEN,
     Report(Phase.FAILED, CREATE, FAILED, "VM using old node obj")),
    ("a driver that does not answer in time fails it", Phase.PENDING, Finding.NOT_CREATED,
     Report(Phase.FAILED, CREATE, FAILED, "Machine m1 was not created in 20m0s: the driver has not answered "
            "since 2030-01-01T11:59:00Z", "DeadlineExceeded")),
    ("a node that does not join in time fails it", Phase.PENDING, Finding.NOT_JOINED,
     Report(Phase.FAILED, CREATE, FAILED, "Machine m1 failed to join the cluster in 20m0s.")),
    ("a VM that joins no cluster makes it Available", Phase.PENDING, Finding.VM_COMPLETE,
     Report(Phase.AVAILABLE, CREATE, SUCCESSFUL, "Created machine on cloud provider")),
    ("a node that joins makes it Running", Phase.PENDING, Finding.JOINED,
     Report(Phase.RUNNING, CREATE, SUCCESSFUL, "Machine m1 successfully joined the cluster in 3m0s")),
    ("a node that recovers makes it Running", Phase.FAILED, Finding.RECOVERED,
     Report(Phase.RUNNING, HEALTH, SUCCESSFUL, "Machine m1 successfully re-joined the cluster")),
    ("a node that is gone makes it Unknown", Phase.RUNNING, Finding.NODE_MISSING,
     Report(Phase.UNKNOWN, HEALTH, PROCESSING,
            "Node object went missing. Machine m1 is unhealthy - changing MachinePhase to Unknown")),
    ("a node that is unhealthy makes it Unknown", Phase.RUNNING, Finding.NODE_UNHEALTHY,
     Report(Phase.UNKNOWN, HEALTH, PROCESSING, "Machine m1 is unhealthy - changing MachinePhase to Unknown. "
            "Node conditions: Ready is Unknown (NodeStatusUnknown)")),
    ("an Unknown machine fails after its time", Phase.UNKNOWN, Finding.HEALTH_TIMEOUT,
     Report(Phase.FAILED, HEALTH, FAILED, "Machine m1 health checks failing since last 10m0s. Updating machine "
            "phase to Failed. Node Conditions: Ready is Unknown (NodeStatusUnknown)")),
    ("a deletion that lasts", Phase.RUNNING, Finding.DELETION_GOES_ON,
     Report(Phase.TERMINATING, DELETE, PROCESSING, QUOTA, "ResourceExhausted")),
    ("a deletion that fails", Phase.NONE, Finding.DELETION_FAILS,
     Report(Phase.TERMINATING, DELETE, FAILED, QUOTA, "ResourceExhausted")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "finding", "report"), [c[1:] for c in REPORTS], ids=[c[0] for c in REPORTS]
)
def test_what_follows_from_a_finding(phase, finding, report):
    picture = seen(machine(phase, age=minutes(3)), node(SILENT), vm=replace(ENSURED, began=NOW - minutes(1)))
    said = "{text}" in states.row(phase, finding).text
    assert states.report(picture, finding, *((QUOTA, "ResourceExhausted") if said else ())) == report


@pytest.mark.parametrize(
    ("phase", "finding", "told"),
    [
        (Phase.PENDING, Finding.NOT_JOINED, True),
        (Phase.UNKNOWN, Finding.HEALTH_TIMEOUT, True),
        (Phase.UNKNOWN, Finding.RECOVERED, False),
    ],
)
def test_a_machine_that_is_given_up_says_how_its_console_ends(phase, finding, told):
    picture = seen(machine(phase, age=minutes(3)), node(SILENT), console="kubeadm: no such file")
    description = states.report(picture, finding).description
    assert description.endswith("\nThe end of its VM's console:\nkubeadm: no such file") is told


STAYS = [
    ("a machine in CrashLoopBackOff shows its last error while it is tried again",
     Phase.CRASH_LOOP_BACK_OFF, Finding.CALL_LASTS),
    ("so does a Failed one", Phase.FAILED, Finding.CALL_LASTS),
    ("a Failed machine cannot fail to be made in time once more", Phase.FAILED, Finding.NOT_CREATED),
    ("nor to join", Phase.FAILED, Finding.NOT_JOINED),
    ("a Running machine is not Running anew", Phase.RUNNING, Finding.RECOVERED),
    ("a machine that has not joined misses no node", Phase.PENDING, Finding.NODE_MISSING),
    ("an Unknown machine is not Unknown anew", Phase.UNKNOWN, Finding.NODE_UNHEALTHY),
    ("only an Unknown machine has a health timeout", Phase.PENDING, Finding.HEALTH_TIMEOUT),
    ("an update in place is not ended by a healthy node", Phase.IN_PLACE_UPDATING, Finding.JOINED),
    ("nor is a failed one", Phase.IN_PLACE_UPDATE_FAILED, Finding.RECOVERED),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "finding"), [c[1:] for c in STAYS], ids=[c[0] for c in STAYS])
def test_what_changes_nothing(phase, finding):
    assert not states.moves(phase, finding)


def test_a_phase_and_a_finding_have_at_most_one_row():
    pairs = [(phase, row.finding) for row in TABLE for phase in row.phases]
    assert len(pairs) == len(set(pairs))


def test_every_finding_has_a_row_and_a_clause_of_its_own():
    assert {row.finding for row in TABLE} == set(Finding)
    assert len({finding.value for finding in Finding}) == len(Finding)


def test_reports_are_made_by_the_table_alone():
    files = Path(machines.__file__).parent.joinpath("machine").glob("*.py")
    makers = {
        path.name
        for path in files
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Report"
    }
    assert makers == {"states.py"}
