"""RollingUpdate, one step at a time: MCM's rules (DEP-09) and Cluster API's."""

from dataclasses import dataclass, replace
from operator import attrgetter

import pytest

from kubewright.rollout.model import Fleet, Group, Resize, bounds
from kubewright.rollout.planner import rolling

NEW, OLD, OLDER = "new", "old", "older"


def group(name: str, size: int, *, up: int | None = None, down: int = 0, terminating: int = 0) -> Group:
    """``up`` available and ``down`` broken members (broken ones are deleted first)."""
    up = size - down if up is None else up
    created = {OLDER: 1.0, OLD: 2.0, NEW: 3.0}[name]
    return Group(name, created, size, (False,) * down + (True,) * up, terminating)


def member_line(name: str, size: int, line: str) -> Group:
    """``+`` is available, ``-`` is not; the leftmost is deleted first."""
    return Group(name, 2.0, size, tuple(mark == "+" for mark in line))


@dataclass(frozen=True)
class Case:
    name: str
    replicas: int
    surge: int | str
    unavailable: int | str
    new: Group | None
    old: tuple[Group, ...]
    expect: dict[str, int]


CASES = [
    # growing the current group
    Case("the first step creates the new set as large as the surge", 10, 3, 0, None, (group(OLD, 10),),
         {NEW: 3}),
    Case("without old sets the new set is created complete", 5, 0, 1, None, (), {NEW: 5}),
    Case("without room the new set is created empty", 5, 0, 1, None, (group(OLD, 5),), {NEW: 0, OLD: 4}),
    Case("a surge percentage rounds up", 10, "25%", 0, None, (group(OLD, 10),), {NEW: 3}),
    Case("terminating machines take room", 10, 3, 3, group(NEW, 3), (group(OLD, 7, terminating=3),), {OLD: 4}),
    Case("room already asked for is not given twice", 10, 3, 0, group(NEW, 3, up=0), (group(OLD, 10),), {}),
    Case("the new set never grows beyond the replicas", 3, 5, 0, group(NEW, 1), (group(OLD, 2),), {NEW: 3}),
    Case("a new set that is too large shrinks to the replicas", 5, 1, 0, group(NEW, 7), (), {NEW: 5}),
    Case("a complete new set stays as it is", 5, 1, 0, group(NEW, 5), (), {}),
    Case("zero replicas have no surge", 0, 3, 0, group(NEW, 0), (group(OLD, 2),), {OLD: 0}),
    # shrinking old groups
    Case("old machines go down to the floor at once", 10, 0, 4, group(NEW, 0), (group(OLD, 10),), {OLD: 6}),
    Case("an unavailable percentage rounds down", 10, 0, "25%", group(NEW, 0), (group(OLD, 10),), {OLD: 8}),
    Case("both bounds zero allow one to be unavailable", 4, 0, 0, group(NEW, 0), (group(OLD, 4),), {OLD: 3}),
    Case("new machines that are not available do not count", 10, 3, 0, group(NEW, 3, up=0, down=3),
         (group(OLD, 10),), {}),
    Case("available new machines replace old ones", 10, 3, 0, group(NEW, 3), (group(OLD, 10),), {OLD: 7}),
    Case("broken old machines are deleted first and cost nothing", 10, 0, 2, group(NEW, 0), (group(OLD, 10, down=2),),
         {OLD: 8}),
    Case("the oldest set shrinks first", 10, 2, 2, group(NEW, 2), (group(OLDER, 5), group(OLD, 5)),
         {OLDER: 1}),
    Case("what the oldest set cannot lose the next one loses", 10, 2, 4, group(NEW, 4),
         (group(OLDER, 2), group(OLD, 6)), {OLDER: 0, OLD: 2}),
    Case("broken machines of every old set go before available ones of the oldest", 10, 0, 4, group(NEW, 0),
         (group(OLDER, 5), group(OLD, 5, down=3)), {OLD: 2, OLDER: 4}),
    Case("machines that do not exist yet are given up first", 10, 0, 2, group(NEW, 0), (group(OLD, 10, up=8),),
         {OLD: 8}),
    Case("below the floor nothing available is taken", 4, 1, 0, group(NEW, 1, up=0),
         (group(OLD, 4, down=1),), {}),
    Case("a shrink that is not carried out yet counts", 10, 0, 2, group(NEW, 0), (group(OLD, 8, up=10),), {}),
    Case("an available machine whose priority puts it in front of a broken one is not deleted", 3, 1, 1,
         group(NEW, 1, up=0), (member_line(OLD, 3, "+-+"),), {}),
    Case("unless nothing else can move: then the priority is obeyed", 3, 1, 0, group(NEW, 1),
         (member_line(OLD, 3, "+-+"),), {OLD: 2}),
    Case("what an available machine of one set has cost is not there for the next", 6, 0, 3, group(NEW, 0),
         (group(OLDER, 2), member_line(OLD, 4, "++--")), {OLDER: 1}),
    Case("obeying a priority takes no more than is broken", 3, 2, 0, group(NEW, 1),
         (member_line(OLDER, 2, "+-"), member_line(OLD, 2, "+-")), {OLDER: 1}),
    Case("obeying a priority passes over a set in which nothing is broken", 4, 1, 0, group(NEW, 1),
         (group(OLDER, 1), member_line(OLD, 3, "+-+")), {OLD: 2}),
    Case("a member that waits for minReadySeconds is waited for", 3, 1, 0, group(NEW, 1),
         (replace(member_line(OLD, 3, "+-+"), ready_not_available=1),), {}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_one_step(case: Case) -> None:
    fleet = Fleet("md", case.replicas, case.new, case.old)
    plan = rolling(fleet, bounds(case.replicas, case.surge, case.unavailable))
    got = dict((i.group, i.after) if isinstance(i, Resize) else (NEW, i.size) for i in plan.intents)
    assert got == case.expect
    assert all(intent.because for intent in plan.intents)


@pytest.mark.parametrize(
    ("line", "size", "most", "cost", "expect"),
    [
        pytest.param("+++", 3, 3, 1, 1, id="one available member costs one"),
        pytest.param("--+", 3, 3, 0, 2, id="broken members in front cost nothing"),
        pytest.param("++", 4, 3, 0, 2, id="members never made cost nothing"),
        pytest.param("++", 4, 3, 1, 3, id="members never made go before the available one"),
        pytest.param("++++", 2, 2, 1, 1, id="those that an earlier shrink takes do not count"),
    ],
)
def test_how_far_a_group_may_shrink(line: str, size: int, most: int, cost: int, expect: int) -> None:
    assert member_line(OLD, size, line).affordable(most, cost) == expect


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expect"),
    [
        pytest.param(10, "25%", "25%", (3, 2), id="surge rounds up, unavailable rounds down"),
        pytest.param(3, 0, 0, (0, 1), id="both zero: one may be unavailable"),
        pytest.param(3, "0%", "0%", (0, 1), id="percentages of zero as well"),
        pytest.param(1, "1%", "99%", (1, 0), id="one replica"),
        pytest.param(2, 0, 5, (0, 2), id="never more unavailable than there are"),
        pytest.param(1, 0, 0, (0, 1), id="both zero, for one replica"),
        pytest.param(0, 0, 0, (0, 0), id="both zero, and no replica"),
        pytest.param(0, 1, 1, (1, 0), id="nothing can be unavailable of nothing"),
        pytest.param(10, 2**31 - 1, f"{2**31 - 1}%", (2**31 - 1, 10), id="as large as 32 bits allow"),
    ],
)
def test_bounds(replicas: int, surge: int | str, unavailable: int | str, expect: tuple[int, int]) -> None:
    limits = bounds(replicas, surge, unavailable)
    assert (limits.surge, limits.unavailable) == expect


@pytest.mark.parametrize("value", ["", "a", "5", "-1%", "1.5%", " 5%", f"{2**31}%"], ids=repr)
def test_a_text_must_be_a_percentage(value: str) -> None:
    with pytest.raises(
        ValueError, match=f"^{value!r} is neither a whole number nor a percentage such as 25%$"
    ):
        bounds(10, value, 0)


@pytest.mark.parametrize("value", [-1, 2**31], ids=repr)
def test_a_number_must_fit_32_bits(value: int) -> None:
    with pytest.raises(ValueError, match=f"^{value} is no whole number between 0 and 2147483647$"):
        bounds(10, value, 0)
