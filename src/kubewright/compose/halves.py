"""Groups of controllers, one for each Lease.

Theory.      Controllers that are listed under one Lease form a group, which waits for that Lease, holds it
             and loses it without the others. A process that runs several groups stands for several Leases.
             MCM is two programs with a Lease each, and so are the two halves of our machine controllers.
Invariants.  A group writes, and calls a cloud, only while its own Lease may still be its own (``kit``).
Called by    ``cluster``, ``embedded`` and ``testing``.
"""

from kubewright.compose.kit import Kit
from kubewright.compose.options import Election
from kubewright.compose.worlds import leases
from kubewright.kube.client import Client
from kubewright.runtime.group import Group, Settings, Work
from kubewright.runtime.leader import Elector
from kubewright.wire.gvk import Key

LEASELESS = "server"
"""The name of the group of controllers without a Lease: what an embedded server cannot do without."""


def together(kit: Kit, settings: Settings) -> list[Group]:
    """All controllers as one group, for a process that shares its server with no other: without a Lease."""
    work = kit.work(kit.controllers)
    return [Group("controllers", kit.clock, lambda: work, settings=settings)]


def elected(kit: Kit, control: Client, election: Election, who: str, settings: Settings) -> list[Group]:
    """A group for each Lease, and one for controllers without; ``who`` is our identity in the Leases."""

    def group(lease: str) -> Group:
        members = [each for each in kit.controllers if each.lease == lease]
        if not lease:
            work = kit.work(members)
            return Group(LEASELESS, kit.clock, lambda: work, settings=settings)
        elector = Elector(
            control,
            kit.clock,
            Key(election.namespace, election.leases.get(lease, lease)),
            identity=who,
            timings=election.timings,
            recorder=kit.recorder,
        )

        def begin() -> Work:
            return kit.term(members, lease, lambda: elector.entitled)

        return Group(lease, kit.clock, begin, elector=elector, again=election.again, settings=settings)

    return [group(lease) for lease in leases(kit.controllers)]
