"""What a controller reports on its objects: statuses, and events about those that it cannot work on.

Pace.        A status that says something new is written at once, or a moment later where news comes in parts.
             One that only says what is still waited for, or the same in other words, is written when that
             lasts, and later still where many objects come up at once; what happens next mostly comes first.
             Which status says something new, each API says for its kinds (``Pace.only_waiting``). A burst of
             changes becomes a few writes: the next ones go out no sooner than an interval apart, and the
             reconciler comes back for one that is too early, so the last state is always written.
Own writes.  The watch shows our own write of a status, too, often before its answer is here. That event
             wakes no pass: while a write is under way ``matters`` drops changes of the status alone, and
             notes the newest version that it dropped. If that is newer than the version in the answer,
             another client has written after us, and the reconciler looks again at once.
Echoes.      A pass may have written all that its object is to have for now; the watch and our own caches tell
             of that as of any change. ``Echoes`` holds such changes back until the pass is over. If it has
             read or written itself what the caches show then, none of them calls for another pass; else they
             do. What was held back is compared by what is there, so nothing depends on whether the answer or
             the watch came first, nor on an event that was lost.
Invariants.  A status is written onto exactly the version that it was computed from, and only if it says
             something new. The event of our own status write wakes no pass; what others write is corrected.
Called by    ``kernel``, and reconcilers.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from kubewright.api.diff import merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import Object, ObjectMeta
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.patches import onto
from kubewright.runtime.controller import ToKeys, status_alone
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.pace import UNPACED, Pace
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key


class Echoes:
    """Changes of the objects that passes write, held back while such a pass runs. ``wake`` enqueues a key."""

    def __init__(self, wake: Callable[[Key, str], None]) -> None:
        self._wake = wake
        self._held: dict[Key, bool] = {}
        """The keys whose passes hold changes back, and whether there was one."""

    def begin(self, key: Key) -> None:
        """The pass over this key knows what it is about to write."""
        self._held[key] = False

    def end(self, key: Key, *, known: bool) -> None:
        """It is over; ``known``: the caches show nothing but what it has read and written."""
        if self._held.pop(key, False) and not known:
            self._wake(key, "more has changed than it wrote itself")

    def but_own(self, to_keys: ToKeys) -> ToKeys:
        """``to_keys`` without the keys that hold changes back."""

        def keys(change: Change[Any]) -> Iterable[Key]:
            return [key for key in to_keys(change) if not self._holds(key)]

        return keys

    def _holds(self, key: Key) -> bool:
        if key not in self._held:
            return False
        self._held[key] = True
        return True


class Reports:
    """The reports on all objects of one kind; a new process has written none."""

    def __init__(self, client: Client, kind: Kind[Any], events: EventRecorder, pace: Pace = UNPACED) -> None:
        self._client = client
        self._kind = kind
        self._events = events
        self._pace = pace
        self._differs: dict[Key, float] = {}
        """Since when a status is to be written, in monotonic seconds."""
        self._news: dict[Key, float] = {}
        """Since when it says something new."""
        self._written: dict[Key, float] = {}
        """When the last status was sent, in monotonic seconds."""
        self._problems: dict[Key, tuple[str, str]] = {}
        """The problem of the last event, and the uid of its object."""
        self._writing: dict[Key, int] = {}
        """The statuses that are being written, with the newest version whose event was dropped meanwhile."""

    async def write(
        self, meta: ObjectMeta, before: Any, status: Any, *, urgent: bool = False
    ) -> tuple[bool, Result]:
        """Write the status of the object of this version, where it was ``before``, if it says something new.

        ``urgent``: it says what went wrong in this pass.

        Returns:
            Whether it was written, and when to come back for a write that would be too early.
        """
        key, now = Key(meta.namespace, meta.name), self._client.clock.monotonic()
        patch = merge_patch(before, status)
        if not patch:
            self._up_to_date(key)
            return False, Result.done()
        since, pace = self._differs.setdefault(key, now), UNPACED if urgent else self._pace
        if news := pace.is_news(patch, before, status):
            since = self._news.setdefault(key, now)
        else:
            self._news.pop(key, None)
        members = getattr(status, "replicas", 0) or 0
        lasts, least = pace.due(news=news, waiting=len(self._differs), members=members)
        due = max(since + lasts, self._written.get(key, -inf) + least)
        if due > now:
            return False, Result.later(due - now)
        self._writing[key] = dropped = 0
        try:
            status_patch = onto({"status": patch}, meta)
            answer = await self._client.patch(self._kind, key, status_patch, subresource="status")
        except NotFound as error:
            if not error.names(key.name):
                raise
            return False, Result.done()
        finally:
            dropped = self._writing.pop(key, 0)
        self._up_to_date(key)
        self._written[key] = now  # not before: a refused write does not count
        overwritten = dropped > int(answer.metadata.resource_version or 0)
        return True, Result.later(0.0) if overwritten else Result.done()

    def report_problem(self, about: Object, reason: str, problem: str) -> None:
        """Send one event about an object with a problem, and another only when the problem has changed."""
        meta = about.metadata
        key, problem_of = Key(meta.namespace, meta.name), (meta.uid, problem)
        if problem and self._problems.get(key) != problem_of:
            self._events.event(about, reason, problem, warning=True)
        self._problems[key] = problem_of

    def rest(self, key: Key) -> None:
        """Nothing is done about the object for now: its status is not one that waits to be written."""
        self._up_to_date(key)

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._up_to_date(key)
        self._written.pop(key, None)
        self._problems.pop(key, None)

    def _up_to_date(self, key: Key) -> None:
        """The status is as it should be."""
        self._differs.pop(key, None)
        self._news.pop(key, None)

    def matters(self, change: Change[Any]) -> Iterable[Key]:
        """The key of a change; none for a change of the very status that is being written."""
        if change.new is None or change.key not in self._writing or not status_alone(change):
            return (change.key,)
        self._writing[change.key] = max(self._writing[change.key], change.new.version)
        return ()
