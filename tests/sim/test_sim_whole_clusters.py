"""Whole clusters on virtual time: they come up, are scaled and rolled, and go, in calm and hostile worlds."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.bootstrap import decide as bootstrap_decide
from kubewright.bootstrap.seen import Seen
from kubewright.bootstrap.steps import Plan
from kubewright.clusters import owned
from kubewright.infra.machine import decide as infra_decide
from kubewright.infra.machine.deletion import remove_finalizer
from kubewright.providers.sim import manifests
from kubewright.testing.simulation import crashes
from kubewright.testing.simulation.clusterapi.whole import entry as whole
from kubewright.testing.simulation.clusterapi.whole.rules import WholeRules
from kubewright.testing.simulation.person import NAMESPACE_NAME, PACE, Person
from kubewright.testing.simulation.run import Outcome, simulate
from kubewright.testing.simulation.schedule import NODE_FAULTS, Schedule
from kubewright.testing.simulation.search import plot_of
from kubewright.testing.simulation.stories import Story
from kubewright.testing.simulation.world import Plot

ALL = os.environ.get("SIM") == "all"
pytestmark = pytest.mark.timeout(600)
VM = {"providerSpec": manifests.machine_class("small", NAMESPACE_NAME, pace=PACE)["providerSpec"]}
OLD, NEW = "v1.34.0", "v1.34.1"
PLANE_LABEL = {"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/cluster-name": "demo"}


def ref(kind: Any, name: str) -> dict[str, str]:
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


def machine(bootstrap: Any, infra: Any, name: str, version: str = OLD) -> dict[str, Any]:
    return {
        "clusterName": "demo",
        "version": version,
        "bootstrap": {"configRef": ref(bootstrap, name)},
        "infrastructureRef": ref(infra, name),
    }


async def create(person: Person) -> None:
    """One machine of the control plane and two workers."""
    await person.make(KUBEWRIGHT_CLUSTER, "demo", spec={})
    await person.make(CLUSTER, "demo", spec={"infrastructureRef": ref(KUBEWRIGHT_CLUSTER, "demo")})
    await plane(person, "cp")
    await person.make(KUBEADM_CONFIG_TEMPLATE, "md", spec={"template": {"spec": {"joinConfiguration": {}}}})
    await person.make(KUBEWRIGHT_MACHINE_TEMPLATE, "md", spec={"template": {"spec": VM}})
    template = {"spec": machine(KUBEADM_CONFIG_TEMPLATE, KUBEWRIGHT_MACHINE_TEMPLATE, "md")}
    spec = {"clusterName": "demo", "replicas": 2, "selector": {}, "template": template}
    await person.make(MACHINE_DEPLOYMENT, "md", spec=spec)


async def plane(person: Person, name: str) -> None:
    """A machine of the control plane."""
    await person.make(KUBEWRIGHT_MACHINE, name, spec=VM)
    await person.make(
        KUBEADM_CONFIG, name, spec={"initConfiguration": {}, "joinConfiguration": {"controlPlane": {}}}
    )
    meta = {"name": name, "namespace": NAMESPACE_NAME, "labels": PLANE_LABEL}
    await person.make(MACHINE, name, metadata=meta, spec=machine(KUBEADM_CONFIG, KUBEWRIGHT_MACHINE, name))


def running(workers: int, version: str = OLD, *, planes: int = 1) -> Callable[[Person], bool]:
    """So many workers of this version and their control plane, all Running, and no machine or VM more."""

    def met(person: Person) -> bool:
        found = list(person.world.journal.objects[whole.MACHINES].values())
        well = [each for each in found if each.get("status", {}).get("phase") == "Running"]
        right = [
            each
            for each in well
            if each["spec"]["version"] == version and not each["metadata"]["name"].startswith("cp")
        ]
        infra = person.world.journal.objects[whole.INFRA_MACHINES]
        sizes = {len(found), len(well), len(infra), len(person.world.journal.vms)}
        return sizes == {workers + planes} and len(right) == workers

    return met


def nothing_left(person: Person) -> bool:
    return all(person.empty(each) for each in whole.OBJECTS) and not person.world.journal.vms


async def made(person: Person) -> None:
    await create(person)
    await person.until(lambda: running(2)(person), "a cluster", seconds=300)


async def scale(person: Person) -> None:
    """Up, and then down."""
    await person.patch(MACHINE_DEPLOYMENT, "md", {"spec": {"replicas": 3}})
    await person.until(lambda: running(3)(person), "three workers", seconds=900)
    await person.patch(MACHINE_DEPLOYMENT, "md", {"spec": {"replicas": 1}})


async def roll(person: Person) -> None:
    await person.patch(MACHINE_DEPLOYMENT, "md", {"spec": {"template": {"spec": {"version": NEW}}}})


async def remove(person: Person) -> None:
    await person.remove(CLUSTER, "demo")


async def remove_at_once(person: Person) -> None:
    """While its machines are being made."""
    await create(person)
    await person.wait(2)
    await remove(person)


async def pause(person: Person) -> None:
    """What a user wants meanwhile is done later."""
    await person.patch(CLUSTER, "demo", {"spec": {"paused": True}})
    await person.wait(5)
    await person.patch(MACHINE_DEPLOYMENT, "md", {"spec": {"replicas": 3}})
    await person.wait(60)
    await person.patch(CLUSTER, "demo", {"spec": {"paused": False}})


async def create_two_planes(person: Person) -> None:
    """Two machines of the control plane come at one time: one begins it, the other joins."""
    await create(person)
    await plane(person, "cp-2")


STORIES = (
    Story("whole-cluster-up", create, running(2)),
    Story("whole-cluster-two-planes", create_two_planes, running(2, planes=2)),
    Story("whole-cluster-scaled", scale, running(1), before=made),
    Story("whole-cluster-rolled", roll, running(2, NEW), before=made),
    Story("whole-cluster-paused", pause, running(3), before=made),
    Story("whole-cluster-gone", remove, nothing_left, before=made),
    Story("whole-cluster-gone-at-once", remove_at_once, nothing_left),
)
BY_NAME = {story.name: story for story in STORIES}


def run(story: Story, plot: Plot) -> Outcome:
    return simulate(story, plot, prepare=whole.enter, invariants=WholeRules().all, plans=True)


POINTS = 2
"""About how many crash points of each story are tried; SIM=all tries all of them."""
FOUND = (18, 24)
"""Seeds that have found a Cluster whose deletion stopped: a child, a provider's object had no owner yet."""
SEEDS = range(200) if ALL else (*range(6), *FOUND)


