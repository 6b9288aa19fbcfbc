"""Decide what a MachineSet does next. Pure.

Theory.      The order of the phases is the list ``PHASES``; their steps are performed in that order. A
             phase with the wake-up ``AGAIN`` ends the pass, because its steps change what the later
             phases count.
Invariants.  No new name is tried while a creation is in doubt. No machine is created while the set is
             frozen, or before it carries our finalizer. A machine that is being deleted is never a
             replica and never deleted again. Of surplus machines ``rollout.order`` says which go first;
             each is deleted only in the version that was seen, so a machine that has changed since stays
             until the next pass has looked at it.
Source       mcm.md §6.2-6.6.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.machines.machineset import keeping
from kubewright.machines.machineset.member import BEGIN_SECONDS, MachineMember, digest, moment
from kubewright.machines.machineset.observe import Pause, Seen
from kubewright.machines.machineset.settings import MachineSetSettings
from kubewright.machines.machineset.steps import (
    Adopt,
    Ask,
    Configure,
    Create,
    Delete,
    Hold,
    LetGo,
    Plan,
    Release,
    Remember,
    Step,
)
from kubewright.replicas.claims import ORPHAN_FINALIZER
from kubewright.replicas.naming import new_names
from kubewright.rollout.order import in_line, mcm_ranking

AGAIN = 0.0
"""Seconds: look again at once, because the steps of this pass change what is counted."""

DOUBT_PAUSE = 0.25
"""Seconds between two attempts of a creation that the server has not answered."""

Decision = Callable[[Seen, MachineSetSettings], Plan]


def decide(seen: Seen, settings: MachineSetSettings) -> Plan:
    """The plan for one pass."""
    if seen.deleting:
        return _retire(seen, settings)
    if seen.problem:
        return Plan(because=f"the set is not valid: {seen.problem}")
    return _run(PHASES, seen, settings)


def _run(phases: Iterable[Decision], seen: Seen, settings: MachineSetSettings) -> Plan:
    """All phases in order up to the first that ends the pass; the soonest wake-up counts."""
    steps: list[Step] = []
    reasons: list[str] = []
    wakes: list[float] = []
    for phase in phases:
        plan = phase(seen, settings)
        steps += plan.steps
        reasons += [plan.because] if plan.because else []
        wakes += [plan.wake] if plan.wake is not None else []
        if plan.steps and plan.wake == AGAIN:
            break
    return Plan(tuple(steps), min(wakes, default=None), "; ".join(reasons))


def hold(seen: Seen, _settings: MachineSetSettings) -> Plan:
    """Put our finalizer on first, so that the machines are deleted before the set."""
    return Plan() if seen.held else Plan((Hold(),), because="it has no finalizer of ours yet")


def claim(seen: Seen, _settings: MachineSetSettings) -> Plan:
    """Adopt machines that match the selector and have no controller, then count anew (mcm.md §6.3)."""
    if not seen.orphans:
        return Plan()
    return Plan((Adopt(seen.orphans),), AGAIN, f"machines that match and are nobody's: {len(seen.orphans)}")


def release(seen: Seen, _settings: MachineSetSettings) -> Plan:
    """Release machines of the set whose labels no longer match the selector."""
    if not seen.strays:
        return Plan()
    return Plan((Release(seen.strays),), because=f"machines that match no more: {len(seen.strays)}")


def configure(seen: Seen, settings: MachineSetSettings) -> Plan:
    """Push node template and configuration down to living machines (mcm.md §6.7)."""
    spec = seen.machine_set.spec.template.spec
    wanted = {own: digest(spec, own_timeout=own) for own in (False, True)}
    stale = [
        member
        for member in seen.alive
        if member.configured
        and member.configured != wanted[member.own_timeout]
        and member.phase is not Phase.FAILED
    ]
    if not stale:
        return Plan()
    wake = AGAIN if len(stale) > settings.burst else None
    step = Configure(tuple(stale[: settings.burst]))
    return Plan((step,), wake, f"machines with an older configuration: {len(stale)}")


def grow(seen: Seen, settings: MachineSetSettings) -> Plan:
    """Create the missing machines; creations in doubt are repeated under their own names first."""
    if seen.missing <= 0:
        return Plan()
    if seen.pause:
        return _paused(seen.pause, f"machines missing: {seen.missing}")
    if seen.stopped:
        return Plan(because=f"machines missing: {seen.missing}, but {seen.stopped}")
    if seen.doubts:
        ask = seen.doubts[: seen.missing]
        return Plan((Create(ask),), DOUBT_PAUSE, f"creations in doubt: {len(seen.doubts)}")
    number = min(seen.missing, settings.burst)
    taken = seen.taken | {member.name for member in (*seen.members, *seen.strays)}
    step = Create(new_names(seen.machine_set.metadata, seen.last, taken, number))
    because = f"{len(seen.alive)} of {seen.machine_set.spec.replicas} machines"
    return Plan((step,), AGAIN if seen.missing > number else None, because)


def keep(seen: Seen, settings: MachineSetSettings) -> Plan:
    """Ask that Failed machines be preserved, up to the set's maximum (mcm.md §6.6)."""
    more, fewer = _kept(seen, settings), keeping.too_many(seen)[: settings.burst]
    steps = (*((Ask(more),) if more else ()), *((Ask(fewer, None),) if fewer else ()))
    parts = ((len(more), "to be kept although they failed"), (len(fewer), "to be kept no longer"))
    return Plan(steps, because=", ".join(f"{count} {what}" for count, what in parts if count))


