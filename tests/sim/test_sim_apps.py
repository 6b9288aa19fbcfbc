"""Deployments of ``apps/v1`` in the simulator: rolled, sized and deleted by ``builtin.apps``, under the rules for
machines, killed after each write and in hostile worlds.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.replicas.things import but

from kubewright import builtin
from kubewright.api.apps import DEPLOYMENT
from kubewright.rollout.planner import RollingUpdate
from simulation import apps, crashes
from simulation.acts import pool
from simulation.journal import Object
from simulation.person import Person, going, of_class, phase
from simulation.rules import Rule
from simulation.rules.table import OF_MACHINES
from simulation.run import Outcome, simulate
from simulation.schedule import NODE_FAULTS, parse
from simulation.search import plot_of
from simulation.story import Realm, Story
from simulation.world import Plot

SEEDS = range(8)
EVERY = 1 if os.environ.get("SIM") else 8
"""Which writes of each story the manager is killed after; ``make sim`` tries every one."""
LABELS = {"app": "web"}
pytestmark = pytest.mark.timeout(600)


def pods(person: Person) -> list[Object]:
    return [each for each in person.machines if each["metadata"].get("labels", {}).get("app") == "web"]


def settled(count: int, image: str = "") -> Callable[[Person], bool]:
    """So many Pods are ready, all of that image, and no other is there."""

    def end(person: Person) -> bool:
        there = pods(person)
        ready = [p for p in there if phase(p) == "Running" and not going(p) and image in ("", of_class(p))]
        return len(there) == len(ready) == count

    return end


def spec(replicas: int, image: str = "one", **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    return {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template, **more}


def deployed(count: int) -> Callable[[Person], Any]:
    """A Deployment whose Pods are ready, on the node of one machine."""

    async def before(person: Person) -> None:
        await pool(1)(person)
        await person.make(DEPLOYMENT, "web", spec=spec(count))
        await person.until(lambda: settled(count)(person), f"{count} pods")

    return before


async def roll(person: Person) -> None:
    await person.patch(
        DEPLOYMENT, "web", {"spec": {"template": {"spec": spec(0, "two")["template"]["spec"]}}}
    )


def resize(count: int) -> Callable[[Person], Any]:
    return lambda person: person.patch(DEPLOYMENT, "web", {"spec": {"replicas": count}})


async def delete(person: Person) -> None:
    await person.remove(DEPLOYMENT, "web")


STORIES = (
    Story("apps-roll", roll, settled(3, "two"), before=deployed(3)),
    Story("apps-resize", resize(4), settled(4, "one"), before=deployed(2)),
    Story("apps-delete", delete, settled(0), before=deployed(2)),
)


def rules(plot: Plot) -> tuple[Rule, ...]:
    """Where a node fails, its drain takes Pods away: no controller of apps can keep enough of them available."""
    harmed = plot.schedule.has(NODE_FAULTS)
    return tuple(rule for rule in OF_MACHINES if not harmed or rule.name != "not_too_few")


def run(story: Story, plot: Plot) -> Outcome:
    return simulate(replace(story, realm=Realm("apps", apps.install, rules(plot))), plot)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_of_apps_survives_every_crash(story: Story) -> None:
    calm = run(story, Plot(seed=1))
    assert calm.good, calm.violations
    for plot in crashes.every_write(calm, EVERY):
        outcome = crashes.judged(run(story, plot), calm.picture)
        assert outcome.good, (plot, outcome.violations)


def test_a_rollout_that_uses_too_much_surge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = but(builtin.DEPLOYMENTS, strategy=lambda _deployment: RollingUpdate(3, 1))
    monkeypatch.setattr(builtin, "DEPLOYMENTS", greedy)
    assert any(wrong.startswith("not_too_many") for wrong in run(STORIES[0], Plot(seed=1)).violations)


FOUND = {
    "a scheduler may begin where the caches are full": (
        2,
        Plot(10, parse("at:3.3:lease-cleared"), elect=True),
    ),
    "a Pod whose binding meets a conflict is looked at again": (
        1,
        Plot(61, parse("api:40:conflict,at:0:slow-watches,at:0:storm-lose-answer")),
    ),
}
"""Worlds in which something went wrong once: the number of the story, and the plot."""


@pytest.mark.parametrize(("story", "plot"), FOUND.values(), ids=FOUND)
def test_what_was_found_once_stays_mended(story: int, plot: Plot) -> None:
    outcome = run(STORIES[story], plot)
    assert outcome.good, outcome.violations


@pytest.mark.parametrize("seed", SEEDS)
def test_apps_in_a_hostile_world(seed: int) -> None:
    story, plot = plot_of(seed, STORIES)
    outcome = run(story, replace(plot, apart=False))
    assert outcome.good, (plot, outcome.violations)
