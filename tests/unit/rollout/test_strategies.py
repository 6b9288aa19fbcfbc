"""Recreate (DEP-08), Cluster API's OnDelete, scaling of both worlds (DEP-07) and pause (DEP-10)."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
from tests.unit.rollout.words import told

from kubewright.rollout.model import Bounds, Create, Fleet, Freeze, Group, Resize, Sizes
from kubewright.rollout.planner import (
    CAPI_SCALING,
    MCM_SCALING,
    InPlaceUpdate,
    OnDelete,
    Recreate,
    RollingUpdate,
    Scaling,
    Strategy,
    plan,
)
from kubewright.rollout.proportional import Growth, half_away, scaling_wanted

ROLL = RollingUpdate(3, 2)


def group(name: str, size: int, *, alive: int | None = None, desired: int | None = 10, **more: Any) -> Group:
    """All alive members are available; the desired size is that of a fleet of ten."""
    alive = size if alive is None else alive
    created = {"older": 1.0, "old": 2.0, "new": 3.0}[name]
    return Group(name, created, size, (True,) * alive, desired=desired, **more)


@dataclass(frozen=True)
class Case:
    name: str
    replicas: int
    strategy: Recreate | OnDelete | RollingUpdate
    new: Group | None
    old: tuple[Group, ...]
    expect: list[str]
    scaling: Scaling = MCM_SCALING
    paused: bool = False


CASES = [
    Case("recreate: old replicas go first", 3, Recreate(), None, (group("old", 3, desired=3),), ["old=0"]),
    Case("recreate: while one old machine is terminating nothing is made", 3, Recreate(), None,
         (group("old", 0, desired=3, terminating=1),), []),
    Case("recreate: when all are gone the new set is created complete", 3, Recreate(), None,
         (group("old", 0, desired=3),), ["create=3"]),
    Case("recreate: a set that exists already is used", 3, Recreate(), group("new", 0, desired=3),
         (group("old", 0, desired=3),), ["new=3", "mark new"]),
    Case("recreate: nor does a set that exists grow meanwhile", 3, Recreate(), group("new", 0, desired=3),
         (group("old", 0, desired=3, terminating=1),), []),
    Case("recreate: a plain change of replicas needs no rollout", 5, Recreate(), group("new", 3, desired=3), (),
         ["new=5", "mark new"]),
    Case("on delete: old sets are frozen and nothing is deleted", 3, OnDelete(), group("new", 0, desired=3),
         (group("old", 3, desired=3),), ["freeze old"], CAPI_SCALING),
    Case("on delete: what a user deleted is created anew", 3, OnDelete(), group("new", 0, desired=3),
         (group("old", 3, alive=2, desired=3, frozen=True),), ["old=2", "new=1"], CAPI_SCALING),
    Case("on delete: while the deleted machine is terminating its place is taken", 3, OnDelete(),
         group("new", 0, desired=3),
         (group("old", 3, alive=2, desired=3, terminating=1, frozen=True),), ["old=2"], CAPI_SCALING),
    Case("on delete: a terminating machine of the new set keeps its place", 4, OnDelete(),
         group("new", 1, desired=4, terminating=1), (group("old", 3, alive=2, desired=4, frozen=True),), ["old=2"],
         CAPI_SCALING),
    Case("on delete: a smaller fleet shrinks the largest old set", 3, OnDelete(), group("new", 1, desired=5),
         (group("older", 1, desired=5, frozen=True), group("old", 3, desired=5, frozen=True)), ["old=1"], CAPI_SCALING),
    Case("on delete: a larger fleet grows new machines", 5, OnDelete(), group("new", 1, desired=3),
         (group("old", 2, desired=3, frozen=True),), ["new=3"], CAPI_SCALING),
    Case("on delete: a new set that is too large shrinks", 2, OnDelete(), group("new", 3, desired=3), (),
         ["new=2"],
         CAPI_SCALING),

    Case("scaling: one active set takes the whole number", 7, ROLL, group("new", 10), (),
         ["new=7", "mark new"]),
    Case("scaling: without an active set the newest takes it", 4, ROLL, group("new", 0, desired=0),
         (group("old", 0, desired=0),), ["new=4", "mark new"]),
    Case("scaling: only the annotations are written when the size fits", 10, ROLL, group("new", 10, desired=9), (),
         ["mark new"]),
    Case("scaling up in a rollout gives all to the current set (MCM)", 14, ROLL,
         group("new", 6, ceiling=13), (group("old", 7, ceiling=13),), ["new=10", "mark old", "mark new"]),
    Case("scaling up in a rollout is shared (Cluster API, paused)", 20, ROLL,
         group("new", 5, ceiling=13), (group("old", 8, ceiling=13),),
         ["old=14", "new=9", "mark old", "mark new"],
         CAPI_SCALING, paused=True),
    Case("scaling first does not mean that the current set gets it all", 20, ROLL,
         group("new", 5, ceiling=13), (group("old", 8, ceiling=13),),
         ["old=14", "new=9", "mark old", "mark new"], Scaling(first=True, growth=Growth.SHARED)),
    Case("scaling up in a rollout of three sets gives all to the current one (MCM)", 8, RollingUpdate(0, 1),
         group("new", 2, desired=6), (group("older", 2, desired=6), group("old", 2, desired=6)),
         ["new=4", "mark older", "mark old", "mark new"]),
    Case("scaling down in a rollout is proportional, the rest from the largest", 5, ROLL,
         group("new", 5, ceiling=13), (group("old", 8, ceiling=13),),
         ["old=5", "new=3", "mark old", "mark new"]),
    Case("scaling to zero empties every set", 0, ROLL, group("new", 5, ceiling=13),
         (group("old", 8, ceiling=13),), ["old=0", "new=0", "mark old", "mark new"]),
    Case("scaling never forgets terminating machines", 14, ROLL, group("new", 6, ceiling=13),
         (group("old", 7, ceiling=13, terminating=2),), ["new=8", "mark old", "mark new"]),
    Case("paused: a set that could not grow yet is not annotated, so that it grows later", 14, ROLL,
         group("new", 6, ceiling=13), (group("old", 7, ceiling=13, terminating=2),), ["new=8", "mark old"],
         paused=True),
    Case("scaling up by one in a rollout gives it to the current set (MCM)", 11, ROLL,
         group("new", 6, ceiling=13), (group("old", 7, ceiling=13),), ["new=7", "mark old", "mark new"]),
    Case("paused: without room no set grows, and the one that should is not annotated", 11, ROLL,
         group("new", 6, ceiling=13), (group("old", 7, ceiling=13, terminating=1),), ["mark old"], paused=True),
    Case("scaling up without a current set: the newest of the active ones grows", 8, RollingUpdate(0, 1), None,
         (group("older", 3, desired=6), group("old", 3, desired=6)), ["old=5", "mark older", "mark old"]),
    Case("of equal shares the newest set grows first (Cluster API, paused)", 11, RollingUpdate(0, 1), None,
         (group("older", 5, ceiling=10), group("old", 5, ceiling=10)), ["old=6", "mark older", "mark old"],
         CAPI_SCALING, paused=True),
    Case("what the shares leave over goes to the largest and newest (Cluster API, paused)", 10,
         RollingUpdate(0, 1), group("new", 1, desired=9, ceiling=9),
         (group("older", 4, desired=9, ceiling=9), group("old", 4, desired=9, ceiling=9)),
         ["old=5", "mark older", "mark old", "mark new"], CAPI_SCALING, paused=True),
    Case("of equal shares the oldest set shrinks first", 9, RollingUpdate(0, 1), None,
         (group("older", 5, ceiling=10), group("old", 5, ceiling=10)), ["older=4", "mark older", "mark old"]),
    Case("no set shrinks once the sum is reached", 13, RollingUpdate(0, 1), group("new", 5, desired=15, ceiling=15),
         (group("older", 5, desired=15, ceiling=15), group("old", 5, desired=15, ceiling=15)),
         ["older=4", "old=4", "mark older", "mark old", "mark new"]),
    Case("while the fleet shrinks no set grows, whatever its annotation says", 9, RollingUpdate(0, 1), None,
         (group("older", 5, ceiling=20), group("old", 5, ceiling=5)), ["older=4", "mark older", "mark old"]),
    Case("while the fleet grows no set shrinks, whatever its annotation says (Cluster API, paused)", 11,
         RollingUpdate(0, 1), None, (group("older", 5, ceiling=20), group("old", 5, ceiling=5)),
         ["old=6", "mark older", "mark old"], CAPI_SCALING, paused=True),
    Case("without an annotation the share is one of all that exist (Cluster API, paused)", 20, RollingUpdate(0, 1), None,
         (group("older", 5), group("old", 5)), ["older=10", "old=10", "mark older", "mark old"],
         CAPI_SCALING, paused=True),
    Case("scaling to zero before a machine exists", 0, ROLL, None,
         (group("older", 2, alive=0), group("old", 2, alive=0)),
         ["older=0", "old=0", "mark older", "mark old"]),
    Case("a saturated new set empties the old ones", 10, ROLL, group("new", 10), (group("old", 2, desired=9),),
         ["old=0"]),
    Case("paused: no rollout step", 10, ROLL, None, (group("old", 10, ceiling=13),), [], paused=True),
    Case("paused: a single set is scaled", 12, ROLL, None, (group("old", 10, ceiling=13),),
         ["old=12", "mark old"], paused=True),
    Case("paused in the middle: both sets stay as they are", 10, ROLL, group("new", 3, ceiling=13),
         (group("old", 8, ceiling=13),), [], paused=True),
    Case("Cluster API scales inside the rollout", 12, ROLL, group("new", 3, ceiling=13),
         (group("old", 7, ceiling=13),), ["new=8"], CAPI_SCALING),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_plan(case: Case) -> None:
    fleet = Fleet("md", case.replicas, case.new, case.old, paused=case.paused)
    step = plan(fleet, case.strategy, case.scaling)
    assert told(step) + [f"mark {name}" for name in step.to_annotate] == case.expect
    assert all(intent.because for intent in step.intents)


SHRINK, FILL = "recreate: old replicas go first", "recreate: no old replica is left"
SURGE = RollingUpdate(3, 0)

WHOLE_PLANS = [
    pytest.param(
        Fleet("md", 3, None, (group("older", 2, desired=3), group("old", 1, desired=3))), Recreate(),
        Sizes((Resize("older", 2, 0, SHRINK), Resize("old", 1, 0, SHRINK)), desired=3, ceiling=3),
        id="recreate: every old set goes",
    ),
    pytest.param(
        Fleet("md", 3, None, (group("old", 0, terminating=1),)), Recreate(),
        Sizes(desired=3, ceiling=3, notes=("recreate: 1 old replicas still exist",)),
        id="recreate: says what it waits for",
    ),
    pytest.param(
        Fleet("md", 3), Recreate(), Sizes((Create(3, FILL),), desired=3, ceiling=3),
        id="recreate: a new set is annotated with the whole size",
    ),
    pytest.param(
        Fleet("md", 3, group("new", 1, desired=3)), Recreate(),
        Sizes((Resize("new", 1, 3, FILL),), desired=3, ceiling=3),
        id="recreate: a set that has not grown yet",
    ),
    pytest.param(
        Fleet("md", 10, group("new", 10, desired=10), (group("older", 1, desired=9), group("old", 2, desired=9))),
        ROLL,
        Sizes((Resize("older", 1, 0, "the current set has all replicas available"),
              Resize("old", 2, 0, "the current set has all replicas available")), desired=10, ceiling=13),
        id="a saturated new set empties every old one",
    ),
    pytest.param(
        Fleet("md", 10, group("new", 3), (group("old", 8),), paused=True), ROLL,
        Sizes(desired=10, ceiling=13, notes=("paused",)),
        id="paused, and nothing to scale",
    ),
    pytest.param(
        Fleet("md", 3, paused=True), ROLL, Sizes(desired=3, ceiling=6, notes=("no set to scale", "paused")),
        id="paused before the first set",
    ),
    pytest.param(
        Fleet("md", 4, group("new", 0), (group("old", 0, terminating=2),), paused=True), ROLL,
        Sizes(desired=4, ceiling=7, notes=("2 replicas of other sets still exist", "paused")),
        id="paused while machines of the old set are terminating",
    ),
    pytest.param(
        Fleet("md", 10, group("new", 4, desired=9), (group("old", 0, terminating=5),), paused=True),
        RollingUpdate(0, 2),
        Sizes((Resize("new", 4, 5, "scaled to 10 replicas"),), ("new",), 10, 10, ("paused",)),
        id="paused: a single active set grows into what the terminating ones leave free",
    ),
    pytest.param(
        Fleet("md", 14, group("new", 6), (group("old", 7, terminating=2),), paused=True), ROLL,
        Sizes((Resize("new", 6, 8, "scaled to 14 replicas, 17 with surge", complete=False),), ("old",), 14, 17,
             ("2 more when terminating replicas are gone", "paused")),
        id="paused: half of the growth",
    ),
    pytest.param(
        Fleet("md", 14, group("new", 6, ceiling=13), (group("old", 7, ceiling=13),)), ROLL,
        Sizes((Resize("new", 6, 10, "scaled to 14 replicas, 17 with surge"),), ("old", "new"), 14, 17),
        id="a new number in a rollout",
    ),
    pytest.param(
        Fleet("md", 5, group("new", 5, desired=5)), SURGE, Sizes(desired=5, ceiling=8),
        id="rolling: a complete fleet",
    ),
    pytest.param(
        Fleet("md", 5, group("new", 4, desired=5)), SURGE,
        Sizes((Resize("new", 4, 5, "room for 4 below the ceiling of 8"),), desired=5, ceiling=8),
        id="rolling: the last step",
    ),
    pytest.param(
        Fleet("md", 10, None, (group("old", 10),)), ROLL,
        Sizes((Create(3, "room for 3 below the ceiling of 13"), Resize("old", 10, 8, "10 available, floor 8")),
             desired=10, ceiling=13, notes=("3 of 10 new",)),
        id="rolling: the first step",
    ),
    pytest.param(
        Fleet("md", 10, group("new", 3, alive=0), (group("old", 10),)), SURGE,
        Sizes(desired=10, ceiling=13, notes=("3 of 10 new: room for 0 below the ceiling of 13",
                                         "old ones stay: 10 available, floor 10")),
        id="rolling: says why nothing moves",
    ),
    pytest.param(
        Fleet("md", 5, group("new", 7, desired=5), (group("old", 0),)), SURGE,
        Sizes((Resize("new", 7, 5, "7 > 5 replicas"),), desired=5, ceiling=8),
        id="rolling: a new set that is too large",
    ),
    pytest.param(
        Fleet("md", 10, group("new", 6), (group("old", 4),)), SURGE,
        Sizes((Resize("new", 6, 9, "room for 3 below the ceiling of 13"),), desired=10, ceiling=13,
             notes=("9 of 10 new", "old ones stay: 10 available, floor 10")),
        id="rolling: a step in the middle",
    ),
    pytest.param(
        Fleet("md", 3, group("new", 1, desired=3), (Group("old", 2.0, 3, (True, False, True), desired=3),)), RollingUpdate(1, 0),
        Sizes((Resize("old", 3, 2, "available ones are to be deleted before the broken ones"),),
             desired=3, ceiling=4, notes=("1 of 3 new: room for 0 below the ceiling of 4",)),
        id="rolling: a priority is obeyed",
    ),
    pytest.param(
        Fleet("md", 3, None, (group("older", 0), group("old", 1))), OnDelete(),
        Sizes((Freeze("old", "replicas of old sets are not replaced"),
              Create(2, "fills what the old sets have lost")), desired=3, ceiling=3),
        id="on delete: a set with one machine is frozen, an empty one needs no freezing",
    ),
    pytest.param(
        Fleet("md", 3, group("new", 0), (group("old", 3, alive=1, frozen=True),)), OnDelete(),
        Sizes((Resize("old", 3, 1, "it has 1 replicas, 3 are wanted in all"),
              Resize("new", 0, 2, "fills what the old sets have lost")), desired=3, ceiling=3),
        id="on delete: what was lost is made new",
    ),
    pytest.param(
        Fleet("md", 3, None, (group("old", 2, frozen=True),)), OnDelete(),
        Sizes((Create(1, "fills what the old sets have lost"),), desired=3, ceiling=3),
        id="on delete: only the missing one is made",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fleet", "strategy", "expect"), WHOLE_PLANS)
def test_the_whole_plan(fleet: Fleet, strategy: Strategy, expect: Sizes) -> None:
    scaling = CAPI_SCALING if isinstance(strategy, OnDelete) or strategy is SURGE else MCM_SCALING
    assert plan(fleet, strategy, scaling) == expect


@pytest.mark.parametrize(
    ("strategy", "expect"),
    [
        (RollingUpdate(3, "20%"), Bounds(10, 3, 2)),
        (Recreate(), Bounds(10)),
        (InPlaceUpdate(3, "20%"), Bounds(10, 3, 2)),
        (InPlaceUpdate(3, "20%", manual=True), Bounds(10, 0, 2)),
        (InPlaceUpdate(3, 0, manual=True), Bounds(10, 0, 1)),
        (OnDelete(), Bounds(10)),
    ],
    ids=["rolling", "recreate", "in place", "in place, by a user", "who takes one at least", "on delete"],
)
def test_how_far_a_strategy_goes(strategy: Strategy, expect: Bounds) -> None:
    assert strategy.limits(10) == expect


@pytest.mark.parametrize(
    ("fleet", "expect"),
    [
        pytest.param(Fleet("md", 1, group("new", 0)), True, id="the first machine of all"),
        pytest.param(Fleet("md", 0, group("new", 0)), False, id="no machine is wanted"),
        pytest.param(Fleet("md", 1), False, id="there is no set"),
        pytest.param(
            Fleet("md", 1, group("new", 0), (group("old", 0, terminating=1),)), False, id="old ones leave"
        ),
        pytest.param(Fleet("md", 10, group("new", 3)), False, id="all active sets are sized for the number"),
        pytest.param(Fleet("md", 9, group("new", 3)), True, id="an active set is not"),
    ],
)
def test_whether_a_number_is_new(fleet: Fleet, expect: bool) -> None:
    assert scaling_wanted(fleet) is expect


@pytest.mark.parametrize(
    ("numerator", "denominator", "rounded"),
    [(1, 2, 1), (3, 2, 2), (1, 3, 0), (2, 3, 1), (5, 2, 3), (0, 7, 0), (7, 7, 1)],
)
def test_halves_round_away_from_zero(numerator: int, denominator: int, rounded: int) -> None:
    assert half_away(numerator, denominator) == rounded
