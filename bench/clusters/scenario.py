"""The phases that are measured in each world of clusters: one cluster through its life, then many at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from bench.clusters import objects
from bench.clusters.table import Result
from bench.clusters.worlds import Clusters
from bench.meter import Meter
from bench.watcher import Watcher
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, Machine
from kubewright.api.core import NAMESPACE
from kubewright.base.clock import Clock
from kubewright.kube.cache import Change
from kubewright.kube.informer import Informers
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key

NAMED = Key("bench", "bench")
POOL = Key("bench", "bench-workers")
REST_SECONDS = 60.0
SETTLE_SECONDS = 5.0
"""Status writes that follow so soon belong to a phase."""
TIMEOUT_SECONDS = 900.0
AT_ONCE = 20
"""Requests in flight when many clusters are asked for."""


class Scenario:
    """One run in one world: ``workers`` in one cluster, then ``many`` clusters; either may be 0."""

    def __init__(self, found: Clusters, clock: Clock, workers: int, many: int) -> None:
        self._found = found
        self._client = found.world.client
        self._clock = clock
        self._workers, self._many = workers, many
        self._meter = Meter(found.world, clock, rest=SETTLE_SECONDS)
        self._informers = Informers(self._client)
        self._watcher = Watcher(self._informers, clock, MACHINE, _look)
        self._clusters: set[Key] = set()
        self._informers.get(CLUSTER).subscribe(self._changed)
        self.result = Result(found, workers, many)
        """Filled while the scenario plays."""

    async def play(self) -> None:
        """Everything in order."""
        async with self._watching():
            if self._workers:
                await self._one()
            if self._many:
                await self._hundred()

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._informers.run())
            await self._informers.wait_synced(60)
            yield
            task.cancel()

    async def _one(self) -> None:
        """One cluster, from its beginning to its end."""
        watcher, count = self._watcher, self._workers
        await self._ensure(NAMED.namespace)
        await self._phase("cluster", partial(self._create, [NAMED], 0), lambda: watcher.running == 1)
        await self._phase("up", partial(self._scale, count), lambda: watcher.running == 1 + count)
        self.result.costs["rest"] = await self._meter.at_rest(REST_SECONDS)
        await self._phase(
            "roll", self._roll, lambda: watcher.made_from(objects.NEW) == count == watcher.count - 1
        )
        self.result.beyond_surge = max(0, watcher.most - (1 + count + -(-count // 4)))
        self.result.below_floor = max(0, 1 + count - watcher.fewest_running)
        await self._phase("down", partial(self._scale, 0), lambda: watcher.count == 1)
        await self._phase("gone", self._delete, lambda: not self._clusters)

    async def _hundred(self) -> None:
        """Many clusters of 1 + 1 at once."""
        keys = [Key(f"bench-{number}", f"c{number}") for number in range(self._many)]
        for key in keys:
            await self._ensure(key.namespace)
        wanted = 2 * self._many
        await self._phase("many", partial(self._create, keys, 1), lambda: self._watcher.running == wanted)

    async def _phase(self, name: str, act: Callable[[], Awaitable[Any]], done: Callable[[], bool]) -> None:
        watcher = self._watcher

        async def begin() -> None:
            watcher.reset()
            await act()

        self.result.costs[name] = await self._meter.around(
            begin, lambda: watcher.until(done, TIMEOUT_SECONDS, name)
        )
        self.result.peaks.update(self._meter.peaks())

    async def _ensure(self, namespace: str) -> None:
        with suppress(AlreadyExists):
            await self._client.create(NAMESPACE, {"metadata": {"name": namespace}})

    async def _create(self, keys: Iterable[Key], workers: int) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def create(key: Key) -> None:
            async with slots:
                for kind, body in objects.cluster(key.namespace, key.name, workers):
                    await self._client.create(kind, body)

        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(create(key))

    async def _scale(self, replicas: int) -> None:
        await self._client.patch(MACHINE_DEPLOYMENT, POOL, {"spec": {"replicas": replicas}})

    async def _roll(self) -> None:
        patch = {"spec": {"template": {"spec": {"version": objects.NEW}}}}
        await self._client.patch(MACHINE_DEPLOYMENT, POOL, patch)

    async def _delete(self) -> None:
        await self._client.delete(CLUSTER, NAMED)

    def _changed(self, change: Change[Any]) -> None:
        if change.after() is None:
            self._clusters.discard(change.key)
        else:
            self._clusters.add(change.key)


def _look(machine: Machine) -> tuple[str, str]:
    return machine.status.phase, machine.spec.version or ""
