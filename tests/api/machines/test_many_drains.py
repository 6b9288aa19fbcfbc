"""Many machines drained at once on a server that takes long over each eviction. Time is virtual: what counts is
that no worker waits."""

import asyncio
import dataclasses

import pytest

from kubewright.api.core import NODE, PDB
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE
from kubewright.nodes.drain import removals
from kubewright.testing.faults import Delay, Fault
from kubewright.testing.world import World, embedded_world, short_timeouts
from kubewright.wire.http import Request

SLOW = 30.0
"""Seconds that the server takes for an eviction."""
MOST, WORKERS = 30, 10
"""Requests under way at most: fewer than the product has, so that fewer machines are too many."""
POOL = {"labels": {"app": "web"}}


class SlowEvictions:
    """What was asked of pods, and when."""

    def __init__(self) -> None:
        self.evictions: list[float] = []
        self.lists: list[str] = []

    def __call__(self, request: Request) -> Fault | None:
        if request.path == PDB.resource.path("default"):
            self.lists.append(request.path)
        if not request.path.endswith("/eviction"):
            return None
        self.evictions.append(asyncio.get_running_loop().time())
        return Delay(SLOW)

    @property
    def most_at_once(self) -> int:
        """How many evictions were under way at the same time at most."""
        return max(sum(at <= other < at + SLOW for other in self.evictions) for at in self.evictions)


def options(**seconds: float):
    quick = short_timeouts(**seconds)
    return dataclasses.replace(quick, machine=dataclasses.replace(quick.machine, workers=WORKERS))


async def busy_nodes(world: World, number: int) -> list[str]:
    """Machines with a pod each."""
    await world.deploy("many", number)
    machines = (await world.settled(number, seconds=120)).machines
    for each in machines:
        await world.run_pod(f"web-{each.metadata.name}", each.metadata.name, **POOL)
    await world.clock.sleep(1)
    return sorted(each.metadata.name for each in machines)


async def seconds_to_run(world: World, name: str) -> float:
    began = world.clock.monotonic()
    await world.make(name)
    await world.until(lambda s: name in {node.metadata.name for node in s.nodes}, "it has joined", every=0.05)
    return world.clock.monotonic() - began


async def test_a_machine_is_made_in_its_time_while_slow_evictions_are_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removals, "REQUESTS_PER_LANE", MOST)
    server, many = SlowEvictions(), MOST + 10
    async with embedded_world(options(), faults=server) as world:
        drained = await busy_nodes(world, many)
        usual = await seconds_to_run(world, "before")
        await world.delete("many")
        await world.clock.sleep(8)
        assert len(server.evictions) == MOST
        assert await seconds_to_run(world, "meanwhile") <= usual + 1

        force = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
        await world.client.patch(MACHINE, world.key(drained[0]), force)
        await world.until(lambda s: drained[0] not in s.names, "force does not wait for it", seconds=5)

        await world.until(lambda s: s.names == {"before", "meanwhile"}, "all are drained", seconds=180)
        assert server.most_at_once == MOST + 1, "another took the place of the one that force ended"
        assert len(server.evictions) == many


async def test_the_refusals_of_many_drains_cost_a_few_lists_of_budgets() -> None:
    server = SlowEvictions()
    async with embedded_world(options(drain_timeout=120), faults=server) as world:
        held = await busy_nodes(world, 40)
        body = {"minAvailable": "100%", "selector": {"matchLabels": POOL["labels"]}}
        await world.target.create(PDB, {"metadata": {"name": "web", "namespace": "default"}, "spec": body})
        await world.clock.sleep(2)
        await world.delete("many")
        await world.clock.sleep(SLOW + 10)
        assert len(server.evictions) == len(held)
        assert len(server.lists) == 1
        told = [(await world.machine(name)).status.last_operation.description for name in held]
        assert all("pod disruption budget default/web" in each for each in told)
        assert len(await world.target.list(NODE)) == len(held)
