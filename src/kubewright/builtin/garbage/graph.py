"""The graph of owners and dependents, how an object becomes a node of it, and which nodes a change concerns.

Theory.      Nodes are put and dropped by the watches; each change wakes the uids that may have to act
             on it, and no others. A node whose owner is unknown is woken a moment later, since the
             watches of two kinds are not in step and the owner usually follows. A node whose reference has
             the uid of an owner, but another kind, name or namespace, is woken too: the server is asked, and
             says that there is no such owner.
Invariants.  ``dependents`` is always the reverse of ``owners``. A uid in ``is_gone`` belonged to an object
             that is deleted. No I/O, no clock.
Called by    ``collector``: its feeds write, its passes read.

What to do with one node of the graph.

Cases.   being deleted, orphaning     remove their references to it, then drop the finalizer
         being deleted, foreground    wait for the blocking dependents, then drop the finalizer
         being deleted otherwise      nothing: its deletion needs no help
         some owner lives             keep it; remove owners that do not (or that wait for its deletion)
         every owner absent or waits  delete it: in the foreground if it has dependents and an owner
                                      waits, else in the way its own finalizers ask for
Never.   A node with an owner that cannot be resolved (kind not served, reference impossible) is not deleted.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice

import msgspec
from msgspec import Struct

from kubewright.base import delays
from kubewright.base.plan import Plan
from kubewright.kube.header import Header
from kubewright.wire.gvk import Key, Resource, split_api_version

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
"""The finalizers that the API server sets as a deletion asks for."""

SETTLE_SECONDS = 3.0
"""How long an unknown owner may take to turn up before the server is asked about it."""

GONE_REMEMBERED = 20_000
"""Uids of deleted objects that are remembered; about older ones the server is asked."""

Wake = Callable[[str, str, float], None]
"""Enqueues a uid: why, and in how many seconds."""


class Owner(Struct, frozen=True, gc=False):
    """One owner reference. ``blocks``: with foreground deletion the owner waits for this dependent."""

    uid: str
    group: str
    kind: str
    name: str
    blocks: bool = False
    api_version: str = ""


class GraphNode(Struct, frozen=True, gc=False):
    """One object, as far as its collection is concerned."""

    uid: str
    resource: Resource
    key: Key
    version: str
    owners: tuple[Owner, ...] = ()
    deleting: bool = False
    orphans: bool = False
    """Carries the finalizer ``orphan``: once deleted, its dependents lose their references to it first."""
    foreground: bool = False
    """Carries the finalizer ``foregroundDeletion``: once deleted, its dependents are deleted first."""

    def is_owner_of(self, other: "GraphNode", named: Owner) -> bool:
        """Whether a reference of ``other`` with this node's uid also has its kind, name and namespace."""
        where = (self.resource.group, self.resource.kind, self.key.name) == (
            named.group,
            named.kind,
            named.name,
        )
        return where and not self.is_elsewhere(other)

    def is_elsewhere(self, other: "GraphNode") -> bool:
        """Whether this node is in a namespace that ``other`` is not in, and so cannot own it."""
        return self.key.namespace not in ("", other.key.namespace)

    @property
    def waits(self) -> bool:
        """Being deleted in the foreground: it stays until its blocking dependents are gone."""
        return self.deleting and self.foreground


