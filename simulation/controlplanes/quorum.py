"""Which programs of an etcd answer each other, and what is on their disks.

Theory.      A member answers another one if it runs, if each trusts the other's certificate, and if its disk
             belongs to their cluster. What users write is on the disk of every member that runs; one that
             joins gets what the others have.
Called by    ``machine``, ``members``, ``copies`` and rules.
"""

from simulation.controlplanes import health
from simulation.controlplanes.etcd import Content, Etcd
from simulation.controlplanes.programs import HostedWorkload, Program

CATCH_UP_SECONDS = 2.0
"""For how long a learner runs until it has all data."""


def is_member(hosted: HostedWorkload, etcd: Etcd, one: Program) -> bool:
    """Whether the disk of a program is that of a member."""
    disk = hosted.data[one.ordinal]
    return disk.cluster == etcd.cluster and disk.member in etcd.members


def answering(hosted: HostedWorkload, etcd: Etcd, one: Program) -> set[int]:
    """The members that answer this one; itself too."""
    found = set()
    for each in hosted.programs.values():
        trusted = each is one or health.are_peers(one.workload, each.workload)
        if each.up and trusted and is_member(hosted, etcd, each):
            found.add(hosted.data[each.ordinal].member)
    return found


def serves(hosted: HostedWorkload, etcd: Etcd, one: Program) -> bool:
    """Whether a member that runs has a majority."""
    return is_member(hosted, etcd, one) and etcd.has_majority(answering(hosted, etcd, one))


def caught_up(hosted: HostedWorkload, etcd: Etcd, now: float) -> set[int]:
    """The learners that have all data."""
    there = {hosted.data[each.ordinal].member: each for each in hosted.programs.values() if each.up}
    learners = (each.id for each in etcd.learners)
    return {each for each in learners if each in there and there[each].up_at <= now - CATCH_UP_SECONDS}


def join(hosted: HostedWorkload, etcd: Etcd, one: Program, host: str) -> bool:
    """A program becomes a member, or is one again; False: it cannot."""
    disk, name = hosted.data[one.ordinal], one.identity.instance(one.ordinal)
    if not etcd.joins(disk, name, host, one.workload.environment):
        return False
    known = [each.content for each in hosted.data.values() if each.cluster == etcd.cluster]
    disk.content = max(known, key=len)
    return True


def end_removed(hosted: HostedWorkload, etcd: Etcd) -> None:
    """The program of a member that was removed ends, as the real one does."""
    for each in hosted.programs.values():
        if hosted.data[each.ordinal].member and not is_member(hosted, etcd, each):
            each.died.set()


def write(hosted: HostedWorkload, entry: str) -> None:
    """A user's entry reaches every member that runs."""
    for each in hosted.programs.values():
        if each.up:
            disk = hosted.data[each.ordinal]
            disk.content = (*disk.content, entry)


def content(hosted: HostedWorkload, one: Program) -> Content:
    """What a client of this program reads."""
    return hosted.data[one.ordinal].content
