"""Machines that are deleted while the API server of their nodes does not answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kubewright.api.core import POD
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE
from kubewright.testing.faults import UNAVAILABLE, Fault, Lose, Script
from kubewright.testing.stage import stage
from kubewright.testing.world import World, in_phase, short_timeouts

FORCE = {"metadata": {"labels": {"force-deletion": "True"}}}


@asynccontextmanager
async def running_machine(faults: Script, **seconds: float) -> AsyncIterator[World]:
    """Two clusters, and a machine m1 that runs a pod."""
    async with stage(short_timeouts(**seconds), two=True, target_faults=faults) as here:
        world = here.world
        async with here.process():
            await world.make("m1")
            await world.until(in_phase(Phase.RUNNING), "it runs")
            await world.run_pod("web", "m1")
            await world.clock.sleep(2)
            yield world
            faults.calm()


async def description(world: World) -> str:
    return (await world.machine("m1")).status.last_operation.description


@pytest.mark.parametrize("fault", [Lose(), UNAVAILABLE], ids=["no answer", "unavailable"])
async def test_a_deletion_says_that_it_waits_for_the_target_and_a_user_may_force_it(fault: Fault) -> None:
    script = Script()
    async with running_machine(script) as world:
        script.on(fault, times=None)
        await world.unmake("m1")
        await world.until(in_phase(Phase.TERMINATING), "it says so", seconds=180)
        assert "The target cluster does not answer, asked " in await description(world)
        await world.clock.sleep(600)
        assert len(world.cloud.vms) == 1
        await world.client.patch(MACHINE, world.key("m1"), FORCE)
        await world.until(lambda s: not s.machines, "it is gone", seconds=200)
        assert not world.cloud.vms


async def test_it_does_not_outlive_its_drain_timeout() -> None:
    script = Script()
    async with running_machine(script, drain_timeout=300) as world:
        script.on(Lose(), times=None)
        await world.unmake("m1")
        await world.clock.sleep(295)
        assert len(world.cloud.vms) == 1
        await world.until(lambda s: not s.machines, "it is gone", seconds=200)
        assert not world.cloud.vms


async def test_a_server_that_shows_pods_and_accepts_no_write_holds_no_forced_deletion() -> None:
    script = Script()
    async with running_machine(script) as world:
        for method in ("PATCH", "POST", "DELETE"):
            script.on(UNAVAILABLE, method=method, times=None)
        await world.client.patch(MACHINE, world.key("m1"), FORCE)
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it is gone", seconds=400)
        assert not world.cloud.vms


async def test_when_the_target_is_back_the_node_is_drained_as_ever() -> None:
    script = Script()
    async with running_machine(script) as world:
        script.on(Lose(), times=None)
        await world.unmake("m1")
        await world.clock.sleep(200)
        script.calm()
        await world.until(lambda s: not s.vms, "its VM goes", seconds=100)
        assert await world.target.list(POD, "default") == []
        await world.until(lambda s: not s.machines, "it is gone")
        assert await world.left() == []


async def test_an_unused_token_that_cannot_be_deleted_keeps_no_machine() -> None:
    script = Script().on(UNAVAILABLE, method="DELETE", path="/secrets/", times=None)
    async with stage(short_timeouts(), two=True, target_faults=script) as here, here.process():
        await here.world.make("m1")
        await here.world.until(lambda s: s.vms == 1, "its VM is there")
        await here.world.unmake("m1")
        await here.world.until(lambda s: not s.machines, "it is gone", seconds=120)


async def test_a_node_that_may_have_joined_in_the_silence_is_asked_for_before_its_vm_goes() -> None:
    script = Script()
    async with stage(short_timeouts(), two=True, target_faults=script) as here, here.process():
        await here.world.make("m1")
        await here.world.until(lambda s: s.vms == 1, "its VM is there")
        await here.world.clock.sleep(0.2)
        script.on(Lose(), times=None)
        await here.world.unmake("m1")
        await here.world.until(in_phase(Phase.TERMINATING), "it says so", seconds=120)
        assert "The target cluster does not answer, asked " in await description(here.world)
        await here.world.clock.sleep(300)
        assert len(here.world.cloud.vms) == 1
        script.calm()
        await here.world.until(lambda s: not s.machines, "it is gone", seconds=120)
        assert await here.world.left() == []
