"""The collector: looks at one node, asks the server about unknown owners, performs the plan of ``decide``.

Theory.      One watch for each kind that the server serves, today and after the next CRD. ``Sink`` takes the
             place of an informer's cache: it takes what a ``kube.feed`` delivers, and keeps nothing but the
             graph's nodes and the last version that it has seen. The set of kinds follows discovery, which is
             asked again whenever a CRD changes.
Invariants.  Every write carries the uid and resourceVersion that it was decided on. After a conflict the node
             is looked at again.
             A kind that is no longer served leaves the graph without any of its objects counting as deleted.
             Requests ask for metadata only. The dependents to orphan are read from the server (``owned_by``):
             a watch may be late, and a dependent that it has not shown yet would keep its reference to the
             owner, and be deleted with it.
Keys.        A key's name is a uid; its namespace is empty.
Called by    ``controllers`` of ``builtin``.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, assert_never

import msgspec
import structlog

from kubewright.api.core import CRD
from kubewright.api.kinds import dynamic
from kubewright.api.meta import without_finalizer
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.builtin.garbage.graph import (
    FOREGROUND,
    SETTLE_SECONDS,
    Delete,
    DropFinalizer,
    ForgetOwners,
    Graph,
    GraphNode,
    Owner,
    OwnerState,
    Seen,
    Step,
    Unblock,
    decide,
    node_of,
)
from kubewright.kube import header as headers
from kubewright.kube.client import Client
from kubewright.kube.discovery import EVENTS, discover, metadata_client
from kubewright.kube.feed import Feed
from kubewright.kube.header import Header
from kubewright.kube.informer import Informers
from kubewright.kube.patches import with_uid, with_version
from kubewright.kube.scope import Scope
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.watch import DELETED

NEEDED = frozenset({"list", "watch", "delete", "patch"})

LOOKS_AFTER_CHANGE = (0.5, 5.0)
"""Pauses before each of two discovery requests after a CRD has changed: a real server lags behind."""

WATCHES_LIVE = (1800.0, 3600.0)
"""Seconds: there is a watch for every kind, so at rest their renewals would be half of the requests. One
that is dead is noticed by its silence."""

LIST_PAUSES = (0.05, 0.2, 0.5)
"""Seconds after a list that failed; the controller's backoff comes after the last."""


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


Json = dict[str, Any]

ABSENT_REMEMBERED = 20_000
"""References to owners that are nowhere which are remembered; about others the server is asked."""

log = structlog.get_logger("kubewright.garbage")


