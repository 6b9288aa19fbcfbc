"""The same plot gives the same trace, byte for byte, whatever the hashes of this process are."""

import os
import subprocess
import sys

import pytest

from simulation.run import simulate
from simulation.schedule import WORDS, parse
from simulation.search import plot_of
from simulation.stories import BY_NAME
from simulation.world import Plot

EVERYWHERE = "api:3:lose-answer,api:9:conflict,watch:20:bunch,call:2:late,at:0.4:freeze,write:9:silent-watches,await:60:kill"
"""A fault at each place."""

PLOTS = {
    "calm": ("create", Plot(seed=1)),
    "killed": ("adopt", Plot(seed=2, kill_after=5)),
    "stale": ("scale-up", Plot(seed=3, kill_after=7, stale=4)),
    "elected": ("create", Plot(seed=4, schedule=parse("write:6:kill"), elect=True)),
    "apart": ("delete-while-draining", Plot(seed=5, schedule=parse("at:1:restart-target"), apart=True)),
    "everything": ("create", Plot(seed=6, schedule=parse(EVERYWHERE), elect=True, apart=True)),
}
"""One of each way in which a world can differ from another."""

_PROGRAM = """
from tests.sim.test_sim_determinism import digests
print("\\n".join(digests()))
"""


def digests() -> list[str]:
    """The hashes of the traces of all plots."""
    return [f"{how} {simulate(BY_NAME[story], plot).digest}" for how, (story, plot) in PLOTS.items()]


def _elsewhere(hash_seed: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[:-1]


def test_processes_with_different_hashes_tell_the_same_stories() -> None:
    one = _elsewhere("1")
    assert one == _elsewhere("4242")
    assert one == digests(), "what else this process has done before makes no difference"
    assert len(set(one)) == len(PLOTS)


def test_faults_are_injected_at_every_place() -> None:
    story, plot = PLOTS["everything"]
    assert {fault.place for fault in plot.schedule.faults} == set(WORDS)
    assert sum(simulate(BY_NAME[story], plot).counts.faults.values()) == len(plot.schedule.faults)


@pytest.mark.parametrize("seed", [3, 8])
def test_the_same_process_gives_the_same_trace_twice(seed: int) -> None:
    one, two = simulate(*plot_of(seed)), simulate(*plot_of(seed))
    assert one.lines == two.lines
    assert one.picture == two.picture


def test_another_seed_is_another_order() -> None:
    story, plot = plot_of(3)
    other = plot_of(4)[1]
    assert simulate(story, plot).digest != simulate(story, other).digest
