"""Crash points: each story again and again, with one fault, one write or one await later each time.

Theory.      The undisturbed run has W writes, to the API and to the cloud. Run k is the same up to the
             k-th write; right after the server or the cloud has done it, before the writer has its
             answer, the manager is killed, and a new one begins with empty memory. All runs must end in
             the same world. These are the "intermediate states" of the paper on Sieve, at every point. In
             a ``late`` restart the watches of the new manager are behind, and in a ``stale`` one its lists
             too, which no API server does to lists like ours: Sieve's second kind. In an ``unobserved``
             run all watches fall silent, and then the history of the events that they held back is lost: its
             third kind, unobserved states. The other rounds kill between two awaits; a second time,
             soon after the first; the leader, while another manager is a candidate, or freeze it until
             it has lost the lead; take the Lease of one half away; and kill where nodes have their own
             cluster.
Invariants.  Rounds are pure: they make plots, and the caller runs them. A round that tries only some
             of its points begins at another one for each story and seed, so other seeds reach the others.
To add one   write a function from the undisturbed run to plots, and put it into ``ROUNDS`` under the
             word that heads its column in the table.
Called by    ``campaign`` and tests.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Protocol

from simulation.loop import number
from simulation.picture import Picture
from simulation.run import Outcome, simulate
from simulation.schedule import Fault, Schedule
from simulation.stories import STORIES
from simulation.story import Story
from simulation.world import Plot

DEPTHS = (8, 1, 20, 3)
"""How many versions old the first lists of a manager are, in turn."""
DISTANCES = (1, 2, 3)
"""How many writes after a kill the next one comes, in turn."""

ANOTHER_END = "another_end"
"""The rule that is broken by a run that ends in another world than the undisturbed one."""


COUNT_MOVED = frozenset(story.name for story in STORIES if story.name.startswith("update"))
"""Stories of updates in place. Where a manager's lists do not show yet that a machine has moved to the new
set, the old set deletes another one in its stead, which is then replaced and not updated, so a VM is of the
new class (``rules.Rule.fresh``). All objects must be the same."""


class Round(Protocol):
    """Plots from the undisturbed run: one for each point, or for each ``every``-th one."""

    def __call__(self, calm: Outcome, every: int = ...) -> Iterator[Plot]: ...


def undisturbed(story: Story, seed: int, *, quiet: float = 0.0) -> Outcome:
    """The run whose end all others must reach."""
    return simulate(story, Plot(seed=seed), quiet=quiet)


def every_write(calm: Outcome, every: int = 1) -> Iterator[Plot]:
    """Killed after each write."""
    for point in _writes(calm, "crash", every):
        yield replace(calm.plot, kill_after=point)


def awaits(calm: Outcome, every: int = 17) -> Iterator[Plot]:
    """Killed between two awaits."""
    for point in _points(calm, "await", calm.counts.steps, every):
        yield _faulty(calm, Fault("await", point, "kill"))


def double_kills(calm: Outcome, every: int = 5) -> Iterator[Plot]:
    """Killed after a write, and the next manager some writes later."""
    for point, later in zip(_writes(calm, "double", every), cycle(DISTANCES), strict=False):
        yield _faulty(calm, Fault("write", point, "kill"), Fault("write", point + later, "kill"))


def late_restarts(calm: Outcome, every: int = 5) -> Iterator[Plot]:
    """Killed after a write, and then the next manager receives every event late."""
    for point in _writes(calm, "late", every):
        yield replace(_faulty(calm, Fault("write", point, "slow-watches")), kill_after=point)


def stale_restarts(calm: Outcome, every: int = 5) -> Iterator[Plot]:
    """Killed after a write, and then the next manager first sees older objects."""
    for point, depth in zip(_writes(calm, "stale", every), cycle(DEPTHS), strict=False):
        yield replace(calm.plot, kill_after=point, stale=depth)


def unobserved_states(calm: Outcome, every: int = 5) -> Iterator[Plot]:
    """After a write all watches fall silent, and then their history is lost."""
    for point in _writes(calm, "unobserved", every):
        yield _faulty(calm, Fault("write", point, "silent-watches"))


def killed_leaders(calm: Outcome, every: int = 5) -> Iterator[Plot]:
    """The leader is killed after a write, and another manager takes the lead."""
    for point in _writes(calm, "leader", every):
        yield replace(_faulty(calm, Fault("write", point, "kill")), elect=True)


def frozen_leaders(calm: Outcome, every: int = 7) -> Iterator[Plot]:
    """The leader stands still after a write, and goes on when another has taken the lead."""
    for point in _writes(calm, "frozen", every):
        yield replace(_faulty(calm, Fault("write", point, "freeze")), elect=True)


def lost_halves(calm: Outcome, every: int = 7) -> Iterator[Plot]:
    """After a write one half loses its Lease to a holder that does not exist; the other half goes on."""
    for point in _writes(calm, "half", every):
        yield replace(_faulty(calm, Fault("write", point, "lease-stolen")), elect=True)


def with_nodes_apart(calm: Outcome, every: int = 5) -> Iterator[Plot]:
    """Killed after a write, where nodes have a cluster of their own."""
    for point in _writes(calm, "apart", every):
        yield replace(calm.plot, kill_after=point, apart=True)


ROUNDS: Mapping[str, Round] = {
    "crash": every_write,
    "await": awaits,
    "double": double_kills,
    "late": late_restarts,
    "stale": stale_restarts,
    "unobserved": unobserved_states,
    "leader": killed_leaders,
    "frozen": frozen_leaders,
    "half": lost_halves,
    "apart": with_nodes_apart,
}
"""All ways to disturb a story at its points, by their names in the table."""


def judged(outcome: Outcome, wanted: Picture) -> Outcome:
    """The same run, with a violation for each difference of its end from the picture that it should have."""
    found = outcome.picture
    if outcome.plot.stale and outcome.story in COUNT_MOVED:
        wanted, found = _without_vms(wanted), _without_vms(found)
    wrong = tuple(f"{ANOTHER_END}: {line}" for line in difference(wanted, found))
    return replace(outcome, violations=(*outcome.violations, *wrong)) if wrong else outcome


def _without_vms(picture: Picture) -> Picture:
    return tuple(line for line in picture if not line.startswith("vm "))


def difference(wanted: Picture, found: Picture) -> tuple[str, ...]:
    """How two pictures differ, as text."""
    missing, left = list(wanted), []
    for line in found:
        if line in missing:
            missing.remove(line)
        else:
            left.append(line)
    return (*(f"missing: {line}" for line in missing), *(f"instead: {line}" for line in left))


def _writes(calm: Outcome, round_: str, every: int) -> range:
    return _points(calm, round_, calm.counts.writes, every)


def _points(calm: Outcome, round_: str, last: int, every: int) -> range:
    """From 1 to ``last``, or each ``every``-th of them, from a first one that depends on story and seed."""
    first = 1 + number(f"{calm.plot.seed}/{calm.story}/{round_}") % min(every, max(1, last))
    return range(first, last + 1, every)


def _faulty(calm: Outcome, *faults: Fault) -> Plot:
    return replace(calm.plot, schedule=Schedule(faults))
