"""All that is known of one machine, as one frozen value; what may be done, and the plan to do it. Pure.

Theory.      ``Seen`` is complete before anything is decided. What can be derived from it (deadlines,
             whether a VM is known) is a property, so that decisions read like sentences.
             A ``Plan`` is a value: what to do, when to look again, what to report, and why. ``act`` performs
             the steps in order and stops at the first that fails; because every step is idempotent and
             derived from what exists, a plan cut short is simply decided anew.
Called by    ``look`` (makes ``Seen``), the deciders (use it, and make plans), ``act`` (performs them).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import structs

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, OperationState, OperationType, Phase, TerminatingReason
from kubewright.api.machine.v1alpha1 import Machine, MachineStatus
from kubewright.base.plan import Plan as AnyPlan
from kubewright.driver.contract import Instance
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.plan import VmPlan, Want, Wanted, plan
from kubewright.driver.life.seen import NOTHING, Verb, VmSeen
from kubewright.machines.machine.applied import Specs
from kubewright.machines.settings import (
    MachineSettings,
    ReplacementCounts,
    bad_conditions,
    drain_policy,
    effective,
)
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.policy import DrainPolicy
from kubewright.nodes.drain.volumes import Attachment
from kubewright.nodes.health import Health, judge

REPORT_AT_LATEST = timedelta(seconds=10)
"""However busy we are, a state that lasts this long is reported."""


EVIDENCE = timedelta(minutes=1)
"""For how long a process must have watched nodes before a time-out that began before its start ends a
creation, an update or a bad health; less where the time-out itself is shorter. The server of the nodes may
have been away until a moment before our start."""


@dataclass(frozen=True, slots=True)
class PatchStep:
    """Send this patch."""

    patch: Mapping[str, Any]


class NodePatch(PatchStep):
    """Send this merge patch of the Node."""


class NodeStatusPatch(PatchStep):
    """Send this strategic merge patch of the Node's status."""


class AddFinalizer(PatchStep):
    """Put our finalizer and a deletion priority onto a machine that lacks them."""


@dataclass(frozen=True, slots=True)
class Call:
    """Start a driver call in the background; the machine is enqueued again when it ends."""

    verb: Verb


@dataclass(frozen=True, slots=True)
class Record:
    """Write the VM's providerID and node name onto the machine."""

    instance: Instance
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """What the VM has of its class, in the same write (``applied``)."""


@dataclass(frozen=True, slots=True)
class DeleteMachine:
    """Delete the Machine object, as ``kubectl delete`` would; ``because`` is the event's message."""

    because: str


class Annotate(PatchStep):
    """Change the machine's own annotations."""


@dataclass(frozen=True, slots=True)
class UpdateVm(PatchStep):
    """Mark the machine, and then have the driver make its VM what ``goal`` says, in the background.

    ``patch`` is of the machine's metadata; with no annotations in it the marks are there. ``before`` is all
    that the VM may have by updates; None: not known.
    """

    goal: Mapping[str, Any]
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EndPreservation:
    """Remove the expiry, the last trace of a preservation. ``because`` is the event's message."""

    because: str


class SetPreservationMarks(NodePatch):
    """Put the marks of a preserved machine on its Node, or take them off."""


class SetPreservedCondition(NodeStatusPatch):
    """Write the Node's condition ``Preserved``: until when it is kept, or that it no longer is."""


class SyncNode(NodePatch):
    """Bring labels, annotations and taints of the Node in line with the machine's template."""


class SyncCapacity(NodeStatusPatch):
    """Bring the Node's capacity in line with the virtual capacity of the machine's class."""


class Cordon(NodePatch):
    """Make this Node unschedulable."""


class SetUpdateCondition(NodeStatusPatch):
    """Write the Node's condition ``InPlaceUpdate``: how far its update in place is."""


class SetTerminatingCondition(NodeStatusPatch):
    """Write the Node's condition ``Terminating``: why its machine is being deleted."""


class SetDrainFailedCondition(NodeStatusPatch):
    """Write the Node's condition ``DrainFailed``: what holds its drain up, or that it goes on after all."""


