"""What an operator may set for the collection of orphans."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class OrphanSettings:
    """``period`` is MCM's ``--machine-safety-orphan-vms-period``, with the seed's default."""

    period: timedelta = timedelta(minutes=30)
    """From one look at a class or at the nodes to the next, when nothing gives a reason to look sooner."""

    confirmation: timedelta = timedelta(minutes=5)
    """A VM goes that was seen without a machine twice, at least so far apart. Longer than a creation may
    take to show (``MachineSettings.confirm_absent``) and than a driver call may last."""

    soon: timedelta = timedelta(minutes=1)
    """From a reason to look (a start, a doubtful end of a machine) to the look. Reasons that come
    meanwhile are gathered into the same one, so a class is never listed for one machine alone."""

    at_once: int = 10
    """VMs of one class that are deleted in one look; the others wait for the next, ``soon`` after."""
