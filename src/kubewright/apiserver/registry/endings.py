"""What ends by itself: instances of a definition that is being deleted, and old events.

Theory.      A deleted definition is held by our finalizer (``serving.CLEANUP``). We delete its
             instances, wait until the last of them is gone (they may have finalizers of their
             own), and take the finalizer away. Events are deleted an hour after their last write.
Invariants.  Idempotent: what a crash interrupts, the next start finishes.
Called by    ``server``, which runs ``Endings.run`` for as long as it lives.
"""

import asyncio
import logging
from datetime import timedelta

import orjson

from kubewright.apiserver.registry.kind import Catalog, Object, ServedKind
from kubewright.apiserver.registry.lifecycle import Wish
from kubewright.apiserver.registry.serving import CLEANUP, CRDS
from kubewright.apiserver.registry.target import IGNORE, Options, Target
from kubewright.apiserver.registry.writing import Writing
from kubewright.apiserver.store import Record, Refused, Store
from kubewright.base.clock import Clock, parse_rfc3339
from kubewright.wire.errors import ApiError

_log = logging.getLogger(__name__)

EVENT_TTL = timedelta(hours=1)
"""How long an event is kept after it was last written."""

SWEEP_SECONDS = 300.0
"""Time between two looks for old events."""

_EVENTS = "events"


class Endings:
    """The server's own housekeeping."""

    def __init__(self, store: Store, catalog: Catalog, writing: Writing, clock: Clock) -> None:
        self._store, self._catalog, self._writing, self._clock = store, catalog, writing, clock
        self._ending: set[str] = set()

    async def run(self) -> None:
        """Until cancelled, or until the store takes no more writes."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._expire_events())
            watcher = self._store.watch(str(CRDS))
            try:
                while not watcher.closed:
                    for record in self._store.scan(str(CRDS)):
                        if record.deleting and record.key not in self._ending:
                            self._ending.add(record.key)
                            tasks.create_task(self._end(record))
                    await watcher.ready()
                    watcher.take()
            finally:
                self._store.unwatch(watcher)

    async def _end(self, definition: Record) -> None:
        """Empty the collection of a definition, then let the definition go."""
        try:
            await self._empty(definition)
            target = Target(self._kind(str(CRDS)), name=definition.key)
            await self._writing.update(target, _released, Options(validation=IGNORE))
        except (ApiError, Refused) as error:
            _log.warning("cleanup of %s stopped: %s", definition.key, error)
        finally:
            self._ending.discard(definition.key)

    async def _empty(self, definition: Record) -> None:
        crd: Object = orjson.loads(definition.data)
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        kind = next(
            (k for k in self._catalog if (k.resource.group, k.resource.plural) == (group, plural)), None
        )
        watcher = self._store.watch(definition.key)
        try:
            while kind is not None and self._store.count(definition.key) and not watcher.closed:
                for record in [r for r in self._store.scan(definition.key) if not r.deleting]:
                    namespace, _, name = record.key.rpartition("/")
                    await self._delete(Target(kind, namespace, name))
                if self._store.count(definition.key):
                    await watcher.ready()
                    watcher.take()
        finally:
            self._store.unwatch(watcher)

    async def _delete(self, target: Target) -> None:
        try:
            await self._writing.delete(target, Wish(), Options())
        except ApiError as error:
            if error.code != 404:
                raise

    async def _expire_events(self) -> None:
        """The store's order is by key, so every sweep looks at all; a decode is microseconds."""
        kind = self._kind(_EVENTS)
        while not self._store.refusal:
            await self._clock.sleep(SWEEP_SECONDS)
            oldest = self._clock.now() - EVENT_TTL
            for record in [r for r in self._store.scan(_EVENTS) if _last_seen(r) < oldest.timestamp()]:
                namespace, _, name = record.key.rpartition("/")
                await self._delete(Target(kind, namespace, name))

    def _kind(self, resource: str) -> ServedKind:
        return next(kind for kind in self._catalog if str(kind.resource) == resource)


def _released(crd: Object) -> Object:
    finalizers = [each for each in crd["metadata"].get("finalizers", []) if each != CLEANUP]
    return {**crd, "metadata": {**crd["metadata"], "finalizers": finalizers}}


def _last_seen(record: Record) -> float:
    """When an event was last written, as well as it says itself (seconds since 1970)."""
    event = orjson.loads(record.data)
    series = event.get("series") or {}
    said = (
        series.get("lastObservedTime") or event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    )
    try:
        return parse_rfc3339(said).timestamp()
    except (ValueError, TypeError):
        return parse_rfc3339(event["metadata"]["creationTimestamp"]).timestamp()