@dataclass(frozen=True, slots=True)
class Drain:
    """One pass of a drain: evict some pods, delete others. Disruption budgets may refuse an eviction."""

    plan: DrainPlan


@dataclass(frozen=True, slots=True)
class DeleteVolumeAttachments:
    """Delete these VolumeAttachments without waiting for their detachment."""

    attachments: tuple[Attachment, ...]


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Remove the Node object, if it is still the one we saw.

    ``finalizers``: what is left of them without MCM's, in the ``version`` that we saw; None when it has none
    of MCM's. The version makes no other step: a heartbeat changes it.
    """

    name: str
    uid: str
    finalizers: tuple[str, ...] | None = None
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class DeleteBootstrapToken:
    """Delete the bootstrap token, if there is one: it was used, or never will be."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off: nothing of this machine exists any more."""


NodeStep = (
    SyncNode
    | SyncCapacity
    | SetPreservationMarks
    | SetPreservedCondition
    | Cordon
    | SetUpdateCondition
    | SetTerminatingCondition
    | SetDrainFailedCondition
    | Drain
    | DeleteVolumeAttachments
    | DeleteNode
)
MachineStep = (
    AddFinalizer
    | Call
    | Record
    | Annotate
    | UpdateVm
    | EndPreservation
    | DeleteMachine
    | DeleteBootstrapToken
    | RemoveFinalizer
)
Step = MachineStep | NodeStep


@dataclass(frozen=True, slots=True)
class Report:
    """What the status shall say.

    ``joining``: the machine is Pending, its VM complete, its node awaited (``timeoutActive``).
    ``exact``: the description changes only when the facts do, so a new one is written soon.
    """

    phase: Phase
    type: OperationType
    state: OperationState
    description: str
    error_code: str = ""
    joining: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Milestone:
    """A stage that a machine has reached: a line of the log, and if ``event`` a Normal event, too.

    A state that most machines pass quickly becomes an event only if it lasts, as with the status.
    """

    reason: EventReason
    message: str
    event: bool = True


@dataclass(frozen=True, slots=True)
class Plan(AnyPlan[Step]):
    """What to do now, and what to say. A machine's deciders are ordered by dependency: what a later one would
    decide rests on what this one does first. So the first plan ends the pass.

    At most one step of a plan, but for the status, patches the machine: each carries the version that was
    seen, and a second one would meet a conflict.

    ``warning`` is the reason and message of a Warning event, sent after the steps if the report changed the
    status, or if there is no report. With ``topics`` it is sent only if one of them is new: the message may
    change (counts, times) while its topics stay. A ``milestone`` is sent under the same condition.

    ``rests``: the machine as the plan leaves it, where its own writes call for no pass. None: they do.
    """

    report: Report | None = None
    warning: tuple[str, str] | None = None
    topics: frozenset[str] = frozenset()
    milestone: Milestone | None = None
    rests: Machine | None = None

    last: bool = field(default=True, kw_only=True)


