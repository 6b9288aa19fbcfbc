"""What to do with one node of the graph. Pure.

Cases.   being deleted, orphaning     remove their references to it, then drop the finalizer
         being deleted, foreground    wait for the blocking dependents, then drop the finalizer
         being deleted otherwise      nothing: its deletion needs no help
         some owner lives             keep it; remove owners that do not (or that wait for its deletion)
         every owner absent or waits  delete it: in the foreground if it has dependents and an owner
                                      waits, else in the way its own finalizers ask for
Never.   A node with an owner that cannot be resolved (kind not served, reference impossible) is not deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kubewright.base import delays
from kubewright.base.plan import Plan
from kubewright.builtin.garbage.graph import FOREGROUND, ORPHAN, GraphNode


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
