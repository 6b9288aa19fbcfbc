"""What every object shares: metadata, owners, selectors, and the vocabulary of our Structs.

Theory.      A kind is a tree of frozen ``Value`` Structs. A field's Python name is the snake case
             of its wire name. Its type says what JSON holds; ``doc`` adds the sentence that
             ``kubectl explain`` shows, and what the CRD must say beyond the type.
Invariants.  Every field has a default, so that a sparse object reads without an error; what a
             CRD requires is marked ``required``. Values are never changed, only replaced
             (``msgspec.structs.replace``). No value can contain itself, hence ``gc=False``.
             Times are aware. Fields at their default are not written.
Called by    every module of ``api``; ``crd`` turns ``doc`` into schema.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct, field, structs

Json = Any
"""Raw JSON: an object that we hand on without looking inside."""


def doc(text: str, *, required: bool = False, **schema: Json) -> Meta:
    """A field's description; ``schema`` is merged into its OpenAPI schema (``format="int64"``)."""
    return Meta(description=text, extra={"required": required, "schema": schema})


def text(sentence: str, most: int, *, least: int = 1, required: bool = False, **schema: Json) -> Meta:
    """As ``doc``, of a text that has from ``least`` to ``most`` characters."""
    shortest = {"minLength": least} if least else {}
    return doc(sentence, required=required, maxLength=most, **shortest, **schema)


def keyed(*names: str) -> dict[str, Json]:
    """Schema of a list whose entries are told apart by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(names)}


def rules(*pairs: tuple[str, str], **more: Json) -> dict[str, Json]:
    """Schema of what must hold beyond types: pairs of a rule (CEL) and what is said where it does not."""
    found = [{"rule": rule, "message": message, **more} for rule, message in pairs]
    return {"x-kubernetes-validations": found}


def extra_schema(**schema: Json) -> Meta:
    """As ``doc``, without a description: keywords that are merged into the OpenAPI schema of a type."""
    return Meta(extra={"required": False, "schema": schema})


def written(zero: Json) -> Meta:
    """Says of a field that Go writes it even where it is unset, and what for."""
    return Meta(extra={"written": zero})


PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema of a field whose unknown members the API server keeps."""
ATOMIC = {"x-kubernetes-list-type": "atomic"}
ATOMIC_MAP = {"x-kubernetes-map-type": "atomic"}

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY_PATTERN = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
"""What kube-apiserver's schemas say about a quantity; ``wire.quantity`` reads it."""

Time = Annotated[datetime, Meta(tz=True)]
"""A ``metav1.Time`` or ``MicroTime``; always aware."""
Duration = str
"""A Go duration string (``1h30m``); ``base.clock`` reads it."""
Int32 = Annotated[int, extra_schema(format="int32")]
Int64 = Annotated[int, extra_schema(format="int64")]
IntOrString = Annotated[int | str, extra_schema(**{"x-kubernetes-int-or-string": True})]
"""A count (``1``) or a share (``"25%"``)."""
Quantity = Annotated[
    str | int, extra_schema(pattern=QUANTITY_PATTERN, **{"x-kubernetes-int-or-string": True})
]
"""A Kubernetes quantity (``500m``, ``8Gi``, ``4``); ``wire.quantity`` reads it."""


class Value(Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True, gc=False):
    """Base of everything that stands in an API object."""


class OwnerReference(Value, frozen=True, kw_only=True):
    """Who owns an object; the garbage collector follows it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Value, frozen=True, kw_only=True):
    """The metadata of an object, as far as controllers look at it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def deleting(self) -> bool:
        """The object was deleted, and a finalizer or a grace period keeps it."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that controls the object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class KubeObject(Value, frozen=True, kw_only=True):
    """Base of every kind. ``api_version`` and ``kind`` are empty on the items of a list."""

    api_version: Annotated[str, doc("The group and version of this representation.")] = ""
    kind: Annotated[str, doc("The kind of object that this is.")] = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """Short for ``metadata.name``."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Short for ``metadata.namespace``."""
        return self.metadata.namespace


class Object(Protocol):
    """The attributes that every ``KubeObject`` has, for code that works on any kind.

    A protocol, unlike a base class, can be extended by fields that several kinds have (``spec.replicas``).
    """

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...


class Requirement(Value, frozen=True, kw_only=True):
    """One condition of a selector on one label."""

    key: Annotated[str, doc("The label that the condition is about.", required=True)] = ""
    operator: Annotated[str, doc("One of In, NotIn, Exists and DoesNotExist.", required=True)] = ""
    values: Annotated[
        tuple[str, ...], doc("The values of In and NotIn; empty for Exists and DoesNotExist.", **ATOMIC)
    ] = ()


class LabelSelector(Value, frozen=True, kw_only=True):
    """Selects objects by labels: all conditions must hold; an empty selector selects everything."""

    match_labels: Annotated[Mapping[str, str], doc("Labels that must have exactly these values.")] = field(
        default_factory=dict
    )
    match_expressions: Annotated[tuple[Requirement, ...], doc("Further conditions on labels.", **ATOMIC)] = ()


class Condition(Value, frozen=True, kw_only=True):
    """A standard condition (``metav1.Condition``)."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


def whole_seconds(value: Struct, *names: str) -> None:
    """Cut the named times of a value to whole seconds, as ``metav1.Time`` holds them.

    For ``__post_init__`` of values that we write: otherwise a time that we wrote would differ from
    the one that a Go client writes back, and we would send a needless patch.
    """
    for name in names:
        moment = getattr(value, name)
        if moment is not None and moment.microsecond:
            structs.force_setattr(value, name, moment.replace(microsecond=0))


def visible_fraction(value: Struct, *names: str) -> None:
    """Give the named ``MicroTime`` fields of a value a fraction of a second where they have none.

    For ``__post_init__``: JSON leaves a fraction of zero out, and kube-apiserver refuses a
    MicroTime without one.
    """
    for name in names:
        moment = getattr(value, name)
        if moment is not None and not moment.microsecond:
            structs.force_setattr(value, name, moment.replace(microsecond=1))


def owner_of(owner: Object, api_version: str, kind: str) -> OwnerReference:
    """The reference by which ``owner`` controls a child, and holds it until the child is gone."""
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def with_finalizer(finalizers: Iterable[str], name: str) -> list[str]:
    """The finalizers with ``name`` among them."""
    present = list(finalizers)
    return present if name in present else [*present, name]


def without_finalizer(finalizers: Iterable[str], name: str) -> list[str]:
    """The finalizers without ``name``."""
    return [item for item in finalizers if item != name]


def integer(annotations: Mapping[str, str], key: str, default: int = 0) -> int:
    """An annotation that holds an integer; ``default`` when it is absent or holds something else."""
    try:
        return int(annotations[key])
    except (KeyError, ValueError):
        return default
