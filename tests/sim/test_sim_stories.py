"""Every story: undisturbed, killed after its writes, and under random schedules.

What is run here by default is a sample that takes seconds; ``SIM=all`` runs every crash point and
three hundred seeds, as CI does, and ``make sim SEEDS=10000`` the long search.
"""

import os

import pytest

from kubewright.testing.simulation.crashes import crash_points, undisturbed
from kubewright.testing.simulation.run import simulate
from kubewright.testing.simulation.search import plot_of, replay
from kubewright.testing.simulation.stories import STORIES, Story

ALL = os.environ.get("SIM") == "all"
EVERY = 1 if ALL else 31
SEEDS = 300 if ALL else 12
QUIET_SECONDS = 3600.0 if ALL else 300.0
STALE_WRITES = 8

stories = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


@stories
def test_undisturbed_it_ends_well_and_then_nobody_writes(story: Story) -> None:
    outcome = undisturbed(story, seed=1, quiet=QUIET_SECONDS)
    assert outcome.violations == ()


@pytest.mark.timeout(600)
@stories
def test_killed_after_any_write_it_ends_in_the_same_world(story: Story) -> None:
    calm = undisturbed(story, seed=1)
    first = 1 + sum(story.name.encode()) % EVERY
    points = crash_points(story, calm, every=EVERY, first=min(first, calm.counts.writes))
    assert [crash for crash in points if crash.wrong] == []


@pytest.mark.timeout(600)
@stories
def test_started_again_into_an_older_world_it_ends_in_the_same_one(story: Story) -> None:
    calm = undisturbed(story, seed=2)
    first = max(1, calm.counts.writes // 2)
    points = crash_points(story, calm, every=EVERY * 2, first=1 if ALL else first, stale=STALE_WRITES)
    assert [crash for crash in points if crash.wrong] == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_schedule_of_failures_loses_a_machine(seed: int) -> None:
    outcome = simulate(*plot_of(seed))
    assert outcome.violations == (), replay(outcome)
