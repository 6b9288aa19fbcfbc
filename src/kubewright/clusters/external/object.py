"""A referenced object of a provider: what was found, what its contract says about it, whose it is. Pure.

Theory.      A Cluster or a Machine refers to objects of kinds that this program does not know: a provider
             installed them. All that is known of them are the paths of a contract (``fields``), so they stay
             plain JSON. Before a provider does anything, its object must name its owner as controller and
             carry the label of the cluster: ``claim`` says what to write for that, or why that must not be.
             A failure that the provider reports is read anew each time, so it ends when the provider ends it.
             Nothing that is being deleted waits for an object that cannot be: one under a reference that is
             no reference, or of a kind that the server does not serve (``uncertain``, ``if_served``).
Cloning.     A template has the whole object under ``spec.template``; the clone gets a name, an owner, and
             labels and annotations besides the template's own. An annotation says which template it was.
Changes.     A provider writes its object several times before it is done: finalizers and annotations of its
             own, a spec that it completes, a providerID that counts only once the object is ready. The core
             reads none of these, so a Machine or a Cluster is not reconciled for them.
Invariants.  An object that another owner controls is never claimed and never deleted. Owners are compared by
             group, kind and name: after a move to another server they have other uids. What is paused is not
             written. References never leave the namespace of their owner. What ``object`` and ``provided``
             read is compared, and the whole status. An object that is claimed, labelled, paused or deleted
             is another one.
Called by    the decisions of ``cluster`` and ``machine``; ``look_up`` by what reads for them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ready_of
from kubewright.api.cluster.v1beta1 import Condition, ObjectReference
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import Json, ObjectMeta, OwnerReference
from kubewright.base import delays
from kubewright.base.clock import parse_rfc3339
from kubewright.clusters.external import fields
from kubewright.runtime.references.reference import Absent, Cause, Found, Lookup, Reference
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource, crd_name, split_api_version

JsonObject = Mapping[str, Json]

FOREIGN_CHARS = 40
"""How much of a value that a provider should not have written is shown."""


CORRECT = "correct the reference"
UNREADABLE = "see whether the API server answers, and whether Kubewright may list the kind"
REMEDIES = {
    Cause.NOT_LISTED: UNREADABLE,
    Cause.NOT_INSTALLED: f"install its provider, or {CORRECT}",
    Cause.NO_VERSION: "install a release of its provider that serves this contract",
    Cause.NOT_SYNCED: UNREADABLE,
    Cause.MISSING: f"create it, or {CORRECT}",
}
"""What a user can do where a lookup finds no object."""


@dataclass(frozen=True, slots=True)
class External:
    """What was found under a reference.

    ``ref``       the reference, as its owner has it
    ``found``     the object, as plain JSON; None if it is not there, or could not be asked for
    ``kind``      how the object is served; None while there is none
    ``contract``  which contract the object follows
    ``gone``      there is certainly none: its server said so
    ``problem``   why there is none to be seen, as a clause for users; empty while ``found`` is there
    ``remedy``    what a user can do about the problem, as a clause; empty while ``found`` is there
    ``usable``    the reference can lead to an object at all
    ``transient`` the problem is only that our caches are not synced yet
    """

    ref: ObjectReference
    found: JsonObject | None = None
    kind: Kind[dict[str, Any]] | None = field(default=None, repr=False)
    contract: str = names.CONTRACT
    gone: bool = False
    problem: str = ""
    remedy: str = ""
    usable: bool = True
    transient: bool = False

    def __str__(self) -> str:
        """``FooCluster demo``: for messages, and without the namespace, which is the owner's."""
        return f"{self.ref.kind} {self.ref.name}"

    # ------------------------------------------------------------ what every object has

    @property
    def metadata(self) -> JsonObject:
        """The object's metadata; empty where there is none."""
        return mapping(self.found, "metadata")

    @property
    def uid(self) -> str:
        """The object's uid; empty where there is none."""
        return text(self.metadata, "uid")

    @property
    def resource_version(self) -> str:
        """The version of the object that was read; empty where there is none."""
        return text(self.metadata, "resourceVersion")

    @property
    def deleting(self) -> bool:
        """The object is being deleted."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def deleted_at(self) -> datetime | None:
        """Since when the object is being deleted; None: it is not."""
        when = text(self.metadata, "deletionTimestamp")
        return parse_rfc3339(when) if when else None

    @property
    def paused(self) -> bool:
        """The object itself is paused: no controller writes it."""
        return names.PAUSED_ANNOTATION in mapping(self.metadata, "annotations")

    @property
    def owners(self) -> tuple[JsonObject, ...]:
        """The owner references of the object."""
        listed = self.metadata.get("ownerReferences")
        return tuple(each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()

    @property
    def controller(self) -> JsonObject | None:
        """The owner reference that controls the object, if any."""
        return next((each for each in self.owners if each.get("controller") is True), None)

    def other_controller(self, owner: OwnerReference, former_owners: Collection[str] = ()) -> str:
        """``Kind name`` of the controller, if there is one and it is not this owner; else empty.

        What such an object says is about that controller. ``former_owners`` is as in ``claim``.
        """
        found = self.controller
        if found is None or text(found, "kind") in former_owners or is_owner(found, owner):
            return ""
        return _named(found)

    # ------------------------------------------------------------ what the contract says

    @property
    def uncertain(self) -> bool:
        """None was found, and there may be one all the same."""
        return self.found is None and not self.gone and not self.transient

    @property
    def unheard(self) -> timedelta | None:
        """In how long who waits for its end is to look again; None: an event tells. No event tells that an
        extension server, which may serve the kind, is gone."""
        return delays.REFUSED if self.uncertain else None

    def if_served(self, *, served: bool) -> "External":
        """What was found, for an owner that is being deleted: there is certainly no object where the server
        does not serve its kind, or where the reference can lead to none."""
        return replace(self, gone=True) if self.uncertain and not (served and self.usable) else self

    @property
    def absence(self) -> str:
        """Why there is none to be seen, and what a user can do, for a message."""
        return "; ".join(filter(None, (self.problem, self.remedy)))

    @property
    def ready(self) -> bool:
        """The provider has done its part, whichever part that is."""
        return any(self.flag(each) for each in fields.READY)

    @property
    def misread(self) -> str:
        """What says whether the provider is ready, but is no boolean: its path and value; else empty."""
        for each in fields.READY:
            found = fields.value(self.found, each, self.contract)
            if found is not None and not isinstance(found, bool):
                return f"{each.path(self.contract)} is no boolean, but {str(found)[:FOREIGN_CHARS]!r}"
        return ""

    @property
    def ready_condition(self) -> Condition | None:
        """The object's condition Ready, to be mirrored; None where it has none."""
        return ready_of(self.found)

    @property
    def failure(self) -> tuple[str, str]:
        """Reason and message of a failure that the provider reports; empty while it reports none."""
        reason, message = self.text(fields.FAILURE_REASON), self.text(fields.FAILURE_MESSAGE)
        reason, message = reason or self.text(fields.ERROR_REASON), message or self.text(fields.ERROR_MESSAGE)
        if message:
            kind = f"{self.ref.api_version}, Kind={self.ref.kind}"
            message = (
                f'Failure detected from referenced resource {kind} with name "{self.ref.name}": {message}'
            )
        return reason, message

    def text(self, which: fields.Field) -> str:
        """A string of the contract; empty where there is none."""
        return fields.text(self.found, which, self.contract)

    def flag(self, which: fields.Field) -> bool:
        """A bool of the contract; False where there is none."""
        return fields.flag(self.found, which, self.contract)

    def struct(self, which: fields.Field) -> JsonObject:
        """A struct or map of the contract; empty where there is none."""
        return fields.struct(self.found, which, self.contract)

    def structs(self, which: fields.Field) -> tuple[JsonObject, ...]:
        """The structs of a list of the contract."""
        return fields.structs(self.found, which, self.contract)


