"""A whole world in one event loop: API server, cloud, kubelets, and managers that can be killed.

Theory.      Every part is a process of its own (``loop.Process``) with a clock of its own, and talks
             to the others over ``network`` and ``cloud``, where the schedule's faults strike. The
             server's objects and the cloud's VMs survive everything; a manager survives nothing: a
             new one begins with empty caches and no memory, as after ``kill -9``.
Invariants.  A run is a function of seed, schedule and story. Faults come from outside only: no part
             of the product knows that it is being tried.
Called by    ``run``. Words for stories are in ``person``.
"""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta

from kubewright import builtin
from kubewright.apiserver.server import ApiServer
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.compose.kit import machine_kit
from kubewright.compose.options import Options
from kubewright.driver.contract import Driver
from kubewright.kube.client import Client
from kubewright.kube.informers import Informers
from kubewright.kube.transport import Transport
from kubewright.machines.machine.settings import MachineSettings
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.kubelets import Kubelets
from kubewright.providers.sim.settings import KubeletSettings
from kubewright.runtime.leader import Elector, LostLease, identity
from kubewright.runtime.manager import Manager
from kubewright.runtime.manager import Settings as ManagerSettings
from kubewright.runtime.metrics import Metrics
from kubewright.testing.faults import Fault as Harm
from kubewright.testing.faults import Faulty, is_watch
from kubewright.testing.simulation.clock import SimClock
from kubewright.testing.simulation.cloud import RemoteDriver
from kubewright.testing.simulation.journal import LEADER, Journal, MemoryLog, Step, VmStep, VmStore
from kubewright.testing.simulation.loop import Process, SimLoop
from kubewright.testing.simulation.network import READS, Host, Line
from kubewright.testing.simulation.schedule import API, CALM, WATCH, Schedule
from kubewright.testing.simulation.yesterday import Yesterday
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

RESTART_SECONDS = 0.7
"""From a manager's or server's death to the next one's first breath."""

OPTIONS = Options(
    machine=MachineSettings(
        creation_timeout=timedelta(minutes=5),
        health_timeout=timedelta(seconds=60),
        resource_exhausted_retry=timedelta(seconds=30),
    ),
    grace=40.0,
)
"""Time-outs short enough that no story takes an hour, and long enough that none strikes by accident."""

FENCE_SECONDS = 1.0
"""How long after another has the lease a request may still arrive that was sent before."""
SLOW_SECONDS = 1.5
"""How late news are while watches are slow."""
STORM_SHARE = 0.5
"""How many requests a storm strikes."""

MANAGER = "manager"
UNCOUNTED = ("/leases", "/events")
"""Writes that say nothing about machines: who leads, and what people are told."""


@dataclass(frozen=True, slots=True)
class Plot:
    """What is to happen besides the story.

    ``kill_after``  kill the manager after so many writes of the story (0: never)
    ``elect``       managers elect a leader
    ``stale``       a manager that is started again first sees the world so many versions ago
    """

    seed: int = 0
    schedule: Schedule = CALM
    kill_after: int = 0
    elect: bool = False
    stale: int = 0
    options: Options = OPTIONS


@dataclass(slots=True)
class Counts:
    """What the managers did since the story began, and what was done to them."""

    writes: int = 0
    attempts: int = 0
    requests: int = 0
    calls: int = 0
    kills: int = 0
    struck: dict[str, int] = field(default_factory=dict)
    last_write: float = 0.0

    def strike(self, word: str) -> None:
        self.struck[word] = self.struck.get(word, 0) + 1


