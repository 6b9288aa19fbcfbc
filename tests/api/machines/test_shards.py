"""Machines and their sets divided among processes: no object ever has two owners, whichever process is killed, and
whatever number of shards the processes that come later have."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import orjson
import pytest

from kubewright.api.core import LEASE
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election
from kubewright.driver.contract import Instance, MachineRequest
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.machines.world import Half
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.spec import kubelet_settings
from kubewright.runtime.lease import WHOLE, Shard, Timings
from kubewright.testing.stage import Borrowed, Process, Stage, stage
from kubewright.testing.world import short_timeouts
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

ELECTED = Election(timings=Timings(lease_duration=6, renew_deadline=4, retry_period=1))
LEASES = LEASE.resource.path("default")
WRITES = {"POST", "PUT", "PATCH", "DELETE"}


@dataclass
class Ledger:
    """``wrong`` tells what processes did to objects that were not their own at that moment; ``shards`` which shard of
    how many first worked on which object."""

    wrong: list[str] = field(default_factory=list)
    shards: dict[tuple[int, str], int] = field(default_factory=dict)


@dataclass
class Sharded:
    """A process with a shard."""

    here: Stage
    shard: Shard
    ledger: Ledger
    dead: bool = False
    identities: dict[str, str] = field(default_factory=dict)
    """What it calls itself in each Lease."""
    worked: Counter[str] = field(default_factory=Counter)
    """Its writes, by the half that made them."""

    def __post_init__(self) -> None:
        client = Client(InProcess(self.handle), self.here.clock, name="control")
        driver = Checked(self.here.cloud, kubelet_settings(self.here.options.driver_options))
        driver.process = self
        options, stop = replace(self.here.options, shard=self.shard), asyncio.Event()
        work = run_with(client, client, driver, options, election=ELECTED, stop=stop)
        self.process = Process(asyncio.create_task(work), stop)

    async def handle(self, request: Request) -> Response:
        """A request to the server; one of a process that is dead arrives nowhere."""
        if self.dead:
            await asyncio.sleep(1_000_000)
        if request.path.startswith(LEASES) and request.method in ("POST", "PUT"):
            lease = orjson.loads(request.body)
            if holder := lease["spec"]["holderIdentity"]:
                self.identities[lease["metadata"]["name"]] = holder
        half = request.headers.get("user-agent", "").removeprefix("kubewright/")
        if request.method in WRITES and half in {*Half} and f"/{MACHINE.resource.group}/" in request.path:
            self.worked[half] += 1
            await self.check(half, f"{request.method} {request.path}", await self._owner(half, request))
        return await self.here.control.handle(request)

    async def check(self, half: str, what: str, uid: str) -> None:
        """Whether this process may do ``what`` with the object of this uid, by the Leases as they are now."""
        names = [half] if self.shard.whole else [half, self.shard.lease(half)]
        holders = [await holder(self.here, name) for name in names]
        if holders != [self.identities.get(name, "") for name in names]:
            self.ledger.wrong.append(f"{what} of {self.shard}, while {names} are held by {holders}")
        of = (self.shard.count, uid)
        if uid and self.ledger.shards.setdefault(of, self.shard.index) != self.shard.index:
            self.ledger.wrong.append(f"{what} of {self.shard}, which has another shard")

    async def _owner(self, half: str, request: Request) -> str:
        """The uid by which an object is in a shard: a machine's own, or its set's for the half of sets; empty: of
        other kinds."""
        parts = request.path.split("/")
        client, namespace = self.here.world.client, self.here.world.namespace
        if parts[6] != "machines":
            return ""
        if request.method == "POST":
            return str(orjson.loads(request.body)["metadata"]["ownerReferences"][0]["uid"])
        try:
            machine = await client.get(MACHINE, Key(namespace, parts[7]))
        except NotFound:
            return ""
        if half == Half.MACHINES:
            return machine.metadata.uid
        return machine.metadata.controller.uid if machine.metadata.controller else ""

    async def kill(self) -> None:
        self.dead = True
        await self.process.kill()

    async def end(self) -> None:
        await self.process.end()
        self.process.task.result()


class Checked(Borrowed):
    """Tells its process of the VMs that it makes and deletes. The kubelets on them run elsewhere (``divided``): a
    cloud tells of its VMs in one place."""

    process: Sharded

    async def run(self, cluster: Informers) -> None:
        del cluster

    async def create(self, request: MachineRequest) -> Instance:
        await self._check("create", request)
        return await super().create(request)

    async def delete(self, request: MachineRequest) -> None:
        await self._check("delete", request)
        await super().delete(request)

    async def _check(self, what: str, request: MachineRequest) -> None:
        meta = request.machine.metadata
        await self.process.check(Half.MACHINES, f"{what} the VM of {meta.name}", meta.uid)


async def holder(here: Stage, lease: str) -> str:
    try:
        found = await here.world.client.get(LEASE, Key("default", lease))
    except NotFound:
        return ""
    return found.spec.holder_identity or ""


@asynccontextmanager
async def divided() -> AsyncIterator[tuple[Stage, Ledger]]:
    """A stage whose VMs outlive all processes, and a ledger in which nothing ``wrong`` is found."""
    ledger = Ledger()
    async with stage(short_timeouts()) as here:
        caches = Informers(Client(InProcess(here.control.handle), here.clock, name="kubelets"))
        kubelets = Borrowed(here.cloud, kubelet_settings(here.options.driver_options))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in (caches.run(), kubelets.run(caches))]
            yield here, ledger
            for each in tasks:
                each.cancel()
    assert ledger.wrong == []


def begin(here: Stage, count: int, ledger: Ledger) -> list[Sharded]:
    return [Sharded(here, Shard(index, count), ledger) for index in range(count)]


def vms(cloud: Cloud) -> int:
    return len(cloud.vms)


async def test_shards_divide_the_machines_of_one_deployment_and_a_killed_one_is_taken_over() -> None:
    async with divided() as (here, ledger):
        world, processes = here.world, begin(here, 3, ledger)
        await world.deploy("workers", 20)
        before = await world.settled(20)
        assert all(each.worked[Half.MACHINES] > 3 for each in processes)
        assert sum(each.worked[Half.SETS] > 0 for each in processes) >= 1
        await world.roll("workers", "large")
        await world.clock.sleep(0.5)
        await processes[1].kill()
        processes[1] = Sharded(here, Shard(1, 3), ledger)
        after = await world.settled(20, "large", seconds=120)
        assert not before.uids & after.uids
        assert vms(here.cloud) == 20
        for each in processes:
            await each.end()


async def test_processes_with_another_number_of_shards_wait_until_the_last_of_the_others_has_ended() -> None:
    async with divided() as (here, ledger):
        world, three = here.world, begin(here, 3, ledger)
        await world.deploy("workers", 6)
        await world.settled(6)
        two, alone = begin(here, 2, ledger), Sharded(here, WHOLE, ledger)
        await three[0].end()
        await three[1].kill()
        await world.clock.sleep(20)
        assert await holder(here, Half.MACHINES) == "kubewright-3-shards"
        assert not any(each.worked for each in (*two, alone))
        await three[2].end()
        await alone.end()
        await world.change("workers", {"replicas": 16})
        await world.settled(16)
        assert await holder(here, Half.MACHINES) == "kubewright-2-shards"
        assert all(each.worked[Half.MACHINES] for each in two)
        for each in two:
            await each.end()
        alone = Sharded(here, WHOLE, ledger)
        await world.change("workers", {"replicas": 1})
        await world.settled(1)
        await alone.end()


@pytest.mark.parametrize("seed", range(6))
async def test_processes_of_any_shards_come_end_and_are_killed_at_any_moment(seed: int) -> None:
    chance = random.Random(seed)
    async with divided() as (here, ledger):
        world, living = here.world, begin(here, chance.randint(1, 3), ledger)
        await world.deploy("workers", 4)
        for step in range(12):
            await world.clock.sleep(chance.choice([0.1, 0.5, 2.0, 8.0]))
            if step % 3 == 2:
                await world.roll("workers", chance.choice(["small", "large"]))
            await world.change("workers", {"replicas": chance.randint(1, 6)})
            if living:
                each = living.pop(chance.randrange(len(living)))
                await chance.choice([each.kill, each.end])()
            count = chance.randint(1, 3)
            living += [Sharded(here, Shard(chance.randrange(count), count), ledger) for _ in range(2)]
        for each in living:
            await chance.choice([each.kill, each.end])()
        last = begin(here, 2, ledger)
        await world.roll("workers", "large")
        await world.change("workers", {"replicas": 5})
        await world.settled(5, "large", seconds=120)
        assert vms(here.cloud) == 5
        assert len(await world.client.list(MACHINE_SET, world.namespace)) == 2
        for each in last:
            await each.end()


async def test_the_machines_of_one_deployment_are_replaced_one_at_a_time_by_all_shards_in_turn() -> None:
    async with divided() as (here, ledger):
        world, processes = here.world, begin(here, 3, ledger)
        await world.deploy("workers", 8)
        before = await world.settled(8)
        for vm_id in sorted(here.cloud.vms)[:6]:
            here.cloud.kill(vm_id)
        most, failed = 0, set[str]()
        async with asyncio.timeout(3600):
            while len(failed) < 6:
                await world.clock.sleep(0.02)  # a replacement is quicker than a quarter of a second
                now = {each.metadata.uid: each for each in (await world.look()).machines}
                bad = {uid for uid, each in now.items() if each.status.current_status.phase == Phase.FAILED}
                ending = {uid for uid, each in now.items() if each.metadata.deleting}
                failed |= bad | ending | (before.uids - now.keys())  # some are gone between two looks
                most = max(most, len(bad | ending))
        await world.settled(8, seconds=600)
        assert failed <= before.uids
        assert most == 1
        for each in processes:
            await each.end()
