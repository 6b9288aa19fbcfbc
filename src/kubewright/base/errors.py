"""The root of all our errors, and the ways an error may be retried.

Theory.      An error knows how it wants to be retried; the runtime obeys in one place
             (``runtime.controller``). No code compares strings or codes to decide a delay; what the
             codes of drivers mean stands in one table (``driver.errors``).
Tree.        KubewrightError
             ├── InvalidInput      a person gave us something wrong: one sentence, no traceback
             ├── wire.errors.ApiError ...      what an API server answered
             ├── kube ... TransportError       no answer, or half of one
             └── driver.errors.DriverError ... what a cloud answered
"""

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
    """A person's input is wrong; the message says what and where, in one sentence."""

    retry: Retry = OnChange()


def single(error: BaseException) -> BaseException:
    """The one error inside nested groups of one, which is how a task's own error leaves a TaskGroup."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
