"""Many worlds on several processes: in order, the same whatever their number, and every lost one is reported."""

import io
import operator
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from simulation import __main__ as command
from simulation import campaign as campaigns
from simulation import farm as farming
from simulation.campaign import LOST, Campaign, Job, Try, seed_tries
from simulation.crashes import every_write
from simulation.farm import Farm, Lost, TooManyLost
from simulation.report import DRAWN, SEED, Effort, Progress, Table
from simulation.run import Outcome
from simulation.schedule import parse
from simulation.tally import Counts
from simulation.world import Plot

add = partial(partial, operator.add)


def test_answers_come_in_the_order_of_the_jobs() -> None:
    with Farm(2) as farm:
        slow_first = [partial(time.sleep, 0.2), *(add(1, number) for number in range(5))]
        assert list(farm.run(slow_first)) == [None, 1, 2, 3, 4, 5]


def test_a_run_may_begin_while_another_is_under_way() -> None:
    with Farm(2) as farm:
        outer = farm.run(add(1, number) for number in range(4))
        assert next(outer) == 1
        assert list(farm.run([add(100, 1)])) == [101]
        assert list(outer) == [2, 3, 4]


def test_a_job_that_comes_to_nothing_is_lost_and_the_others_are_not() -> None:
    with Farm(2, seconds=0.5) as farm:
        dies = partial(os._exit, 3)
        hangs = partial(time.sleep, 60)
        breaks = partial(operator.truediv, 1, 0)
        first, died, hung, broke, last = farm.run([add(1, 1), dies, hangs, breaks, add(2, 2)])
    assert (first, last) == (2, 4)
    assert died == Lost("its process died: exit status 3")
    assert isinstance(hung, Lost)
    assert hung.why.startswith("it still ran after 0.5 s, at ")
    assert isinstance(broke, Lost)
    assert broke.why.startswith("it raised ZeroDivisionError: division by zero, at ")


def test_a_farm_whose_workers_all_die_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farming, "MOST_LOST", 2)
    with (
        Farm(1) as farm,
        pytest.raises(TooManyLost, match="2 runs were lost, the last one because its process"),
    ):
        list(farm.run([partial(os._exit, 1)] * 5))


def _printed(jobs: int, tries: list[Try]) -> list[str]:
    said: list[str] = []
    with Farm(jobs) as farm:
        campaign = Campaign(farm, said.append, Progress(io.StringIO()))
        list(campaign.run(tries, len(tries)))
    return [*said, *campaign.table.lines(Effort(seconds=1.0, jobs=0))]


def test_the_table_is_the_same_whatever_the_number_of_jobs() -> None:
    tries = list(seed_tries(range(3)))
    one = _printed(1, tries)
    assert one == _printed(2, tries)
    assert "nothing was violated" in one[-1]


def _table(worlds: int, without: str = "") -> Table:
    """A campaign of so many random worlds that had every fault but one."""
    table = Table((SEED,))
    words = {f"{place}:{word}": 1 for place, drawn in DRAWN.items() for word in drawn}
    words.pop(without, None)
    for number in range(worlds):
        counts = Counts(faults=dict(words))
        table.add(SEED, Outcome(f"story-{number % 40}", Plot(number), (), (), counts, 1.0, "", []))
    return table


@pytest.mark.parametrize(
    ("worlds", "without", "silent"),
    [
        pytest.param(300, "", [], id="every fault happened"),
        pytest.param(300, "call:late", ["call:late"], id="one that never happened fails the campaign"),
        pytest.param(50, "call:late", [], id="too few worlds to have each of them"),
    ],
)
def test_a_fault_that_does_not_happen_any_more_is_told(worlds: int, without: str, silent: list[str]) -> None:
    table = _table(worlds, without)
    assert (table.silent, table.good) == (silent, not silent)
    told = "".join(table.lines(Effort(seconds=1.0, jobs=1)))
    assert ("no world had these faults: call:late" in told) is bool(silent)


def test_a_run_that_is_lost_names_its_seed() -> None:
    lost = Job("roll", Plot(seed=17, schedule=parse("at:1:kill,call:2:hang"))).lost(
        "its process died: signal SIGKILL"
    )
    assert lost.violations == (f"{LOST}: its process died: signal SIGKILL",)
    said: list[str] = []
    with Farm(1) as farm:
        campaign = Campaign(farm, said.append, Progress(io.StringIO()))
        broken = Job("no such story", Plot(seed=17))
        list(campaign.run([Try(SEED, broken)], 1))
    assert not campaign.table.good
    assert said[0].startswith(
        "no such story, seed 17 (seeds):\n  lost: it raised InvalidInput: no story 'no such story'; there are create, "
    )
    assert said[0].endswith("--story no such story --seed 17")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shown"), [(_Terminal(), True), (io.StringIO(), False)], ids=["terminal", "file"]
)
def test_progress_is_for_those_who_watch(
    stream: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress(stream)
    progress.expect(2)
    progress.step(good=True)
    progress.step(good=False)
    progress.clear()
    assert bool(stream.getvalue()) is shown
    if shown:
        assert "2 of 2 worlds, 1 failed" in stream.getvalue()
        assert stream.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K"), (
            "the cursor is back, the line is empty"
        )


@pytest.mark.parametrize(
    "arguments",
    ["--story nowhere", "--story roll --faults moon:1:lose", "--seeds 1 --json /no/such/folder/table.json"],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments.split()) == 2
    assert capsys.readouterr().out.count("\n") == 1


def test_ctrl_c_ends_everything_without_a_traceback(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    run = [sys.executable, "-m", "simulation", "--seeds", "100000", "--json", str(table)]
    ours, terminal = pty.openpty()
    with (
        _hearing_ctrl_c(),
        subprocess.Popen(
            run,
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        ) as one,
    ):
        os.close(terminal)
        watched = _read_until(ours, b" a second")
        os.killpg(one.pid, signal.SIGINT)
        out, _ = one.communicate(timeout=30)
    assert one.returncode == command.INTERRUPTED
    assert out.endswith("interrupted: the table shows what was done until then\n")
    assert "seeds" in out
    shown = watched + _rest(ours)
    assert b"Traceback" not in shown
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l"), "the cursor is back"
    assert table.exists()


@contextmanager
def _hearing_ctrl_c() -> Iterator[None]:
    """Processes that are started now get Ctrl-C, even if these tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _read_until(file: int, words: bytes) -> bytes:
    """What a terminal shows until it shows ``switches``."""
    found = b""
    while words not in found:
        found += os.read(file, 4096)
    return found


def _rest(file: int) -> bytes:
    """What it shows until it is closed."""
    found = b""
    with suppress(OSError):
        while more := os.read(file, 4096):
            found += more
    os.close(file)
    return found


@pytest.mark.parametrize(("one_in", "worlds"), [(1, 1 + 4), (3, 1 + 2), (9, 1 + 1)])
def test_some_of_the_points_are_tried(
    one_in: int, worlds: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a story with four writes, in a round that is killed after each."""
    monkeypatch.setattr(campaigns, "ROUNDS", {"crash": every_write})
    words = f"--crashes --story keep-sets --jobs 1 --one-in {one_in}"
    assert command.main(words.split()) == 0
    assert f"\n{worlds} worlds of " in capsys.readouterr().out
