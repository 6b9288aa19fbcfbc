"""Whole clusters on virtual time, by all their stories: calm, killed on the way, and in hostile worlds."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from simulation import crashes
from simulation.__main__ import main
from simulation.clusterapi.whole.stories import BY_NAME, STORIES
from simulation.library import fit
from simulation.run import Outcome, simulate
from simulation.schedule import parse
from simulation.search import plot_of, replay
from simulation.story import Story
from simulation.world import Plot

DEPTH = os.environ.get("SIM", "")
pytestmark = pytest.mark.timeout(900)

POINTS = {"": 1, "more": 2}.get(DEPTH, 10_000)
"""About how many crash points of each story are tried; ``make sim`` tries more, SIM=all all of them."""
KILLED = frozenset(story.name for story in (STORIES if DEPTH else STORIES[::4]))
"""The stories in which managers are killed: every fourth in ``make test``, where the others run undisturbed."""
SEEDS = range({"": 4, "more": 32}.get(DEPTH, 400))

QUIET_SECONDS = 600.0 if DEPTH else 60.0
"""For how long after the end of an undisturbed story no manager may write."""
FOUND = {
    "a provider's object had no owner yet when its Cluster was deleted": (
        "whole-cluster-gone-at-once",
        Plot(
            seed=1,
            schedule=parse(
                "at:0:slow-watches,at:0:storm-lose-answer,at:0.99:storm-conflict,await:76:restart-server,"
                "await:132:lease-deleted,call:1:fail-after,call:10:fail"
            ),
            elect=True,
        ),
    ),
    "a child became the Cluster's own while that was being deleted": (
        "whole-cluster-gone-at-once",
        Plot(
            seed=24,
            schedule=parse(
                "api:1:delay,api:2:error,api:3:too-late,api:26:execute-late,api:56:execute-late,at:2.29:kill,"
                "watch:27:expire,write:1:storm-error"
            ),
            apart=True,
        ),
    ),
    "a machine was deleted with its Cluster before its controller had seen it": (
        "whole-cluster-gone-at-once",
        Plot(
            seed=5026,
            schedule=parse(
                "api:9:delay,api:22:lose,api:46:delay,at:0.01:storm-throttle,at:3.45:freeze,await:12:lease-deleted,"
                "write:1:cloud-down"
            ),
            elect=True,
        ),
    ),
}
"""Worlds that have found a fault of the product."""


def disturbed(calm: Outcome) -> Iterator[Plot]:
    if calm.story in KILLED:
        yield from crashes.every_write(calm, max(1, calm.counts.writes // POINTS))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_of_a_whole_cluster_survives_crashes(story: Story) -> None:
    calm = simulate(story, Plot(seed=1), quiet=QUIET_SECONDS)
    assert calm.good, (calm.violations, replay(calm, quiet=QUIET_SECONDS))
    for plot in disturbed(calm):
        outcome = crashes.judged(simulate(story, plot), calm.picture)
        assert outcome.good, (outcome.violations, replay(outcome))


@pytest.mark.parametrize("seed", SEEDS)
def test_stories_of_whole_clusters_in_hostile_worlds(seed: int) -> None:
    story, plot = plot_of(seed, STORIES)
    outcome = simulate(story, fit(story, plot))
    assert outcome.good, (outcome.violations, replay(outcome))


@pytest.mark.parametrize(("name", "plot"), FOUND.values(), ids=FOUND)
def test_a_world_that_has_found_a_fault_is_good_now(name: str, plot: Plot) -> None:
    outcome = simulate(BY_NAME[name], plot)
    assert outcome.good, (outcome.violations, replay(outcome))


def test_the_command_of_a_replay_shows_the_same_world(capsys: pytest.CaptureFixture[str]) -> None:
    story, plot = plot_of(3, STORIES)
    outcome = simulate(story, fit(story, plot))
    command = replay(outcome)
    assert command.startswith(f"python -m simulation --story {story.name} --seed 3")
    assert main(shlex.split(command)[3:]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert f"{outcome.counts.writes} writes, {outcome.seconds:.1f} s" in shown[-2]
    assert len(shown) == len(outcome.lines) + 2, (
        "the trace, but for hashes of keys, which nothing draws by a seed"
    )


def test_crash_points_of_whole_clusters_are_tried_as_those_of_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["--story", "whole-cluster-gone-at-once", "--crashes", "--one-in", "40", "--jobs", "1"]
    assert main(command) == 0
    assert "nothing was violated" in capsys.readouterr().out


WITHOUT_KEYS = re.compile(r"@.*")
"""The version and the hash of an object, which holds keys that no seed draws."""


def test_a_run_is_the_same_whatever_order_the_interpreter_gives_to_sets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["--story", "whole-cluster-rolled-back", "--seed", "1", "--kill-after", "40"]
    elsewhere = subprocess.run(
        [sys.executable, "-m", "simulation", *command],
        env={**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert main(command) == 0
    first, second = (
        [WITHOUT_KEYS.sub("", line) for line in shown.splitlines()[:-2]]
        for shown in (elsewhere, capsys.readouterr().out)
    )
    assert first == second, "nor does it matter what this process has done before"
    assert len(first) > 500
