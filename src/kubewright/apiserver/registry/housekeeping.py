"""What the server deletes on its own: the instances of a CRD that is being deleted, and expired events.

Theory.      A CRD that is deleted keeps a finalizer (``serving.CLEANUP``). The server deletes its
             instances, waits until the last of them is gone (they may have finalizers of their
             own), and removes the finalizer. Events are deleted an hour after their last write.
Invariants.  Idempotent: what a crash interrupts, the next start finishes. A definition keeps its finalizer
             until its collection was seen to be empty.
Called by    ``server``, which runs ``Housekeeping.run`` for as long as it lives.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson
import structlog

from kubewright.api.meta import without_finalizer
from kubewright.apiserver.registry.kind import Catalog, Object, ServedKind
from kubewright.apiserver.registry.lifecycle import DeleteOptions
from kubewright.apiserver.registry.serving import CLEANUP, CRDS
from kubewright.apiserver.registry.target import IGNORE, Options, Target
from kubewright.apiserver.registry.writing import Writing
from kubewright.apiserver.store import Record, Refused, Store
from kubewright.base.clock import Clock
from kubewright.wire.errors import ApiError, NotFound

log = structlog.get_logger("kubewright.apiserver")

EVENT_SECONDS = 3600.0
"""How long an event is kept after it was last written, as kube-apiserver's ``--event-ttl``."""

SWEEP_SECONDS = 300.0
"""Time between two scans for expired events."""

_EVENTS = "events"


class Housekeeping:
    """The server's background work."""

    def __init__(self, store: Store, catalog: Catalog, writing: Writing, clock: Clock) -> None:
        self._store, self._catalog, self._writing, self._clock = store, catalog, writing, clock
        self._ending: set[str] = set()

    async def run(self) -> None:
        """Until cancelled, or until the store takes no more writes."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._expire_events())
            async with aclosing(self._looks(str(CRDS))) as looks:
                async for _ in looks:
                    for record in self._store.scan(str(CRDS)):
                        if record.deleting and record.key not in self._ending:
                            self._ending.add(record.key)
                            tasks.create_task(self._end(record))

    async def _looks(self, resource: str) -> AsyncGenerator[None]:
        """Once now and after each change of a collection, until the store takes no more writes.

        That a watcher is closed says nothing of its collection: the kind is served anew, or the changes were
        too many at once. Another watcher goes on, and everything is looked at again.
        """
        while not self._store.refusal:
            watcher = self._store.watch(resource)
            try:
                while not watcher.closed:
                    yield
                    await watcher.ready()
                    watcher.take()
            finally:
                self._store.unwatch(watcher)

    async def _end(self, definition: Record) -> None:
        """Empty the collection of a definition, then remove its finalizer."""
        try:
            if await self._empty(definition):
                target = Target(self._kind(str(CRDS)), name=definition.key)
                await self._writing.update(target, _released, Options(validation=IGNORE))
        except NotFound:
            pass  # a user removed our finalizer, and the definition is gone
        except (ApiError, Refused) as error:
            log.warning("cleanup stopped", definition=definition.key, why=str(error))
        finally:
            self._ending.discard(definition.key)

    async def _empty(self, definition: Record) -> bool:
        """Delete all instances of a definition. False: the definition or the store was gone before them."""
        crd: Object = orjson.loads(definition.data)
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        async with aclosing(self._looks(definition.key)) as looks:
            async for _ in looks:
                known = self._store.get(str(CRDS), definition.key)
                if known is None or not known.deleting:
                    return False
                kind = self._served(group, plural)
                if kind is None or not self._store.count(definition.key):
                    return True
                waiting = [record.key for record in self._store.scan(definition.key) if not record.deleting]
                await self._delete(kind, waiting)
        return False

    def _served(self, group: str, plural: str) -> ServedKind | None:
        """A kind as it is served now: another schema may have been applied meanwhile."""
        names = ((kind, kind.resource.group, kind.resource.plural) for kind in self._catalog)
        return next((kind for kind, *name in names if name == [group, plural]), None)

    async def _expire_events(self) -> None:
        """Delete the events whose version is at most the store's version of an hour ago: they were not
        written since. So no event is decoded; a restart keeps events for an hour more at most."""
        kind = self._kind(_EVENTS)
        marks = deque([(self._clock.monotonic(), self._store.version)])
        while not self._store.refusal:
            await self._clock.sleep(SWEEP_SECONDS)
            now = self._clock.monotonic()
            marks.append((now, self._store.version))
            while marks[0][0] <= now - EVENT_SECONDS:
                _, horizon = marks.popleft()
                old = [record.key for record in self._store.scan(_EVENTS) if record.version <= horizon]
                await self._delete(kind, old)

    async def _delete(self, kind: ServedKind, keys: list[str]) -> None:
        await self._writing.delete_all([Target.at(kind, key) for key in keys], DeleteOptions(), Options())

    def _kind(self, resource: str) -> ServedKind:
        return next(kind for kind in self._catalog if str(kind.resource) == resource)


def _released(crd: Object) -> Object:
    finalizers = without_finalizer(crd["metadata"].get("finalizers", ()), CLEANUP)
    return {**crd, "metadata": {**crd["metadata"], "finalizers": finalizers}}
