"""One run: a story, a plot, and what came of it.

Theory.      ``simulate`` makes a loop and a world, lets the story happen while the plot does its worst,
             waits until the end is as the story says and nobody writes any more, and takes a picture.
             Names, ids and times differ between runs, so the picture has the machines as a multiset
             of what matters about them: two runs ended in the same world when their pictures are equal.
Invariants.  The same story, plot and code give the same trace, byte for byte.
Called by    ``crashes``, ``search``, ``goldens`` and tests.
"""

import gc
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from kubewright.testing.simulation import fate
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
) -> Outcome:
    """Run a story under a plot.

    Args:
        story: what people do.
        plot: seed and faults.
        quiet: after the end, let so many seconds pass in which no manager may write.
        prepare: called with the world before anything runs in it.
        invariants: what must be true at every step.
    """
    loop = SimLoop(plot.seed)
    with _stillness() as errors:
        try:
            return loop.run_until_complete(_Run(loop, story, plot, errors, invariants).whole(quiet, prepare))
        finally:
            loop.bury()


class _Run:
    def __init__(
        self, loop: SimLoop, story: Story, plot: Plot, errors: list[str], invariants: tuple[Invariant, ...]
    ) -> None:
        self._loop = loop
        self._story = story
        self._plot = plot
        self._errors = errors
        self._invariants = invariants
        self.world = World(loop, plot)
        self.person = Person(self.world, self._over)
        self.violations: list[str] = []
        schedule = plot.schedule
        disturbed = bool(schedule.faults) or plot.elect
        self._past = Past(
            self.world.journal,
            loop.time,
            hurt=story.hurts or schedule.has(NODE_FAULTS),
            stale=STALE_SECONDS if disturbed else 5.0,
            forgiven=self.person.deleted,
        )

    async def whole(self, quiet: float, prepare: Hook) -> Outcome:
        prepare(self.world)
        self.world.journal.listen(self._check)
        try:
            await self._tell()
            await self._rest(quiet)
        except (Late, Standstill, Circle) as error:
            self.violations.append(f"{type(error).__name__}: {error}")
        self._listen_to_errors()
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

    def _over(self) -> bool:
        return len(self.violations) >= VIOLATIONS

    def _check(self, step: Step) -> None:
        self._past.learn(step)
        found = judge(step, self._past, self._invariants)
        if found and not self._over():
            for wrong in found:
                self.world.journal.say("judge", wrong)
            self.violations += found

    def _listen_to_errors(self) -> None:
        self.violations += self.world.deposed[:VIOLATIONS]
        surprises = dict.fromkeys((*self._errors, *self._loop.trouble))
        self.violations += [f"no_surprises: {error}" for error in [*surprises][:VIOLATIONS]]


@contextmanager
def _stillness() -> Iterator[list[str]]:
    """No log lines, but those of defects are kept; no garbage collection at moments of its own choice."""
    errors: list[str] = []
    before, collecting = structlog.get_config(), gc.isenabled()

    def keep(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> str:
        error = sys.exc_info()[1] if event.get("exc_info") is True else event.get("exc_info")
        told = f": {type(error).__name__}: {error}" if isinstance(error, BaseException) else ""
        errors.append(f"{event.get('event')}{told}")
        raise structlog.DropEvent

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(40),
        processors=[keep],
        cache_logger_on_first_use=False,
    )
    gc.disable()
    try:
        yield errors
    finally:
        structlog.configure(**before)
        if collecting:
            gc.enable()
