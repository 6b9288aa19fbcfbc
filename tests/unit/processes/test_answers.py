"""What the answers of probes make of a program: started, ready, unwell."""

from dataclasses import replace

import pytest

from kubewright.processes.probes import UNPROBED, Answers
from kubewright.processes.program import Health, Probe, Program, TcpConnect

CHECK = TcpConnect("127.0.0.1", 1)
STARTUP = Probe(CHECK, period=1.0, failures=2)
READINESS = Probe(CHECK, period=5.0, failures=2)
LIVENESS = Probe(CHECK, period=3.0, failures=3)
PROGRAM = Program("a", ("/a",), startup=STARTUP, readiness=READINESS, liveness=LIVENESS)
AT_ONCE = replace(PROGRAM, readiness=replace(READINESS, period=3.0))
"""Both probes are due in each round."""
BARE = Program("a", ("/a",))


def health(program, *answers):
    """After these answers to whatever is asked, each time for all probes that are due."""
    found = Answers()
    for answer in answers:
        asked = [None if probe is None else answer for probe in found.to_ask(program)]
        found = found.after(program, *asked)
    return found.health(program)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([], Health(), id="not asked yet"),
        pytest.param(["no"], Health(message="no"), id="the startup probe failed once"),
        pytest.param(
            ["no", "no"],
            Health(unwell="it did not start: no", message="no"),
            id="the startup probe failed too often",
        ),
        pytest.param([""], Health(started=True), id="started, and not yet asked whether it is ready"),
        pytest.param(["", ""], Health(started=True, ready=True), id="ready"),
        pytest.param(
            ["", "", "no"],
            Health(started=True, ready=True, message="no"),
            id="one failure does not end readiness",
        ),
        pytest.param(
            ["", "", "no", "no"], Health(started=True, message="no"), id="two failures end readiness"
        ),
        pytest.param(
            ["", "", "no", "", "no"],
            Health(started=True, ready=True, message="no"),
            id="only failures in a row count",
        ),
        pytest.param(
            ["", "no", "no", "no"],
            Health(started=True, unwell="its liveness probe fails: no", message="no"),
            id="three failures of liveness",
        ),
    ],
)
def test_a_program_with_all_probes(answers, expected):
    assert health(AT_ONCE, *answers) == expected


def test_a_program_without_probes_is_ready_at_the_first_look():
    assert health(BARE, "") == Health(started=True, ready=True)


def test_the_startup_probe_is_asked_alone_until_it_is_good():
    assert Answers().to_ask(PROGRAM) == (STARTUP, None, None)
    assert Answers(started=True).to_ask(PROGRAM) == (None, READINESS, LIVENESS)


STARTED = Answers(started=True)
GOOD = STARTED.after(PROGRAM, None, "", "")


@pytest.mark.parametrize(
    ("before", "answers", "program", "seconds"),
    [
        pytest.param(
            None, Answers(), replace(PROGRAM, startup=replace(STARTUP, delay=4.0)), 4, id="its delay"
        ),
        pytest.param(Answers(), Answers(startup_failures=1), PROGRAM, 1, id="its period"),
        pytest.param(Answers(), STARTED, PROGRAM, 0, id="at once, because it has just started"),
        pytest.param(STARTED, GOOD, PROGRAM, 3, id="the shorter of two periods"),
        pytest.param(STARTED, STARTED, BARE, UNPROBED, id="without a probe, a look at its output"),
    ],
)
def test_the_next_question_comes_after(before, answers, program, seconds):
    assert answers.next_in(program, before) == seconds


def test_readiness_and_liveness_are_asked_in_their_own_periods():
    found, now, asked = STARTED, 0.0, []
    while now <= 15:
        _, readiness, liveness = found.to_ask(PROGRAM)
        asked.append((now, readiness is not None, liveness is not None))
        found = found.after(
            PROGRAM, None, None if readiness is None else "", None if liveness is None else ""
        )
        now += found.next_in(PROGRAM, found)
    assert [when for when, readiness, _ in asked if readiness] == [0, 5, 10, 15]
    assert [when for when, _, liveness in asked if liveness] == [0, 3, 6, 9, 12, 15]


def test_a_failure_is_told_until_its_probe_is_good_again():
    fails = GOOD.after(PROGRAM, None, None, "").after(PROGRAM, None, "no", None)
    assert fails.after(PROGRAM, None, None, "").health(PROGRAM).message == "no"
    assert fails.after(PROGRAM, None, "", "").health(PROGRAM).message == ""
