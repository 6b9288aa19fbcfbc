"""Patches: on which object and which version of it one applies, and which do not last.

Conditions.  Third parties own fields of the same objects, so we never send a whole object back
             (``api.diff``). A reconciler changes a copy of what it read; the difference is
             the patch, and the condition that goes with it says what it was computed from.
             A condition that is not met is a ``Conflict``, whether it is the version or the uid: nothing has
             been refused, and the next look decides anew.
Contests.    A controller writes what it finds different. When another client writes the same field back (a
             label, a taint, a finalizer, an annotation), or a server keeps a field out of what it stores, the
             next pass finds the same difference: two programs that are both right fight as fast as they can.
             So a controller remembers which patches it has made. One that says for the fourth time in a row
             what the ones before said, of the same fields of the same object, is contested: it is withheld,
             for a second at first, then for twice as long each time, at most for ``LONGEST``. After that the
             fields are written once, and the count goes on. It ends when the fields have been at rest, or
             when something else is to be written to one of them, by this patch or by another. A slower fight
             costs little, so nothing of it is withheld; it is told after ``UNDONE`` rounds. Values that go to
             and fro are no contest, however often: the replicas in a status do in every rollout, an
             autoscaler's target and the state of a node may for hours. From outside that looks like a client
             that fights with two values, and to withhold the last of them would keep what is old. A withheld
             write is an error of the kind that a server's refusal is, so every controller goes on without it
             as it does without a write that it may not make. And it is told (``tell``).
Invariants.  Only patches that the server has acknowledged count, and only those of one controller. What only
             says when something was written does not make two patches different. No content of an object is
             told, only the names of fields. Bounded: ``KEPT`` patches and ``KEPT_FIELDS`` of their fields,
             the oldest are forgotten first.
Called by    every ``act`` that patches; ``Client.patch``, for writes in the passes of a controller;
             ``runtime.controller`` has one ``Contests`` for each.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from kubewright.api.diff import Patch
from kubewright.api.meta import ObjectMeta
from kubewright.base.durations import format_duration
from kubewright.wire.errors import Conflict, Invalid, Refusal
from kubewright.wire.gvk import Key, Resource


def onto(patch: Mapping[str, Any], meta: ObjectMeta) -> Patch:
    """The patch for the very object, in the very version, that was read. An empty patch stays empty.

    The server answers ``Conflict`` when it has changed: a decision that rests on what was read is not
    written over anything else, however late the request arrives.
    """
    return with_version(with_uid(patch, meta.uid), meta.resource_version)


def with_version(patch: Mapping[str, Any], resource_version: str) -> Patch:
    """The patch with the condition that the object is still the one that was read.

    The server answers ``Conflict`` when it is not. An empty patch stays empty.
    """
    return _with_metadata(patch, "resourceVersion", resource_version)


def with_uid(patch: Mapping[str, Any], uid: str) -> Patch:
    """The patch with the condition that the name still belongs to this very object.

    The server answers ``Invalid`` when it does not; ``Client.patch`` raises ``Conflict`` (``conflict_of``).
    Of a custom kind, servers do not look at it in a status: there only the version is a condition.
    """
    return _with_metadata(patch, "uid", uid)


def conflict_of(error: Invalid, body: Any) -> Conflict | None:
    """What an answer to a patch means that names the uid of an object whose name another one has by now; None
    if the answer is about something else.

    To a server the uid in a patch is a field that never changes, so it says that the patch is invalid, as it
    says of a value that breaks a rule. But for who sent it, it was a condition, as the version is.
    """
    another = uid_of(body) and any(cause.get("field") == "metadata.uid" for cause in error.causes)
    return Conflict(error.message, details=error.details) if another else None


def guarded(body: Any) -> bool:
    """Whether a patch carries a condition on version or uid, so that sending it twice does no harm."""
    if isinstance(body, Mapping):
        metadata = body.get("metadata")
        return isinstance(metadata, Mapping) and any(
            metadata.get(name) for name in ("resourceVersion", "uid")
        )
    tested = ("/metadata/resourceVersion", "/metadata/uid")
    return any(step.get("op") == "test" and step.get("path") in tested for step in body)


def uid_of(body: Any) -> str:
    """The uid of the object that a patch is for; empty if it does not say."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return str(metadata.get("uid") or "") if isinstance(metadata, Mapping) else ""


