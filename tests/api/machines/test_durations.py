"""What a scrape says of how long machines took, of their passes, and of the queues under MCM's names."""

import re

from kubewright.api.core import NODE
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.gvk import Key

ROW = re.compile(r"^(mcm_\w+)\{(.*?)\} (\S+)$", re.MULTILINE)


async def scraped(world: World) -> dict[tuple[str, str], float]:
    answer = await world.client.send(world.client.request("GET", "/metrics"))
    return {(name, labels): float(value) for name, labels, value in ROW.findall(answer.body.decode())}


async def test_a_life_of_machines_leaves_its_durations_and_no_row_of_a_machine() -> None:
    async with embedded_world(short_timeouts(creation_timeout=5)) as world:
        await world.deploy("pool", 2)
        await world.settled(2)
        await world.make("never", "missing")
        await world.clock.sleep(10)
        await world.change("pool", {"replicas": 0})
        await world.unmake("never")
        await world.settled(0)
        rows = await scraped(world)
    found = {name: value for (name, labels), value in rows.items() if 'machine_deployment="pool"' in labels}
    kinds = ("create", "initialize", "join", "drain", "delete")
    assert found.keys() == {f"mcm_machine_{each}_duration_seconds" for each in kinds}
    assert all(0 <= value < 60 for value in found.values())
    of_kind = 'instance_type="small",machine_deployment="pool",namespace="machines",zone="sim-1a"'
    assert ("mcm_machine_join_duration_seconds", of_kind) in rows
    alone = 'instance_type="",machine_deployment="",namespace="machines",zone=""'
    assert rows["mcm_machine_num_failed_join", alone] == 1
    assert rows["mcm_workqueue_adds_total", 'name="machine"'] > 0
    assert rows["mcm_workqueue_work_duration_seconds_count", 'name="machine"'] > 0


async def test_a_machine_that_is_replaced_for_its_health_is_counted_and_one_that_a_user_deletes_is_not() -> (
    None
):
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("pool", 2)
        before = await world.settled(2)
        await world.unmake(before.machines[0].metadata.name)
        await world.until(lambda s: s.settled(2) and s.names != before.names, "a user's is made anew")
        assert await stale(world) == 0
        world.cloud.kill(next(iter(world.cloud.vms)))
        names = (await world.look()).names
        await world.until(lambda s: s.settled(2) and s.names != names, "the dead one is replaced")
        assert await stale(world) == 1


async def stale(world: World) -> float:
    answer = await world.client.send(world.client.request("GET", "/metrics"))
    (value,) = re.findall(r"^mcm_machine_stale_machines_total (\S+)$", answer.body.decode(), re.MULTILINE)
    return float(value)


PASSES = re.compile(r'^workqueue_work_duration_seconds_count\{name="machine"\} (\S+)$', re.MULTILINE)


async def passes(world: World) -> int:
    """How many passes over machines there have been."""
    answer = await world.client.send(world.client.request("GET", "/metrics"))
    found = PASSES.search(answer.body.decode())
    assert found is not None
    return int(float(found[1]))


async def test_what_a_machine_itself_writes_and_the_marks_of_a_rollout_call_for_no_pass() -> None:
    """It gets its finalizer, and its class too; its VM is asked for, and recorded; its node joins. Later it is
    cordoned, drained and its VM deleted, then its node, then its finalizer goes, and it is gone."""
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        await world.until(in_phase(Phase.RUNNING), "it runs")
        await world.clock.sleep(30)
        made = await passes(world)
        assert made == 5
        mark = {"metadata": {"annotations": {names.SCALE_DOWN_DISABLED_ANNOTATION: "true"}}}
        await world.client.patch(NODE, Key("", "m1"), mark)
        await world.clock.sleep(5)
        assert await passes(world) == made
        await world.client.patch(
            NODE, Key("", "m1"), {"metadata": {"labels": {names.MACHINE_NAME_LABEL: None}}}
        )
        await world.clock.sleep(5)
        assert (await world.client.get(NODE, Key("", "m1"))).metadata.labels[names.MACHINE_NAME_LABEL] == "m1"
        before = await passes(world)
        await world.unmake("m1")
        await world.until(lambda seen: not seen.machines, "it is gone")
        await world.clock.sleep(5)
        assert await passes(world) - before == 5
