"""A Machine as sets and deployments see it: the facts of one member of the world of machines. Pure.

Theory.      A few facts decide about replicas; all else that happens to a machine changes none of them, and
             wakes neither set nor deployment.
Called by    ``replicas.members.MemberIndex``, which reads each version of a machine once.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from msgspec import structs

from kubewright.api.conditions import find_true_condition
from kubewright.api.core import NODE_READY
from kubewright.api.machine import excess, names
from kubewright.api.machine.names import OperationState, OperationType, Phase, Preserve, parse_preserve
from kubewright.api.machine.v1alpha1 import ClassSpec, Machine, MachineSet, MachineSpec, MachineSummary
from kubewright.api.meta import integer
from kubewright.base.clock import parse_rfc3339, stamp
from kubewright.driver.answers import without_console
from kubewright.driver.errors import REFUSALS, Code
from kubewright.kube.header import Header
from kubewright.replicas.objects import Member, verified_number
from kubewright.rollout.model import Rank
from kubewright.wire.gvk import Key

STAGE = {
    Phase.TERMINATING: 0,
    Phase.FAILED: 1,
    Phase.CRASH_LOOP_BACK_OFF: 2,
    Phase.IN_PLACE_UPDATE_FAILED: 3,
    Phase.UNKNOWN: 4,
    Phase.NONE: 5,
    Phase.PENDING: 6,
    Phase.IN_PLACE_UPDATING: 7,
    Phase.AVAILABLE: 8,
    Phase.RUNNING: 9,
    Phase.IN_PLACE_UPDATE_SUCCESSFUL: 9,
}
"""The phase's rank in the order of deletion: what a machine in it is worth. First go those that will not come
to anything, last those with a healthy node; between them, those that are farther from one go first. MCM's
table has seven of the phases, in this order, and ranks the others as terminating: there a set
that shrinks takes a machine that was just updated, or has just been made, before a failed one."""

UP = (Phase.RUNNING, Phase.AVAILABLE)
"""The phases of a healthy machine: with a node, or without a target cluster and so without a node."""

CHOSEN_PRIORITY = 1
"""The priority of a machine that the autoscaler chose for deletion."""

EXPIRY_SECONDS = 600.0
"""How long a Failed machine with a preserve annotation is kept without an expiry in its status."""
_DIGEST_BYTES = 16
_REFUSALS = frozenset(code.name for code in REFUSALS)


@dataclass(frozen=True, slots=True)
class MachineMember(Member):
    """One machine, as far as replicas are concerned.

    ``priority``: machines with a lower one are deleted first. ``marked_at`` is when the autoscaler chose it
    for deletion. ``preserved_until`` is when its preservation expires, ``failed_at`` since when it is Failed.
    ``preserving`` says that an annotation asks to preserve it, ``auto_preserved`` that the set wrote that
    annotation, ``preserve_annotated`` that the machine has, or had, any preserve annotation.
    ``propagated_digest`` is a digest of what sets push down to living machines; ``own_timeout`` says that
    an annotation gives the machine a creation timeout of its own. ``failure_summary`` is its entry in
    ``status.failedMachines``.
    ``at_once``: it is available as soon as it is up, whatever ``minReadySeconds`` says.
    ``without_vm``: it is being deleted, has no VM on record, and its driver refuses to be asked.
    ``free``: the effects of the taints that keep it free; empty: it is there for workload.
    """

    phase: Phase = Phase.NONE
    priority: int = names.DEFAULT_PRIORITY
    marked_at: float | None = None
    preserved_until: float | None = None
    auto_preserved: bool = False
    preserving: bool = False
    preserve_annotated: bool = False
    failed_at: float | None = None
    propagated_digest: bytes = b""
    own_timeout: bool = False
    failure_summary: MachineSummary | None = None
    at_once: bool = False
    without_vm: bool = False
    free: frozenset[str] = frozenset()

    @property
    def takes_place(self) -> bool:
        """A VM that the driver refused was not made: a rollout away from its class must not wait for it."""
        return not self.without_vm

    @property
    def exhausted(self) -> str:
        """What a cloud said that has no more VMs, while the machine waits for one; else empty."""
        found = self.failure_summary
        if found is None or self.phase is not Phase.CRASH_LOOP_BACK_OFF:
            return ""
        operation = found.last_operation
        return operation.description if operation.error_code == Code.ResourceExhausted.name else ""

    @property
    def failed_for_health(self) -> bool:
        """Whether it is Failed because its node was not well for too long."""
        found = self.failure_summary
        of_health = found is not None and found.last_operation.type == OperationType.HEALTH_CHECK
        return self.phase is Phase.FAILED and of_health

    @property
    def chosen(self) -> bool:
        """Whether the autoscaler chose it for deletion, and the deployment's controller has written that."""
        return self.priority == CHOSEN_PRIORITY and self.marked_at is not None

    @property
    def stage(self) -> int:
        return STAGE[self.phase]

    @property
    def alive(self) -> bool:
        """Not being deleted: machines that are do not count as replicas."""
        return not self.deleting and self.phase is not Phase.TERMINATING

    @property
    def ready(self) -> bool:
        return self.phase is Phase.RUNNING

    @property
    def up(self) -> bool:
        """Alive and Running; without a target cluster, alive and Available."""
        return self.alive and self.phase in UP

    @property
    def preserved_failed(self) -> bool:
        """A Failed machine that is preserved, with an expiry."""
        return self.phase is Phase.FAILED and self.preserved_until is not None

    def available_at(self, now: float, min_ready: float) -> bool:
        """Up for at least ``min_ready`` seconds, if they count (``SetSettings.min_ready``)."""
        return Member.available_at(self, now, 0 if self.at_once else min_ready)

    def kept_at(self, now: float) -> bool:
        """Whether a Failed machine is kept for a user to look at. The machine controller gives
        it an expiry at once; without one the annotation keeps it for ``EXPIRY_SECONDS`` after it failed, and
        for as long as nothing says when that was."""
        if self.preserved_until is not None:
            return self.preserved_until > now
        return self.preserving and (self.failed_at is None or self.failed_at + EXPIRY_SECONDS > now)


