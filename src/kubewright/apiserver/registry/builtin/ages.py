"""Ages as kubectl prints them: ``59s``, ``3m12s``, ``47h``, ``6d2h``, ``2y1d``.

The finer unit disappears as the age grows: what matters about something made last week is the
day, not the minute.
"""

from datetime import datetime, timedelta

from kubewright.base.clock import parse_rfc3339

UNKNOWN = "<unknown>"


def human(age: timedelta) -> str:
    """A duration the way Kubernetes shortens it. Up to two seconds in the future are now."""
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


def since(text: object, now: datetime) -> str:
    """The age of a time in RFC 3339; ``<unknown>`` when there is none, ``<invalid>`` when it is no time."""
    if not text:
        return UNKNOWN
    try:
        return human(now - parse_rfc3339(str(text)))
    except ValueError:
        return "<invalid>"
