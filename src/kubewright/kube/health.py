"""What a client learns from its last requests: is the server silent, is its clock ours, what to repeat. Pure.

Silence.     A request to a host that drops packets costs its whole deadline. After ``SILENCES_ALLOWED``
             such silences in a row the client stops waiting: requests fail at once, but for one short
             probe every few seconds. Any answer, a refusal included, ends that. What fails quickly, such
             as a refused connection, does not count: it costs no time and says what is wrong. What may be
             slow on a server that is well (an eviction) does not count either, and is no probe.
             A server that answers is never held back. At most one probe is under way, and the next
             one begins soon enough for a leader to renew its Lease in time.
Repeating.   Three cases are safe to repeat without asking the caller:
             1. The server refused for load and said when to come back (429 or 503 with
                ``Retry-After``): it did nothing, so every verb may be sent again.
             2. No connection was made: nothing was sent, so again every verb.
             3. The answer was lost, but the request cannot do harm twice: a read, or a write that
                carries a resourceVersion or uid and meets ``Conflict`` or ``NotFound`` the second time.
             All else goes to the caller, which has a backoff of its own. At most ``TRIES`` attempts; the
             client also stops at its deadline.
Clocks.      Dates in objects are the server's (when it was made, when it was deleted) or those of others that
             keep time with it. A controller that compares them with a wall clock that is wrong takes a new
             machine for an old one, or never finds it old enough. The ``Date`` of an answer (RFC 9110 §6.6.1)
             is the server's time at some moment between request and answer, in whole seconds. Answers to
             lists are measured too, before callers learn of what is in them. A difference that rounding and
             the time on the network can explain counts as none. Else the server's clock is taken to read the
             earliest that it can: so nothing seems older than it is.
Called by    ``client``, one of each per cluster; ``base.clock.SteadyClock`` begins with what is known here.
"""

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from kubewright.base.clock import Anchor
from kubewright.kube.errors import ConnectFailed, Deposed, LoginFailed, Silent, TransportError
from kubewright.wire.errors import ApiError

SILENCES_ALLOWED = 3
"""Silences in a row before we stop waiting."""

SLOW = 1.0
"""Seconds from which a failure counts as silence."""

PROBE_SECONDS = 5.0
"""Deadline of a probe."""

SHORTEST, LONGEST = 1.0, 4.0
"""Seconds from the end of a probe to the next one."""


class Health:
    """What is known of one server from its last requests. Each admitted request must be reported as answered
    or failed."""

    def __init__(self) -> None:
        self.silences = 0
        self._probing = False
        self._probe_at = 0.0

    def admit(self, now: float, timeout: float, *, slow: bool = False) -> float | None:
        """The timeout with which a request may go out at this moment; None: it may not. ``slow``: the server
        may take long over it."""
        if self.silences < SILENCES_ALLOWED:
            return timeout
        if slow or self._probing or now < self._probe_at:
            return None
        self._probing = True
        return min(timeout, PROBE_SECONDS)

    def answered(self) -> None:
        """The server said something."""
        self.silences = 0
        self._probing = False

    def failed(self, now: float, took: float, *, slow: bool = False) -> None:
        """There was no answer, or the caller did not wait for it any longer. ``slow``: as it was admitted."""
        if slow:
            return
        if took >= SLOW:
            self.silences += 1
        if self._probing or took >= SLOW:
            self._probing = False
            self._probe_at = now + min(SHORTEST * 2.0 ** max(self.silences - SILENCES_ALLOWED, 0), LONGEST)


class Outage:
    """The watches of one server that have trouble now, and the kind of trouble that was logged.

    A server that is away ends a dozen watches in the same moment, and each of them would log it, and
    again when it is back. So only the first watch to notice logs it, and the last one to recover logs
    the end. A new kind of trouble is logged again. Trouble with one resource alone (not served, may
    not be read) does not pass through here.
    """

    def __init__(self) -> None:
        self._troubled: dict[str, str] = {}
        self._logged = ""

    def begins(self, watch: str, trouble: str) -> bool:
        """``watch`` cannot reach the server, for ``trouble``; whether to log that."""
        self._troubled[watch] = trouble
        is_new, self._logged = trouble != self._logged, trouble
        return is_new

    def ends(self, watch: str) -> bool:
        """``watch`` reaches the server again, or has ended; whether to log the end of the outage."""
        self._troubled.pop(watch, None)
        if self._troubled or not self._logged:
            return False
        self._logged = ""
        return True


TRIES = 4
"""Attempts of one request, the first included: a dead server must not hold a worker for long."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds before the second attempt and at most, when the server did not name a time."""


def pause(failure: ApiError | TransportError, attempt: int, *, safe: bool, draw: float) -> float | None:
    """Seconds to wait before sending again, or None to give the failure to the caller.

    Args:
        failure: what came of the attempt.
        attempt: how many were made so far, from 1.
        safe: sending twice does no harm (case 3 above).
        draw: a random number from 0 to 1; spreads clients that failed together.
    """
    if attempt >= TRIES:
        return None
    if isinstance(failure, ApiError):
        if failure.code in (429, 503) and failure.retry_after is not None:
            return failure.retry_after + FIRST_PAUSE * draw
        return None
    if isinstance(failure, (LoginFailed, Silent, Deposed)):
        return None
    if safe or isinstance(failure, ConnectFailed):
        return min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE) * (0.5 + draw)
    return None


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
