"""What a pass over one Cluster sees, and the steps that it may take. Pure values.

Provided.    What only a Cluster reads from its infrastructure and control plane: endpoint and failure
             domains.
Invariants.  A step names the uid of what was seen, and the version where a list is replaced as a whole. A
             value of a wrong type counts as absent: a provider wrote it, and a condition of the Cluster says
             what is waited for.
Called by    ``look`` makes ``Seen``; ``decide``, ``deletion`` and ``status`` read it; ``act`` performs steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from kubewright.api.cluster.names import paused
from kubewright.api.cluster.v1beta1 import API_VERSION, CLUSTER, ApiEndpoint, Cluster, FailureDomain
from kubewright.api.kinds import Kind
from kubewright.api.meta import Json, OwnerReference, owner_of
from kubewright.clusters.external import fields
from kubewright.clusters.external.object import External
from kubewright.runtime.credentials.values import Found


def readable(external: External, owner: OwnerReference) -> bool:
    """Whether the status of an object is used: it exists, is neither paused nor being deleted, and no other
    owner controls it."""
    there = external.found is not None and not external.paused and not external.deleting
    return there and not external.other_controller(owner)


def endpoint_of(external: External) -> ApiEndpoint | None:
    """Where a provider says that the API server is; None while it says nothing of use."""
    places = (external.struct(fields.CONTROL_PLANE_ENDPOINT), *external.structs(fields.API_ENDPOINTS))
    found = (_endpoint(place) for place in places)
    return next((each for each in found if each is not None), None)


def failure_domains_of(external: External) -> Mapping[str, FailureDomain]:
    """The failure domains by name: a map in one contract, a list in the next. What is none is left out."""
    listed = {str(each.get("name", "")): each for each in external.structs(fields.FAILURE_DOMAINS)}
    found: dict[str, FailureDomain] = {}
    for name, each in (external.struct(fields.FAILURE_DOMAINS) or listed).items():
        try:
            found[name] = msgspec.convert(each, FailureDomain)
        except msgspec.ValidationError:
            continue
    return found


def _endpoint(place: Mapping[str, Json]) -> ApiEndpoint | None:
    host, port = place.get("host"), place.get("port")
    if isinstance(host, str) and host and isinstance(port, int) and 0 < port < 65_536:
        return ApiEndpoint(host=host, port=port)
    return None


INFRASTRUCTURE, CONTROL_PLANE, KUBECONFIG, CHILDREN = (
    "infrastructure",
    "control plane",
    "kubeconfig",
    "children",
)
"""What a step is about, and what ``Seen.failed`` is by."""


@dataclass(frozen=True, slots=True)
class Child:
    """A MachineDeployment, MachineSet or Machine of a cluster.

    ``deleted_at``     since when it is being deleted; None: it is not
    ``controller``     the uid of what controls it; empty: nothing does
    ``paused``         nothing is done about it, not even its deletion
    ``begun``          its controller has seen it: a Machine that is deleted before that leaves the objects
                       of its providers behind, which are nobody's until then
    ``control_plane``  it is a machine of the control plane
    """

    kind: Kind[Any]
    kind_name: str
    name: str
    uid: str
    deleted_at: datetime | None = None
    controller: str = ""
    paused: bool = False
    begun: bool = True
    control_plane: bool = False

    @property
    def deleting(self) -> bool:
        """It is being deleted."""
        return self.deleted_at is not None


@dataclass(frozen=True, slots=True)
class Seen:
    """One Cluster and what belongs to it.

    ``infrastructure``, ``control_plane``  what the references name; None without a reference
    ``children``     the cluster's, workers first; looked at only while the Cluster is being deleted
    ``first_node``   a machine of the control plane that has become a Node; empty if there is none
    ``kubeconfig``   the Secret with the kubeconfig, ``authority`` what signs it; None without such a Secret
    ``unverified``   why the API server does not verify by an authority that is not the kubeconfig's. Empty:
                     it does, or the two are one; None: it is being asked
    ``failed``       what steps of this pass could not do, by what they are about
    """

    cluster: Cluster
    now: datetime
    infrastructure: External | None = None
    control_plane: External | None = None
    children: tuple[Child, ...] = ()
    first_node: str = ""
    kubeconfig: Found | None = None
    authority: Found | None = None
    unverified: str | None = ""
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def paused(self) -> bool:
        """Nothing is written, not even a deletion."""
        return self.cluster.spec.paused or paused(self.cluster.metadata.annotations)

    @property
    def incomplete(self) -> bool:
        """Caches of referenced kinds are not synced yet; when they are, the Cluster is reconciled again."""
        there = (self.infrastructure, self.control_plane)
        return any(each is not None and each.transient for each in there)

    @property
    def owner(self) -> OwnerReference:
        """The reference by which the Cluster controls what belongs to it."""
        return owner_of(self.cluster, API_VERSION, CLUSTER.resource.kind)

    @property
    def endpoint(self) -> ApiEndpoint | None:
        """Where the API server is; None while that is not known."""
        found = self.cluster.spec.control_plane_endpoint
        return found if found is not None and found.valid else None


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Put our finalizer on the Cluster, before anything is made for it."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer, since nothing of the Cluster is left."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Make the Cluster the controller of an object of a provider."""

    about: str
    external: External
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SetEndpoint:
    """Write into the Cluster's spec where its API server is."""

    endpoint: ApiEndpoint


@dataclass(frozen=True, slots=True)
class WriteKubeconfig:
    """Make the Secret with the kubeconfig, or make it anew in the place of ``old``."""

    endpoint: ApiEndpoint
    authority: Found
    old: Found | None = None


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Delete something that belongs to the Cluster, and that nothing else of it will delete."""

    child: Child


@dataclass(frozen=True, slots=True)
class DeleteExternal:
    """Delete an object of a provider."""

    about: str
    external: External


Step = AddFinalizer | RemoveFinalizer | Claim | SetEndpoint | WriteKubeconfig | DeleteChild | DeleteExternal
