"""What a controller reports on its objects: statuses, and events about those that it cannot work on.

Theory.      A burst of changes becomes a few writes of a status: the first goes out at once, the next ones no
             sooner than an interval apart, and the reconciler comes back for one that is too early, so the
             last state is always written. In Cluster API conditions repeat what an object waits for, in
             every object that it belongs to: a status that only says the same in other words waits longer,
             and what happens next mostly comes first. A problem is reported by one event, until it changes.
Invariants.  A status is written onto exactly the version that it was computed from, and only if it says
             something new. The event of our own status write wakes no pass; what others write is corrected.
Called by    the reconcilers of ``set`` and ``deployment``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.diff import merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import Object
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.patches import onto
from kubewright.replicas.ownership import key_of
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.mapping import status_alone
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

STATUS_SECONDS = 0.5
"""Least time between two status writes of one object."""


class Reports:
    """The reports on all objects of one kind; a new process has written none."""

    def __init__(
        self, client: Client, kind: Kind[Any], teller: EventRecorder, *, words_seconds: float = 0.0
    ) -> None:
        self._client = client
        self._kind = kind
        self._teller = teller
        self._words_seconds = words_seconds
        self._written: dict[Key, float] = {}
        """When the last status was sent, in monotonic seconds."""
        self._problems: dict[Key, tuple[str, str]] = {}
        """The problem of the last event, and the uid of its object."""
        self._writing: set[Key] = set()

    async def write(self, read: Object, before: Any, status: Any) -> tuple[bool, Result]:
        """Write the status of what was read, which was ``before``, if it says something new.

        Returns:
            Whether it was written, and when to come back for a write that would be too early.
        """
        key, now = key_of(read), self._client.clock.monotonic()
        patch = merge_patch(before, status)
        if not patch:
            return False, Result.done()
        rewords = patch.keys() == {"conditions"} and _states(before) == _states(status)
        least = max(STATUS_SECONDS, self._words_seconds) if rewords else STATUS_SECONDS
        if (wait := self._written.get(key, float("-inf")) + least - now) > 0:
            return False, Result.later(wait)
        self._writing.add(key)
        try:
            status_patch = onto({"status": patch}, read.metadata)
            await self._client.patch(self._kind, key, status_patch, subresource="status")
        except NotFound:
            return False, Result.done()
        finally:
            self._writing.discard(key)
        self._written[key] = now  # not before: a refused write does not count
        return True, Result.done()

    def report_problem(self, about: Object, reason: str, problem: str) -> None:
        """Send one event about an object with a problem, and another only when the problem has changed."""
        problem_of = (about.metadata.uid, problem)
        if problem and self._problems.get(key_of(about)) != problem_of:
            self._teller.event(about, reason, problem, warning=True)
        self._problems[key_of(about)] = problem_of

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._written.pop(key, None)
        self._problems.pop(key, None)

    def matters(self, change: Change[Any]) -> Iterable[Key]:
        """The key of a change; none for the status that is being written just now."""
        return () if change.key in self._writing and status_alone(change) else (change.key,)


def _states(status: Any) -> list[tuple[str, str, str]]:
    """What conditions say but for reasons, messages and times; what is wrong now, and was not, is another."""
    return [(each.type, each.status, getattr(each, "severity", "")) for each in status.conditions]
