"""The phases of a machine as one table, and what its status says. Pure.

Theory.      Decisions find out what is seen of a machine (``Finding``) and when that is worth a report; the
             table says what it means: the next phase, the operation and its state, and the description.
             A finding without a row for the present phase changes nothing. Nothing reads a phase to learn
             what to do about the VM: that follows from what exists (``making``, ``deleting``).
             The status takes phase and last operation from the plan's report; the conditions are a copy of
             the node's. It is written only when it says something new; a new time alone is not. Where only
             the description's words change (a cloud's error with another request id, the pods that a drain
             still waits for) it is refreshed as ``REFRESH`` says. What the driver wants to be told with its
             next call is always written.
Invariants.  A phase and a finding have at most one row. Every report of a machine is made here. The texts are
             a contract: users, dashboards and MCM read them.
             ``currentStatus.lastUpdateTime`` moves with the phase only: the health timeout counts from it. A
             preservation begins here, in the same write as the phase that causes it; a step of its own ends
             it (``EndPreservation``), or the machine's deletion.
Called by    ``making``, ``living``, ``deleting`` (reports), ``act`` (the status, once per pass);
             ``tools/machine_phases.py`` draws the table as docs/reference/machine-phases.md.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from msgspec import structs

from kubewright.api.core import NodeAddress
from kubewright.api.machine import names
from kubewright.api.machine.names import REASONED_CONDITIONS, OperationState, OperationType, Phase
from kubewright.api.machine.v1alpha1 import CurrentStatus, LastOperation, MachineStatus
from kubewright.base.clock import rfc3339
from kubewright.base.durations import format_duration
from kubewright.driver.answers import with_console
from kubewright.driver.errors import Code
from kubewright.machines.machine.preservation import new_expiry
from kubewright.machines.machine.seen import Report, Seen
from kubewright.nodes.health import conditions_differ

CREATE, HEALTH_CHECK, DELETE = OperationType.CREATE, OperationType.HEALTH_CHECK, OperationType.DELETE
UPDATE = OperationType.UPDATE
IN_PLACE, DRAIN_NODE = OperationType.IN_PLACE_UPDATE, OperationType.DRAIN_NODE
PROCESSING, FAILED, SUCCESSFUL = OperationState.PROCESSING, OperationState.FAILED, OperationState.SUCCESSFUL

EVERY = tuple(Phase)
BUT_FAILED = tuple(phase for phase in Phase if phase is not Phase.FAILED)
MAKING = (Phase.NONE, Phase.CRASH_LOOP_BACK_OFF, Phase.PENDING)
"""Its VM or its node is still awaited."""
UPDATING = (Phase.IN_PLACE_UPDATING, Phase.IN_PLACE_UPDATE_FAILED)
"""The tool that updates the node in place ends these phases, and not the node's health."""
UPDATABLE = (Phase.RUNNING, Phase.UNKNOWN, Phase.IN_PLACE_UPDATE_SUCCESSFUL, Phase.IN_PLACE_UPDATE_FAILED)
"""Its node has joined, and it is not to be replaced: the node may be drained for an update in place."""
WATCHED = (Phase.RUNNING, Phase.IN_PLACE_UPDATE_SUCCESSFUL)
"""Its node was well when it came to the phase, and is to stay so."""
CHANGEABLE = (Phase.RUNNING, Phase.AVAILABLE, Phase.UNKNOWN, Phase.IN_PLACE_UPDATE_SUCCESSFUL)
"""Its VM is complete, and not to be replaced: it may be updated while it runs."""
TELLS_OF_CHANGES = tuple(phase for phase in CHANGEABLE if phase is not Phase.UNKNOWN)
"""Of an Unknown machine the last operation says why it is so."""
TIMED_BY_HEALTH = (Phase.UNKNOWN, Phase.IN_PLACE_UPDATE_FAILED)
"""After the health time-out such a machine is replaced."""
MAY_BECOME_RUNNING = tuple(phase for phase in Phase if phase not in (Phase.RUNNING, *UPDATING))
HELD_BY_CRITICAL_COMPONENTS = tuple(phase for phase in Phase if phase is not Phase.UNKNOWN)
"""While the node has the taint of critical components that are not ready, a machine in one of these phases
does not become Running. One that was Running before does."""


