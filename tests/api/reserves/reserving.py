"""What users do with reserved capacity, and what they wait for: in a world with nodes of 2 CPUs and 4Gi."""

from collections.abc import Sequence
from typing import Any

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, PLACE, PLACEHOLDER_LABEL, CapacityReserve
from kubewright.api.core import POD, Pod
from kubewright.testing.world import World

SPARE = "spare"


async def reserve(world: World, *, name: str = SPARE, **spec: Any) -> None:
    body = {"metadata": {"name": name, "namespace": world.namespace}}
    await world.client.create(CAPACITY_RESERVE, {**body, "spec": {"unit": {"cpu": "500m"}, **spec}})


async def placeholders(world: World) -> Sequence[Pod]:
    return await world.client.list(POD, PLACE, labels=PLACEHOLDER_LABEL)


async def ready(world: World, count: int, *, pending: int = 0, seconds: float = 60) -> CapacityReserve:
    """Wait until so many placeholders hold room, and so many wait."""
    deadline = world.clock.monotonic() + seconds
    while True:
        found = await world.client.get(CAPACITY_RESERVE, world.key(SPARE))
        status = found.status
        if (status.ready_replicas, status.pending_replicas) == (count, pending):
            return found
        assert world.clock.monotonic() < deadline, f"not {count} and {pending}: {status}"
        await world.clock.sleep(0.5)


async def burst(world: World, count: int, cpu: str = "500m") -> None:
    """A workload that names no PriorityClass."""
    labels = {"app": "burst"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    await world.client.create(
        DEPLOYMENT, {"metadata": {"name": "burst", "namespace": "default"}, "spec": spec}
    )


async def placed(world: World, count: int) -> float:
    """Wait until all pods of the burst have a node; how many seconds that took."""
    began = world.clock.monotonic()
    while True:
        pods = await world.client.list(POD, "default", labels="app=burst")
        if sum(bool(pod.spec.node_name) for pod in pods) == count == len(pods):
            return world.clock.monotonic() - began
        assert world.clock.monotonic() < began + 60, [pod.status.conditions for pod in pods]
        await world.clock.sleep(0.1)