def ranking(
    machine_set: MachineSet | None, now: float, living: Sequence[MachineMember] = ()
) -> Callable[[MachineMember], Rank]:
    """MCM's six criteria, at the time ``now``: preservation counts only while it lasts. Only
    the ranks of phases that its table lacks are ours (``STAGE``), and what becomes of machines that are kept
    free. One that the set goes on keeping free goes after all with workload: fewer replicas are fewer of
    those, and taking it would move the taints to another, which evicts what runs there without a drain. One
    beyond what the set keeps goes before those with workload in the same stage."""
    surplus = _free_beyond(machine_set, living)

    def rank(member: MachineMember) -> Rank:
        until = member.preserved_until
        preserved = until is not None and until > now
        preservation = (1, 0 if member.auto_preserved else 1, until or 0.0) if preserved else (0, 0, 0.0)
        marked = (0, member.marked_at) if member.marked_at is not None else (1, 0.0)
        beyond = member.uid in surplus
        kept, idle = bool(member.free) and not beyond, 0 if beyond else 1
        chosen = (*preservation, member.priority, *marked)
        return (*chosen, kept, member.stage, idle, member.created, member.name)

    return rank


def age(member: MachineMember) -> Rank:
    """What machines are sorted by, the oldest first; those of one second as their set numbers them."""
    return (member.created, member.number, member.name)


def _free_beyond(machine_set: MachineSet | None, living: Sequence[MachineMember]) -> frozenset[str]:
    """The machines that are kept free and that the set does not keep when it shrinks, by uid: the oldest."""
    free = sorted((member for member in living if member.free), key=age)
    notes = machine_set.metadata.annotations if machine_set is not None else {}
    kept = max(0, integer(notes, excess.KEPT_ANNOTATION))
    return frozenset(member.uid for member in free[: max(0, len(free) - kept)])


def read(header: Header, machine: Machine | None, *, at_once: bool = False) -> MachineMember:
    """The facts of one machine in a cache; None: one that the type cannot read."""
    if machine is not None:
        member = member_of(machine, header.labels)
        return replace(member, at_once=True) if at_once else member
    return MachineMember(header.key, header.uid, header.owner_uid, header.labels, header.deleting)


