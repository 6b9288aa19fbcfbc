"""Which change of an etcd's members is next. Pure.

Theory.      What is wanted are instances with the URLs by which members reach each other; what is seen are
             members, and which of them answer. A wanted instance that is no member is added as a learner,
             started, and promoted when it has caught up. A member that is not wanted is removed. While a
             learner is there, nothing else is changed.
Invariants.  At most one change at a time. No change while the members that answer are no majority, nor one
             after which they would be none: a member that answers is removed only while the others that
             answer stay a majority of those left, and the last one never. A member that does not answer goes
             before another is added; one that answers goes after.
Source       nested.md C6, D6; S3-04.
Called by    the controller of NestedEtcd.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubewright.base import plan


@dataclass(frozen=True, slots=True)
class Member:
    """A member, as the others know it.

    ``name``     empty until its program has started once
    ``peer``     the URL by which the others reach it
    ``learner``  it has no vote yet
    """

    id: int
    name: str
    peer: str
    learner: bool = False


@dataclass(frozen=True, slots=True)
class AddLearner:
    """Let an instance become a member without a vote, before it is started."""

    name: str
    peer: str

    def __str__(self) -> str:
        return f"{self.name} became a member of etcd, without a vote until it has all data"


@dataclass(frozen=True, slots=True)
class Promote:
    """Give a learner a vote."""

    id: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} has all data, and a vote now"


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a member, before its instance is ended."""

    id: int
    name: str

    def __str__(self) -> str:
        return f"{self.name or 'a member that was never started'} is no member of etcd any more"


Step = AddLearner | Promote | Remove

VARIABLES = ("INITIAL_CLUSTER", "INITIAL_CLUSTER_STATE")
"""Those of ``beginning``."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where one member is called. ``name``: what its certificate is for, where the URL has an address."""

    url: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """How members are called: where, and with which certificates, all as PEM. No key is in its text."""

    doors: Sequence[Door]
    authority: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """At most one change."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision reads.

    ``wanted``     the peer URL of each instance that there should be, by its name, in their order
    ``members``    all of them; empty: they could not be asked
    ``answering``  the ids of those that answer, themselves
    ``caught_up``  the ids of learners that have all data of the leader
    ``unasked``    why there are no members here, a clause
    """

    wanted: Mapping[str, str]
    members: Sequence[Member] = ()
    answering: frozenset[int] = frozenset()
    caught_up: frozenset[int] = frozenset()
    unasked: str = ""

    @property
    def voters(self) -> list[Member]:
        """The members with a vote."""
        return [each for each in self.members if not each.learner]

    @property
    def unwanted(self) -> list[Member]:
        """The members with a vote that should be none, those that do not answer first, then the newest."""
        found = [each for each in self.voters if each.peer not in self.wanted.values()]
        return sorted(found, key=lambda each: (each.id not in self.answering, each.name), reverse=True)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """The instances that are no members, in their order."""
        known = {each.peer for each in self.members}
        return [(name, peer) for name, peer in self.wanted.items() if peer not in known]


def decide(seen: Seen) -> Plan:
    """The change that is next."""
    if not seen.members:
        told = f": {seen.unasked}" if seen.unasked else ""
        return Plan(because=f"its members could not be asked{told}")
    there = len(_answering(seen, seen.voters))
    if there < _majority(len(seen.voters)):
        return Plan(because=f"{there} of {len(seen.voters)} members answer, which is no majority")
    for learner in seen.members:
        if learner.learner:
            return _learner(seen, learner)
    unwanted = seen.unwanted
    if unwanted and unwanted[0].id not in seen.answering:
        return _removal(seen, unwanted[0])
    if seen.missing:
        name, peer = seen.missing[0]
        return Plan((AddLearner(name, peer),), because=f"{name} is to become a member")
    if unwanted:
        return _removal(seen, unwanted[0])
    return Plan(because="all instances are members")


def _learner(seen: Seen, learner: Member) -> Plan:
    named = learner.name or learner.peer
    if learner.peer not in seen.wanted.values():
        return Plan((Remove(learner.id, learner.name),), because=f"{named} is not wanted any more")
    if learner.id in seen.caught_up:
        return Plan((Promote(learner.id, learner.name),), because=f"{named} has all data")
    return Plan(because=f"{named} does not have all data yet")


def _removal(seen: Seen, member: Member) -> Plan:
    left = [each for each in seen.voters if each != member]
    named = member.name or member.peer
    if not left or len(_answering(seen, left)) < _majority(len(left)):
        return Plan(because=f"without {named} there would be no majority")
    return Plan((Remove(member.id, member.name),), because=f"{named} is not wanted any more")


def replicas(seen: Seen) -> int:
    """How many instances should run now: those that are members, and all before them.

    An instance is started when it is a member, and ended when it is none; while its members cannot be asked,
    the number that is wanted says nothing about that, so 0 means: leave it as it is.
    """
    known = {each.peer for each in seen.members}
    names = [each.name for each in seen.members]
    ordinals = [number for number, peer in enumerate(seen.wanted.values(), start=1) if peer in known]
    ordinals += [number + 1 for name in names if (number := _ordinal(name)) is not None]
    return max(ordinals, default=0)


def beginning(seen: Seen) -> Mapping[str, str]:
    """The variables with which a new member finds the others; one that has data does not read them."""
    if not seen.members:
        members = [f"{name}={peer}" for name, peer in seen.wanted.items()]
        return {"INITIAL_CLUSTER": ",".join(members), "INITIAL_CLUSTER_STATE": "new"}
    names = {peer: name for name, peer in seen.wanted.items()}
    members = [f"{each.name or names.get(each.peer, '')}={each.peer}" for each in seen.members]
    return {"INITIAL_CLUSTER": ",".join(members), "INITIAL_CLUSTER_STATE": "existing"}


def _ordinal(name: str) -> int | None:
    last = name.rpartition("-")[2]
    return int(last) if last.isdigit() else None


def _answering(seen: Seen, members: Sequence[Member]) -> list[Member]:
    return [each for each in members if each.id in seen.answering]


def _majority(count: int) -> int:
    return count // 2 + 1
