"""Reserved capacity beside Kubernetes' own programs: their scheduler preempts, their rules judge, our roles suffice."""

import asyncio
import dataclasses
from collections.abc import Iterator

import pytest
from tests.api.reserves.reserving import SPARE, burst, placed, placeholders, ready, reserve
from tests.conformance.conftest import apart

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.capacity import manifests
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE
from kubewright.api.core import CRD
from kubewright.api.kinds import dynamic
from kubewright.base.clock import SystemClock
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.kube.client import Client
from kubewright.testing.permissions import PermissionLog, granted, missing, unused
from kubewright.testing.real_kubernetes import Options as RealOptions
from kubewright.testing.real_kubernetes import RealKubernetes, find
from kubewright.testing.real_kubernetes.cached import SCHEDULER
from kubewright.testing.world import SHORT_TIMEOUTS, embedded_world, real_world, running
from kubewright.wire.errors import Invalid
from kubewright.wire.gvk import Key


@pytest.fixture(scope="module")
def scheduled() -> Iterator[RealKubernetes]:
    """A real Kubernetes with its scheduler."""
    real = RealKubernetes(find(), SystemClock(), RealOptions(fsync=False, scheduler=SCHEDULER.find()))
    apart(real.start())
    try:
        yield real
    finally:
        apart(real.stop())


async def test_the_shipped_roles_of_reserves_are_enough_and_none_is_idle() -> None:
    async with embedded_world(SHORT_TIMEOUTS) as world:
        for crd in manifests.crds():
            await world.client.create(dynamic(CRD.resource), crd)
        log = PermissionLog(world.client.transport)
        ours = Client(log, world.clock, name="ours")
        options = Options(controllers=("reserve",), driver="")

        async def serve(stop: asyncio.Event) -> None:
            await run_with(ours, ours, None, options, election=Election(), stop=stop)

        await world.deploy("pool", 1)
        await world.settled(1)
        async with running(serve):
            await reserve(world, replicas=4)
            await ready(world, 4)
            await burst(world, 1)
            await ready(world, 3, pending=1)
            await world.client.delete(DEPLOYMENT, Key("default", "burst"))
            await ready(world, 4)  # which is told a second time
            await world.client.patch(CAPACITY_RESERVE, world.key(SPARE), {"spec": {"priority": -2}})
            await world.clock.sleep(20)
            await world.client.delete(CAPACITY_RESERVE, world.key(SPARE))
            await world.clock.sleep(30)
            assert await world.client.list(CAPACITY_RESERVE) == []
    grants = granted(
        [
            {"kind": kind, "metadata": {"namespace": place}, "rules": [rule.plain() for rule in rules]}
            for kind, place, rules in (
                ("ClusterRole", "", (*manifests.CONTROL, *manifests.TARGET)),
                ("Role", "kube-system", manifests.PLACEHOLDERS),
            )
        ]
    )
    wrong = (
        [str(each) for each in missing(log.needs, grants)],
        [str(each) for each in unused(log.needs, grants)],
    )
    assert wrong == ([], [])


@pytest.mark.kube
@pytest.mark.looptime(False)
@pytest.mark.timeout(150)
async def test_the_real_scheduler_lets_a_burst_take_the_room_of_placeholders(
    scheduled: RealKubernetes,
) -> None:
    options = dataclasses.replace(SHORT_TIMEOUTS, controllers=("*", "reserve"))
    async with real_world(scheduled, "burst", options) as world:
        await world.client.create(dynamic(CRD.resource), next(iter(manifests.crds())))
        await world.deploy("pool", 2)
        await world.settled(2)
        await reserve(world, total={"cpu": "4"})
        await ready(world, 8)
        await burst(world, 5)
        await placed(world, 5)
        assert len(world.cloud.vms) == 2
        await ready(world, 3, pending=5)
        # Not which ones: beside a victim that is leaving, kube-scheduler may preempt one more (findings/), and
        # then a new placeholder has its room.
        assert len([pod for pod in await placeholders(world) if pod.spec.node_name]) == 3
        await world.change("pool", {"replicas": 4})
        await ready(world, 8)
        with pytest.raises(Invalid, match="exactly one of replicas, percent, total, machines must say"):
            await reserve(world, name="both", replicas=1, machines=1)
        await world.client.delete(CAPACITY_RESERVE, world.key(SPARE))
