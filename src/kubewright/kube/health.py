"""Whether a server answers at all, so that one that does not holds nobody up for long. Pure.

Theory.      A request to a host that swallows packets costs its whole deadline. After ``PATIENCE`` such
             silences in a row we stop waiting: requests fail at once, but for one short probe every
             few seconds. Any answer, a refusal included, ends that. What fails quickly, such as a
             refused connection, does not count: it holds nobody up and says what is wrong.
Invariants.  A server that answers is never held back. At most one probe is under way, and the next
             one begins soon enough for a leader to renew its Lease in time.
Called by    ``client``, one per cluster.
"""

PATIENCE = 3
"""Silences in a row before we stop waiting."""

SLOW = 1.0
"""Seconds from which a failure counts as silence."""

PROBE_SECONDS = 5.0
"""Deadline of a probe."""

SHORTEST, LONGEST = 1.0, 4.0
"""Seconds from the end of a probe to the next one."""


class Health:
    """What the last requests to one server taught us. Every admitted request must be ended."""

    def __init__(self) -> None:
        self.silences = 0
        self._probing = False
        self._probe_at = 0.0

    def admit(self, now: float, timeout: float) -> float | None:
        """The timeout with which a request may go out at this moment; None: it may not."""
        if self.silences < PATIENCE:
            return timeout
        if self._probing or now < self._probe_at:
            return None
        self._probing = True
        return min(timeout, PROBE_SECONDS)

    def answered(self) -> None:
        """The server said something."""
        self.silences = 0
        self._probing = False

    def failed(self, now: float, took: float) -> None:
        """There was no answer, or nobody waited for it any more."""
        if took >= SLOW:
            self.silences += 1
        if self._probing or took >= SLOW:
            self._probing = False
            self._probe_at = now + min(SHORTEST * 2.0 ** max(self.silences - PATIENCE, 0), LONGEST)
