"""What a large set costs: its status is written at most once a second, and the requests for one more machine do not
grow with the machines that are there."""

import asyncio
from collections import Counter
from itertools import pairwise

from kubewright.api.core import LEASE
from kubewright.api.machine.v1alpha1 import MACHINE_SET
from kubewright.apiserver.http.requests import parse_path
from kubewright.runtime.pace import FEW_MEMBERS
from kubewright.testing.world import World, embedded_world, short_timeouts
from kubewright.wire.http import Request

SETS = MACHINE_SET.resource.path("machines")
LARGE = FEW_MEMBERS + 1


class Requests:
    """What the controllers ask of the server: how often for which kind, and when for a set's status."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()
        self.statuses: list[float] = []

    def __call__(self, request: Request) -> None:
        path = parse_path(request.path)
        if path is not None and path.plural != LEASE.resource.plural:  # kubelets renew theirs as time passes
            self.asked[request.method, path.plural] += 1
        if request.path.startswith(SETS) and request.path.endswith("/status"):
            self.statuses.append(asyncio.get_running_loop().time())


async def asked_for_one_more(world: World, requests: Requests, count: int) -> Counter[tuple[str, str]]:
    """The requests that are sent when a set of ``count`` machines gets one more."""
    await world.clock.sleep(3)
    requests.asked.clear()
    await world.change("workers", {"replicas": count + 1})
    await world.settled(count + 1)
    await world.clock.sleep(3)
    return requests.asked.copy()


async def test_one_more_machine_costs_as_many_requests_and_statuses_come_at_most_once_a_second() -> None:
    few, requests = Requests(), Requests()
    async with embedded_world(short_timeouts(), faults=few) as world:
        await world.deploy("workers", 3)
        await world.settled(3)
        for_a_small_one = await asked_for_one_more(world, few, 3)
    async with embedded_world(short_timeouts(), faults=requests) as world:
        await world.deploy("workers", LARGE)
        await world.settled(LARGE)
        assert await asked_for_one_more(world, requests, LARGE) == for_a_small_one

        requests.statuses.clear()
        for more in range(2, 22):
            await world.change("workers", {"replicas": LARGE + more})
            await world.clock.sleep(0.2)
        await world.settled(LARGE + 21)
        await world.clock.sleep(2)
        assert 4 <= len(requests.statuses) <= 6
        assert min(after - before for before, after in pairwise(requests.statuses)) > 0.99
        (found,) = await world.client.list(MACHINE_SET, world.namespace)
        assert (found.status.replicas, found.status.available_replicas) == (LARGE + 21, LARGE + 21)
