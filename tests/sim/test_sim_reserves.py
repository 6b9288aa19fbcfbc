"""Reserved capacity in the simulator: a burst takes it, and a user changes and deletes it, while the manager is
killed after each write."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, PLACEHOLDER_LABEL
from kubewright.reserves import CONTROLLERS
from kubewright.reserves import world as reserves
from kubewright.reserves.seen import ReserveSettings
from simulation import apps, crashes
from simulation.acts import pool
from simulation.journal import Object
from simulation.person import Person, going, phase
from simulation.run import Outcome, simulate
from simulation.story import Story
from simulation.world import Plot, World

EVERY = 1 if os.environ.get("SIM") else 12
"""Which writes of each story the manager is killed after; ``make sim`` tries every one."""
pytestmark = pytest.mark.timeout(600)


def install(world: World) -> None:
    """The managers run it by another name: by its own it would have to be asked for, which they never are."""
    apps.install(world)
    listed = tuple(replace(each, name="spare") for each in CONTROLLERS)
    made = replace(reserves(ReserveSettings("pause")), controllers=listed, on_request=False)
    world.managers.extra_worlds.append(made)


def run(story: Story, plot: Plot) -> Outcome:
    return simulate(story, plot, prepare=install)


def pods(person: Person, label: str) -> list[Object]:
    return [each for each in person.machines if label in each["metadata"].get("labels", {})]


def running(found: list[Object]) -> int:
    return sum(phase(each) == "Running" and not going(each) for each in found)


def held(count: int, pending: int = 0, burst: int = 0) -> Callable[[Person], bool]:
    def end(person: Person) -> bool:
        there, work = pods(person, PLACEHOLDER_LABEL), pods(person, "app")
        return running(there) == count == len(there) - pending and running(work) == burst == len(work)

    return end


async def reserved(person: Person) -> None:
    await pool(1)(person)
    spec: dict[str, Any] = {"unit": {"cpu": "500m"}, "machines": 1}
    await person.make(CAPACITY_RESERVE, "spare", spec=spec)
    await person.until(lambda: held(4)(person), "4 placeholders")


async def burst(person: Person) -> None:
    container = {"name": "main", "image": "one", "resources": {"requests": {"cpu": "500m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await person.make(DEPLOYMENT, "web", spec=spec)


async def change(person: Person) -> None:
    await person.patch(CAPACITY_RESERVE, "spare", {"spec": {"unit": {"cpu": "1"}, "priority": -7}})


async def delete(person: Person) -> None:
    await person.remove(CAPACITY_RESERVE, "spare")


STORIES = (
    Story("reserve-burst", burst, held(1, pending=3, burst=3), before=reserved),
    Story("reserve-change", change, held(2), before=reserved),
    Story("reserve-delete", delete, held(0), before=reserved),
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_of_reserves_survives_every_crash(story: Story) -> None:
    calm = run(story, Plot(seed=1))
    assert calm.good, calm.violations
    for plot in crashes.every_write(calm, EVERY):
        outcome = crashes.judged(run(story, plot), calm.picture)
        assert outcome.good, (plot, outcome.violations)
