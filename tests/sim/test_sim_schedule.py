"""Schedules are values: printed, read back, shrunk."""

from dataclasses import replace
from functools import cache

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.testing.clocks import LoopClock
from simulation.run import Outcome, simulate
from simulation.schedule import Schedule, draw, parse
from simulation.search import plot_of, replay, shrink
from simulation.stories import BY_NAME
from simulation.story import Story
from simulation.world import Plot


@pytest.mark.parametrize("seed", range(20))
def test_what_is_printed_can_be_read(seed: int) -> None:
    schedule = draw(LoopClock(seed=seed).random)
    assert schedule.faults
    assert parse(str(schedule)) == schedule


@pytest.mark.parametrize("text", ["api", "api:1", "api:x:lose", "api:1:kill", "moon:1:lose"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)


def test_a_seed_stands_for_one_plot() -> None:
    assert plot_of(7) == plot_of(7)
    assert plot_of(7) != plot_of(8)


@cache
def _calm() -> Outcome:
    return simulate(BY_NAME["adopt"], Plot())


def _guilty(story: Story, plot: Plot) -> Outcome:
    """A run that fails whenever the manager is killed while a call is late."""
    guilty = {"kill", "late"} <= {fault.word for fault in plot.schedule.faults}
    wrong = ("Late: it hangs",) if guilty else ()
    return replace(_calm(), story=story.name, plot=plot, violations=wrong)


def test_a_failure_is_shrunk_to_what_causes_it() -> None:
    noisy = parse("api:3:lose,at:1.5:kill,call:2:late,watch:4:cut,at:9:freeze")
    failed = _guilty(BY_NAME["roll"], Plot(seed=9, schedule=noisy))
    assert failed.violations
    smallest = shrink(failed, _guilty)
    assert smallest.plot.schedule == parse("at:1.5:kill,call:2:late")
    assert replay(smallest) == ("python -m simulation --story roll --seed 9 --faults at:1.5:kill,call:2:late")


def test_a_schedule_without_faults_is_calm() -> None:
    assert parse("") == Schedule()