class Finding(Enum):
    """What is seen of a machine; the value is a clause for people."""

    CALL_LASTS = "the driver has worked on its VM for longer than most need"
    NOT_CREATED = "the driver still works on its VM past the creation timeout"
    CREATION_FAILED = "its VM cannot be made, because of the driver, an API server or a rule that it breaks"
    DRIVER_AWAITED = (
        "its driver could not be called: none for its class is connected, or all its calls are taken"
    )
    CREATION_FAILED_LATE = "its VM cannot be made, and the creation timeout is over"
    NODE_NAME_TAKEN = "another VM's node has the name that its own will want"
    NODE_AWAITED = "its VM is complete, its node has not joined or is not healthy yet"
    BOOT_FAILED = "its VM says that its boot has failed, and its node has not joined"
    BOOT_GIVEN_UP = "the boot of its VM has failed, and its node has not joined for a while after that"
    NOT_JOINED = "its VM exists, and it has no healthy node past the creation timeout"
    VM_COMPLETE = "its VM is complete, and there is no cluster that it could join"
    JOINED = "its node is healthy for the first time"
    RECOVERED = "its node is healthy again"
    NODE_MISSING = "its node is gone"
    NODE_UNHEALTHY = "its node is not Ready, or has a condition that counts as bad"
    HEALTH_TIMEOUT = (
        "it was Unknown, or not updated, for the health timeout, and few enough others are being replaced"
    )
    DRAIN_HELD = "its node is to be updated in place, and something holds up the drain before that"
    UPDATE_BEGINS = "its node is drained, and is to be updated in place"
    UPDATED = "its node was updated in place"
    NOT_UPDATED = "the update in place of its node failed"
    UPDATE_TIMEOUT = "the update in place of its node lasts too long"
    VM_CHANGES = "its VM is being updated while it runs, for longer than most need"
    VM_CHANGED = "its VM was updated, and that had been told"
    VM_NOT_CHANGED = "the update of its VM failed, and is tried again"
    DELETION_GOES_ON = "it is being deleted, and that takes longer than most need"
    DELETION_FAILS = "it is being deleted, and something is in the way"


@dataclass(frozen=True, slots=True)
class Row:
    """One transition.

    ``phases``     in which phases it applies
    ``finding``    what is seen
    ``next``       the phase that follows
    ``operation``, ``state``, ``text``  what ``lastOperation`` says; ``{text}`` is the driver's or a server's
    ``code``       ``lastOperation.errorCode`` where the finding has one of its own
    ``joining``    the node is awaited: ``timeoutActive`` is true
    """

    phases: tuple[Phase, ...]
    finding: Finding
    next: Phase
    operation: OperationType
    state: OperationState
    text: str
    code: str = ""
    joining: bool = False

    def report(self, text: str = "", code: str = "", **facts: Any) -> Report:
        """The report of this row; ``facts`` fill the placeholders of its text."""
        told = self.text.format(text=text, **facts)
        return Report(self.next, self.operation, self.state, told, code or self.code, self.joining)


TABLE: tuple[Row, ...] = (
    Row((Phase.NONE, Phase.PENDING), Finding.CALL_LASTS, Phase.PENDING, CREATE, PROCESSING,
        "Creating machine on cloud provider. The driver has not answered since {asked}"),
    Row(MAKING, Finding.NODE_AWAITED, Phase.PENDING, CREATE, PROCESSING,
        "VM created on cloud provider. Waiting for node registration", joining=True),
    Row((Phase.NONE, Phase.PENDING), Finding.DRIVER_AWAITED, Phase.PENDING, CREATE, PROCESSING, "{text}"),
    Row(BUT_FAILED, Finding.CREATION_FAILED, Phase.CRASH_LOOP_BACK_OFF, CREATE, FAILED, "{text}"),
    Row((Phase.FAILED,), Finding.CREATION_FAILED, Phase.FAILED, CREATE, FAILED, "{text}"),
    Row(EVERY, Finding.CREATION_FAILED_LATE, Phase.FAILED, CREATE, FAILED, "{text}"),
    Row(MAKING, Finding.NODE_NAME_TAKEN, Phase.FAILED, CREATE, FAILED, "VM using old node obj"),
    Row(BUT_FAILED, Finding.NOT_CREATED, Phase.FAILED, CREATE, FAILED,
        "Machine {machine} was not created in {creation_timeout}: the driver has not answered since {asked}",
        code=Code.DeadlineExceeded.name),
    Row((Phase.PENDING,), Finding.BOOT_FAILED, Phase.PENDING, CREATE, FAILED,
        "Machine {machine} has not joined the cluster: {text}.", joining=True),
    Row((Phase.PENDING,), Finding.BOOT_GIVEN_UP, Phase.FAILED, CREATE, FAILED,
        "Machine {machine} failed to join the cluster: {text}."),
    Row(BUT_FAILED, Finding.NOT_JOINED, Phase.FAILED, CREATE, FAILED,
        "Machine {machine} failed to join the cluster in {creation_timeout}."),
    Row((*MAKING, Phase.FAILED, Phase.UNKNOWN), Finding.VM_COMPLETE, Phase.AVAILABLE, CREATE, SUCCESSFUL,
        "Created machine on cloud provider"),
    Row(MAY_BECOME_RUNNING, Finding.JOINED, Phase.RUNNING, CREATE, SUCCESSFUL,
        "Machine {machine} successfully joined the cluster in {age}"),
    Row(MAY_BECOME_RUNNING, Finding.RECOVERED, Phase.RUNNING, HEALTH_CHECK, SUCCESSFUL,
        "Machine {machine} successfully re-joined the cluster"),
    Row(WATCHED, Finding.NODE_MISSING, Phase.UNKNOWN, HEALTH_CHECK, PROCESSING,
        "Node object went missing. Machine {machine} is unhealthy - changing MachinePhase to Unknown"),
    Row(WATCHED, Finding.NODE_UNHEALTHY, Phase.UNKNOWN, HEALTH_CHECK, PROCESSING,
        "Machine {machine} is unhealthy - changing MachinePhase to Unknown. Node conditions: {conditions}"),
    Row(TIMED_BY_HEALTH, Finding.HEALTH_TIMEOUT, Phase.FAILED, HEALTH_CHECK, FAILED,
        "Machine {machine} health checks failing since last {health_timeout}. "
        "Updating machine phase to Failed. Node Conditions: {conditions}"),
    *(Row((phase,), Finding.DRAIN_HELD, phase, DRAIN_NODE, PROCESSING,
          "Drain failed due to - {text}. Will retry in next sync. Initiate node drain")
      for phase in UPDATABLE),
    Row(UPDATABLE, Finding.UPDATE_BEGINS, Phase.IN_PLACE_UPDATING, IN_PLACE, PROCESSING,
        "Machine {machine} is undergoing an in-place update"),
    Row(UPDATING, Finding.UPDATED, Phase.IN_PLACE_UPDATE_SUCCESSFUL, IN_PLACE, SUCCESSFUL,
        "Machine {machine} successfully updated dependencies"),
    Row((Phase.IN_PLACE_UPDATING,), Finding.NOT_UPDATED, Phase.IN_PLACE_UPDATE_FAILED, IN_PLACE, FAILED,
        "Machine {machine} failed to update dependencies: {text}"),
    Row((Phase.IN_PLACE_UPDATING,), Finding.UPDATE_TIMEOUT, Phase.IN_PLACE_UPDATE_FAILED, IN_PLACE, FAILED,
        "Machine {machine} failed to in-place update in {in_place_update_timeout}."),
    *(Row((phase,), Finding.VM_CHANGES, phase, UPDATE, PROCESSING,
          "Updating the VM of machine {machine} on cloud provider. The driver has not answered since {asked}")
      for phase in TELLS_OF_CHANGES),
    *(Row((phase,), Finding.VM_CHANGED, phase, UPDATE, SUCCESSFUL,
          "Machine {machine} successfully updated on cloud provider")
      for phase in TELLS_OF_CHANGES),
    *(Row((phase,), Finding.VM_NOT_CHANGED, phase, UPDATE, FAILED, "{text}")
      for phase in TELLS_OF_CHANGES),
    Row(EVERY, Finding.DELETION_GOES_ON, Phase.TERMINATING, DELETE, PROCESSING, "{text}"),
    Row(EVERY, Finding.DELETION_FAILS, Phase.TERMINATING, DELETE, FAILED, "{text}"),
)  # fmt: skip
"""The last sentence of a deletion's text names its step: MCM goes on from there (``deleting``)."""

