"""Nested control planes on virtual time, by all their stories: calm, killed on the way, and in hostile worlds."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations

import pytest

from simulation import crashes
from simulation.controlplanes.acts import ORDER
from simulation.controlplanes.stories import (
    BY_NAME,
    DAY_TWO,
    STORIES,
    made_and_deleted,
)
from simulation.library import fit
from simulation.run import Outcome, simulate
from simulation.schedule import parse
from simulation.search import plot_of, replay
from simulation.story import Story
from simulation.world import Plot

DEPTH = os.environ.get("SIM", "")
pytestmark = pytest.mark.timeout(900)

TOLD = (*STORIES, *DAY_TWO) if DEPTH else (*STORIES[::12], *DAY_TWO[3::11])
"""``make test`` tells a few stories; ``make sim`` all of them, killed after every fourth of their writes (those of
day two, which are longer, after every fortieth), and with SIM=all after each."""
SEEDS = [
    *(pytest.param(seed, STORIES, id=f"{seed}") for seed in range({"": 1, "more": 60}.get(DEPTH, 600))),
    *(
        pytest.param(seed, DAY_TWO, id=f"{seed}-day-two")
        for seed in range({"": 1, "more": 10}.get(DEPTH, 600))
    ),
]
ORDERS = [*permutations(ORDER)][-1 if not DEPTH else 0 :]
QUIET_SECONDS = 3600.0 if DEPTH else 60.0
"""For how long after the end of an undisturbed story no manager may write."""


ROUNDS = (crashes.late_restarts, crashes.killed_leaders, crashes.double_kills)


def disturbed(story: Story, calm: Outcome) -> Iterator[Plot]:
    """Of a story of day two ``make sim`` tries one of the other rounds, by its place in the table."""
    if DEPTH == "more" and story in DAY_TWO:
        yield from crashes.every_write(calm, 40)
        yield from ROUNDS[DAY_TWO.index(story) % len(ROUNDS)](calm, 60)
        return
    every = {"": max(1, calm.counts.writes), "more": 4}.get(DEPTH, 1)
    yield from crashes.every_write(calm, every)
    if DEPTH:
        for disturb in ROUNDS:
            yield from disturb(calm, 1 if DEPTH == "all" else 19)


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.name)
def test_a_story_of_a_control_plane_survives_crashes(story: Story) -> None:
    calm = simulate(story, Plot(seed=1), quiet=QUIET_SECONDS)
    assert calm.good, (calm.violations, replay(calm, quiet=QUIET_SECONDS))
    for plot in disturbed(story, calm):
        outcome = crashes.judged(simulate(story, plot), calm.picture)
        assert outcome.good, (outcome.violations, replay(outcome))


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_four_objects_come_and_go_in_any_order(order: tuple[str, ...]) -> None:
    outcome = simulate(made_and_deleted(order), Plot(seed=2))
    assert outcome.good, outcome.violations


@pytest.mark.parametrize(("seed", "stories"), SEEDS)
def test_stories_of_control_planes_in_hostile_worlds(seed: int, stories: tuple[Story, ...]) -> None:
    story, plot = plot_of(seed, stories)
    outcome = simulate(story, fit(story, plot))
    assert outcome.good, (outcome.violations, replay(outcome))


FROZEN = "api:14:error,api:28:unavailable,api:51:too-late,at:0.85:lease-deleted,at:0.85:slow-watches,await:212:freeze"
MENDED = {
    "a leader that stood still while it asked etcd's members changes none afterwards": (
        "etcd-learner-dies",
        Plot(seed=16, schedule=parse(f"{FROZEN},watch:35:break"), elect=True),
    ),
    "a snapshot that is complete, which its manager does not know, is not taken again over its file": (
        "restored-and-etcd-made-again",
        Plot(seed=149, schedule=parse("at:0:slow-watches,at:0:storm-lose-answer,call:3:fail-after")),
    ),
    "a status is not blamed on a manager that waits for the answer to its first list": (
        "restored-and-etcd-made-again",
        Plot(seed=226, schedule=parse("api:40:too-late,at:0.66:kill,await:101:cut-all,call:1:late")),
    ),
}
"""Worlds in which a fault was found that is mended."""


@pytest.mark.parametrize(("name", "plot"), MENDED.values(), ids=MENDED)
def test_a_world_that_once_went_wrong_goes_well(name: str, plot: Plot) -> None:
    assert simulate(BY_NAME[f"control-plane-{name}"], plot).violations == ()


_PROGRAM = """
from tests.sim.test_sim_control_planes import digest
print(digest())
"""
HOSTILE = Plot(
    seed=4, schedule=parse("api:5:lose-answer,write:9:kill,call:1:fail-after,watch:22:bunch"), elect=True
)


def digest() -> str:
    """The hash of a trace, in which the managers make keys."""
    return simulate(BY_NAME["control-plane-changed-on-the-way"], HOSTILE).digest


def test_a_trace_is_the_same_whatever_keys_are_drawn_and_whatever_hashes_a_process_has() -> None:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "4242",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest()
