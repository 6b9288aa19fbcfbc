"""The members of an etcd, as its controller sees them: how many run now, and what is next. Pure.

Theory.      The spec says how many members there should be; how many instances run follows from who is a
             member (``members.decide``). So a host is told a number that changes one by one, each time after
             the members themselves have changed. An etcd that is asleep says nothing, so its last addresses
             tell how many it had: it wakes with all of these, or it would have no majority.
Invariants.  While the members cannot be asked, as many run as did, and begin with what they were given. With
             certificates for ``MOST`` members no change of their number makes a certificate anew.
Source       nested.md C6, D6; acceptance test 10.
Called by    ``look``; ``policies`` for the addresses; ``status`` and ``decide`` read the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubewright.controlplanes.hosting.contract import Place, Placement, Running
from kubewright.controlplanes.members import decide as members

CLIENTS, PEERS = 2379, 2380
"""The ports of a member: for clients, and for the others."""
MOST = 7
"""Members: etcd's own advice, since each write waits for more than half of them."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What is known of the members of an etcd, and what follows.

    ``size``       how many instances should run now
    ``variables``  what an instance without data begins with
    ``plan``       the next change of members
    ``settled``    they are as the spec wants them, as far as is known; also where a host knows no members
    """

    size: int
    variables: Mapping[str, str] = field(default_factory=dict)
    plan: members.Plan = field(default_factory=members.Plan)
    settled: bool = True


def problem_of(asked: int) -> str:
    """What is wrong with a number of members, a sentence; empty if nothing. None at all is sleep."""
    if asked > MOST:
        return f"spec.replicas is {asked}: more than {MOST} members make an etcd slower, not safer"
    if asked and asked % 2 == 0:
        told = f"with {asked} it stands the loss of no more of them than with {asked - 1}"
        return f"spec.replicas is {asked}: etcd needs an odd number of members: {told}"
    return ""


def must_be_asked(asked: int, running: Running) -> bool:
    """Whether the members have to be asked. One that runs alone, as it should, has nothing to say."""
    if not asked or problem_of(asked) or asked == running.replicas == 1:
        return False
    return any(each.ready for each in running.instances)


def peers(place: Place, placement: Placement, count: int) -> dict[str, str]:
    """The URLs by which the first so many instances reach each other, by their names."""
    hosts = enumerate(placement.hosts[:count])
    return {place.instance(number): f"https://{bracketed(host)}:{PEERS}" for number, host in hosts}


def doors(running: Running) -> list[members.Door]:
    """Where the members are called that run; one that is about to end counts as one that does not answer."""
    return [
        members.Door(
            f"https://{bracketed(each.address or each.host)}:{CLIENTS}", each.host if each.address else ""
        )
        for each in running.instances
        if not each.ending
    ]


def membership(
    asked: int,
    place: Place,
    placement: Placement,
    running: Running,
    *,
    before: int,
    found: members.Seen | None,
) -> Membership:
    """What is to run now, and what is next.

    Args:
        asked: what the spec says, a number that ``problem_of`` accepts.
        before: how many members there were before it fell asleep; 0 if that is not known.
        found: what the members say; None: they were not asked.
    """
    if not asked or not placement.hosts:
        return Membership(asked, _unchanged(running))
    if not running.applied or not running.replicas:
        size = before or asked
        begun = members.Seen(peers(place, placement, size))
        return Membership(size, members.beginning(begun), settled=size == asked)
    if found is None or not found.members:
        plan = members.decide(found) if found is not None else members.Plan()
        settled = running.replicas == asked
        if not settled and not plan.because:
            plan = members.Plan(because="none of its members is ready, so that they could be asked")
        return Membership(running.replicas, _unchanged(running), plan, settled)
    plan, size = members.decide(found), members.replicas(found)
    settled = size == asked == len(found.voters) == len(found.members)
    return Membership(size or running.replicas, members.beginning(found), plan, settled)


def bracketed(host: str) -> str:
    """A host as URLs have it."""
    return f"[{host}]" if ":" in host else host


def _unchanged(running: Running) -> dict[str, str]:
    return {name: running.variables[name] for name in members.VARIABLES if name in running.variables}
