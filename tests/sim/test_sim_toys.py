"""Toys: sets and deployments that do what Cluster API's do and machines' do not, under the rules of machines.

Two objects are cloned for each member, members count until they are gone, the ranking is another, and old members
may be left to users to delete. The same generic controllers run it, killed after each write, and in hostile worlds.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.unit.replicas.things import but

from kubewright.rollout.planner import RollingUpdate
from kubewright.wire.http import Request
from simulation import crashes
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES, Write
from simulation.person import Person, going, of_class, phase
from simulation.rules import Rule, made
from simulation.rules.past import Past
from simulation.rules.table import OF_MACHINES
from simulation.run import Outcome, simulate
from simulation.search import plot_of
from simulation.story import Realm, Story
from simulation.toys import api, policy
from simulation.toys.kinds import PARTS, TOY, TOY_DEPLOYMENT, TOY_SET
from simulation.world import Plot

SEEDS = range(12)
EVERY = 1 if os.environ.get("SIM") else 8
"""Which writes of each story the manager is killed after; ``make sim`` tries every one, and four times as many of the others."""
pytestmark = pytest.mark.timeout(600)


def settled(count: int, flavor: str = "") -> Callable[[Person], bool]:
    """So many toys work, each with its script and its body, and no other part is there.

    A part that was cloned just before its manager died stays until the set goes, if later toys have been created.
    """

    def end(person: Person) -> bool:
        well = [t for t in person.machines if phase(t) == "Running" and not going(t)]
        keys = {f"garden/{t['metadata']['name']}" for t in well if flavor in ("", of_class(t))}
        objects, died = person.world.journal.objects, person.world.counts.kills
        parts = [set(objects[str(kind.resource)]) for kind in PARTS]
        whole = all(keys <= each if count and died else keys == each for each in parts)
        return len(person.machines) == len(keys) == count and whole

    return end


def nothing_left(person: Person) -> bool:
    return settled(0)(person) and person.empty(MACHINE_SETS) and person.empty(MACHINE_DEPLOYMENTS)


def spec(replicas: int, flavor: str = "plain", **more: Any) -> dict[str, Any]:
    labels = {"app": "toys"}
    template = {"metadata": {"labels": labels}, "spec": {"flavor": flavor}}
    return {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **more}


def toy_set(count: int, **more: Any) -> Callable[[Person], Any]:
    async def before(person: Person) -> None:
        await person.make(TOY_SET, "box", spec=spec(count, **more))
        await person.until(lambda: settled(count)(person), f"{count} toys")

    return before


async def create(person: Person) -> None:
    await person.make(TOY_SET, "box", spec=spec(3))


def scale(count: int) -> Callable[[Person], Any]:
    return lambda person: person.patch(TOY_SET, "box", {"spec": {"replicas": count}})


async def heal(person: Person) -> None:
    """A toy breaks; its set deletes it, and creates another when it is gone."""
    person.victim = str(person.machines[0]["metadata"]["name"])
    await person.patch(TOY, person.victim, {"status": {"failed": True}}, "status")


def healed(person: Person) -> bool:
    names = {toy["metadata"]["name"] for toy in person.machines}
    return settled(3)(person) and person.victim not in names


async def delete(person: Person) -> None:
    await person.remove(TOY_SET, "box")


def writes_of_toys(_client: str, request: Request) -> bool:
    """Whether a request would create a toy, not one of its parts."""
    return request.method == "POST" and request.path.endswith("/toys")


def parts_of(person: Person) -> list[str]:
    objects = person.world.journal.objects
    return sorted(key for kind in PARTS for key in objects[str(kind.resource)])


async def be_refused(person: Person) -> None:
    """Toys are forbidden, and their parts are not; then users want none any more."""
    person.world.injector.fail_requests("forbid", 600.0, share=1.0, aim=writes_of_toys)
    await person.make(TOY_SET, "box", spec=spec(2))
    await person.until(lambda: bool(parts_of(person)), "a toy is tried")
    await person.patch(TOY_SET, "box", {"spec": {"replicas": 0}})


def deployed(count: int, strategy: str = "RollingUpdate") -> Callable[[Person], Any]:
    async def before(person: Person) -> None:
        bounds = {"maxSurge": 1, "maxUnavailable": 1}
        wanted = spec(count, strategy={"type": strategy, "rollingUpdate": bounds})
        await person.make(TOY_DEPLOYMENT, "box", spec=wanted)
        await person.until(lambda: settled(count)(person), f"{count} toys")

    return before


def resize(count: int) -> Callable[[Person], Any]:
    return lambda person: person.patch(TOY_DEPLOYMENT, "box", {"spec": {"replicas": count}})


async def roll(person: Person) -> None:
    await person.patch(TOY_DEPLOYMENT, "box", {"spec": {"template": {"spec": {"flavor": "fancy"}}}})


async def replace_by_hand(person: Person) -> None:
    """Old toys are replaced one after the other, each when a user deletes it."""
    await roll(person)
    await person.until(lambda: held(person), "the old set may create nothing")
    for left in (2, 1, 0):
        old = [toy for toy in person.machines if of_class(toy) == "plain"]
        await person.remove(TOY, str(old[0]["metadata"]["name"]))
        await person.until(partial(_mixed, person, left), f"{left} old toys")


def _mixed(person: Person, old: int) -> bool:
    return mixture(person) == (old, 3 - old)


def mixture(person: Person) -> tuple[int, int]:
    """How many toys of the old and of the new flavor there are; nothing else counts until all work."""
    flavors = [of_class(toy) for toy in person.machines if phase(toy) == "Running" and not going(toy)]
    whole = len(flavors) == len(person.machines)
    return (flavors.count("plain"), flavors.count("fancy")) if whole else (-1, -1)


def held(person: Person) -> bool:
    """Whether one of two sets may create nothing."""
    sets = person.world.journal.objects[MACHINE_SETS].values()
    marked = [each for each in sets if policy.NO_CREATION in each["metadata"].get("annotations", {})]
    return (len(sets), len(marked)) == (2, 1)


async def undeploy(person: Person) -> None:
    await person.remove(TOY_DEPLOYMENT, "box")


BY_HAND = Story("toys-on-delete", replace_by_hand, settled(3, "fancy"), before=deployed(3, "OnDelete"))
STORIES = (
    Story("toys-create", create, settled(3)),
    Story("toys-scale-up", scale(4), settled(4), before=toy_set(2)),
    Story("toys-scale-down", scale(1), settled(1), before=toy_set(4, deletePolicy="Oldest")),
    Story("toys-heal", heal, healed, before=toy_set(3)),
    Story("toys-delete", delete, nothing_left, before=toy_set(3)),
    Story("toys-deploy", deployed(3), settled(3)),
    Story("toys-resize", resize(4), settled(4), before=deployed(2)),
    Story("toys-roll", roll, settled(3, "fancy"), before=deployed(3)),
    BY_HAND,
    Story("toys-undeploy", undeploy, nothing_left, before=deployed(2)),
)


REFUSED = Story("toys-refused", be_refused, lambda person: not parts_of(person))


def beyond_its_size(write: Write, past: Past, _row: Rule) -> str:
    record = past.set_of(write.after)
    if record is None or not record.sizes or past.late_creation(write.name):
        return ""
    size = max(record.sizes.in_force(past.since()))
    return f"set {record.key} has {record.total} toys, and a size of {size}" if record.total > size else ""


WAITS = Rule(
    "a_set_waits_for_those_that_go",
    (MACHINES,),
    made,
    beyond_its_size,
    "No toy is created while as many as the set wants exist, those that are being deleted included.",
)
TOYS = Realm("toys", api.install, (*OF_MACHINES, WAITS))


def run(story: Story, plot: Plot) -> Outcome:
    return simulate(replace(story, realm=TOYS), plot)


def disturbed(calm: Outcome) -> Iterator[Plot]:
    """Killed after writes, and now and then in another way."""
    yield from crashes.every_write(calm, EVERY)
    yield from crashes.late_restarts(calm, 5 * EVERY)
    yield from crashes.killed_leaders(calm, 5 * EVERY)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_of_toys_survives_every_crash(story: Story) -> None:
    calm = run(story, Plot(seed=1))
    assert calm.good, calm.violations
    for plot in disturbed(calm):
        outcome = crashes.judged(run(story, plot), calm.picture)
        assert outcome.good, (plot, outcome.violations)


def test_the_parts_of_a_refused_toy_are_deleted() -> None:
    outcome = run(REFUSED, Plot(seed=1))
    assert outcome.good, outcome.violations


async def _no_discard(*_what: object) -> None:
    """Leaves the parts of a toy behind."""


WITHOUT_REPLICAS_THAT_GO = but(policy.TOY_SETS, counts_deleting=False)
WITHOUT_CLEANING = but(policy.TOY_SETS, discard=_no_discard)


@pytest.mark.parametrize(
    ("bug", "story"),
    [
        pytest.param(WITHOUT_REPLICAS_THAT_GO, STORIES[3], id="a toy is replaced before it is gone"),
        pytest.param(WITHOUT_CLEANING, REFUSED, id="parts are left behind"),
    ],
)
def test_stories_of_toys_notice(bug: Any, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "TOY_SETS", bug)
    assert not run(story, Plot(seed=1)).good


def test_a_rollout_that_uses_too_much_surge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = but(api.TOY_DEPLOYMENTS, strategy=lambda _deployment: RollingUpdate(3, 1))
    monkeypatch.setattr(api, "TOY_DEPLOYMENTS", greedy)
    found = next(story for story in STORIES if story.name == "toys-roll")
    assert any(wrong.startswith("not_too_many") for wrong in run(found, Plot(seed=1)).violations)


def test_a_rollout_that_does_not_wait_for_users_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = but(api.TOY_DEPLOYMENTS, strategy=lambda _deployment: RollingUpdate(1, 1))
    monkeypatch.setattr(api, "TOY_DEPLOYMENTS", hasty)
    assert not run(BY_HAND, Plot(seed=1)).good


@pytest.mark.parametrize("seed", SEEDS)
def test_toys_in_a_hostile_world(seed: int) -> None:
    story, plot = plot_of(seed, STORIES)
    outcome = run(story, replace(plot, apart=False))
    assert outcome.good, (plot, outcome.violations)
