"""Events: what happened to an object, for users who run ``kubectl describe``.

Theory.      Events are best effort and must cost the caller nothing: ``Recorder.event`` puts a note into a
             bounded map and returns; one background task writes. Notes that are the same (object, reason,
             message) become one Event whose count is patched, and while one waits to be written its
             repetitions join it. Three questions about a note, in this order (``Correlator``): were there too
             many for its object lately (a token bucket per object)? Were there many different messages for
             one reason? Was the very same written before? Many different messages of an object for one reason
             are combined; an object with too many events gets no more for a while.
Invariants.  ``event`` never blocks and never raises. A warning is not dropped for something normal. Messages
             go out as given, but for their length and the prefix of combined ones, which is client-go's. What
             is dropped is counted, each repetition for itself. All that is remembered is bounded; the least
             recently used goes first.
Source       the numbers are client-go's defaults: 25 at once and one per 5 minutes for an object;
             combined from the 11th message within 10 minutes (client-go: from the 10th); 4,096 remembered.
Called by    reconcilers; ``run`` is a service of ``manager``.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Generic, TypeVar

import structlog

from kubewright.api.core import EVENT, Event, EventSource, ObjectReference
from kubewright.api.kinds import Kind
from kubewright.api.meta import Object, ObjectMeta
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.kube.client import Client
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound, TooManyRequests
from kubewright.wire.gvk import Key, Resource

PENDING = 1_000
"""Notes that may wait for the API server; more are dropped and counted."""

NORMAL, WARNING = "Normal", "Warning"

TRIES = 3
FIRST_PAUSE = 1.0
"""Attempts to write one note, and seconds before the second; each further pause doubles."""

FLUSH_SECONDS = 1.0
"""How long an ending recorder goes on writing what waits."""

REMEMBERED = 4096
BURST, REFILL_SECONDS = 25, 300.0
COMBINE_AFTER, COMBINE_WITHIN_SECONDS = 10, 600.0
COMBINED = "(combined from similar events): "

T = TypeVar("T")
V = TypeVar("V")

log = structlog.get_logger("kubewright.events")


@dataclass(frozen=True, slots=True)
class RecorderStatistics:
    """A picture of a recorder: notes taken, Events written (POST or PATCH), notes dropped, notes waiting."""

    noted: int
    written: int
    dropped: int
    waiting: int


@dataclass(slots=True)
class _Written:
    """An Event that exists on the server, as far as we know."""

    key: Key
    count: int


@dataclass(frozen=True, slots=True)
class ComponentRecorder:
    """A recorder for another component, with the same queue and the same bounds."""

    recorder: "Recorder"
    component: str

    def event(
        self, about: Object | Mapping[str, Any], reason: str, message: str, *, warning: bool = False
    ) -> None:
        """As ``Recorder.event``."""
        self.recorder.event(about, reason, message, warning=warning, component=self.component)


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that happened: hashable, so that the same thing is found again."""

    about: ObjectReference
    reason: str
    message: str
    type: str
    component: str = ""
    """The reporting component; empty: the recorder's own."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _Sentences:
    since: float
    seen: set[str] = field(default_factory=set)


class Recent(Generic[T, V]):
    """A mapping that forgets what was not used for longest once it holds ``limit`` entries."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._entries: OrderedDict[T, V] = OrderedDict()

    def get(self, key: T) -> V | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: T, value: V) -> V:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return value

    def get_or(self, key: T, make: Callable[[], V]) -> V:
        found = self.get(key)
        return self.put(key, make()) if found is None else found


