"""Machines that people want to keep, with their nodes, pods, sets and the end of their time (PRE-01 to PRE-12)."""

from datetime import timedelta
from typing import Any

from kubewright.api.core import NODE, Node
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.gvk import Key

PRESERVE = names.PRESERVE_ANNOTATION
CALM = names.SCALE_DOWN_DISABLED_ANNOTATION


async def pool(world: World, replicas: int = 1, **template: Any) -> str:
    """A settled deployment; answers the name of one of its machines."""
    await world.deploy("workers", replicas)
    if template:
        await world.change("workers", {"template": {"spec": template}})
    return (await world.settled(replicas)).machines[0].metadata.name


async def ask(world: World, machine: str, value: str | None) -> None:
    body = {"metadata": {"annotations": {PRESERVE: value}}}
    await world.client.patch(MACHINE, world.key(machine), body)


async def break_vm(world: World, machine: str) -> None:
    vm = world.cloud.named(machine, world.namespace)
    assert vm is not None
    world.cloud.order(vm.id, {"disk-pressure"})


async def node_of(world: World, machine: str) -> Node:
    return await world.target.get(NODE, Key("", machine))


def condition(node: Node) -> tuple[str, str, str]:
    found = [each for each in node.status.conditions if each.type == "Preserved"]
    return (found[0].status, found[0].reason, found[0].message) if found else ("", "", "")


async def failed(world: World, name: str) -> None:
    await break_vm(world, name)
    await world.until(in_phase(Phase.FAILED), "it fails")
    await world.clock.sleep(5)


async def test_a_failed_machine_is_kept_drained_and_given_up_when_its_time_is_over() -> None:
    async with embedded_world(short_timeouts(preserve_timeout=120)) as world:
        name = await pool(world, 2)
        await world.run_pod("web", name)
        await ask(world, name, "when-failed")
        await failed(world, name)
        sight = await world.look()
        assert len(sight.machines) == sight.vms == 2
        node = await node_of(world, name)
        assert names.PRESERVED_TAINT in {taint.key for taint in node.spec.taints}
        assert node.metadata.annotations[CALM] == "true"
        status, reason, message = condition(node)
        assert (status, reason) == ("True", "Preserved by user.")
        assert message.startswith("Preserved node drained successfully. Machine preserved until ")
        (owner,) = await world.client.list(MACHINE_SET, world.namespace)
        assert owner.status.preserved_failed_replicas == 1
        assert owner.status.failed_machines == ()
        expiry = (await world.machine(name)).status.current_status.preserve_expiry_time
        assert expiry is not None
        after = await world.until(
            lambda s: s.settled(2) and name not in s.names, "it is replaced", seconds=180, every=1
        )
        assert after.names
        assert world.clock.now() - expiry < timedelta(seconds=30)


async def test_now_keeps_a_machine_in_any_phase_and_ends_without_a_trace() -> None:
    async with embedded_world(short_timeouts(preserve_timeout=60)) as world:
        name = await pool(world)
        await ask(world, name, "now")
        await world.clock.sleep(5)
        node = await node_of(world, name)
        assert node.metadata.annotations[CALM] == "true"
        assert not node.spec.taints
        assert condition(node)[2].startswith("Machine preserved until ")
        await world.clock.sleep(60)
        node, machine = await node_of(world, name), await world.machine(name)
        assert CALM not in node.metadata.annotations
        assert condition(node)[:2] == ("False", "Preservation stopped.")
        assert PRESERVE not in machine.metadata.annotations
        assert machine.status.current_status.preserve_expiry_time is None
        assert machine.status.current_status.phase == Phase.RUNNING
        reasons = [event.reason for event in await world.events(name)]
        assert EventReason.PRESERVED in reasons
        assert EventReason.PRESERVATION_ENDED in reasons


async def test_the_node_asks_and_takes_back() -> None:
    async with embedded_world(short_timeouts()) as world:
        name = await pool(world)
        await world.note_node(name, {PRESERVE: "when-failed"})
        await failed(world, name)
        machine = await world.machine(name)
        assert machine.metadata.annotations[names.LAST_APPLIED_PRESERVE_ANNOTATION] == "when-failed"
        assert machine.status.current_status.preserve_expiry_time is not None
        await world.note_node(name, {PRESERVE: None})
        await world.until(lambda s: s.settled(1) and name not in s.names, "it is replaced")


async def test_a_preserved_machine_that_recovers_takes_pods_again() -> None:
    async with embedded_world(short_timeouts()) as world:
        name = await pool(world)
        await ask(world, name, "now")
        await failed(world, name)
        assert (await node_of(world, name)).spec.taints, "new pods stay away while it is Failed"
        vm = world.cloud.named(name, world.namespace)
        assert vm is not None
        world.cloud.order(vm.id, set())
        await world.until(in_phase(Phase.RUNNING), "it recovers")
        await world.clock.sleep(5)
        node = await node_of(world, name)
        assert not node.spec.taints
        assert node.metadata.annotations[CALM] == "true"


async def test_a_person_who_deletes_a_preserved_machine_is_obeyed() -> None:
    async with embedded_world(short_timeouts()) as world:
        name = await pool(world)
        await ask(world, name, "now")
        await failed(world, name)
        await world.unmake(name)
        await world.until(lambda s: s.settled(1) and name not in s.names, "it is replaced")


async def test_an_annotation_that_cannot_be_read_is_reported_and_keeps_nothing() -> None:
    async with embedded_world(short_timeouts()) as world:
        name = await pool(world)
        await ask(world, name, "forever")
        await world.clock.sleep(5)
        (told,) = [each for each in await world.events(name) if each.reason == EventReason.INVALID_PRESERVE]
        assert '"forever"' in told.message
        await break_vm(world, name)
        await world.until(lambda s: s.settled(1) and name not in s.names, "it is replaced")


async def test_a_set_keeps_some_of_what_fails_and_replaces_the_rest() -> None:
    async with embedded_world(short_timeouts(preserve_timeout=60)) as world:
        await world.deploy("workers", 2, autoPreserveFailedMachineMax=1)
        first, second = sorted((await world.settled(2)).names)
        await failed(world, first)
        machine = await world.machine(first)
        assert machine.metadata.annotations[PRESERVE] == "auto-preserved"
        assert machine.status.current_status.preserve_expiry_time is not None
        assert condition(await node_of(world, first))[1] == "Preserved by MCM."
        (owner,) = await world.client.list(MACHINE_SET, world.namespace)
        assert owner.status.auto_preserve_failed_machine_count == 1
        await break_vm(world, second)
        await world.until(lambda s: second not in s.names and first in s.names, "one is replaced")
        after = await world.until(lambda s: s.settled(2), "its time is over", seconds=120, every=1)
        assert first not in after.names
