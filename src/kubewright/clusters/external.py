"""An object of a provider: what was found under a reference, what its contract says, and whose it is. Pure.

Theory.      A Cluster or a Machine refers to objects of kinds that this program does not know: a provider
             installed them. All that is known of them are the paths of a contract, so they stay plain JSON,
             and are read path by path. What has another type than the contract says counts as absent: the
             object is reported as not ready, with what is waited for.
             Before a provider does anything, its object must name its owner as controller, and carry the
             label of the cluster: ``claim`` says what is to be written for that, or why it must not be.
Invariants.  An object that another owner controls is never claimed and never deleted. Owners are compared by
             group, kind and name: after a move to another server they have other uids.
Source.      capi.md §3.2 (paths), §3.3 (owners, labels), §5.3; seeds S2-08, S2-10, S2-13.
Called by    the decisions of ``cluster`` and ``machine``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import ApiEndpoint, ObjectReference
from kubewright.api.meta import Json, OwnerReference
from kubewright.wire.gvk import split_api_version

JsonObject = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class External:
    """What was found under a reference.

    ``ref``      the reference, as its owner has it
    ``found``    the object, as plain JSON; None if it is not there, or could not be asked for
    ``gone``     there is certainly none: its server said so
    ``problem``  why there is none to be seen, as a clause for users; empty while ``found`` is there
    """

    ref: ObjectReference
    found: JsonObject | None = None
    gone: bool = False
    problem: str = ""

    def __str__(self) -> str:
        """``FooCluster demo``: for messages, and without the namespace, which is the owner's."""
        return f"{self.ref.kind} {self.ref.name}"

    @property
    def metadata(self) -> JsonObject:
        """The object's metadata; empty where there is none."""
        return mapping(self.found, "metadata")

    @property
    def spec(self) -> JsonObject:
        """The object's spec; empty where there is none."""
        return mapping(self.found, "spec")

    @property
    def status(self) -> JsonObject:
        """The object's status; empty where there is none."""
        return mapping(self.found, "status")

    @property
    def uid(self) -> str:
        """The object's uid; empty where there is none."""
        return text(self.metadata, "uid")

    @property
    def deleting(self) -> bool:
        """The object is being deleted."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def paused(self) -> bool:
        """The object itself is paused: nobody writes it."""
        return names.PAUSED_ANNOTATION in mapping(self.metadata, "annotations")

    @property
    def ready(self) -> bool:
        """``status.ready``; false where it is missing."""
        return self.status.get("ready") is True

    @property
    def failure(self) -> tuple[str, str]:
        """Reason and message of a failure that the provider reports; empty while it reports none."""
        reason, message = text(self.status, "failureReason"), text(self.status, "failureMessage")
        if message:
            kind = f"{self.ref.api_version}, Kind={self.ref.kind}"
            message = (
                f'Failure detected from referenced resource {kind} with name "{self.ref.name}": {message}'
            )
        return reason, message

    @property
    def owners(self) -> tuple[JsonObject, ...]:
        """The owner references of the object."""
        listed = self.metadata.get("ownerReferences")
        return tuple(each for each in listed if isinstance(each, Mapping)) if isinstance(listed, list) else ()

    @property
    def controller(self) -> JsonObject | None:
        """The owner reference that controls the object, if any."""
        return next((each for each in self.owners if each.get("controller") is True), None)

    def controlled_by_another_than(self, owner: OwnerReference) -> str:
        """``Kind name`` of the controller, if there is one and it is not this owner; else empty."""
        found = self.controller
        if found is None or is_owner(found, owner):
            return ""
        return f"{text(found, 'kind')} {text(found, 'name')}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be written onto an external object so that it is its owner's; or why that must not be."""

    patch: dict[str, Any] | None = None
    problem: str = ""


def claim(external: External, owner: OwnerReference, cluster: str, *, drop: Iterable[str] = ()) -> Claim:
    """The patch that makes ``owner`` the controller of an object, and labels it as the cluster's.

    Args:
        external: the object; nothing is claimed while it is not there, being deleted, or paused.
        owner: the reference by which the owner controls it.
        cluster: the name of the cluster.
        drop: kinds of owners that the object had until its owner was there (a MachineSet of a clone).
    """
    if external.found is None or external.deleting or external.paused:
        return Claim()
    dropped = set(drop)
    others = [
        each for each in external.owners if text(each, "kind") not in dropped and not is_owner(each, owner)
    ]
    if (other := next((each for each in others if each.get("controller") is True), None)) is not None:
        return Claim(problem=f"{external} is controlled by {text(other, 'kind')} {text(other, 'name')}")
    wanted = to_builtins(owner)
    metadata: dict[str, Any] = {}
    if wanted not in external.owners or len(others) + 1 != len(external.owners):
        metadata["ownerReferences"] = [*others, wanted]
    if mapping(external.metadata, "labels").get(names.CLUSTER_NAME_LABEL) != cluster:
        metadata["labels"] = {names.CLUSTER_NAME_LABEL: cluster}
    if not metadata:
        return Claim()
    seen = {"uid": external.uid, "resourceVersion": text(external.metadata, "resourceVersion")}
    return Claim({"metadata": {**metadata, **seen}})


def is_owner(reference: JsonObject, owner: OwnerReference) -> bool:
    """Whether an owner reference means this owner, whatever its version and uid."""
    group, _ = split_api_version(text(reference, "apiVersion"))
    mine, _ = split_api_version(owner.api_version)
    return (group, reference.get("kind"), reference.get("name")) == (mine, owner.kind, owner.name)


def endpoint(external: External) -> ApiEndpoint | None:
    """Where a provider says that the API server is: ``spec.controlPlaneEndpoint``, or the first of the
    ``status.apiEndpoints`` that v1alpha2 had (S2-13); None while it says nothing of use."""
    listed = external.status.get("apiEndpoints")
    first = listed[0] if isinstance(listed, list) and listed else None
    for found in (external.spec.get("controlPlaneEndpoint"), first):
        host, port = (found.get("host"), found.get("port")) if isinstance(found, Mapping) else (None, None)
        if isinstance(host, str) and host and isinstance(port, int) and 0 < port < 65_536:
            return ApiEndpoint(host=host, port=port)
    return None


def mapping(struct: JsonObject | None, key: str) -> JsonObject:
    """A member that is an object; empty where there is none."""
    found = struct.get(key) if struct is not None else None
    return found if isinstance(found, Mapping) else {}


def text(struct: JsonObject, key: str) -> str:
    """A member that is a text; empty where there is none."""
    found = struct.get(key)
    return found if isinstance(found, str) else ""
