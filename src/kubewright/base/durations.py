"""Go duration strings (``1h30m``, ``150ms``), as every API we serve writes them; ages as kubectl has them.

The reader accepts exactly what Go's ``time.ParseDuration`` accepts, so ``1d`` is refused;
a text of any length takes time in proportion to it;
the printer gives Go's canonical form, so ``2h`` comes back as ``2h0m0s``.
"""

import re
from datetime import timedelta

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


def human(age: timedelta) -> str:
    """A duration the way Kubernetes shortens it: ``59s``, ``3m12s``, ``47h``, ``6d2h``, ``2y1d``.

    The finer unit disappears as the age grows. Up to two seconds in the future are now.
    """
    seconds = int(age.total_seconds())
    if seconds < 0:
        return "0s" if seconds > -2 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"
