"""Wall clocks that step, by a minute or an hour: no doubt ends early, no machine fails, no drain is cut short.

Each of these runs broke a rule while time-outs were counted on the wall clock.
"""

import pytest

from simulation.run import Outcome, simulate
from simulation.schedule import parse
from simulation.stories import BY_NAME
from simulation.world import Plot

RUNS = [
    pytest.param(
        "delete-while-creating", 64, "call:4:hang,at:0.2:kill,at:0.93:clock-ahead",
        id="the doubt about a creation of a dead manager lasts as long as it must",
    ),
    pytest.param(
        "vanish", 157, "api:11:delay,at:0.1:clock-leap,at:0.29:vm-dies,watch:26:expired",
        id="a machine that fell ill in a false hour is not ill for ever in the true one",
    ),
    pytest.param(
        "delete-while-draining", 24, "at:1:clock-leap,at:4.03:kubelet-stops",
        id="a kubelet that fell silent in the future is not waited for until then",
    ),
    pytest.param(
        "roll-carefully", 1, "at:10:clock-leap",
        id="an hour that was not makes no machine available",
    ),
    pytest.param(
        "roll-carefully", 120, "at:0.17:kill,at:0.61:clock-ahead",
        id="who begins with a wrong clock learns what time it is from the server",
    ),
    pytest.param(
        "roll-carefully", 757, "at:2.6:kill,await:112:clock-leap,watch:2:expire",
        id="also when it steps between the first answer and the first question",
    ),
    pytest.param(
        "roll-carefully", 511, "at:0.89:node-deleted",
        id="a machine whose node comes back has to prove itself again",
    ),
    pytest.param(
        "roll-carefully", 825, "at:0:storm-lose-answer,call:9:lost,write:3:kubelet-stops",
        id="a young machine in an old set is no broken one",
    ),
]  # fmt: skip


def run(story: str, seed: int, faults: str) -> Outcome:
    return simulate(BY_NAME[story], Plot(seed=seed, schedule=parse(faults)))


@pytest.mark.parametrize(("story", "seed", "faults"), RUNS)
def test_a_step_of_the_clock_harms_no_machine(story: str, seed: int, faults: str) -> None:
    assert run(story, seed, faults).violations == ()


def test_an_hour_that_was_not_makes_no_machine_too_late() -> None:
    """Without capacity machines wait; an hour ahead each of them was Failed and replaced at once, for minutes."""
    leap, none = (
        run("create", 5, faults) for faults in ("at:0:clock-leap,at:0:no-capacity", "at:0:no-capacity")
    )
    assert leap.good
    assert leap.counts.writes == none.counts.writes
