"""Stories: undisturbed, disturbed at one of their points in one way, and a few random schedules.

This is a sample that takes seconds. ``make sim`` runs every point of every story, an hour of quiet after
each, and as many seeds as it is asked for; CI runs that too.
"""

from itertools import cycle

import pytest

from simulation.crashes import ROUNDS, judged, undisturbed
from simulation.loop import number
from simulation.run import simulate
from simulation.schedule import parse
from simulation.search import plot_of, replay
from simulation.stories import BY_NAME, STORIES
from simulation.story import Story
from simulation.world import Plot

SEEDS = range(300, 306)
"""Beyond those that ``make sim`` runs by default."""
QUIET_SECONDS = 60.0


@pytest.mark.parametrize(
    ("story", "disturb"),
    list(zip(STORIES[::2], cycle(ROUNDS), strict=False)),
    ids=lambda value: getattr(value, "name", value),
)
def test_disturbed_at_any_point_it_ends_in_the_same_world(story: Story, disturb: str) -> None:
    calm = undisturbed(story, seed=1, quiet=QUIET_SECONDS)
    assert calm.violations == (), replay(calm, quiet=QUIET_SECONDS)
    plots = list(ROUNDS[disturb](calm))
    outcome = judged(simulate(story, plots[number(story.name) % len(plots)]), calm.picture)
    assert outcome.violations == (), replay(outcome)


FOUND = {
    "a set that was let go is not deleted by one who still sees its owner": (
        "keep-sets",
        Plot(kill_after=3, stale=8),
    ),
    "a set whose creation was not answered counts before the next one is sized": (
        "roll-twice",
        Plot(9776, parse("at:0:slow-watches,at:0:storm-lose-answer,watch:23:refuse"), elect=True),
    ),
    "a set does not carry out a size that was meant for another spec": (
        "zero-and-back",
        Plot(1, parse("api:1:execute-late,api:3:execute-late,write:1:kill")),
    ),
    "nor does it after a death in the middle of a roll": (
        "roll-and-scale",
        Plot(200311, parse("api:2:delay,at:1.83:kill,call:6:lost"), elect=True),
    ),
    "a VM that the cloud does not show yet is not deleted under its pods": (
        "delete-while-creating",
        Plot(100315, parse("api:25:too-late,at:1.49:kill,call:12:stale"), apart=True),
    ),
    "nor one that could not be looked up": (
        "delete-while-creating",
        Plot(100029, parse("at:2.06:kill,call:8:lost,call:12:quota"), apart=True),
    ),
    "a machine that waits for its node's cluster is not released on an old no of the cloud": (
        "delete-while-creating",
        Plot(6039, parse("call:5:very-late,write:21:target-outage"), apart=True),
    ),
    "a healthy machine is not failed because the cloud does not say whether its VM is complete": (
        "roll-carefully",
        Plot(400272, parse("at:1.1:freeze,call:7:fail-after,write:11:outage"), elect=True, apart=True),
    ),
    "nor while the cloud is being asked": (
        "roll-carefully",
        Plot(401028, parse("api:6:error,call:10:lost,write:36:partition")),
    ),
    "who reads a date of an hour that was not does not wait for it": (
        "vanish",
        Plot(
            4826,
            parse("at:5.21:renewals-lost,at:7.95:vm-vanishes,await:210:clock-leap,write:19:outage"),
            elect=True,
        ),
    ),
    "a node that no list has shown is drained too": (
        "delete-while-draining",
        Plot(0, kill_after=3, stale=20),
    ),
    "a set is not made smaller for a deployment that is older than it": (
        "spare-scale",
        Plot(0, kill_after=14, stale=20),
    ),
    "an attachment that is gone is not deleted again and again while a cache still shows it": (
        "drain-in-vain",
        Plot(5, parse("at:1.33:kill,at:2.19:kill,write:20:target-unreachable"), elect=True, apart=True),
    ),
    "a pod that an old list still shows is not deleted by force in a loop": (
        "drain-in-vain",
        Plot(40, kill_after=16, stale=3),
    ),
    "a set whose watch is late is set free too": ("keep-sets", Plot(294, parse("watch:26:bunch"))),
    "the node of a second, late VM goes like that of the first": (
        "roll-twice",
        Plot(2007, parse("api:3:unavailable,at:0.31:kill,await:88:silent-watches,call:2:hang"), apart=True),
    ),
    "a node is not cordoned by a late request when its update in place is over": (
        "update-with-surge",
        Plot(139, parse("api:58:execute-late,await:8:storm-lose"), elect=True, apart=True),
    ),
    "a node is not selected again by a late request when its update in place is over": (
        "update-with-surge",
        Plot(139, parse("api:56:execute-late,await:8:storm-lose"), elect=True, apart=True),
    ),
    "a machine that was moved before its deployment went back does not stay in a set of size 0": (
        "update-and-back",
        Plot(0, parse("write:28:kill"), elect=True),
    ),
    "a user who breaks a class while it has VMs is told of what they lack, and nothing has failed": (
        "class-breaks",
        Plot(0, parse("write:4:slow-watches"), kill_after=4),
    ),
}
"""Worlds in which something went wrong once, by what was wrong."""


@pytest.mark.parametrize(("story", "plot"), FOUND.values(), ids=FOUND)
def test_what_was_found_once_stays_mended(story: str, plot: Plot) -> None:
    outcome = judged(simulate(BY_NAME[story], plot), undisturbed(BY_NAME[story], seed=plot.seed).picture)
    assert outcome.violations == (), replay(outcome)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_schedule_of_failures_loses_a_machine(seed: int) -> None:
    outcome = simulate(*plot_of(seed))
    assert outcome.violations == (), replay(outcome)