def member_of(machine: Machine, labels: Mapping[str, str] | None = None) -> MachineMember:
    """The facts of one machine."""
    meta, current = machine.metadata, machine.status.current_status
    notes = meta.annotations
    controller = meta.controller
    value = parse_preserve(notes.get(names.PRESERVE_ANNOTATION, ""))
    own_timeout = names.creation_timeout_override(notes) is not None
    return MachineMember(
        key=Key(meta.namespace, meta.name),
        uid=meta.uid,
        owner_uid=controller.uid if controller else "",
        labels=meta.labels if labels is None else labels,
        deleting=meta.deleting,
        created=stamp(meta.creation_timestamp) or 0.0,
        phase=_phase(current.phase),
        ready_since=_ready_since(machine),
        priority=names.priority(notes),
        marked_at=annotation_time(notes, names.MARKED_FOR_DELETION_TIME_ANNOTATION),
        preserved_until=stamp(current.preserve_expiry_time),
        auto_preserved=value is Preserve.AUTO,
        preserving=value not in (None, Preserve.FALSE),
        preserve_annotated=value is not None or bool(notes.get(names.LAST_APPLIED_PRESERVE_ANNOTATION)),
        failed_at=stamp(current.last_update_time) if current.phase == Phase.FAILED else None,
        propagated_digest=digest(machine.spec, own_timeout=own_timeout),
        own_timeout=own_timeout,
        failure_summary=_failure_summary(machine),
        without_vm=_without_vm(machine),
        free=excess.effects_of(machine.spec.node_template),
        moved=names.UPDATE_RESULT_LABEL in meta.labels,
        number=verified_number(controller.uid if controller else "", meta.name, names.number(notes)),
        version=meta.resource_version,
    )


def digest(spec: MachineSpec, *, own_timeout: bool) -> bytes:
    """What sets push down of a spec, as a digest: node template, configuration and the class's kind.

    Equal values give equal digests, whatever the order of labels. A creation timeout that a
    machine has of its own is left out, or the two would be written back and forth, and so are the taints of
    one that is kept free.
    """
    pushed = structs.replace(
        excess.without(spec),
        provider_id="",
        machine_class=ClassSpec(kind=spec.machine_class.kind),
        creation_timeout=None if own_timeout else spec.creation_timeout,
    )
    encoded = msgspec.json.encode(pushed, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


def annotation_time(annotations: Mapping[str, str], key: str) -> float | None:
    """An RFC 3339 annotation in seconds since the epoch; None when absent or unreadable."""
    try:
        return parse_rfc3339(annotations[key]).timestamp()
    except (KeyError, ValueError):
        return None


def _phase(text: str) -> Phase:
    try:
        return Phase(text)
    except ValueError:
        return Phase.NONE


def _ready_since(machine: Machine) -> float | None:
    """Since when the node is Ready; without a node, since the phase last changed, or the machine is there.

    None while the machine is not up: one that comes back has to prove itself again.
    """
    if machine.status.current_status.phase not in UP:
        return None
    ready = find_true_condition(machine.status.conditions, NODE_READY)
    if ready is not None and ready.last_transition_time is not None:
        return stamp(ready.last_transition_time)
    changed = machine.status.current_status.last_update_time
    return stamp(changed or machine.metadata.creation_timestamp)


def _without_vm(machine: Machine) -> bool:
    """Whether its deletion waits only for a driver that refuses to be asked about a VM of which no record is.
    What it waits for, its status says (``machines.machine.deleting``)."""
    last = machine.status.last_operation
    shown = machine.spec.provider_id or names.node_name(machine.metadata.labels)
    if not machine.metadata.deleting or shown or last.type != OperationType.DELETE:
        return False
    return last.state == OperationState.FAILED and last.error_code in _REFUSALS


def _failure_summary(machine: Machine) -> MachineSummary | None:
    """The entry in ``failedMachines``; machines that are preserved as Failed are left out."""
    current = machine.status.current_status
    operation = machine.status.last_operation
    if operation.state != OperationState.FAILED:
        return None
    if current.phase == Phase.FAILED and current.preserve_expiry_time is not None:
        return None
    owner = machine.metadata.controller
    first, _ = without_console(operation.description)  # a set has many machines
    return MachineSummary(
        name=machine.metadata.name,
        provider_id=machine.spec.provider_id,
        last_operation=structs.replace(operation, description=first),
        owner_ref=owner.name if owner else "",
    )
