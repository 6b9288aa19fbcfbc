"""Which failures a request may repeat by itself, and after what pause. Pure.

Theory.      Three cases are safe to repeat without asking the caller:
             1. The server refused for load and said when to come back (429 or 503 with
                ``Retry-After``): it did nothing, so every verb may be sent again.
             2. No connection was made: nothing was sent, so again every verb.
             3. The answer was lost, but the request cannot do harm twice: a read, or a write that
                carries a resourceVersion or uid and meets ``Conflict`` or ``NotFound`` the second time.
             All else goes to the caller, which has a backoff of its own.
Invariants.  At most ``TRIES`` attempts; the client also stops at its deadline.
Source       python-libs.md §6.1 rule 7.
"""

from kubewright.kube.errors import ConnectFailed, Deposed, LoginFailed, Silent, TransportError
from kubewright.wire.errors import ApiError

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
