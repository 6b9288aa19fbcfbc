"""A whole world in one event loop: API servers, cloud, kubelets, and managers that can be killed.

Theory.      Every part is a process of its own (``loop.Process``) with a clock of its own, and talks
             to the others over ``network`` and ``cloud``, where faults are injected. Nodes and
             pods are in the cluster of the machines, or in a cluster of their own (``Plot.apart``).
             The data of servers and cloud survive every kill; a manager keeps nothing.
             ``Injector`` numbers attempts: of requests (but for events) and calls since the story began, of
             watches since the world began. Other faults last and hit many attempts: a storm every other
             request, a cloud that is down every call; slow watches bring every event late.
Invariants.  A run is a function of seed, schedule and story. Faults come from outside only: the product
             has no code for the simulation.
Called by    ``run``. What users do is in ``person``; the managers are in ``managers``.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar, cast

import orjson

from kubewright.base.limits import REQUEST_SECONDS
from kubewright.compose.options import Options
from kubewright.driver.contract import Driver
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.machines.settings import MachineSettings
from kubewright.machines.world import Half
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.spec import KubeletSettings
from kubewright.testing.faults import Delay, ExecuteLate, is_watch
from kubewright.testing.faults import Fault as WireFault
from kubewright.wire.http import Request
from simulation import requests
from simulation.journal import Journal, VmStore
from simulation.loop import Process, SimClock, SimLoop
from simulation.managers import Managers
from simulation.network import Line, SimServer
from simulation.schedule import API, CALM, STEADY, WATCH, Schedule
from simulation.staleness import Staleness
from simulation.tally import MANAGER, Counts, Tally, writes_event

SLOW_SECONDS = 1.5
"""How late events are while watches are slow."""
AFTER_SILENCE = 0.1
"""How long after the end of ``silent-watches`` the events that a watch holds back would come."""
STORM_SHARE = 0.5
"""The share of requests that a storm hits."""

Aim = Callable[[str, Request], bool]
"""Whether a fault may hit a client's request."""


@dataclass(frozen=True, slots=True)
class _Storm:
    word: str
    until: float
    share: float
    aim: Aim


@dataclass(frozen=True, slots=True)
class _CallFault:
    word: str
    until: float
    verbs: tuple[str, ...]