def disturbed(calm: Outcome) -> Iterator[Plot]:
    yield from crashes.every_write(calm, 1 if ALL else max(1, calm.counts.writes // POINTS))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_of_a_whole_cluster_survives_crashes(story: Story) -> None:
    calm = run(story, Plot(seed=1))
    assert calm.good, calm.violations
    for plot in disturbed(calm):
        outcome = crashes.judged(run(story, plot), calm.picture)
        assert outcome.good, (plot, outcome.violations)


@pytest.mark.parametrize("seed", SEEDS)
def test_stories_of_whole_clusters_in_hostile_worlds(seed: int) -> None:
    """Nodes are not harmed: without a health check no machine of a cluster is replaced for its node."""
    story, plot = plot_of(seed, STORIES)
    calm = tuple(each for each in plot.schedule.faults if each.word not in NODE_FAULTS)
    outcome = run(story, replace(plot, schedule=Schedule(calm)))
    assert outcome.good, (seed, outcome.violations)


Bug = Callable[[pytest.MonkeyPatch], None]


def forget_vms(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(infra_decide, "DELETING", (remove_finalizer,))


def work_in_the_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owned, "idle", lambda _found, _cluster: "")


def take_no_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seen, "holds_lock", property(lambda _seen: True))


def tell_data(patch: pytest.MonkeyPatch) -> None:
    """The reason of a plan has what the plan writes."""

    def telling(seen: Seen) -> Plan | None:
        plan = bootstrap_decide.make_data(seen)
        return plan and replace(plan, because=str([getattr(step, "text", "") for step in plan.steps]))

    patch.setattr(bootstrap_decide, "INIT", (*bootstrap_decide.INIT[:-1], telling))


BUGS: dict[str, tuple[Bug, str]] = {
    "no_vm_is_forgotten": (forget_vms, "whole-cluster-gone"),
    "nothing_of_a_paused_cluster_is_written": (work_in_the_pause, "whole-cluster-paused"),
    "one_machine_runs_init": (take_no_lock, "whole-cluster-two-planes"),
    "secrets_stay_secret": (tell_data, "whole-cluster-up"),
}


@pytest.mark.parametrize("rule", BUGS)
def test_a_planted_bug_violates_its_rule(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, name = BUGS[rule]
    plant(monkeypatch)
    found = run(BY_NAME[name], Plot(seed=1)).violations
    assert any(each.startswith(f"{rule}:") for each in found), found
