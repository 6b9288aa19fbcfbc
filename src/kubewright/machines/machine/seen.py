"""Everything that is read about one machine, as one frozen value.

Theory.      ``Seen`` is complete before anything is decided. What can be derived from it (deadlines,
             whether a VM is known) is a property, so that decisions read like sentences.
Invariants.  Nothing here reads, writes or waits.
Called by    ``look`` (makes it), ``decide`` and ``status`` (use it).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec import structs

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import OperationState, OperationType, Phase, TerminatingReason
from kubewright.api.machine.v1alpha1 import Machine, MachineStatus
from kubewright.driver.errors import Code
from kubewright.driver.life.plan import VmPlan, Want, Wanted, plan
from kubewright.driver.life.seen import NOTHING, VmSeen
from kubewright.machines.machine.applied import Specs
from kubewright.machines.machine.steps import Report, Step
from kubewright.machines.machine.vm_record import is_recorded
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
class Refused:
    """A write that an API server refused, and would refuse again (``refusals``); or one about the node that
    the target cluster has not answered for long (``unanswered``).

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
    of its node came to the stage that it is at.
    """

    created: datetime | None = None
    deleted: datetime | None = None
    phase_since: datetime | None = None
    node_since: Mapping[str, datetime] = field(default_factory=dict)
    update_since: datetime | None = None


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
    ``busy``         many machines are in the queue or in work (``reconciler.BUSY``): reports can wait
    ``visible_since``  since when both clusters can be seen again, after one could not; None: always
    ``watching_since``  since when this process sees nodes at all; None: it has no watch (``cli.explain``)
    ``unreachable``  which cluster has not been seen for long; empty if none
    ``refused``      writes that an API server refused, or did not answer, not long ago
    ``console``      the end of what its VM wrote to its console; read only before the machine is given up
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