class Injector:
    """For one world. Until ``begin`` only watches get faults."""

    def __init__(self, schedule: Schedule, tally: Tally, journal: Journal, clock: SimClock) -> None:
        self._numbered = {place: schedule.at(place) for place in ("api", "watch", "call")}
        self._tally = tally
        self._journal = journal
        self._clock = clock
        self._begun = False
        self._attempts = self._watches = 0
        self._slow_until = self._silent_until = 0.0
        self._storms: list[_Storm] = []
        self._call_faults: list[_CallFault] = []
        self._away: dict[str, float] = {}
        self._answered: dict[str, float] = {}
        """When each client has, or has given up, the answers that were delayed."""
        self.late_creations: dict[str, str] = {}
        """Names of objects whose creation is carried out late, with the manager that sent it."""

    # ------------------------------------------------------------ faults that last

    def begin(self) -> None:
        """The story begins."""
        self._begun, self._attempts = True, 0

    def slow(self, seconds: float) -> None:
        """Watches bring every event late for so long."""
        self._slow_until = self._now + seconds

    def silence_watches(self, seconds: float) -> None:
        """Watches bring nothing for so long, and are ended then (``Host.expire``)."""
        self._silent_until = self._now + seconds + AFTER_SILENCE

    def fail_requests(
        self,
        word: str,
        seconds: float,
        *,
        share: float = STORM_SHARE,
        aim: Aim = lambda _client, _asked: True,
    ) -> None:
        """A storm: a share of the requests that ``aim`` chooses gets the fault ``word``."""
        self._storms.append(_Storm(word, self._now + seconds, share, aim))

    def fail_calls(self, word: str, seconds: float, *verbs: str) -> None:
        """Every call of these verbs (none: of all) gets the fault ``word``."""
        self._call_faults.append(_CallFault(word, self._now + seconds, verbs))

    def cut_off(self, client: str, seconds: float) -> None:
        """A client reaches no API server for so long."""
        self._away[client] = self._now + seconds

    # ------------------------------------------------------------ asked for managers

    def lateness(self, client: Process) -> float:
        """By how many seconds a watch's next chunk is late."""
        if not client.name.startswith(MANAGER):
            return 0.0
        return max(SLOW_SECONDS if self._now < self._slow_until else 0.0, self._silent_until - self._now)

    def away(self, client: Process) -> float:
        """For how many seconds more a client is cut off."""
        return max(0.0, self._away.get(client.name, 0.0) - self._now)

    def delayed_until(self, clients: Iterable[Process]) -> float:
        """When the last of these clients has the answers that were delayed; 0.0: none was."""
        return max((self._answered.get(each.name, 0.0) for each in clients), default=0.0)

    def of_request(self, client: str, request: Request) -> WireFault | None:
        """The fault of this request, if any."""
        self._tally.sends(client, request)
        if is_watch(request):
            self._watches += 1
            word = self._numbered["watch"].pop(self._watches, "")
            return self._injected("watch", word, WATCH.get(word))
        if not self._begun:
            return None
        word = ""
        if not writes_event(request):
            self._attempts += 1
            word = self._numbered["api"].pop(self._attempts, "")
        word = word or self._storm(client, request)
        fault = API.get(word)
        if isinstance(fault, ExecuteLate) and request.method == "POST":
            self.late_creations[str(orjson.loads(request.body)["metadata"].get("name", ""))] = client
        if isinstance(fault, Delay):
            answered = self._now + min(fault.seconds, REQUEST_SECONDS)
            self._answered[client] = max(self._answered.get(client, 0.0), answered)
        return self._injected("api", word, fault or STEADY.get(word))

    def of_call(self, client: str, verb: str, name: str, half: Half = Half.MACHINES) -> str:
        """The fault of this call of a driver, or of a host, by the leader of ``half``; empty for none."""
        self._tally.acts(client, half, f"asks to {verb} {name}")
        if not self._begun:
            return ""
        counts = self._tally.counts
        counts.calls += 1
        word = self._numbered["call"].pop(counts.calls, "") or self._call_fault(verb)
        if word:
            counts.note_fault(f"call:{word}")
            self._journal.say("world", f"{word}: {verb} of {name}")
        return word

    @property
    def _now(self) -> float:
        return self._clock.monotonic()

    def _storm(self, client: str, request: Request) -> str:
        self._storms = [storm for storm in self._storms if storm.until > self._now]
        hits = (storm for storm in self._storms if storm.aim(client, request))
        return next((storm.word for storm in hits if self._clock.random.random() < storm.share), "")

    def _call_fault(self, verb: str) -> str:
        lasting = (each for each in self._call_faults if each.until > self._now)
        return next((each.word for each in lasting if not each.verbs or verb in each.verbs), "")

    def _injected(self, place: str, word: str, fault: WireFault | None) -> WireFault | None:
        if word:
            self._tally.counts.note_fault(f"{place}:{word}")
            self._journal.say("world", f"{place} {word}")
        return fault


Part = TypeVar("Part")

OPTIONS = Options(
    machine=MachineSettings(
        creation_timeout=timedelta(minutes=5),
        health_timeout=timedelta(seconds=60),
        resource_exhausted_retry=timedelta(seconds=30),
    ),
    orphans=OrphanSettings(
        period=timedelta(seconds=60), confirmation=timedelta(seconds=40), soon=timedelta(seconds=20)
    ),
    grace=40.0,
)
"""Time-outs short enough that no story takes an hour, and long enough that none expires without a fault."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Faults and settings of a run, beside its story.

    ``kill_after``  kill the manager after so many writes of the story (0: never)
    ``elect``       managers elect a leader
    ``apart``       nodes and pods are in a cluster of their own
    ``stale``       a manager that is started again first sees the objects as they were so many versions ago
    """

    seed: int = 0
    schedule: Schedule = CALM
    kill_after: int = 0
    elect: bool = False
    apart: bool = False
    stale: int = 0
    options: Options = OPTIONS


