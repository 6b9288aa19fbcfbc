"""Decide what a set does next. Pure.

Theory.      The order of the deciders is the list in ``deciders``; their steps are performed in that order. A
             decider whose steps change what the later ones count says that it is the ``last``.
Invariants.  No new name is tried while a creation is in doubt. No member is created while the set is
             blocked, or before it carries our finalizer. A member that is being deleted is never deleted
             again. The policy's ranking says which surplus members are deleted first; each is deleted only
             in the version that was seen, so a member that has changed since stays until the next pass has
             looked at it.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any

from kubewright.base import delays
from kubewright.base.limits import DOUBT_SECONDS
from kubewright.base.plan import AT_ONCE, Awaited, Plan, in_order, in_seconds
from kubewright.replicas.objects import (
    ORPHAN_FINALIZER,
    AddFinalizer,
    M,
    Member,
    RemoveFinalizer,
    S,
    new_names,
)
from kubewright.replicas.set.seen import (
    Adopt,
    Create,
    Decider,
    Delete,
    Disown,
    Propagate,
    RecordNumber,
    Seen,
    SetPolicy,
    Step,
    Wait,
)

ANSWER = Awaited("the API server to answer a creation", "it is asked again by itself; see whether it answers")
NAMED = 3
"""Members whose deletion is awaited that a plan names."""


def decide(seen: Seen[S, M]) -> Plan[Step]:
    """The plan for one pass."""
    if seen.deleting:
        return delete_members(seen)
    if seen.problem:
        return Plan(because=f"the set is not valid: {seen.problem}")
    return in_order(deciders(seen.policy), seen, Plan())


def deciders(policy: SetPolicy[S, M, Any]) -> tuple[Decider[S, M], ...]:
    """What a pass does, in this order."""
    return (add_finalizer, adopt, disown, propagate, grow, *policy.deciders(), shrink)


def add_finalizer(seen: Seen[S, M]) -> Plan[Step]:
    """Put our finalizer on first, so that the members are deleted before the set.

    The pass goes on: members may be created as soon as the server has it, and the actor ends the pass if not.
    """
    if seen.has_finalizer or not seen.policy.finalizer:
        return Plan()
    return Plan((AddFinalizer(),), because="it has no finalizer of ours yet")


def adopt(seen: Seen[S, M]) -> Plan[Step]:
    """Adopt members that match the selector and have no controller, then count anew."""
    if not seen.orphans:
        return Plan()
    many = seen.policy.words.many
    because = f"{many} that match and have no controller: {len(seen.orphans)}"
    return Plan((Adopt(seen.orphans),), AT_ONCE, because, last=True)


def disown(seen: Seen[S, M]) -> Plan[Step]:
    """Disown members whose labels no longer match the selector.

    The highest number is written on the set first, since its member shows it to no later pass. That write
    changes the set, so it ends the pass.
    """
    if not seen.unselected:
        return Plan()
    record, many = _record_number(seen, ()), seen.policy.words.many
    because = f"{many} that no longer match: {len(seen.unselected)}"
    steps = (*record, Disown(seen.unselected))
    return Plan(steps, AT_ONCE if record else None, because, last=bool(record))


def propagate(seen: Seen[S, M]) -> Plan[Step]:
    """Push down to members what the template changes on them."""
    burst, stale = seen.burst, seen.policy.stale(seen)
    if not stale:
        return Plan()
    more = len(stale) > burst
    because = f"{seen.policy.words.many} with an older configuration: {len(stale)}"
    return Plan((Propagate(tuple(stale[:burst])),), AT_ONCE if more else None, because, last=more)


def grow(seen: Seen[S, M]) -> Plan[Step]:
    """Create the missing members; creations in doubt are repeated under their own names first."""
    many = seen.policy.words.many
    if seen.missing <= 0:
        return Plan()
    if (wait := seen.pause or seen.blocked) is not None:
        return _waiting(wait, f"{many} missing: {seen.missing}")
    if seen.doubts:
        ask = seen.doubts[: seen.missing]
        because = f"creations without an answer: {len(seen.doubts)}"
        return Plan((Create(ask),), delays.CREATION, because, awaits=(ANSWER,))
    count = min(seen.missing, seen.burst)
    taken = seen.taken | {member.name for member in (*seen.members, *seen.unselected)}
    step = Create(new_names(seen.set.metadata, seen.last, taken, count))
    because = f"{len(seen.replicas)} of {seen.set.spec.replicas} {many}"
    more = seen.missing > count
    return Plan((step,), AT_ONCE if more else None, because, last=more)


def shrink(seen: Seen[S, M]) -> Plan[Step]:
    """Delete surplus members, and those that the policy wants deleted for other reasons."""
    others, burst = seen.policy.to_delete(seen), seen.burst
    deleted = {member.uid: member for member in (*seen.surplus, *others.members)}
    chosen = tuple(deleted.values())[:burst]
    record = _record_number(seen, chosen)
    if not chosen and seen.pause and seen.missing < 0:
        waiting = _waiting(seen.pause, f"{seen.policy.words.many} too many: {-seen.missing}")
        return replace(waiting, steps=record)
    if not chosen:
        kept = f"the {seen.policy.words.one} with the highest number leaves: the set records the number"
        return Plan(record, others.wake, kept if record else "")
    surplus = f"{len(seen.surplus)} too many" if seen.surplus else ""
    because = ", ".join(filter(None, (surplus, others.because)))
    more = len(deleted) > burst
    return Plan((*record, Delete(chosen)), AT_ONCE if more else others.wake, because, last=more)


def delete_members(seen: Seen[S, M]) -> Plan[Step]:
    """Delete the members of a set that is being deleted, unless its deletion orphans them.

    Those that are being deleted already still get what the template changes on them: how long a drain may
    take, say.
    """
    many = seen.policy.words.many
    if not seen.has_finalizer:
        return Plan()
    if ORPHAN_FINALIZER in seen.set.metadata.finalizers:
        return Plan(because=f"the {many} are being orphaned")
    ours = (*seen.members, *seen.unselected)
    if ours:
        chosen = tuple(member for member in ours if not member.deleting)
        stale = tuple(member for member in seen.policy.stale(seen) if member.deleting)[: seen.burst]
        steps = (*((Propagate(stale),) if stale else ()), *((Delete(chosen),) if chosen else ()))
        remedy = "see what holds it up; its finalizers name who has to let it go"
        going = (m for m in ours if m.deleting)
        awaits = tuple(
            Awaited(f"{seen.policy.member_kind.resource.kind} {m.name} to be deleted", remedy)
            for m in islice(going, NAMED)
        )
        return Plan(steps, because=f"{many} left: {len(ours)}", awaits=awaits)
    if seen.doubts:
        because = "a creation without an answer may still happen"
        return Plan((), timedelta(seconds=DOUBT_SECONDS), because, awaits=(ANSWER,))
    return Plan((RemoveFinalizer(),), because=f"no {seen.policy.words.one} is left")


def _record_number(seen: Seen[S, M], chosen: Collection[Member]) -> tuple[Step, ...]:
    """Write the highest number on the set before the member that carries it is deleted or disowned, else the
    number and its name would be given twice."""
    if not seen.policy.number_annotation:
        return ()
    deleted = {member.uid for member in chosen}
    shown = max((m.number for m in seen.alive if m.uid not in deleted), default=0)
    return (RecordNumber(seen.last),) if max(shown, seen.written_number) < seen.last else ()


def _waiting(wait: Wait, what: str) -> Plan[Step]:
    wake = in_seconds(wait.seconds) if wait.seconds is not None else None
    awaits = () if wait.awaits is None else (wait.awaits,)
    return Plan(wake=wake, because=f"{what}, but {wait.because}", awaits=awaits)
