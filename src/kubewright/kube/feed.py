"""The requests of an informer: gets pages and watches, and passes what comes to a cache.

Theory.      ``reflector`` says what to ask and when; ``cache`` says what an object's arrival means.
             What remains here is I/O: one request or one stream at a time, deadlines, and one log line
             when something is wrong and one when it is over; of all watches that cannot reach a
             server, only one logs it (``Outage``).
Invariants.  A cache gets nothing of a namespace that is not in its scope, also where the server sends it.
             Nothing that a server does ends ``run``. A stream that is silent for ``IDLE_SECONDS`` is
             cut, since the connection may be dead at the other end; ``visibility`` then says that nothing
             was seen since the last event. The loop gets its turn at
             least every ``YIELD_EVERY`` events.
Called by    ``informer``.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

import structlog

from kubewright.base.limits import LIST_PAGE, REQUEST_SECONDS
from kubewright.kube import header as headers
from kubewright.kube.client import Client
from kubewright.kube.errors import (
    BadAnswer,
    ConnectFailed,
    Disconnected,
    TimedOut,
    TransportError,
    failure,
    refusal,
)
from kubewright.kube.header import Header, read_page
from kubewright.kube.reflector import (
    IDLE_SECONDS,
    WATCH_SECONDS,
    Cut,
    Failed,
    Listing,
    Outcome,
    PageRead,
    State,
    Visibility,
    Watching,
    step,
)
from kubewright.kube.scope import Scope
from kubewright.wire import watch
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Resource

YIELD_EVERY = 256
"""Events applied in a row before other tasks run: about two milliseconds."""

log = structlog.get_logger("kubewright.kube")


class Sink(Protocol):
    """Where a feed puts what it receives: ``cache.Cache``, or what keeps less than objects."""

    seen: int
    """How far the server's history is known completely."""

    def begin(self) -> None:
        """A list is about to be asked for."""

    def page(self, version: int, items: list[Header], /) -> None:
        """One page of it."""

    def end(self) -> None:
        """That was the last page."""

    def event(self, kind: str, header: Header, /) -> None:
        """An ADDED, MODIFIED or DELETED."""

    def bookmark(self, version: int, /) -> None:
        """Nothing else happened up to ``version``."""


