"""The work queue: every key has one place, waits its turn, and is never worked on twice at once.

Theory.      A key is in up to three sets. *Dirty*: a pass is asked for and has not begun.
             *Running*: a worker has it. *Delayed*: a pass is due at some moment. Adding a dirty key
             changes nothing; adding a running key makes it dirty, and ``done`` puts it back in
             line. So an add that comes during a pass leads to another one after it, a
             thousand adds lead to one, and the reconciler sees every change without hurry.
             A key has one delay, the earliest that was asked for: a later one adds nothing, since
             the pass at the earlier moment asks for the next. What a pass has asked for itself, or a
             debounce, is a delay *at the latest*: a pass that began later and went well has seen what it
             was for, and has said anew when the next one comes, so it ends that delay (``went_well``).
             An add of *low priority* counts as if it had come ``OVERTAKEN_BY`` adds later: after a start,
             ten thousand first passes let a user's change pass, and still no key starves.
Invariants.  No key is handed out while it runs. No add is lost before ``close``. Keys leave in the
             order they came, those of low priority apart. No delay ends early (beyond the loop's own
             resolution). One timer for all delays: nothing polls, and on a virtual loop the order is
             repeatable.
Called by    ``controller``; ``Curve`` is the backoff of others, too. All methods but ``get`` and ``drained``
             return at once.
"""

import asyncio
import heapq
from collections import Counter
from dataclasses import dataclass, field, replace

from kubewright.base import limits
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.wire.gvk import Key

_RESOLUTION = 1e-6
"""Delays closer than this are over: the event loop itself is no finer."""


OVERTAKEN_BY = 1_000
"""How many later adds may overtake one of low priority."""


class QueueFull(KubewrightError):
    """More keys wait than the queue may hold (one that is dirty and delayed counts twice): a defect of its
    controller, which produces keys without end."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A key whose turn it is. ``why`` and ``waited`` (seconds in line) are not for decisions."""

    key: Key
    why: str = field(default="", compare=False)
    waited: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Curve:
    """Exponential backoff: ``base`` seconds after the first failure, doubled by each further one
    up to ``cap``; each wait is shortened by a random part of at most ``jitter``."""

    base: float = 0.1
    cap: float = 120.0
    jitter: float = 0.25

    def delay(self, failures: int, chance: float) -> float:
        """Seconds to wait after the ``failures``-th failure in a row; ``chance`` is in [0, 1)."""
        doublings = min(failures - 1, 60)
        return min(self.cap, self.base * 2.0**doublings) * (1 - self.jitter * chance)


