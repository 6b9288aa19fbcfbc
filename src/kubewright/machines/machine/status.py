"""Compute a machine's status from what is seen and from the plan's report. Pure.

Theory.      The phase and the last operation come from the plan's report; the conditions are a
             copy of the node's. The status is written only when it says something new; a new time
             alone is not. Where only the description's words change (a cloud's error with another
             request id, the pods that a drain still waits for) it is refreshed as ``REFRESH`` says.
             What the driver wants to be told with its next call is always written.
Invariants.  ``currentStatus.lastUpdateTime`` moves with the phase only: the health timeout counts
             from it. A preservation begins here, in the same write as the phase that causes it; a step
             of its own ends it (``EndPreservation``), or the machine's deletion.
Called by    ``act``, once per pass.
"""

from datetime import datetime, timedelta

from msgspec import structs

from kubewright.api.core import NodeAddress
from kubewright.api.machine import names
from kubewright.api.machine.names import REASONED_CONDITIONS, OperationState, Phase
from kubewright.api.machine.v1alpha1 import CurrentStatus, LastOperation, MachineStatus
from kubewright.machines.machine.preservation import new_expiry
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.steps import Report
from kubewright.nodes.health import conditions_differ

REFRESH = {
    OperationState.FAILED: timedelta(minutes=5),
    OperationState.PROCESSING: timedelta(seconds=10),
    OperationState.SUCCESSFUL: timedelta(0),
}
"""How old a description may get while only its words change."""


def machine_status(seen: Seen, report: Report | None, wall: datetime) -> MachineStatus:
    """The status to write; equal to the present one when there is nothing new."""
    status = _reported(seen, report, wall)
    until = new_expiry(seen, seen.phase_after(report))
    if until is None:
        return status
    current = structs.replace(status.current_status, preserve_expiry_time=until)
    return structs.replace(status, current_status=current)


def _reported(seen: Seen, report: Report | None, wall: datetime) -> MachineStatus:
    status = seen.status
    if seen.node is not None and not seen.machine.metadata.deleting and _conditions_moved(seen, report):
        status = structs.replace(status, conditions=seen.node.status.conditions)
    if report is None:
        return status
    if report.phase is Phase.AVAILABLE:
        status = structs.replace(status, addresses=_addresses(seen))
    return structs.replace(
        status,
        last_operation=_operation(status.last_operation, report, wall),
        current_status=_current(status.current_status, report, wall),
    )


def _addresses(seen: Seen) -> tuple[NodeAddress, ...]:
    """Where the VM is, for who has no node to ask: what was known, what the driver told, and its name."""
    name = names.node_name(seen.machine.metadata.labels)
    told = seen.vm.instance.addresses if seen.vm.instance is not None else ()
    new = [
        NodeAddress(type=kind, address=address) for kind, address in (*told, ("Hostname", name)) if address
    ]
    known = {(each.type, each.address): each for each in (*seen.status.addresses, *new)}
    return tuple(known[each] for each in sorted(known))


def _conditions_moved(seen: Seen, report: Report | None) -> bool:
    """Whether to copy the node's conditions: not while a node joins, when they change quickly."""
    old = seen.machine.status.conditions
    if seen.node is None or not conditions_differ(old, seen.node.status.conditions, REASONED_CONDITIONS):
        return False
    return report is not None or seen.phase not in (Phase.NONE, Phase.PENDING, Phase.CRASH_LOOP_BACK_OFF)


def _operation(last: LastOperation, report: Report, wall: datetime) -> LastOperation:
    same = (last.type, last.state, last.error_code) == (report.type, report.state, report.error_code)
    if same and (last.description == report.description or _only_words(last, report, wall)):
        return last
    return LastOperation(
        description=report.description,
        error_code=report.error_code,
        last_update_time=wall,
        state=report.state.value,
        type=report.type.value,
    )


def _only_words(last: LastOperation, report: Report, wall: datetime) -> bool:
    """Whether a new description can wait: the written one is recent, and names the same step."""
    limit = REFRESH[OperationState.PROCESSING if report.exact else report.state]
    young = last.last_update_time is not None and wall - last.last_update_time < limit
    step_known = report.state is OperationState.FAILED or _step(last.description) == _step(report.description)
    return young and step_known


def _step(description: str) -> str:
    """The last sentence of a description, which names the step of a deletion (mcm.md §4.13)."""
    return description.rpartition(". ")[2]


def _current(current: CurrentStatus, report: Report, wall: datetime) -> CurrentStatus:
    if report.phase == current.phase:
        return structs.replace(current, timeout_active=report.joining) if _pending(report) else current
    return structs.replace(
        current,
        phase=report.phase.value,
        last_update_time=wall,
        timeout_active=report.joining,
        preserve_expiry_time=None if report.phase is Phase.TERMINATING else current.preserve_expiry_time,
    )


def _pending(report: Report) -> bool:
    return report.phase is Phase.PENDING
