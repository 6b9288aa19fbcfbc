"""Rounds: which plots they make, and that what they do to a world is what they say."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from kubewright.api.machine import names
from simulation.crashes import ROUNDS, every_write, judged, undisturbed
from simulation.run import Outcome, simulate
from simulation.schedule import parse
from simulation.stories import BY_NAME
from simulation.world import Plot

rounds = pytest.mark.parametrize("round_", ROUNDS)


@cache
def _calm(story: str = "adopt") -> Outcome:
    return undisturbed(BY_NAME[story], seed=1)


def _of_seed(seed: int) -> Outcome:
    return replace(_calm("create"), plot=Plot(seed=seed))


def _points(round_: str, calm: Outcome) -> list[float]:
    plots = ROUNDS[round_](calm)
    return [plot.kill_after or min(fault.number for fault in plot.schedule.faults) for plot in plots]


@rounds
def test_a_round_tries_points_all_over_the_story(round_: str) -> None:
    calm = _of_seed(1)
    points, last = _points(round_, calm), calm.counts.steps if round_ == "await" else calm.counts.writes
    strides = {after - before for before, after in pairwise(points)}
    assert len(strides) == 1
    assert 1 <= points[0] <= max(strides)
    assert last - max(strides) < points[-1] <= last


@rounds
def test_seeds_together_try_every_point(round_: str) -> None:
    found = {point for seed in range(200) for point in _points(round_, _of_seed(seed))}
    calm = _of_seed(0)
    assert found == set(range(1, 1 + (calm.counts.steps if round_ == "await" else calm.counts.writes)))


@rounds
def test_a_round_keeps_seed_and_options(round_: str) -> None:
    calm = _of_seed(3)
    assert all((plot.seed, plot.options) == (3, calm.plot.options) for plot in ROUNDS[round_](calm))


def test_every_write_is_a_crash_point() -> None:
    assert [plot.kill_after for plot in every_write(_calm())] == list(range(1, _calm().counts.writes + 1))


def test_an_end_in_another_world_is_a_violation() -> None:
    assert judged(_calm(), _calm().picture).good
    assert judged(_calm(), (*_calm().picture, "one more")).violations == ("another_end: missing: one more",)


def _lines(plot: Plot, story: str = "create") -> list[str]:
    """The faults and the changes of Leases, in order, without names and numbers."""
    outcome = simulate(BY_NAME[story], plot)
    assert outcome.violations == ()
    lines = [line.partition(" ")[2] for line in outcome.lines]
    begun = lines.index("world: the story begins")
    return [line for line in lines[begun:] if line.startswith(("world", "lease"))][1:]


CASES = {
    "await:40:kill": ["kill", "manager-1 is killed", "manager-2 starts"],
    "write:3:kill,write:4:kill": [
        "kill", "manager-1 is killed", "manager-2 starts", "kill", "manager-2 is killed", "manager-3 starts",
    ],
    "write:3:silent-watches": ["silent-watches"],
}  # fmt: skip


@pytest.mark.parametrize("faults", CASES)
def test_the_faults_of_a_manager(faults: str) -> None:
    lines = _lines(Plot(seed=1, schedule=parse(faults)))
    assert lines == [f"world: {each}" for each in CASES[faults]]


@pytest.mark.parametrize(("word", "killed"), [("kill", True), ("freeze", False)])
def test_another_manager_takes_the_lead(word: str, killed: bool) -> None:
    # by this seed one manager has both halves
    lines = _lines(Plot(seed=4, schedule=parse(f"write:3:{word}"), elect=True))
    gone = next(line for line in lines if line.endswith("is killed" if killed else "goes on"))
    leases = [line for line in lines if line.startswith("lease")]
    leader = gone.removeprefix("world: ").partition(" ")[0]
    other = {"manager-1": "manager-2", "manager-2": "manager-1"}[leader]
    halves = (names.MACHINES_LEASE, names.SETS_LEASE)
    assert sorted(leases) == [f"lease: {half} is held by {other}" for half in halves]
    assert {lines.index(line) > lines.index(gone) for line in leases} == {killed}


def test_a_manager_whose_watches_were_silent_lists_again_what_it_has_not_received() -> None:
    calm = undisturbed(BY_NAME["scale-down"], seed=1)
    silent = simulate(BY_NAME["scale-down"], replace(calm.plot, schedule=parse("write:1:silent-watches")))
    assert judged(silent, calm.picture).good
    lists_and_watches = silent.counts.requests - calm.counts.requests
    assert lists_and_watches >= 2 * 20, "twenty kinds and more, each listed and watched once more"
