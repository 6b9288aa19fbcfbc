"""Many worlds, one after the other or on all cores, and their outcomes; and one world of many machines.

Theory.      A try is one world to run: its column in the table, its story and plot, and the end that it
             should have if that is known. Undisturbed runs come first, because the crash
             points are made of them; all else is one stream through the farm. Worlds come back in the
             order in which they were asked for, so a campaign prints the same whatever it runs on.
             A world that fails is printed at once, with the smallest schedule that still fails.
             ``--scale`` is one long story in the same world under the same rules. Writes, requests and
             virtual seconds are the same on every computer, the rest is this one's. Per machine all of it
             should stay equal while their number grows: else something looks at all machines for each.
Invariants.  The number of worlds that are printed and shrunk is bounded.
Called by    ``__main__``.
"""

import gc
import resource
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kubewright.base.clock import SystemClock
from kubewright.runtime.manager import tune_gc
from simulation.crashes import ROUNDS, judged
from simulation.farm import Farm, Lost
from simulation.journal import MADE, VMS, Write, vm_ends
from simulation.library import fit, story_named
from simulation.person import Person
from simulation.report import CALM, SEED, Progress, Table
from simulation.run import Outcome, simulate
from simulation.search import plot_of, replay, shrink
from simulation.stories import STORIES
from simulation.story import Story
from simulation.tally import Counts
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

    def _count_vm(self, write: Write) -> None:
        """As ``tally`` counts them: a VM is made, or asked to end."""
        self._vms += write.kind == VMS and (write.verb == MADE or vm_ends(write))


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


QUIET_SECONDS = 3600.0
"""How long no manager may write after the end of an undisturbed story: an hour of virtual time."""
PRINTED = 20
"""So many worlds that failed are printed."""
SHRUNK = 5
"""So many of them are shrunk, each in a few dozen runs."""
LOST = "lost"
"""The rule that a run breaks that never came to an end."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as it is sent to a worker; its outcome comes back without the trace."""

    story: str
    plot: Plot
    quiet: float = 0.0

    def __call__(self) -> Outcome:
        """Run it."""
        return replace(simulate(story_named(self.story), self.plot, quiet=self.quiet), lines=[])

    def lost(self, why: str) -> Outcome:
        """The outcome of a run that never came to an end."""
        return Outcome(self.story, self.plot, (f"{LOST}: {why}",), (), Counts(), 0.0, "", [])


@dataclass(frozen=True, slots=True)
class Try:
    """One world of a campaign. ``calm``: the undisturbed run whose end it must reach."""

    column: str
    job: Job
    calm: Outcome | None = None


def crash_tries(calms: Iterable[Outcome], *, every: int | None = None) -> Iterator[Try]:
    """Each round of each story; at each ``every``-th point of it, or at those that the round chooses."""
    for calm in calms:
        rounds = story_named(calm.story).realm.rounds
        for column, disturb in ((each, ROUNDS[each]) for each in ROUNDS if each in rounds):
            for plot in disturb(calm) if every is None else disturb(calm, every):
                yield Try(column, Job(calm.story, plot), calm)


def seed_tries(seeds: Iterable[int], stories: tuple[Story, ...] = STORIES) -> Iterator[Try]:
    """A world for each seed. With fewer stories to choose from, a seed means another world."""
    for seed in seeds:
        story, plot = plot_of(seed, stories)
        yield Try(SEED, Job(story.name, fit(story, plot)))


class Campaign:
    """Runs tries and fills a table. ``say`` prints a line for users at once."""

    def __init__(self, farm: Farm, say: Say, progress: Progress) -> None:
        self.table = Table((*ROUNDS, SEED))
        self._farm = farm
        self._say = say
        self._progress = progress
        self._failed = 0

    def undisturbed(self, seed: int, stories: Sequence[Story] = STORIES) -> list[Outcome]:
        """Each story without faults; then an hour in which no manager may write."""
        plot = Plot(seed=seed)
        tries = [Try(CALM, Job(story.name, plot, QUIET_SECONDS)) for story in stories]
        return list(self.run(tries, len(tries)))

    def run(self, tries: Iterable[Try], count: int) -> Iterator[Outcome]:
        """All of them (``count`` in number), in order; each is in the table when it comes out."""
        self._progress.expect(count)
        asked = deque[Try]()

        def jobs() -> Iterator[Job]:
            for one in tries:
                asked.append(one)
                yield one.job

        for outcome in self._farm.run(jobs()):
            yield self._ended(asked.popleft(), outcome)

    def _ended(self, one: Try, found: Outcome | Lost) -> Outcome:
        outcome = one.job.lost(found.why) if isinstance(found, Lost) else found
        if one.calm is not None and not isinstance(found, Lost):
            outcome = judged(outcome, one.calm.picture)
        self.table.add(one.column, outcome)
        self._progress.step(good=outcome.good)
        if not outcome.good:
            self._complain(one, outcome)
        return outcome

    def _complain(self, one: Try, outcome: Outcome) -> None:
        self._failed += 1
        if self._failed > PRINTED:
            return
        smallest, faults = outcome, len(outcome.plot.schedule.faults)
        if faults and self._failed <= SHRUNK and not _is_lost(outcome):
            smallest = shrink(outcome, self._once)
        self._progress.clear()
        self._say("\n".join(_complaint(one, smallest, faults)))
        if self._failed == PRINTED:
            self._say("More worlds fail; the table counts them.")

    def _once(self, story: Story, plot: Plot) -> Outcome:
        """One run, now, for shrinking."""
        job = Job(story.name, plot)
        found = next(self._farm.run([job]))
        return job.lost(found.why) if isinstance(found, Lost) else found


def _complaint(one: Try, smallest: Outcome, faults: int) -> Iterator[str]:
    left = len(smallest.plot.schedule.faults)
    fewer = f", with {left} of its {faults} faults" if left < faults else ""
    yield f"{smallest.story}, seed {smallest.plot.seed} ({one.column}){fewer}:"
    yield from (f"  {wrong}" for wrong in smallest.violations)
    yield f"  {replay(smallest, quiet=one.job.quiet)}"


def _is_lost(outcome: Outcome) -> bool:
    return outcome.violations[0].startswith(LOST)
