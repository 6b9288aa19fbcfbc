"""One run: a story, a plot, and what came of it.

Theory.      ``simulate`` makes a loop and a world, lets the story happen while the plot does its worst,
             waits until the end is as the story says and nobody writes any more, and takes a picture.
             Names, ids and times differ between runs, so the picture has the machines as a multiset
             of what matters about them: two runs ended in the same world when their pictures are equal.
Invariants.  The same story, plot and code give the same trace, byte for byte.
Called by    ``crashes``, ``search``, ``goldens`` and tests.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kubewright.testing.simulation import fate
from kubewright.testing.simulation.ears import listening
from kubewright.testing.simulation.invariants import INVARIANTS, Invariant, Past, judge
from kubewright.testing.simulation.journal import Step
from kubewright.testing.simulation.loop import Circle, SimLoop, Standstill
from kubewright.testing.simulation.person import Late, Person
from kubewright.testing.simulation.picture import Picture, picture
from kubewright.testing.simulation.schedule import NODE_FAULTS
from kubewright.testing.simulation.stories import Story
from kubewright.testing.simulation.world import Counts, Plot, World

REST_SECONDS = 15.0
"""Without a write for so long, a world is at rest."""
UNREST_SECONDS = 600.0
"""A world that reached its end and still writes after this never comes to rest."""
STALE_SECONDS = 120.0
"""How old a manager's news may be when watches are silent, cut or late."""
MANAGERS = 2
"""How many there are when they elect a leader."""
REQUESTS, LIFE_REQUESTS, FAULT_REQUESTS = 25, 120, 60
"""How many requests of managers may be made for each machine there ever was, for each life of a manager
(its lists and watches, twice), and for each fault that struck."""
VIOLATIONS = 3
"""A run stops after so many."""

Hook = Callable[[World], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run. ``violations`` is empty when all was well."""

    story: str
    plot: Plot
    violations: tuple[str, ...]
    picture: Picture
    counts: Counts
    seconds: float
    digest: str
    lines: list[str] = field(repr=False)

    @property
    def good(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations


def simulate(
    story: Story,
    plot: Plot,
    *,
    quiet: float = 0.0,
    prepare: Hook = lambda _world: None,
    invariants: tuple[Invariant, ...] = INVARIANTS,
    collect: bool = False,
    plans: bool = False,
) -> Outcome:
    """Run a story under a plot.

    Args:
        story: what people do.
        plot: seed and faults.
        quiet: after the end, let so many seconds pass in which no manager may write.
        prepare: called with the world before anything runs in it.
        invariants: what must be true at every step.
        plans: write into the trace what the controllers decided, and why.
        collect: let the garbage collector run when it likes; for large worlds that need the memory.
    """
    loop = SimLoop(plot.seed)
    run = _Run(loop, story, plot, invariants)
    with _stillness(collect), listening(run.world.journal, plans=plans) as errors:
        try:
            return loop.run_until_complete(run.whole(quiet, prepare, errors))
        finally:
            loop.bury()


class _Run:
    def __init__(self, loop: SimLoop, story: Story, plot: Plot, invariants: tuple[Invariant, ...]) -> None:
        self._loop = loop
        self._story = story
        self._plot = plot
        self._invariants = invariants
        self.world = World(loop, plot)
        self.person = Person(self.world, self._over)
        self.violations: list[str] = []
        schedule = plot.schedule
        disturbed = bool(schedule.faults) or plot.elect
        self._past = Past(
            self.world.journal,
            loop.time,
            hurt=story.hurts or schedule.has(NODE_FAULTS) or bool(plot.stale),
            stale=STALE_SECONDS if disturbed else 5.0,
            forgiven=self.person.deleted,
        )

    async def whole(self, quiet: float, prepare: Hook, errors: list[str]) -> Outcome:
        prepare(self.world)
        self.world.journal.listen(self._check)
        try:
            await self._tell()
            await self._rest(quiet)
        except (Late, Standstill, Circle) as error:
            self.violations.append(f"{type(error).__name__}: {error}")
        self._count()
        self._blame(errors)
        world = self.world
        return Outcome(
            self._story.name,
            self._plot,
            tuple(self.violations),
            picture(world.journal),
            world.counts,
            self._loop.time(),
            world.journal.digest(),
            world.journal.lines,
        )

    async def _tell(self) -> None:
        world, person, story = self.world, self.person, self._story
        await world.begin()
        await person.furnish()
        for _ in range(MANAGERS if self._plot.elect else 1):
            world.start_manager()
        await story.before(person)
        await person.wait(REST_SECONDS)
        world.tell()
        world.fate.spawn(fate.strike(world, person))
        await story.act(person)
        await person.until(lambda: story.end(person), story.name)

    async def _rest(self, quiet: float) -> None:
        """Wait until nobody writes any more, and the end is still as it should be."""
        world, person, counts = self.world, self.person, self.world.counts
        last = max((at for at, _ in self._plot.schedule.moments()), default=0.0) + world.began + 5.0

        def calm() -> bool:
            now = self._loop.time()
            return now > last and now - counts.last_write > REST_SECONDS and self._story.end(person)

        await person.until(calm, "the world comes to rest", seconds=UNREST_SECONDS + last)
        if quiet:
            writes = counts.writes
            await person.wait(quiet)
            if counts.writes > writes:
                self.violations.append(f"quiet_at_rest: {counts.writes - writes} writes in {quiet:g} s")

    def _count(self) -> None:
        """However it went, the work of the managers is bounded by what there was to do."""
        counts = self.world.counts
        lives = counts.kills + (MANAGERS if self._plot.elect else 1)
        bound = (
            REQUESTS * self._past.machines
            + LIFE_REQUESTS * lives
            + FAULT_REQUESTS * sum(counts.struck.values())
        )
        if counts.requests > bound:
            self.violations.append(f"bounded_work: {counts.requests} requests, more than {bound}")

    def _over(self) -> bool:
        return len(self.violations) >= VIOLATIONS

    def _check(self, step: Step) -> None:
        self._past.learn(step)
        found = judge(step, self._past, self._invariants)
        if found and not self._over():
            for wrong in found:
                self.world.journal.say("judge", wrong)
            self.violations += found

    def _blame(self, errors: list[str]) -> None:
        self.violations += self.world.deposed[:VIOLATIONS]
        surprises = dict.fromkeys((*errors, *self._loop.trouble))
        self.violations += [f"no_surprises: {error}" for error in [*surprises][:VIOLATIONS]]


@contextmanager
def _stillness(collect: bool) -> Iterator[None]:
    """No garbage collection at moments of its own choice."""
    collecting = gc.isenabled()
    if not collect:
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
