"""Decide what a deployment does next. Pure.

Theory.      The order of the deciders is the list in ``decide``; one that changes what the later ones look at
             ends the pass, and the next one follows at once. ``rollout.planner`` decides the sizes;
             here they become changes of sets, one write for each set that changes. The label with the
             template's hash tells the members of two sets apart; it is no part of the
             template itself, and is removed before templates are compared or rolled back to. Annotations are
             propagated, but for those that belong to one object alone, and only to the current set.
"""

from typing import assert_never

from msgspec import structs

from kubewright.api.meta import LabelSelector, ObjectMeta, with_finalizer
from kubewright.base.plan import AT_ONCE, Awaited, Plan, in_order
from kubewright.replicas.deployment.seen import (
    Adopt,
    ChangeDeployment,
    ChangeSet,
    CreateSet,
    DeleteSets,
    DeploymentPolicy,
    Disown,
    RecordEvent,
    Seen,
    Step,
)
from kubewright.replicas.objects import (
    ORPHAN_FINALIZER,
    AddFinalizer,
    D,
    M,
    RemoveFinalizer,
    S,
    annotated,
    changed,
    reference,
    with_annotations,
    with_hash,
    with_replicas,
)
from kubewright.rollout.model import Create, Freeze, Resize, Sizes
from kubewright.rollout.revisions import next_revision, prunable, write_history

NAMED = 3
"""Sets whose deletion is awaited that a plan names."""

PROPAGATED = "its sets get the fields that need no rollout"


def decide(seen: Seen[D, S, M]) -> Plan[Step]:
    """The plan for one pass."""
    if seen.in_doubt:
        return Plan(because="what came of its last write is not known yet")
    if (refused := seen.not_created) is not None:
        return Plan((refused,), because=f"a creation without an answer: {refused.new.name}")
    if seen.deleting:
        return delete_sets(seen)
    if seen.problem:
        return Plan(because=f"the deployment is not valid: {seen.problem}")
    return in_order((add_finalizer, adopt_and_disown, *seen.policy.deciders(), resize, prune), seen, Plan())


def add_finalizer(seen: Seen[D, S, M]) -> Plan[Step]:
    """Put our finalizer on first, so that the sets are deleted before the deployment.

    What else belongs on a new deployment goes with it, into one write. It ends the pass, since later steps
    patch the deployment, too, in the version that was seen.
    """
    finalizer = seen.policy.finalizer
    if not finalizer or finalizer in seen.written.metadata.finalizers:
        return Plan()
    return Plan((_begin(seen),), AT_ONCE, "it has no finalizer of ours yet", last=True)


def _begin(seen: Seen[D, S, M]) -> Step:
    meta = seen.policy.initial_metadata(seen)
    if meta == seen.written.metadata:
        return AddFinalizer()
    finalizers = tuple(with_finalizer(meta.finalizers, seen.policy.finalizer))
    after = changed(seen.written, metadata=structs.replace(meta, finalizers=finalizers))
    if not (seen.sets or seen.orphans):
        after = annotated(after, seen.policy.metadata_keys.revision, str(next_revision(())))
    return ChangeDeployment(after)


def adopt_and_disown(seen: Seen[D, S, M]) -> Plan[Step]:
    """Adopt sets that match the selector and have no controller; disown those that no longer match."""
    plan: Plan[Step] = Plan()
    if seen.unselected:
        plan = Plan((Disown(seen.unselected),), because=f"sets that no longer match: {len(seen.unselected)}")
    if seen.orphans:
        because = f"sets that match and have no controller: {len(seen.orphans)}"
        return plan.then(Plan((Adopt(seen.orphans),), AT_ONCE, because, last=True))
    return plan