class Correlator(Generic[V]):
    """Decides about notes; ``V`` is what the caller remembers of a written one."""

    def __init__(self) -> None:
        self._buckets: Recent[ObjectReference, _Bucket] = Recent()
        self._sentences: Recent[tuple[ObjectReference, str, str], _Sentences] = Recent()
        self._written: Recent[Note, V] = Recent()

    def admit(self, note: Note, now: float) -> Note | None:
        """The note to write instead (cut, perhaps combined), or None to drop it. ``now`` is monotonic."""
        if not self._has_token(note.about, now):
            return None
        note = replace(note, message=_cut(note.message))
        return self._combined(note, now)

    def recall(self, note: Note) -> V | None:
        """What was remembered for the same note."""
        return self._written.get(note)

    def remember(self, note: Note, written: V) -> None:
        """Keep what became of a note."""
        self._written.put(note, written)

    def _has_token(self, about: ObjectReference, now: float) -> bool:
        bucket = self._buckets.get_or(about, lambda: _Bucket(BURST, now))
        bucket.tokens = min(float(BURST), bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _combined(self, note: Note, now: float) -> Note:
        place = (note.about, note.reason, note.type)
        sentences = self._sentences.get_or(place, lambda: _Sentences(now))
        if now - sentences.since > COMBINE_WITHIN_SECONDS:
            sentences.since = now
            sentences.seen.clear()
        sentences.seen.add(note.message)
        if len(sentences.seen) <= COMBINE_AFTER:
            return note
        sentences.seen.discard(note.message)
        return replace(note, message=_cut(COMBINED + note.message))


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_CHARS else message[: MESSAGE_CHARS - 3] + "..."


class Recorder:
    """Records events in the name of ``component``.

    ``kinds`` names the types whose objects may come without ``apiVersion`` and ``kind``, as the
    items of a list do.
    """

    def __init__(
        self, client: Client, clock: Clock, component: str, *, kinds: Iterable[Kind[Any]] = ()
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._resources: dict[type, Resource] = {kind.type: kind.resource for kind in kinds}
        self._correlator: Correlator[_Written] = Correlator()
        self._waiting: dict[Note, int] = {}
        self._wake = asyncio.Event()
        self._noted = self._written = self._dropped = 0

    def of(self, component: str) -> ComponentRecorder:
        """The same recorder for the events of another component."""
        return ComponentRecorder(self, component)

    def event(
        self,
        about: Object | Mapping[str, Any],
        reason: str,
        message: str,
        *,
        warning: bool = False,
        component: str = "",
    ) -> None:
        """Note that something happened to ``about``. Never blocks, never raises.

        Args:
            about: the object; it needs a name, and should have its uid.
            reason: one CamelCase word that programs may look for.
            message: a sentence for people.
            warning: a user should look at it.
            component: the reporting component, where that is not the recorder's own.
        """
        try:
            kind = WARNING if warning else NORMAL
            self._take(Note(self._reference(about), reason, message, kind, component))
        except Exception:  # an event must never harm the caller
            self._dropped += 1
            log.exception("event not noted", reason=reason)

    async def run(self) -> None:
        """Write notes until cancelled, then what waits for a second more."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._write_waiting()
        except asyncio.CancelledError:
            await self._flush()
            raise

    def statistics(self) -> RecorderStatistics:
        """A picture of this moment."""
        return RecorderStatistics(self._noted, self._written, self._dropped, len(self._waiting))

    def _take(self, note: Note) -> None:
        self._noted += 1
        admitted = self._correlator.admit(note, self._clock.monotonic())
        if admitted is None or (admitted not in self._waiting and not self._room_for(admitted)):
            self._dropped += 1
            return
        self._waiting[admitted] = self._waiting.get(admitted, 0) + 1
        self._wake.set()

    def _room_for(self, note: Note) -> bool:
        """Whether one more may wait; a warning takes the place of something normal when there is no room."""
        if len(self._waiting) < PENDING:
            return True
        normal = next((each for each in self._waiting if each.type == NORMAL), None)
        if note.type == NORMAL or normal is None:
            return False
        self._dropped += self._waiting.pop(normal)
        return True

    async def _write_waiting(self) -> None:
        while self._waiting:
            note = next(iter(self._waiting))
            times = self._waiting.pop(note)
            try:
                await self._write_with_retries(note, times)
            except asyncio.CancelledError:  # it may not have reached the server: ``_flush`` tries once more
                self._waiting[note] = self._waiting.get(note, 0) + times
                raise

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._write_waiting()
        except TimeoutError:
            self._dropped += sum(self._waiting.values())
            self._waiting.clear()

    async def _write_with_retries(self, note: Note, times: int) -> None:
        made = cache(partial(self._event, note, times))  # under one name, however often it is sent
        for attempt in range(TRIES):
            try:
                await self._write(note, times, made)
                self._written += 1
                return
            except KubewrightError as error:
                if _final(error) or attempt == TRIES - 1:
                    log.info("event dropped", about=note.about.name, reason=note.reason, error=str(error))
                    break
            except Exception:
                log.exception("event dropped", about=note.about.name, reason=note.reason)
                break
            await self._clock.sleep(FIRST_PAUSE * 2.0**attempt)
        self._dropped += times

    async def _write(self, note: Note, times: int, made: Callable[[], Event]) -> None:
        """Count up the Event we wrote for the same note, or make one."""
        if known := self._correlator.recall(note):
            count = known.count + times
            body = {"count": count, "lastTimestamp": rfc3339(self._clock.now())}
            try:
                await self._client.patch(EVENT, known.key, body)
            except NotFound:  # events live for an hour
                pass
            else:
                known.count = count
                return
        event = made()
        with suppress(AlreadyExists):  # only the answer to an earlier attempt was lost
            await self._client.create(EVENT, event)
        self._correlator.remember(note, _Written(Key(event.namespace, event.name), times))

    def _event(self, note: Note, times: int) -> Event:
        now = self._clock.now().replace(microsecond=0)
        unique = f"{int(now.timestamp()):x}{self._clock.random.getrandbits(32):08x}"
        return Event(
            metadata=ObjectMeta(
                name=f"{note.about.name[:230]}.{unique}", namespace=note.about.namespace or "default"
            ),
            involved_object=note.about,
            reason=note.reason,
            message=note.message,
            source=EventSource(component=note.component or self._component),
            first_timestamp=now,
            last_timestamp=now,
            count=times,
            type=note.type,
            reporting_component=note.component or self._component,
        )

    def _reference(self, about: Object | Mapping[str, Any]) -> ObjectReference:
        if isinstance(about, Mapping):
            metadata = about["metadata"]
            return ObjectReference(
                api_version=about.get("apiVersion", ""),
                kind=about.get("kind", ""),
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
                uid=metadata.get("uid", ""),
            )
        resource = self._resources.get(type(about))
        return ObjectReference(
            api_version=about.api_version or (resource.api_version if resource else ""),
            kind=about.kind or (resource.kind if resource else type(about).__name__),
            namespace=about.metadata.namespace,
            name=about.metadata.name,
            uid=about.metadata.uid,
        )


EventRecorder = Recorder | ComponentRecorder
"""What a controller records its events with."""


def _final(error: KubewrightError) -> bool:
    """Whether trying again is useless: the server understood and refused."""
    return isinstance(error, ApiError) and error.code < 500 and not isinstance(error, TooManyRequests)
