"""Since when this process sees what happens on a server, and for how long it did not. Pure.

Theory.      An object that a cache does not show may be missing, or the watch may be broken. A controller
             that concludes something from silence (a node that does not report, a machine that never joined)
             must not count time in which its watch was broken: then others could not report to the server
             either, and need a while to come back. So each watch notes its gaps.
             A longer gap matters to every caller for whom a shorter one does, so of the past only gaps are
             kept that no later one was as long as: a handful, however long the process lives.
Invariants.  Moments are those of a monotonic clock and never go back. Until the first list is complete
             nothing is visible, and nothing is said of the time before it.
Called by    ``feed``, which reports when its watch is open; controllers, through ``Informer.visibility``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

KEPT = 32
"""Gaps that are kept at most; then a new one counts as long as the one before it, to be safe."""


@dataclass(frozen=True, slots=True)
class _Gap:
    seconds: float
    end: float


class Visibility:
    """Of one watch. ``lost`` and ``gained`` may be called repeatedly; only changes count."""

    def __init__(self) -> None:
        self._lost_since: float | None = None
        self._first: float | None = None
        self._gaps: list[_Gap] = []

    def gained(self, now: float) -> None:
        """The list is complete, or a stream of everything that follows is open."""
        if self._first is None:
            self._first = now
        if self._lost_since is not None:
            self._gap(_Gap(now - self._lost_since, now))
            self._lost_since = None

    def lost(self, moment: float) -> None:
        """From this moment on nothing arrived; it may be noticed later than it began."""
        if self._lost_since is None and self._first is not None:
            self._lost_since = max(moment, self._first)

    def lost_for(self, now: float) -> float:
        """Seconds for which nothing was visible: 0 while the watch is open, endless before the first list."""
        if self._first is None:
            return inf
        return 0.0 if self._lost_since is None else now - self._lost_since

    def since_first_list(self, now: float) -> float:
        """Seconds since the first list was complete."""
        return 0.0 if self._first is None else now - self._first

    def visible_for(self, now: float, longest_gap: float) -> float:
        """Seconds without a gap of more than ``longest_gap``; endless if there never was one."""
        if self.lost_for(now) > longest_gap:
            return 0.0
        ends = (gap.end for gap in reversed(self._gaps) if gap.seconds > longest_gap)
        return now - next(ends, -inf)

    def _gap(self, gap: _Gap) -> None:
        while self._gaps and self._gaps[-1].seconds <= gap.seconds:
            self._gaps.pop()
        if len(self._gaps) == KEPT:
            gap = _Gap(self._gaps.pop().seconds, gap.end)
        self._gaps.append(gap)


class Joint:
    """Of several watches, each of which sees a part: when one of them sees nothing, not all is visible."""

    def __init__(self, watches: Sequence[Visibility]) -> None:
        self._watches = watches

    def lost_for(self, now: float) -> float:
        """As of one watch."""
        return max(each.lost_for(now) for each in self._watches)

    def since_first_list(self, now: float) -> float:
        """As of one watch."""
        return min(each.since_first_list(now) for each in self._watches)

    def visible_for(self, now: float, longest_gap: float) -> float:
        """As of one watch."""
        return min(each.visible_for(now, longest_gap) for each in self._watches)
