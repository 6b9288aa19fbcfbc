"""When a patch is withheld because the same was written again and again."""

from typing import Any

import pytest

from kubewright.kube.patches import (
    CONTESTS,
    FREE,
    KEPT,
    LONGEST,
    SLOW,
    UNDONE,
    Contested,
    Contests,
    Target,
    outside_of_a_pass,
)
from kubewright.wire.gvk import Key, Resource

NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
TARGET = Target("here", NODE, Key("", "n1"), uid="u1")
LABEL = {"metadata": {"labels": {"a": "1"}}}


class Pen:
    """Writes at times of its own choice; ``write`` says whether it was let through."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[Contested] = []
        self.contests = Contests(lambda: self.now)
        self.contests.tell = self.told.append

    def write(self, body: Any = LABEL, target: Target = TARGET) -> bool:
        try:
            admitted = self.contests.admit(target, body)
        except Contested:
            return False
        self.contests.wrote(admitted)
        return True

    def written(self, seconds: float, *, every: float = 0.01) -> int:
        """How many of the writes were let through that another client undid at once."""
        count, end = 0, self.now + seconds
        while self.now < end:
            count += self.write()
            self.now += every
        return count


@pytest.fixture
def pen() -> Pen:
    return Pen()


def test_what_another_client_undoes_at_once_is_written_ever_more_rarely(pen: Pen) -> None:
    assert pen.written(1) == FREE
    assert pen.written(30) == 4  # after 1, 2, 4, 8 and 16 seconds
    assert pen.written(3600, every=1) <= 3600 / LONGEST + 6


def test_the_pause_has_an_end(pen: Pen) -> None:
    pen.written(3600, every=1)
    assert pen.written(2 * LONGEST, every=1) == 2


def test_it_is_told_once_for_each_pause_and_names_no_values(pen: Pen) -> None:
    pen.written(0.5)
    (told,) = pen.told
    assert told.message == (
        "metadata.labels.a of Node n1 does not last: written 3 times, it was undone or dropped each time. "
        "Another client writes it too, or the server does not keep it; next try in 1s"
    )
    pen.written(4)
    assert [each.steady for each in pen.told] == [told.steady] * 3
    assert [str(each) for each in pen.told] == [told.steady] * 3, "conditions do not change with each pass"


ONCE = {
    "metadata": {"uid": "u1", "resourceVersion": "7"},
    "status": {"phase": "Running", "lastUpdateTime": "1"},
}
AGAIN = {
    "metadata": {"uid": "u1", "resourceVersion": "8"},
    "status": {"phase": "Running", "lastUpdateTime": "2"},
}
CONDITION = {"status": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "1"}]}}
LATER = {"status": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "2"}]}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(ONCE, AGAIN, id="a phase with another date, onto another version"),
        pytest.param(CONDITION, LATER, id="a condition with another date"),
        pytest.param(
            {"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["a"]}}, id="finalizers"
        ),
        pytest.param({"spec": {"taints": None}}, {"spec": {"taints": None}}, id="what is taken away"),
    ],
)
def test_patches_that_say_the_same(pen: Pen, one: Any, other: Any) -> None:
    assert [pen.write(each) for each in (one, other, one, other)] == [True, True, True, False]


BEAT, NEXT = ({"status": {"conditions": [{"type": "A", "lastHeartbeatTime": each}]}} for each in "12")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            {"status": {"phase": "A"}}, {"status": {"phase": "B"}}, id="a phase that goes to and fro"
        ),
        pytest.param({"spec": {"renewTime": "1"}}, {"spec": {"renewTime": "2"}}, id="a lease"),
        pytest.param(BEAT, NEXT, id="heartbeats"),
        pytest.param(
            {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"a": None}}}, id="a label"
        ),
    ],
)
def test_patches_that_say_something_new(pen: Pen, one: Any, other: Any) -> None:
    assert all(pen.write(each) for each in (one, other) * 10)


def test_a_field_that_another_patch_of_ours_changed_is_written_again(pen: Pen) -> None:
    for number in range(20):
        assert pen.write({"status": {"replicas": 51}})
        assert pen.write({"status": {"replicas": 50, "updatedReplicas": number}})
    assert pen.told == []


def test_a_fight_that_is_slower_than_a_minute_is_told_and_nothing_withheld(pen: Pen) -> None:
    for _ in range(3 * UNDONE):
        assert pen.write()
        pen.now += 90
    (told,) = pen.told
    assert (told.wait, told.message) == (
        0.0,
        f"metadata.labels.a of Node n1 does not last: written {UNDONE} times, it was undone or dropped each time. "
        "Another client writes it too, or the server does not keep it; it is written each time",
    )
    assert told.steady.endswith("It is written again each time")


@pytest.mark.parametrize("pause", [SLOW + 1, 24 * 3600.0])
def test_what_is_written_again_after_a_long_time_is_not_told(pen: Pen, pause: float) -> None:
    for _ in range(3 * UNDONE):
        assert pen.write()
        pen.now += pause
    assert pen.told == []


def test_a_value_that_goes_to_and_fro_is_not_told(pen: Pen) -> None:
    for number in range(10 * UNDONE):
        assert pen.write({"spec": {"replicas": number % 2}})
        pen.now += 20
    assert pen.told == []


@pytest.mark.parametrize(
    "other",
    [
        Target("there", NODE, Key("", "n1"), uid="u1"),
        Target("here", NODE, Key("", "n2"), uid="u1"),
        Target("here", NODE, Key("", "n1"), "status", "u1"),
        Target("here", NODE, Key("", "n1"), uid="u2"),
    ],
    ids=["another cluster", "another object", "its status", "another of that name"],
)
def test_each_object_counts_for_itself(pen: Pen, other: Target) -> None:
    pen.written(0.5)
    assert pen.write(target=other)


def test_other_fields_of_the_object_are_written_meanwhile(pen: Pen) -> None:
    pen.written(0.5)
    assert pen.write({"metadata": {"labels": {"b": "1"}}})
    assert not pen.write()


def test_what_has_lasted_is_no_contest(pen: Pen) -> None:
    for _ in range(20):
        assert pen.write()
        pen.now += 70


def test_a_contest_that_ended_is_forgotten(pen: Pen) -> None:
    pen.written(30)
    pen.now += 200
    assert pen.written(1) == FREE


def test_a_write_that_was_not_acknowledged_does_not_count(pen: Pen) -> None:
    for _ in range(10):
        pen.contests.admit(TARGET, LABEL)
    assert pen.write()


def test_what_is_no_merge_patch_is_let_through(pen: Pen) -> None:
    steps = [{"op": "replace", "path": "/a", "value": 1}]
    assert all(pen.write(each) for each in (steps, {}, {"metadata": {"uid": "u1"}}) for _ in range(9))


def test_so_many_patches_are_remembered_and_no_more(pen: Pen) -> None:
    for number in range(KEPT + 10):
        pen.write(target=Target("here", NODE, Key("", f"n{number}")))
    assert len(pen.contests) == KEPT


def test_a_task_that_outlives_a_pass_is_begun_without_its_contests(pen: Pen) -> None:
    token = CONTESTS.set(pen.contests)
    try:
        assert outside_of_a_pass().run(CONTESTS.get) is None
        assert CONTESTS.get() is pen.contests
    finally:
        CONTESTS.reset(token)
