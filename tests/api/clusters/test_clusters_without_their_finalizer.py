"""What is left of a cluster that is gone without our finalizer: nothing, or what says that nobody owns it.

The finalizer is written in the first pass, before anything is claimed. Time is virtual.
"""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kubewright.api import catalog
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.kinds import dynamic
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.compose.embedded import Embedded
from kubewright.compose.worlds import every_word
from kubewright.testing.clocks import LoopClock
from kubewright.testing.world import SHORT_TIMEOUTS, embedded_world, running
from kubewright.wire.gvk import Key

EXAMPLES = Path(__file__).parents[3] / "examples"
OPTIONS = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS))
NS = "default"
TEMPLATES = {"KubeadmConfigTemplate", "KubewrightMachineTemplate"}
"""They make nothing by themselves, and say nothing."""
KINDS = {
    (each.kind.resource.api_version, each.kind.resource.kind): each.kind
    for api, definitions in catalog.DEFINITIONS.items()
    if api != catalog.CLUSTERCTL
    for each in definitions
}


async def create(client, example, *kinds):
    """The objects of an example; of these kinds only, where some are named."""
    for body in yaml.safe_load_all((EXAMPLES / example).read_text()):
        if not kinds or body["kind"] in kinds:
            await client.create(KINDS[body["apiVersion"], body["kind"]], body, namespace=NS)


async def there(client):
    """All objects of these APIs but the classes that come with the simulated cloud, by kind and name."""
    return {
        (kind.resource.kind, each["metadata"]["name"]): each
        for kind in KINDS.values()
        if kind is not MACHINE_CLASS
        for each in await client.list(dynamic(kind.resource), NS)
    }


def told(found):
    """What the conditions of an object say that is not as it should be."""
    conditions = found.get("status", {}).get("conditions", [])
    return " ".join(each.get("message", "") for each in conditions if each["status"] != "True")


@asynccontextmanager
async def never_seen(example, kind, name):
    """The objects of an example in a server whose manager starts after one of them was deleted."""
    embedded = Embedded(None, OPTIONS, LoopClock())
    async with embedded:
        await create(embedded.client, example)
        await embedded.client.delete(kind, Key(NS, name))
        async with running(embedded.serve):
            await asyncio.sleep(60)
            yield embedded


async def test_what_a_cluster_leaves_that_no_manager_saw_has_no_vm_and_says_what_to_do() -> None:
    async with never_seen("cluster.yaml", CLUSTER, "blue") as embedded:
        found = await there(embedded.client)
        silent = {key for key, each in found.items() if key[0] not in TEMPLATES and not told(each)}
        assert (silent, embedded.driver.cloud.vms) == (set(), {})
        assert told(found["KubewrightCluster", "blue"]).startswith(
            "no Cluster owns it yet; name it in spec.infrastructureRef of a Cluster, or delete it"
        )
        assert not [
            key
            for key, each in found.items()
            if key[0] == "KubewrightCluster" and "finalizers" in each["metadata"]
        ]
        # the same cluster once more takes all of it over, and takes it away with it
        await create(embedded.client, "cluster.yaml", "Cluster")
        await asyncio.sleep(60)
        assert len(embedded.driver.cloud.vms) == 4
        await embedded.client.delete(CLUSTER, Key(NS, "blue"))
        await asyncio.sleep(120)
        assert (await there(embedded.client), embedded.driver.cloud.vms) == ({}, {})


async def test_what_a_control_plane_leaves_that_no_manager_saw_runs_nothing_and_says_so() -> None:
    async with never_seen("control-plane.yaml", NESTED_CONTROL_PLANE, "demo") as embedded:
        found = await there(embedded.client)
        assert {kind for kind, _ in found} == {"NestedEtcd", "NestedAPIServer", "NestedControllerManager"}
        for each in found.values():
            assert "no NestedControlPlane that is there controls it" in told(each)
            assert "finalizers" not in each["metadata"]


@pytest.mark.parametrize(
    ("example", "kind", "name"),
    [("cluster.yaml", CLUSTER, "blue"), ("control-plane.yaml", NESTED_CONTROL_PLANE, "demo")],
    ids=["a cluster", "a control plane"],
)
async def test_what_was_claimed_goes_without_the_finalizer_of_its_owner(example, kind, name) -> None:
    async with embedded_world(OPTIONS) as world:
        await create(world.client, example)
        await asyncio.sleep(60)
        await world.client.patch(kind, Key(NS, name), {"metadata": {"finalizers": None}})
        await world.client.delete(kind, Key(NS, name))
        await asyncio.sleep(120)
        assert (await there(world.client), world.cloud.vms) == ({}, {})
