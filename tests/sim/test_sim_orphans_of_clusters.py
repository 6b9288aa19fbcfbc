"""A VM of a cluster whose machine is long gone: no manager forgets it, whenever it is killed, and none takes another's."""

from dataclasses import replace

import pytest

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.core import Secret
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, Provision
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import stub
from kubewright.infra.orphans import vms
from kubewright.infra.provision import class_request, new_cloud_owner, with_data
from simulation import crashes
from simulation.clusterapi.whole.setup import REALM
from simulation.journal import NAMESPACE_NAME
from simulation.person import Person
from simulation.resources import INFRA_CLUSTERS
from simulation.run import Outcome, simulate
from simulation.story import Story
from simulation.world import Plot

pytestmark = pytest.mark.timeout(600)


async def made(person: Person) -> None:
    """A cluster with an endpoint, and no machines."""
    kind = KUBEWRIGHT_CLUSTER.resource
    ref = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "demo"}
    await person.make(KUBEWRIGHT_CLUSTER, "demo", spec={})
    await person.make(CLUSTER, "demo", spec={"infrastructureRef": ref})
    await person.until(lambda: bool(cluster(person)), "a cluster that clouds know", seconds=300)


def cluster(person: Person) -> str:
    """The uid of the KubewrightCluster, once it has an endpoint."""
    found = person.world.journal.objects[INFRA_CLUSTERS].get(f"{NAMESPACE_NAME}/demo", {})
    return str(found["metadata"]["uid"]) if found.get("status", {}).get("ready") else ""


async def late_vm(person: Person) -> None:
    """The cloud carries out a creation long after its machine has gone."""
    owner = new_cloud_owner(ObjectMeta(uid=cluster(person)), "late")
    of = class_request(Provision(), NAMESPACE_NAME, "demo", "", Secret())
    request = of.of(stub("late", NAMESPACE_NAME, owner))
    booting = with_data(request, b"#cloud-config\n", "cloud-config", None)
    await person.world.driver.create(replace(booting, version="v1.34.0"))
    for number in range(1, 4):  # rules look when something happens
        await person.wait(60)
        await person.patch(CLUSTER, "demo", {"metadata": {"labels": {"minutes": str(number)}}})


def no_vms(person: Person) -> bool:
    return not person.world.journal.vms


LATE = Story("late-vm-of-a-cluster", late_vm, no_vms, before=made, realm=REALM)


def run(plot: Plot) -> Outcome:
    return simulate(LATE, plot)


def test_a_late_vm_of_a_cluster_goes_although_the_manager_is_killed() -> None:
    calm = run(Plot(seed=1))
    assert calm.good, calm.violations
    for plot in (*crashes.every_write(calm), *crashes.late_restarts(calm)):
        outcome = crashes.judged(run(plot), calm.picture)
        assert outcome.good, (plot, outcome.violations)


def test_a_vm_that_is_never_collected_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vms, "why_kept_by_cache", lambda _cluster, _seen: "a bug")
    found = run(Plot(seed=1)).violations
    assert any(each.startswith("no_vm_is_forgotten:") for each in found), found
