"""What the objects of every API have in common, who owns them, and what is known of a member. Pure.

Fields.      A set in machine.sapcloud.io, Cluster API and apps/v1 has the same fields for the same things:
             ``spec.replicas``, ``spec.selector``, ``spec.template.metadata``, ``spec.minReadySeconds``. They
             are read as they are; a policy only says what differs (``set.seen``).
Owners.      An owner's children are those that it controls and that its selector matches. It adopts what
             matches and has no controller, and disowns what it controls and no longer matches; in an API
             whose policy says ``keeps_controlled`` it keeps that. The list of
             owner references is replaced as a whole, so each patch names the version that was read
             (``kube.patches.onto``): it fails if another controller was faster.
Members.     Most of what happens to a child of a set (an address, a heartbeat) means nothing to
             the set. ``Member`` has the facts that every API has; a policy adds its own by inheritance.
Names.       Each member of a set has a number, from which the end of its name is computed, and carries it in
             an annotation. The next member gets the number after the
             highest that the set ever had: among the members in the cache, those that this process has
             seen before, and the number in the set's annotation. So two controllers that see the same
             choose the same names, and the server answers ``AlreadyExists`` to the second; an older cache
             shows no higher number, and leads to names that exist. The highest number is written on the
             set before the member that carries it is deleted or disowned (``set.decide``), so no name is
             used twice, and what a machine's VM left behind is not mistaken for a later machine's
             (docs/decisions/0005 and 0015).
Invariants.  A selector that is missing, empty or wrong matches nothing. References of other owners stay.
             Numbers and names of one set are one to one: the five letters are ``number * factor + shift``
             modulo ``SPACE``, written in base 27; factor and shift come from the set's uid. The first
             ``SPACE`` members of a set have different names.
Called by    all of ``replicas``; the templates of contexts. ``members`` reads each version of a child once.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Protocol, TypeVar

from msgspec import structs, to_builtins

from kubewright.api.diff import Patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, LabelSelector, Object, ObjectMeta, OwnerReference, owner_of
from kubewright.base.names import ALPHABET, child_name
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


@dataclass(frozen=True, slots=True)
class Member:
    """One child, as far as replicas are concerned. A policy's own facts are added by inheritance.

    ``ready_since`` is when it became ready, on the index's clock; None while it is not. ``number`` is its
    index among the members that its set has ever had; 0 if the set did not count it. ``moved``:
    it came from another set, and the size of its own may not count it yet (``rollout.planner``).
    """

    key: Key
    uid: str
    owner_uid: str
    labels: Mapping[str, str]
    deleting: bool
    created: float = 0.0
    ready_since: float | None = None
    number: int = 0
    moved: bool = False
    version: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def alive(self) -> bool:
        """Not being deleted."""
        return not self.deleting

    @property
    def takes_place(self) -> bool:
        """Whether it may still use something that a rollout must not have too much of."""
        return True

    @property
    def ready(self) -> bool:
        """Ready now, in the sense of its API."""
        return self.ready_since is not None

    @property
    def up(self) -> bool:
        """Alive and ready, or as near to ready as a member of its API can come."""
        return self.alive and self.ready

    def available_at(self, now: float, min_ready: float) -> bool:
        """Up for at least ``min_ready`` seconds; a member that is being deleted is not available."""
        if not self.up:
            return False
        return min_ready <= 0 or (self.ready_since is not None and self.ready_since + min_ready <= now)


Obj = TypeVar("Obj", bound=KubeObject)
"""The object of a member."""
M = TypeVar("M", bound=Member)


def until_available(members: Iterable[Member], min_ready: float, now: float) -> float | None:
    """Seconds until the next member has been ready for long enough; None when there is none to wait for."""
    if min_ready <= 0:
        return None
    waits = [
        member.ready_since + min_ready - now
        for member in members
        if member.up and member.ready_since is not None and member.ready_since + min_ready > now
    ]
    return min(waits, default=None)


LETTERS = 5
SPACE: int = len(ALPHABET) ** LETTERS
"""How many names a set has: 14,348,907."""


def new_names(of: ObjectMeta, last: int, taken: Collection[str], size: int) -> tuple[str, ...]:
    """Names for ``size`` new members of a set.

    Args:
        of: the metadata of the set.
        last: the highest number that a member of the set ever had; 0 for none.
        taken: names that cannot be used.
        size: how many.
    """
    names = (child_name(of.name, letters(of.uid, each)) for each in count(last + 1))
    return tuple(islice((name for name in names if name not in taken), size))


def letters(set_uid: str, number: int) -> str:
    """The five letters at the end of the name of the member with this number."""
    factor, shift = _factor_and_shift(set_uid)
    left, found = (number * factor + shift) % SPACE, ""
    for _ in range(LETTERS):
        left, index = divmod(left, len(ALPHABET))
        found += ALPHABET[index]
    return found


def number_of(set_uid: str, name: str) -> int:
    """The number that the last five letters of a name stand for; 0 if no name of the set ends like this."""
    value = 0
    for letter in reversed(name[-LETTERS:]):
        if letter not in ALPHABET:
            return 0
        value = value * len(ALPHABET) + ALPHABET.index(letter)
    factor, shift = _factor_and_shift(set_uid)
    return (value - shift) * int(pow(factor, -1, SPACE)) % SPACE


def verified_number(set_uid: str, name: str, number: int) -> int:
    """``number`` from the member's annotation, if the member's name ends as that number demands; else 0.

    A member that a user or another controller created may have a name of the same shape, and annotations
    may be copied.
    """
    return number if number > 0 and letters(set_uid, number) == name[-LETTERS:] else 0


def _factor_and_shift(set_uid: str) -> tuple[int, int]:
    """Factor and shift. The factor is no multiple of 3, so no two numbers below ``SPACE`` share a name."""
    digest = hashlib.sha256(set_uid.encode()).digest()
    factor, shift = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")
    return factor - factor % 3 + 1, shift
