"""What the objects of every API have in common, and who owns them: selectors and owner references. Pure.

Fields.      A set in machine.sapcloud.io, Cluster API and apps/v1 has the same fields for the same things:
             ``spec.replicas``, ``spec.selector``, ``spec.template.metadata``, ``spec.minReadySeconds``. They
             are read as they are; a policy only says what differs (``set.policy``).
Owners.      An owner's children are those that it controls and that its selector matches. It adopts what
             matches and has no controller, and disowns what it controls and no longer matches; in an API
             whose policy says ``keeps_controlled`` it keeps that. The list of
             owner references is replaced as a whole, so each patch names the version that was read
             (``kube.patches.onto``): it fails if another controller was faster.
Invariants.  A selector that is missing, empty or wrong matches nothing. References of other owners stay.
Called by    all of ``replicas``; the templates of contexts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from msgspec import structs, to_builtins

from kubewright.api.diff import Patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import LabelSelector, Object, ObjectMeta, OwnerReference, owner_of
from kubewright.kube.patches import onto
from kubewright.wire import selectors
from kubewright.wire.errors import ApiError, BadRequest
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import NOTHING, Selector

INVALID = "InvalidSpec"
"""Reason of an event and of a condition: the spec is invalid, and the object is not reconciled."""

REPLICA_FAILURE = "ReplicaFailure"
"""The condition of a set that cannot create or delete members; its deployment shows a copy."""


class Template(Protocol):
    """What new members look like, as far as all APIs have the same fields."""

    @property
    def metadata(self) -> ObjectMeta: ...


class SetSpec(Protocol):
    """What a set should be."""

    @property
    def replicas(self) -> int: ...

    @property
    def selector(self) -> LabelSelector | None: ...

    @property
    def template(self) -> Template: ...

    @property
    def min_ready_seconds(self) -> int: ...


class SetObject(Object, Protocol):
    """A set. Its status is a Struct of its API's own."""

    @property
    def spec(self) -> SetSpec: ...

    @property
    def status(self) -> Any: ...


class DeploymentSpec(SetSpec, Protocol):
    """What a deployment should be."""

    @property
    def paused(self) -> bool: ...

    @property
    def revision_history_limit(self) -> int | None: ...

    @property
    def progress_deadline_seconds(self) -> int | None: ...


class DeploymentObject(Object, Protocol):
    """A deployment. Its status has the counts of replicas, ``observed_generation``, ``collision_count``, and
    ``conditions`` with a ``last_update_time``."""

    @property
    def spec(self) -> DeploymentSpec: ...

    @property
    def status(self) -> Any: ...


T = TypeVar("T")
S = TypeVar("S", bound=SetObject)
D = TypeVar("D", bound=DeploymentObject)
Owning = TypeVar("Owning", bound=Object)
"""A deployment or a set."""


def changed(value: T, **fields: Any) -> T:
    """A Struct that is known by its protocol only, with some fields changed."""
    struct: Any = value
    after: T = structs.replace(struct, **fields)
    return after


def with_replicas(each: S, replicas: int) -> S:
    """The set with another number of replicas."""
    return changed(each, spec=changed(each.spec, replicas=replicas))


def with_annotations(obj: Owning, annotations: Mapping[str, str]) -> Owning:
    """The object with these annotations and no others."""
    return changed(obj, metadata=structs.replace(obj.metadata, annotations=annotations))


def annotated(obj: Owning, key: str, value: str) -> Owning:
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


BY_OWNER = "owner"
"""Index of children that every cache has (``kube.cache``): the uid of their controller."""

BY_UID = "uid"
"""Index of owners: their own uid, to find the one that a child's owner reference means."""

WITHOUT_CONTROLLER = "without-controller"
"""Index of children: the namespace of those that have no controller."""

ORPHAN_FINALIZER = "orphan"
"""The garbage collector is still taking the children from an owner that was deleted to leave them."""


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Put our finalizer on the owner, so that its children are deleted before it: a step of a plan."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer from the owner, since it has no child any more: a step of a plan."""


@dataclass(frozen=True, slots=True)
class NotCreated:
    """Tell that the server refuses to create this set now that it is asked again: a step of a plan. The first
    request may still come."""

    new: SetObject
    error: ApiError


def read_selector(selector: LabelSelector | None) -> tuple[Selector, str]:
    """A selector and what is wrong with it. A wrong, missing or empty one matches nothing."""
    try:
        read = selectors.from_object(to_builtins(selector)) if selector is not None else NOTHING
    except BadRequest as error:
        return NOTHING, f"spec.selector: {error.message}"
    return read or NOTHING, ""


def contradicts_template(selector: LabelSelector | None, read: Selector, labels: Mapping[str, str]) -> str:
    """Why a selector, which was ``read`` so, does not select what is made from a template with these labels.

    Empty if it does. Without this check an owner would create members without end.
    """
    if read.matches(labels):
        return ""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return "spec.selector: is missing or empty: set it to labels of spec.template.metadata.labels"
    return "spec.selector: does not match the labels of spec.template"


def selecting(owners: Iterable[SetObject], labels: Mapping[str, str]) -> set[Key]:
    """The keys of those owners, sets or deployments with defaults, whose selector matches these labels."""
    return {key_of(each) for each in owners if read_selector(each.spec.selector)[0].matches(labels)}


def namespace_if_uncontrolled(child: Object) -> tuple[str, ...]:
    """The values of the index ``WITHOUT_CONTROLLER``."""
    return () if child.metadata.controller else (child.metadata.namespace,)


def key_of(found: Object) -> Key:
    """Namespace and name."""
    return Key(found.metadata.namespace, found.metadata.name)


def reference(owner: Object, kind: Kind[Any]) -> OwnerReference:
    """The reference by which an owner of this kind controls a child."""
    return owner_of(owner, kind.resource.api_version, kind.resource.kind)


def adopted(child: Object, reference: OwnerReference) -> Patch:
    """The patch that makes an owner the controller of a child that has none."""
    return _owned_by(child, [*child.metadata.owner_references, reference])


def disowned(child: Object, owner: Object) -> Patch:
    """The patch that takes an owner's reference off a child."""
    left = [each for each in child.metadata.owner_references if each.uid != owner.metadata.uid]
    return _owned_by(child, left)


def _owned_by(child: Object, owners: list[OwnerReference]) -> Patch:
    return onto({"metadata": {"ownerReferences": to_builtins(owners) or None}}, child.metadata)
