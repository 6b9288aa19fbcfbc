"""Whole passes over one machine, with clusters that answer as a test says."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import NODE, Node
from kubewright.api.core import POD as KIND_OF_POD
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, Machine, MachineClass
from kubewright.driver.contract import MachineRequest
from kubewright.driver.life.calls import VmCalls
from kubewright.kube.client import Client, Written
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.machines.caches import Caches, Shared
from kubewright.machines.machine.act import Machines
from kubewright.machines.machine.memory import Memory, Moments
from kubewright.machines.machine.seen import Seen
from kubewright.machines.settings import MachineSettings
from kubewright.nodes.drain.removals import Removals
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.passes import Noted, noting
from kubewright.runtime.result import Result
from kubewright.testing.clocks import BEGIN, ManualClock
from kubewright.testing.faults import FORBIDDEN
from kubewright.testing.scenes import NOW, POD, SILENT, machine, minutes, node
from kubewright.wire.errors import Forbidden, Unavailable
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

Answers = Callable[[Request], Response]
M1 = Key("default", "m1")
START = (NOW - BEGIN).total_seconds()


def in_version_7(found: Node) -> Node:
    return structs.replace(found, metadata=structs.replace(found.metadata, resource_version="7"))


class Process:
    """The reconciler of machines, whose caches have this machine and this node."""

    def __init__(
        self, found: Machine, at: Node, console: str = "", *, kind: type[Machines] = Machines
    ) -> None:
        self.clock = ManualClock()
        self.clock.passed = START
        self.answers: Answers = lambda _request: Response(404)
        client = Client(InProcess(self._answer), self.clock)
        informers, settings = Informers(client), MachineSettings()
        caches = Caches(informers, informers, settings)
        for cache in (caches.machines, caches.nodes):
            cache.visibility.gained(0)  # long ago
        caches.machines.wrote(Written(MACHINE.resource, M1, MACHINE.encode(found)))
        caches.nodes.wrote(Written(NODE.resource, Key("", "m1"), NODE.encode(in_version_7(at))))
        caches.classes.wrote(Written(MACHINE_CLASS.resource, SMALL, MACHINE_CLASS.encode(small())))
        driver, steady = SimDriver(Cloud(self.clock, Store(None))), client.steady()
        shared = Shared(
            target=client,
            control=client,
            caches=caches,
            clock=self.clock,
            settings=settings,
            driver=driver,
            recorder=Recorder(client, self.clock, "test", kinds=[MACHINE]),
            metrics=Metrics(),
            removals=Removals(client),
            console=self._console if console else None,
        )
        self.console = console
        self.asked: list[str] = []
        self.written: list[Any] = []
        """The patches of the machine's status."""
        calls = VmCalls(driver, steady, lambda _key: None)
        self.memory = Memory(Moments(steady), settings.unreachable_after)
        self.group = caches.group_of(found)
        self.machines = kind(
            shared,
            calls,
            self.memory,
            busy=lambda: False,
            wake=lambda _key, _why: None,
            performed=lambda _seen, _plan: None,
        )

    async def reconcile(self, at: float, answers: Answers) -> tuple[Result, Noted]:
        self.clock.passed, self.answers = START + at, answers
        with noting() as noted:
            return await self.machines.reconcile(M1), noted

    async def _console(self, request: MachineRequest) -> str:
        self.asked.append(request.name)
        return self.console

    async def _answer(self, request: Request) -> Response:
        if request.method == "PATCH" and request.path == MACHINE_PATH:
            self.written.append(json.loads(request.body))
        return self.answers(request)


SMALL = Key("default", "small")


def small() -> MachineClass:
    meta = {"name": "small", "namespace": "default", "uid": "class", "resourceVersion": "5"}
    return MACHINE_CLASS.from_plain({"metadata": meta, "provider": "sim", "providerSpec": {}})


NODE_PATH, STATUS_PATH = "/api/v1/nodes/m1", "/api/v1/nodes/m1/status"
UNAVAILABLE, REFUSED = Response(503), Response(403, body=FORBIDDEN.body)
MACHINE_PATH = MACHINE.resource.path("default", "m1") + "/status"
PODS = Response(200, body=b'{"metadata": {}, "items": [%s]}' % KIND_OF_POD.encode(POD))
SHOWN = Response(200, body=NODE.encode(in_version_7(node())))


