"""How long the API server of the nodes has not answered, and which errors mean that it did not."""

from datetime import timedelta

import pytest

from kubewright.base.clock import SteadyClock
from kubewright.base.errors import KubewrightError
from kubewright.kube.errors import ConnectFailed, TimedOut
from kubewright.machines.machine.memory import Read, Unanswered, is_unanswered
from kubewright.machines.machine.seen import Cordon, DeleteNode
from kubewright.testing.clocks import ManualClock
from kubewright.wire.errors import Conflict, Forbidden, NotFound, TooManyRequests, Unauthorized, Unavailable


@pytest.mark.parametrize(
    ("error", "unanswered"),
    [
        (TimedOut("slow"), True),
        (ConnectFailed("refused"), True),
        (Unavailable("busy"), True),
        (TooManyRequests("later"), True),
        (Unauthorized("who are you"), True),
        (Forbidden("no"), False),
        (NotFound("gone", details={"name": "n"}), False),
        (NotFound("404 page not found"), True),
        (Conflict("changed"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_which_errors_are_no_answer(error: KubewrightError, unanswered: bool) -> None:
    assert is_unanswered(error) is unanswered


class Silence:
    """Failures of one machine at given seconds."""

    def __init__(self) -> None:
        self.hands = ManualClock()
        self.unanswered = Unanswered(SteadyClock(self.hands).now, timedelta(seconds=30))

    def fails(self, at: float, request: type[Cordon | DeleteNode] | Read = Read.NODE) -> bool:
        self.hands.passed = at
        return self.unanswered.note_failure("u1", request)


def test_a_silence_lasts_after_half_a_minute() -> None:
    silence = Silence()
    assert [silence.fails(at) for at in (0, 20, 30, 200)] == [False, False, True, True]


def test_one_failure_of_each_of_two_kinds_is_no_silence() -> None:
    silence = Silence()
    assert not silence.fails(0, Cordon), "it was carried out, so it is not sent again"
    assert not silence.fails(95, DeleteNode), "the server answered everything in between"
    assert silence.fails(125, DeleteNode)


def test_an_answer_ends_it_for_its_own_kind() -> None:
    silence = Silence()
    assert not silence.fails(0, Cordon)
    silence.unanswered.note_success("u1", Read.NODE)
    assert silence.fails(31, Cordon)
    silence.unanswered.note_success("u1", Cordon)
    assert not silence.fails(32, Cordon)


def test_what_was_long_ago_counts_no_more() -> None:
    silence = Silence()
    assert not silence.fails(0, DeleteNode)
    assert not silence.fails(301)
    silence.unanswered.forget("u1")
    assert not silence.fails(400)
