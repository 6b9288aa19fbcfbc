"""Processes that come and go in the middle of everything, two clusters, and several processes at once."""

import asyncio
from collections.abc import Callable

import pytest

from kubewright.api.core import EVENT, LEASE, NODE, SECRET
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.machines.machine.act import TOKEN_NAMESPACE
from kubewright.machines.world import Half
from kubewright.providers.sim.spec import kubelet_settings
from kubewright.runtime.lease import Timings
from kubewright.testing.faults import Faulty, Lose, Script
from kubewright.testing.stage import Borrowed, Process, Stage, stage
from kubewright.testing.world import Snapshot, short_timeouts
from kubewright.wire.gvk import Key

ENDS = [
    pytest.param(Process.end, id="asked to stop"),
    pytest.param(Process.kill, id="killed"),
]
End = Callable[[Process], object]


async def restart(here: Stage, process: Process, end: End) -> Process:
    await end(process)  # type: ignore[misc]
    return here.begin()


def ids(snapshot: Snapshot) -> set[tuple[str, str]]:
    return {(machine.metadata.uid, machine.spec.provider_id) for machine in snapshot.machines}


@pytest.mark.parametrize("end", ENDS)
async def test_a_restart_at_rest_changes_nothing(end: End) -> None:
    async with stage(short_timeouts()) as here:
        process, world = here.begin(), here.world
        await world.deploy("workers", 3)
        before = await world.settled(3)
        process = await restart(here, process, end)
        await world.clock.sleep(20)
        after = await world.settled(3)
        assert ids(after) == ids(before)
        assert {n.metadata.uid for n in after.nodes} == {n.metadata.uid for n in before.nodes}
        await process.end()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("after", [0.03, 0.3])
async def test_a_restart_while_machines_are_made(end: End, after: float) -> None:
    async with stage(short_timeouts()) as here:
        process, world = here.begin(), here.world
        await world.deploy("workers", 4)
        await world.clock.sleep(after)
        process = await restart(here, process, end)
        snapshot = await world.settled(4)
        assert here.cloud.vms.keys() == {m.spec.provider_id.rpartition("/")[2] for m in snapshot.machines}
        assert len(await world.client.list(MACHINE_SET, world.namespace)) == 1
        await process.end()


@pytest.mark.parametrize("end", ENDS)
async def test_restarts_all_through_a_rolling_update(end: End) -> None:
    async with stage(short_timeouts()) as here:
        process, world = here.begin(), here.world
        await world.deploy("workers", 4)
        before = await world.settled(4)
        await world.roll("workers", "large")
        most = 0
        for _ in range(8):
            await world.clock.sleep(0.4)
            most = max(most, len((await world.look()).machines))
            process = await restart(here, process, end)
        after = await world.settled(4, "large")
        assert not before.uids & after.uids
        assert most <= 5
        assert len(here.cloud.vms) == 4
        await process.end()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("after", [0.0, 0.1])
async def test_a_restart_while_machines_go(end: End, after: float) -> None:
    async with stage(short_timeouts()) as here:
        process, world = here.begin(), here.world
        await world.deploy("workers", 3)
        await world.settled(3)
        await world.delete("workers")
        await world.clock.sleep(after)
        process = await restart(here, process, end)
        await world.settled(0)
        await world.clock.sleep(5)
        assert await world.left() == []
        await process.end()


async def test_a_creation_that_died_with_its_process_leaves_no_vm() -> None:
    """The machine is deleted while no process runs; the next process knows only that it knows nothing."""
    async with stage(short_timeouts()) as here:
        process, world = here.begin(), here.world
        await world.make("m1")
        await world.until(lambda s: s.vms == 1, "the VM is made", every=0.01)
        await process.kill()
        assert not (await world.machine("m1")).spec.provider_id
        await world.unmake("m1")
        async with here.process():
            await world.until(lambda s: not s.machines, "it goes")
            await world.clock.sleep(20)
            assert await world.left() == []


