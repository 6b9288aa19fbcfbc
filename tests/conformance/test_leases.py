"""The Leases of our halves beside those of machine-controller-manager: either keeps the other from working on the same objects.

Judged on the embedded server and on a real kube-apiserver; ``originals`` plays the original.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from tests.conformance.originals import Scene

from kubewright.api.machine.names import Phase
from kubewright.machines.world import Half
from kubewright.runtime.lease import Shard
from kubewright.testing.sites import real_site
from kubewright.testing.stage import stage
from kubewright.testing.world import SHORT_TIMEOUTS

WORLDS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.kube, pytest.mark.looptime(False)]),
]
NewScene = Callable[[], AbstractAsyncContextManager[Scene]]


@pytest.fixture(params=WORLDS)
def new_scene(request: pytest.FixtureRequest) -> NewScene:
    @asynccontextmanager
    async def embedded() -> AsyncIterator[Scene]:
        async with stage(SHORT_TIMEOUTS) as here:
            yield Scene(here.world)

    @asynccontextmanager
    async def real() -> AsyncIterator[Scene]:
        async with real_site(request.getfixturevalue("real_kubernetes"), two=False) as site:
            yield Scene(site.world)

    return embedded if request.param == "embedded" else real


async def test_the_original_keeps_us_from_one_half_and_we_do_the_other(new_scene: NewScene) -> None:
    async with new_scene() as scene:
        world = scene.world
        async with scene.original(Half.SETS) as original:
            await world.clock.sleep(0.5)
            assert original.leads
            async with scene.ours():
                await world.make("alone")
                await world.deploy("workers", 1)
                await world.until(lambda s: s.phases == [Phase.RUNNING], "our half makes a VM")
                await world.clock.sleep(5)
                assert (await world.look()).names == {"alone"}
                assert await scene.holders() == ["mcm-0", "ours"]
                assert original.leads


async def test_when_the_original_ends_our_process_leads_its_half(new_scene: NewScene) -> None:
    async with new_scene() as scene:
        world = scene.world
        async with scene.original(Half.SETS):
            await world.clock.sleep(0.5)
        await world.deploy("workers", 1)
        async with scene.ours():
            await world.settled(1)
            assert await scene.holders() == ["ours", "ours"]
            await world.delete("workers")
            await world.settled(0)


async def test_we_keep_the_original_from_what_we_do_and_hand_over_at_our_end(new_scene: NewScene) -> None:
    async with new_scene() as scene:
        world = scene.world
        async with scene.ours() as process:
            await world.deploy("workers", 1)
            await world.settled(1)
            async with scene.original(Half.SETS) as sets, scene.original(Half.MACHINES) as machines:
                for _ in range(40):
                    await world.clock.sleep(0.5)
                    assert not (sets.leads)
                    assert not (machines.leads)
                assert await scene.holders() == ["ours", "ours"]
                await process.end()
                await world.clock.sleep(5)
                assert (sets.leads, machines.leads) == (True, True)


async def test_two_processes_with_a_half_each_work_together(new_scene: NewScene) -> None:
    async with new_scene() as scene:
        world = scene.world
        async with scene.ours("machinedeployment,machineset"), scene.ours("*,-machinedeployment,-machineset"):
            await world.deploy("workers", 2)
            await world.settled(2)
            assert await scene.holders() == ["ours", "ours"]
            await world.delete("workers")
            await world.settled(0)


async def test_two_shards_work_together_and_keep_the_original_from_it(new_scene: NewScene) -> None:
    async with new_scene() as scene:
        world, shards = scene.world, [Shard(0, 2), Shard(1, 2)]
        async with scene.ours(shard=shards[0]), scene.ours(shard=shards[1]):
            await world.deploy("workers", 8)
            await world.settled(8)
            async with scene.original(Half.MACHINES) as original:
                for _ in range(34):
                    await world.clock.sleep(0.5)
                    assert not original.leads
                assert await scene.holders() == ["kubewright-2-shards", "kubewright-2-shards"]
                assert [await scene.holders(each) for each in shards] == [["ours", "ours"], ["ours", "ours"]]
            await world.delete("workers")
            await world.settled(0)
