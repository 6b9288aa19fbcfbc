"""Clusters of Cluster API, with a tiny provider: each story survives a manager that is killed after any write."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.clusters.cluster import decide
from kubewright.clusters.cluster.seen import RemoveFinalizer, Seen
from simulation import crashes
from simulation.clusterapi.provider import DEPLOYMENT, FINALIZER
from simulation.clusterapi.setup import REALM
from simulation.person import Person
from simulation.resources import CLUSTERS, FOO_CLUSTER, FOO_PLANE, PARTS
from simulation.run import Outcome, simulate
from simulation.search import plot_of
from simulation.story import Story
from simulation.world import Plot

SEEDS = range(12)
EVERY = 1 if os.environ.get("SIM") else 6
"""Which writes of each story the manager is killed after; ``make sim`` tries every one."""
pytestmark = pytest.mark.timeout(600)


def ref(kind: Any) -> dict[str, str]:
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": "demo"}


SPEC = {"infrastructureRef": ref(FOO_CLUSTER), "controlPlaneRef": ref(FOO_PLANE)}


def status(person: Person) -> dict[str, Any]:
    found = person.world.journal.objects[CLUSTERS].get("garden/demo", {})
    return dict(found.get("status", {}))


def provisioned(person: Person) -> bool:
    """The providers have done their part, and all of it is in the status."""
    found = status(person)
    ready = {each["type"] for each in found.get("conditions", ()) if each["status"] == "True"}
    whole = {"Ready", "InfrastructureReady", "ControlPlaneReady", "ControlPlaneInitialized"} <= ready
    return whole and found["phase"] == "Provisioned" and bool(found.get("controlPlaneReady"))


def nothing_left(person: Person) -> bool:
    return all(person.empty(each) for each in PARTS)


async def create(person: Person) -> None:
    await person.make(FOO_CLUSTER, "demo")
    await person.make(FOO_PLANE, "demo")
    await person.make(CLUSTER, "demo", spec=SPEC)


async def create_backwards(person: Person) -> None:
    """The Cluster first, its parts later."""
    await person.make(CLUSTER, "demo", spec=SPEC)
    await person.wait(20)
    await person.make(FOO_PLANE, "demo")
    await person.wait(20)
    await person.make(FOO_CLUSTER, "demo")


async def made(person: Person) -> None:
    await create(person)
    await person.until(lambda: provisioned(person), "a cluster")


async def made_with_deployment(person: Person) -> None:
    await made(person)
    uid = person.world.journal.objects[CLUSTERS]["garden/demo"]["metadata"]["uid"]
    owner = {"apiVersion": CLUSTER.resource.api_version, "kind": "Cluster", "name": "demo", "uid": uid}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"clusterName": "demo", "bootstrap": {}, "infrastructureRef": ref(FOO_CLUSTER)},
    }
    await person.make(
        DEPLOYMENT,
        "md",
        spec={"clusterName": "demo", "selector": {"matchLabels": {"a": "b"}}, "template": template},
    )
    meta = {"ownerReferences": [owner], "finalizers": [FINALIZER]}
    await person.patch(DEPLOYMENT, "md", {"metadata": meta})


async def remove(person: Person) -> None:
    await person.remove(CLUSTER, "demo")


async def pause_and_delete(person: Person) -> None:
    """A deletion waits for the end of the pause, and so does what a provider reports."""
    await person.patch(CLUSTER, "demo", {"spec": {"paused": True}})
    await person.wait(5)
    await person.patch(FOO_PLANE, "demo", {"status": {"failureMessage": "no quota"}}, "status")
    await person.remove(CLUSTER, "demo")
    await person.wait(60)
    await person.patch(CLUSTER, "demo", {"spec": {"paused": False}})


async def move(person: Person) -> None:
    """The status is lost, as clusterctl move loses it."""
    await person.patch(CLUSTER, "demo", {"spec": {"paused": True}})
    await person.wait(5)
    await person.patch(CLUSTER, "demo", {"spec": {"paused": False}, "status": None})
    await person.patch(CLUSTER, "demo", {"status": None}, "status")


STORIES = (
    Story("cluster-up", create, provisioned, realm=REALM),
    Story("cluster-before-its-parts", create_backwards, provisioned, realm=REALM),
    Story("cluster-gone", remove, nothing_left, before=made_with_deployment, realm=REALM),
    Story("cluster-paused-and-gone", pause_and_delete, nothing_left, before=made, realm=REALM),
)
MOVE = Story(
    "cluster-moved",
    move,
    provisioned,
    before=made,
    realm=replace(
        REALM,
        rules=tuple(rule for rule in REALM.rules if rule.name != "a_control_plane_stays_initialized"),
    ),
)


def run(story: Story, plot: Plot) -> Outcome:
    return simulate(story, plot)


def disturbed(calm: Outcome) -> Iterator[Plot]:
    """Killed after each write, and now and then in another way."""
    yield from crashes.every_write(calm, EVERY)
    yield from crashes.late_restarts(calm, 5 * EVERY)
    yield from crashes.stale_restarts(calm, 5 * EVERY)


@pytest.mark.parametrize("story", [*STORIES, MOVE], ids=lambda story: story.name)
def test_a_story_of_a_cluster_survives_every_crash(story: Story) -> None:
    calm = run(story, Plot(seed=1))
    assert calm.good, calm.violations
    for plot in disturbed(calm):
        outcome = crashes.judged(run(story, plot), calm.picture)
        assert outcome.good, (plot, outcome.violations)


@pytest.mark.parametrize("seed", SEEDS)
def test_stories_of_clusters_in_hostile_worlds(seed: int) -> None:
    outcome = run(*plot_of(seed, STORIES))
    assert outcome.good, (seed, outcome.violations)


def hasty(seen: Seen) -> decide.Stage:
    return decide.Stage("", "", (RemoveFinalizer(),))


def test_a_cluster_that_goes_before_its_parts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "stage", hasty)
    (gone,) = (story for story in STORIES if story.name == "cluster-gone")
    assert any(wrong.startswith("parts_are_deleted_in_order") for wrong in run(gone, Plot(seed=1)).violations)


def test_a_pause_that_is_not_kept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seen, "paused", property(lambda _seen: False))
    (story,) = (story for story in STORIES if story.name == "cluster-paused-and-gone")
    assert any(wrong.startswith("a_paused") for wrong in run(story, Plot(seed=1)).violations)
