"""What is decided about a machine now, and what comes next when nothing but time goes on."""

from datetime import timedelta

import pytest

from kubewright.machines.machine.decide import foresee, outcome
from kubewright.testing.scenes import NOW, SILENT, machine, minutes, node, seen


@pytest.mark.parametrize(
    ("of", "at", "after", "now", "then", "when"),
    [
        pytest.param(
            machine("Running"),
            node(),
            None,
            "its node is well",
            None,
            None,
            id="a machine that is well stays so",
        ),
        pytest.param(
            machine("Unknown", since=minutes(4)),
            node(SILENT),
            None,
            "it is Unknown; its health timeout runs",
            "Failed: Machine m1 health checks failing since last 10m0s",
            minutes(6),
            id="an Unknown machine fails at the end of its health timeout",
        ),
        pytest.param(
            machine("Pending", age=minutes(5)),
            None,
            None,
            "its VM exists, its node has not joined",
            "Failed: Machine m1 failed to join the cluster in 20m0s.",
            minutes(15),
            id="a machine that does not join fails at the end of its creation timeout",
        ),
        pytest.param(
            machine("Unknown", since=minutes(4)),
            node(SILENT),
            minutes(2),
            "it is Unknown; its health timeout runs",
            None,
            None,
            id="at the time that is asked for nothing has changed yet",
        ),
        pytest.param(
            machine("Unknown", since=minutes(4)),
            node(SILENT),
            timedelta(),
            "it is Unknown; its health timeout runs",
            None,
            None,
            id="where only a change brings the next pass no time is asked for",
        ),
        pytest.param(
            machine("Unknown", since=minutes(4), disable_health_timeout=True),
            node(SILENT),
            None,
            "it is Unknown, and its health timeout is disabled",
            None,
            None,
            id="without a health timeout nothing comes by itself",
        ),
    ],
)
def test_what_comes_next(of, at, after, now, then, when):
    found = foresee(seen(of, at), after)
    assert found.now.because == now
    told = None if found.then is None else outcome(found.then)
    assert told == then if then is None else told.startswith(then)
    wait = None if found.at is None else found.at - NOW
    assert wait == when if when is None else timedelta() <= wait - when < timedelta(seconds=1)