def _with_metadata(patch: Mapping[str, Any], name: str, value: str) -> Patch:
    if not patch:
        return {}
    return {**patch, "metadata": {**patch.get("metadata", {}), name: value}}


FREE = 3
"""So many times in a row the same is written without a pause: a write may be lost to a race or two."""

FIRST, LONGEST = 1.0, 300.0
"""Seconds for which the first write is withheld that follows these, and the most for later ones."""

AT_REST = 60.0
"""Seconds after a write, and after twice its pause, in which it must last to be forgotten."""

UNDONE, SLOW = 10, 600.0
"""So many times in a row, each within so many seconds, what was written must be undone to be told."""

KEPT, KEPT_FIELDS = 4096, 4 * 4096
NAMED = 5
"""Fields that a message names at most."""

_UNSAID = frozenset(("uid", "resourceVersion"))
_DATES = frozenset(("timeAdded", "lastTransitionTime", "lastUpdateTime"))
"""Members of a patch that say for which object, and when it was made; not what is written."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a patch is for. ``cluster`` is the client's name."""

    cluster: str
    resource: Resource
    key: Key
    subresource: str = ""
    uid: str = ""


class Contested(Refusal):
    """The same has been written again and again, and did not last.

    ``wait`` is for how many seconds it is withheld; 0: it is sent, and this is only told.
    """

    code, reason = 409, "Contested"

    def __init__(self, target: Target, fields: tuple[str, ...], wait: float, times: int) -> None:
        named = ", ".join(fields[:NAMED]) + (" and others" if len(fields) > NAMED else "")
        what = f"{target.resource.kind} {target.key}"
        pause = format_duration(timedelta(seconds=round(max(wait, 1.0))))
        next_try = f"next try in {pause}" if wait else "it is written each time"
        super().__init__(
            f"{named} of {what} does not last: written {times} times, it was undone or dropped each time. "
            f"Another client writes it too, or the server does not keep it; {next_try}",
            retry_after=wait,
        )
        self.target, self.fields, self.wait = target, fields, wait

    def __str__(self) -> str:
        """As ``steady``: it stands in conditions, and with numbers each pass would write the status anew."""
        return self.steady

    @property
    def steady(self) -> str:
        """The same message without its numbers: for events, of which equal ones are counted."""
        named = ", ".join(self.fields[:NAMED]) + (" and others" if len(self.fields) > NAMED else "")
        after = "after ever longer pauses" if self.wait else "each time"
        return (
            f"What is written to {named} does not last: another client writes it too, or the server does not "
            f"keep it. It is written again {after}"
        )


@dataclass(frozen=True, slots=True)
class _Written:
    """The last patch of some fields: what it said, how often in a row, when, and the pause after it.

    ``undone``  how often in a row it was the same, also after a rest that ends a contest
    """

    said: int
    times: int
    at: float
    pause: float = 0.0
    undone: int = 0


class Admitted:
    """A patch that may be sent, as ``Contests`` compares it with others: read once, for before and after.

    ``place`` is which fields of which object it is about, ``said`` what it says of them, and ``fields`` both
    for each field: all are hashes.
    """

    __slots__ = ("fields", "names", "place", "said", "target")

    def __init__(self, target: Target, leaves: Mapping[str, bytes]) -> None:
        of, self.target = hash(target), target
        self.names = tuple(sorted(leaves))
        values = tuple(hash(leaves[name]) for name in self.names)
        self.place, self.said = hash((of, self.names)), hash(values)
        self.fields = [(hash((of, name)), value) for name, value in zip(self.names, values, strict=True)]