@dataclass(frozen=True, slots=True)
class Refused:
    """A write that an API server refused, and would refuse again (``decide.RULES``); or one about the node
    that the target cluster has not answered for long (``memory.Unanswered``).

    ``step`` is None for the status; ``problem`` is a sentence for people; the write rests until ``until``.
    """

    step: Step | None
    problem: str
    code: Code
    until: datetime
    unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """Node or pods could not be looked at: the server refused to show them, or it did not answer.

    ``problem`` is a sentence for people; it is to be asked again after ``wait``.
    """

    problem: str
    wait: timedelta
    unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """When this process itself saw the stages of a machine begin; None where it did not see it.

    ``created`` it was made; ``deleted`` it was deleted; ``phase_since`` it came to the phase that it is in;
    ``node_since`` conditions of its node came to their status, by type; ``update_since`` the update in place
    of its node came to the stage that it is at; ``boot_since`` its last operation
    came to the state that it is in.
    """

    created: datetime | None = None
    deleted: datetime | None = None
    phase_since: datetime | None = None
    node_since: Mapping[str, datetime] = field(default_factory=dict)
    update_since: datetime | None = None
    boot_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One machine and all that decides about it.

    ``now``          on a clock that does not step (``base.clock.SteadyClock``): ages and waits count by it
    ``wall``         our wall clock, only for dates that people set or read (``preserveExpiryTime``)
    ``begun``        what of the machine this process saw begin, on the same clock
    ``problem``      why no VM may be made: broken rules, a missing class or secret; empty if none
    ``can_call``     the class and all its secrets are there, so that the driver can be called
    ``secret_missing``  the class is there, and not all its secrets
    ``untried``      its class is of an old kind, and no migration of it has been tried by this process
    ``inputs``       changes whenever what a cloud is told does: class, secrets
    ``specs``        what its VM has of its class, where that may be other than what the class says; None: it
                     is the same, or there is no class
    ``capacity``     the virtual capacity of the class; None: not known
    ``name_conflict``      another VM's node has the name that this machine's node will want
    ``doubt_until``  until when a creation without an answer may still bring a VM
    ``before``       the status when this process first saw the machine in deletion; None: the present one
    ``drain``        what the node's pods ask for; None when they were not looked at
    ``drains_at_once``  how many machines in deletion this process looks after, drained or not yet
    ``drained_since``  since when this process has seen the node empty
    ``attachments``  VolumeAttachments of the node
    ``counts``        how many other machines are unhealthy, and how many are being replaced
    ``has_token``    there may be a bootstrap token of this machine
    ``busy``         many machines are in the queue or in work (``wiring.BUSY``): reports can wait
    ``visible_since``  since when both clusters can be seen again, after one could not; None: always
    ``watching_since``  since when this process sees nodes at all; None: it has no watch (``cli.explain``)
    ``unreachable``  which cluster has not been seen for long; empty if none
    ``refused``      writes that an API server refused, or did not answer, not long ago
    ``console``      the end of what its VM wrote; read while it boots, and before the machine is given up
    ``unread``       why node or pods could not be looked at; None if they could, or need not
    """

    machine: Machine
    settings: MachineSettings
    now: datetime
    wall: datetime
    begun: Begun = field(default_factory=Begun)
    vm: VmSeen = NOTHING
    node: Node | None = None
    health: Health = field(default_factory=Health)
    problem: str = ""
    can_call: bool = True
    secret_missing: bool = False
    untried: bool = False
    inputs: str = ""
    specs: Specs | None = None
    capacity: Mapping[str, str | int] | None = None
    name_conflict: bool = False
    doubt_until: datetime | None = None
    before: MachineStatus | None = None
    drain: DrainPlan | None = None
    drains_at_once: int = 1
    drained_since: datetime | None = None
    attachments: tuple[Attachment, ...] = ()
    counts: ReplacementCounts = field(default_factory=ReplacementCounts)
    has_token: bool = False
    busy: bool = False
    visible_since: datetime | None = None
    watching_since: datetime | None = None
    unreachable: str = ""
    refused: tuple[Refused, ...] = ()
    console: str = ""
    unread: Unread | None = None

    @property
    def phase(self) -> Phase:
        """The phase on record; an unknown one counts as none."""
        try:
            return Phase(self.machine.status.current_status.phase)
        except ValueError:
            return Phase.NONE

    def phase_after(self, report: Report | None) -> Phase:
        """The phase once this report is written."""
        return self.phase if report is None else report.phase

    @property
    def recorded(self) -> bool:
        """Whether it is written down which VM and node this machine is."""
        return is_recorded(self.machine)

    @property
    def status(self) -> MachineStatus:
        """The machine's status, with what the driver left for its next call: that may not be written yet."""
        status, left = self.machine.status, self.vm.last_known_state
        same = left is None or left == status.last_known_state
        return status if same else structs.replace(status, last_known_state=left)

    @property
    def has_healthy_node(self) -> bool:
        """Whether the machine has a healthy node."""
        return self.node is not None and self.health.healthy

    def vm_plan(self, want: Want) -> VmPlan:
        """What comes next for the machine's VM."""
        wanted = Wanted(
            want,
            self.recorded,
            self.has_healthy_node,
            self.doubt_until,
            self.can_call,
            self.inputs,
            identified=self.shows_vm,
            let_go=self._lets_go,
            repeats=self.settings.retry_all_errors,
        )
        return plan(self.vm, wanted, self.settings.resource_exhausted_retry, self.now)

    @property
    def shows_vm(self) -> bool:
        """Whether something shows that there is a VM: its id, its node that no answer belied, the cloud."""
        node = self.node is not None and not self.vm.absent
        return bool(self.machine.spec.provider_id) or node or self.vm.instance is not None or self.vm.told

    @property
    def _lets_go(self) -> bool:
        """Whether a VM whose creation is in doubt may be left behind: a user forces the deletion; or the
        class is gone, which stays while machines have VMs by it, this process has asked for none, and what
        the process before may have asked for would have shown by now."""
        class_gone = not self.can_call and not self.secret_missing and self.vm.doubt is None
        forced = names.force_deletion(self.machine.metadata.labels)
        return forced or (class_gone and self.doubt_left <= timedelta(0))

    @property
    def doubt_left(self) -> timedelta:
        """For how long a creation may still bring a VM; zero or less: none can any more."""
        return self.doubt_until - self.now if self.doubt_until is not None else timedelta(0)

    @property
    def left_in_doubt(self) -> bool:
        """Whether the machine goes although no answer has shown that it has no VM, and that none can come."""
        doubtful = self.doubt_until is not None or self.shows_vm
        return (
            doubtful and not self.machine.spec.provider_id and not self.vm.is_absent_since(self.doubt_until)
        )

    @property
    def creation_timeout(self) -> timedelta:
        override = names.creation_timeout_override(self.machine.metadata.annotations)
        return override or effective(self.machine.spec.creation_timeout, self.settings.creation_timeout)

    @property
    def creation_deadline(self) -> datetime:
        """When a machine that has not joined is given up."""
        return self.due(self.created, self.creation_timeout)

    @property
    def created(self) -> datetime:
        """When the machine was made."""
        return self.begun.created or self.machine.metadata.creation_timestamp or self.now

    @property
    def phase_since(self) -> datetime:
        """Since when the machine is in its phase."""
        return self.begun.phase_since or reported(self.machine) or self.now

    def due(self, since: datetime, limit: timedelta) -> datetime:
        """When something has lasted too long. Time without a watch does not count: the clock begins anew."""
        begun = max(since, self.visible_since) if self.visible_since else since
        end = begun + limit
        return max(end, self.watching_since + min(limit, EVIDENCE)) if self.watching_since else end

    @property
    def health_timeout(self) -> timedelta:
        return effective(self.machine.spec.health_timeout, self.settings.health_timeout)

    @property
    def drain_timeout(self) -> timedelta:
        return effective(self.machine.spec.drain_timeout, self.settings.drain_timeout)

    @property
    def in_place_update_timeout(self) -> timedelta:
        return effective(self.machine.spec.in_place_update_timeout, self.settings.in_place_update_timeout)

    @property
    def preserve_timeout(self) -> timedelta:
        return effective(self.machine.spec.machine_preserve_timeout, self.settings.preserve_timeout)

    @property
    def drain_policy(self) -> DrainPolicy:
        """How the machine's node is drained now: in its deletion, or while it is preserved."""
        labels, deleting = self.machine.metadata.labels, self.machine.metadata.deleting
        requested = names.force_deletion(labels) if deleting else names.force_drain(labels)
        own, at_once = self.machine.spec, self.drains_at_once
        return drain_policy(self.settings, own, requested=requested, at_once=at_once)

    @property
    def deleted_at(self) -> datetime:
        return self.begun.deleted or self.machine.metadata.deletion_timestamp or self.now

    @property
    def forced(self) -> bool:
        """A user, the drain's deadline, or a node that was silent or read-only for long, puts the deletion
        above the pods."""
        return names.force_deletion(self.machine.metadata.labels) or bool(self.drain and self.drain.forced)

    @property
    def skips_drain(self) -> bool:
        """A user forces the deletion, and the operator wants such a one without any drain."""
        return not self.settings.forced_deletion_drains and names.force_deletion(self.machine.metadata.labels)

    @property
    def drain_timed_out(self) -> bool:
        """The deletion is forced, or its drain has had its time."""
        return self.forced or self.drain_time_left <= timedelta(0)

    @property
    def drain_time_left(self) -> timedelta:
        """How long the deletion still waits for the pods of its node; zero or less: no longer."""
        return self.deleted_at + self.drain_timeout - self.now

    @property
    def terminating_reason(self) -> TerminatingReason:
        """Whether the machine goes for its health, or because there are too many.

        The deletion itself overwrites phase and operation; where no more is known than what it wrote, the
        conditions decide, which it leaves alone.
        """
        before = self.before or self.machine.status
        if before.current_status.phase == Phase.TERMINATING:
            types = bad_conditions(self.machine, self.settings.node_conditions)
            sick = bool(before.conditions) and not judge(before.conditions, types).healthy
        else:
            last = before.last_operation  # an update that failed says nothing of its health
            failed = last.state == OperationState.FAILED and last.type != OperationType.UPDATE
            sick = failed or before.current_status.phase == Phase.FAILED
        return TerminatingReason.UNHEALTHY if sick else TerminatingReason.SCALE_DOWN

    @property
    def has_joined(self) -> bool:
        """Whether it is known that the machine in deletion was Running before: its token is used."""
        before = self.before or self.machine.status
        return before.current_status.phase in (Phase.RUNNING, Phase.UNKNOWN)

    def date_of(self, moment: datetime) -> datetime:
        """A moment of ``now``'s clock as a date that users can read."""
        return self.wall + (moment - self.now)

    def until_worth_reporting(self, since: datetime | None, after: timedelta | None = None) -> timedelta:
        """How long a passing state still need not be written down; zero or less: write it.

        Args:
            since: when the state began; None: long ago.
            after: for how long it need not while there is time; None: as the settings say.
        """
        age = self.now - (since or datetime(1970, 1, 1, tzinfo=UTC))
        quiet = self.settings.report_after if after is None else after
        return (REPORT_AT_LATEST if self.busy else quiet) - age


