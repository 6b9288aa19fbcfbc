"""The two halves: which there are, and that each can begin again and again in one process."""

import pytest

from kubewright.base.clock import LoopClock
from kubewright.compose.halves import MEMBERS, Half, halves, running
from kubewright.compose.kit import MACHINE_CONTROLLERS, Kit
from kubewright.compose.options import Options
from kubewright.kube.client import Client
from kubewright.kube.inprocess import InProcess
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.store import Store
from kubewright.runtime.metrics import Metrics
from kubewright.wire.http import Response


def test_every_controller_belongs_to_one_half():
    assert [name for half in Half for name in MEMBERS[half]] == list(MACHINE_CONTROLLERS)


@pytest.mark.parametrize(
    ("controllers", "found"),
    [
        (("*",), [Half.SETS, Half.MACHINES]),
        (("machineset",), [Half.SETS]),
        (("*", "-machinedeployment", "-machineset"), [Half.MACHINES]),
        (("secret",), [Half.MACHINES]),
    ],
)
def test_the_halves_that_run(controllers, found):
    assert running(Options(controllers=controllers)) == found
    assert halves(()) == []


@pytest.fixture
def kit():
    async def nobody(_request):
        return Response(503)

    clock = LoopClock()
    control, target = (Client(InProcess(nobody), clock, name=name) for name in ("control", "target"))
    return Kit(control, target, SimDriver(Cloud(clock, Store(None))), Options(), Metrics())


async def test_a_half_that_lost_its_lease_can_begin_again_and_leaves_nothing_behind(kit):
    for _ in range(3):
        for half in Half:
            work = kit.term(MEMBERS[half], half.value, lambda: True)
            assert [each.name for each in work.controllers] == list(MEMBERS[half])
            work.end()
        assert [each.statistics() for each in kit.informers] == [[], []]
    assert kit.metrics.render()


async def test_halves_that_work_at_once_share_what_both_watch(kit):
    for half in Half:
        kit.term(MEMBERS[half], half.value, lambda: True)
    kinds = [each.resource for each in kit.informers[0].statistics()]
    assert len(kinds) == len(set(kinds))
    assert {"machines.machine.sapcloud.io", "machinesets.machine.sapcloud.io"} <= set(kinds)
