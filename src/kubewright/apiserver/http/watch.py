"""The stream of a watch: the existing objects, then changes, in chunks of a bounded size.

Theory.      The stream sleeps until its watcher has changes, then writes them in chunks. A chunk is made when
             it is asked for, which is when the client has taken the one before; a large object is cut. Once a
             minute it writes a bookmark, so that the client's version advances over changes that its
             filter hides, and a resumed watch does not get 410.
Invariants.  A stream ends: at the client's timeout, or at a random time between half an hour and a
             whole one, or when the watcher is closed. However it ends, even if it was never
             read, ``aclose`` removes the watcher. Of a client that does not read there are a part of the
             collection and one chunk in memory, and nothing is copied of what it has not asked for.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Any

import orjson

from kubewright.apiserver.http import answers
from kubewright.apiserver.http.answers import Form
from kubewright.apiserver.http.parameters import WatchOptions
from kubewright.apiserver.registry import codec
from kubewright.apiserver.registry.filters import Filter
from kubewright.apiserver.registry.reading import Reading, seen_as
from kubewright.apiserver.registry.target import Target
from kubewright.apiserver.store import Change, Record, Watcher
from kubewright.base.clock import Clock
from kubewright.wire.errors import ApiError, Gone, to_status
from kubewright.wire.watch import ADDED, ERROR, encode, pieces

BOOKMARK_SECONDS = 60.0
"""Time between bookmarks for a client that wants them."""

SHORTEST_SECONDS = 1800.0
"""A watch without a timeout lasts between this and twice this, as kube-apiserver's do."""

CHUNK_BYTES = 64 * 1024
"""Size of a chunk; a line of this size may come on top."""

Initial = tuple[int, Iterator[Sequence[Record]]]
"""The version of the objects that come first, and their parts."""


class Watches:
    """Begins streams."""

    def __init__(self, reading: Reading, clock: Clock) -> None:
        self._reading, self._clock = reading, clock

    def begin(
        self, target: Target, matches: Filter, wanted: WatchOptions, form: Form
    ) -> AsyncGenerator[bytes, None]:
        """The stream, with its watcher in place: no change after this call is missed.

        Raises:
            Gone: the version to begin after is too old.
        """
        found = self._reading.walk(target, matches) if wanted.initial else None
        watcher = self._reading.watch(target, matches, wanted.since)
        view = _View(target, matches, form, self._clock)
        return _Stream(self._reading, self._clock, watcher, view, wanted).beginning(found)


class _View:
    """Changes in the form that this client has asked for."""

    def __init__(self, target: Target, matches: Filter, form: Form, clock: Clock) -> None:
        self._kind, self._matches, self._form, self._clock = target.kind, matches, form, clock
        self._first = True

    def initial(self, records: Iterable[Record]) -> Iterator[bytes]:
        for record in records:
            yield from self._line(ADDED, codec.in_version(self._kind, record))

    def changed(self, changes: Iterator[Change]) -> Iterator[bytes]:
        for change in changes:
            if (seen := seen_as(self._matches, self._kind, change)) is not None:
                yield from self._line(*seen)

    def bookmark(self, version: int, *, ends_initial: bool = False) -> bytes:
        return answers.bookmark(self._kind, version, ends_initial=ends_initial, wanted=self._form)

    def failed(self, error: ApiError) -> bytes:
        return encode(ERROR, orjson.dumps(to_status(error)))

    def _line(self, type_: str, data: bytes) -> Iterator[bytes]:
        if self._form.shape == answers.PLAIN:
            return pieces(type_, data, CHUNK_BYTES)
        line = answers.event(self._kind, type_, data, self._form, self._clock.now(), first=self._first)
        self._first = False
        return iter((line,))


class _Stream(AsyncGenerator[bytes, None]):
    """An async generator written as a class: ``aclose`` of a plain one does nothing before its first step."""

    def __init__(
        self, reading: Reading, clock: Clock, watcher: Watcher, view: _View, wanted: WatchOptions
    ) -> None:
        self._reading, self._clock, self._watcher, self._view = reading, clock, watcher, view
        self._bookmarks, self._marks_initial = wanted.bookmarks, wanted.marks_initial
        now = clock.monotonic()
        self._ends = now + (wanted.timeout or SHORTEST_SECONDS * (1 + clock.random.random()))
        self._marked = now
        self._pieces: Iterator[bytes] = iter(())

    def beginning(self, found: Initial | None) -> "_Stream":
        if found is not None:
            self._pieces = self._initial(*found)
        return self

    async def asend(self, _value: None) -> bytes:
        try:
            if (chunk := await self._next()) is not None:
                return chunk
        except BaseException:
            await self.aclose()
            raise
        await self.aclose()
        raise StopAsyncIteration

    async def athrow(self, error: Any, *_rest: Any) -> bytes:
        await self.aclose()
        raise error

    async def aclose(self) -> None:
        self._reading.done(self._watcher)

    async def _next(self) -> bytes | None:
        """The next chunk; None at the end."""
        while True:
            if chunk := self._chunk():
                return chunk
            if changes := self._watcher.take():
                self._pieces = self._view.changed(iter(changes))
                continue
            now = self._clock.monotonic()
            if self._watcher.ended or now >= self._ends:
                return None
            if self._bookmarks and now >= self._marked + BOOKMARK_SECONDS:
                self._marked = now
                return self._view.bookmark(self._reading.version)
            await self._ready(
                min(self._ends, self._marked + BOOKMARK_SECONDS if self._bookmarks else self._ends) - now
            )

    async def _ready(self, seconds: float) -> None:
        try:
            # At least what the loop's clock resolves: on virtual time 1e-10 s never passes.
            async with asyncio.timeout(max(seconds, 0.001)):
                await self._watcher.ready()
        except TimeoutError:
            pass  # the caller sees what it is time for

    def _chunk(self) -> bytes:
        """What there is, up to the size of a chunk; nothing: there is no more at the moment."""
        found, size = list[bytes](), 0
        for piece in self._pieces:
            found.append(piece)
            size += len(piece)
            if size >= CHUNK_BYTES:
                break
        return found[0] if len(found) == 1 else b"".join(found)

    def _initial(self, version: int, parts: Iterator[Sequence[Record]]) -> Iterator[bytes]:
        """The objects that there were. A client that takes them too slowly is told so, so that it does not
        take a part for the whole."""
        try:
            for records in parts:
                yield from self._view.initial(records)
        except Gone as error:
            self._ends = self._clock.monotonic()
            self._watcher.close()
            yield self._view.failed(error)
            return
        if self._marks_initial:
            yield self._view.bookmark(version, ends_initial=True)