class World:
    """See the module. ``begin`` first; ``tell`` marks the moment from which writes and faults count."""

    def __init__(self, loop: SimLoop, plot: Plot) -> None:
        self.loop = loop
        self.plot = plot
        self.ahead = 0.0
        self.slow_until = self.storm_until = 0.0
        self.storm = ""
        self.journal = Journal(loop.time)
        self.counts = Counts()
        self.telling = False
        self.began = 0.0
        self.hand = Process(loop, "person")
        self.fate = Process(loop, "fate")
        self.cloud_process = Process(loop, "cloud")
        self.kubelets = Process(loop, "kubelets")
        self.managers: list[Process] = []
        self.host = Host("control", self.clock("network"))
        self._disk = MemoryLog(self.journal, "control")
        self.cloud = Cloud(self.clock("cloud"), VmStore(self.journal))
        self.driver: Driver = SimDriver(self.cloud)
        self.client = self.connect(self.hand, self.clock("person"))
        self._lives = self._watches = 0
        self._weather = self.clock("weather").random
        self._walls: list[SimClock] = []
        self.deposed: list[str] = []
        """Writes of managers that had lost the lease long before."""
        self._harm = {place: plot.schedule.at(place) for place in ("api", "watch", "call")}
        self.host.slow = self._slowness
        self.host.on_asked.append(self._asked)
        self.host.on_answered.append(self._answered)
        self.journal.listen(self._count_vm)

    # ------------------------------------------------------------ parts

    def clock(self, name: str) -> SimClock:
        """A clock for one part, with draws of its own."""
        return SimClock(self.loop, f"{self.plot.seed}/{name}")

    def connect(self, process: Process, clock: SimClock) -> Client:
        """A client on a good line."""
        return Client(Line(self.host, process), clock, name="control")

    async def begin(self) -> None:
        """Server and kubelets; the managers come later, when there are CRDs."""
        await self.start_server()
        self.kubelets.spawn(self._be_kubelets(), name="kubelets")

    async def start_server(self) -> None:
        """A server on the objects that are there."""
        self._lives += 1
        process = Process(self.loop, "server")
        server = ApiServer(self.clock(f"server {self._lives}"), log=self._disk)
        await process.spawn(server.start(), name="start")
        self.host.up(process, server.handle)

    async def _be_kubelets(self) -> None:
        informers = Informers(self.connect(self.kubelets, self.clock("kubelets")))
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            group.create_task(Kubelets(self.cloud, informers, KubeletSettings()).run())

    def start_manager(self) -> Process:
        """One more manager, with nothing in its memory."""
        self._lives += 1
        process = Process(self.loop, f"{MANAGER}-{self._lives}")
        self.managers.append(process)
        self.journal.say("fate", f"{process.name} starts")
        process.spawn(self._manage(process), name="manager")
        return process

    async def _manage(self, process: Process) -> None:
        """A process that starts anew when it loses the lead."""
        clock = self.clock(process.name)
        clock.ahead = self.ahead
        self._walls.append(clock)
        while True:
            client = Client(self._bad_line(process, clock), clock, name="control")
            elector = None
            if self.plot.elect:
                me = identity(process.name, clock)
                elector = Elector(client, clock, Key(*LEADER.split("/")), identity=me)
            try:
                await self._manager(client, clock, elector).run(asyncio.Event())
            except LostLease:
                self.journal.say(process.name, "has lost the lease")
                await clock.sleep(RESTART_SECONDS)

    def _manager(self, client: Client, clock: SimClock, elector: Elector | None) -> Manager:
        driver = RemoteDriver(self.driver, self.cloud_process, self.clock("calls"), self._call_fault)
        options = replace(self.plot.options, controllers=("*",))
        fence = None if elector is None else lambda: elector.entitled
        kit = machine_kit(client, client, driver, options, Metrics(), entitled=fence)
        loops = builtin.controllers(
            kit.informers[0], settings=builtin.Settings(nodes=NodeSettings(grace=options.grace))
        )
        return Manager(
            clock,
            [*kit.controllers, *loops.controllers],
            kit.informers,
            background=[*kit.background, *loops.background],
            services=kit.services,
            elector=elector,
            settings=ManagerSettings(),
        )

    # ------------------------------------------------------------ death

    def kill_manager(self, process: Process, *, again: bool = True) -> None:
        """``kill -9``, and a new one a moment later."""
        if not process.alive:
            return
        process.kill()
        self.managers.remove(process)
        self.host.leave(process)
        self.counts.kills += 1
        self.journal.say("fate", f"{process.name} is killed")
        if again:
            self.fate.spawn(self._again())

    async def _again(self) -> None:
        await self.clock("fate").sleep(RESTART_SECONDS)
        self.start_manager()

    async def restart_server(self) -> None:
        """The API server dies, and comes back with what it had acknowledged. One that is down stays so."""
        if not self.host.is_up:
            return
        self.journal.say("fate", "the server is killed")
        self.host.down()
        await self.clock("fate").sleep(RESTART_SECONDS)
        await self.start_server()

    def step_clocks(self, seconds: float) -> None:
        """The wall clocks of all managers jump."""
        self.ahead += seconds
        for clock in self._walls:
            clock.ahead = self.ahead

    # ------------------------------------------------------------ counting and striking

    def tell(self) -> None:
        """The story begins: from here on writes count and faults strike."""
        self.telling, self.began = True, self.loop.time()
        self.counts = Counts(last_write=self.began, struck=self.counts.struck)
        self.journal.say("fate", "the story begins")

    @property
    def leader(self) -> Process | None:
        """The manager that works now, if any does."""
        if not self.plot.elect:
            return self.managers[0] if self.managers else None
        holder = self.journal.leader.partition("_")[0]
        return next((each for each in self.managers if each.name == holder), None)

    def _asked(self, client: str, request: Request) -> None:
        if not client.startswith(MANAGER):
            return
        self.counts.requests += 1

    def _look_at_the_lease(self, client: str, request: Request) -> None:
        """Whoever begins a write should lead, as far as he can know."""
        uncounted = request.method in READS or any(part in request.path for part in UNCOUNTED)
        led = self.journal.leader.partition("_")[0]
        late = self.loop.time() - self.journal.led_since > FENCE_SECONDS
        if self.plot.elect and not uncounted and led and led != client and late:
            self.deposed.append(f"fencing: {client} writes {request.path}, and {led} has led for long")

    def _answered(self, client: str, request: Request, response: Response) -> None:
        if request.method in READS or not client.startswith(MANAGER) or response.status >= 400:
            return
        self.journal.say(client, f"{request.method} {request.path}")
        if not any(part in request.path for part in UNCOUNTED):
            self._wrote()

    def _count_vm(self, step: Step) -> None:
        if isinstance(step, VmStep) and step.new is not None:
            made = step.old is None
            ended = step.old is not None and step.old.gone_at is None and step.new.gone_at is not None
            if made or ended:
                self._wrote()

    def _wrote(self) -> None:
        self.counts.writes += 1
        self.counts.last_write = self.loop.time()
        if self.telling and self.counts.writes == self.plot.kill_after:
            for process in tuple(self.managers):
                self.kill_manager(process)

    def _bad_line(self, process: Process, clock: SimClock) -> Transport:
        line: Transport = Line(self.host, process)
        if self.plot.stale and self.counts.kills:
            line = Yesterday(line, clock, self._disk.version - self.plot.stale)
        return Faulty(line, clock, lambda request: self._api_fault(process, request))

    def _api_fault(self, process: Process, request: Request) -> Harm | None:
        self._look_at_the_lease(process.name, request)
        if is_watch(request):
            self._watches += 1
            word = self._harm["watch"].pop(self._watches, "")
            return self._struck("watch", word, WATCH.get(word))
        if not self.telling:
            return None
        self.counts.attempts += 1
        word = self._harm["api"].pop(self.counts.attempts, "") or self._gust()
        return self._struck("api", word, API.get(word))

    def _gust(self) -> str:
        """The word of the storm that blows, for every other request."""
        blows = self.loop.time() < self.storm_until and self._weather.random() < STORM_SHARE
        return self.storm if blows else ""

    def _slowness(self, client: Process) -> float:
        slow = client.name.startswith(MANAGER) and self.loop.time() < self.slow_until
        return SLOW_SECONDS if slow else 0.0

    def _struck(self, place: str, word: str, harm: Harm | None) -> Harm | None:
        if word:
            self.counts.strike(f"{place}:{word}")
            self.journal.say("fate", f"{place} {word}")
        return harm

    def _call_fault(self, verb: str, name: str) -> str:
        if not self.telling:
            return ""
        self.counts.calls += 1
        word = self._harm["call"].pop(self.counts.calls, "")
        if word:
            self.counts.strike(f"call:{word}")
            self.journal.say("fate", f"{word}: {verb} of {name}")
        return word
