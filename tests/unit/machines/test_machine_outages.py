"""What is concluded of a machine whose node could not be seen (SAF-11)."""

import asyncio
import math
from datetime import timedelta
from operator import attrgetter

import pytest

from kubewright.api.core import NODE
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE
from kubewright.compose.assembly import Assembly
from kubewright.compose.options import Options
from kubewright.driver.contract import Instance
from kubewright.driver.life.seen import Verb
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.machines.caches import Caches
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import Call, Record, RemoveFinalizer
from kubewright.machines.settings import MachineSettings
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.runtime.metrics import Metrics
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import (
    ENSURED,
    GONE,
    NOW,
    SILENT,
    VM,
    Case,
    called,
    machine,
    minutes,
    node,
    seen,
)
from kubewright.wire.http import Request, Response

A_MOMENT = timedelta(milliseconds=1)
EARLIER = called(Verb.ENSURE, ago=minutes(20), instance=VM)

CASES = [
    Case(
        "while the target cluster cannot be watched no VM is asked for",
        seen(machine(vm=False), unreachable="target"),
        [],
        wake=timedelta(seconds=30),
    ),
    Case(
        "a VM that was made is recorded all the same",
        seen(machine(vm=False), vm=ENSURED, unreachable="target"),
        [Record(Instance("sim:///here/vm-1", "m1"))],
    ),
    Case(
        "an unwell machine is not given up while its node cannot be seen",
        seen(machine("Unknown", since=minutes(99)), node(SILENT), unreachable="target"),
        [],
        wake=timedelta(seconds=30),
    ),
    Case(
        "nor is one that has not joined",
        seen(machine("Pending", age=minutes(99)), unreachable="target"),
        [],
        wake=timedelta(seconds=30),
    ),
    Case(
        "a deletion goes on, whatever can be watched",
        seen(machine("Terminating", deleted=minutes(1)), vm=GONE, unreachable="target"),
        [RemoveFinalizer()],
    ),
    Case(
        "after an outage the health timeout begins anew",
        seen(machine("Unknown", since=minutes(99)), node(SILENT), visible_since=NOW - minutes(2)),
        [],
        wake=minutes(8) + A_MOMENT,
    ),
    Case(
        "and ends as any other",
        seen(machine("Unknown", since=minutes(99)), node(SILENT), visible_since=NOW - minutes(11)),
        [],
        Phase.FAILED,
    ),
    Case(
        "an outage long ago takes nothing from a timeout that began after it",
        seen(machine("Unknown", since=minutes(3)), node(SILENT), visible_since=NOW - minutes(60)),
        [],
        wake=minutes(7) + A_MOMENT,
    ),
    Case(
        "after an outage a machine has its whole time to join",
        seen(machine("Pending", age=minutes(99)), visible_since=NOW - minutes(5)),
        [],
        wake=minutes(15) + A_MOMENT,
    ),
    Case(
        "and its token is to be valid as long: the driver is asked again",
        seen(machine("Pending", age=minutes(25)), vm=EARLIER, visible_since=NOW - minutes(1), has_token=True),
        [Call(Verb.ENSURE)],
        wake=minutes(19) + A_MOMENT,
    ),
    Case(
        "once after the outage",
        seen(machine("Pending", age=minutes(25)), vm=ENSURED, visible_since=NOW - minutes(1), has_token=True),
        [],
        wake=minutes(19) + A_MOMENT,
    ),
    Case(
        "and not for a node that is there",
        seen(
            machine("Pending", age=minutes(25)),
            node(SILENT),
            vm=EARLIER,
            visible_since=NOW - minutes(1),
            has_token=True,
        ),
        [],
        wake=minutes(19) + A_MOMENT,
    ),
    Case(
        "a process that has just begun looks for a minute before it gives a machine up",
        seen(machine("Unknown", since=minutes(99)), node(SILENT), watching_since=NOW - timedelta(seconds=20)),
        [],
        wake=timedelta(seconds=40) + A_MOMENT,
    ),
    Case(
        "or before it says that one has not joined",
        seen(machine("Pending", age=minutes(99)), watching_since=NOW - timedelta(seconds=20)),
        [],
        wake=timedelta(seconds=40) + A_MOMENT,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    plan = decide(case.seen)
    assert [*plan.steps] == case.steps
    assert (plan.report.phase if plan.report else None) == case.phase
    if case.wake != "any":
        assert plan.wake == case.wake
    assert plan.because


async def test_whether_we_are_held_still_is_measured() -> None:
    clock, metrics = LoopClock(NOW), Metrics()
    control, target = (Client(InProcess(_unavailable), clock, name=name) for name in ("control", "target"))
    assembly = Assembly(control, target, SimDriver(Cloud(clock, Store(None))), Options(), metrics)
    assembly.work(assembly.controllers)
    machines, nodes = (
        assembly.informers[0].get(MACHINE).visibility,
        assembly.informers[1].get(NODE).visibility,
    )
    assert b"mcm_machine_controller_frozen 1.0" in metrics.render()
    machines.gained(clock.monotonic())
    nodes.gained(clock.monotonic())
    assert b"mcm_machine_controller_frozen 0.0" in metrics.render()
    nodes.lost(clock.monotonic())
    await asyncio.sleep(29)
    assert b"mcm_machine_controller_frozen 0.0" in metrics.render()
    await asyncio.sleep(2)
    assert b"mcm_machine_controller_frozen 1.0" in metrics.render()


@pytest.mark.parametrize("away", ["control", "target"])
def test_after_an_outage_of_either_cluster_time_outs_begin_anew(away: str) -> None:
    clock = LoopClock(NOW)
    control, target = (
        Informers(Client(InProcess(_unavailable), clock, name=name)) for name in ("control", "target")
    )
    caches = Caches(control, target, MachineSettings())
    watches = {"control": control.get(MACHINE).visibility, "target": target.get(NODE).visibility}
    for watch in watches.values():
        watch.gained(0)
    assert caches.visible_for(1000, 30) == math.inf
    watches[away].lost(1000)
    watches[away].gained(1100)
    assert caches.visible_for(1105, 30) == 5


async def _unavailable(_request: Request) -> Response:
    return Response(503)
