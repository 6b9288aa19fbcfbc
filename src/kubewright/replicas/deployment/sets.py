"""A deployment's sets: how a new one looks, and what is propagated to one without a rollout. Pure.

Theory.      The label with the template's hash tells the members of two sets apart; it is no part of the
             template itself, and is removed before templates are compared or rolled back to. Annotations are
             propagated, but for those that belong to one object alone, and only to the current set.
Source       mcm.md §7.3, §7.5; capi.md §7.9.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import structs

from kubewright.api.meta import LabelSelector, Object, ObjectMeta, integer
from kubewright.replicas.deployment.policy import D, DeploymentPolicy
from kubewright.replicas.member import M
from kubewright.replicas.objects import S, changed, with_replicas
from kubewright.replicas.ownership import reference
from kubewright.rollout.model import Sizes
from kubewright.rollout.revisions import Revision, read_history, write_history

Obj = TypeVar("Obj", bound=Object)
"""A deployment or a set."""


def with_annotations(obj: Obj, annotations: Mapping[str, str]) -> Obj:
    """The object with these annotations and no others."""
    return changed(obj, metadata=structs.replace(obj.metadata, annotations=annotations))


def annotated(obj: Obj, key: str, value: str) -> Obj:
    """The object with this annotation; without it if ``value`` is empty."""
    annotations = {name: text for name, text in obj.metadata.annotations.items() if name != key}
    return with_annotations(obj, {**annotations, key: value} if value else annotations)


def with_hash(template: Any, label: str, hashed: str) -> Any:
    """A deployment's template as its set carries it; as the deployment wrote it, if ``hashed`` is empty."""
    meta: ObjectMeta = template.metadata
    labels = {key: value for key, value in meta.labels.items() if key != label}
    if hashed:
        labels[label] = hashed
    return changed(template, metadata=structs.replace(meta, labels=labels))


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
    raised = revision_of(policy, current).raised(revision)
    shared = keys.shared(deployment.metadata.annotations)
    kept = {key: text for key, text in mine.items() if key not in keys.mirrored}
    annotations = {**kept, **shared, keys.revision: str(raised.number)}
    if raised.history:
        annotations[keys.history] = write_history(raised.history)
    annotations.pop(keys.no_creation, None)
    thawed = with_annotations(current, annotations)
    if is_frozen(policy, current) and keys.no_creation_label is not None:
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


def is_frozen(policy: DeploymentPolicy[D, S, M], each: S) -> bool:
    """Whether a set has the mark of ``frozen``. A label with another value is a user's, and stays."""
    meta, keys = each.metadata, policy.metadata_keys
    if keys.no_creation_label is None:
        return keys.no_creation in meta.annotations
    label, value = keys.no_creation_label
    return meta.labels.get(label) == value


def sized(policy: DeploymentPolicy[D, S, M], each: S, sizes: Sizes, size: int | None = None) -> S:
    """The set with the annotations ``desired`` and ``ceiling`` and, unless ``size`` is None, another size."""
    annotated_set = with_annotations(each, {**each.metadata.annotations, **_size_annotations(policy, sizes)})
    return annotated_set if size is None else with_replicas(annotated_set, size)


def revision_of(policy: DeploymentPolicy[D, S, M], each: S) -> Revision:
    """A set's number and history."""
    annotations = each.metadata.annotations
    history = read_history(annotations.get(policy.metadata_keys.history, ""))
    return Revision(integer(annotations, policy.metadata_keys.revision), history)


def _size_annotations(policy: DeploymentPolicy[D, S, M], sizes: Sizes) -> dict[str, str]:
    return {
        policy.metadata_keys.desired: str(sizes.desired),
        policy.metadata_keys.ceiling: str(sizes.ceiling),
    }
