"""Nodes for the real server, made as kubelets would: one when a machine's VM is on record; and pods on nodes.

The bench acts for the cloud's VMs here, so that the measured process holds controllers alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kubewright.api.core import NODE, POD
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.base.clock import SystemClock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.kube import config
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

AT_ONCE = 50


@asynccontextmanager
async def nodes_of(kubeconfig: Path) -> AsyncIterator[None]:
    """Nodes are made for the machines of this cluster that have VMs."""
    clock = SystemClock()
    client = Client(config.load(kubeconfig, clock=clock), clock)
    informers = Informers(client)
    tasks = [asyncio.create_task(each.run()) for each in (informers, NodeMaker(client, informers))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.transport.close()


class NodeMaker:
    """Makes a ready Node for each Machine that has a providerID and none yet."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._todo: asyncio.Queue[Machine] = asyncio.Queue(1_000_000)
        self._made: set[str] = set()
        informers.get(MACHINE).subscribe(self._changed)

    async def run(self) -> None:
        """Make nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    def _changed(self, change: Change[Machine]) -> None:
        machine = change.after()
        if machine is None or machine.metadata.deleting or not machine.spec.provider_id:
            return
        if machine.metadata.uid not in self._made:
            self._made.add(machine.metadata.uid)
            self._todo.put_nowait(machine)

    async def _work(self) -> None:
        while True:
            machine = await self._todo.get()
            for _ in range(5):
                try:
                    await self._client.create(NODE, self._node(machine))
                    break
                except AlreadyExists:
                    break
                except KubewrightError:
                    await self._client.clock.sleep(0.2)

    def _node(self, machine: Machine) -> dict[str, Any]:
        name = names.node_name(machine.metadata.labels)
        return {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"providerID": machine.spec.provider_id},
            "status": {"conditions": [_ready(self._client, "True")]},
        }


async def fill(client: Client, namespace: str, pods: int) -> None:
    """Bind so many pods to each node, of a ReplicaSet that replaces none. They end as soon as evicted."""
    nodes = await client.list(NODE)
    bodies = (_pod(node.metadata.name, number) for node in nodes for number in range(pods))

    async def work() -> None:
        for body in bodies:
            await client.create(POD, body, namespace=namespace)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


def _pod(node: str, number: int) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "bench",
        "uid": "bench",
        "controller": True,
    }
    container = {"name": "main", "image": "app"}
    return {
        "metadata": {"name": f"{node}-{number}", "ownerReferences": [owner]},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


async def silence(client: Client, name: str, *, silent: bool) -> None:
    """Say that a node's kubelet fell silent, or is back, as the node life cycle controller would."""
    conditions = [_ready(client, "Unknown" if silent else "True")]
    await client.patch(
        NODE,
        Key("", name),
        {"status": {"conditions": conditions}},
        subresource="status",
        content_type=STRATEGIC_PATCH,
    )


def _ready(client: Client, status: str) -> dict[str, str]:
    now = rfc3339(client.clock.now())
    return {"type": "Ready", "status": status, "reason": "Bench", "lastHeartbeatTime": now,
            "lastTransitionTime": now}  # fmt: skip
