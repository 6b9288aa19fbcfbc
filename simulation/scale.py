"""Many machines on virtual time: created, rolled, deleted; and the cost per machine.

Theory.      The same world and the same invariants as everywhere, with one long story. What is counted
             (writes, requests, virtual seconds) is the same on every computer; what is measured (wall
             and processor seconds, memory) is this computer's. Per machine all of it should stay
             equal while the number of machines grows: where it does not, something looks at all
             machines for each of them.
Called by    ``__main__``, with ``--scale``.
"""

import gc
import resource
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kubewright.base.clock import SystemClock
from kubewright.runtime.manager import tune_gc
from simulation.journal import Step, VmStep
from simulation.person import Person
from simulation.run import simulate
from simulation.stories import Story
from simulation.world import Plot, World

QUARTER = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
SECONDS = 36_000.0
"""How much virtual time each act may take."""

HEAD = (
    f"{'':8}{'virtual s':>10}{'wall s':>9}{'CPU ms':>9}{'API writes':>12}{'VM calls':>10}"
    f"{'requests':>10}{'peak MiB':>10}"
)
"""CPU, writes, VMs made or ended, and requests are for each machine of the deployment."""

Print = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Marks:
    """The counters at one moment: seconds (virtual, wall, processor), then numbers of the managers."""

    virtual: float
    wall: float
    cpu: float
    writes: int
    vms: int
    requests: int

    def row(self, name: str, before: "Marks", machines: int) -> str:
        """A line of the table: the difference from ``before``, and the most memory so far."""
        cpu = 1000 * (self.cpu - before.cpu) / machines
        vms = (self.vms - before.vms) / machines
        writes = (self.writes - before.writes) / machines - vms
        requests = (self.requests - before.requests) / machines
        return (
            f"{name:8}{self.virtual - before.virtual:>10.1f}{self.wall - before.wall:>9.1f}{cpu:>9.2f}"
            f"{writes:>12.2f}{vms:>10.2f}{requests:>10.2f}{_peak():>10.0f}"
        )


def run_scale(machines: int, seed: int, say: Print) -> tuple[str, ...]:
    """Create so many machines, roll all of them, delete all of them; returns the violations."""

    async def act(person: Person) -> None:
        await _Acts(person, machines, say).play()

    def prepare(world: World) -> None:
        world.journal.lines = deque(maxlen=0)

    story = Story("scale", act, lambda person: person.settled(0))
    with _settings_of_the_product():
        return simulate(story, Plot(seed=seed), prepare=prepare, collect=True).violations


class _Acts:
    """The three acts, and what they cost."""

    def __init__(self, person: Person, machines: int, say: Print) -> None:
        self._person = person
        self._machines = machines
        self._say = say
        self._clock = SystemClock()
        self._vms = 0
        person.world.journal.listen(self._count_vm)
        self._began = self._before = self._marks()

    async def play(self) -> None:
        person = self._person
        self._say(f"{self._machines:,} machines")
        self._say(HEAD)
        await person.deploy("pool", self._machines, strategy=QUARTER)
        await self._until("create", self._machines, "small")
        await person.roll("pool", "large")
        await self._until("roll", self._machines, "large")
        await person.delete("pool")
        await self._until("delete", 0)
        self._say(self._before.row("all", self._began, self._machines))

    async def _until(self, name: str, wanted: int, machine_class: str = "") -> None:
        """Wait for an act's end, and print its cost."""
        person = self._person
        await person.until(lambda: person.settled(wanted, machine_class), name, seconds=SECONDS)
        now = self._marks()
        self._say(now.row(name, self._before, self._machines))
        self._before = now

    def _marks(self) -> Marks:
        world = self._person.world
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime
        counts = world.counts
        return Marks(
            world.loop.time(), self._clock.now().timestamp(), cpu, counts.writes, self._vms, counts.requests
        )

    def _count_vm(self, step: Step) -> None:
        """As ``tally`` counts them: a VM is made, or asked to end."""
        if isinstance(step, VmStep) and step.new is not None:
            made = step.old is None
            ended = step.old is not None and step.old.gone_at is None and step.new.gone_at is not None
            self._vms += made or ended


@contextmanager
def _settings_of_the_product() -> Iterator[None]:
    """The garbage collector as ``runtime.manager`` sets it, for as long as this lasts."""
    before = gc.get_threshold()
    tune_gc()
    try:
        yield
    finally:
        tune_gc()  # what lasts stays frozen, so that runs after this one do not look through it each time
        gc.set_threshold(*before)


def _peak() -> float:
    """The most memory that this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