def resize(seen: Seen[D, S, M]) -> Plan[Step]:
    """Create the current set if it is missing, and give every set its size."""
    policy, sizes = seen.policy, seen.sizes
    revision = next_revision(seen.fleet.old)
    wanted = _wanted(seen, sizes, revision)
    steps: list[Step] = []
    for intent in sizes.intents:
        match intent:
            case Create(size, _):
                new = new_set(policy, seen.deployment, revision, sizes, size)
                steps += [CreateSet(new), *_scaled(seen, new.name, 0, size), *_with_revision(seen, revision)]
            case Resize(name, before, after, _):
                steps += _scaled(seen, name, before, after)
            case Freeze():
                pass  # no event tells of it; the set that ``_wanted`` has frozen is one of ``changes``
            case _:
                assert_never(intent)
    changes = [ChangeSet(s, wanted[s.name]) for s in seen.sets if wanted[s.name] != s]
    refreshes = PROPAGATED if changes and not sizes.intents else ""
    steps = [*changes, *steps]
    if seen.current is not None:
        steps += _with_revision(
            seen, policy.metadata_keys.revision_of(wanted[seen.current.name].metadata).number
        )
    because = "; ".join(filter(None, (sizes.because, refreshes)))
    return Plan(tuple(steps), because=because, awaits=_unavailable(seen))


def _unavailable(seen: Seen[D, S, M]) -> tuple[Awaited, ...]:
    """The members that have to become available before a rollout goes on, or is over."""
    if seen.counts.available >= seen.desired:
        return ()
    kind = seen.policy.member_kind.resource.kind
    return (Awaited(f"its {kind}s to be available", "see those that are not ready"),)


def prune(seen: Seen[D, S, M]) -> Plan[Step]:
    """Delete old sets beyond the history limit in a pass in which no size changes.

    That may be while the rollout waits: the sets that it still needs have members or a size, and stay.
    """
    if not seen.sizes.idle or seen.policy.keeps_history(seen.written):
        return Plan()
    surplus = prunable(seen.fleet.old, seen.deployment.spec.revision_history_limit)
    sets = tuple(seen.named(group.name) for group in surplus)
    if not sets:
        return Plan()
    return Plan((DeleteSets(sets),), because=f"old sets beyond the history limit: {len(sets)}")


def delete_sets(seen: Seen[D, S, M]) -> Plan[Step]:
    """Delete the sets of a deployment that is being deleted, unless its deletion orphans them.

    Those that are being deleted already still get what needs no rollout: how long a drain may take, say.
    """
    finalizers = seen.written.metadata.finalizers
    if seen.policy.finalizer not in finalizers:
        return Plan()
    if ORPHAN_FINALIZER in finalizers:
        return Plan(because="the sets are being orphaned")
    if not seen.sets:
        return Plan((RemoveFinalizer(),), because="no set is left")
    living = tuple(each for each in seen.sets if not each.metadata.deleting)
    going = [each for each in seen.sets if each.metadata.deleting] if not seen.problem else []
    wanted = _propagated(seen)
    steps = [ChangeSet(each, wanted[each.name]) for each in going if wanted[each.name] != each]
    deletes = (DeleteSets(living),) if living else ()
    kind, remedy = seen.policy.set_kind.resource.kind, "see what holds up its members"
    awaits = (
        Awaited(f"{kind} {each.name} to be deleted", remedy, each.metadata.deletion_timestamp)
        for each in seen.sets[:NAMED]
        if each.metadata.deleting
    )
    return Plan((*steps, *deletes), because=f"sets left: {len(seen.sets)}", awaits=tuple(awaits))


def _propagated(seen: Seen[D, S, M]) -> dict[str, S]:
    """Every set with what reaches all sets without a rollout."""
    policy = seen.policy
    if not policy.propagates_to_all:
        return {each.name: each for each in seen.sets}
    return {each.name: propagated(policy, each, seen.deployment) for each in seen.sets}


def _wanted(seen: Seen[D, S, M], sizes: Sizes, revision: int) -> dict[str, S]:
    """Every set as it should be after this pass."""
    policy, wanted = seen.policy, _propagated(seen)
    if seen.current is not None:
        wanted[seen.current.name] = refreshed(policy, seen.current, seen.deployment, revision)
    for name in sizes.to_annotate:
        wanted[name] = sized(policy, wanted[name], sizes)
    for intent in sizes.intents:
        match intent:
            case Resize(name, _, size, _, complete=True):
                wanted[name] = sized(policy, policy.as_sized(wanted[name], seen.deployment), sizes, size)
            case Resize(name, _, size, _):
                wanted[name] = with_replicas(policy.as_sized(wanted[name], seen.deployment), size)
            case Freeze(name, _):
                wanted[name] = frozen(policy, wanted[name])
    return wanted