class Graph:
    """All nodes. ``wake`` is called for each node that a change concerns."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._nodes: dict[str, GraphNode] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> GraphNode | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[GraphNode]:
        """The nodes that name this uid as an owner, in the order of arrival."""
        return [self._nodes[each] for each in self._dependents.get(uid, ())]

    def is_gone(self, uid: str) -> bool:
        """Whether the object of this uid is known to be deleted."""
        return uid in self._gone

    def put(self, node: GraphNode) -> None:
        """A node is new or has changed."""
        old = self._nodes.get(node.uid)
        self._nodes[node.uid] = node
        before = old.owners if old else ()
        if before != node.owners:
            self._relink(node.uid, before, node.owners)
            self._wake_waiting(before, "a dependent has other owners now")
            self._examine(node, {owner.uid for owner in before})
        if old is None:
            self._examine_dependents(node)
        if _ending(node) and (old is None or _ending(old) != _ending(node)):
            self._wake(node.uid, "deletion with dependents", 0.0)
            if node.waits:
                self._wake_dependents(node.uid, "its owner waits for its deletion")

    def drop(self, uid: str, *, ended: bool = True) -> None:
        """A node is gone; ``ended`` False: it may still exist, but its kind is no longer served."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        self._relink(uid, node.owners, ())
        if not ended:
            return
        self.ended(uid)
        self._wake_dependents(uid, "its owner is gone")
        self._wake_waiting(node.owners, "a dependent is gone")

    def ended(self, uid: str) -> None:
        """Remember that the object of this uid is deleted."""
        self._gone[uid] = None
        if len(self._gone) > GONE_REMEMBERED:
            for oldest in list(islice(self._gone, GONE_REMEMBERED // 10)):
                del self._gone[oldest]

    def _examine(self, node: GraphNode, before: set[str]) -> None:
        """Wake a node if an owner is unknown, waits for its deletion, or is named wrongly in a new reference.

        As upstream, a reference that changes and keeps its uid is not judged again.
        """
        owners = [self._nodes.get(owner.uid) for owner in node.owners]
        if any(owner is not None and owner.waits for owner in owners):
            self._wake(node.uid, "its owner waits for its deletion", 0.0)
        elif any(owner is None for owner in owners):
            self._wake(node.uid, "its owner is unknown", SETTLE_SECONDS)
        if self._misnamed(node, before):
            self._wake(node.uid, "a reference to its owner names another object", 0.0)

    def _misnamed(self, node: GraphNode, known_before: Container[str] = ()) -> bool:
        """Whether a reference has the uid of an owner and names something else."""
        references = (each for each in node.owners if each.uid not in known_before)
        known = ((self._nodes.get(each.uid), each) for each in references)
        return any(owner is not None and not owner.is_owner_of(node, named) for owner, named in known)

    def _examine_dependents(self, owner: GraphNode) -> None:
        """An owner has turned up: wake the dependents whose references name something else."""
        for dependent in self.dependents(owner.uid):
            if self._misnamed(dependent):
                self._wake(dependent.uid, "a reference to its owner names another object", 0.0)

    def _relink(self, uid: str, before: tuple[Owner, ...], after: tuple[Owner, ...]) -> None:
        for owner in before:
            links = self._dependents.get(owner.uid)
            if links is not None:
                links.pop(uid, None)
                if not links:
                    del self._dependents[owner.uid]
        for owner in after:
            self._dependents.setdefault(owner.uid, {})[uid] = None

    def _wake_dependents(self, uid: str, why: str) -> None:
        for dependent in tuple(self._dependents.get(uid, ())):
            self._wake(dependent, why, 0.0)

    def _wake_waiting(self, owners: tuple[Owner, ...], why: str) -> None:
        for owner in owners:
            node = self._nodes.get(owner.uid)
            if node is not None and node.waits:
                self._wake(node.uid, why, 0.0)


def _ending(node: GraphNode) -> tuple[bool, bool] | None:
    """How a node's deletion concerns its dependents (orphaned, deleted first); None: it does not."""
    return (node.orphans, node.foreground) if node.deleting and (node.orphans or node.foreground) else None


class _Reference(Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(Struct, rename="camel", gc=False):
    owner_references: list[_Reference] | None = None
    finalizers: list[str] | None = None


class _Object(Struct, gc=False):
    metadata: _Metadata


_objects = msgspec.json.Decoder(_Object)


def node_of(resource: Resource, header: Header) -> GraphNode:
    """The node for an object of which we have at least the metadata."""
    metadata = _objects.decode(header.data).metadata
    finalizers = metadata.finalizers or ()
    return GraphNode(
        uid=header.uid,
        resource=resource,
        key=header.key,
        version=str(header.version),
        owners=tuple(
            Owner(
                ref.uid,
                split_api_version(ref.api_version)[0],
                ref.kind,
                ref.name,
                bool(ref.block_owner_deletion),
                ref.api_version,
            )
            for ref in metadata.owner_references or ()
        ),
        deleting=header.deleting,
        orphans=ORPHAN in finalizers,
        foreground=FOREGROUND in finalizers,
    )


class OwnerState(Enum):
    """What is known of an owner."""

    LIVES = auto()
    WAITS = auto()
    """It lives, but only until its dependents are gone."""
    ABSENT = auto()
    PENDING = auto()
    """Its kind is not completely listed yet."""
    UNRESOLVABLE = auto()
    """Its kind is not served, or the reference cannot be valid (cluster-scoped to namespaced)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One node, its owners' states by uid, its dependents. ``complete``: all kinds are listed."""

    node: GraphNode
    states: Mapping[str, OwnerState] = field(default_factory=dict)
    dependents: tuple[GraphNode, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the node, if it is still as it was judged. ``propagation`` as in DeleteOptions."""

    propagation: str


@dataclass(frozen=True, slots=True)
class ForgetOwners:
    """Take owners out of the references of ``of``."""

    of: GraphNode
    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unblock:
    """Set ``blockOwnerDeletion`` to false in this node's references, to break a circle of waiting owners."""


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Take a finalizer off the node."""

    name: str


Step = Delete | ForgetOwners | Unblock | DropFinalizer


def decide(seen: Seen) -> Plan[Step]:
    """The plan for one node."""
    node = seen.node
    if node.deleting and not (node.orphans or node.foreground):
        return Plan(because="it is being deleted")
    if node.deleting and not seen.complete:
        return Plan(wake=delays.SOON, because="not all kinds are listed")
    if node.deleting:
        return _orphan_dependents(seen) if node.orphans else _wait_for_dependents(seen)
    return _judge(seen)


def _orphan_dependents(seen: Seen) -> Plan[Step]:
    mine = frozenset({seen.node.uid})
    steps = tuple(ForgetOwners(each, mine) for each in seen.dependents)
    return Plan((*steps, DropFinalizer(ORPHAN)), because=f"it orphans {len(steps)} dependents")


def _wait_for_dependents(seen: Seen) -> Plan[Step]:
    uid = seen.node.uid
    blocking = sum(any(o.uid == uid and o.blocks for o in each.owners) for each in seen.dependents)
    if blocking:
        return Plan(because=f"{blocking} dependents must be deleted first")
    return Plan((DropFinalizer(FOREGROUND),), because="no dependent blocks its deletion")


def _judge(seen: Seen) -> Plan[Step]:
    """A node that is not being deleted: is it kept by an owner?"""
    states = set(seen.states.values())
    if not states:
        return Plan(because="it has no owner")
    if OwnerState.PENDING in states:
        return Plan(wake=delays.SOON, because="an owner's kind is not listed")
    lost = frozenset(
        uid for uid, state in seen.states.items() if state in {OwnerState.ABSENT, OwnerState.WAITS}
    )
    if OwnerState.LIVES in states:
        steps = (ForgetOwners(seen.node, lost),) if lost else ()
        return Plan(steps, because=f"an owner lives, {len(lost)} do not")
    if OwnerState.UNRESOLVABLE in states:
        return Plan(because="an owner cannot be resolved")
    if OwnerState.WAITS in states and seen.dependents:
        circle = any(each.waits for each in seen.dependents)
        unblock: tuple[Step, ...] = (Unblock(),) if circle else ()
        return Plan((*unblock, Delete("Foreground")), because="an owner waits for its deletion")
    return Plan((Delete(_propagation(seen.node)),), because="no owner lives")


def _propagation(node: GraphNode) -> str:
    return "Orphan" if node.orphans else "Foreground" if node.foreground else "Background"
