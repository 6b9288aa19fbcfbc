"""``kubewright rollout`` on machines: restarted, paused, resumed, undone, and watched to the end."""

from typing import Any

import pytest

from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.cli.rollout import decide
from kubewright.cli.rollout.apis import MACHINES
from kubewright.cli.rollout.command import Deployment, changed, follow
from kubewright.testing.world import World, embedded_world, short_timeouts


async def test_machines_are_rolled_back_paused_and_restarted(capsys: pytest.CaptureFixture[str]) -> None:
    async with embedded_world(short_timeouts()) as world:
        target = Deployment("mcd/workers", world.namespace)
        await world.deploy("workers", 2)
        first = await world.settled(2)
        await world.roll("workers", "large")
        assert await follow(world.client, world.clock, target, 300)
        assert capsys.readouterr().out.splitlines()[-1].endswith("rolled out: 2 machines")

        assert await said(world, target, lambda api, found, sets: decide.undo(api, found, sets, 0)) == (
            "rolled back to revision 1"
        )
        assert await follow(world.client, world.clock, target, 300)
        back = await world.settled(2, "small")

        assert await said(world, target, lambda _api, found, _sets: decide.pause(found, paused=True)) == (
            "paused"
        )
        await world.roll("workers", "large")
        assert not await follow(world.client, world.clock, target, 60)
        assert "0 of 2 machines have the new template; it is paused" in capsys.readouterr().out
        await said(world, target, lambda _api, found, _sets: decide.pause(found, paused=False))
        assert await follow(world.client, world.clock, target, 300)
        large = await world.settled(2, "large")

        await said(world, target, lambda api, found, _sets: decide.restart(api, found, world.clock.now()))
        assert await follow(world.client, world.clock, target, 300)
        after = await world.settled(2, "large")
        assert not after.uids & large.uids
        assert not first.uids & back.uids


async def test_the_history_goes_on_when_a_template_comes_again() -> None:
    async with embedded_world(short_timeouts()) as world:
        target = Deployment("mcd/workers", world.namespace)
        await world.deploy("workers", 1)
        await world.settled(1)
        for size in ("large", "small"):
            await world.roll("workers", size)
            assert await follow(world.client, world.clock, target, 300)
        found = decide.history(MACHINES, await target.read(world.client), await target.sets(world.client))
        assert [(each.number, each.current) for each in found] == [(2, False), (3, True)]


async def said(world: World, target: Deployment, wanted: Any) -> str:
    """What a command says after its change."""
    return (await changed(world.client, target, wanted)).said


async def test_the_status_of_a_rollout_tells_what_a_class_says_that_only_other_vms_can_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with embedded_world(short_timeouts()) as world:
        target = Deployment("mcd/workers", world.namespace)
        await world.deploy("workers", 2)
        await world.settled(2)
        assert await follow(world.client, world.clock, target, 300)
        assert capsys.readouterr().err == ""
        changed = {"providerSpec": {"instanceType": "huge"}}
        await world.client.patch(MACHINE_CLASS, world.key("small"), changed)
        await world.clock.sleep(2)
        assert await follow(world.client, world.clock, target, 300)
        told = capsys.readouterr().err
        assert "class small: Machines of this class do not have what it says" in told
        assert "providerSpec.instanceType" in told
        assert "A class of another name would roll 2 machines" in told
