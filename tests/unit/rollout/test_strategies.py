"""Recreate (mcm.md §7.8), OnDelete (capi.md §7.9), scaling of both worlds (§7.5, §7.9) and pause."""

from dataclasses import dataclass
from operator import attrgetter

import pytest

from kubewright.rollout.model import Create, Fleet, Group, Hold, Resize
from kubewright.rollout.planner import (
    CAPI_SCALING,
    MCM_SCALING,
    InPlaceUpdate,
    OnDelete,
    Recreate,
    RollingUpdate,
    Scaling,
    plan,
)
from kubewright.rollout.proportional import half_away

ROLL = RollingUpdate(3, 2)


def group(name: str, size: int, *, alive: int | None = None, goal: int | None = 10, **more: object) -> Group:
    """All alive members are available; the goal is the one of a fleet of ten."""
    alive = size if alive is None else alive
    created = {"older": 1.0, "old": 2.0, "new": 3.0}[name]
    return Group(name, created, size, (True,) * alive, goal=goal, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    name: str
    replicas: int
    strategy: Recreate | OnDelete | RollingUpdate | InPlaceUpdate
    new: Group | None
    old: tuple[Group, ...]
    expect: list[str]
    scaling: Scaling = MCM_SCALING
    paused: bool = False


CASES = [
    Case("recreate: old machines go first", 3, Recreate(), None, (group("old", 3, goal=3),), ["old=0"]),
    Case("recreate: while one old machine is leaving nothing is made", 3, Recreate(), None,
         (group("old", 0, goal=3, leaving=1),), []),
    Case("recreate: when all are gone the new set is created complete", 3, Recreate(), None,
         (group("old", 0, goal=3),), ["create=3"]),
    Case("recreate: a set that exists already is used", 3, Recreate(), group("new", 0, goal=3),
         (group("old", 0, goal=3),), ["new=3", "mark new"]),
    Case("recreate: nor does a set that exists grow meanwhile", 3, Recreate(), group("new", 0, goal=3),
         (group("old", 0, goal=3, leaving=1),), []),
    Case("recreate: a plain change of replicas needs no rollout", 5, Recreate(), group("new", 3, goal=3), (),
         ["new=5", "mark new"]),
    Case("in place: old machines are neither replaced nor updated", 3, InPlaceUpdate(), None,
         (group("old", 3, goal=3),), []),
    Case("in place: nor when half of them were replaced before", 4, InPlaceUpdate(), group("new", 2, goal=4),
         (group("old", 2, goal=4),), []),
    Case("in place: but they are scaled", 5, InPlaceUpdate(), None, (group("old", 3, goal=3),),
         ["old=5", "mark old"]),
    Case("in place: without any machine the new set is made complete", 3, InPlaceUpdate(), None,
         (group("old", 0, goal=3),), ["create=3"]),
    Case("in place: a set that exists follows the replicas", 5, InPlaceUpdate(), group("new", 3, goal=3), (),
         ["new=5", "mark new"]),
    Case("on delete: old sets are held and nothing is deleted", 3, OnDelete(), group("new", 0, goal=3),
         (group("old", 3, goal=3),), ["hold old"], CAPI_SCALING),
    Case("on delete: what somebody deleted is made new", 3, OnDelete(), group("new", 0, goal=3),
         (group("old", 3, alive=2, goal=3, held=True),), ["old=2", "new=1"], CAPI_SCALING),
    Case("on delete: while the deleted machine is leaving its place is taken", 3, OnDelete(),
         group("new", 0, goal=3),
         (group("old", 3, alive=2, goal=3, leaving=1, held=True),), ["old=2"], CAPI_SCALING),
    Case("on delete: a smaller fleet shrinks the largest old set", 3, OnDelete(), group("new", 1, goal=5),
         (group("older", 1, goal=5, held=True), group("old", 3, goal=5, held=True)), ["old=1"], CAPI_SCALING),
    Case("on delete: a larger fleet grows new machines", 5, OnDelete(), group("new", 1, goal=3),
         (group("old", 2, goal=3, held=True),), ["new=3"], CAPI_SCALING),
    Case("on delete: a new set that is too large shrinks", 2, OnDelete(), group("new", 3, goal=3), (),
         ["new=2"],
         CAPI_SCALING),

    Case("scaling: one active set takes the whole number", 7, ROLL, group("new", 10), (),
         ["new=7", "mark new"]),
    Case("scaling: without an active set the newest takes it", 4, ROLL, group("new", 0, goal=0),
         (group("old", 0, goal=0),), ["new=4", "mark new"]),
    Case("scaling: only the marks are refreshed when the size fits", 10, ROLL, group("new", 10, goal=9), (),
         ["mark new"]),
    Case("scaling up in a rollout gives all to the current set (MCM)", 14, ROLL,
         group("new", 6, ceiling=13), (group("old", 7, ceiling=13),), ["new=10", "mark old", "mark new"]),
    Case("scaling up in a rollout is shared (Cluster API, paused)", 20, ROLL,
         group("new", 5, ceiling=13), (group("old", 8, ceiling=13),),
         ["old=14", "new=9", "mark old", "mark new"],
         CAPI_SCALING, paused=True),
    Case("scaling down in a rollout is proportional, the rest from the largest", 5, ROLL,
         group("new", 5, ceiling=13), (group("old", 8, ceiling=13),),
         ["old=5", "new=3", "mark old", "mark new"]),
    Case("scaling to zero empties every set", 0, ROLL, group("new", 5, ceiling=13),
         (group("old", 8, ceiling=13),), ["old=0", "new=0", "mark old", "mark new"]),
    Case("scaling never forgets leaving machines", 14, ROLL, group("new", 6, ceiling=13),
         (group("old", 7, ceiling=13, leaving=2),), ["new=8", "mark old", "mark new"]),
    Case("paused: a set that could not grow yet is not marked, so that it grows later", 14, ROLL,
         group("new", 6, ceiling=13), (group("old", 7, ceiling=13, leaving=2),), ["new=8", "mark old"],
         paused=True),
    Case("a saturated new set ends the old ones", 10, ROLL, group("new", 10), (group("old", 2, goal=9),),
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
    got = []
    for intent in step.intents:
        match intent:
            case Create(size, _):
                got.append(f"create={size}")
            case Resize(name, _, size, _):
                got.append(f"{name}={size}")
            case Hold(name, _):
                got.append(f"hold {name}")
    assert got + [f"mark {name}" for name in step.stamps] == case.expect
    assert all(intent.because for intent in step.intents)


@pytest.mark.parametrize(
    ("numerator", "denominator", "rounded"),
    [(1, 2, 1), (3, 2, 2), (1, 3, 0), (2, 3, 1), (5, 2, 3), (0, 7, 0), (7, 7, 1)],
)
def test_halves_round_away_from_zero(numerator: int, denominator: int, rounded: int) -> None:
    assert half_away(numerator, denominator) == rounded