def shrink(seen: Seen, settings: MachineSetSettings) -> Plan:
    """Delete surplus machines, Failed ones, and those that the autoscaler chose (mcm.md §6.4)."""
    too_many = max(0, -seen.missing)
    surplus = _surplus(seen)
    kept = {member.uid for member in _kept(seen, settings)}
    failed = [
        m for m in seen.alive if m.phase is Phase.FAILED and not m.kept_at(seen.wall) and m.uid not in kept
    ]
    chosen = [member for member in seen.alive if _chosen(seen, member)]
    all_victims = {member.uid: member for member in (*surplus, *chosen, *failed)}
    victims = tuple(all_victims.values())[: settings.burst]
    remember, wake = _remember(seen, victims), _next_expiry(seen)
    if not victims and seen.pause and too_many:
        return replace(_paused(seen.pause, f"machines too many: {too_many}"), steps=remember)
    if not victims:
        return Plan(remember, wake, "the last machine goes: its number stays" if remember else "")
    counts = ((surplus, "too many"), (failed, "failed"), (chosen, "chosen by the autoscaler"))
    because = ", ".join(f"{len(found)} {why}" for found, why in counts if found)
    more = AGAIN if len(all_victims) > settings.burst else wake
    return Plan((*remember, Delete(victims)), more, because)


def _remember(seen: Seen, victims: Collection[MachineMember]) -> tuple[Step, ...]:
    """Write the highest number on the set before the machine that carries it goes, or it is used again."""
    going = {member.uid for member in victims}
    shown = max((m.number for m in seen.alive if m.uid not in going), default=0)
    return (Remember(seen.last),) if max(shown, seen.written_number) < seen.last else ()


PHASES: tuple[Decision, ...] = (hold, claim, release, configure, grow, keep, shrink)


def _surplus(seen: Seen) -> list[MachineMember]:
    """Surplus machines, in the order in which they are deleted."""
    too_many = 0 if seen.pause else max(0, -seen.missing)
    return in_line(seen.alive, mcm_ranking(seen.wall))[:too_many]


def _kept(seen: Seen, settings: MachineSetSettings) -> tuple[MachineMember, ...]:
    """Failed machines to preserve from this pass on, none of those that it deletes for other reasons."""
    chosen = (member for member in seen.alive if _chosen(seen, member))
    going = {member.uid for member in (*_surplus(seen), *chosen)}
    return keeping.chosen(seen, going)[: settings.burst]


def _retire(seen: Seen, settings: MachineSetSettings) -> Plan:
    """Delete the machines of a set that is being deleted, unless its deletion orphans them."""
    if not seen.held:
        return Plan()
    if ORPHAN_FINALIZER in seen.machine_set.metadata.finalizers:
        return Plan(because="the machines are being orphaned")
    ours = (*seen.members, *seen.strays)
    if ours:
        victims = tuple(member for member in ours if not member.deleting)
        steps = (Delete(victims),) if victims else ()
        return Plan(steps, because=f"machines left: {len(ours)}")
    if seen.doubts:
        return Plan((), settings.doubt_seconds, "a creation that nobody answered may still happen")
    return Plan((LetGo(),), because="no machine is left")


def _paused(pause: Pause, what: str) -> Plan:
    return Plan(wake=pause.seconds, because=f"{what}, but {pause.because}")


def _chosen(seen: Seen, member: MachineMember) -> bool:
    """The autoscaler marked the machine no later than it last changed the number of replicas."""
    changed = moment(seen.machine_set.metadata.annotations, names.LAST_SCALER_CHANGE_ANNOTATION)
    if changed is None or member.marked_at is None:
        return False
    return member.priority == 1 and member.marked_at <= changed


def _next_expiry(seen: Seen) -> float | None:
    """Seconds until the first preservation of a Failed machine expires; None if there is none."""
    kept = [member for member in seen.alive if member.phase is Phase.FAILED and member.kept_at(seen.wall)]
    ends = (
        member.preserved_until or (member.failed + BEGIN_SECONDS if member.failed else None)
        for member in kept
    )
    return min((end - seen.wall for end in ends if end is not None), default=None)
