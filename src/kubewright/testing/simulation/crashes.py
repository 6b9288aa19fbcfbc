"""Crash after every write: each story again and again, killed one write later each time.

Theory.      The undisturbed run has W writes, to the API and to the cloud. Run k is the same up to the
             k-th write; the moment the other side has done it, before the writer can know, the manager
             is killed, and a new one begins with nothing. However it ends, it must be the same world.
             That is Sieve's "intermediate state" at every point. With ``stale`` the new manager first
             sees an older world, Sieve's second. Its third, states that nobody sees, needs no run of
             its own: a manager that is dead for ``RESTART_SECONDS`` sees none of what happens meanwhile.
Called by    ``__main__`` and tests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kubewright.testing.simulation.picture import Picture
from kubewright.testing.simulation.run import Outcome, simulate
from kubewright.testing.simulation.stories import Story
from kubewright.testing.simulation.world import Plot


@dataclass(frozen=True, slots=True)
class Crash:
    """One run of a story that was killed after its ``point``-th write, and what is wrong with it."""

    story: str
    point: int
    wrong: tuple[str, ...]


def undisturbed(story: Story, seed: int, *, quiet: float = 0.0) -> Outcome:
    """The run that all others must end like."""
    return simulate(story, Plot(seed=seed), quiet=quiet)


def crash_points(
    story: Story, calm: Outcome, *, every: int = 1, first: int = 1, stale: int = 0
) -> Iterator[Crash]:
    """Kill after each write, or each ``every``-th one, beginning with the ``first``.

    With ``stale`` the next manager first sees the world as it was so many writes before.
    """
    for point in range(first, calm.counts.writes + 1, every):
        outcome = simulate(story, replace(calm.plot, kill_after=point, stale=stale))
        yield Crash(story.name, point, (*outcome.violations, *difference(calm.picture, outcome.picture)))


def difference(wanted: Picture, found: Picture) -> tuple[str, ...]:
    """How two pictures differ, in words."""
    missing, left = list(wanted), []
    for line in found:
        if line in missing:
            missing.remove(line)
        else:
            left.append(line)
    return (*(f"missing: {line}" for line in missing), *(f"instead: {line}" for line in left))
