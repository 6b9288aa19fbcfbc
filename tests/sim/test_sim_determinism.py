"""The same seed gives the same trace, byte for byte, whatever the hashes of this process are."""

import os
import subprocess
import sys

import pytest

from kubewright.testing.simulation.run import simulate
from kubewright.testing.simulation.search import plot_of

_PROGRAM = """
from kubewright.testing.simulation.run import simulate
from kubewright.testing.simulation.search import plot_of
for seed in (1, 2, 5, 11):
    print(simulate(*plot_of(seed)).digest)
"""


def _traces(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_two_processes_with_different_hashes_tell_the_same_story() -> None:
    one = _traces("1")
    assert one == _traces("4242")
    assert len(set(one.split())) == 4


@pytest.mark.parametrize("seed", [3, 8])
def test_the_same_process_tells_it_twice(seed: int) -> None:
    one, two = simulate(*plot_of(seed)), simulate(*plot_of(seed))
    assert one.lines == two.lines
    assert one.picture == two.picture


def test_another_seed_is_another_order() -> None:
    story, plot = plot_of(3)
    other = plot_of(4)[1]
    assert simulate(story, plot).digest != simulate(story, other).digest
