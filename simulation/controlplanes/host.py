"""The machine as one manager's controllers see it: a host (``hosting.contract``) whose calls may fail.

Theory.      ``addresses`` and ``status`` are answered at once, by what is there. The others take a moment,
             and get the faults of calls in a schedule (``call:4:fail-after``): they fail before or after the
             work is done, or take long. Changes on the machine reach the listeners in a task of the manager,
             so that a manager that is killed is told of none.
Called by    the controllers of components; ``setup`` makes one for each term of a manager.
"""

import asyncio
from collections.abc import Callable

from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.hosting.contract import (
    Instance,
    Running,
    Workload,
    WorkloadAddresses,
    WorkloadIdentity,
)
from kubewright.controlplanes.members import AddLearner, Step
from kubewright.machines.world import Half
from kubewright.wire.gvk import Key
from simulation.cloud import HANG_SECONDS, LATE_SECONDS, LEG_SECONDS
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.programs import Name, Program, name_of
from simulation.journal import APPLY, IN, REMOVE, REPLACE, WORKLOADS, Write
from simulation.loop import SimClock
from simulation.world import World

PORT = 6443
BEFORE = {"fail": "the host cannot be reached (injected)", "quota": "the host has no room (injected)"}
AFTER = {"fail-after": "the host's answer got lost (injected)", "lost": "the host went silent (injected)"}
SLOW = {"hang": HANG_SECONDS, "late": LATE_SECONDS, "very-late": LATE_SECONDS}

Answer = asyncio.Future[KubewrightError | None]


class HostBusy(KubewrightError):
    """A call failed, by a fault of the schedule; the next one may succeed."""


