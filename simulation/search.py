"""Random worlds: a seed chooses the story, the order of everything, and the faults; then shrinking.

Theory.      ``plot_of(seed)`` is a function, so a seed is a complete description of a run. When a run
             fails, faults are left out one after the other (greedily, in rounds, each run a fresh
             one) for as long as it still fails in the same way; what remains is the smallest schedule,
             and ``replay`` is the command that shows it.
Called by    ``campaign``, ``__main__`` and tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from kubewright.testing.clocks import LoopClock
from simulation.library import story_named
from simulation.loop import number
from simulation.run import Outcome, simulate
from simulation.schedule import LEASE_FAULTS, TARGET_FAULTS, Schedule, draw
from simulation.stories import STORIES
from simulation.story import Story
from simulation.world import Plot

ELECTIONS = 0.3
"""In how many worlds two managers elect a leader."""

APART = 0.25
"""In how many worlds the nodes have a cluster of their own."""

FLAGS: Mapping[str, str] = {
    "elect": "two managers that elect a leader",
    "apart": "nodes in a cluster of their own",
    "kill_after": "kill the manager after this write",
    "stale": "then first see the objects of so many versions ago",
}
"""A plot's fields beside seed and schedule, as a replay names them, and their help texts."""

_PLAIN = Plot()

Simulate = Callable[[Story, Plot], Outcome]


def plot_of(seed: int, stories: tuple[Story, ...] = STORIES) -> tuple[Story, Plot]:
    """The story and the plot that a seed stands for. One without nodes is drawn where there is no other: most
    faults are of what nodes do."""
    chance = LoopClock(seed=number(f"{seed}/plot")).random
    story = chance.choice([each for each in stories if each.joins] or stories)
    schedule = draw(chance)
    elect = schedule.has(LEASE_FAULTS) or chance.random() < ELECTIONS
    apart = schedule.has(TARGET_FAULTS) or chance.random() < APART
    return story, Plot(seed=seed, schedule=schedule, elect=elect, apart=apart)


def shrink(outcome: Outcome, run: Simulate = simulate) -> Outcome:
    """The failing run with the fewest faults that we can find. The seed, which gives the order, stays."""
    story = story_named(outcome.story)
    smallest, tried = outcome, True
    while tried:
        tried = False
        for fault in smallest.plot.schedule.faults:
            rest = tuple(each for each in smallest.plot.schedule.faults if each != fault)
            attempt = run(story, replace(smallest.plot, schedule=Schedule(rest)))
            if _same_failure(outcome, attempt):
                smallest, tried = attempt, True
                break
    return smallest


def replay(outcome: Outcome, *, quiet: float = 0.0) -> str:
    """The command that shows this run again."""
    plot = outcome.plot
    parts = [f"--story {outcome.story}", f"--seed {plot.seed}"]
    if plot.schedule.faults:
        parts.append(f"--faults {plot.schedule}")
    for name in FLAGS:
        value = getattr(plot, name)
        if value != getattr(_PLAIN, name):
            parts.append(f"{flag(name)}" if value is True else f"{flag(name)} {value}")
    if quiet:
        parts.append(f"--quiet {quiet:g}")
    return f"python -m simulation {' '.join(parts)}"


def flag(name: str) -> str:
    """How a plot's field is called on the command line."""
    return f"--{name.replace('_', '-')}"


def _same_failure(one: Outcome, other: Outcome) -> bool:
    """Whether the other run breaks a rule that the first one broke."""
    return bool(_rules(one) & _rules(other))


def _rules(outcome: Outcome) -> frozenset[str]:
    return frozenset(violation.partition(":")[0] for violation in outcome.violations)
