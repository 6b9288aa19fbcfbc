"""Whether a server answers at all, and which watch logs it when it does not. Pure.

Theory.      A request to a host that drops packets costs its whole deadline. After ``SILENCES_ALLOWED``
             such silences in a row the client stops waiting: requests fail at once, but for one short
             probe every few seconds. Any answer, a refusal included, ends that. What fails quickly, such
             as a refused connection, does not count: it costs no time and says what is wrong. What may be
             slow on a server that is well (an eviction) does not count either, and is no probe.
Invariants.  A server that answers is never held back. At most one probe is under way, and the next
             one begins soon enough for a leader to renew its Lease in time.
Called by    ``client``, one per cluster.
"""

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
