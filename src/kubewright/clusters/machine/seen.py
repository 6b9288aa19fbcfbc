"""What a pass over one Machine sees, and the steps that it may take. Pure values.

Invariants.  Nothing here reads, writes or waits. A step names the uid of what was seen, and its version where
             a list is replaced as a whole.
Called by    ``look`` makes ``Seen``; ``decide``, ``deletion`` and ``status`` read it; ``act``
             performs steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import API_VERSION, MACHINE, Cluster, Machine, ObjectReference
from kubewright.api.meta import OwnerReference, owner_of
from kubewright.base.durations import parse_duration
from kubewright.base.plan import Awaited
from kubewright.clusters.external.object import External
from kubewright.clusters.node import ClusterNode
from kubewright.clusters.owned import cluster_of, paused_because
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.wire.gvk import Key

BOOTSTRAP, INFRASTRUCTURE, NODE, ITSELF = "bootstrap", "infrastructure", "node", "machine"
"""What a step is about, and what ``Seen.failed`` is by."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is known from the workload cluster of the machine.

    ``unreachable``  why there is no session with the cluster, as a clause; empty if there is one
    ``unreachable_for``  how long there has been none
    ``nodes``        the Nodes with the machine's providerID; or, without one, the Node that is on record
    ``taken_by``     another Machine of the cluster that has the same providerID and was there first
    """

    unreachable: str = ""
    unreachable_for: timedelta = timedelta()
    nodes: tuple[ClusterNode, ...] = ()
    taken_by: str = ""

    @property
    def node(self) -> ClusterNode | None:
        """The machine's Node; None while there is none, or it is not certain which."""
        return self.nodes[0] if len(self.nodes) == 1 and not self.taken_by else None


@dataclass(frozen=True, slots=True)
class DeletionState:
    """What is read only while the Machine is being deleted.

    ``control_plane``   the object that runs the cluster's control plane; None without a reference
    ``active_control_planes``  how many machines of the control plane are not being deleted
    ``drain``           what the pods of the Node ask for; None: they were not looked at
    ``volumes``         names of volumes that are still attached to the Node
    ``unread``          why pods or volumes could not be looked at; empty if they could, or need not
    ``node_error``      why the last attempt to delete the Node failed; empty if there was none
    ``node_error_since``  when the first of the attempts failed that did since one succeeded
    ``deleted_at``, ``drain_since``, ``detach_since``  when each part began; None: it has not
    """

    control_plane: External | None = None
    active_control_planes: int = 0
    drain: DrainPlan | None = None
    volumes: tuple[str, ...] = ()
    unread: str = ""
    node_error: str = ""
    node_error_since: datetime | None = None
    deleted_at: datetime | None = None
    drain_since: datetime | None = None
    detach_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One Machine and all that decides about it.

    ``now``        on a clock that does not step: ages count by it
    ``wall``       the time of our wall clock, for what is written
    ``cluster``    None: there is no such Cluster
    ``bootstrap``  what the reference names; None without a reference
    ``has_maker``  the set, pool or control plane that made the machine, by its label, is there, and adopts
                   the machine where that has lost its owner
    ``outdated``   a rollout is going to replace the machine
    ``strict_running``  the phase Running asks for a Node that is Ready, too
    ``failed``     what steps of this pass could not do, by what they are about
    """

    machine: Machine
    now: datetime
    wall: datetime
    infrastructure: External
    cluster: Cluster | None = None
    bootstrap: External | None = None
    workload: Workload = field(default_factory=Workload)
    deletion: DeletionState = field(default_factory=DeletionState)
    has_maker: bool = False
    outdated: bool = False
    strict_running: bool = False
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster_key(self) -> Key:
        """The cluster that the machine belongs to."""
        return cluster_of(self.machine)

    @property
    def paused(self) -> bool:
        """Nothing is written, not even a deletion."""
        return bool(paused_because(self.machine, self.cluster))

    @property
    def incomplete(self) -> bool:
        """Caches of referenced kinds are not synced yet; when they are, the Machine is reconciled again."""
        there = (self.infrastructure, self.bootstrap, self.deletion.control_plane)
        return any(each is not None and each.transient for each in there)

    @property
    def owner(self) -> OwnerReference:
        """The reference by which the Machine controls what belongs to it."""
        return owner_of(self.machine, API_VERSION, MACHINE.resource.kind)

    @property
    def node_name(self) -> str:
        """The Node on record; empty while there is none."""
        ref: ObjectReference | None = self.machine.status.node_ref
        return ref.name if ref is not None else ""

    @property
    def is_control_plane(self) -> bool:
        """The machine is one of the control plane's."""
        return names.CONTROL_PLANE_LABEL in self.machine.metadata.labels


def cluster_awaited(seen: Seen) -> Awaited:
    """The workload cluster, which cannot be reached."""
    secret = names.kubeconfig_secret(seen.cluster_key.name)
    remedy = f"see whether its API server answers, and whether Secret {secret} leads to it"
    return Awaited(f"cluster {seen.cluster_key}", remedy)


def parse_timeout(duration: str | None, default: timedelta | None = None) -> timedelta | None:
    """A time-out of the spec: ``default`` where it is unset or none, None (for ever) where it is zero."""
    if duration is None:
        return default
    try:
        found = parse_duration(duration)
    except ValueError:
        return default
    return found if found > timedelta() else None


@dataclass(frozen=True, slots=True)
class StoreData:
    """Move bootstrap data from the Machine into a Secret that the Machine owns."""

    secret: str
    data: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class UpdateMachine:
    """Change metadata and spec of the Machine."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """Make the Machine the controller of an object of a provider."""

    about: str
    external: External
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Change the Node: merge patch."""

    node: ClusterNode
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Drain:
    """One pass of a drain."""

    plan: DrainPlan


@dataclass(frozen=True, slots=True)
class DeleteExternal:
    """Delete an object of a provider."""

    about: str
    external: External


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete the Node, if it is still the one that was seen."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer, since nothing of the Machine is left."""


Step = StoreData | UpdateMachine | Claim | PatchNode | Drain | DeleteExternal | DeleteNode | RemoveFinalizer