class Contests:
    """The patches of one controller. ``monotonic`` is its clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.tell: Callable[[Contested], None] = lambda _contested: None
        self._monotonic = monotonic
        self._written: OrderedDict[int, _Written] = OrderedDict()
        self._last: OrderedDict[int, int] = OrderedDict()
        """What was written to a field last, by whichever patch."""
        self._told: set[int] = set()

    def admit(self, target: Target, body: Any) -> Admitted | None:
        """Before a patch is sent; what it answers is for ``wrote``.

        Raises:
            Contested: it is to be withheld.
        """
        leaves = _leaves(body)
        if leaves is None:
            return None
        patch = Admitted(target, leaves)
        known, now = self._written.get(patch.place), self._monotonic()
        if known is None or known.said != patch.said or known.times < FREE or _is_over(known, now):
            return patch
        if not self._stands(patch) or (left := known.at + known.pause - now) <= 0:
            return patch
        contested = Contested(target, patch.names, left, known.times)
        if patch.place not in self._told:  # once for each pause
            self._told.add(patch.place)
            self.tell(contested)
        raise contested

    def wrote(self, patch: Admitted | None) -> None:
        """The server has acknowledged a patch that was admitted."""
        if patch is None:
            return
        known, now = self._written.pop(patch.place, None), self._monotonic()
        self._told.discard(patch.place)
        same = known is not None and known.said == patch.said and self._stands(patch)
        last = known if known is not None and same else _Written(patch.said, 0, now)
        times = 1 if _is_over(last, now) else last.times + 1
        pause = 0.0 if times < FREE else FIRST if times == FREE else min(2 * last.pause, LONGEST)
        undone = 1 if now - last.at > SLOW + last.pause else last.undone + 1
        self._written[patch.place] = _Written(last.said, times, now, pause, undone)
        if undone == UNDONE and times < FREE:
            self.tell(Contested(patch.target, patch.names, 0.0, undone))
        self._keep(patch)

    def _stands(self, patch: Admitted) -> bool:
        """Whether what a patch says is what was written last to each of its fields, as far as is known."""
        return all(self._last.get(field, value) == value for field, value in patch.fields)

    def _keep(self, patch: Admitted) -> None:
        for field, value in patch.fields:
            self._last[field] = value
            self._last.move_to_end(field)
        while len(self._last) > KEPT_FIELDS:
            self._last.popitem(last=False)
        if len(self._written) > KEPT:
            oldest, _ = self._written.popitem(last=False)
            self._told.discard(oldest)

    def __len__(self) -> int:
        return len(self._written)


CONTESTS: ContextVar[Contests | None] = ContextVar("contests", default=None)
"""Those of the controller in whose pass we are; None outside of a pass, and so in tasks that are begun with
``outside_of_a_pass``."""


def outside_of_a_pass() -> Context:
    """The present context without a pass, for a task that outlives it: a call of a driver that writes."""
    context = copy_context()
    context.run(CONTESTS.set, None)
    return context


def _is_over(known: _Written, now: float) -> bool:
    """Whether what was written has lasted."""
    return now - known.at > AT_REST + 2 * known.pause


def _leaves(body: Any) -> dict[str, bytes] | None:
    """The fields that a patch writes, by their paths; None for what is no merge patch, or writes none."""
    if not isinstance(body, Mapping):
        return None
    return {
        path: msgspec.json.encode(_undated(value), order="sorted") for path, value in _walk(body, "")
    } or None


def _walk(tree: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if name in _DATES or (path == "metadata" and name in _UNSAID):
            continue
        here = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and value:
            yield from _walk(value, here)
        else:
            yield here, value


def _undated(value: Any) -> Any:
    """A value without the dates in it."""
    if isinstance(value, Mapping):
        return {name: _undated(each) for name, each in value.items() if name not in _DATES}
    return [_undated(each) for each in value] if isinstance(value, (list, tuple)) else value
