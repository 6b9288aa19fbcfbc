"""Whole rollouts among their neighbours: in a fixed order with a story, in seeded orders with rules."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rollout.simulate import RUNNING, Actor, Broken, Rule, World, simulate

from kubewright.rollout.model import Fleet, Sizes
from kubewright.rollout.planner import (
    CAPI_SCALING,
    MCM_SCALING,
    OnDelete,
    Recreate,
    RollingUpdate,
    Scaling,
    Strategy,
    plan,
)

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Play:
    name: str
    strategy: Strategy
    replicas: int
    old: tuple[int, ...]
    broken: int = 0
    scaling: Scaling = MCM_SCALING

    def world(self) -> World:
        world = World("md", self.replicas, "new")
        for number, size in enumerate(self.old):
            cast = world.add(f"old{number}", size)
            for actor in cast.machines[: self.broken]:
                actor.broken, actor.facts = True, world.machine().facts
        return world

    def planner(self) -> Callable[[Fleet], Sizes]:
        return lambda fleet: plan(fleet, self.strategy, self.scaling)


PLAYS = [
    Play("surge one, unavailable none", RollingUpdate(1, 0), 3, (3,)),
    Play("surge none, unavailable one", RollingUpdate(0, 1), 3, (3,)),
    Play("a quarter each", RollingUpdate("25%", "25%"), 10, (10,)),
    Play("two old sets, two broken machines each", RollingUpdate(2, 1), 6, (3, 4), broken=2),
    Play("scaled down while rolling", RollingUpdate(3, 2), 5, (10,)),
    Play("recreate", Recreate(), 3, (3,)),
    Play("rolling in Cluster API", RollingUpdate(1, 1), 5, (5,), scaling=CAPI_SCALING),
]


def within(play: Play, world: World) -> list[Rule]:
    """The two promises; a fleet that starts beyond one is only forbidden to get worse by our doing."""
    limits = play.strategy.limits(play.replicas)
    most = max([limits.ceiling, world.fleet().existing])
    least = min(limits.floor, world.fleet().available) if not isinstance(play.strategy, Recreate) else 0

    def total(fleet: Fleet) -> str:
        return f"{fleet.existing} machines > {most}" if fleet.existing > most else ""

    def floor(fleet: Fleet) -> str:
        return f"{fleet.available} available < {least}" if fleet.available < least else ""

    return [total, floor]


def ended_well(play: Play, world: World) -> None:
    fleet = world.fleet()
    assert fleet.current is not None
    assert (fleet.current.available, fleet.existing) == (play.replicas, play.replicas)
    assert play.planner()(fleet).idle


@pytest.mark.parametrize("play", PLAYS, ids=attrgetter("name"))
def test_story(play: Play) -> None:
    world = play.world()
    story = "\n".join(simulate(world, play.planner(), always=within(play, world))) + "\n"
    ended_well(play, world)
    path = GOLDEN / f"{play.name.replace(' ', '_').replace(',', '')}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(story, encoding="utf-8")
    assert story == path.read_text(encoding="utf-8"), "read the new story; if it is better: WRITE_GOLDEN=1"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("play", PLAYS, ids=attrgetter("name"))
def test_any_order_keeps_the_promises_and_ends(play: Play, seed: int) -> None:
    world = play.world()
    simulate(world, play.planner(), random.Random(seed), always=within(play, world))
    ended_well(play, world)


COUNTS = st.one_of(st.integers(0, 4), st.integers(0, 100).map("{}%".format))


@st.composite
def rolls(draw: st.DrawFn) -> Play:
    strategy = RollingUpdate(draw(COUNTS), draw(COUNTS))
    old = draw(st.lists(st.integers(0, 6), max_size=3).map(tuple))
    return Play(
        "drawn",
        strategy,
        draw(st.integers(0, 9)),
        old,
        scaling=draw(st.sampled_from([MCM_SCALING, CAPI_SCALING])),
    )


@given(rolls(), st.integers(0, 2**16))
def test_no_world_breaks_the_bounds_or_goes_on_for_ever(play: Play, seed: int) -> None:
    world = play.world()
    simulate(world, play.planner(), random.Random(seed), always=within(play, world))
    ended_well(play, world)


@given(rolls(), st.integers(0, 2**16), st.integers(0, 9))
def test_a_new_number_in_the_middle_of_a_rollout_still_ends_well(
    play: Play, seed: int, replicas: int
) -> None:
    world, chance = play.world(), random.Random(seed)
    try:
        simulate(world, play.planner(), chance, at_most=3)
    except Broken:  # it had not ended yet: the very point
        world.replicas = replicas
    after = Play(play.name, play.strategy, world.replicas, (), scaling=play.scaling)
    simulate(world, after.planner(), chance)
    ended_well(after, world)


@given(rolls(), st.integers(0, 2**16), st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_priorities_delay_but_never_stop_a_rollout(play: Play, seed: int, priorities: list[int]) -> None:
    world, chance = play.world(), random.Random(seed)
    actors = [actor for cast in world.casts for actor in cast.machines]
    for number, actor in enumerate(actors):
        actor.facts = world.machine(RUNNING, priorities[number % len(priorities)]).facts
        if chance.random() < 0.3:
            actor.broken, actor.facts = True, world.machine(priority=actor.facts.priority).facts
    simulate(world, play.planner(), chance)
    ended_well(play, world)


@given(rolls())
def test_a_paused_fleet_is_never_rolled(play: Play) -> None:
    world = play.world()
    world.paused = True
    for _ in range(3):
        step = play.planner()(world.fleet())
        assert all(intent.__class__.__name__ == "Resize" for intent in step.intents)
        world.carry_out(step)
        assert world.fleet().current is None
    assert play.planner()(world.fleet()).idle


@pytest.mark.parametrize("scaling", [MCM_SCALING, CAPI_SCALING], ids=["MCM", "Cluster API"])
def test_a_paused_fleet_that_grows_while_machines_terminate_gets_all_of_them_in_the_end(
    scaling: Scaling,
) -> None:
    play = Play("paused", RollingUpdate(1, 0), 10, (), scaling=scaling)
    world = World("md", 5, "new", paused=True)
    for template, size, leaving in (("old", 3, 3), ("new", 2, 0)):
        cast = world.add(template, size)
        cast.machines += [Actor(world.machine(RUNNING).facts, terminating=True) for _ in range(leaving)]
    world.replicas = 10
    ceiling = play.strategy.limits(10).ceiling
    simulate(world, play.planner(), always=within(play, world))
    assert [sum(cast.group.size for cast in world.casts), world.fleet().available] == [ceiling, ceiling]


@given(rolls(), st.integers(0, 2**16), st.integers(1, 6))
def test_a_plan_applied_twice_changes_nothing(play: Play, seed: int, rounds: int) -> None:
    world = play.world()
    with suppress(Broken):
        simulate(world, play.planner(), random.Random(seed), at_most=rounds)
    for _ in range(2):  # a scaling step may be followed by a rollout step
        world.carry_out(play.planner()(world.fleet()))
    assert play.planner()(world.fleet()).idle


def test_on_delete_only_follows_what_users_delete() -> None:
    play = Play("on delete", OnDelete(), 4, (4,), scaling=CAPI_SCALING)
    world = play.world()
    simulate(world, play.planner())
    assert [len(cast.machines) for cast in world.casts] == [4, 0]
    for left in (3, 2, 1, 0):
        world.casts[0].machines[0].terminating = True
        simulate(world, play.planner(), random.Random(left))
        assert [len(cast.machines) for cast in world.casts] == [left, 4 - left]


@pytest.mark.parametrize("seed", range(4))
def test_a_set_that_was_held_creates_members_again_when_its_template_is_wanted_again(seed: int) -> None:
    play = Play("on delete", OnDelete(), 4, (4,), scaling=CAPI_SCALING)
    world = play.world()
    simulate(world, play.planner())
    assert world.casts[0].group.frozen
    world.template, world.replicas = "old0", 6
    simulate(world, play.planner(), random.Random(seed))
    assert [len(cast.machines) for cast in world.casts] == [6, 0]
    assert not world.casts[0].group.frozen
