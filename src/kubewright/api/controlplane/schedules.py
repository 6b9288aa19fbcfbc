"""When a schedule of sleep or of snapshots is due: cron expressions in a time zone, as moments. Pure.

Theory.      An expression has the five fields of cron and is read as Debian's cron reads it: a time that a
             change of clocks skips is due at the end of the gap, and a time that occurs twice is due once,
             the first time. cronsim iterates from a given moment. Near a change of clocks its first answers
             may lie on the wrong side of that moment, so the iteration starts ``MARGIN`` earlier, and those
             answers are dropped.
Invariants.  Every loop is bounded by the number of minutes in the margin, every text in its length. An
             expression or a time zone that cannot be read is an ``InvalidInput`` with a sentence.
Called by    ``validate``, ``controlplanes.plane.seen`` and ``controlplanes.snapshots.schedules``.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from kubewright.base.errors import InvalidInput

MOST_CHARS = 1_000
"""Of an expression: one that lists each minute, hour, day, month and day of the week has 360. cronsim reads a
longer one as patiently, and fails on a number of thousands of digits with an error of Python's."""
MOST_ZONE_CHARS = 255
"""Of the name of a time zone, which is a path in a file system; the longest has 30."""

MARGIN = timedelta(hours=3)
"""More than any change of clocks."""
_MOST = int(MARGIN / timedelta(minutes=1)) * 2 + 2
"""The most moments that are tried: an expression has at most one in a minute."""


def zone(name: str) -> ZoneInfo:
    """The time zone of this name; UTC if it is empty.

    Raises:
        InvalidInput: there is none of this name.
    """
    if len(name) > MOST_ZONE_CHARS:
        raise InvalidInput(f"there is no time zone of {len(name)} characters; one is Europe/Berlin")
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {name!r}, such as Europe/Berlin") from None


def check(expression: str) -> None:
    """Check that this is an expression of cron.

    Raises:
        InvalidInput: it is not; the message says why.
    """
    if len(expression) > MOST_CHARS:
        raise InvalidInput(f"it has {len(expression)} characters, and may have {MOST_CHARS} at most")
    if len(expression.split()) != 5:
        raise InvalidInput("a schedule has five fields: minute, hour, day of month, month, day of week")
    try:
        CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidInput(f"it cannot be read: {str(error).lower()}") from None


def following(expression: str, name: str, now: datetime) -> datetime | None:
    """The first moment after ``now``; None: there is none in fifty years.

    Raises:
        InvalidInput: the expression or the time zone is none.
    """
    return next((each for each in _moments(expression, name, now - MARGIN) if each > now), None)


def latest(expression: str, name: str, now: datetime) -> datetime | None:
    """The last moment up to ``now``, included; None: there was none in fifty years.

    Raises:
        InvalidInput: the expression or the time zone is none.
    """
    found = _moments(expression, name, now + MARGIN, back=True)
    return next((each for each in found if each <= now), None)


def _moments(expression: str, name: str, begin: datetime, *, back: bool = False) -> Iterator[datetime]:
    """The moments after ``begin``, or with ``back`` those before it; in UTC."""
    check(expression)
    local = begin.astimezone(zone(name))
    found = islice(CronSim(expression, local, reverse=back), _MOST)
    return (each.astimezone(UTC) for each in found)
