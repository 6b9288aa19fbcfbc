"""What ``kubectl describe machine`` and our log tell of a machine's life."""

import structlog
from structlog.testing import capture_logs

from kubewright.api.core import EVENT
from kubewright.api.machine.names import Phase
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts


async def events_about(world: World, name: str) -> list[str]:
    """Reasons of the events about a machine, in order."""
    events = await world.client.list(EVENT, world.namespace)
    mine = [event for event in events if event.involved_object.name == name]
    return [event.reason for event in sorted(mine, key=lambda event: int(event.metadata.resource_version))]


async def life(world: World, name: str) -> None:
    await world.make(name)
    await world.until(in_phase(Phase.RUNNING), "it runs")
    await world.run_pod("web", name, terminationGracePeriodSeconds=3)
    await world.clock.sleep(2)
    await world.unmake(name)
    await world.until(lambda s: not s.machines, "it is gone")
    await world.clock.sleep(2)


async def test_a_quick_life_is_reported_in_few_events() -> None:
    async with embedded_world(short_timeouts()) as world:
        await life(world, "m1")
        assert await events_about(world, "m1") == ["Joined", "Draining", "Deleted"]
        events = {e.reason: e for e in await world.client.list(EVENT, world.namespace)}
        assert {e.type for e in events.values()} == {"Normal"}
        assert "successfully joined the cluster in " in events["Joined"].message
        assert "sim:///" in events["Joined"].message
        assert "1 to evict" in events["Draining"].message
        assert "sim:///" in events["Deleted"].message


async def test_a_slow_creation_is_reported_step_by_step() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("slowboot-1")
        await world.until(in_phase(Phase.RUNNING), "it runs", seconds=400)
        await world.clock.sleep(2)
        assert await events_about(world, "slowboot-1") == ["VMCreated", "Joined"]
        await world.make("hang-1")
        await world.until(lambda s: "Pending" in s.phases, "it says that it is being made")
        await world.clock.sleep(2)
        assert await events_about(world, "hang-1") == ["CreatingVM"]
        await world.unmake("hang-1")


async def test_a_node_that_falls_silent_and_comes_back_is_reported() -> None:
    async with embedded_world(short_timeouts(health_timeout=600)) as world:
        await world.make("m1")
        await world.until(in_phase(Phase.RUNNING), "it runs")
        vm = next(iter(world.cloud.vms.values()))
        world.cloud.kill(vm.id)
        await world.until(in_phase(Phase.UNKNOWN), "it is Unknown")
        world.cloud.restart(vm.id)
        await world.until(in_phase(Phase.RUNNING), "it is well again")
        await world.clock.sleep(2)
        assert await events_about(world, "m1") == ["Joined", "MachineUnknown", "Recovered"]


async def test_the_log_names_the_machine_at_each_milestone() -> None:
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        async with embedded_world(short_timeouts()) as world:
            await life(world, "m1")
    mine = [line for line in lines if line.get("machine") == "m1" and line["log_level"] == "info"]
    assert [line["reason"] for line in mine] == [
        "CreatingVM",
        "VMCreated",
        "Joined",
        "Draining",
        "VMDeleted",
        "Deleted",
    ]
    assert {line["namespace"] for line in mine} == {"machines"}
