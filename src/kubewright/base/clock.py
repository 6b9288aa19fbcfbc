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
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar
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


T = TypeVar("T")
"""How times are told: as datetimes, or as seconds since the epoch."""


class Witness(Generic[T]):
    """Remembers one state for each key, and when it came to be. ``now`` reads a ``SteadyClock``."""

    def __init__(self, now: Callable[[], T]) -> None:
        self._now = now
        self._seen: dict[str, tuple[Any, T | None]] = {}

    def began(self, key: str, state: Any, dated: T | None) -> T | None:
        """When ``key`` came to be in ``state``, if this process saw it; None: its date counts."""
        known = self._seen.get(key)
        if known is None or known[0] != state:
            now: Any = self._now()
            seen = known is not None or (dated is not None and dated > now)
            known = self._seen[key] = (state, now if seen else None)
        return known[1]

    def since(self, key: str, dated: T | None) -> T | None:
        """Since when ``key`` is what it is since ``dated``; None while it is not. It notes the date."""
        began = self.began(key, dated, dated)
        return began if began is not None and dated is not None else dated

    def forget(self, key: str) -> None:
        """It is gone for good."""
        self._seen.pop(key, None)


_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 2**63 / 1e9  # Go counts nanoseconds in 64 bits: some 292 years
_MOST_SHOWN = 64
_TERM = re.compile(r"([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> timedelta:
    """Read a Go duration.

    Raises:
        ValueError: the text is not a duration; the message quotes it.
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return timedelta()
    seconds, at = 0.0, 0
    while at < len(body) and (term := _TERM.match(body, at)):
        seconds += float(term[1]) * _UNIT[term[2]]
        at = term.end()
    if at == 0 or at != len(body) or seconds >= _LONGEST:
        shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
        raise ValueError(f"{shown!r} is not a duration; write it like 90s, 20m or 1h30m")
    return sign * timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """Write a duration as Go prints it: ``0s``, ``1.5s``, ``20m0s``, ``2h0m0s``, ``150ms``."""
    micros = round(value / timedelta(microseconds=1))
    if micros == 0:
        return "0s"
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros < 1_000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_plain(micros / 1_000)}ms"
    minutes, micros = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_plain(micros / 1_000_000)}s"


def time_left(value: timedelta) -> str:
    """How long it is until something, for people: in whole seconds, rounded up; ``0s`` when it has come."""
    return format_duration(timedelta(seconds=max(0, -(-value // timedelta(seconds=1)))))


def _plain(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")
