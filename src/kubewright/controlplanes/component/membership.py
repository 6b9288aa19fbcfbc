"""The members of an etcd, as its controller sees them: how many run now, and what is next. Pure.

Theory.      The spec says how many members there should be in the end; how many instances run now follows
             from who is a member (``members.decide``). So the host is given a number that changes by one at a
             time, each time after the members have changed. The members of an etcd that was stopped cannot be
             asked; the addresses in its status tell how many it had, and where its object was made anew, the
             data that was kept. It starts again with as many, because with fewer it would have no majority.
Invariants.  While the members cannot be asked, the number of instances and the variables of new members stay
             as they are. Certificates are made for ``MAX_MEMBERS`` members, so that no change of the number
             replaces one.
Source       nested.md C6, D6; acceptance test 10.
Called by    ``look``; ``policies`` for the addresses; ``status`` and ``decide`` read the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubewright.api.controlplane.names import CLIENT_PORTS, Component
from kubewright.controlplanes.hosting.contract import Running, WorkloadAddresses, WorkloadIdentity
from kubewright.controlplanes.hosting.etcdutl import bracketed, peer_url
from kubewright.controlplanes.members import decide as members

MAX_MEMBERS = 7
"""As etcd itself advises: each write waits for more than half of the members."""

FRAGILE = 2
"""With so many voters each is needed for a majority. An etcd has this number only while it changes."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What is known of the members of an etcd, and what follows.

    ``size``       how many instances should run now
    ``variables``  the environment with which an instance without data joins or starts the etcd
    ``plan``       the next change of members
    ``settled``    whether they are as the spec wants them, as far as that is known; true for a host whose
                   etcd has no members (our own API server)
    ``needs_all``  whether each of several members with a vote is needed for a majority, as while two have
                   one: no instance that is ready is replaced then
    """

    size: int
    variables: Mapping[str, str] = field(default_factory=dict)
    plan: members.Plan = field(default_factory=members.Plan)
    settled: bool = True
    needs_all: bool = False


def problem_of_number(asked: int) -> str:
    """What is wrong with a number of members, a sentence; empty if nothing is. 0 is allowed."""
    if asked > MAX_MEMBERS:
        return f"spec.replicas is {asked}: more than {MAX_MEMBERS} members make an etcd slower, not safer"
    if asked and asked % 2 == 0:
        told = f"with {asked} it stands the loss of no more of them than with {asked - 1}"
        return f"spec.replicas is {asked}: etcd needs an odd number of members: {told}"
    return ""


def must_be_asked(asked: int, running: Running, *, up_to_date: bool) -> bool:
    """Whether the members have to be asked: not while none is ready, nor where one is all that is wanted.

    Args:
        asked: the number in the spec.
        running: what the host has.
        up_to_date: whether the status says that all is as this very spec asks. If not, a member may be left
            of a larger number that was asked for in between, though only one instance was ever to run.
    """
    alone = asked == running.replicas == 1
    if not asked or problem_of_number(asked) or (alone and up_to_date):
        return False
    return any(each.ready for each in running.instances)


def peers(identity: WorkloadIdentity, addresses: WorkloadAddresses, count: int) -> dict[str, str]:
    """The peer URLs of the first ``count`` instances, by their names."""
    hosts = enumerate(addresses.hosts[:count])
    return {identity.instance(number): peer_url(host) for number, host in hosts}


def endpoints(running: Running) -> list[members.Endpoint]:
    """The client endpoints of the instances that run; one that is ending counts as not answering."""
    return [
        members.Endpoint(
            f"https://{bracketed(each.address or each.host)}:{CLIENT_PORTS[Component.ETCD]}",
            each.host if each.address else "",
        )
        for each in running.instances
        if not each.ending
    ]


def membership(
    asked: int,
    identity: WorkloadIdentity,
    addresses: WorkloadAddresses,
    running: Running,
    *,
    before: int,
    begun: bool,
    found: members.Seen | None,
) -> Membership:
    """How many instances are to run now, and which change of members is next.

    Args:
        asked: the number in the spec; one that ``problem_of_number`` refuses is refused before any step.
        before: how many members there were before the etcd was stopped; 0 if that is not known.
        begun: whether it has ever been ready. If so, one of several members that has no data yet was stopped
            before it could join: it joins now, and begins no cluster of its own.
        found: what the members answered; None: they were not asked.
    """
    if not asked or not addresses.hosts:
        return Membership(asked, _unchanged(running))
    if not running.applied or not running.replicas:
        size = before or running.kept or asked
        first = members.Seen(peers(identity, addresses, size))
        joins = begun and size > 1
        return Membership(size, members.initial_variables(first, joins=joins), settled=size == asked)
    if found is None or not found.members:
        plan = members.decide(found) if found is not None else members.Plan()
        settled = running.replicas == asked
        if not settled and not plan.because:
            plan = members.Plan(because="none of its members is ready, so that they could be asked")
        return Membership(running.replicas, _unchanged(running), plan, settled)
    plan, size = members.decide(found), members.replicas(found)
    settled = size == asked == len(found.voters) == len(found.members)
    needs_all = not settled and len(found.voters) == FRAGILE
    variables = members.initial_variables(found)
    return Membership(size or running.replicas, variables, plan, settled, needs_all)


def _unchanged(running: Running) -> dict[str, str]:
    return {name: running.variables[name] for name in members.VARIABLES if name in running.variables}
