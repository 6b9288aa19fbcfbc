"""The machine on which the programs of control planes run: it outlives every manager, and so do they.

Theory.      A program starts, serves a moment later if it can reach what it needs, and gives up if it cannot,
             as the real ones do (nested.md D3, D4). One that died is started again, later each time. What is
             said of a program's readiness follows what it answers by a probe's pause. An API server that is
             ended while its controller manager runs, or without its etcd, takes long to end.
Invariants.  What was asked for is kept before anything is started or ended, so no kill of a manager comes in
             between. Only what ``Kept.discarded`` and a removal name loses its data.
Called by    ``host``, rules and stories.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.controlplane.names import Component
from kubewright.base.errors import After, KubewrightError
from kubewright.controlplanes.hosting.contract import Place, Workload
from kubewright.testing.simulation.controlplanes import health
from kubewright.testing.simulation.journal import Happening, Journal, ProgramStep
from kubewright.testing.simulation.loop import Process
from kubewright.testing.simulation.world import World
from kubewright.wire.gvk import Key

START_SECONDS = {Component.ETCD: 0.5, Component.API_SERVER: 3.0, Component.CONTROLLER_MANAGER: 0.3}
GIVES_UP = {Component.ETCD: 1.0, Component.API_SERVER: 20.0, Component.CONTROLLER_MANAGER: 10.0}
"""Seconds for which a program that starts waits for what it needs, and then ends."""
PROBE_SECONDS = 1.0
BACK_OFF = (1.0, 30.0)
"""Seconds until a program that died is started again: the first time, and at most."""
END_SECONDS, WATCHED_SECONDS, WITHOUT_ETCD_SECONDS = 0.2, 3.0, 15.0
"""How long a program takes to end; an API server that is watched; and an API server without etcd."""

Name = tuple[str, str]
"""Namespace, and name of the workload."""


class StillRemoved(KubewrightError):
    """A workload was applied while the one of the same name is being removed."""

    retry = After(1.0)


@dataclass(eq=False, slots=True)
class Running:
    """One instance. ``up``: it serves as far as it goes itself; ``ready``: its probe said so last."""

    place: Place
    ordinal: int
    workload: Workload
    since: float
    alive: bool = True
    up: bool = False
    ready: bool = False
    ending: bool = False
    restarts: int = 0
    died: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


@dataclass(eq=False, slots=True)
class Kept:
    """One workload: what was applied last, its instances, and which ordinals have data."""

    place: Place
    applied: Workload
    programs: dict[int, Running] = field(default_factory=dict)
    data: set[int] = field(default_factory=set)
    discarded: set[int] = field(default_factory=set)
    removing: bool = False
    keeps_data: bool = False

    @property
    def wanted(self) -> int:
        """How many instances there should be."""
        return 0 if self.removing else self.applied.replicas


class Machine:
    """What runs. ``kept``: by namespace and workload; ``left``: data that was kept after a removal."""

    def __init__(self, world: World) -> None:
        self.kept: dict[Name, Kept] = {}
        self.left: dict[Name, set[int]] = {}
        self.listeners: list[Callable[[Key], None]] = []
        self.process = Process(world.loop, "machine")
        self._clock = world.clock("machine")
        self._journal: Journal = world.journal
        self._addresses: dict[tuple[Name, int], str] = {}

    # ------------------------------------------------------------ look

    def now(self) -> datetime:
        """By the clock of this machine."""
        return self._clock.now()

    def jump(self, seconds: float) -> None:
        """The clock of this machine jumps; what runs does so until it is looked at again."""
        self._clock.ahead += seconds
        self._look_soon()

    def address(self, place: Place, ordinal: int) -> str:
        """Where an instance is reached: the same as long as something of its workload is there."""
        taken = self._addresses
        return taken.setdefault((name_of(place), ordinal), f"127.77.{len(taken) // 250}.{len(taken) % 250}")

    def instances(self, namespace: str, workload: str) -> list[Running]:
        """The instances of a workload, by ordinal."""
        kept = self.kept.get((namespace, workload))
        return [] if kept is None else [kept.programs[each] for each in sorted(kept.programs)]

    def answers(self, namespace: str, workload: str) -> bool:
        """Whether as many instances as were asked for, at least one, answer their clients."""
        found = self.instances(namespace, workload)
        return bool(found) and all(map(self.serves, found))

    def serves(self, one: Running) -> bool:
        """Whether an instance answers now, and so does what it needs."""
        if not (one.alive and one.up):
            return False
        return health.serves(one.workload, self.now()) and self._reaches(one)

    def _reaches(self, one: Running) -> bool:
        """Whether what an instance needs lets it in; what does not run here is somewhere else."""
        place = one.place
        if place.component is Component.API_SERVER:
            members = self._of(place, Component.ETCD)
            return members is None or any(
                self.serves(each) and health.may_ask_etcd(one.workload, each.workload, self.now())
                for each in members
            )
        if place.component is Component.CONTROLLER_MANAGER:
            kubeconfig = health.kubeconfig_of(one.workload)
            servers = self._of(place, Component.API_SERVER) or ()
            return any(
                self.serves(each) and health.gets_in(kubeconfig, each.workload, self.now())
                for each in servers
            )
        return True

    def _of(self, place: Place, component: Component) -> list[Running] | None:
        """The instances of another component; None: it never ran here."""
        name = (place.namespace, f"{place.cluster}-{component}")
        return self.instances(*name) if name in self.kept else None

    # ------------------------------------------------------------ act

    def apply(self, workload: Workload) -> bool:
        """From now on this should run; False: nothing changes, as when anything is asked for again.

        Raises:
            StillRemoved: the one of this name is not gone yet.
        """
        name = name_of(workload.place)
        kept, new = self.kept.get(name), name not in self.kept
        if kept is None:
            kept = self.kept[name] = Kept(workload.place, workload, data=self.left.pop(name, set()))
        if kept.removing:
            raise StillRemoved(f"{workload.place.workload} is still being removed")
        before, kept.place, kept.applied = kept.applied, workload.place, workload
        self._settle(kept)
        same = (before.fingerprint, before.replicas) == (workload.fingerprint, workload.replicas)
        if not same:
            self._tell(kept.place)
        return new or not same

    def replace(self, place: Place, ordinal: int) -> bool:
        """End an instance, which is started again as was applied last."""
        kept = self.kept.get(name_of(place))
        if kept is None or ordinal not in kept.programs or kept.programs[ordinal].ending:
            return False
        self._end(kept, kept.programs[ordinal])
        return True

    def remove(self, place: Place, *, keep_data: bool) -> bool:
        """End all, and then delete the data, unless it is to be kept."""
        name = name_of(place)
        kept = self.kept.get(name)
        if kept is None:
            left = set() if keep_data else self.left.pop(name, set())
            for ordinal in sorted(left):
                self._say(place, ordinal, Happening.DATA_GONE)
            return bool(left)
        if kept.removing:
            return False
        kept.removing, kept.keeps_data = True, keep_data
        self._settle(kept)
        return True

    def kill(self, namespace: str, workload: str, ordinal: int = 0) -> None:
        """A program dies, as by ``kill -9``."""
        kept = self.kept.get((namespace, workload))
        if kept is not None and ordinal in kept.programs:
            kept.programs[ordinal].died.set()

    def _settle(self, kept: Kept) -> None:
        for ordinal in range(kept.wanted):
            if ordinal not in kept.programs:
                self._start(kept, ordinal)
        if kept.wanted:
            kept.discarded = {each for each in kept.data if each >= kept.wanted}
        for ordinal, program in sorted(kept.programs.items()):
            if ordinal >= kept.wanted:
                self._end(kept, program)
        if kept.removing and not kept.programs:
            self._forget(kept)

    def _forget(self, kept: Kept) -> None:
        """Nothing runs of what was removed."""
        name = name_of(kept.place)
        del self.kept[name]
        if kept.keeps_data:
            self.left[name] = kept.data
        else:
            for ordinal in sorted(kept.data):
                self._say(kept.place, ordinal, Happening.DATA_GONE)
            self._addresses = {each: at for each, at in self._addresses.items() if each[0] != name}
        self._look_soon()

    # ------------------------------------------------------------ the life of a program

    def _start(self, kept: Kept, ordinal: int) -> None:
        one = Running(kept.place, ordinal, kept.applied, self.now().timestamp())
        kept.programs[ordinal] = one
        self._tell(kept.place)
        kept.data.add(ordinal)
        self._say(kept.place, ordinal, Happening.STARTS)
        one.task = self.process.spawn(self._live(one), name=f"{kept.place.instance(ordinal)} lives")

    async def _live(self, one: Running) -> None:
        pause, longest = BACK_OFF
        while True:
            if await self._begins(one):
                one.up = True
                self._say(one.place, one.ordinal, Happening.SERVES)
                self._look_soon()
                await one.died.wait()
            one.up = one.ready = one.alive = False
            self._say(one.place, one.ordinal, Happening.DIES)
            self._tell(one.place)
            self._look_soon()
            await self._clock.sleep(pause)
            pause = min(2 * pause, longest)
            one.died.clear()
            one.alive, one.restarts, one.since = True, one.restarts + 1, self.now().timestamp()
            self._say(one.place, one.ordinal, Happening.STARTS_AGAIN)
            self._tell(one.place)

    async def _begins(self, one: Running) -> bool:
        """Wait until it serves; False: it gave up, or was killed."""
        await self._clock.sleep(START_SECONDS[one.place.component])
        for _ in range(int(GIVES_UP[one.place.component])):
            if one.died.is_set():
                return False
            if self._reaches(one):
                return True
            await self._clock.sleep(1.0)
        return False

    def _end(self, kept: Kept, one: Running) -> None:
        if one.ending:
            return
        one.ending, one.ready = True, False
        self._tell(kept.place)
        self._say(one.place, one.ordinal, Happening.ENDS)
        self.process.spawn(self._ends(kept, one), name=f"{one.place.instance(one.ordinal)} ends")

    async def _ends(self, kept: Kept, one: Running) -> None:
        if one.task is not None:
            one.task.cancel()
        await self._clock.sleep(self._end_seconds(one))
        one.up = one.alive = False
        del kept.programs[one.ordinal]
        self._say(one.place, one.ordinal, Happening.ENDED)
        if one.ordinal in kept.discarded:
            kept.discarded.discard(one.ordinal)
            kept.data.discard(one.ordinal)
            self._say(one.place, one.ordinal, Happening.DATA_GONE)
        self._settle(kept)
        self._tell(kept.place)
        self._look_soon()

    def _end_seconds(self, one: Running) -> float:
        if one.place.component is not Component.API_SERVER or not one.up:
            return END_SECONDS
        if not self._reaches(one):
            return WITHOUT_ETCD_SECONDS
        watched = any(each.up for each in self._of(one.place, Component.CONTROLLER_MANAGER) or ())
        return WATCHED_SECONDS if watched else END_SECONDS

    # ------------------------------------------------------------ probes

    def _look_soon(self) -> None:
        """What one program does changes what the probes of others say, a moment later."""
        self.process.spawn(self._look(), name="probes")

    async def _look(self) -> None:
        await self._clock.sleep(PROBE_SECONDS)
        for one in self._all():
            ready = self.serves(one) and not one.ending
            if ready != one.ready:
                one.ready = ready
                self._tell(one.place)

    def _all(self) -> Iterator[Running]:
        for name in sorted(self.kept):
            yield from self.instances(*name)

    def _say(self, place: Place, ordinal: int, happening: Happening) -> None:
        self._journal.hosted(ProgramStep(place.namespace, place.workload, ordinal, happening))

    def _tell(self, place: Place) -> None:
        for changed in self.listeners:
            changed(place.key)


def name_of(place: Place) -> Name:
    """By what the machine knows a workload."""
    return place.namespace, place.workload
