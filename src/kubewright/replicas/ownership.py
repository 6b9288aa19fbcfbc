"""Who owns an object: selectors, and the owner references by which controllers adopt and disown. Pure.

Theory.      An owner's children are those that it controls and that its selector matches. It adopts what
             matches and has no controller, and disowns what it controls and no longer matches; in an API
             whose policy says ``keeps_controlled`` it keeps that. The list of
             owner references is replaced as a whole, so each patch names the version that was read
             (``kube.patches.onto``): it fails if another controller was faster.
Invariants.  A selector that is missing, empty or wrong matches nothing. References of other owners stay.
Called by    ``set`` and ``deployment``, ``members`` and ``doubts``; the templates of contexts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from kubewright.api.diff import Patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import LabelSelector, Object, OwnerReference, owner_of
from kubewright.kube.patches import onto
from kubewright.replicas.objects import SetObject
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import NOTHING, Selector

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