def look_up(lookup: Lookup, owner: Key, ref: ObjectReference) -> External:
    """What is found under a reference of the object ``owner``, which is woken when that changes. No I/O."""
    if problem := _unusable(ref, owner.namespace):
        return External(ref, problem=problem, remedy=CORRECT, usable=False)
    match lookup.get(owner, Reference(ref.group, ref.kind, Key(owner.namespace, ref.name))):
        case Found(found, kind, contract):
            return External(ref, found, kind, contract)
        case Absent(cause, message, transient):
            gone, remedy = cause is Cause.MISSING, REMEDIES[cause]
            return External(ref, gone=gone, problem=message, remedy=remedy, transient=transient)


def _unusable(ref: ObjectReference, namespace: str) -> str:
    """What is wrong with the reference itself."""
    missing = [
        name
        for name, value in (("apiVersion", ref.api_version), ("kind", ref.kind), ("name", ref.name))
        if not value
    ]
    if missing:
        return f"the reference has no {' and no '.join(missing)}"
    if not ref.group:
        own = f"the kind {ref.kind} is one of Kubernetes' own, not a provider's"
        return f"{own}; the reference lacks the provider's API group"
    if ref.namespace and ref.namespace != namespace:
        return f"the reference is to the namespace {ref.namespace}, and only {namespace} is allowed"
    return ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be written onto an external object so that it is its owner's; or why that must not be."""

    patch: dict[str, Any] | None = None
    problem: str = ""


