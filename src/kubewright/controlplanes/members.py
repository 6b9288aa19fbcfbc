"""The members of an etcd: which change of them is next, and how their data is made from a snapshot. Pure.

Changes.     What is wanted are instances with their peer URLs; what is seen are members, and which of them
             answer. A wanted instance that is no member is added as a learner, started, and promoted when it
             has caught up. A member that is not wanted is removed. While there is a learner, nothing else is
             changed.
Restores.    ``etcdutl`` makes each member's data from the one file, with the names and peer URLs of all:
             together they are a new cluster with the content of the snapshot, at the addresses of the former
             one. New revisions begin far above those of the snapshot, and all older ones count as compacted,
             so that no client takes old data for new. The token is that of one restore, so that members of
             the former cluster and of the new one never take each other for theirs.
Invariants.  At most one change at a time. No change while the members that answer are no majority, and none
             after which they would not be one: a member that answers is removed only while the others that
             answer are still a majority of the rest, and the last member is never removed. A member that does
             not answer is removed before another is added; one that answers, after it.
Called by    ``component``; ``etcd`` carries the changes out; the hosts replace data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubewright.api.controlplane.names import PEER_PORT
from kubewright.base import plan


@dataclass(frozen=True, slots=True)
class Member:
    """A member, as the list of members has it.

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
    """Add an instance that was not started yet as a member without a vote."""

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
"""The keys of ``initial_variables``."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The client URL of one member. ``name``: the name in its certificate, where the URL has an address."""

    url: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client of the members trusts and presents: PEM, which its repr does not show."""

    authority: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """Where the members are reached, and with which credentials."""

    endpoints: Sequence[Endpoint]
    credentials: Credentials


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """At most one change."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision reads.

    ``wanted``     the peer URL of each instance that there should be, by its name, by ordinal
    ``members``    all members; empty: they could not be asked
    ``answering``  the ids of the members that answer for themselves
    ``caught_up``  the ids of learners that may be promoted
    ``unasked``    why the members could not be asked, a clause
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
        """The voters to remove: first those that do not answer, then by name, the last first."""
        found = [each for each in self.voters if each.peer not in self.wanted.values()]
        return sorted(found, key=lambda each: (each.id not in self.answering, each.name), reverse=True)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """The wanted instances that are no members, by ordinal: name and peer URL."""
        known = {each.peer for each in self.members}
        return [(name, peer) for name, peer in self.wanted.items() if peer not in known]


def decide(seen: Seen) -> Plan:
    """The next change, or why there is none."""
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
    """How many instances should run now: up to the highest ordinal that is a member.

    An instance is started after it has become a member, and ended after it was removed. A member that is no
    instance of this workload, such as one that a user added by hand, does not count, whatever its name ends
    with. 0: the members could not be asked, and the number of instances is to stay as it is.
    """
    known = {each.peer for each in seen.members}
    workloads = {name.rpartition("-")[0] for name in seen.wanted}
    ordinals = [number for number, peer in enumerate(seen.wanted.values(), start=1) if peer in known]
    for each in seen.members:
        workload, _, ordinal = each.name.rpartition("-")
        if workload in workloads and ordinal.isdecimal():
            ordinals.append(int(ordinal) + 1)
    return max(ordinals, default=0)


def initial_variables(seen: Seen, *, joins: bool = False) -> Mapping[str, str]:
    """The variables with which a new member finds the others; an etcd that has data ignores them.

    ``joins``  whether there is a cluster to join, where the members could not be asked
    """
    if not seen.members:
        members = [f"{name}={peer}" for name, peer in seen.wanted.items()]
        return {"INITIAL_CLUSTER": ",".join(members), "INITIAL_CLUSTER_STATE": "existing" if joins else "new"}
    names = {peer: name for name, peer in seen.wanted.items()}
    members = [f"{each.name or names.get(each.peer, '')}={each.peer}" for each in seen.members]
    return {"INITIAL_CLUSTER": ",".join(members), "INITIAL_CLUSTER_STATE": "existing"}


def _answering(seen: Seen, members: Sequence[Member]) -> list[Member]:
    return [each for each in members if each.id in seen.answering]


def _majority(count: int) -> int:
    return count // 2 + 1


ETCDUTL = "etcdutl"
REVISION_GAP = 1_000_000_000
"""How far new revisions begin above those of the snapshot, as etcd's documentation advises."""


def etcdutl_arguments(source: str, target: str, name: str, peers: Mapping[str, str], mark: str) -> list[str]:
    """The arguments of ``etcdutl`` for one member. ``peers``: the peer URL of each member, by its name."""
    flags = {
        "data-dir": target,
        "name": name,
        "initial-cluster": ",".join(f"{each}={peer}" for each, peer in peers.items()),
        "initial-advertise-peer-urls": peers[name],
        "initial-cluster-token": mark,
        "bump-revision": str(REVISION_GAP),
    }
    return ["snapshot", "restore", source, "--mark-compacted", *(f"--{k}={v}" for k, v in flags.items())]


def bracketed(host: str) -> str:
    """A host as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def peer_url(host: str) -> str:
    """The URL by which the other members reach one; ``host``: a name or an address."""
    return f"https://{bracketed(host)}:{PEER_PORT}"


def former_name(mark: str) -> str:
    """The name of the folder in which the data is kept that the replacement with this mark has replaced."""
    return f"before-{mark}"
