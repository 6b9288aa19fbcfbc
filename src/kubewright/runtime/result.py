"""What a reconciliation may answer.

Theory.      There is no "requeue" flag: a reconciler that is not finished knows when another look
             can help, and says so in seconds. Failure is reported by raising, never by a result. A pass that
             went on to its end though some of it failed raises all of that at once (``unless``), and the look
             that it asks for is not lost: an error that waits for a change stops no clock.
Called by    every reconciler; carried out by ``controller``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kubewright.base.errors import KubewrightError
from kubewright.base.plan import soonest


class Unfinished(ExceptionGroup[KubewrightError]):
    """What failed in a pass that went on to its end; ``after``: as ``Result.after``.

    The key is retried as the first of these errors to come back by itself says, or ``after`` so many seconds
    when none does: a retry with backoff always comes, and is not shortened.
    """

    after: float | None

    def __new__(cls, errors: Sequence[KubewrightError], after: float | None = None) -> "Unfinished":
        self = super().__new__(cls, "parts of a pass failed", errors)
        self.after = after
        return self

    def derive(self, excs: Sequence[KubewrightError]) -> "Unfinished":  # type: ignore[override]
        """As ``BaseExceptionGroup.derive``."""
        return Unfinished(excs, self.after)


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

    def unless(self, errors: Sequence[KubewrightError]) -> "Result":
        """This result, if nothing failed.

        Raises:
            Unfinished: these errors, with the look that this result asks for.
        """
        if errors:
            raise Unfinished(errors, self.after)
        return self


_DONE = Result()