def claim(
    external: External, owner: OwnerReference, cluster: str, *, former_owners: Iterable[str] = ()
) -> Claim:
    """The patch that makes ``owner`` the controller of an object, and labels it as the cluster's.

    The patch applies to the very version that was read, because a list of owners is sent whole.

    Args:
        external: the object; nothing is claimed while it is not there, being deleted, or paused.
        owner: the reference by which the owner controls it.
        cluster: the name of the cluster.
        former_owners: kinds of owners that are removed: a MachineSet owns a clone until its Machine exists.
    """
    if external.found is None or external.deleting or external.paused:
        return Claim()
    dropped = set(former_owners)
    others = [
        each for each in external.owners if text(each, "kind") not in dropped and not is_owner(each, owner)
    ]
    if other := external.other_controller(owner, dropped):
        return Claim(problem=f"{external} is controlled by {other}")
    wanted = to_builtins(owner)
    metadata: dict[str, Any] = {}
    if wanted not in external.owners or len(others) + 1 != len(external.owners):
        metadata["ownerReferences"] = [*others, wanted]
    if mapping(external.metadata, "labels").get(names.CLUSTER_NAME_LABEL) != cluster:
        metadata["labels"] = {names.CLUSTER_NAME_LABEL: cluster}
    if not metadata:
        return Claim()
    seen = {"uid": external.uid, "resourceVersion": external.resource_version}
    return Claim({"metadata": {**metadata, **seen}})


def is_owner(reference: JsonObject, owner: OwnerReference) -> bool:
    """Whether an owner reference means this owner, whatever its version and uid."""
    group, _ = split_api_version(text(reference, "apiVersion"))
    mine, _ = split_api_version(owner.api_version)
    return (group, reference.get("kind"), reference.get("name")) == (mine, owner.kind, owner.name)


def mapping(struct: JsonObject | None, key: str) -> JsonObject:
    """A member that is an object; empty where there is none."""
    found = struct.get(key) if struct is not None else None
    return found if isinstance(found, dict) else {}


def text(struct: JsonObject, key: str) -> str:
    """A member that is a text; empty where there is none."""
    found = struct.get(key)
    return found if isinstance(found, str) else ""


def _named(owner: JsonObject) -> str:
    return f"{text(owner, 'kind')} {text(owner, 'name')}"


TEMPLATE = "Template"


def clone_kind(template: External) -> Kind[dict[str, Any]]:
    """The kind of what is made from a template.

    Raises:
        NotFound: there is no template.
    """
    if template.kind is None:
        raise NotFound(f"{template} is not there: {template.problem}")
    found = template.kind.resource
    kind = found.kind.removesuffix(TEMPLATE)
    return dynamic(Resource(found.group, found.version, plural_of(found.group, kind), kind))


def cloned(template: External, meta: ObjectMeta) -> tuple[Kind[dict[str, Any]], dict[str, Any]]:
    """A clone and its kind. ``meta``: its name, namespace, owners, and further labels and annotations.

    Raises:
        NotFound: there is no template.
    """
    kind = clone_kind(template)
    inner = mapping(mapping(template.found, "spec"), "template")
    own = mapping(inner, "metadata")
    annotations = {
        **mapping(own, "annotations"),
        **meta.annotations,
        names.CLONED_FROM_NAME_ANNOTATION: template.ref.name,
        names.CLONED_FROM_GROUP_KIND_ANNOTATION: template.ref.group_kind,
    }
    metadata: Mapping[str, Any] = {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": {**mapping(own, "labels"), **meta.labels},
        "annotations": annotations,
        "ownerReferences": to_builtins(meta.owner_references),
    }
    resource = kind.resource
    return kind, {**inner, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def plural_of(group: str, kind: str) -> str:
    """The plural of a kind, as the name of its CRD has it."""
    return crd_name(group, kind).partition(".")[0]


NAMELESS = ObjectReference()


def same_for_machine(before: JsonObject, after: JsonObject, contract: str) -> bool:
    """Whether a Machine cannot tell the two states of its bootstrap or infrastructure object apart."""
    return _of_machine(before, contract) == _of_machine(after, contract)


def same_for_cluster(before: JsonObject, after: JsonObject, contract: str) -> bool:
    """Whether a Cluster cannot tell the two states of its infrastructure or control plane apart."""
    return _of_cluster(before, contract) == _of_cluster(after, contract)


def _of_machine(found: JsonObject, contract: str) -> tuple[Any, ...]:
    external = External(NAMELESS, found, contract=contract)
    told = (external.text(fields.PROVIDER_ID), external.text(fields.FAILURE_DOMAIN)) if external.ready else ()
    expiry = text(mapping(external.metadata, "annotations"), names.CERTIFICATES_EXPIRY_ANNOTATION)
    return *_of_any(external), told, expiry


def _of_cluster(found: JsonObject, contract: str) -> tuple[Any, ...]:
    external = External(NAMELESS, found, contract=contract)
    return *_of_any(external), external.struct(fields.CONTROL_PLANE_ENDPOINT)


def _of_any(external: External) -> tuple[Any, ...]:
    labels = mapping(external.metadata, "labels")
    status: Mapping[str, Any] = mapping(external.found, "status")
    return (
        external.uid,
        external.deleting,
        external.paused,
        external.owners,
        labels.get(names.CLUSTER_NAME_LABEL),
        status,
    )
