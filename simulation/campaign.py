"""Many worlds, one after the other or on all cores, and their outcomes.

Theory.      A try is one world to run: its column in the table, its story and plot, and the end that it
             should have if that is known. Undisturbed runs come first, because the crash
             points are made of them; all else is one stream through the farm. Worlds come back in the
             order in which they were asked for, so a campaign prints the same whatever it runs on.
             A world that fails is printed at once, with the smallest schedule that still fails.
Invariants.  The number of worlds that are printed and shrunk is bounded.
Called by    ``__main__``.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from simulation.crashes import ROUNDS, judged
from simulation.farm import Farm, Lost
from simulation.library import fit, run, story_named
from simulation.progress import Progress
from simulation.report import CALM, SEED, Table
from simulation.run import Outcome
from simulation.search import plot_of, replay, shrink
from simulation.stories import STORIES, Story
from simulation.tally import Counts
from simulation.world import Plot

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
        return replace(run(story_named(self.story), self.plot, quiet=self.quiet), lines=[])

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
        for column, disturb in ROUNDS.items():
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
