"""The phases that are measured in each world: up, silence, rest, an update of all VMs, roll, down."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from statistics import median
from typing import Any

from bench.meter import Meter
from bench.nodes import NodeMaker, fill, silence
from bench.process import usage
from bench.requests import Asked, events, ours, total, writes
from bench.table import Phase, Result
from bench.watcher import Watcher
from bench.worlds import PRODUCT, World
from kubewright.api.core import NAMESPACE, NODE, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.names import APPLIED_SPEC_ANNOTATION
from kubewright.api.machine.names import Phase as MachinePhase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, Machine
from kubewright.base.clock import Clock
from kubewright.kube.informer import Informers
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key, Resource

NAME = Key("bench", "bench")
CRDS = dynamic(
    Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
)
TIMEOUT_SECONDS = 900.0
SAMPLE = 50
MARK, UPDATED = "changed-while-it-runs", "bench-a, changed"
"""A tag, and what machines are made from whose VMs have it."""
REST_SECONDS = 60.0


class Scenario:
    """One run in one world with ``machines`` machines; ``pods``: on each node when they are deleted."""

    def __init__(self, world: World, clock: Clock, machines: int, pods: int = 0) -> None:
        self._world = world
        self._clock = clock
        self._count = machines
        self._informers = Informers(world.client)
        self._watcher = Watcher(self._informers, clock, MACHINE, _look)
        self._meter = Meter(world, clock)
        self._nodes = NodeMaker(world.client, self._informers) if world.nodes_are_ours else None
        self._pods = pods
        self.result = Result(world.name, machines, pods)
        """Filled while the scenario plays."""
        self._surge = -(-machines // 4)
        self._slack = machines // 4

    async def play(self) -> None:
        """Everything in order."""
        async with asyncio.TaskGroup() as group:
            await self._prepare()
            tasks = [group.create_task(self._informers.run())]
            if self._nodes is not None:
                tasks.append(group.create_task(self._nodes.run()))
            await self._informers.wait_synced(60)
            await self._told()
            for task in tasks:
                task.cancel()

    async def _told(self) -> None:
        watcher, count, result = self._watcher, self._count, self.result
        await self._phase("create", self._create, lambda: watcher.running == count, limit=count)
        result.unknown_p50 = await self._silence()
        result.requests_per_minute = await self._rest()
        updated = partial(self._all_from, UPDATED)
        await self._phase("update", self._update, updated, limit=count, floor=count)
        limit = count + self._surge
        await self._phase("roll", self._roll, self._rolled, limit=limit, floor=count - self._slack)
        await fill(self._world.client, "default", self._pods)
        await self._phase("delete", self._delete, lambda: watcher.count == 0, limit=limit)
        result.left_behind = len(await self._world.client.list(NODE))

    async def _phase(
        self,
        name: str,
        act: Callable[[], Awaitable[Any]],
        done: Callable[[], bool],
        *,
        limit: int,
        floor: int = 0,
    ) -> None:
        watcher = self._watcher

        async def begin() -> None:
            watcher.reset()
            await act()

        cost = await self._meter.around(begin, lambda: watcher.until(done, TIMEOUT_SECONDS, name))
        asked = self._ours(cost.asked)
        self.result.phases[name] = Phase(
            cost.seconds, writes(asked), total(asked), cost.cpu[PRODUCT],
            beyond_surge=max(0, watcher.most - limit),
            below_floor=max(0, floor - watcher.fewest_running) if floor else 0,
            events=events(asked),
            asked=asked,
        )  # fmt: skip
        self.result.peak = usage(self._world.pids[PRODUCT]).peak

    def _ours(self, asked: Asked) -> Asked:
        return ours(asked, without_kubelets=not self._world.nodes_are_ours)

    async def _prepare(self) -> None:
        client = self._world.client
        for crd in crds():
            await self._ensure(client.create(CRDS, crd))
        await self._ensure(client.create(NAMESPACE, {"metadata": {"name": NAME.namespace}}))
        await self._clock.sleep(2.0)
        secret = {
            "metadata": {"name": "bench", "namespace": NAME.namespace},
            "stringData": {"userData": "#!"},
        }
        await self._ensure(client.create(SECRET, secret))
        for name in ("bench-a", "bench-b"):
            made = {
                "metadata": {"name": name, "namespace": NAME.namespace},
                "provider": "sim",
                "providerSpec": {},
                "secretRef": {"name": "bench", "namespace": NAME.namespace},
            }
            await self._ensure(client.create(MACHINE_CLASS, made))
        await self._clock.sleep(self._world.settles)

    async def _ensure(self, creation: Awaitable[Any]) -> None:
        with suppress(AlreadyExists):
            await creation

    async def _create(self) -> None:
        labels = {"pool": "bench"}
        body = {
            "metadata": {"name": NAME.name, "namespace": NAME.namespace},
            "spec": {
                "replicas": self._count,
                "selector": {"matchLabels": labels},
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                },
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"class": {"kind": "MachineClass", "name": "bench-a"}},
                },
            },
        }
        await self._world.client.create(MACHINE_DEPLOYMENT, body)

    async def _roll(self) -> None:
        patch = {"spec": {"template": {"spec": {"class": {"name": "bench-b"}}}}}
        await self._world.client.patch(MACHINE_DEPLOYMENT, NAME, patch)

    def _rolled(self) -> bool:
        return self._all_from("bench-b")

    async def _update(self) -> None:
        """The class's tags change, which the driver can apply to a VM that runs."""
        patch = {"providerSpec": {"tags": {"vm": {"bench": MARK}}}}
        await self._world.client.patch(MACHINE_CLASS, Key(NAME.namespace, "bench-a"), patch)

    def _all_from(self, name: str) -> bool:
        return self._watcher.made_from(name) == self._watcher.count == self._count

    async def _delete(self) -> None:
        await self._world.client.delete(MACHINE_DEPLOYMENT, NAME)

    async def _rest(self) -> float:
        cost = await self._meter.at_rest(REST_SECONDS)
        return total(self._ours(cost.asked)) / (cost.seconds / 60)

    async def _silence(self) -> float:
        """A sample of nodes falls silent, one after another: how long until their machines say Unknown."""
        client, watcher, waits = self._world.client, self._watcher, []
        for node in (await client.list(NODE))[:SAMPLE]:
            name = node.metadata.name
            moment = (Key(NAME.namespace, name), MachinePhase.UNKNOWN.value)
            began = self._clock.monotonic()
            await silence(client, name, silent=True)
            await watcher.until(partial(watcher.became.__contains__, moment), 30, f"{name} is Unknown")
            waits.append(watcher.became[moment] - began)
            await silence(client, name, silent=False)
        await watcher.until(lambda: watcher.running == self._count, 60, "all machines recover")
        return median(waits)


def _look(machine: Machine) -> tuple[str, str]:
    applied = machine.metadata.annotations.get(APPLIED_SPEC_ANNOTATION, "")
    made_from = UPDATED if MARK in applied else machine.spec.machine_class.name
    return machine.status.current_status.phase, made_from
