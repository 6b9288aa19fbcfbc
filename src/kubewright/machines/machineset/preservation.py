"""Decide which machines are deleted besides the surplus, and which Failed ones a set preserves. Pure.

Theory.      A Failed machine is deleted, so that it is replaced, unless it is preserved: because a user
             asked for it, or because the set preserves up to ``autoPreserveFailedMachineMax`` of its Failed
             machines, for users to look at. It asks for that as a user would, by an annotation on the
             machine; the machine controller does the rest, the expiry included. One pass chooses the
             machines to preserve and deletes the others, from one look. A machine that the autoscaler
             chose is deleted in any case.
Invariants.  The set annotates no machine beyond the maximum, and takes annotations back when the maximum
             is lowered. A machine that a user has annotated, ``false`` included, on the machine or its
             node, is left alone. A machine whose preservation has expired is not preserved again.
Source       mcm.md §6.4, §6.6. Upstream counts by the status of its last pass; we count what is seen.
Called by    ``replicas.set.decide``, by way of ``policy``.
"""

from datetime import timedelta

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase, Preserve
from kubewright.api.machine.v1alpha1 import MachineSet
from kubewright.base.plan import Plan, in_seconds
from kubewright.machines.machineset.member import EXPIRY_SECONDS, MachineMember, annotation_time
from kubewright.replicas.set.policy import Deletions
from kubewright.replicas.set.seen import Annotate, Seen, Step

MachineSetSeen = Seen[MachineSet, MachineMember]
Machines = tuple[MachineMember, ...]


def to_delete(seen: MachineSetSeen) -> Deletions[MachineMember]:
    """Failed machines, and those that the autoscaler chose (mcm.md §6.4)."""
    chosen, wall = _chosen(seen), seen.wall.timestamp()
    spared = {member.uid for member in (*preserved(seen), *chosen)}
    failed = [m for m in _failed(seen) if not m.kept_at(wall) and m.uid not in spared]
    counts = ((failed, "failed"), (chosen, "chosen by the autoscaler"))
    because = ", ".join(f"{len(found)} {why}" for found, why in counts if found)
    return Deletions((*chosen, *failed), because, _next_expiry(seen))


def keep(seen: MachineSetSeen) -> Plan[Step]:
    """Ask by an annotation that Failed machines be preserved, up to the set's maximum (mcm.md §6.6)."""
    more, fewer = preserved(seen)[: seen.burst], too_many(seen)[: seen.burst]
    steps = (
        *((Annotate(more, names.PRESERVE_ANNOTATION, Preserve.AUTO),) if more else ()),
        *((Annotate(fewer, names.PRESERVE_ANNOTATION, None),) if fewer else ()),
    )
    counts = ((len(more), "to be preserved although Failed"), (len(fewer), "to be preserved no longer"))
    return Plan(steps, because=", ".join(f"{count} {what}" for count, what in counts if count))


def preserved(seen: MachineSetSeen) -> Machines:
    """Machines to preserve from now on, newest first, since users ask about recent failures. None of those
    that the pass deletes for other reasons. Of more than a burst, later passes annotate the others."""
    deleted = {member.uid for member in (*seen.surplus, *_chosen(seen))}
    failed = (member for member in _failed(seen) if member.uid not in deleted)
    candidates = [
        member for member in failed if not member.preserve_annotated and member.preserved_until is None
    ]
    newest = sorted(candidates, key=lambda member: (-member.created, member.name))
    return tuple(newest[: max(0, _room(seen))])


def too_many(seen: MachineSetSeen) -> Machines:
    """Machines that the set preserves beyond its maximum, oldest first."""
    ours = sorted(_ours(seen), key=lambda member: (member.created, member.name))
    return tuple(ours[: max(0, -_room(seen))])


def _room(seen: MachineSetSeen) -> int:
    return max(0, seen.set.spec.auto_preserve_failed_machine_max) - len(_ours(seen))


def _ours(seen: MachineSetSeen) -> list[MachineMember]:
    return [member for member in seen.alive if member.auto_preserved]


def _failed(seen: MachineSetSeen) -> list[MachineMember]:
    return [member for member in seen.alive if member.phase is Phase.FAILED]


def _chosen(seen: MachineSetSeen) -> Machines:
    """The machines that the autoscaler marked no later than it last changed the number of replicas."""
    changed = annotation_time(seen.set.metadata.annotations, names.LAST_SCALER_CHANGE_ANNOTATION)
    if changed is None:
        return ()
    return tuple(
        member
        for member in seen.alive
        if member.chosen and member.marked_at is not None and member.marked_at <= changed
    )


def _next_expiry(seen: MachineSetSeen) -> timedelta | None:
    """How long until the first preservation of a Failed machine expires; None if there is none."""
    wall = seen.wall.timestamp()
    ends = (
        member.preserved_until or (member.failed_at + EXPIRY_SECONDS if member.failed_at else None)
        for member in _failed(seen)
        if member.kept_at(wall)
    )
    return min((in_seconds(end - wall) for end in ends if end is not None), default=None)
