"""Deployments whose machines are updated where they are: by the controller's choice, by a user's, called off, scaled.

An agent plays what runs on the nodes: it labels those that are ready for their update with a result.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.api.machines.ways import Way

from kubewright.api.core import NODE
from kubewright.api.machine import names
from kubewright.api.machine.names import CANDIDATE_LABEL, SELECTED_LABEL, UPDATE_RESULT_LABEL
from kubewright.api.machine.v1alpha1 import MACHINE_DEPLOYMENT, MACHINE_SET, Machine
from kubewright.testing.stage import stage
from kubewright.testing.update_agent import Agent, label
from kubewright.testing.world import Snapshot, World, embedded_world, short_timeouts

AUTO = {"maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto"}
MANUAL = {**AUTO, "orchestrationType": "Manual"}


def in_place(**changes: Any) -> dict[str, Any]:
    return {"strategy": {"type": "InPlaceUpdate", "inPlaceUpdate": {**AUTO, **changes}}}


@asynccontextmanager
async def pool(size: int, **strategy: Any) -> AsyncIterator[tuple[World, Agent, dict[str, str]]]:
    """A pool of small machines with an agent on their nodes, and the uids of its machines by name."""
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("pool", size, **in_place(**strategy))
        found = await world.settled(size)
        agent = Agent(world)
        task = asyncio.create_task(agent.run())
        yield world, agent, {m.metadata.name: m.metadata.uid for m in found.machines}
        task.cancel()


def updated(size: int, machine_class: str = "large") -> Callable[[Snapshot], bool]:
    """All machines run, are of the class, and have been released: nothing of the update is left on them."""

    def met(found: Snapshot) -> bool:
        labels = [each.metadata.labels for each in (*found.nodes, *found.machines)]
        left = (CANDIDATE_LABEL, SELECTED_LABEL, UPDATE_RESULT_LABEL)
        free = not any(node.spec.unschedulable or node.spec.taints for node in found.nodes)
        return (
            found.settled(size, machine_class)
            and free
            and not any(k in held for held in labels for k in left)
        )

    return met


def uids(machines: tuple[Machine, ...]) -> dict[str, str]:
    return {m.metadata.name: m.metadata.uid for m in machines}


async def sizes(world: World) -> dict[str, tuple[int, int]]:
    """Size and machines of each set, by the class of its template."""
    found = await world.client.list(MACHINE_SET, world.namespace)
    return {s.spec.template.spec.machine_class.name: (s.spec.replicas, s.status.replicas) for s in found}


async def progressing(world: World) -> str:
    found = await world.client.get(MACHINE_DEPLOYMENT, world.key("pool"))
    return next((c.reason for c in found.status.conditions if c.type == "Progressing"), "")


async def test_all_machines_are_updated_one_by_one_and_none_is_replaced() -> None:
    async with pool(3) as (world, agent, before):
        vms = set(world.cloud.vms)
        await world.roll("pool", "large")
        found = await world.until(updated(3), "all are updated", seconds=300)
        assert uids(found.machines) == before
        assert set(world.cloud.vms) == vms
        assert (sorted(agent.worked), agent.out_of_service) == (sorted(before), 1)
        await world.clock.sleep(20)
        assert await sizes(world) == {"small": (0, 0), "large": (3, 3)}
        assert await progressing(world) == "NewMachineSetAvailable"
        assert (await world.look()).settled(3, "large")


async def test_half_of_them_at_a_time_where_the_bounds_allow_it() -> None:
    async with pool(4, maxUnavailable="50%") as (world, agent, before):
        await world.roll("pool", "large")
        found = await world.until(updated(4), "all are updated", seconds=300)
        assert uids(found.machines) == before
        assert agent.out_of_service == 2


async def test_with_a_surge_a_new_machine_comes_first_and_the_last_old_one_goes() -> None:
    async with pool(3, maxSurge=1, maxUnavailable=0) as (world, agent, before):
        await world.roll("pool", "large")
        found = await world.until(updated(3), "all are of the new class", seconds=300)
        kept = uids(found.machines).items() & before.items()
        assert (len(kept), agent.out_of_service) == (2, 1)
        await world.clock.sleep(20)
        assert await sizes(world) == {"small": (0, 0), "large": (3, 3)}


async def test_manually_only_the_nodes_are_updated_that_a_user_selects() -> None:
    async with pool(3, **MANUAL) as (world, agent, before):
        await world.roll("pool", "large")
        await world.clock.sleep(30)
        nodes = await world.target.list(NODE)
        assert [CANDIDATE_LABEL in node.metadata.labels for node in nodes] == [True] * 3
        assert agent.worked == []
        first, *others = sorted(before)
        await label(world, first, **{SELECTED_LABEL: "true"})
        await world.until(lambda s: classes(s)[first] == "large", "it is updated", seconds=120)
        await world.clock.sleep(20)
        assert await sizes(world) == {"small": (2, 2), "large": (1, 1)}
        for name in others:
            await label(world, name, **{SELECTED_LABEL: "true"})
        found = await world.until(updated(3), "all are updated", seconds=120)
        assert uids(found.machines) == before


def classes(found: Snapshot) -> dict[str, str]:
    return {m.metadata.name: m.spec.machine_class.name for m in found.machines}


async def test_a_failed_update_holds_up_the_others_until_it_is_tried_again() -> None:
    async with pool(3) as (world, agent, before):
        agent.result = lambda _node: "failed"
        await world.roll("pool", "large")
        await world.until(lambda s: any("failed" in n.metadata.labels.get(UPDATE_RESULT_LABEL, "") for n in s.nodes),
                          "one fails", seconds=60)  # fmt: skip
        agent.result = lambda _node: "successful"
        await world.clock.sleep(2)
        (failed,) = agent.worked
        await label(world, failed, **{UPDATE_RESULT_LABEL: None})
        found = await world.until(updated(3), "all are updated", seconds=300)
        assert uids(found.machines) == before


async def test_a_machine_whose_update_fails_for_good_is_replaced_by_one_of_the_new_template() -> None:
    async with pool(3) as (world, agent, before):
        bad = min(before)
        agent.result = lambda node: "failed" if node == bad else "successful"
        await world.roll("pool", "large")
        found = await world.until(updated(3), "all are of the new class", seconds=900)
        assert before.items() - uids(found.machines).items() == {(bad, before[bad])}


async def test_going_back_in_the_middle_updates_those_that_had_been_updated() -> None:
    async with pool(3) as (world, agent, before):
        await world.roll("pool", "large")
        await world.until(lambda s: "large" in classes(s).values(), "one is updated", seconds=120)
        await world.roll("pool", "small")
        found = await world.until(updated(3, "small"), "all are of the old class", seconds=300)
        assert uids(found.machines) == before
        assert agent.out_of_service <= 2  # what the agent had begun goes on beside the way back
        await world.clock.sleep(20)
        assert await sizes(world) == {"small": (3, 3), "large": (0, 0)}


async def test_another_template_in_the_middle_updates_what_was_updated_to_the_first_one() -> None:
    async with pool(2) as (world, agent, before):
        await world.roll("pool", "large")
        await world.until(lambda _s: bool(agent.worked), "the agent works on one", seconds=60)
        await world.change("pool", {"template": {"metadata": {"labels": {"pool": "pool", "os": "two"}}}})
        await world.until(updated(2), "all are updated", seconds=300)
        found = await world.look()
        assert uids(found.machines) == before
        assert [m.metadata.labels["os"] for m in found.machines] == ["two"] * 2
        assert len(agent.worked) == 3  # the first one twice


async def test_a_pool_is_scaled_up_and_down_in_the_middle() -> None:
    async with pool(3) as (world, _agent, _before):
        await world.roll("pool", "large")
        await world.until(lambda s: "large" in classes(s).values(), "one is updated", seconds=120)
        await world.change("pool", {"replicas": 5})
        await world.until(updated(5), "five are of the new class", seconds=600)
        await world.roll("pool", "small")
        await world.until(lambda s: "small" in classes(s).values(), "one is updated", seconds=120)
        await world.change("pool", {"replicas": 2})
        await world.until(updated(2, "small"), "two are of the old class", seconds=600)


async def test_a_paused_pool_moves_no_machine() -> None:
    async with pool(2) as (world, agent, before):
        await world.roll("pool", "large")
        await world.until(lambda _s: bool(agent.worked), "the agent works on one", seconds=60)
        await world.change("pool", {"paused": True})
        await world.clock.sleep(60)
        assert set(classes(await world.look()).values()) == {"small"}
        await world.change("pool", {"paused": False})
        found = await world.until(updated(2), "all are updated", seconds=300)
        assert uids(found.machines) == before


async def test_a_pool_is_deleted_in_the_middle() -> None:
    async with pool(3) as (world, agent, _before):
        await world.roll("pool", "large")
        await world.until(lambda _s: bool(agent.worked), "the agent works on one", seconds=60)
        await world.delete("pool")
        await world.until(lambda s: not s.machines, "all go", seconds=300)
        assert await world.left() == []


async def test_another_strategy_in_the_middle_replaces_the_machines_that_are_left() -> None:
    async with pool(3) as (world, _agent, before):
        await world.roll("pool", "large")
        await world.until(lambda s: "large" in classes(s).values(), "one is updated", seconds=120)
        await world.change("pool", {"strategy": {"type": "Recreate", "inPlaceUpdate": None}})
        found = await world.until(lambda s: s.settled(3, "large"), "all are of the new class", seconds=300)
        assert len(uids(found.machines).items() & before.items()) >= 1
        assert all(names.SCALE_UP_DISABLED_LABEL not in s.metadata.labels
                   for s in await world.client.list(MACHINE_SET, world.namespace)
                   if s.spec.replicas)  # fmt: skip


async def test_a_node_on_which_a_write_is_refused_holds_up_no_other() -> None:
    """A webhook lets the controller put no taint of a rollout on one node."""
    async with stage(short_timeouts()) as here:
        world, way = here.world, Way(here.target)
        async with replace(here, target=way).process():
            await world.deploy("pool", 3, **in_place())
            names_of = sorted(node.metadata.name for node in (await world.settled(3)).nodes)
            last = names_of[-1]
            way.refuses = lambda request: (
                request.path.endswith(f"/nodes/{last}") and b"Prefer" in request.body
            )
            agent = Agent(world)
            task = asyncio.create_task(agent.run())
            await world.roll("pool", "large")
            await world.until(lambda s: list(classes(s).values()).count("large") >= 2, "others", seconds=300)
            task.cancel()