async def test_two_clusters_machines_here_and_nodes_there() -> None:
    async with stage(short_timeouts(), two=True) as here, here.process():
        world = here.world
        await world.deploy("workers", 2)
        snapshot = await world.settled(2)
        assert await world.client.list(NODE) == []
        assert await world.target.list(SECRET, world.namespace) == []
        living = snapshot.nodes[0].metadata.name  # a pod of a dead node would have its machine wait for it
        await world.run_pod("web", living)
        world.cloud.kill(next(key for key, vm in world.cloud.vms.items() if vm.node_name != living))
        await world.until(lambda s: s.settled(2) and s.names != snapshot.names, "the dead one is replaced")
        assert "MachineUnknown" in await world.warnings()
        assert not [e for e in await world.target.list(EVENT) if e.involved_object.kind == "Machine"]
        await world.delete("workers")
        await world.settled(0)
        await world.clock.sleep(2)
        assert await world.left() == []


async def test_the_token_is_made_where_the_node_joins() -> None:
    async with stage(short_timeouts(), two=True) as here, here.process():
        await here.world.make("neverjoin-1")
        await here.world.clock.sleep(3)
        there = await here.world.target.list(SECRET, TOKEN_NAMESPACE)
        assert [s.type for s in there] == ["bootstrap.kubernetes.io/token"]
        assert await here.world.client.list(SECRET, TOKEN_NAMESPACE) == []


ELECTED = Election(timings=Timings(lease_duration=6, renew_deadline=4, retry_period=1))


async def holder(here: Stage, half: Half = Half.MACHINES) -> str:
    lease = await here.world.client.get(LEASE, Key("default", half.value))
    return lease.spec.holder_identity or ""


@pytest.mark.parametrize("end", ENDS)
async def test_of_two_processes_one_works_and_the_other_takes_over(end: End) -> None:
    async with stage(short_timeouts()) as here:
        first, world = here.begin(election=ELECTED), here.world
        await world.deploy("workers", 3)
        before = await world.settled(3)
        second = here.begin(election=ELECTED)
        leader = await holder(here)
        await world.clock.sleep(10)
        assert await holder(here) == leader
        await world.roll("workers", "large")
        await world.clock.sleep(1)
        await end(first)  # type: ignore[misc]
        after = await world.settled(3, "large")
        assert await holder(here) != leader
        assert not before.uids & after.uids
        assert len(here.cloud.vms) == 3
        machines = await world.client.list(MACHINE, world.namespace)
        assert len({m.spec.provider_id for m in machines}) == 3
        await second.end()


async def test_a_server_that_is_away_is_survived_again_and_again() -> None:
    """Both halves give up their Leases, and stand for them again in the same process."""
    async with stage(short_timeouts()) as here:
        world, script, stop = here.world, Script(), asyncio.Event()
        line = Faulty(InProcess(here.control.handle), here.clock, script)
        client = Client(line, here.clock, name="control")
        driver = Borrowed(here.cloud, kubelet_settings(here.options.driver_options))
        work = run_with(client, client, driver, here.options, election=ELECTED, stop=stop)
        process = Process(asyncio.create_task(work), stop)
        await world.deploy("workers", 1)
        await world.settled(1)
        for replicas in (2, 3):
            before = [await holder(here, half) for half in Half]
            script.on(Lose(), times=None)
            await world.change("workers", {"replicas": replicas})
            await world.clock.sleep(10)
            assert len((await world.look()).machines) == replicas - 1
            script.calm()
            await world.settled(replicas)
            assert [await holder(here, half) for half in Half] == before
        await process.end()
        process.task.result()


async def test_a_cache_that_lags_doubles_nothing() -> None:
    async with stage(short_timeouts(), lag=0.5) as here, here.process():
        world = here.world
        most = 0

        def counted(snapshot: Snapshot) -> Snapshot:
            nonlocal most
            most = max(most, len(snapshot.machines), snapshot.vms)
            return snapshot

        await world.deploy("workers", 3)
        await world.until(lambda s: counted(s).settled(3), "three come up")
        await world.roll("workers", "large")
        await world.until(lambda s: counted(s).settled(3, "large"), "they are rolled")
        assert most <= 4
        await world.delete("workers")
        await world.settled(0)
        await world.clock.sleep(5)
        assert await world.left() == []