@dataclass(slots=True)
class Counts:
    """What the feed has done so far. ``trouble`` is the last failure, empty while all is well."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    trouble: str = ""


class Feed:
    """Keeps one cache current from one server. ``lives``: for how many seconds a watch asks to live, between
    these."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        scope: Scope,
        cache: Sink,
        lives: tuple[float, float] = WATCH_SECONDS,
    ) -> None:
        self.counts = Counts()
        self.synced = asyncio.Event()
        self.visibility = Visibility()
        self._client = client
        self._resource = resource
        self._scope = scope
        self._cache = cache
        self._lives = lives
        self._logged = ""
        self._only_this_kind = True
        self._name = f"{resource} {scope}"
        self._heard = 0.0

    async def run(self) -> None:
        """List and watch until cancelled."""
        clock = self._client.clock
        self.visibility.lost(clock.monotonic())
        try:
            await self._follow_on(Listing())
        finally:
            self._client.outage.ends(self._name)

    async def _follow_on(self, state: State) -> None:
        clock = self._client.clock
        while True:
            happened = await self._ask(state)
            following = step(state, happened, clock.random.random())
            if isinstance(happened, Failed):
                self.visibility.lost(clock.monotonic())
            self._note(happened, following.state.failures)
            state = following.state
            if following.pause:
                await clock.sleep(following.pause)

    async def _ask(self, state: State) -> Outcome:
        try:
            return await (self._page(state) if isinstance(state, Listing) else self._watch(state))
        except (ApiError, TransportError) as error:
            return Failed(error)
        except Exception:
            log.exception("a defect in a watch loop; listing anew", resource=str(self._resource))
            return Failed(BadAnswer("a defect of ours, see the log"))

    async def _page(self, state: Listing) -> Outcome:
        if not state.token:
            self._cache.begin()
            self.counts.lists += 1
        limit = () if state.whole else (("limit", str(LIST_PAGE)),)
        token = (("continue", state.token),) if state.token else ()
        request = self._client.request("GET", self._path, query=(*self._scope.query, *limit, *token))
        began = self._client.clock.monotonic()
        response = await self._client.transport.request(request, timeout=REQUEST_SECONDS)
        self._client.measure_skew(response, began)
        if response.status >= 400:
            raise failure(response)
        page = read_page(response.body)
        items = [headers.read(bytes(item)) for item in page.items]
        self._cache.page(
            page.version, [each for each in items if self._scope.has_namespace(each.key.namespace)]
        )
        if not page.token:
            self._cache.end()
            self.visibility.gained(self._client.clock.monotonic())
            self.synced.set()
        return PageRead(self._cache.seen, page.token)

    async def _watch(self, state: Watching) -> Outcome:
        clock = self._client.clock
        self.counts.watches += 1
        seconds = clock.random.uniform(*self._lives)
        asked = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", str(state.version)),
            ("timeoutSeconds", str(int(seconds))),
        )
        request = self._client.request("GET", self._path, query=(*self._scope.query, *asked))
        async with self._client.transport.stream(request) as chunks:
            opened = self._heard = clock.monotonic()
            self.visibility.gained(opened)
            error: ApiError | TransportError | None = None
            try:
                await self._follow(chunks)
            except (ApiError, TransportError) as broken:
                error = broken
            ended = clock.monotonic()
            silent = ended - self._heard >= IDLE_SECONDS
            self.visibility.lost(self._heard if silent else ended)
            cut = Cut(self._cache.seen, ended - opened)
        return Failed(error, cut) if isinstance(error, (ApiError, BadAnswer)) else cut

    async def _follow(self, chunks: AsyncIterator[bytes]) -> None:
        """Apply events until the stream ends, breaks, is silent for too long or says ERROR."""
        lines, count = watch.Lines(), 0
        while (chunk := await _next(chunks)) is not None:
            self._heard = self._client.clock.monotonic()
            try:
                for line in lines.feed(chunk):
                    self._event(watch.decode(line))
                    count += 1
            except watch.Malformed as error:
                raise BadAnswer(f"{self._resource}: {error}") from None
            if count >= YIELD_EVERY:
                count = 0
                await self._client.clock.sleep(0)

    def _event(self, event: watch.Event) -> None:
        if event.type == watch.ERROR:
            raise refusal(500, event.data)
        self.counts.events += 1
        if self.counts.trouble:
            self._recovered()
        if event.type == watch.BOOKMARK:
            self._cache.bookmark(headers.read_version(event.data))
            return
        header = headers.read(event.data)
        if self._scope.has_namespace(header.key.namespace):
            self._cache.event(event.type, header)
        else:
            self._cache.bookmark(header.version)

    @property
    def _path(self) -> str:
        return self._resource.path(self._scope.namespace)

    def _note(self, happened: Outcome, failures: int) -> None:
        """Count failures, and log when the kind of trouble changes."""
        if not failures or isinstance(happened, PageRead):
            self._recovered()
            return
        self.counts.failures = failures
        if isinstance(happened, Cut):
            self.counts.trouble = "the server ends every watch at once"
            if failures == 1:  # once is normal
                return
        else:
            self.counts.trouble = f"{type(happened.error).__name__}: {happened.error}"
        kind_of_trouble, _, _ = self.counts.trouble.partition(":")
        if kind_of_trouble != self._logged:
            self._logged = kind_of_trouble
            self._say(happened)

    def _recovered(self) -> None:
        self.counts.trouble, self.counts.failures = "", 0
        if not self._logged:
            return
        self._logged = ""
        cluster = self._client.name
        if not self._only_this_kind:
            if self._client.outage.ends(self._name):
                log.info("watching again", cluster=cluster)
            return
        log.info("watching again", cluster=cluster, resource=str(self._resource))

    def _say(self, happened: Outcome) -> None:
        error, about = getattr(happened, "error", None), {"cluster": self._client.name}
        self._only_this_kind = not isinstance(error, (ConnectFailed, Disconnected, TimedOut))
        if not self._only_this_kind:
            if self._client.outage.begins(self._name, self._logged):
                log.warning("cannot watch; trying again", trouble=self.counts.trouble, **about)
            return
        if self._client.outage.ends(self._name):  # the server answers again, if only to refuse this
            log.info("watching again", cluster=self._client.name)
        about["resource"] = str(self._resource)
        if isinstance(error, NotFound):
            log.warning("the server does not serve this kind yet; waiting for it", **about)
        else:
            log.warning("cannot watch; trying again", trouble=self.counts.trouble, **about)


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """The next chunk; None when there is none any more, or none for too long."""
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            return await anext(chunks, None)
    except TimeoutError:
        return None
