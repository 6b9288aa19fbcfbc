"""A Lease that several processes hold together, and a candidate that needs two Leases."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kubewright.api.core import LEASE, Lease
from kubewright.apiserver.server import ApiServer
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.runtime.leader import AllOf, Elector, LostLease
from kubewright.runtime.lease import Timings
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

COMMON, OWN = Key("default", "common"), Key("default", "own")
TIMINGS = Timings(lease_duration=30, renew_deadline=20, retry_period=12)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = ApiServer(LoopClock())
    await server.start()
    yield Client(InProcess(server.handle), LoopClock())
    await server.close()


def member(client: Client, key: Key = COMMON, identity: str = "us", *, shared: bool = True) -> Elector:
    clock = LoopClock()
    return Elector(client, clock, key, identity=identity, timings=TIMINGS, shared=shared)


async def forever() -> None:
    await asyncio.sleep(1_000_000)


def led(elector: Elector | AllOf) -> asyncio.Task[None]:
    return asyncio.create_task(elector.run(forever))


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def lease(client: Client, key: Key = COMMON) -> Lease:
    return await client.get(LEASE, key)


async def test_members_hold_a_lease_together_and_each_is_certain_by_its_own_renewals(client: Client) -> None:
    members = [member(client) for _ in range(3)]
    tasks = [led(each) for each in members]
    await asyncio.sleep(120)
    assert all(each.leading and each.entitled for each in members)
    found = await lease(client)
    assert (found.spec.holder_identity, found.spec.lease_transitions) == ("us", 0)
    for each in tasks:
        await ended(each)


async def test_another_takes_it_when_the_last_member_has_ended_and_its_time_is_over(client: Client) -> None:
    tasks = [led(member(client)) for _ in range(2)]
    await asyncio.sleep(1)
    other = member(client, identity="them", shared=False)
    tasks.append(led(other))
    await ended(tasks[0])
    await asyncio.sleep(120)
    assert not other.leading
    await ended(tasks[1])
    await asyncio.sleep(TIMINGS.lease_duration - TIMINGS.retry_period - 1)
    assert not other.leading
    await asyncio.sleep(2 * TIMINGS.retry_period)
    assert other.leading
    await ended(tasks[2])
    assert (await lease(client)).spec.holder_identity == "", "one that holds it alone releases it"


async def test_a_member_ends_when_another_holds_the_lease(client: Client) -> None:
    first = led(member(client))
    await asyncio.sleep(1)
    body = {"spec": {"holderIdentity": "them"}}
    await client.patch(LEASE, COMMON, body)
    await asyncio.wait([first], timeout=60)
    assert isinstance(first.exception(), LostLease)


async def test_a_candidate_for_two_leases_leads_while_it_holds_both(client: Client) -> None:
    foreign = led(member(client, identity="them", shared=False))
    await asyncio.sleep(1)
    both = AllOf([member(client, OWN, "me", shared=False), member(client)])
    stood_by = asyncio.Event()
    mine = asyncio.create_task(both.run(forever, stands_by=stood_by.set))
    await asyncio.sleep(60)
    assert stood_by.is_set()
    assert (both.leading, both.entitled, both.key, both.holder) == (False, False, COMMON, "them")
    assert (await lease(client, OWN)).spec.holder_identity == "me"
    await ended(foreign)
    await asyncio.sleep(2 * TIMINGS.retry_period)
    assert (both.leading, both.entitled, both.holder) == (True, True, "us")
    await client.patch(LEASE, COMMON, {"spec": {"holderIdentity": "them"}})
    await asyncio.wait([mine], timeout=60)
    assert isinstance(mine.exception(), LostLease)
    assert not both.leading
    assert (await lease(client, OWN)).spec.holder_identity == "", "what it needs no longer, it releases"
