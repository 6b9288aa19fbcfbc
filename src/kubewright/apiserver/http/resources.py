"""The verbs on resources: from an HTTP method and path to the registry, and back to a response or a stream.

Theory.      A path names a kind and perhaps an object and a subresource; the method and the presence
             of a name choose the verb. Verbs on whole objects and their status are here; subresources
             that are kinds of their own (scale, eviction, binding, token) are in ``subresources``.
             The stream of a watch: the existing objects, then changes, in chunks of a bounded size. It sleeps
             until its watcher has changes, then writes them. A chunk is made when it is asked for, which is
             when the client has taken the one before; a large object is cut. Once a minute it writes a
             bookmark, so that the client's version advances over changes that its filter hides, and a resumed
             watch does not get 410.
Invariants.  A stream ends: at the client's timeout, or at a random time between half an hour and a
             whole one, or when the watcher is closed. However it ends, even if it was never
             read, ``aclose`` removes the watcher. Of a client that does not read there are a part of the
             collection and one chunk in memory, and nothing is copied of what it has not asked for.
Called by    ``app``. Continues in ``registry.reading`` and ``registry.writing``.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from kubewright.apiserver.authorization.policy import MASTERS, Attributes, forbidden
from kubewright.apiserver.http import answers, requests
from kubewright.apiserver.http.answers import Form
from kubewright.apiserver.http.connections import holder_of
from kubewright.apiserver.http.requests import ResourcePath, WatchOptions
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Catalog, Options, ServedKind, Target
from kubewright.apiserver.registry.policies import Policies, guard_of
from kubewright.apiserver.registry.reading import Filter, ListOptions, Page, Reading, filter_of, seen_as
from kubewright.apiserver.registry.reviews import settled
from kubewright.apiserver.registry.strategy import edit_of
from kubewright.apiserver.registry.writing import Writing, Written
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Change, Record, Watcher
from kubewright.base.clock import Clock
from kubewright.wire.errors import ApiError, to_status
from kubewright.wire.http import APPLY_PATCH, JSON, STRATEGIC_PATCH, Request, Response
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
        self.kind, self._matches, self._form, self._clock = target.kind, matches, form, clock
        self._first = True

    def initial(self, records: Iterable[Record], *, chosen: bool = True) -> Iterator[bytes]:
        """Objects that there were; ``chosen``: all of them match."""
        for record in records if chosen or self._matches.everything else filter(self._matches, records):
            yield from self._line(ADDED, self.kind.in_version(record))

    def changed(self, changes: Iterator[Change]) -> Iterator[bytes]:
        for change in changes:
            if (seen := seen_as(self._matches, self.kind, change)) is not None:
                yield from self._line(*seen)

    def bookmark(self, version: int, *, ends_initial: bool = False) -> bytes:
        return answers.bookmark(self.kind, version, ends_initial=ends_initial, wanted=self._form)

    def failed(self, error: ApiError) -> bytes:
        return encode(ERROR, orjson.dumps(to_status(error)))

    def _line(self, type_: str, data: bytes) -> Iterator[bytes]:
        if self._form.shape == answers.PLAIN:
            return pieces(type_, data, CHUNK_BYTES)
        line = answers.event(self.kind, type_, data, self._form, self._clock.now(), first=self._first)
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
        self._unconverted: Initial | None = None
        """What comes first, where a webhook must convert it."""

    def beginning(self, found: Initial | None) -> "_Stream":
        if found is not None and self._view.kind.by_webhook:
            self._unconverted = found
        elif found is not None:
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
            if self._unconverted is not None:
                self._pieces = await self._converted(*self._unconverted)
                continue
            if changes := self._watcher.take():
                self._pieces = await self._changed(changes)
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
        except ApiError as error:
            yield self._failed(error)
            return
        if self._marks_initial:
            yield self._view.bookmark(version, ends_initial=True)

    async def _converted(self, version: int, parts: Iterator[Sequence[Record]]) -> Iterator[bytes]:
        """The next part of the objects that there were, by a webhook."""
        try:
            if (records := next(parts, None)) is not None:
                return self._view.initial(await self._reading.seen(self._view.kind, records), chosen=False)
        except ApiError as error:
            self._unconverted = None
            return iter((self._failed(error),))
        self._unconverted = None
        return iter((self._view.bookmark(version, ends_initial=True),) if self._marks_initial else ())

    async def _changed(self, changes: Sequence[Change]) -> Iterator[bytes]:
        if not self._view.kind.by_webhook:
            return self._view.changed(iter(changes))
        try:
            return self._view.changed(iter(await self._reading.changes(self._view.kind, changes)))
        except ApiError as error:
            return iter((self._failed(error),))

    def _failed(self, error: ApiError) -> bytes:
        """The last that the client gets: it must list anew."""
        self._ends = self._clock.monotonic()
        self._watcher.close()
        return self._view.failed(error)


_ONE = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ALL = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_OF_SUBRESOURCES = ("get", "update", "patch")
"""Verbs on a status. A role that allows others on it must not reach the whole object by them."""
_IN_PLACE = ("create", "deletecollection")
"""Verbs on objects of one namespace, never of all."""


def verb_of(request: Request, path: ResourcePath) -> str:
    """The Kubernetes verb of a request; empty when the method is not supported there."""
    if path.subresource and request.method == "POST":
        return "create"
    verb = (_ONE if path.name else _ALL).get(request.method, "")
    watches = request.method == "GET" and verb == "list" and requests.flag(request, "watch")
    return "watch" if watches else verb


MOST_FILTERED = 5_000
"""Objects among which a list looks for some at once; a field selector decodes each."""


class Turns:
    """Who writes a large list: one at a time, and of those that wait each holder has one in turn.

    A list that is large is written in pieces, between which other requests are answered. Twenty of them side
    by side would be twenty pieces between two others, and one client can ask for thousands.
    """

    def __init__(self) -> None:
        self._taken = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, holder: str) -> AsyncIterator[None]:
        """Wait for the turn of this holder; the next one comes when it is left."""
        if self._taken:
            await self._handed_over(holder)
        self._taken = True
        try:
            yield
        finally:
            self._hand_over()

    async def _handed_over(self, holder: str) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # it has come in the same moment
                self._hand_over()
            raise

    def _hand_over(self) -> None:
        self._taken = False
        while self._waiting and not self._taken:
            holder = next(iter(self._waiting))
            queue = self._waiting.pop(holder)
            first = queue.popleft()
            if queue:
                self._waiting[holder] = queue  # behind all others
            if not first.done():
                first.set_result(None)
                self._taken = True


class Resources:
    """The verbs, from request to answer."""

    def __init__(
        self, reading: Reading, writing: Writing, policies: Policies, catalog: Catalog, clock: Clock
    ) -> None:
        self._reading, self._writing, self._policies = reading, writing, policies
        self._watches, self._turns = Watches(reading, clock), Turns()
        self._catalog, self._clock = catalog, clock

    def target(self, path: ResourcePath) -> Target:
        """The kind and place that a path names.

        Raises:
            NotFound: no such kind is served, or not in this scope.
        """
        kind = self._catalog.find(path.group, path.version, path.plural)
        if kind is None or (path.namespace and not kind.resource.namespaced):
            raise refusals.no_such_path()
        if path.subresource and path.subresource not in _subresources_of(kind):
            raise refusals.no_such_path()
        return Target(kind, path.namespace, path.name)

    async def serve(self, request: Request, target: Target, verb: str, subresource: str) -> Response:
        """The answer to a verb on whole objects, or on their status.

        Raises:
            ApiError
        """
        kind = target.kind
        everywhere = kind.resource.namespaced and not target.namespace
        if verb not in (_OF_SUBRESOURCES if subresource else kind.verbs) or (
            everywhere and verb in _IN_PLACE
        ):
            raise refusals.not_allowed()
        match verb:
            case "get":
                at_least = requests.version(request) or 0
                return self._one(request, kind, await self._get(target, at_least))
            case "list":
                return await self._list(request, target)
            case "watch":
                return self._watch(request, target)
            case "create":
                return await self._create(request, target)
            case "update":
                return await self._update(request, target, subresource)
            case "patch":
                return await self._patch(request, target, subresource)
            case "delete":
                return await self._delete(request, target)
        return await self._delete_all(request, target)

    async def _get(self, target: Target, at_least: int) -> bytes:
        if not target.kind.by_webhook:
            return self._reading.get(target, at_least)

        async def attempt() -> bytes:
            return self._reading.get(target, at_least)

        return await settled(attempt)

    async def _page(self, target: Target, matches: Filter, wanted: ListOptions) -> Page:
        if target.kind.by_webhook:
            return await self._reading.list_converted(target, matches, wanted)
        return self._reading.list(target, matches, wanted)

    async def _list(self, request: Request, target: Target) -> Response:
        form, now, matches = self._form(request), self._clock.now(), self._filter(request, target.kind)
        wanted = requests.list_options(request)
        found = None
        if matches.everything or self._reading.looks_at(target, matches, wanted) <= MOST_FILTERED:
            found = await self._page(target, matches, wanted)
            if len(answers.pieces(found, form)) == 1:
                return answers.page(target.kind, found, form, now)
        async with self._turns.turn(holder_of(request.user)):
            found = found or await self._page(target, matches, wanted)
            written = []
            for part in answers.pieces(found, form):
                await self._clock.sleep(0)  # others work
                written.append(answers.piece(target.kind, part, form, now))
            return answers.joined(target.kind, found, written, form, now)

    def _watch(self, request: Request, target: Target) -> Response:
        form, wanted = self._form(request), requests.watch_options(request)
        matches = self._filter(request, target.kind)
        stream = self._watches.begin(target, matches, wanted, form)
        return Response(200, content_type=f"{JSON};stream=watch", stream=stream)

    async def _create(self, request: Request, target: Target) -> Response:
        options = self._options(request, target, "CreateOptions")
        sent, duplicates = self._body(request, target.kind, options)
        written = await self._writing.create(target, sent, options, duplicates=duplicates)
        return self._written(request, target.kind, written, options)

    async def _update(self, request: Request, target: Target, subresource: str) -> Response:
        options = self._options(request, target, "UpdateOptions", subresource)
        sent, duplicates = self._body(request, target.kind, options)
        written = await self._writing.update(
            target, lambda _old: sent, options, subresource=subresource, duplicates=duplicates
        )
        return self._written(request, target.kind, written, options)

    async def _patch(self, request: Request, target: Target, subresource: str) -> Response:
        media = requests.media_type(request.headers.get("content-type", ""))
        if media == APPLY_PATCH:
            return await self._apply(request, target, subresource)
        options = self._guarded(request, target, requests.patch_options(request), subresource)
        strategic = media == STRATEGIC_PATCH
        patch = requests.read_patch(request.body, plainly=strategic) if media.endswith("+json") else None
        edit = edit_of(target.kind, media, patch)
        written = await self._writing.update(target, edit, options, subresource=subresource, patched=True)
        return self._written(request, target.kind, written, options)

    async def _apply(self, request: Request, target: Target, subresource: str) -> Response:
        options = self._guarded(request, target, requests.apply_options(request), subresource)
        wanted = requests.read_applied(request.body)
        written = await self._writing.apply(
            target,
            wanted,
            options,
            subresource=subresource,
            may_create=lambda: self._check_create(request, target),
        )
        return self._written(request, target.kind, written, options)

    def _check_create(self, request: Request, target: Target) -> None:
        """Check that the user may create the object: the request was only checked for the verb ``patch``."""
        resource = target.kind.resource
        namespace = target.name if resource.plural == "namespaces" else target.namespace
        asked = Attributes(
            request.user, "create", resource.group, resource.plural, namespace=namespace, name=target.name
        )
        decision = self._policies.current.decide(asked)
        if MASTERS not in request.user.groups and not decision.allowed:
            raise forbidden(asked, decision.reason)

    async def _delete(self, request: Request, target: Target) -> Response:
        deletion, options = requests.delete_options(request)
        written = await self._writing.delete(target, deletion, options)
        if not written.gone:
            return self._one(request, target.kind, written.data)
        return answers.plain(_deleted(target, written.uid), self._form(request))

    async def _delete_all(self, request: Request, target: Target) -> Response:
        deletion, options = requests.delete_options(request)
        wanted = requests.list_options(request)
        page = await self._page(target, self._filter(request, target.kind), wanted)
        targets = [Target.at(target.kind, record.key) for record in page.records]
        await self._writing.delete_all(targets, deletion, options)
        return answers.page(target.kind, page, self._form(request), self._clock.now())

    def _options(self, request: Request, target: Target, name: str, subresource: str = "") -> Options:
        return self._guarded(request, target, requests.options(request, name), subresource)

    def _guarded(self, request: Request, target: Target, options: Options, subresource: str = "") -> Options:
        options.guard = guard_of(self._policies, request.user, target, subresource)
        options.user = request.user
        return options

    def _body(self, request: Request, kind: ServedKind, options: Options) -> tuple[Any, list[str]]:
        sent = requests.read(request.body, request.headers.get("content-type", ""), kind.resource.kind)
        return sent, [] if options.validation == "Ignore" else requests.duplicate_fields(request.body, sent)

    def _filter(self, request: Request, kind: ServedKind) -> Filter:
        return filter_of(kind, request.param("labelSelector"), request.param("fieldSelector"))

    def _form(self, request: Request) -> answers.Form:
        return answers.form(request.headers.get("accept", ""), request.param("includeObject"))

    def _one(self, request: Request, kind: ServedKind, data: bytes, code: int = 200) -> Response:
        return answers.one(kind, data, self._form(request), self._clock.now(), code=code)

    def _written(self, request: Request, kind: ServedKind, written: Written, options: Options) -> Response:
        answer = self._one(request, kind, written.data, 201 if written.created else 200)
        return answers.with_warnings(answer, options.warnings)


def _subresources_of(kind: ServedKind) -> frozenset[str]:
    found = {"status"} if kind.has_status else set()
    return kind.subresources | kind.by_kubelet | found | ({"scale"} if kind.scale else set())


def _deleted(target: Target, uid: str) -> Object:
    resource = target.kind.resource
    group = {"group": resource.group} if resource.group else {}
    details = {"name": target.name, **group, "kind": resource.plural, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
