"""The two halves of the machine controllers, and the Lease that each of them works under.

Theory.      MCM is two programs: one keeps deployments and sets, the other machines and what they need.
             Each elects its leader by a Lease of its own, and so do our two halves, by default with MCM's
             own names in the place where MCM would look: then MCM and Kubewright do not work on the
             same objects at once, whichever of MCM's two programs is replaced first. A process that runs
             both halves stands for two Leases, and each half waits for, holds and loses its own.
Invariants.  A half writes, and calls a cloud, only while its own Lease may still be its own (``kit``).
Source       mcm.md §10.4.
Called by    ``cluster``, ``embedded`` and ``testing``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from kubewright.api.machine import names
from kubewright.compose.kit import MACHINE_CONTROLLERS, OF_MACHINES, OF_SETS, Kit
from kubewright.compose.options import Election, Options
from kubewright.compose.selection import select
from kubewright.kube.client import Client
from kubewright.runtime.group import Group, Settings, Work
from kubewright.runtime.leader import Elector
from kubewright.wire.gvk import Key


class Half(StrEnum):
    """A half of the controllers; its value is the name of MCM's Lease for it."""

    SETS = names.SETS_LEASE
    MACHINES = names.MACHINES_LEASE


MEMBERS: Mapping[Half, Sequence[str]] = {
    Half.SETS: OF_SETS,
    Half.MACHINES: OF_MACHINES,
}

Furnish = Callable[[Work], Work]
"""Adds controllers and background tasks to the work of a group."""


def halves(chosen: Sequence[str]) -> list[Half]:
    """The halves to which the chosen controllers belong."""
    return [half for half, members in MEMBERS.items() if set(members) & set(chosen)]


def running(options: Options) -> list[Half]:
    """The halves that the options ask for.

    Raises:
        InvalidInput: they name controllers that do not exist.
    """
    return halves(select(MACHINE_CONTROLLERS, options.controllers))


def together(kit: Kit, settings: Settings, *, furnish: Furnish = lambda work: work) -> list[Group]:
    """Both halves as one group, for a process that shares its server with no other: without a Lease."""
    work = furnish(kit.work(kit.chosen))
    return [Group("controllers", kit.clock, lambda: work, settings=settings)]


def elected(
    kit: Kit,
    control: Client,
    election: Election,
    who: str,
    settings: Settings,
    *,
    furnish: Mapping[Half, Furnish] | None = None,
) -> list[Group]:
    """A group for each half that runs; ``who`` is our identity in their Leases."""

    def group(half: Half) -> Group:
        lease = Key(election.namespace, election.leases.get(half.value, half.value))
        elector = Elector(
            control, kit.clock, lease, identity=who, timings=election.timings, recorder=kit.recorder
        )
        members = [name for name in kit.chosen if name in MEMBERS[half]]
        more = (furnish or {}).get(half)

        def begin() -> Work:
            work = kit.term(members, half.value, lambda: elector.entitled)
            return more(work) if more is not None else work

        return Group(half.value, kit.clock, begin, elector=elector, again=election.again, settings=settings)

    return [group(half) for half in halves(kit.chosen)]