class SimHost:
    """For the controllers of one term of the manager ``client``."""

    def __init__(self, world: World, machine: HostMachine, client: str, clock: SimClock) -> None:
        self.machine = machine
        self._journal, self._injector = world.journal, world.injector
        self.client = client
        self._clock = clock
        self._told: asyncio.Queue[Key] = asyncio.Queue()
        self._listeners: list[Callable[[Key], None]] = []
        machine.listeners.append(self._told.put_nowait)

    def addresses(self, identity: WorkloadIdentity, replicas: int) -> WorkloadAddresses:
        """As ``Hosting.addresses``."""
        hosts = [self.machine.address(identity, ordinal) for ordinal in range(max(replicas, 1))]
        waits = self.machine.services.waits(identity)
        return WorkloadAddresses(
            tuple(hosts[:replicas]), endpoint=None if waits else (hosts[0], PORT), waits=waits
        )

    def problem_of(self, workload: Workload) -> str:
        """As ``Hosting.problem_of``: all of it can run."""
        del workload
        return ""

    def status(self, identity: WorkloadIdentity) -> Running:
        """As ``Hosting.status``."""
        hosted = self.machine.workloads.get(name_of(identity))
        if hosted is None:
            retained = self.machine.retained.get(name_of(identity), {})
            served = name_of(identity) in self.machine.services.made
            return Running(exists=served, kept=sum(bool(each.member) for each in retained.values()))
        instances = [
            self._instance(each) for each in self.machine.instances(identity.namespace, identity.workload)
        ]
        applied, stopped = hosted.applied, not (hosted.wanted or hosted.programs or hosted.removing)
        return Running(
            tuple(instances),
            applied.fingerprint,
            hosted.wanted,
            exists=True,
            variables=applied.environment,
            data=frozenset(each for each, disk in hosted.data.items() if disk.member) if stopped else None,
        )

    def must_reserve(self, workload: Workload) -> bool:
        """As ``Reserves.must_reserve``."""
        return self.machine.services.lacks(workload.identity)

    async def reserve(self, workload: Workload) -> None:
        """As ``Reserves.reserve``."""
        identity = workload.identity
        await self.call(self.ask("reserve", name_of(identity)), lambda: self.machine.reserve(identity))

    def _instance(self, one: Program) -> Instance:
        return Instance(
            one.ordinal,
            one.identity.instance(one.ordinal),
            self.machine.address(one.identity, one.ordinal),
            fingerprint=one.workload.fingerprint,
            version=one.workload.version,
            ready=one.ready,
            ending=one.ending,
            since=one.since,
            restarts=one.restarts,
            message="" if one.ready else "it does not answer",
        )

    async def apply(self, workload: Workload) -> None:
        """As ``Hosting.apply``: onto what was applied last, as a patch that names the version it changes."""
        identity, before = workload.identity, self._applied(workload.identity)
        call = self.ask(APPLY, name_of(identity), workload.replicas)

        def work() -> bool:
            if self._applied(identity) is not before:
                raise HostBusy("something else was applied meanwhile")
            return self.machine.apply(workload)

        await self.call(call, work)

    async def replace(self, identity: WorkloadIdentity, ordinal: int) -> None:
        """As ``Hosting.replace``."""
        call = self.ask(REPLACE, name_of(identity), ordinal)
        before = self._program(identity, ordinal)
        await self.call(
            call,
            lambda: self._program(identity, ordinal) is before and self.machine.replace(identity, ordinal),
        )

    async def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        """As ``Hosting.remove``."""
        call = self.ask(REMOVE, name_of(identity))
        await self.call(call, lambda: self.machine.remove(identity, keep_data=keep_data))

    def _applied(self, identity: WorkloadIdentity) -> Workload | None:
        hosted = self.machine.workloads.get(name_of(identity))
        return hosted.applied if hosted is not None else None

    def _program(self, identity: WorkloadIdentity, ordinal: int) -> Program | None:
        hosted = self.machine.workloads.get(name_of(identity))
        return hosted.programs.get(ordinal) if hosted is not None else None

    def listen(self, changed: Callable[[Key], None]) -> None:
        """As ``Hosting.listen``; heard while ``run`` runs."""
        self._listeners.append(changed)

    async def run(self) -> None:
        """Tell the listeners of each change on the machine."""
        try:
            while True:
                key = await self._told.get()
                for changed in self._listeners:
                    changed(key)
        finally:
            self.machine.listeners.remove(self._told.put_nowait)

    async def change_members(self, etcd: WorkloadIdentity, step: Step) -> None:
        """A client of the members of an etcd changes them.

        Raises:
            KubewrightError: it did not work this time, or its answer got lost.
        """
        name = name_of(etcd)
        call = self.ask(f"{type(step).__name__}{IN}", name, _number(step))
        await self.call(call, lambda: self.machine.change_members(name, step))

    async def leg(self) -> None:
        """The time that an answer takes."""
        await self._clock.sleep(self._clock.random.uniform(*LEG_SECONDS))

    def ask(self, verb: str, name: Name, number: int = 0) -> Write:
        """The entry of a call."""
        return Write(WORKLOADS, "/".join(name), verb, actor=self.client, number=number)

    async def call(self, call: Write, work: Callable[[], bool]) -> None:
        """One call. The machine carries it out, whether or not the manager that asked for it still lives."""
        answer: Answer = asyncio.get_running_loop().create_future()
        fault = self._injector.of_call(self.client, call.verb, call.name, Half.SETS)
        self.machine.process.spawn(self._serve(fault, call, work, answer), name=f"{call.verb} {call.name}")
        if (error := await answer) is not None:
            raise error

    async def _serve(self, fault: str, call: Write, work: Callable[[], bool], answer: Answer) -> None:
        await self._clock.sleep(self._clock.random.uniform(*LEG_SECONDS) + SLOW.get(fault, 0.0))
        error: KubewrightError | None = HostBusy(BEFORE[fault]) if fault in BEFORE else None
        if error is None:
            try:
                if work():
                    self._journal.hosted(call)
            except KubewrightError as refused:
                error = refused
        if error is None and fault in AFTER:
            error = HostBusy(AFTER[fault])
        if not answer.done():
            answer.set_result(error)


def _number(step: Step) -> int:
    """The id of the member that is changed; 0: a new one."""
    return 0 if isinstance(step, AddLearner) else step.id
