"""Which operation is sent when, and whose an answer is: decisions on values."""

import pytest

from kubewright.providers.grpc import operations
from kubewright.providers.grpc.messages import Created, Deleted, DriverSide, Failure, Listed, Params, Updated
from kubewright.providers.grpc.operations import (
    HUNG_SECONDS,
    KEPT_SECONDS,
    LAST_ID,
    PLACE_SECONDS,
    Kind,
    Operation,
    Operations,
    QueueFull,
    State,
)

VM = Created(provider_id="p", node_name="n")


def ask(to: Operations, kind: Kind, name: str = "m1", now: float = 0.0) -> Operation:
    return to.ask(kind, ("ns", name, f"uid-{name}"), Params(machine_name=name), now)


def sent(to: Operations, now: float = 0.0) -> Operation:
    found = to.next(now)
    assert found is not None
    return found


def answer(
    to: Operations, of: Operation, response: Failure | None = VM, now: float = 0.0
) -> Operation | None:
    return to.answered(DriverSide(of.id, of.kind.value, response), now)


def test_a_driver_of_2018_gets_one_operation_at_a_time_in_the_order_of_asking() -> None:
    found = Operations()
    first, second = ask(found, Kind.CREATE, "m1"), ask(found, Kind.CREATE, "m2")
    assert sent(found) is first
    assert found.next(0) is None
    answer(found, first)
    assert sent(found) is second


def test_a_driver_that_says_so_gets_more() -> None:
    found = Operations(in_flight=2)
    for name in ("m1", "m2", "m3"):
        ask(found, Kind.CREATE, name)
    assert {sent(found).subject[1], sent(found).subject[1]} == {"m1", "m2"}
    assert found.next(0) is None


def test_what_changes_nothing_goes_first() -> None:
    found = Operations()
    ask(found, Kind.CREATE, "m1"), ask(found, Kind.DELETE, "m2")
    listed = found.ask(Kind.LIST, ("class", "7"), Params(), 0)
    assert sent(found) is listed


def test_of_one_machine_one_change_is_under_way() -> None:
    found = Operations(in_flight=5)
    creation, deletion = ask(found, Kind.CREATE), ask(found, Kind.DELETE)
    assert sent(found) is creation
    assert found.next(0) is None
    answer(found, creation)
    assert sent(found) is deletion


def test_who_asks_again_finds_the_same_operation_in_its_place() -> None:
    found = Operations()
    busy, waiting = ask(found, Kind.CREATE, "m1"), ask(found, Kind.CREATE, "m2")
    sent(found)
    ask(found, Kind.CREATE, "m3")
    found.leave(waiting, 60)
    assert ask(found, Kind.CREATE, "m2", 65) is waiting
    answer(found, busy, now=66)
    assert sent(found, 66) is waiting
    assert ask(found, Kind.CREATE, "m2", 67) is waiting, "it is under way"


def test_nothing_is_sent_for_a_caller_that_left_and_its_place_is_lost_after_a_while() -> None:
    found = Operations()
    left = ask(found, Kind.CREATE, "m1")
    found.leave(left, 0)
    other = ask(found, Kind.CREATE, "m2")
    assert sent(found, 1) is other
    assert ask(found, Kind.CREATE, "m1", 1 + PLACE_SECONDS) is not left


@pytest.mark.parametrize(("kind", "response"), [(Kind.CREATE, VM), (Kind.DELETE, Deleted())])
def test_a_late_answer_is_kept_for_the_next_caller(kind: Kind, response: Failure) -> None:
    found = Operations()
    late = ask(found, kind)
    sent(found)
    found.leave(late, 235)
    assert answer(found, late, response, 400) is late
    again = ask(found, kind, now=405)
    assert (again.state, again.answer) == (State.ANSWERED, response)
    assert ask(found, kind, now=406).state is State.QUEUED, "once"


def test_a_late_answer_is_not_kept_for_ever_and_a_late_failure_not_at_all() -> None:
    found = Operations()
    for response, wait in ((VM, KEPT_SECONDS), (Created("no capacity"), 1.0)):
        late = ask(found, Kind.CREATE, now=0)
        sent(found)
        found.leave(late, 1)
        answer(found, late, response, 2)
        again = ask(found, Kind.CREATE, now=2 + wait)
        assert again.state is State.QUEUED
        found.leave(again, 2 + wait)
        found = Operations()


def test_a_deletion_makes_a_kept_creation_void_and_one_that_waits_without_a_caller() -> None:
    found = Operations()
    late = ask(found, Kind.CREATE)
    sent(found)
    found.leave(late, 1)
    answer(found, late, now=2)
    deletion = ask(found, Kind.DELETE, now=3)
    assert sent(found, 3) is deletion
    answer(found, deletion, Deleted(), 4)
    found.leave(deletion, 4)
    assert ask(found, Kind.CREATE, now=5).state is State.QUEUED, "that VM is gone"


