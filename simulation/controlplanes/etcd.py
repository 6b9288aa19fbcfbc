"""A simulated etcd: its members, what is on the disk of each, and which of them have a majority.

Theory.      The list of members is replicated, so it outlives every program, and changes only when a client
             asks a member that has a majority. A program with an empty disk joins by the variables that it is
             started with, as the real one does: it begins a new cluster, or is found in the list. A program
             whose disk belongs to a member that was removed, or to another cluster, never serves again.
Invariants.  Every change that a client asks for is carried out, also one that harms: rules judge it. Only a
             promotion of a learner that has not caught up is refused, as etcd itself does.
Called by    ``machine``; ``members`` is how controllers reach it, and ``rules`` look at it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from kubewright.controlplanes.members import AddLearner, Member, Promote, Remove, Step

Content = tuple[str, ...]
"""What users have written, in order."""


@dataclass(eq=False, slots=True)
class Disk:
    """The data of one instance.

    ``member``   whose data it is; 0: it is empty
    ``cluster``  of which cluster: a restore begins a new one
    """

    member: int = 0
    cluster: str = ""
    content: Content = ()


@dataclass(eq=False, slots=True)
class Etcd:
    """One etcd. ``members``: by id, in the order in which they were added."""

    cluster: str = ""
    members: dict[int, Member] = field(default_factory=dict)
    last: int = 0

    @property
    def voters(self) -> list[Member]:
        """The members with a vote."""
        return [each for each in self.members.values() if not each.learner]

    @property
    def learners(self) -> list[Member]:
        """The members without one."""
        return [each for each in self.members.values() if each.learner]

    def has_majority(self, there: Iterable[int]) -> bool:
        """Whether these members have more than half of the votes."""
        voters = {each.id for each in self.voters}
        return len(voters & set(there)) > len(voters) // 2

    def of(self, host: str) -> Member | None:
        """The member that is reached at this host."""
        return next((each for each in self.members.values() if urlsplit(each.peer).hostname == host), None)

    def joins(self, disk: Disk, name: str, host: str, variables: Mapping[str, str]) -> bool:
        """Whether a program with this disk becomes, or is, a member; an empty disk is that member's then."""
        if disk.member:
            return disk.cluster == self.cluster and disk.member in self.members
        listed = [each.split("=", 1) for each in variables.get("INITIAL_CLUSTER", "").split(",") if each]
        new = variables.get("INITIAL_CLUSTER_STATE", "new") == "new"
        if new and not self.members:
            self.begin("first", listed or [[name, f"https://{host}:2380"]])
        member = self.of(host)
        if member is None or (new and member.learner) or (not new and len(listed) != len(self.members)):
            return False
        self.members[member.id] = replace(member, name=name)
        disk.member, disk.cluster = member.id, self.cluster
        return True

    def begin(self, cluster: str, listed: Sequence[Sequence[str]]) -> None:
        """A new cluster of these members, each a name and a peer URL."""
        self.cluster, self.members = cluster, {}
        for name, peer in listed:
            self._add(name, peer, learner=False)

    def change(self, step: Step, caught_up: Iterable[int]) -> bool:
        """Carry out a change; False: there is nothing to change, or it is refused."""
        match step:
            case AddLearner(_, peer):
                if any(each.peer == peer for each in self.members.values()):
                    return False
                self._add("", peer, learner=True)
            case Promote(member, _):
                found = self.members.get(member)
                if found is None or not found.learner or member not in caught_up:
                    return False
                self.members[member] = replace(found, learner=False)
            case Remove(member, _):
                return self.members.pop(member, None) is not None
        return True

    def _add(self, name: str, peer: str, *, learner: bool) -> None:
        self.last += 1
        self.members[self.last] = Member(self.last, name, peer, learner)
