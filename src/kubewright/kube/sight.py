"""Since when we see what happens on a server, and for how long we have not. Pure.

Theory.      What a cache does not show may be missing, or we may be blind. Who concludes something from
             silence (a node that has fallen silent, a machine that never joined) must not count time
             in which nothing could be heard: then nobody could report to the server either, and
             who was cut off needs a while to come back. So each watch notes its gaps.
             Longer gaps matter to everybody for whom a shorter one would, so of the past only gaps
             are kept that no later one was as long as: a handful, however long we live.
Invariants.  Moments are those of a monotonic clock and never go back. Until the first list is here
             we are blind, and nothing is said of the time before it.
Called by    ``feed`` (says what it sees), ``Informer.sight`` (shows it to whoever concludes).
"""

from dataclasses import dataclass
from math import inf

KEPT = 32
"""Gaps that are kept at most; then a new one counts as long as the one before it, to be on the safe side."""


@dataclass(frozen=True, slots=True)
class _Gap:
    seconds: float
    end: float


class Sight:
    """Of one watch. ``lost`` and ``sees`` may be said again and again; only changes count."""

    def __init__(self) -> None:
        self._blind_since: float | None = None
        self._first: float | None = None
        self._gaps: list[_Gap] = []

    def sees(self, now: float) -> None:
        """What the server has is here, or a stream of everything that follows is open."""
        if self._first is None:
            self._first = now
        if self._blind_since is not None:
            self._gap(_Gap(now - self._blind_since, now))
            self._blind_since = None

    def lost(self, moment: float) -> None:
        """From this moment on nothing was heard, which may be known later than it was so."""
        if self._blind_since is None and self._first is not None:
            self._blind_since = max(moment, self._first)

    def blind(self, now: float) -> float:
        """For how many seconds nothing could be seen; 0 while all is well, endless before the first look."""
        if self._first is None:
            return inf
        return 0.0 if self._blind_since is None else now - self._blind_since

    def awake(self, now: float) -> float:
        """Seconds since the first look."""
        return 0.0 if self._first is None else now - self._first

    def watched(self, now: float, longest_gap: float) -> float:
        """Seconds without a gap of more than ``longest_gap``; endless if there never was one."""
        if self.blind(now) > longest_gap:
            return 0.0
        ends = (gap.end for gap in reversed(self._gaps) if gap.seconds > longest_gap)
        return now - next(ends, -inf)

    def _gap(self, gap: _Gap) -> None:
        while self._gaps and self._gaps[-1].seconds <= gap.seconds:
            self._gaps.pop()
        if len(self._gaps) == KEPT:
            gap = _Gap(self._gaps.pop().seconds, gap.end)
        self._gaps.append(gap)
