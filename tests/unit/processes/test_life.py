"""What is next for the process of a program: every case of the decision, and of the pauses."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kubewright.processes.program import (
    MIB,
    Failures,
    Forget,
    Health,
    Kill,
    NextPlan,
    Process,
    Program,
    Seen,
    Start,
    Terminate,
    decide,
)

WANTED = Program("a", ("/bin/a",))
RUNS = Process(7, 100, "mark", WANTED.fingerprint)
OLD = Process(7, 100, "mark", "another")


def plan(because, *steps, wake=None):
    return NextPlan(steps, None if wake is None else timedelta(seconds=wake), because)


def seen(wanted=WANTED, process=None, now=100.0, **rest):
    return Seen(now, wanted, process, **rest)


CASES = {
    "nothing runs, and something is wanted": (seen(), plan("it does not run", Start())),
    "nothing runs, and nothing is wanted": (seen(wanted=None), plan("it is not wanted", Forget())),
    "it runs as wanted": (seen(process=RUNS), plan("it runs")),
    "it runs, and is not wanted any more": (
        seen(wanted=None, process=RUNS),
        plan("it is not wanted any more", Terminate(), wake=30),
    ),
    "it runs with other settings": (
        seen(process=OLD),
        plan("it was started with other settings", Terminate(), wake=30),
    ),
    "it runs and is not well": (
        seen(process=RUNS, health=Health(unwell="its liveness probe fails: no answer within 1 s")),
        plan("its liveness probe fails: no answer within 1 s", Terminate(failed=True), wake=30),
    ),
    "it has more memory than its limit": (
        seen(replace(WANTED, memory=100 * MIB), RUNS, memory=101 * MIB),
        plan(
            "it used 101 MiB of memory, and its limit is 100 MiB",
            Terminate(failed=True, at_once=True),
            wake=30,
        ),
    ),
    "it has all the memory that it may": (
        seen(replace(WANTED, memory=100 * MIB), RUNS, memory=100 * MIB),
        plan("it runs"),
    ),
    "it was asked to end, and has time": (
        seen(process=OLD, asked=90.0, grace=30.0),
        plan("it is ending", wake=20),
    ),
    "it was asked to end, and time is up": (
        seen(process=OLD, asked=70.0, grace=30.0),
        plan("it did not end within 30 s", Kill(), wake=1),
    ),
    "it was asked to end, and is wanted again: it ends all the same": (
        seen(process=RUNS, asked=90.0, grace=30.0),
        plan("it is ending", wake=20),
    ),
    "it ended a moment ago": (
        seen(failures=Failures(1, 1, at=99.5, last="it ended with exit code 1")),
        plan("it ended with exit code 1; the next start is 1 s after that", wake=0.5),
    ),
    "it ended, and the pause is over": (
        seen(failures=Failures(1, 1, at=99.0, last="it ended")),
        plan("it does not run", Start()),
    ),
    "it ended, and is not wanted any more": (
        seen(wanted=None, failures=Failures(1, 1, at=99.5, last="it ended")),
        plan("it is not wanted", Forget()),
    ),
}


@pytest.mark.parametrize(("state", "expected"), CASES.values(), ids=CASES)
def test_what_is_next(state, expected):
    assert decide(state) == expected


@pytest.mark.parametrize(
    ("row", "pause"),
    [(0, 0), (1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (1000, 300)],
    ids=str,
)
def test_the_pause_doubles_up_to_five_minutes(row, pause):
    assert Failures(row, row).pause == pause


def test_a_process_that_lasted_ten_minutes_begins_the_pauses_anew():
    failed = Failures(5, 5, at=1.0, last="it ended")
    assert failed.with_end("it ended", 700.0, lived=599.0) == Failures(6, 6, 700.0, "it ended")
    assert failed.with_end("it ended", 700.0, lived=600.0) == Failures(6, 1, 700.0, "it ended")
