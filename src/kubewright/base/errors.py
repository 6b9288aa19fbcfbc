"""The root of all our errors, and the ways an error may be retried.

Theory.      An error says how it is to be retried; the runtime reads that in one place
             (``runtime.controller``); how long each pause is stands in one table (``base.delays``).
Tree.        KubewrightError
             ├── InvalidInput      a user gave us something wrong: one sentence, no traceback
             │   └── Unwritten     a disk or a folder does not take what we write
             ├── wire.errors.ApiError ...      what an API server answered
             ├── kube ... TransportError       no answer, or an incomplete one
             └── driver.errors.DriverError ... what a cloud answered
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    """Retry with the key's own exponential backoff."""


@dataclass(frozen=True, slots=True)
class After:
    """Retry once after a fixed time."""

    seconds: float

    @property
    def pause(self) -> timedelta:
        """The time to wait."""
        return timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class OnChange:
    """Do not retry by time: only a change of an input can help."""


Retry = Backoff | After | OnChange


class KubewrightError(Exception):
    """Base of every error that this package raises on purpose."""

    retry: Retry = Backoff()


class InvalidInput(KubewrightError):
    """A user's input is wrong; the message says what and where, in one sentence."""

    retry: Retry = OnChange()


class Unwritten(InvalidInput):
    """A file cannot be written: the disk is full, or we have no right to. A user has to mend that, and it is
    tried again, because nothing shows when it is mended."""

    retry: Retry = Backoff()


def precedence(retry: Retry) -> tuple[int, float]:
    """Sorts retries: what comes back by itself before what waits for a change, the sooner first."""
    match retry:
        case Backoff():
            return 0, 0.0
        case After(seconds):
            return 1, seconds
        case OnChange():
            return 2, 0.0


def first_to_return(errors: Iterable[KubewrightError]) -> KubewrightError:
    """Of several errors, at least one, that whose retry comes first."""
    return min(errors, key=lambda error: precedence(error.retry))


def single(error: BaseException) -> BaseException:
    """The error itself where an exception group (from a TaskGroup) holds just one; else the group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
