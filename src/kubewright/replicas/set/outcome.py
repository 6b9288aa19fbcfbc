"""The result of a pass, sent as events and kept for the status.

When a pass creates or deletes more members than ``Words.one_by_one``, one event gives their number; otherwise
each member gets an event.
Called by ``act`` and ``creation``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubewright.base.errors import KubewrightError
from kubewright.replicas.objects import SetObject
from kubewright.replicas.set.policy import Failure, Words
from kubewright.runtime.events import EventRecorder

SUCCESSFUL_CREATE, FAILED_CREATE = "SuccessfulCreate", "FailedCreate"
SUCCESSFUL_DELETE, FAILED_DELETE = "SuccessfulDelete", "FailedDelete"
"""Reasons of events, the same in every API; the failures are reasons of conditions too."""

ONE_BY_ONE = 5
"""Most errors of one pass that get an event each."""


@dataclass(slots=True)
class Outcome:
    """How a pass went.

    ``errors``   what the key is retried for
    ``failure``  what the status will say
    ``gone``     our finalizer is off
    """

    errors: list[KubewrightError] = field(default_factory=list)
    failure: Failure | None = None
    gone: bool = False

    def failed(self, reason: str, errors: Sequence[KubewrightError]) -> None:
        """Add errors of creations or deletions. The status tells of the first one of the pass."""
        self.errors += errors
        if errors and self.failure is None:
            self.failure = Failure(reason, str(errors[0]))


@dataclass(frozen=True, slots=True)
class Reporter:
    """Sends the events about one set."""

    events: EventRecorder
    words: Words
    about: SetObject

    def created(self, names: Sequence[str]) -> None:
        """``Created Machine: a``, or how many at once."""
        self._done(SUCCESSFUL_CREATE, names, "Created", self.words.created)

    def deleted(self, names: Sequence[str]) -> None:
        """``Deleted machine: a``, or how many at once."""
        self._done(SUCCESSFUL_DELETE, names, "Deleted", self.words.deleted)

    def _done(self, reason: str, names: Sequence[str], verb: str, one: str) -> None:
        if len(names) > self.words.one_by_one:
            self.events.event(self.about, reason, f"{verb} {len(names)} {self.words.many}")
            return
        for name in names:
            self.events.event(self.about, reason, one.format(name))

    def failed(self, reason: str, errors: Sequence[KubewrightError]) -> None:
        """An event for each different error."""
        what = "Error creating" if reason == FAILED_CREATE else "Error deleting"
        for text in dict.fromkeys(str(error) for error in errors[:ONE_BY_ONE]):
            self.events.event(self.about, reason, f"{what}: {text}", warning=True)
