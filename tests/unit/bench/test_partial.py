"""What the bench keeps and prints of a run that ends before its end."""

import asyncio
import os
import signal
from io import StringIO

import pytest
from bench import table
from bench.measured import Stuck, measured
from bench.table import Phase, Result
from rich.console import Console


def play(end):
    """A scenario that measured the creation in 8 s, and then ended by ``end``."""

    async def measure(world, keep):
        result = Result(world, 4)
        keep(result)
        result.phases["create"] = Phase(seconds=8, writes=12)
        async with asyncio.TaskGroup():
            await end()

    return measure


async def by_a_signal():
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()


async def by_a_deadline():
    raise Stuck("roll: not within 900 s")


async def by_its_end():
    pass


@pytest.mark.parametrize(
    ("end", "worlds", "stopped"),
    [
        pytest.param(by_a_signal, ["a"], "a signal ended it", id="a signal: no world after it is measured"),
        pytest.param(
            by_a_deadline, ["a"], "roll: not within 900 s", id="a wait that had no success: the same"
        ),
        pytest.param(by_its_end, ["a", "b"], "", id="its end: all worlds are measured"),
    ],
)
def test_what_was_measured_is_kept_whatever_ends_the_run(end, worlds, stopped):
    found = measured(["a", "b"], play(end))
    assert ([each.world for each in found.results], found.stopped) == (worlds, stopped)
    assert found.results[0].phases["create"].seconds == 8


def test_an_error_that_is_no_end_of_a_wait_is_not_hidden():
    async def broken():
        raise KeyError("x")

    with pytest.raises(ExceptionGroup):
        measured(["a"], play(broken))


def test_a_table_of_a_run_without_its_end_has_what_was_measured_and_is_empty_elsewhere():
    told = StringIO()
    console = Console(file=told, width=120, color_system=None)
    table.show(measured(["a"], play(by_a_deadline)).results, console)
    rows = dict(
        [cell.strip() for cell in line.split("│")][1:4:2]
        for line in told.getvalue().splitlines()
        if line.count("│") == 4
    )
    assert rows["0 to Running"] == "8 s"
    assert rows["our writes per machine: create"] == "3 (yes)"
    assert [rows["back to 0"], rows["nodes left behind"], rows["peak resident memory"]] == ["", "", ""]
