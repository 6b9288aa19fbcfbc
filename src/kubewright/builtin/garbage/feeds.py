"""One watch for each kind that the server serves, today and after the next CRD.

Theory.      ``Sink`` takes the place of an informer's cache: it takes what a ``kube.feed`` delivers,
             and keeps nothing but the graph's nodes and the last version that it has seen. The
             set of kinds follows discovery, which is asked again whenever a CRD changes.
Invariants.  A kind that is no longer served leaves the graph without any of its objects counting as
             deleted. Requests ask for metadata only. The dependents to orphan are read from the server
             (``owned_by``): a watch may be late, and a dependent that it has not shown yet would keep
             its reference to the owner, and be deleted with it.
Called by    ``collector``; ``Feeds.run`` is background work of the manager.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from kubewright.api.kinds import dynamic
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.builtin.garbage.graph import Graph, GraphNode, node_of
from kubewright.kube import header as headers
from kubewright.kube.client import Client
from kubewright.kube.discovery import EVENTS, discover, metadata_client
from kubewright.kube.feed import Feed
from kubewright.kube.header import Header
from kubewright.kube.scope import Scope
from kubewright.wire.gvk import Resource
from kubewright.wire.watch import DELETED

NEEDED = frozenset({"list", "watch", "delete", "patch"})

LOOKS_AFTER_CHANGE = (0.5, 5.0)
"""Pauses before each of two discovery requests after a CRD has changed: a real server lags behind."""

WATCHES_LIVE = (1800.0, 3600.0)
"""Seconds: there is a watch for every kind, so at rest their renewals would be half of the requests. One
that is dead is noticed by its silence."""

LIST_PAUSES = (0.05, 0.2, 0.5)
"""Seconds after a list that failed; the controller's backoff comes after the last."""

log = structlog.get_logger("kubewright.garbage")


class Sink:
    """Brings one kind into the graph (a ``kube.feed.Sink``)."""

    def __init__(self, resource: Resource, graph: Graph) -> None:
        self.seen = 0
        self._resource = resource
        self._graph = graph
        self._held: dict[str, None] = {}
        self._listed: dict[str, None] = {}

    def event(self, kind: str, header: Header) -> None:
        if kind == DELETED:
            self._held.pop(header.uid, None)
            self._graph.drop(header.uid)
        else:
            self._put(header)
        self.seen = header.version

    def bookmark(self, version: int) -> None:
        self.seen = version

    def begin(self) -> None:
        self._listed = {}

    def page(self, version: int, items: list[Header]) -> None:
        self.seen = version
        for header in items:
            self._listed[header.uid] = None
            self._put(header)

    def end(self) -> None:
        for uid in [uid for uid in self._held if uid not in self._listed]:
            del self._held[uid]
            self._graph.drop(uid)
        self._listed = {}

    def forget(self) -> None:
        """The kind is no longer served."""
        for uid in self._held:
            node = self._graph.get(uid)
            if node is not None and node.resource == self._resource:
                self._graph.drop(uid, ended=False)
        self._held = {}

    def _put(self, header: Header) -> None:
        self._held[header.uid] = None
        self._graph.put(node_of(self._resource, header))


class _Watched:
    def __init__(self, client: Client, resource: Resource, graph: Graph) -> None:
        self.sink = Sink(resource, graph)
        self.feed = Feed(client, resource, Scope(), self.sink, WATCHES_LIVE)
        self.task: asyncio.Task[None] | None = None


class Feeds:
    """All watches. ``on_added`` is called when kinds were added; ``discovered``: whether any are known."""

    def __init__(self, client: Client, graph: Graph, on_added: Callable[[], None]) -> None:
        self._client = client
        self._metadata_client = metadata_client(client)
        self._graph = graph
        self._on_added = on_added
        self._watched: dict[Resource, _Watched] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self.discovered = False

    def kinds_changed(self) -> None:
        """A CRD has changed: ask discovery soon."""
        self._changed.set()

    def find(self, group: str, kind: str) -> Resource | None:
        """The resource of a kind, as owner references name it."""
        return self._kinds.get((group, kind))

    def is_listed(self, resource: Resource) -> bool:
        """Whether the first list of this kind is complete."""
        watched = self._watched.get(resource)
        return watched is not None and watched.feed.synced.is_set()

    @property
    def complete(self) -> bool:
        """Whether the first list of every kind is complete."""
        return self.discovered and all(each.feed.synced.is_set() for each in self._watched.values())

    async def owned_by(self, owner: GraphNode) -> list[GraphNode]:
        """The dependents of a node as the server has them now: one list for each kind, in a fixed order.

        An owner in a namespace has dependents in that namespace only.

        Raises:
            ApiError, TransportError: a kind could not be listed; its dependents are not known.
        """
        found = []
        for resource in sorted(self._watched, key=str):
            if owner.key.namespace and not resource.namespaced:
                continue
            for body in await self._listed(resource, owner.key.namespace):
                references = body["metadata"].get("ownerReferences") or ()
                if any(each.get("uid") == owner.uid for each in references):
                    found.append(node_of(resource, headers.read(msgspec.json.encode(body))))
        return found

    async def _listed(self, resource: Resource, namespace: str) -> list[dict[str, Any]]:
        """All objects of a kind. Each list is retried by itself: all kinds at once may never succeed."""
        for pause in LIST_PAUSES:
            with suppress(KubewrightError):
                return await self._metadata_client.list(dynamic(resource), namespace)
            await self._client.clock.sleep(pause)
        return await self._metadata_client.list(dynamic(resource), namespace)

    async def run(self) -> None:
        """Watch everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._changed.wait()
                self._changed.clear()
                pauses = LOOKS_AFTER_CHANGE if self.discovered else (0.0,)
                for pause in pauses:
                    await self._client.clock.sleep(pause)
                    await self._refresh(group)

    async def _refresh(self, group: asyncio.TaskGroup) -> None:
        try:
            served = (await discover(self._client)).served
        except KubewrightError as error:
            log.warning("kinds not known", cluster=self._client.name, error=str(error))
            await self._client.clock.sleep(delays.SHORT.seconds)
            self._changed.set()
            return
        wanted = {
            each.resource
            for each in served
            if each.verbs >= NEEDED and (each.resource.group, each.resource.plural) not in EVENTS
        }
        self._kinds = {(each.group, each.kind): each for each in wanted}
        added, removed = wanted - self._watched.keys(), self._watched.keys() - wanted
        for resource in sorted(added, key=str):
            self._start(group, resource)
        for resource in removed:
            self._stop(resource)
        self.discovered = True
        if added:
            self._on_added()

    def _start(self, group: asyncio.TaskGroup, resource: Resource) -> None:
        watched = self._watched[resource] = _Watched(self._metadata_client, resource, self._graph)
        watched.task = group.create_task(watched.feed.run(), name=f"garbage {resource}")

    def _stop(self, resource: Resource) -> None:
        watched = self._watched.pop(resource)
        if watched.task is not None:
            watched.task.cancel()
        watched.sink.forget()
