"""The requests of drains in workload clusters: whose they are, and when they end."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from kubewright.api.core import POD
from kubewright.clusters.machine.act import WorkloadRemovals
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.nodes.drain.plan import NO_REQUESTS, DrainPlan
from kubewright.nodes.drain.session import DrainSession
from kubewright.runtime.sessions.session import Health, Listener, Listeners, Session
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BLUE, RED = Key("default", "blue"), Key("default", "red")


class Workloads:
    """Sessions that the test begins and ends."""

    def __init__(self) -> None:
        self.listeners = Listeners()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self.listeners.add(listener)

    def get(self, cluster: Key) -> Session:
        raise NotImplementedError

    def health(self, cluster: Key) -> Health | None:
        raise NotImplementedError

    def cache(self, kind, indexes=None) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        raise NotImplementedError


class Cluster:
    """A workload cluster whose evictions never end."""

    def __init__(self, key: Key) -> None:
        self.begun = self.cut_off = 0
        client = Client(InProcess(self.handle), LoopClock())
        self.session = Session(client, Informers(client), key)

    async def handle(self, _request: Request) -> Response:
        self.begun += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        raise AssertionError("the client gives up before")


def evict(name: str) -> DrainPlan:
    return DrainPlan(
        evict=(POD.from_plain({"metadata": {"name": name, "namespace": "default", "uid": name}}),)
    )


@pytest.fixture
def workloads():
    return Workloads()


async def test_requests_end_with_the_session_of_their_cluster_and_no_other_clusters(workloads):
    removals, blue, red = WorkloadRemovals(workloads), Cluster(BLUE), Cluster(RED)
    drains = {each: DrainSession() for each in (blue, red)}
    for cluster, drain in drains.items():
        removals.within(cluster.session).start("m", drain, evict("a"), lambda: None, now=NOW)
    await asyncio.sleep(1)
    assert (blue.begun, red.begun) == (1, 1)

    workloads.listeners.lost(blue.session, "it does not answer")
    await asyncio.sleep(1)
    assert (blue.cut_off, red.cut_off) == (1, 0)
    assert (drains[blue].under_way, drains[blue].tries) == (NO_REQUESTS, {}), (
        "it is asked again when it is back"
    )
    assert drains[red].under_way

    again = Cluster(BLUE)
    removals.within(again.session).start("m", drains[blue], evict("a"), lambda: None, now=NOW)
    await asyncio.sleep(1)
    assert again.begun == 1


async def test_a_pass_that_still_has_a_lost_session_leaves_nothing_to_the_next_one(workloads):
    removals, before, after = WorkloadRemovals(workloads), Cluster(BLUE), Cluster(BLUE)
    workloads.listeners.lost(before.session, "it does not answer")
    late = removals.within(before.session)
    assert removals.within(before.session) is late
    assert removals.within(after.session) is not late


async def test_all_requests_end_with_the_term(workloads):
    removals, clusters = WorkloadRemovals(workloads), [Cluster(BLUE), Cluster(RED)]
    owner = asyncio.create_task(removals.run())
    for cluster in clusters:
        removals.within(cluster.session).start("m", DrainSession(), evict("a"), lambda: None, now=NOW)
    await asyncio.sleep(1)
    owner.cancel()
    await asyncio.wait([owner])
    assert [each.cut_off for each in clusters] == [1, 1]
