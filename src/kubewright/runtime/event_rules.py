"""Which events are worth writing: bookkeeping over values. Pure.

Theory.      Three questions about a note, in this order. Were there too many for its object lately (a token
             bucket per object)? Were there many different messages for one reason (then they are
             combined into one)? Was the very same written before (then its count goes up)?
Invariants.  Everything remembered is bounded; the least recently used goes first.
Called by    ``events``.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from kubewright.api.core import ObjectReference
from kubewright.base.limits import MESSAGE_CHARS

REMEMBERED = 4096
BURST, REFILL_SECONDS = 25, 300.0
COMBINE_AFTER, COMBINE_WITHIN_SECONDS = 10, 600.0
COMBINED = "(combined from similar events): "

T = TypeVar("T")
V = TypeVar("V")


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
