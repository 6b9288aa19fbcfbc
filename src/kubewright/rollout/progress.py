"""Whether a rollout is complete, progresses, or has timed out. Pure.

Nothing is remembered here: the last report (its reason and the time it was last refreshed) comes
from the object's own condition, the counts from its status before and after. "Before" may
also be the best that was ever reported of the same rollout: then replacing lost members is no progress.
"""

from dataclasses import dataclass
from enum import Enum


class Progress(Enum):
    """What to report about a rollout."""

    COMPLETE = "complete"
    PROGRESSING = "progressing"
    TIMED_OUT = "timed out"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Counts:
    """A deployment's status in numbers."""

    replicas: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0

    @property
    def old(self) -> int:
        return self.replicas - self.updated


@dataclass(frozen=True, slots=True)
class LastReport:
    """What the object's condition says of the rollout. ``since``: when it was last refreshed; ``complete``:
    whether it says that the rollout is complete."""

    since: float
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """Now, in seconds since the epoch, and for how many seconds a rollout may go without progress: None for
    ever."""

    now: float
    deadline: int | None


def is_complete(counts: Counts, wanted: int) -> bool:
    """All wanted replicas are updated and available, and there are no others."""
    return counts.updated == counts.replicas == counts.available == wanted


def best_of(one: Counts, other: Counts) -> Counts:
    """The most updated, ready and available members, and the fewest old ones, of two reports."""
    updated, old = max(one.updated, other.updated), min(one.old, other.old)
    ready, available = max(one.ready, other.ready), max(one.available, other.available)
    return Counts(updated + old, updated, ready, available)


def has_progressed(before: Counts, after: Counts, wanted: int) -> bool:
    """More updated, fewer old, more ready or more available members than at the last report.

    Updated ones beyond those that are wanted replace others that are terminating: they are no progress.
    """
    return (
        min(after.updated, wanted) > before.updated
        or after.old < before.old
        or after.ready > before.ready
        or after.available > before.available
    )


def progress(before: Counts, after: Counts, wanted: int, last: LastReport | None, timing: Timing) -> Progress:
    """The verdict."""
    if is_complete(after, wanted):
        return Progress.COMPLETE
    if last is not None and last.complete and after.replicas == after.updated:
        return Progress.WAITING
    if has_progressed(before, after, wanted):
        return Progress.PROGRESSING
    if last is None or timing.deadline is None or last.complete:
        return Progress.WAITING
    return Progress.TIMED_OUT if last.since + timing.deadline < timing.now else Progress.WAITING


def seconds_left(last: LastReport | None, timing: Timing) -> float | None:
    """When to look again for a time-out: just after the deadline. None when there is none to wait for."""
    now, deadline = timing.now, timing.deadline
    if last is None or deadline is None or last.complete or last.since + deadline < now:
        return None
    return last.since + deadline - now + 1.0