def reported(machine: Machine) -> datetime | None:
    """The date of the last report, which is that of its phase."""
    status = machine.status
    return status.current_status.last_update_time or status.last_operation.last_update_time


def is_recorded(machine: Machine) -> bool:
    """Whether VM and node name are on record."""
    return bool(machine.spec.provider_id and names.node_name(machine.metadata.labels))


def vm_incomplete(machine: Machine) -> bool:
    """Whether the VM is not known to be complete: no phase yet, a failed call, or a call that lasts."""
    current = machine.status.current_status
    being_made = current.phase == Phase.PENDING and not current.timeout_active
    return being_made or current.phase in (Phase.NONE, Phase.CRASH_LOOP_BACK_OFF)


def believed(vm: VmSeen, others: Sequence[Machine]) -> VmSeen:
    """What is known of a VM; ``others`` are machines that have the VM on record that the driver has found."""
    if vm.instance is None or not others:
        return vm
    whose = ", ".join(sorted(f"{each.metadata.namespace}/{each.metadata.name}" for each in others))
    text = f"the driver answered with VM {vm.instance.provider_id}, which is on record for machine {whose}"
    return replace(vm, instance=None, error=DriverError.of(Code.Internal, text))


def as_recorded(machine: Machine, vm: VmSeen) -> Machine:
    """The machine with the VM that the driver found, so that its node is found before that is on record."""
    found = vm.instance
    if found is None or is_recorded(machine):
        return machine
    labels = {**machine.metadata.labels, names.NODE_LABEL: found.node_name}
    return structs.replace(
        machine,
        metadata=structs.replace(machine.metadata, labels=labels),
        spec=structs.replace(machine.spec, provider_id=machine.spec.provider_id or found.provider_id),
    )
