"""VMs that no object of ours wants: who is a suspect, and for how long. Pure.

Theory.      A VM may outlive the object that it was made for: its creation came minutes too late, a driver
             made two, a user took a finalizer off. Each API has its own reasons to keep a VM; what is left
             goes *after confirmation*: when it is seen so again, ``confirmation`` later. A list that lags, or
             a cache that is late, shows a VM so once, and costs none.
Invariants.  To be listed once never confirms. What a list shows may be as old as the question for it.
Source       mcm.md §9.1; decisions 0009 and 0027.
Called by    ``machines.orphans``, ``infra.orphans``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubewright.driver.contract import Instance
from kubewright.driver.life.doubts import LONGEST_CREATION


@dataclass(frozen=True, slots=True)
class OrphanSettings:
    """What an operator may set for the collection of orphans."""

    period: timedelta = timedelta(minutes=30)
    """From one look at the VMs to the next, when nothing gives a reason to look sooner: MCM's
    ``--machine-safety-orphan-vms-period``, with the seed's default."""

    confirmation: timedelta = timedelta(minutes=5)
    """A VM goes that was seen without an object twice, at least so far apart. Longer than a creation may
    take to show (``confirm_absent``) and than a driver call may last."""

    soon: timedelta = timedelta(minutes=1)
    """From a reason to look (a start, a doubtful end of a machine) to the look. Reasons that come
    meanwhile are gathered into the same one, so VMs are never listed for one machine alone."""

    at_once: int = 10
    """VMs of one class or cluster that are deleted in one look; the others wait for the next one."""


@dataclass(frozen=True, slots=True)
class SuspectUpdate:
    """What a list of VMs comes to.

    ``suspects``   provider ids of VMs that nothing wants, and since when (monotonic seconds)
    ``confirmed``  those that were seen so for long enough, oldest suspicion first
    ``wake``       in how many seconds the next suspect can be confirmed; None when there is none
    """

    suspects: Mapping[str, float]
    confirmed: tuple[Instance, ...] = ()
    wake: float | None = None


def update_suspects(
    unwanted: Iterable[Instance],
    since: Mapping[str, float],
    *,
    began: float,
    ended: float,
    confirmation: float,
) -> SuspectUpdate:
    """Compare a list with what was suspect before it.

    Args:
        unwanted: the VMs of the list that nothing wants.
        since: the suspects of the list before.
        began: when this list was asked for: a VM was seen again then, or later.
        ended: when it was answered: a VM was first seen then, or earlier.
        confirmation: seconds between two lists that count.
    """
    found = {vm.provider_id: vm for vm in unwanted}
    suspects = {vm_id: since.get(vm_id, ended) for vm_id in found}
    old = sorted((at, vm_id) for vm_id, at in suspects.items() if began - at >= confirmation)
    left = [confirmation - (ended - at) for at in suspects.values() if began - at < confirmation]
    return SuspectUpdate(
        suspects, tuple(found[vm_id] for _, vm_id in old), max(0.0, min(left)) if left else None
    )


def may_leave_a_vm(created: datetime | None, now: datetime, *, recorded: bool) -> bool:
    """Whether a creation may have been under way when an object went. ``now`` is of a steady clock."""
    return not recorded or created is None or now - created < LONGEST_CREATION
