"""What a reconciler may answer.

Theory.      There is no "requeue" flag: a reconciler that is not finished knows when another pass can help,
             and says so in seconds. Failure is reported by raising, never by a result. A pass that went on to
             its end though some of it failed raises all of that at once (``unless``). The next pass comes
             when it asked for it, or sooner if an error says so. Only beside an error with backoff (a
             server's 500) what it asked for does not count: the backoff decides, which may be two minutes.
             Called by    every reconciler; carried out by ``controller``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kubewright.base.errors import KubewrightError
from kubewright.base.plan import soonest


class PartlyFailed(ExceptionGroup[KubewrightError]):
    """What failed in a pass that went on to its end; ``after``: as ``Result.after``.

    If one of the errors asks for backoff, that decides: ``after`` does not shorten it. Else the soonest
    counts of ``after`` and the fixed retries of these errors.
    """

    after: float | None

    def __new__(cls, errors: Sequence[KubewrightError], after: float | None = None) -> "PartlyFailed":
        self = super().__new__(cls, "parts of a pass failed", errors)
        self.after = after
        return self

    def derive(self, excs: Sequence[KubewrightError]) -> "PartlyFailed":  # type: ignore[override]
        """As ``BaseExceptionGroup.derive``."""
        return PartlyFailed(excs, self.after)


@dataclass(frozen=True, slots=True)
class Result:
    """Finished (``after`` is None), or the next pass is to come after that many seconds.

    ``Result.done()`` is ``Result()``, made once.
    """

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
            PartlyFailed: these errors, with the pass that this result asks for.
        """
        if errors:
            raise PartlyFailed(errors, self.after)
        return self


_DONE = Result()