def _with_revision(seen: Seen[D, S, M], revision: int) -> list[Step]:
    """Write the current set's revision onto the deployment, if the deployment has another."""
    key, written = seen.policy.metadata_keys.revision, seen.written
    if written.metadata.annotations.get(key) == str(revision):
        return []
    return [ChangeDeployment(annotated(written, key, str(revision)))]


def _scaled(seen: Seen[D, S, M], name: str, before: int, after: int) -> list[Step]:
    if before == after:
        return []
    direction = "up" if after > before else "down"
    message = seen.policy.words.scaled.format(direction=direction, name=name, before=before, after=after)
    return [RecordEvent(seen.policy.reasons.scaled, message)]


def new_set(policy: DeploymentPolicy[D, S, M], deployment: D, revision: int, sizes: Sizes, size: int) -> S:
    """The set for the deployment's template, complete: finalizer, owner, hash, sizes and revision."""
    meta, keys = deployment.metadata, policy.metadata_keys
    name, hashed = policy.name_and_hash(deployment)
    template = with_hash(deployment.spec.template, keys.template_hash, hashed)
    selector = deployment.spec.selector or LabelSelector()
    labels = {**selector.match_labels, keys.template_hash: hashed}
    empty = policy.set_kind.type()
    found = changed(
        empty,
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations={
                **keys.shared(meta.annotations),
                **_size_annotations(policy, sizes),
                keys.revision: str(revision),
            },
            finalizers=tuple(filter(None, (policy.set_finalizer or policy.finalizer,))),
            owner_references=(reference(deployment, policy.kind),),
        ),
        spec=changed(empty.spec, selector=structs.replace(selector, match_labels=labels), template=template),
    )
    return with_replicas(propagated(policy, found, deployment), size)


def refreshed(policy: DeploymentPolicy[D, S, M], current: S, deployment: D, revision: int) -> S:
    """The current set with all that is propagated without a rollout, and with at least this revision.

    It may create members, even if it was an old set that a rollout froze before.
    """
    keys, mine = policy.metadata_keys, current.metadata.annotations
    raised = keys.revision_of(current.metadata).raised(revision)
    shared = keys.shared(deployment.metadata.annotations)
    kept = {key: text for key, text in mine.items() if key not in keys.mirrored}
    annotations = {**kept, **shared, keys.revision: str(raised.number)}
    if raised.history:
        annotations[keys.history] = write_history(raised.history)
    annotations.pop(keys.no_creation, None)
    thawed = with_annotations(current, annotations)
    if keys.is_frozen(current.metadata) and keys.no_creation_label is not None:
        label, _ = keys.no_creation_label
        labels = {key: text for key, text in current.metadata.labels.items() if key != label}
        thawed = changed(thawed, metadata=structs.replace(thawed.metadata, labels=labels))
    return propagated(policy, thawed, deployment)


def propagated(policy: DeploymentPolicy[D, S, M], each: S, deployment: D) -> S:
    """The set with all that is propagated without a rollout, but for annotations."""
    spec = changed(each.spec, min_ready_seconds=deployment.spec.min_ready_seconds)
    return policy.as_sized(policy.propagated(changed(each, spec=spec), deployment), deployment)


def frozen(policy: DeploymentPolicy[D, S, M], each: S) -> S:
    """The set with the mark that stops it from creating members: the current set does it instead."""
    keys = policy.metadata_keys
    if keys.no_creation_label is None:
        return annotated(each, keys.no_creation, "true")
    label, value = keys.no_creation_label
    labels = {**each.metadata.labels, label: value}
    return changed(each, metadata=structs.replace(each.metadata, labels=labels))


def sized(policy: DeploymentPolicy[D, S, M], each: S, sizes: Sizes, size: int | None = None) -> S:
    """The set with the annotations ``desired`` and ``ceiling`` and, unless ``size`` is None, another size."""
    annotated_set = with_annotations(each, {**each.metadata.annotations, **_size_annotations(policy, sizes)})
    return annotated_set if size is None else with_replicas(annotated_set, size)


def _size_annotations(policy: DeploymentPolicy[D, S, M], sizes: Sizes) -> dict[str, str]:
    return {
        policy.metadata_keys.desired: str(sizes.desired),
        policy.metadata_keys.ceiling: str(sizes.ceiling),
    }
