"""Classes that no driver accepts: their machines can be deleted, and rollouts lead away from them."""

from typing import Any

import pytest

from kubewright.api.core import NAMESPACE, SECRET
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS
from kubewright.testing.stage import Stage, stage
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

REFUSED: dict[str, dict[str, Any]] = {
    "a typo in providerSpec": {"providerSpec": {"regoin": "sim-1"}},
    "a provider without a driver": {"provider": "clowd", "providerSpec": {}},
    "credentials that the cloud does not know": {
        "providerSpec": {
            "faults": [
                {"operation": each, "code": "Unauthenticated", "message": "who are you?"}
                for each in ("create", "delete", "status")
            ]
        }
    },
}


async def refused_class(world: World, changes: dict[str, Any], name: str = "wrong") -> None:
    reference = {"name": "sim-secret", "namespace": world.namespace}
    body = {"metadata": {"name": name, "namespace": world.namespace}, "secretRef": reference, **changes}
    await world.client.create(MACHINE_CLASS, body)


async def exists(world: World, name: str) -> bool:
    try:
        await world.client.get(MACHINE_CLASS, world.key(name))
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
async def test_its_machines_can_be_deleted_and_then_the_class_itself(changes: dict[str, Any]) -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, changes)
        await world.make("m1", "wrong")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "the driver refuses it")
        await world.client.delete(MACHINE_CLASS, world.key("wrong"))
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it goes", seconds=10)
        await world.clock.sleep(1)
        assert not await exists(world, "wrong")
        assert await world.left() == []


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
async def test_a_rollout_leads_away_from_it(changes: dict[str, Any]) -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, changes)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
        await world.deploy("pool", 3, "wrong", strategy=strategy)
        await world.until(lambda s: s.phases == [Phase.CRASH_LOOP_BACK_OFF] * 3, "the driver refuses them")
        await world.roll("pool", "small")
        await world.settled(3, "small", seconds=30)


async def test_the_namespace_of_such_machines_can_be_deleted() -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, REFUSED["a typo in providerSpec"])
        await world.deploy("pool", 2, "wrong")
        await world.until(lambda s: s.phases == [Phase.CRASH_LOOP_BACK_OFF] * 2, "the driver refuses them")
        await world.client.delete(NAMESPACE, Key("", world.namespace))
        await world.until(lambda s: not s.machines, "they go", seconds=30)


async def forced(world: World, name: str) -> None:
    label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
    await world.client.patch(MACHINE, world.key(name), label)


async def refused_before_a_restart(found: Stage) -> None:
    """A machine in deletion of which the process before may have made a VM, and a driver that refuses."""
    world = found.world
    await refused_class(world, REFUSED["a typo in providerSpec"])
    async with found.process():
        await world.make("m1", "wrong")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "the driver refuses it")
    await world.unmake("m1")


async def test_after_a_restart_a_user_decides_about_a_vm_of_which_nothing_is_known() -> None:
    async with stage(short_timeouts()) as found:
        await refused_before_a_restart(found)
        world = found.world
        async with found.process():
            await world.until(in_phase(Phase.TERMINATING), "it waits for the driver")
            told = (await world.machine("m1")).status.last_operation
            assert f"label the machine {names.FORCE_DELETION_LABEL}=True" in told.description
            await forced(world, "m1")
            await world.until(lambda s: not s.machines, "it goes", seconds=10)
            await world.clock.sleep(2)
            assert "VMLeftBehind" in await world.warnings()


async def test_or_mends_the_class() -> None:
    async with stage(short_timeouts()) as found:
        await refused_before_a_restart(found)
        world = found.world
        async with found.process():
            await world.until(in_phase(Phase.TERMINATING), "it waits for the driver")
            mended = {"providerSpec": {"regoin": None}}
            await world.client.patch(MACHINE_CLASS, world.key("wrong"), mended)
            await world.until(lambda s: not s.machines, "it goes", seconds=10)


async def test_a_rollout_does_not_wait_for_machines_in_deletion_that_only_a_user_can_end() -> None:
    async with stage(short_timeouts()) as found:
        world = found.world
        await refused_class(world, REFUSED["a typo in providerSpec"])
        async with found.process():
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
            await world.deploy("pool", 3, "wrong", strategy=strategy)
            await world.until(lambda s: s.phases == [Phase.CRASH_LOOP_BACK_OFF] * 3, "they are refused")
        async with found.process():
            await world.roll("pool", "small")
            await world.until(
                lambda s: s.phases.count(Phase.RUNNING) == 3, "the new machines come", seconds=120
            )


async def test_a_new_machine_whose_secret_is_missing_can_be_deleted_at_once() -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, {"providerSpec": {}})
        await world.client.delete(SECRET, world.key("sim-secret"))
        await world.client.patch(SECRET, world.key("sim-secret"), {"metadata": {"finalizers": None}})
        await world.make("m1", "wrong")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "its Secret is missing")
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it goes", seconds=10)
        assert "VMLeftBehind" not in await world.warnings()