class World:
    """See the module. ``begin`` first; ``tell`` marks the moment from which writes and faults count."""

    def __init__(
        self, loop: SimLoop, plot: Plot, kubelets: KubeletSettings | None = None, *, joins: bool = True
    ) -> None:
        self.loop = loop
        self.plot = plot
        self.joins = joins
        self.began = 0.0
        self.journal = Journal(loop.time)
        self.staleness = Staleness(loop.time, lambda: self.managers.duties())  # noqa: PLW0108 -- not there yet
        self.journal.listen(self.staleness.learn)
        self.tally = Tally(self.journal, loop.time)
        self.injector = Injector(plot.schedule, self.tally, self.journal, self.clock("weather"))
        self.faults = Process(loop, "faults")
        self._person = Process(loop, "person")
        self._kubelets = Process(loop, "kubelets")
        self._cloud = Process(loop, "cloud")
        self.control = self._cluster("control")
        self.target = self._cluster("target") if plot.apart else self.control
        self.clusters = (self.control, self.target) if plot.apart else (self.control,)
        self.cloud = Cloud(self.clock("cloud"), VmStore(self.journal))
        self.driver = SimDriver(self.cloud, kubelets)
        self.between: Callable[[Driver, str], Driver] = lambda remote, _manager: remote
        """What a manager of this name has between itself and the connection to the cloud (``dialled``)."""
        steady = self.clock("person")
        self.client = self._connect(self.control, self._person, steady)
        self.nodes = self._connect(self.target, self._person, steady) if plot.apart else self.client
        self.managers = Managers(self, self._cloud)
        self.other_requests: Callable[[], int] = lambda: 0
        """How many requests the controllers of other APIs than that of machines may make (``work.Work``)."""
        self._parts: dict[type, object] = {}
        self.tally.on_write.append(self._kill_after)

    @property
    def counts(self) -> Counts:
        """What the managers did since the story began."""
        return self.tally.counts

    @property
    def busy(self) -> bool:
        """Whether a fault is still active, or a cloud call under way: it may still change something."""
        return self.faults.busy or self._cloud.busy

    def add(self, part: object) -> None:
        """Add a part that only worlds of one API have, for its stories and rules."""
        self._parts[type(part)] = part

    def part(self, kind: type[Part]) -> Part:
        """The part of that type.

        Raises:
            KeyError: this world has none.
        """
        return cast(Part, self._parts[kind])

    def is_late_creation(self, name: str) -> bool:
        """Whether an object is created by a late request that no manager knows of: its sender was killed.

        Where managers elect a leader, every late sender counts as one that leads no more.
        """
        sender = self.injector.late_creations.get(name)
        living = [] if self.plot.elect else [process.name for process in self.managers.living]
        return sender is not None and sender not in living

    def answering_since(self) -> float:
        """Since when the servers of all clusters answer; now, while one does not."""
        return max(cluster.host.answering_since for cluster in self.clusters)

    def executes_late(self, name: str) -> bool:
        """Whether the server executes a creation of that name long after it was sent.

        Its sender may have sent it again meanwhile, and the object may be gone: no server can know.
        """
        return name in self.injector.late_creations

    def clock(self, name: str) -> SimClock:
        """A clock for one part, with random draws of its own.

        The name is part of the seed: with another name every seed means another run.
        """
        return SimClock(self.loop, f"{self.plot.seed}/{name}")

    async def begin(self) -> None:
        """Start servers and kubelets; the managers are started when the CRDs exist."""
        for cluster in self.clusters:
            await cluster.start()
        if self.joins:
            self._kubelets.spawn(self._be_kubelets(), name="kubelets")

    def tell(self) -> None:
        """The story begins: from here on writes are counted and faults injected."""
        self.began = self.loop.time()
        self.tally.begin()
        self.injector.begin()
        self.journal.say("world", "the story begins")

    def _cluster(self, name: str) -> SimServer:
        cluster = SimServer(self.loop, self.journal, name, self.clock)
        cluster.host.slow, cluster.host.away = self.injector.lateness, self.injector.away
        heard = partial(requests.heard, self.journal)
        cluster.host.on_asked += [self.tally.asked, self.staleness.arrives, heard]
        cluster.host.on_answered += [self.tally.answered, self.staleness.is_done]
        return cluster

    @staticmethod
    def _connect(cluster: SimServer, process: Process, clock: SimClock) -> Client:
        """A client whose requests get no faults."""
        return Client(Line(cluster.host, process), clock, name=cluster.name)

    async def _be_kubelets(self) -> None:
        informers = Informers(self._connect(self.target, self._kubelets, self.clock("kubelets")))
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            group.create_task(self.driver.run(informers))

    def _kill_after(self) -> None:
        if self.began and self.counts.writes == self.plot.kill_after:
            self.managers.kill_all()