def test_a_late_answer_to_an_update_is_not_kept_and_an_update_makes_nothing_void() -> None:
    """It may be about a class that was another one meanwhile; to repeat it does no harm."""
    found = Operations(in_flight=2)
    update = ask(found, Kind.UPDATE)
    found.leave(sent(found), 0)
    answer(found, update, Updated())
    assert ask(found, Kind.UPDATE) is not update
    deletion = ask(found, Kind.DELETE, "m2")
    sent(found)
    found.leave(sent(found), 0)
    answer(found, deletion, Deleted())
    ask(found, Kind.UPDATE, "m2")
    assert ask(found, Kind.DELETE, "m2") is deletion, "the VM is gone all the same"


def test_a_list_is_shared_until_it_is_sent() -> None:
    found = Operations()
    first = found.ask(Kind.LIST, ("class", "7"), Params(), 0)
    assert found.ask(Kind.LIST, ("class", "7"), Params(), 0) is first
    assert found.ask(Kind.LIST, ("class", "8"), Params(), 0) is not first
    sent(found)
    assert found.ask(Kind.LIST, ("class", "7"), Params(), 0) is not first, (
        "it may not show what was made since"
    )


def test_answers_that_nothing_asked_for_are_counted_and_change_nothing() -> None:
    found = Operations()
    asked = ask(found, Kind.CREATE)
    sent(found)
    assert found.answered(DriverSide(77, "create", VM), 0) is None
    assert asked.state is State.SENT
    assert answer(found, asked) is asked
    assert answer(found, asked, Created(provider_id="other")) is None, "a second answer"
    assert asked.answer == VM
    assert found.stray == 2


@pytest.mark.parametrize(
    ("message", "unknown", "wrong"),
    [
        (DriverSide(1, "create", None), True, ""),
        (DriverSide(1, "create", Listed()), False, "the response Listed"),
        (DriverSide(1, "delete", VM), False, "an operationType 'delete'"),
    ],
)
def test_an_answer_of_another_form_is_no_success(message: DriverSide, unknown: bool, wrong: str) -> None:
    found = Operations()
    asked = ask(found, Kind.CREATE)
    sent(found)
    found.answered(message, 0)
    assert (asked.answer, asked.unknown, asked.wrong) == (None, unknown, wrong)


def test_an_id_begins_again_after_the_last_and_is_never_given_twice_at_a_time() -> None:
    found = Operations(in_flight=3)
    ask(found, Kind.CREATE, "m1")
    assert sent(found).id == 1
    found._last_id = LAST_ID - 1
    ask(found, Kind.CREATE, "m2")
    ask(found, Kind.CREATE, "m3")
    assert [sent(found).id, sent(found).id] == [LAST_ID, 2]


def test_a_driver_that_does_not_answer_is_hung_after_a_while() -> None:
    found = Operations()
    asked = ask(found, Kind.CREATE)
    sent(found)
    assert found.hung(HUNG_SECONDS - 1) is None
    assert found.hung(HUNG_SECONDS) is asked


def test_what_waits_and_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "QUEUE", 3)
    found = Operations()
    for number in range(3):
        ask(found, Kind.CREATE, f"m{number}")
    with pytest.raises(QueueFull):
        ask(found, Kind.CREATE, "one-more")
    monkeypatch.setattr(operations, "KEPT", 2)
    kept = Operations(in_flight=3)
    for number in range(3):
        late = ask(kept, Kind.CREATE, f"m{number}")
        sent(kept)
        kept.leave(late, 0)
        answer(kept, late)
    assert ask(kept, Kind.CREATE, "m0").state is State.QUEUED, "the oldest was forgotten"
    assert ask(kept, Kind.CREATE, "m2").state is State.ANSWERED


def test_when_the_stream_ends_each_operation_knows_whether_it_was_sent() -> None:
    found = Operations()
    one, two = ask(found, Kind.CREATE, "m1"), ask(found, Kind.CREATE, "m2")
    sent(found)
    assert found.lost() == [one, two]
    assert (one.state, one.wrong) == (State.LOST, "")
    assert (two.state, two.wrong) == (State.LOST, "not sent")


@pytest.mark.parametrize(("first", "then"), [(Kind.CREATE, Kind.DELETE), (Kind.DELETE, Kind.CREATE)])
def test_an_answer_that_came_while_the_contrary_waited_is_void_when_that_is_sent(
    first: Kind, then: Kind
) -> None:
    found = Operations()
    late = ask(found, first)
    sent(found)
    found.leave(late, 1)
    contrary = ask(found, then, now=2)
    assert found.next(2) is None, "of one machine one change is under way"
    answer(found, late, VM if first is Kind.CREATE else Deleted(), 3)
    assert sent(found, 3) is contrary
    answer(found, contrary, Deleted() if first is Kind.CREATE else VM, 4)
    found.leave(contrary, 4)
    assert ask(found, first, now=5).state is State.QUEUED
