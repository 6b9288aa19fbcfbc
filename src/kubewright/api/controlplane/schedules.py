"""When a schedule of sleep or of snapshots is due: cron expressions in a time zone, as moments. Pure.

Theory.      An expression has cron's five fields and is read as Debian's cron reads it: a time that a change
             of clocks leaves out comes at the end of the gap, and one that comes twice counts once, the first
             time. cronsim looks on from one moment; near a change of clocks its answer can lie on the other
             side of that moment, so it begins a margin earlier, and what is not wanted is left out.
Invariants.  Every loop is bounded: a margin has as many minutes as it has. What cannot be read is an
             ``InvalidInput``, in a sentence.
Called by    ``validate``, and what decides whether a control plane sleeps and when a snapshot is due.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from kubewright.base.errors import InvalidInput

MARGIN = timedelta(hours=3)
"""More than any clock is changed by at once."""
_MOST = int(MARGIN / timedelta(minutes=1)) * 2 + 2
"""An expression has at most one moment in a minute."""


def zone(name: str) -> ZoneInfo:
    """The time zone of this name; UTC if it is empty.

    Raises:
        InvalidInput: there is none of this name.
    """
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {name!r}, such as Europe/Berlin") from None


def check(expression: str) -> None:
    """Whether this is an expression of cron.

    Raises:
        InvalidInput: it is none, and why.
    """
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
    """The last moment up to and with ``now``; None: there was none in fifty years.

    Raises:
        InvalidInput: the expression or the time zone is none.
    """
    found = _moments(expression, name, now + MARGIN, back=True)
    return next((each for each in found if each <= now), None)


def _moments(expression: str, name: str, begin: datetime, *, back: bool = False) -> Iterator[datetime]:
    """Moments in UTC from one on, or back from it."""
    check(expression)
    local = begin.astimezone(zone(name))
    found = islice(CronSim(expression, local, reverse=back), _MOST)
    return (each.astimezone(UTC) for each in found)
