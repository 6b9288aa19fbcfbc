"""By how much our wall clock differs from a server's, measured by the ``Date`` of its HTTP answers. Pure.

Theory.      Dates in objects are the server's (when it was made, when it was deleted) or those of others that
             keep time with it. A controller that compares them with a wall clock that is wrong takes a new
             machine for an old one, or never finds it old enough. The ``Date`` of an answer is the
             server's time at some moment between request and answer, in whole seconds.
             Answers to lists are measured too, before callers learn of what is in them.
Invariants.  A difference that rounding and the time on the network can explain counts as none. Else
             the server's clock is taken to read the earliest that it can: so nothing seems older than it is.
Source       RFC 9110 §6.6.1; Go's net/http and aiohttp send it with each answer.
Called by    ``client``; ``base.clock.SteadyClock`` begins with what is known here.
"""

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from kubewright.base.clock import Anchor

SLOWEST_ANSWER = 10.0
"""An answer that took longer than so many seconds says too little."""

MEASURE_SECONDS = 60.0
"""Seconds from one measurement to the next."""

WARN_SECONDS = 5.0
"""Seconds by which a clock must be wrong for a warning."""


class Skew:
    """Of one server. ``ahead`` is by how many seconds our clock is ahead of it; negative when behind.

    ``anchor`` is the server's time at the last measurement, and the monotonic moment of that.
    """

    def __init__(self) -> None:
        self.ahead = 0.0
        self.anchor: Anchor | None = None
        self._due = 0.0
        self._warned = False

    def measure(self, date: str, now: datetime, at: float, took: float) -> bool:
        """An answer came at ``now``, ``took`` seconds after its request. Returns whether to log a warning.

        Args:
            date: the answer's ``Date``; empty when it has none.
            now: our wall clock.
            at: our monotonic clock.
            took: seconds from the request to the answer.
        """
        if at < self._due or took > SLOWEST_ANSWER or not date:
            return False
        try:
            ahead = now - parsedate_to_datetime(date)
        except (ValueError, TypeError):  # no date, or one without a zone
            return False
        self._due = at + MEASURE_SECONDS
        explained = timedelta(0) <= ahead <= timedelta(seconds=1.0 + took)
        self.ahead = 0.0 if explained else ahead.total_seconds()
        self.anchor = (now - timedelta(seconds=self.ahead), at)
        wrong = abs(self.ahead) >= WARN_SECONDS
        say, self._warned = wrong and not self._warned, wrong
        return say
