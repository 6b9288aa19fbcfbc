"""A reserve on the embedded server, with all controllers and the simulated cloud: a burst finds its room at
once, without a new VM, and the reserve is filled again; drains wait for no placeholder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.api.reserves.reserving import SPARE, burst, placed, placeholders, ready, reserve

from kubewright.api.capacity.v1alpha1 import (
    CAPACITY_RESERVE,
    OWNER_LABEL,
    PLACE,
    PLACEHOLDER_LABEL,
    PRIORITY_CLASS,
)
from kubewright.api.core import PDB
from kubewright.testing.world import SHORT_TIMEOUTS, World, embedded_world
from kubewright.wire.errors import Invalid

OPTIONS = replace(SHORT_TIMEOUTS, controllers=("*", "reserve"))
EVERYTHING = {"operator": "Exists"}


@asynccontextmanager
async def a_pool(size: int = 2) -> AsyncIterator[World]:
    """All controllers, and a pool of nodes with 2 CPUs and 4Gi each."""
    async with embedded_world(OPTIONS) as world:
        await world.deploy("pool", size)
        await world.settled(size)
        yield world


async def test_a_burst_has_nodes_before_any_new_vm_and_the_reserve_is_filled_again() -> None:
    async with a_pool() as world:
        await reserve(world, total={"cpu": "4"})  # all that the pool has
        await ready(world, 8)
        assert {pod.spec.priority for pod in await placeholders(world)} == {-1}
        await burst(world, 5)
        assert await placed(world, 5) < 5
        assert len(world.cloud.vms) == 2
        found = await ready(world, 3, pending=5)
        (condition,) = found.status.conditions
        assert (condition.status, condition.reason) == ("False", "PlaceholdersPending")
        assert found.status.free == {"cpu": "1500m"}
        await world.change("pool", {"replicas": 4})  # as an autoscaler does for pods that wait
        found = await ready(world, 8)
        assert found.status.free == {"cpu": "4"}
        told = {each.reason for each in await world.events("spare")}
        assert told == {"Resized", "Reserved", "PlaceholdersPending"}


async def test_reserves_do_not_preempt_each_other() -> None:
    async with a_pool(1) as world:
        await reserve(world, replicas=4)
        await ready(world, 4)
        before = {pod.metadata.uid for pod in await placeholders(world)}
        await reserve(world, name="higher", replicas=4, priority=0)
        await world.clock.sleep(30)
        after = {pod.metadata.uid for pod in await placeholders(world) if pod.spec.node_name}
        assert after == before


async def test_a_drain_waits_for_no_placeholder_even_where_a_budget_keeps_them() -> None:
    async with a_pool(1) as world:
        await reserve(world, replicas=4)
        await ready(world, 4)
        selector = {"matchExpressions": [{"key": PLACEHOLDER_LABEL, "operator": "Exists"}]}
        budget = {"metadata": {"name": "all", "namespace": PLACE}, "spec": {"maxUnavailable": 0}}
        await world.client.create(PDB, {**budget, "spec": {**budget["spec"], "selector": selector}})
        await world.clock.sleep(1)
        ((victim,),) = ((await world.look()).machines,)
        await world.unmake(victim.metadata.name)
        await world.until(lambda seen: victim.metadata.name not in seen.names, "it is gone", seconds=10)
        await ready(world, 4)  # on the machine that took its place
        said = [each.message for each in await world.events(victim.metadata.name)]
        assert any(each.endswith(": 4 to delete as placeholders") for each in said)
        assert not any("evict" in each for each in said), said


async def test_a_percentage_follows_the_pool_up_at_once_and_down_after_a_while() -> None:
    async with a_pool() as world:
        await reserve(world, percent={"cpu": 25})
        await ready(world, 2)
        await world.change("pool", {"replicas": 4})
        await ready(world, 4)
        await world.change("pool", {"replicas": 2})
        await world.settled(2)
        found = await ready(world, 4)
        assert (found.status.replicas, found.status.lower_to, found.status.nodes) == (4, 2, 2)
        await world.clock.sleep(270)
        await ready(world, 4)
        found = await ready(world, 2)
        assert found.status.lower_since is None


async def test_another_priority_and_unit_replace_all_of_it() -> None:
    async with a_pool() as world:
        await reserve(world, replicas=2)
        await ready(world, 2)
        change = {
            "spec": {"priority": -7, "unit": {"cpu": "1", "memory": "1Gi"}, "tolerations": [EVERYTHING]}
        }
        await world.client.patch(CAPACITY_RESERVE, world.key(SPARE), change)
        await world.clock.sleep(1)
        found = await ready(world, 2)
        assert found.status.free == {"cpu": "2", "memory": "2Gi"}
        assert {pod.spec.priority for pod in await placeholders(world)} == {-7}
        assert [each.value for each in await world.client.list(PRIORITY_CLASS, labels=OWNER_LABEL)] == [-7]


async def test_a_reserve_takes_all_of_it_along() -> None:
    async with a_pool(1) as world:
        await reserve(world, replicas=2)
        await ready(world, 2)
        await world.client.delete(CAPACITY_RESERVE, world.key(SPARE))
        await world.clock.sleep(5)
        assert await world.client.list(CAPACITY_RESERVE) == []
        assert await world.client.list(PRIORITY_CLASS, labels=OWNER_LABEL) == []
        assert await placeholders(world) == []


async def test_what_no_node_can_hold_is_told_and_what_makes_no_sense_is_refused() -> None:
    async with a_pool(1) as world:
        await reserve(world, unit={"cpu": "3"}, replicas=1)
        found = await ready(world, 0, pending=1)
        (condition,) = found.status.conditions
        assert condition.reason == "UnitFitsNoNode"
        assert condition.message.endswith("even if it is empty (cpu: at most 2)")
        with pytest.raises(Invalid, match=r"spec\.priority: Invalid value: 5: "):
            await reserve(world, name="above", replicas=1, priority=5)
        with pytest.raises(Invalid, match="replicas and machines are set; only one may say"):
            await reserve(world, name="both", replicas=1, machines=1)