def but(path: str, answer: Response) -> Answers:
    """Every request is answered well, but those of this path; there is a pod on the node."""

    def answers(request: Request) -> Response:
        if request.path == path:
            return answer
        return PODS if request.path == "/api/v1/pods" else SHOWN

    return answers


async def test_a_step_that_succeeded_ends_the_silence_about_its_kind_though_a_later_write_failed() -> None:
    process = Process(machine("Terminating", deleted=minutes(1)), node(cordoned=True))
    for at, path in ((0, STATUS_PATH), (10, MACHINE_PATH), (40, STATUS_PATH)):
        with pytest.raises(Unavailable):
            await process.reconcile(at, but(path, UNAVAILABLE))
    result, _ = await process.reconcile(75, but(STATUS_PATH, UNAVAILABLE))
    assert result == Result.later(0), "now it lasts: the next pass does without"


async def test_a_read_that_is_refused_before_a_machine_fails_is_in_the_record_of_the_pass() -> None:
    process = Process(machine("Unknown", since=minutes(99)), node(SILENT))
    _, noted = await process.reconcile(0, but(NODE_PATH, REFUSED))
    assert noted.error.startswith("The API server refused to show the node: ")


@pytest.mark.parametrize("answer", [REFUSED, UNAVAILABLE, SHOWN], ids=["refused", "away", "shown"])
async def test_once_its_pass_is_over_a_machine_counts_as_being_replaced_no_longer(answer: Response) -> None:
    """However the pass ends: the next machine of that name is another one."""
    process = Process(machine("Unknown", since=minutes(99)), node(SILENT))
    with suppress(Unavailable):
        await process.reconcile(0, but(NODE_PATH, answer))
    assert process.memory.replacing(process.group, but=Key("default", "m2")) == 0


async def test_a_status_that_is_refused_is_remembered_and_the_next_pass_does_all_else() -> None:
    process = Process(machine("Unknown", since=minutes(99)), node(SILENT))
    result, noted = await process.reconcile(0, but(MACHINE_PATH, REFUSED))
    assert (result, noted.error.partition(":")[0]) == (
        Result.later(0),
        "The API server refused to write the machine's status",
    )
    assert [each.step for each in process.memory.refused("u1", process.memory.moments.now())] == [None]


class Blind(Machines):
    """No look at a machine is allowed."""

    async def look(self, found: Machine) -> Seen:
        raise Forbidden("no look")


async def test_a_read_that_is_refused_is_not_taken_for_a_status_that_is() -> None:
    process = Process(machine("Running"), node(), kind=Blind)
    with pytest.raises(Forbidden):
        await process.reconcile(0, but(NODE_PATH, SHOWN))
    assert process.memory.refused("u1", process.memory.moments.now()) == ()


async def test_a_write_that_is_refused_is_in_the_record_of_the_pass() -> None:
    process = Process(machine("Terminating", deleted=minutes(1)), node())
    _, noted = await process.reconcile(0, but(NODE_PATH, REFUSED))
    assert noted.error.startswith("The API server refused to cordon the node: ")
    assert "Cordon" in noted.steps


async def test_a_machine_that_is_given_up_says_how_its_console_ends() -> None:
    silent = Response(200, body=NODE.encode(in_version_7(node(SILENT))))
    process = Process(machine("Unknown", since=minutes(99)), node(SILENT), console="kernel panic")
    await process.reconcile(0, but(NODE_PATH, silent))
    told = [each["status"]["lastOperation"]["description"] for each in process.written]
    assert [each.splitlines()[1:] for each in told] == [["The end of its VM's console:", "kernel panic"]]


async def test_the_console_of_a_machine_whose_node_turns_out_to_be_well_is_not_read() -> None:
    process = Process(machine("Unknown", since=minutes(99)), node(SILENT), console="kernel panic")
    await process.reconcile(0, but(NODE_PATH, SHOWN))
    assert process.asked == []