FINEST_SECONDS = 0.001
"""Shortest delay: adding less to a float may add nothing, and the pass would be too early again."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A picture of one queue. ``adds`` counts places taken in line, ``merged`` the adds that met one;
    ``alarms`` the entries in the heap: one for each delayed key, and some that an earlier one made void."""

    waiting: int
    running: int
    delayed: int
    alarms: int
    failing: int
    adds: int
    merged: int
    retries: int
    longest_running: float
    unfinished: float
    closed: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a dirty key: ``at`` is since when (monotonic seconds), ``rank`` where in the line. Of a
    delayed key: ``at`` is until when, ``rank`` when it was asked for, and ``at_latest`` whether a pass that
    begins sooner will do as well. And why."""

    at: float
    why: str
    rank: int = 0
    at_latest: bool = False


_END = (-1, None)
"""The entry of the line that ends the workers."""


class Queue:
    """The work queue of one controller, whose name is in its errors."""

    def __init__(
        self,
        clock: Clock,
        controller: str = "",
        *,
        curve: Curve | None = None,
        limit: int = limits.QUEUE_KEYS,
    ) -> None:
        self._clock = clock
        self._controller = controller
        self._curve = curve or Curve()
        self._limit = limit
        self._line: asyncio.PriorityQueue[tuple[int, Key | None]] = asyncio.PriorityQueue()
        self._dirty: dict[Key, _Place] = {}
        self._running: dict[Key, tuple[float, int]] = {}
        """Since when, and which was the last sequence number by then."""
        self._delayed: dict[Key, _Place] = {}
        self._alarms: list[tuple[float, int, Key]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._failures: Counter[Key] = Counter()
        self._sequence = self._adds = self._merged = self._retries = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: Key, why: str = "", *, low_priority: bool = False) -> None:
        """Ask for a pass over ``key`` as soon as its turn comes. Ignored once the queue is closed.

        ``low_priority``: others may go first.

        Raises:
            QueueFull: the key is new and the queue holds its limit.
        """
        if self._closed:
            return
        if key not in self._dirty:
            self._admit(key)
        self._line_up(key, why, low_priority=low_priority)

    def _line_up(self, key: Key, why: str, *, low_priority: bool = False) -> None:
        self._sequence += 1
        rank = 2 * (self._sequence + OVERTAKEN_BY) + 1 if low_priority else 2 * self._sequence  # unique
        if (place := self._dirty.get(key)) is None:
            self._adds += 1
            place = _Place(self._clock.monotonic(), why, rank)
        else:
            self._merged += 1
            if place.rank <= rank:
                return
            place = replace(place, rank=rank)  # its old entry in the line is void now
        self._dirty[key] = place
        if key not in self._running:
            self._line.put_nowait((place.rank, key))

    def add_after(self, key: Key, seconds: float, why: str = "", *, at_latest: bool = False) -> None:
        """Ask for a pass in ``seconds``; of several such times for a key the earliest counts.

        ``at_latest``: one that begins sooner, for whatever reason, and goes well will do as well.
        """
        if seconds <= 0:
            self.add(key, why)
            return
        if self._closed:
            return
        at = self._clock.monotonic() + max(seconds, FINEST_SECONDS)
        self._sequence += 1
        known = self._delayed.get(key)
        if known is None:
            self._admit(key)
        elif known.at <= at:
            at_latest = at_latest and known.at_latest
            self._delayed[key] = _Place(known.at, known.why, self._sequence, at_latest)
            return
        else:
            at_latest = at_latest and known.at_latest
        self._delayed[key] = _Place(at, why, self._sequence, at_latest)
        heapq.heappush(self._alarms, (at, self._sequence, key))
        if len(self._alarms) > 2 * len(self._delayed) + 64:
            self._sweep()
        self._arm()

    def retry(self, key: Key, why: str = "", *, at_least: float = 0.0) -> float:
        """Count a failure of ``key`` and ask for a pass after its own backoff; returns the seconds."""
        self._retries += 1
        self._failures[key] += 1
        delay = max(at_least, self._curve.delay(self._failures[key], self._clock.random.random()))
        self.add_after(key, delay, why, at_latest=True)
        return delay

    def forget(self, key: Key) -> None:
        """The next failure of ``key`` is its first."""
        self._failures.pop(key, None)

    def went_well(self, key: Key) -> None:
        """The pass over ``key`` that runs went well: its next failure is its first, and it has seen what a
        delay at the latest was for that had been asked for before it began."""
        self._failures.pop(key, None)
        place = self._delayed.get(key)
        if place is not None and place.at_latest and place.rank <= self._running[key][1]:
            del self._delayed[key]

    async def get(self) -> Turn | None:
        """The next key in line; None once the queue is closed. Each key needs its ``done``."""
        while True:
            rank, key = await self._line.get()
            if key is None or self._closed:
                self._line.put_nowait(_END)
                return None
            place = self._dirty.get(key)
            if place is not None and place.rank == rank:
                break
        now = self._clock.monotonic()
        del self._dirty[key]
        self._running[key] = now, self._sequence
        self._idle.clear()
        return Turn(key, place.why, now - place.at)

    def done(self, key: Key) -> None:
        """The worker that took ``key`` is finished with it, well or not."""
        del self._running[key]
        if (place := self._dirty.get(key)) is not None:
            self._line.put_nowait((place.rank, key))
        if not self._running:
            self._idle.set()

    def close(self) -> None:
        """Take and hand out nothing more. What waits is dropped: the next start enqueues everything."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._dirty.clear()
        self._delayed.clear()
        self._alarms.clear()
        self._line.put_nowait(_END)

    async def drained(self) -> None:
        """Wait until no key runs; after ``close`` that is for good. The caller sets the deadline."""
        await self._idle.wait()

    @property
    def load(self) -> int:
        """Keys that run or are in line for their turn."""
        return len(self._dirty) + len(self._running)

    def statistics(self) -> QueueStatistics:
        """A picture of this moment."""
        now = self._clock.monotonic() if self._running else 0.0
        ages = [now - since for since, _ in self._running.values()]
        return QueueStatistics(
            waiting=len(self._dirty),
            running=len(self._running),
            delayed=len(self._delayed),
            alarms=len(self._alarms),
            failing=len(self._failures),
            adds=self._adds,
            merged=self._merged,
            retries=self._retries,
            longest_running=max(ages, default=0.0),
            unfinished=sum(ages),
            closed=self._closed,
        )

    def _admit(self, key: Key) -> None:
        # A running key had a place a moment ago and may have it back: a worker never fails to settle.
        if len(self._dirty) + len(self._delayed) >= self._limit and key not in self._running:
            of = f" of controller {self._controller}" if self._controller else ""
            raise QueueFull(f"the work queue{of} holds {self._limit} keys and takes no more")

    def _sweep(self) -> None:
        """Drop alarms that an earlier one of the same key has made void, so that they never pile up."""
        self._alarms = [alarm for alarm in self._alarms if self._rings(alarm[2], alarm[0])]
        heapq.heapify(self._alarms)

    def _rings(self, key: Key, at: float) -> bool:
        return (place := self._delayed.get(key)) is not None and place.at == at

    def _arm(self) -> None:
        """Let the one timer ring at the earliest delay."""
        if not self._alarms:
            return
        at = self._alarms[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        wait = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(wait, self._ring)

    def _ring(self) -> None:
        """Put every key whose delay is over in line, in the order of their moments."""
        self._timer = None
        due = self._clock.monotonic() + _RESOLUTION
        while self._alarms and self._alarms[0][0] <= due:
            at, _, key = heapq.heappop(self._alarms)
            if self._rings(key, at):
                self._line_up(key, self._delayed.pop(key).why)  # however full: it was admitted when delayed
        self._arm()
