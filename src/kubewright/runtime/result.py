"""What a reconciliation may answer.

Theory.      There is no "requeue" flag: a reconciler that is not finished knows when another look
             can help, and says so in seconds. Failure is reported by raising, never by a result.
Called by    every reconciler; carried out by ``controller``.
"""

from dataclasses import dataclass
from datetime import timedelta

from kubewright.base.plan import soonest


@dataclass(frozen=True, slots=True)
class Result:
    """Finished (``after`` is None), or to be looked at again after that many seconds."""

    after: float | None = None

    @classmethod
    def done(cls) -> "Result":
        """Nothing to do until something changes."""
        return _DONE

    @classmethod
    def later(cls, wait: timedelta | float | None) -> "Result":
        """Look again after this time (or seconds) at the latest, at once if negative; None: on a change."""
        seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
        return _DONE if seconds is None else cls(max(0.0, seconds))

    def sooner(self, other: "Result") -> "Result":
        """The one of two that looks again first."""
        return Result(soonest(self.after, other.after))


_DONE = Result()
