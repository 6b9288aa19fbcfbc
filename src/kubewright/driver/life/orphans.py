"""VMs that no object of ours wants: who is a suspect, for how long, and which are deleted in a pass. Pure.

Theory.      A VM may outlive the object that it was made for: its creation came minutes too late, a driver
             made two, a user took a finalizer off. Each API has its own reasons to keep a VM; one that no
             reason keeps is deleted *after confirmation*: when a list that is ``confirmation`` later shows it
             unwanted again. A list that lags, or a cache that is late, shows a used VM as unwanted once at
             most, so no VM in use is deleted for it.
             Of the confirmed VMs a pass tries ``at_once``: those that were never tried, then those whose last
             try was the longest ago. A deletion that failed is not repeated before the pause of its error.
             So VMs that cannot be deleted hold up no others.
Invariants.  To be listed once never confirms. What a list shows may be as old as the question for it.
             Why so: decisions 0009 and 0027.
Called by    ``kubewright.orphans``, which remembers what is compared here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from kubewright.base.errors import Backoff, KubewrightError, Retry
from kubewright.driver.contract import Instance
from kubewright.driver.life.plan import LONGEST_CREATION

LONGEST_PASS = 900.0
"""Deadline of a pass in seconds: lists and deletions that each wait for their slot (``driver.guard``)."""


class NotListed(KubewrightError):
    """A cloud did not tell which VMs there are. Asked again less and less often."""

    retry: Retry = Backoff()


@dataclass(frozen=True, slots=True)
class OrphanSettings:
    """What an operator may set for the collection of orphans."""

    period: timedelta = timedelta(minutes=30)
    """From one pass over the VMs to the next, when nothing gives a reason for an earlier one: MCM's
    ``--machine-safety-orphan-vms-period``, with the default of its documentation."""

    confirmation: timedelta = timedelta(minutes=5)
    """A VM is deleted when two lists, at least this far apart, show it unwanted. Longer than a creation may
    take to show (``confirm_absent``) and than a driver call may last."""

    soon: timedelta = timedelta(minutes=1)
    """From a reason for a pass (a start, a doubtful end of a machine) to the pass. Reasons that come
    meanwhile are gathered into the same one, so VMs are never listed for one machine alone."""

    at_once: int = 10
    """VMs of one class or cluster whose deletion is tried in one pass; the next pass tries others first."""


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


@dataclass(frozen=True, slots=True)
class Try:
    """The last try to delete a VM: when it began, and when the next may begin (monotonic seconds)."""

    began: float
    again: float


def due(
    confirmed: Iterable[Instance], tries: Mapping[str, Try], *, now: float, at_once: int
) -> Sequence[Instance]:
    """The VMs that a pass tries to delete: those never tried first, then by the age of the last try.

    Args:
        confirmed: the VMs that may be deleted, the oldest suspicion first.
        tries: the last try of each, by provider id.
        now: monotonic seconds.
        at_once: how many at most.
    """
    free = [vm for vm in confirmed if vm.provider_id not in tries or tries[vm.provider_id].again <= now]
    free.sort(key=lambda vm: tries[vm.provider_id].began if vm.provider_id in tries else -inf)
    return free[:at_once]


def may_leave_a_vm(created: datetime | None, now: datetime, *, recorded: bool) -> bool:
    """Whether a creation may have been under way when an object went. ``now`` is of a steady clock."""
    return not recorded or created is None or now - created < LONGEST_CREATION