GIVEN_UP = (Finding.BOOT_FAILED, Finding.BOOT_GIVEN_UP, Finding.NOT_JOINED, Finding.HEALTH_TIMEOUT)
"""What is found of a machine whose VM is there, and may say why."""

_ROWS = {(phase, row.finding): row for row in TABLE for phase in row.phases}


def moves(phase: Phase, finding: Finding) -> bool:
    """Whether a finding means anything for a machine in that phase."""
    return (phase, finding) in _ROWS


def row(phase: Phase, finding: Finding) -> Row:
    """The transition of a machine in that phase. Raises KeyError where there is none: ask ``moves`` first."""
    return _ROWS[phase, finding]


def report(seen: Seen, finding: Finding, text: str = "", code: str = "") -> Report:
    """The report that tells a finding in the status of a machine.

    Args:
        seen: the machine.
        finding: what is seen of it; there must be a row for the phase that it is in (``moves``).
        text: what the driver, a server or a rule says, for rows that repeat it.
        code: the error code that goes with the text.
    """
    made = row(seen.phase, finding).report(
        text,
        code,
        machine=seen.machine.metadata.name,
        age=format_duration(timedelta(seconds=(seen.now - seen.created) // timedelta(seconds=1))),
        asked=rfc3339(seen.date_of(seen.vm.began or seen.now)),
        conditions=seen.health.because,
        creation_timeout=format_duration(seen.creation_timeout),
        health_timeout=format_duration(seen.health_timeout),
        in_place_update_timeout=format_duration(seen.in_place_update_timeout),
    )
    if finding not in GIVEN_UP:
        return made
    return replace(made, description=with_console(made.description, seen.console))


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
    moves_on = report.phase != status.current_status.phase  # then the words are written with the phase
    return structs.replace(
        status,
        last_operation=_operation(status.last_operation, report, wall, at_once=moves_on),
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


def _operation(last: LastOperation, report: Report, wall: datetime, *, at_once: bool) -> LastOperation:
    same = (last.type, last.state, last.error_code) == (report.type, report.state, report.error_code)
    wait = not at_once and _only_words(last, report, wall)
    if same and (last.description == report.description or wait):
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
    step_known = report.state is OperationState.FAILED or _step_named(last.description) == _step_named(
        report.description
    )
    return young and step_known


def _step_named(description: str) -> str:
    """The last sentence of a description, which names the step of a deletion."""
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
