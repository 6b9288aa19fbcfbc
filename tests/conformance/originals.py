"""Ours beside the original machine-controller-manager, which is played by its Leases, for tests of who works when.

The original is what its client-go writes and waits for, byte by byte of the wire: whole objects by PUT, its
host's name, 15 s, 10 s and 2 s. Called by ``test_leases`` and ``test_from_mcm``.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kubewright.api.core import LEASE
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election
from kubewright.kube.scope import Namespaces
from kubewright.machines.world import Half
from kubewright.providers.sim.spec import kubelet_settings
from kubewright.runtime.lease import WHOLE, Shard
from kubewright.testing.stage import Borrowed, Process
from kubewright.testing.world import SHORT_TIMEOUTS, World
from kubewright.wire.errors import AlreadyExists, Conflict, NotFound
from kubewright.wire.gvk import Key


class Original:
    """A candidate for one Lease as client-go's LeaderElector is one, with its LeaseLock."""

    def __init__(self, world: World, half: Half) -> None:
        self.leads = False
        self._world, self._name = world, half.value
        self._observed: dict[str, Any] = {}
        self._at = 0.0

    async def run(self) -> None:
        while True:
            with suppress(Conflict, AlreadyExists):
                self.leads = await self._acquires_or_renews()
            await self._world.clock.sleep(2)

    async def _acquires_or_renews(self) -> bool:
        now = _micro(self._world.clock.now())
        record = {
            "holderIdentity": "mcm-0",
            "leaseDurationSeconds": 15,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        path = LEASE.resource.path(self._world.namespace, self._name)
        try:
            lease = await self._send("GET", path)
        except NotFound:
            body = {
                "kind": "Lease",
                "apiVersion": "coordination.k8s.io/v1",
                "metadata": {"name": self._name, "namespace": self._world.namespace},
                "spec": record,
            }
            await self._send("POST", LEASE.resource.path(self._world.namespace), body)
            return True
        old = lease["spec"]
        if old != self._observed:
            self._observed, self._at = old, self._world.clock.monotonic()
        ours = old.get("holderIdentity") == "mcm-0"
        if old.get("holderIdentity") and not ours and self._at + 15 > self._world.clock.monotonic():
            return False
        transitions = old.get("leaseTransitions", 0)
        record |= {"leaseTransitions": transitions, "acquireTime": old["acquireTime"]} if ours else {}
        record |= {} if ours else {"leaseTransitions": transitions + 1}
        await self._send("PUT", path, {**lease, "spec": record})
        return True

    async def _send(self, method: str, path: str, body: Any = None) -> Any:
        client = self._world.client
        request = client.request(method, path, json.dumps(body).encode() if body else b"")
        return json.loads((await client.send(request)).body)


def _micro(moment: datetime) -> str:
    """As metav1.MicroTime: always six digits."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class Scene:
    """A world without controllers, and how to start some, or the original beside them."""

    world: World

    @asynccontextmanager
    async def ours(self, controllers: str = "*", shard: Shard = WHOLE) -> AsyncIterator[Process]:
        """A process of ours, elected by Leases in the machines' namespace."""
        world, stop = self.world, asyncio.Event()
        only = Namespaces((world.namespace,))
        options = replace(
            SHORT_TIMEOUTS, namespaces=only, controllers=tuple(controllers.split(",")), shard=shard
        )
        driver = Borrowed(world.cloud, kubelet_settings(options.driver_options))
        election = Election(namespace=world.namespace)
        work = run_with(world.client, world.target, driver, options, election=election, stop=stop)
        process = Process(asyncio.create_task(work), stop)
        try:
            yield process
        finally:
            await process.end()
        process.task.result()

    @asynccontextmanager
    async def original(self, half: Half) -> AsyncIterator[Original]:
        """MCM's candidate; it is killed at the end of the block, without releasing its Lease."""
        candidate = Original(self.world, half)
        task = asyncio.create_task(candidate.run())
        try:
            yield candidate
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def holders(self, shard: Shard = WHOLE) -> list[str]:
        """Who holds the two Leases, or those of a shard, without what makes the name of a process of ours unique."""
        found = []
        for half in Half:
            name = half.value if shard.whole else shard.lease(half)
            lease = await self.world.client.get(LEASE, Key(self.world.namespace, name))
            found.append("ours" if "_" in (holder := lease.spec.holder_identity or "") else holder)
        return found
