"""Time and randomness as a dependency.

Theory.      Everything that asks what time it is, waits, or draws a random number asks a
             ``Clock``. Sleeping goes through the event loop, so a loop with virtual time
             (looptime, in tests) makes every wait exact and instant; ``testing.clocks`` then
             makes wall time follow the loop, and a seed makes the draws repeatable.
Invariants.  This file and ``runtime`` are the only places where ``datetime.now``,
             ``time.*`` and ``asyncio.sleep`` may stand (ruff bans them elsewhere).
             ``now`` is always aware and in UTC. ``monotonic`` never goes back.
Called by    every package, through the ``clock`` argument of a constructor.
"""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID


class Clock(Protocol):
    """Wall time, elapsed time, waiting and random numbers, as the code may use them."""

    random: random.Random

    def now(self) -> datetime:
        """Wall time in UTC. May step; never use it to measure a wait."""

    def monotonic(self) -> float:
        """Seconds since some fixed, unknown moment."""

    async def sleep(self, seconds: float) -> None:
        """Wait; a virtual loop jumps."""


class SystemClock:
    """The real time of this machine; randomness that cannot be guessed, because tokens are drawn from it."""

    def __init__(self) -> None:
        self.random: random.Random = random.SystemRandom()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


Anchor = tuple[datetime, float]
"""A wall time, and the monotonic time at that moment."""


class SteadyClock:
    """A clock whose wall time does not step: the time of the first call of ``now``, plus what passed since.

    For computing the age of objects that servers or this process have dated. ``known`` returns a server's
    time and the monotonic time at which it was read, or None: then our wall clock is read once. Later
    steps of the wall clock are ignored, so this time must never be written into an object.
    """

    def __init__(self, clock: Clock, known: Callable[[], Anchor | None] = lambda: None) -> None:
        self.random: random.Random = clock.random
        self._clock = clock
        self._known = known
        self._anchor: Anchor | None = None

    def now(self) -> datetime:
        at = self._clock.monotonic()
        if self._anchor is None:
            self._anchor = self._known() or (self._clock.now(), at)
        return self._anchor[0] + timedelta(seconds=at - self._anchor[1])

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def new_uid(clock: Clock) -> str:
    """A version 4 UUID drawn from the clock's randomness, so that a seed repeats it."""
    return str(UUID(int=clock.random.getrandbits(128), version=4))


def rfc3339(moment: datetime) -> str:
    """``2030-01-01T00:00:00Z``: the form of ``metav1.Time``, whole seconds, UTC."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def rfc3339_micro(moment: datetime) -> str:
    """``2030-01-01T00:00:00.000000Z``: the form of ``metav1.MicroTime`` (Leases, new Events)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str) -> datetime:
    """Read either form above.

    Raises:
        ValueError: the text is not an RFC 3339 time, or has no time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)


def stamp(moment: datetime | None) -> float | None:
    """Seconds since the epoch; None for None."""
    return moment.timestamp() if moment is not None else None
