"""The machine as one manager's controllers see it: a host (``hosting.contract``) whose calls may fail.

Theory.      ``place`` and ``status`` are answered at once, from what is there. The other verbs take a moment,
             and get the faults of calls in a schedule (``call:4:fail-after``): they fail before or after the
             work is done, or take long. Changes on the machine reach the listeners in a task of the manager,
             so that a manager that is killed is told of none.
Called by    the controllers of components; ``setup`` makes one for each term of a manager.
"""

import asyncio
from collections.abc import Callable

from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.hosting.contract import Instance, Place, Placement, Running, Workload
from kubewright.controlplanes.members.decide import AddLearner, Step
from kubewright.machines.world import Half
from kubewright.testing.simulation.clock import SimClock
from kubewright.testing.simulation.cloud import HANG_SECONDS, LATE_SECONDS, LEG_SECONDS
from kubewright.testing.simulation.controlplanes.machine import HostMachine
from kubewright.testing.simulation.controlplanes.programs import Program, name_of
from kubewright.testing.simulation.journal import HostCall
from kubewright.testing.simulation.world import World
from kubewright.wire.gvk import Key

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

    def place(self, place: Place, replicas: int) -> Placement:
        """As ``Hosting.place``."""
        hosts = [self.machine.address(place, ordinal) for ordinal in range(max(replicas, 1))]
        waits = self.machine.services.waits(place)
        return Placement(tuple(hosts[:replicas]), endpoint=None if waits else (hosts[0], PORT), waits=waits)

    def problem_of(self, workload: Workload) -> str:
        """As ``Hosting.problem_of``: all of it can run."""
        del workload
        return ""

    def status(self, place: Place) -> Running:
        """As ``Hosting.status``."""
        hosted = self.machine.workloads.get(name_of(place))
        if hosted is None:
            retained = self.machine.retained.get(name_of(place), {})
            served = name_of(place) in self.machine.services.made
            return Running(exists=served, kept=sum(bool(each.member) for each in retained.values()))
        instances = [self._instance(each) for each in self.machine.instances(place.namespace, place.workload)]
        applied, stopped = hosted.applied, not (hosted.wanted or hosted.programs or hosted.removing)
        return Running(
            tuple(instances),
            applied.fingerprint,
            hosted.wanted,
            exists=True,
            variables=applied.environment,
            data=frozenset(each for each, disk in hosted.data.items() if disk.member) if stopped else None,
        )

    def unreserved(self, workload: Workload) -> bool:
        """As ``Reserves.unreserved``."""
        return self.machine.services.lacks(workload.place)

    async def reserve(self, workload: Workload) -> None:
        """As ``Reserves.reserve``."""
        place = workload.place
        call = HostCall(self.client, "reserve", place.namespace, place.workload)
        await self.call(call, lambda: self.machine.reserve(place))

    def _instance(self, one: Program) -> Instance:
        return Instance(
            one.ordinal,
            one.place.instance(one.ordinal),
            self.machine.address(one.place, one.ordinal),
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
        place, before = workload.place, self._applied(workload.place)
        call = HostCall(self.client, "apply", place.namespace, place.workload, replicas=workload.replicas)

        def work() -> bool:
            if self._applied(place) is not before:
                raise HostBusy("something else was applied meanwhile")
            return self.machine.apply(workload)

        await self.call(call, work)

    async def replace(self, place: Place, ordinal: int) -> None:
        """As ``Hosting.replace``."""
        call = HostCall(self.client, "replace", place.namespace, place.workload, ordinal=ordinal)
        before = self._program(place, ordinal)
        await self.call(
            call, lambda: self._program(place, ordinal) is before and self.machine.replace(place, ordinal)
        )

    async def remove(self, place: Place, *, keep_data: bool) -> None:
        """As ``Hosting.remove``."""
        call = HostCall(self.client, "remove", place.namespace, place.workload)
        await self.call(call, lambda: self.machine.remove(place, keep_data=keep_data))

    def _applied(self, place: Place) -> Workload | None:
        hosted = self.machine.workloads.get(name_of(place))
        return hosted.applied if hosted is not None else None

    def _program(self, place: Place, ordinal: int) -> Program | None:
        hosted = self.machine.workloads.get(name_of(place))
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

    async def change_members(self, etcd: Place, step: Step) -> None:
        """A client of the members of an etcd changes them.

        Raises:
            KubewrightError: it did not work this time, or its answer got lost.
        """
        name = name_of(etcd)
        call = HostCall(self.client, f"{type(step).__name__} in", *name, ordinal=_number(step))
        await self.call(call, lambda: self.machine.change_members(name, step))

    async def leg(self) -> None:
        """The time that an answer takes."""
        await self._clock.sleep(self._clock.random.uniform(*LEG_SECONDS))

    async def call(self, call: HostCall, work: Callable[[], bool]) -> None:
        """One call. The machine carries it out, whether or not the manager that asked for it still lives."""
        answer: Answer = asyncio.get_running_loop().create_future()
        fault = self._injector.of_call(self.client, call.verb, call.workload, Half.SETS)
        self.machine.process.spawn(
            self._serve(fault, call, work, answer), name=f"{call.verb} {call.workload}"
        )
        if (error := await answer) is not None:
            raise error

    async def _serve(self, fault: str, call: HostCall, work: Callable[[], bool], answer: Answer) -> None:
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
