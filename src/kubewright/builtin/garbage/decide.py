"""What to do with one node of the graph. Pure.

Cases.   being deleted, orphaning     set the dependents free, then drop the finalizer
         being deleted, foreground    wait for the blocking dependents, then drop the finalizer
         being deleted otherwise      nothing: it goes by itself
         some owner lives             stay; forget owners that do not (or that wait for our end)
         every owner absent or waits  delete it: in the foreground if it has dependents and an owner
                                      waits, else in the way its own finalizers ask for
Never.   A node with an owner of whom we cannot know (kind not served, reference impossible) stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto

from kubewright.base.plan import Plan
from kubewright.builtin.garbage.graph import FOREGROUND, ORPHAN, Node

PENDING = timedelta(seconds=1)
"""How often to look whether a watch is complete, before anything that needs all of them."""


class Fate(Enum):
    """What we know of an owner."""

    LIVES = auto()
    WAITS = auto()
    """It lives, but only until its dependents are gone."""
    ABSENT = auto()
    PENDING = auto()
    """Its kind is not completely listed yet."""
    UNKNOWABLE = auto()
    """Its kind is not served, or the reference points where it cannot."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One node, its owners' fates by uid, its dependents. ``complete``: all kinds are listed."""

    node: Node
    fates: Mapping[str, Fate] = field(default_factory=dict)
    dependents: tuple[Node, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the node, if it is still as it was judged. ``propagation`` as in DeleteOptions."""

    propagation: str


@dataclass(frozen=True, slots=True)
class ForgetOwners:
    """Take owners out of the references of ``of``."""

    of: Node
    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unblock:
    """Let no owner wait for this node any longer: it breaks a circle."""


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
        return Plan(wake=PENDING, because="not all kinds are listed")
    if node.deleting:
        return _set_free(seen) if node.orphans else _wait_for_dependents(seen)
    return _judge(seen)


def _set_free(seen: Seen) -> Plan[Step]:
    mine = frozenset({seen.node.uid})
    free = tuple(ForgetOwners(each, mine) for each in seen.dependents)
    return Plan((*free, DropFinalizer(ORPHAN)), because=f"it orphans {len(free)} dependents")


def _wait_for_dependents(seen: Seen) -> Plan[Step]:
    uid = seen.node.uid
    blocking = sum(any(o.uid == uid and o.blocks for o in each.owners) for each in seen.dependents)
    if blocking:
        return Plan(because=f"{blocking} dependents must go first")
    return Plan((DropFinalizer(FOREGROUND),), because="no dependent blocks its end")


def _judge(seen: Seen) -> Plan[Step]:
    """A node that is not being deleted: do its owners want it?"""
    fates = set(seen.fates.values())
    if not fates:
        return Plan(because="it has no owner")
    if Fate.PENDING in fates:
        return Plan(wake=PENDING, because="an owner's kind is not listed")
    lost = frozenset(uid for uid, fate in seen.fates.items() if fate in {Fate.ABSENT, Fate.WAITS})
    if Fate.LIVES in fates:
        steps = (ForgetOwners(seen.node, lost),) if lost else ()
        return Plan(steps, because=f"an owner lives, {len(lost)} do not")
    if Fate.UNKNOWABLE in fates:
        return Plan(because="an owner cannot be known")
    if Fate.WAITS in fates and seen.dependents:
        circle = any(each.waits for each in seen.dependents)
        unblock: tuple[Step, ...] = (Unblock(),) if circle else ()
        return Plan((*unblock, Delete("Foreground")), because="an owner waits for its end")
    return Plan((Delete(_propagation(seen.node)),), because="no owner lives")


def _propagation(node: Node) -> str:
    return "Orphan" if node.orphans else "Foreground" if node.foreground else "Background"
