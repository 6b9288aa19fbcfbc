"""InPlaceUpdate (INP-01, DEP-17): which sizes follow the machines that are updated, and how many are updated next."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
from tests.unit.rollout.words import told

from kubewright.rollout.model import Bounds, Fleet, Freeze, Group, Resize, Sizes
from kubewright.rollout.planner import MCM_SCALING, InPlaceUpdate, plan, selectable

ONE_LESS = InPlaceUpdate(0, 1)
ONE_MORE = InPlaceUpdate(1, 0)
MANUAL = InPlaceUpdate(3, 1, manual=True)


def group(name: str, size: int, *, alive: int | None = None, desired: int = 3, **more: Any) -> Group:
    """All alive members are available; an old group is frozen and the others are not."""
    alive = size if alive is None else alive
    created = {"older": 1.0, "old": 2.0, "new": 3.0}[name]
    more.setdefault("frozen", name != "new")
    more.setdefault("availability", (True,) * alive)
    return Group(name, created, size, desired=desired, **more)


@dataclass(frozen=True)
class Case:
    name: str
    replicas: int
    strategy: InPlaceUpdate
    new: Group | None
    old: tuple[Group, ...]
    expect: list[str]
    paused: bool = False


CASES = [
    Case("the new set is made empty, and the old ones may make no machine any more", 3, ONE_LESS, None,
         (group("old", 3, frozen=False),), ["freeze old", "create=0"]),
    Case("with a surge it is made with that", 3, ONE_MORE, None, (group("old", 3),), ["create=1"]),
    Case("but not where a user selects the machines", 3, MANUAL, None, (group("old", 3),), ["create=0"]),
    Case("an old set that is still growing counts as large as it is to be", 3, ONE_MORE, None,
         (group("old", 3, alive=2, frozen=False),), ["freeze old", "old=2", "create=1"]),
    Case("a machine that was moved makes its set larger, and its old one smaller", 3, ONE_LESS,
         group("new", 0, alive=1, moved=1), (group("old", 3, alive=2),), ["old=2", "new=1"]),
    Case("the old one not before its controller has seen the machine leave", 3, ONE_LESS,
         group("new", 0, alive=1, moved=1), (group("old", 3, alive=2, caught_up=False),), ["new=1"]),
    Case("and then no machine of another old set has to go for it", 3, ONE_LESS,
         group("new", 0, alive=1, moved=1),
         (group("older", 1, alive=0, caught_up=False), group("old", 2)), ["new=1"]),
    Case("a set does not grow for machines that were not moved", 3, ONE_LESS, group("new", 1, alive=2),
         (group("old", 2),), []),
    Case("what an old set has lost is made anew", 3, ONE_LESS, group("new", 0), (group("old", 3, alive=2),),
         ["old=2", "new=1"]),
    Case("when it is gone, and not while it is going", 3, ONE_LESS, group("new", 0),
         (group("old", 3, alive=2, terminating=1),), ["old=2"]),
    Case("machines out of service keep their places", 3, ONE_LESS, group("new", 0),
         (group("old", 3, availability=(False, True, True)),), []),
    Case("when all machines are of the new set it follows the replicas", 5, ONE_LESS, group("new", 3), (),
         ["new=5"]),
    Case("also when it is the first one", 3, ONE_LESS, None, (), ["create=3"]),
    Case("the surplus of a surge goes when all new machines are available", 3, ONE_MORE, group("new", 3),
         (group("old", 1),), ["old=0"]),
    Case("and not before", 3, ONE_MORE, group("new", 3, availability=(True, True, False)), (group("old", 1),), []),
    Case("nor while one of them is on its way", 3, ONE_MORE, group("new", 3, alive=4, moved=1),
         (group("old", 0, terminating=1),), []),
    Case("a larger pool grows new machines", 5, ONE_LESS, group("new", 1), (group("old", 2),),
         ["new=3"]),
    Case("a smaller one loses old machines first", 2, ONE_LESS, group("new", 1), (group("old", 2),),
         ["old=1"]),
    Case("and new ones when there are no old ones", 1, ONE_LESS, group("new", 2), (group("old", 1),),
         ["old=0", "new=1"]),
    Case("a pool of none loses all", 0, ONE_LESS, group("new", 1), (group("old", 2),), ["old=0", "new=0"]),
    Case("a set that becomes the current one again wants no more than is missing", 3, ONE_LESS,
         group("new", 3, alive=2), (group("old", 1, frozen=False),), ["freeze old", "new=2"]),
    Case("an old set counts what was moved to it while it was the current one", 3, ONE_LESS, group("new", 2),
         (group("old", 0, alive=1, moved=1),), ["old=1"]),
    Case("a paused pool is scaled, and nothing else", 3, ONE_LESS, group("new", 0, alive=1, moved=1),
         (group("old", 3, alive=2),), [], paused=True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_the_sizes(case: Case) -> None:
    fleet = Fleet("md", case.replicas, case.new, case.old, paused=case.paused)
    step = plan(fleet, case.strategy, MCM_SCALING)
    assert told(step) == case.expect
    assert all(intent.because for intent in step.intents)


def test_the_whole_step_says_why() -> None:
    fleet = Fleet("md", 3, group("new", 0, alive=1, moved=1), (group("old", 3, alive=2, frozen=False),))
    assert plan(fleet, ONE_LESS) == Sizes(
        (
            Freeze("old", "its machines are updated in place, and not replaced"),
            Resize("old", 3, 2, "it has 2 machines, 3 in all at most"),
            Resize("new", 0, 1, "it has 1 machines, and fills what old sets have lost"),
        ),
        ("old", "new"),
        desired=3,
        ceiling=3,
        notes=("in place: 2 of 3 machines are of an older template",),
    )


NONE_NEW = Fleet("md", 4, group("new", 0), (group("old", 4),))


@pytest.mark.parametrize(
    ("fleet", "limits", "selected", "expect"),
    [
        pytest.param(NONE_NEW, Bounds(4, 0, 1), (0, 0), 1, id="as many as may be unavailable"),
        pytest.param(NONE_NEW, Bounds(4, 0, 2), (0, 0), 2, id="two where two may be"),
        pytest.param(NONE_NEW, Bounds(4, 0, 2), (1, 1), 1, id="one that was selected counts though it is still there"),
        pytest.param(
            Fleet("md", 4, group("new", 0), (group("old", 4, availability=(False, True, True, True)),)),
            Bounds(4, 0, 2), (1, 0), 1, id="and once when it is there no more",
        ),
        pytest.param(
            Fleet("md", 4, group("new", 0), (group("old", 4, availability=(False, True, True, True)),)),
            Bounds(4, 0, 1), (0, 0), 0, id="none while a machine is unwell already",
        ),
        pytest.param(
            Fleet("md", 4, group("new", 1, availability=(False,)), (group("old", 4),)),
            Bounds(4, 1, 0), (0, 0), 0, id="none before the new one of a surge is available",
        ),
        pytest.param(
            Fleet("md", 4, group("new", 1), (group("old", 4),)), Bounds(4, 1, 0), (0, 0), 1, id="and then one",
        ),
        pytest.param(
            Fleet("md", 4, group("new", 3), (group("old", 2),)), Bounds(4, 1, 2), (1, 1), 0,
            id="none that would be one too many in the end",
        ),
        pytest.param(Fleet("md", 0, None, (group("old", 2),)), Bounds(0), (0, 0), 0, id="none of a pool of none"),
    ],
)  # fmt: skip
def test_how_many_are_updated_next(
    fleet: Fleet, limits: Bounds, selected: tuple[int, int], expect: int
) -> None:
    assert selectable(fleet, limits, *selected) == expect
