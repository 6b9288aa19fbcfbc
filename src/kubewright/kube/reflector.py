"""The watch loop as a state machine: what to request next, and when; and for how long nothing was seen. Pure.

States.      Listing   we need a page of a list; a list in pages is one moment of history
             Watching  we know the history up to ``version`` and want to hear the rest
Outcomes.     PageRead  a page came            Cut     an open stream ended, however it ended
             Failed    a request was refused or got no answer
Theory.      A cut is normal (servers end watches, and cut those who read slowly): resume at the last
             version, never list again for it. Only a server that says that this version is too
             old (410), or that sends what is no event, makes us list. All else is tried
             again as it was.
Pace.        Each failure doubles the pause, from ``SHORTEST`` to ``LONGEST`` seconds, with jitter; a
             good stream (it lived, or it brought us further) resets it, and so does a complete list,
             but for the failures of streams that made us list: else a server that answers lists
             and refuses every watch would be asked without a pause. The first 410 is free,
             since it says what to do; one that follows without a good stream is not. So a server
             that keeps failing, in whatever way, gets at most one request a second in the long run.
Visibility.  An object that a cache does not show may be missing, or the watch may be broken. A controller
             that concludes something from silence (a node that does not report, a machine that never joined)
             must not count time in which its watch was broken: then others could not report to the server
             either, and need a while to come back. So each watch notes its gaps.
             A longer gap matters to every caller for whom a shorter one does, so of the past only gaps are
             kept that no later one was as long as: a handful, however long the process lives.
             Moments are those of a monotonic clock and never go back. Until the first list is complete
             nothing is visible, and nothing is said of the time before it.
Called by    ``feed``, which sends the requests and reports when its watch is open; controllers, through
             ``Informer.visibility``. Every transition is a case in ``tests/unit/kube/test_reflector.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import assert_never

from kubewright.kube.errors import BadAnswer, TransportError
from kubewright.wire.errors import ApiError, Gone, NotFound

SHORTEST, LONGEST = 0.8, 30.0
"""Seconds between attempts, as client-go: the first pause is 0.8 to 1.6, the last 15 to 30."""

STEADY = 10.0
"""A stream that was open this long was a good one, even if nothing happened."""

APART = 1.0
"""Seconds between the beginnings of two streams of which the first brought us further."""

UNKNOWN_KIND = 2.5
"""Seconds, or up to twice that, between looks for a kind that the server does not serve (yet)."""

WATCH_SECONDS = (300.0, 600.0)
"""How long a watch asks to live: between these, at random, so that watches do not end together."""

IDLE_SECONDS = 100.0
"""Silence after which a stream counts as dead. Servers send a bookmark every 60 to 75 seconds."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The page after ``token`` (empty: the first) is needed. ``whole``: do not ask for pages.

    ``failures`` counts what went wrong since the last complete list or good stream; ``streams`` are
    those of them that a complete list does not prove to be over: the streams that ended in this list.
    """

    token: str = ""
    whole: bool = False
    failures: int = 0
    streams: int = 0


@dataclass(frozen=True, slots=True)
class Watching:
    """A stream of everything after ``version`` is wanted, or open."""

    version: int
    failures: int = 0


State = Listing | Watching


@dataclass(frozen=True, slots=True)
class PageRead:
    """``token`` is empty on the last page."""

    version: int
    token: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """The stream was open for ``lived`` seconds and got us to ``version``."""

    version: int
    lived: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A request, or an ERROR event in a stream (then ``cut`` describes the stream)."""

    error: ApiError | TransportError
    cut: Cut | None = None


Outcome = PageRead | Cut | Failed


@dataclass(frozen=True, slots=True)
class Step:
    """Go on in ``state`` after ``pause`` seconds."""

    state: State
    pause: float = 0.0


def step(state: State, happened: Outcome, draw: float) -> Step:
    """What follows. ``draw`` is a random number from 0 to 1."""
    match happened:
        case PageRead(version, token):
            assert isinstance(state, Listing)
            return Step(replace(state, token=token) if token else Watching(version, state.streams))
        case Cut(version):
            assert isinstance(state, Watching)
            if _was_good(state, happened):
                return Step(Watching(version), max(0.0, APART - happened.lived))
            return Step(Watching(version, state.failures + 1), _pause(state.failures + 1, draw))
        case Failed(error, cut):
            return _after_failure(_reached(state, cut), error, draw)
        case _:
            assert_never(happened)


def _was_good(state: Watching, cut: Cut) -> bool:
    return cut.lived >= STEADY or cut.version > state.version


def _reached(state: State, cut: Cut | None) -> State:
    """Where a stream had got before it failed."""
    if cut is None:
        return state
    assert isinstance(state, Watching)
    return Watching(cut.version, 0 if _was_good(state, cut) else state.failures)


def _after_failure(state: State, error: ApiError | TransportError, draw: float) -> Step:
    failures = state.failures + 1
    streams = state.streams if isinstance(state, Listing) else failures
    if isinstance(error, Gone):
        paged = isinstance(state, Listing) and state.token != ""
        return Step(Listing(whole=paged, failures=failures, streams=streams), _pause(failures - 1, draw))
    if isinstance(error, NotFound):
        return Step(Listing(failures=failures, streams=streams), UNKNOWN_KIND * (1 + draw))
    pause = _pause(failures, draw)
    if isinstance(error, BadAnswer) and isinstance(state, Watching):
        return Step(Listing(failures=failures, streams=streams), pause)
    if isinstance(error, ApiError) and error.retry_after is not None:
        pause = max(pause, error.retry_after + draw)
    match state:
        case Listing():
            return Step(replace(state, failures=failures), pause)
        case Watching(version):
            return Step(Watching(version, failures), pause)
        case _:
            assert_never(state)


def _pause(failures: int, draw: float) -> float:
    """Seconds after so many failures; none after none."""
    if failures == 0:
        return 0.0
    return min(SHORTEST * 2.0 ** min(failures - 1, 10), LONGEST / 2) * (1 + draw)


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
