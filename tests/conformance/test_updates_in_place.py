"""Machines that are updated where they are, on the embedded server and on a real Kubernetes; the test plays the agent."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from kubewright.api.machine.names import CANDIDATE_LABEL, SELECTED_LABEL, UPDATE_RESULT_LABEL
from kubewright.api.machine.v1alpha1 import MACHINE_SET
from kubewright.testing.update_agent import Agent
from kubewright.testing.world import Snapshot, World

NewWorld = Callable[[], AbstractAsyncContextManager[World]]
STRATEGY = {
    "type": "InPlaceUpdate",
    "inPlaceUpdate": {"maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto"},
}


async def test_a_pool_is_updated_in_place_and_back_and_keeps_its_machines(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 3, strategy=STRATEGY)
        before = await world.settled(3)
        await world.run_pod("web", before.machines[0].metadata.name)
        agent = Agent(world, seconds=0.5)
        at_work = asyncio.create_task(agent.run())
        for machine_class in ("large", "small"):
            await world.roll("workers", machine_class)
            found = await world.until(updated(machine_class), f"all are {machine_class}", seconds=120)
            assert found.uids == before.uids
        at_work.cancel()
        assert (len(agent.worked), agent.out_of_service) == (6, 1)
        await world.clock.sleep(3)
        sets = await world.client.list(MACHINE_SET, world.namespace)
        assert sorted((s.spec.replicas, s.status.replicas) for s in sets) == [(0, 0), (3, 3)]


def updated(machine_class: str) -> Callable[[Snapshot], bool]:
    """All machines run and are of the class, and nothing of the update is left on them and their nodes."""

    def met(found: Snapshot) -> bool:
        held = [each.metadata.labels for each in (*found.nodes, *found.machines)]
        marks = (CANDIDATE_LABEL, SELECTED_LABEL, UPDATE_RESULT_LABEL)
        free = not any(node.spec.unschedulable for node in found.nodes)
        return (
            found.settled(3, machine_class)
            and free
            and not any(m in labels for labels in held for m in marks)
        )

    return met