class Collector:
    """The reconciler, its controller and its watches: run ``controller`` and ``feeds.run``."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        *,
        workers: int = 8,
        metrics: Metrics | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._unresolvable: set[str] = set()
        self._absent: set[tuple[str, Resource, Key]] = set()
        self.controller = Controller(
            "garbage-collector", self, client.clock, workers=workers, timeout=120.0, metrics=metrics
        )
        self.graph = Graph(self._wake)
        self.feeds = Feeds(client, self.graph, self._look_again)
        informers.get(CRD).subscribe(lambda _change: self.feeds.kinds_changed())

    async def reconcile(self, key: Key) -> Result:
        """Look at the node whose uid is the key's name."""
        node = self.graph.get(key.name)
        if node is None:
            self._unresolvable.discard(key.name)
            return Result.done()
        seen = await self._look(node)
        plan = decide(seen)
        self._remember(seen)
        if plan.steps:
            log.info("collecting", kind=node.resource.kind, object=str(node.key), because=plan.because)
        return await self._act(node, plan)

    async def _look(self, node: GraphNode) -> Seen:
        dependents = tuple(self.graph.dependents(node.uid))
        if node.deleting:
            complete = self.feeds.complete
            if complete and node.orphans:
                dependents = tuple(await self.feeds.owned_by(node))
            return Seen(node, dependents=dependents, complete=complete)
        states: dict[str, OwnerState] = {}
        for owner in node.owners:  # two references may share a uid: one of them may be right
            if states.get(owner.uid) is not OwnerState.LIVES:
                states[owner.uid] = await self._owner_state(node, owner)
        self._tell_of_owners_elsewhere(node)
        return Seen(node, states, dependents)

    def _tell_of_owners_elsewhere(self, node: GraphNode) -> None:
        """An event for each owner in another namespace: its dependent goes, and a user should know why."""
        for owner in node.owners:
            known = self.graph.get(owner.uid)
            if self._recorder is None or known is None or not known.is_elsewhere(node):
                continue
            named = (
                f"[{owner.api_version}/{owner.kind}, namespace: {node.key.namespace}, name: {owner.name}, "
            )
            message = f'ownerRef {named}uid: {owner.uid}] does not exist in namespace "{node.key.namespace}"'
            self._recorder.event(_shown(node), "OwnerRefInvalidNamespace", message, warning=True)

    async def _owner_state(self, node: GraphNode, owner: Owner) -> OwnerState:
        """The state of an owner: from the graph if it has it, else from the server."""
        resource = self.feeds.find(owner.group, owner.kind)
        if resource is None:
            return OwnerState.UNRESOLVABLE if self.feeds.discovered else OwnerState.PENDING
        if resource.namespaced and not node.key.namespace:
            return OwnerState.UNRESOLVABLE
        place = Key(node.key.namespace if resource.namespaced else "", owner.name)
        known = self.graph.get(owner.uid)
        if known is not None and (known.resource, known.key) == (resource, place):
            return OwnerState.WAITS if known.waits else OwnerState.LIVES
        if known is None and (self.graph.is_gone(owner.uid) or (owner.uid, resource, place) in self._absent):
            return OwnerState.ABSENT
        if not self.feeds.is_listed(resource):
            return OwnerState.PENDING
        try:
            live = await self._client.get(dynamic(resource), place)
        except NotFound:
            live = {"metadata": {}}
        metadata = live["metadata"]
        if metadata.get("uid") != owner.uid:
            if known is None:
                self._remember_absent(owner.uid, resource, place)
            return OwnerState.ABSENT
        waits = "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())
        return OwnerState.WAITS if waits else OwnerState.LIVES

    def _remember_absent(self, uid: str, resource: Resource, place: Key) -> None:
        """Ask only once about an owner that is nowhere. Not by its uid alone: another reference with this uid
        may have the right name, and its owner be too new for our watches."""
        if len(self._absent) >= ABSENT_REMEMBERED:
            self._absent.clear()
        self._absent.add((uid, resource, place))

    async def _act(self, node: GraphNode, plan: Plan[Step]) -> Result:
        for step in plan.steps:
            try:
                await self._act_one(node, step)
            except NotFound:
                log.debug("already gone", kind=node.resource.kind, object=str(node.key))
        return Result.later(plan.wake)

    async def _act_one(self, node: GraphNode, step: Step) -> None:
        match step:
            case Delete(propagation):
                await self._client.delete(
                    dynamic(node.resource),
                    node.key,
                    uid=node.uid,
                    resource_version=node.version,
                    propagation=propagation,
                )
            case ForgetOwners(of, uids):
                await self._rewrite_owners(of, lambda ref: None if ref["uid"] in uids else ref)
            case Unblock():
                await self._rewrite_owners(node, lambda ref: {**ref, "blockOwnerDeletion": False})
            case DropFinalizer(name):
                await self._drop_finalizer(node, name)
            case _:
                assert_never(step)

    async def _rewrite_owners(self, node: GraphNode, change: Callable[[Json], Json | None]) -> None:
        """Compare and swap of the owner references, from the object as it is now."""
        metadata = await self._metadata(node)
        before = metadata.get("ownerReferences") or []
        after = [changed for ref in before if (changed := change(ref)) is not None]
        if after != before:
            await self._patch(node, metadata, ownerReferences=after or None)

    async def _drop_finalizer(self, node: GraphNode, name: str) -> None:
        metadata = await self._metadata(node)
        before = metadata.get("finalizers") or []
        if name in before:
            await self._patch(node, metadata, finalizers=without_finalizer(before, name))

    async def _metadata(self, node: GraphNode) -> Json:
        """The metadata of this very object, from the server.

        Raises:
            NotFound: there is none, or another object has its name now.
        """
        live = await self._client.get(dynamic(node.resource), node.key)
        metadata: Json = live["metadata"]
        if metadata["uid"] != node.uid:
            raise NotFound(f"{node.resource.kind} {node.key} is another one now")
        return metadata

    async def _patch(self, node: GraphNode, metadata: Json, **members: Any) -> None:
        patch = with_version(with_uid({"metadata": members}, node.uid), metadata["resourceVersion"])
        await self._client.patch(dynamic(node.resource), node.key, patch)

    def _wake(self, uid: str, why: str, after: float) -> None:
        self.controller.enqueue(Key("", uid), why, after=after)

    def _remember(self, seen: Seen) -> None:
        if OwnerState.UNRESOLVABLE in seen.states.values():
            self._unresolvable.add(seen.node.uid)
        else:
            self._unresolvable.discard(seen.node.uid)

    def _look_again(self) -> None:
        """New kinds are served: owners that could not be resolved may be known soon."""
        for uid in self._unresolvable:
            self._wake(uid, "new kinds are served", SETTLE_SECONDS)


def _shown(node: GraphNode) -> Json:
    """A node as events are about it."""
    metadata = {"name": node.key.name, "namespace": node.key.namespace, "uid": node.uid}
    return {"apiVersion": node.resource.api_version, "kind": node.resource.kind, "metadata": metadata}
