"""Decide what a MachineDeployment does next. Pure.

Theory.      The order of the phases is the list ``PHASES``; a phase that changes what the later ones look
             at ends the pass, and the next one follows at once. ``rollout.planner`` decides the sizes;
             here they become changes of sets, one write for each set that changes.
Source       mcm.md §7.2-7.10.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet, RollbackConfig
from kubewright.machines.deployment.observe import Seen
from kubewright.machines.deployment.sets import copied, new_set, refreshed, revision_of, sized
from kubewright.machines.deployment.steps import (
    Adopt,
    Change,
    ChangeSet,
    CreateSet,
    DeleteSets,
    LetGo,
    MarkVictims,
    Plan,
    Release,
    Step,
    Tell,
)
from kubewright.machines.deployment.template import identity, without_hash
from kubewright.machines.deployment.victims import victims
from kubewright.replicas.claims import ORPHAN_FINALIZER
from kubewright.rollout import planner
from kubewright.rollout.model import Create, Hold, Resize
from kubewright.rollout.model import Plan as Sizes
from kubewright.rollout.revisions import forgettable, next_revision, rollback_target

Decision = Callable[[Seen], Plan]


def decide(seen: Seen) -> Plan:
    """The plan for one pass."""
    if seen.deleting:
        return _retire(seen)
    if seen.problem:
        return Plan(because=f"the deployment is not valid: {seen.problem}")
    steps: list[Step] = []
    reasons: list[str] = []
    for phase in PHASES:
        plan = phase(seen)
        steps += plan.steps
        reasons += [plan.because] if plan.because else []
        if plan.again:
            return Plan(tuple(steps), again=True, because="; ".join(reasons))
    return Plan(tuple(steps), because="; ".join(reasons))


def hold(seen: Seen) -> Plan:
    """Put our finalizer on first, so that the sets are deleted before the deployment."""
    meta = seen.written.metadata
    if names.FINALIZER in meta.finalizers:
        return Plan()
    held = tuple(names.with_finalizer(meta.finalizers, names.FINALIZER))
    after = structs.replace(seen.written, metadata=structs.replace(meta, finalizers=held))
    return Plan((Change(after),), again=True, because="it has no finalizer of ours yet")


def claim(seen: Seen) -> Plan:
    """Adopt sets that match the selector and have no controller; release those that no longer match."""
    steps: tuple[Step, ...] = (Release(seen.strays),) if seen.strays else ()
    if seen.orphans:
        return Plan((*steps, Adopt(seen.orphans)), again=True, because="sets match and are nobody's")
    return Plan(steps)


def mark_victims(seen: Seen) -> Plan:
    """Mark the machines that the autoscaler lists for deletion; strike those off its list that are gone."""
    annotations = seen.written.metadata.annotations
    members = (member for found in seen.members.values() for member in found)
    found = victims(annotations, members, seen.now)
    steps: list[Step] = [MarkVictims(found.marks)] if found.marks else []
    reasons = [f"the autoscaler chose {', '.join(m.member.name for m in found.marks)}"] if found.marks else []
    if found.text != annotations.get(names.TRIGGER_DELETION_ANNOTATION, ""):
        steps.append(Change(_annotated(seen, names.TRIGGER_DELETION_ANNOTATION, found.text)))
        reasons.append("the autoscaler's list names machines that are gone or going")
    return Plan(tuple(steps), again=bool(steps), because="; ".join(reasons))


def roll_back(seen: Seen) -> Plan:
    """Take an earlier template if ``spec.rollbackTo`` asks for it; while paused it waits."""
    wish = seen.written.spec.rollback_to
    if wish is None or seen.written.spec.paused:
        return Plan()
    spec = structs.replace(seen.written.spec, rollback_to=None)
    after = structs.replace(seen.written, spec=spec)
    target = rollback_target(tuple(seen.groups.values()), wish.revision)
    if target is None:
        return Plan((_not_found(wish), Change(after)), again=True)
    source = seen.named(target.name)
    if identity(source.spec.template) == identity(seen.written.spec.template):
        told = f"the template of revision {target.revision} is the one that the deployment has"
        return Plan(
            (Tell(EventReason.ROLLBACK_TEMPLATE_UNCHANGED, told, warning=True), Change(after)), again=True
        )
    meta = seen.written.metadata
    annotations = {**meta.annotations, **copied(source.metadata.annotations)}
    spec = structs.replace(spec, template=without_hash(source.spec.template))
    after = structs.replace(after, spec=spec, metadata=structs.replace(meta, annotations=annotations))
    told = f'Rolled back deployment "{meta.name}" to revision {target.revision}'
    return Plan((Change(after), Tell(EventReason.ROLLBACK, told)), again=True, because=told)


def resize(seen: Seen) -> Plan:
    """Create the current set if it is missing, and give every set its size."""
    sizes = planner.plan(seen.fleet, seen.strategy)
    revision = next_revision(seen.fleet.old)
    wanted = _wanted(seen, sizes, revision)
    steps: list[Step] = []
    for intent in sizes.intents:
        match intent:
            case Create(size, _):
                made = new_set(seen.deployment, size, revision, sizes)
                steps += [CreateSet(made), *_scaled(made.metadata.name, 0, size), *_numbered(seen, revision)]
            case Resize(name, before, after, _):
                steps += _scaled(name, before, after)
            case Hold():
                pass  # only OnDelete holds sets, which MCM does not have
            case _:
                assert_never(intent)
    changes = [ChangeSet(s, wanted[s.metadata.name]) for s in seen.sets if wanted[s.metadata.name] != s]
    handed = "its sets get what changed" if changes and not sizes.intents else ""
    steps = [*changes, *steps]
    if seen.current is not None:
        current = wanted[seen.current.metadata.name]
        steps += _numbered(seen, revision_of(current.metadata.annotations).number)
    return Plan(tuple(steps), because="; ".join(filter(None, (sizes.because, handed))))


def forget(seen: Seen) -> Plan:
    """Delete old sets beyond the history limit, once the rollout has nothing left to do."""
    if not planner.plan(seen.fleet, seen.strategy).idle or seen.written.spec.rollback_to is not None:
        return Plan()
    surplus = forgettable(seen.fleet.old, seen.written.spec.revision_history_limit)
    sets = tuple(seen.named(group.name) for group in surplus)
    return (
        Plan((DeleteSets(sets),), because=f"old sets beyond the history limit: {len(sets)}")
        if sets
        else Plan()
    )


PHASES: tuple[Decision, ...] = (hold, claim, mark_victims, roll_back, resize, forget)


def _retire(seen: Seen) -> Plan:
    """Delete the sets of a deployment that is being deleted, unless its deletion orphans them."""
    finalizers = seen.written.metadata.finalizers
    if names.FINALIZER not in finalizers:
        return Plan()
    if ORPHAN_FINALIZER in finalizers:
        return Plan(because="the sets are being orphaned")
    if not seen.sets:
        return Plan((LetGo(),), because="no set is left")
    living = tuple(each for each in seen.sets if not each.metadata.deleting)
    return Plan((DeleteSets(living),) if living else (), because=f"sets left: {len(seen.sets)}")


def _wanted(seen: Seen, sizes: Sizes, revision: int) -> dict[str, MachineSet]:
    """Every set as it should be after this pass."""
    wanted = {each.metadata.name: each for each in seen.sets}
    if seen.current is not None:
        name = seen.current.metadata.name
        wanted[name] = refreshed(seen.current, seen.deployment, revision)
    if (held := _held(seen)) is not None:
        number = revision_of(held.metadata.annotations).number
        wanted[held.metadata.name] = refreshed(held, seen.deployment, number)
    for name in sizes.stamps:
        wanted[name] = sized(wanted[name], sizes)
    for intent in sizes.intents:
        if isinstance(intent, Resize):
            wanted[intent.group] = sized(wanted[intent.group], sizes, intent.after)
    return wanted


def _held(seen: Seen) -> MachineSet | None:
    """The old set that stays in use while the rollout is refused: changes that need no rollout go to it."""
    active = [group for group in seen.fleet.old if group.size > 0]
    return seen.named(active[-1].name) if seen.refused and seen.current is None and active else None


def _numbered(seen: Seen, revision: int) -> list[Step]:
    """Write the current set's revision onto the deployment, if it is another."""
    if seen.written.metadata.annotations.get(names.REVISION_ANNOTATION) == str(revision):
        return []
    return [Change(_annotated(seen, names.REVISION_ANNOTATION, str(revision)))]


def _annotated(seen: Seen, key: str, value: str) -> MachineDeployment:
    meta = seen.written.metadata
    annotations = {name: text for name, text in meta.annotations.items() if name != key}
    if value:
        annotations[key] = value
    return structs.replace(seen.written, metadata=structs.replace(meta, annotations=annotations))


def _scaled(name: str, before: int, after: int) -> list[Step]:
    if before == after:
        return []
    direction = "up" if after > before else "down"
    return [Tell(EventReason.SCALING_MACHINE_SET, f"Scaled {direction} machine set {name} to {after}")]


def _not_found(wish: RollbackConfig) -> Tell:
    asked = f"revision {wish.revision}" if wish.revision else "the last revision"
    return Tell(EventReason.ROLLBACK_REVISION_NOT_FOUND, f"Unable to find {asked}", warning=True)
