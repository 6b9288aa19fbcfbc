"""Clusters of which some objects cannot be read: they say so, and the cluster goes all the same. Time is virtual.

Admission refuses such objects, so the server is one on which nobody has installed it.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kubewright.api import catalog
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import CRD, EVENT
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.api.kinds import dynamic
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.compose.worlds import every_word
from kubewright.testing.world import SHORT_TIMEOUTS, embedded_world
from kubewright.wire.gvk import Key

EXAMPLES = Path(__file__).parents[3] / "examples"
OPTIONS = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS))
NS = "default"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
KINDS = {
    (each.kind.resource.api_version, each.kind.resource.kind): each.kind
    for api, definitions in catalog.DEFINITIONS.items()
    if api != "clusterctl"  # kinds that no world brings
    for each in definitions
}


async def applied(world, example):
    for body in yaml.safe_load_all((EXAMPLES / example).read_text()):
        await world.client.create(KINDS[body["apiVersion"], body["kind"]], body, namespace=NS)
    await asyncio.sleep(60)


async def loosen(world, *kinds):
    """Let the server take anything for specs and statuses of these kinds, as a foreign CRD may."""
    for kind in kinds:
        key, crds = Key("", f"{kind.resource.plural}.{kind.resource.group}"), dynamic(CRD.resource)
        versions = (await world.client.get(crds, key))["spec"]["versions"]
        for version in versions:
            root = version["schema"]["openAPIV3Schema"]
            root["properties"] = {**root["properties"], "spec": ANYTHING, "status": ANYTHING}
        await world.client.patch(crds, key, {"spec": {"versions": versions}})
    await asyncio.sleep(1)


async def first(world, kind):
    return min(each["metadata"]["name"] for each in await world.client.list(dynamic(kind.resource), NS))


async def left(world):
    found = {}
    for kind in KINDS.values():
        there = [each["metadata"]["name"] for each in await world.client.list(dynamic(kind.resource), NS)]
        if there and kind is not MACHINE_CLASS and "template" not in kind.resource.plural:
            found[kind.resource.plural] = there
    return found


SPOILT = {
    "its Cluster": (CLUSTER, {"clusterNetwork": {"apiServerPort": 1.5}}),
    "its infrastructure": (KUBEWRIGHT_CLUSTER, {"controlPlaneEndpoint": {"port": 1.5}}),
    "a deployment": (MACHINE_DEPLOYMENT, {"minReadySeconds": 4.5}),
    "a set": (MACHINE_SET, {"minReadySeconds": 4.5}),
    "a machine": (MACHINE, {"failureDomain": ["a"]}),
    "a machine that does not say its cluster": (MACHINE, {"clusterName": 7}),
    "a VM": (KUBEWRIGHT_MACHINE, {"providerID": 7}),
    "a bootstrap configuration": (KUBEADM_CONFIG, {"verbosity": 2.5}),
}


@pytest.mark.parametrize(("kind", "spec"), SPOILT.values(), ids=SPOILT)
async def test_a_cluster_with_a_part_that_cannot_be_read_can_be_deleted(kind, spec) -> None:
    async with embedded_world(OPTIONS, admission=()) as world:
        await applied(world, "cluster.yaml")
        vms = len(world.cloud.vms)
        await loosen(world, kind)
        name = await first(world, kind)
        await world.client.patch(dynamic(kind.resource), Key(NS, name), {"spec": spec})
        await asyncio.sleep(10)
        assert len(world.cloud.vms) == vms
        events = await world.client.list(EVENT, NS)
        told = [each.involved_object.name for each in events if each.reason == "Unreadable"]
        assert told == [name]
        found = await world.client.get(dynamic(kind.resource), Key(NS, name))
        conditions = {each["type"]: each for each in found["status"]["conditions"]}
        assert conditions["Readable"]["reason"] == "Unreadable"

        await world.client.delete(CLUSTER, Key(NS, "blue"))
        for _ in range(180):
            if not (there := await left(world)) and not world.cloud.vms:
                return
            await asyncio.sleep(1)
        pytest.fail(f"left: {there}, {len(world.cloud.vms)} VMs")


async def spoiled(world, kind, spec):
    """Give the first object of a kind a spec that cannot be read; its key."""
    await applied(world, "cluster.yaml")
    await loosen(world, kind)
    key = Key(NS, await first(world, kind))
    await world.client.patch(dynamic(kind.resource), key, {"spec": spec})
    await asyncio.sleep(10)
    return key


async def test_what_a_cluster_owns_waits_while_that_cannot_be_read_and_goes_on_when_it_is_mended() -> None:
    async with embedded_world(OPTIONS, admission=()) as world:
        cluster = await spoiled(world, CLUSTER, {"clusterNetwork": {"apiServerPort": 1.5}})
        machines = sorted(vm.name for vm in world.cloud.vms.values())
        deleted = Key(NS, next(name for name in machines if "workers" in name))
        await world.client.delete(MACHINE, deleted)
        await asyncio.sleep(60)
        assert sorted(vm.name for vm in world.cloud.vms.values()) == machines
        mended = {"spec": {"clusterNetwork": {"apiServerPort": None}}}
        await world.client.patch(dynamic(CLUSTER.resource), cluster, mended)
        await asyncio.sleep(60)
        there = sorted(vm.name for vm in world.cloud.vms.values())
        assert len(there) == len(machines)
        assert deleted.name not in there


async def test_a_machine_that_nothing_owns_goes_with_a_cluster_that_cannot_be_read() -> None:
    async with embedded_world(OPTIONS, admission=()) as world:
        cluster = await spoiled(world, CLUSTER, {"clusterNetwork": {"apiServerPort": 1.5}})
        unowned = {"metadata": {"name": "left", "labels": {"cluster.x-k8s.io/cluster-name": "blue"}}}
        await world.client.create(KUBEWRIGHT_MACHINE, unowned, namespace=NS)
        await world.client.delete(CLUSTER, cluster)
        await asyncio.sleep(120)
        assert (await left(world), world.cloud.vms) == ({}, {})


async def test_a_pause_that_cannot_be_read_is_one() -> None:
    async with embedded_world(OPTIONS, admission=()) as world:
        cluster, kind = await spoiled(world, CLUSTER, {"paused": "yes"}), dynamic(CLUSTER.resource)
        before = await left(world)
        await world.client.delete(CLUSTER, cluster)
        await world.client.delete(KUBEWRIGHT_MACHINE, Key(NS, before["kubewrightmachines"][0]))
        await asyncio.sleep(60)
        assert await left(world) == before
        found = await world.client.get(kind, cluster)
        said = {each["type"]: each["message"] for each in found["status"]["conditions"] if "message" in each}
        assert said["Readable"].startswith("cannot read Cluster: spec.paused: ")
        await world.client.patch(kind, cluster, {"spec": {"paused": False}})
        await asyncio.sleep(120)
        assert (await left(world), world.cloud.vms) == ({}, {})


async def test_a_machine_that_does_not_say_its_cluster_readably_is_paused_with_it() -> None:
    async with embedded_world(OPTIONS, admission=()) as world:
        machine = await spoiled(world, MACHINE, {"clusterName": 7})
        vms = len(world.cloud.vms)
        await world.client.patch(CLUSTER, Key(NS, "blue"), {"spec": {"paused": True}})
        await world.client.delete(MACHINE, machine)
        await asyncio.sleep(60)
        assert len(world.cloud.vms) == vms
        await world.client.patch(CLUSTER, Key(NS, "blue"), {"spec": {"paused": False}})
        await asyncio.sleep(60)
        assert machine.name not in {vm.name for vm in world.cloud.vms.values()}


async def test_a_vm_of_which_the_driver_could_be_told_only_a_part_waits_until_it_is_mended() -> None:
    async with embedded_world(OPTIONS, admission=()) as world:
        await applied(world, "cluster.yaml")
        vms = len(world.cloud.vms)
        await loosen(world, KUBEWRIGHT_MACHINE)
        key, kind = Key(NS, await first(world, KUBEWRIGHT_MACHINE)), dynamic(KUBEWRIGHT_MACHINE.resource)
        await world.client.patch(kind, key, {"spec": {"credentialsRef": "keys"}})
        await world.client.delete(kind, key)
        await asyncio.sleep(30)
        found = await world.client.get(kind, key)
        said = {each["type"]: each["message"] for each in found["status"]["conditions"] if "message" in each}
        assert said["VMReady"].startswith(
            f"its VM cannot be deleted: KubewrightMachine {key.name} is unreadable: cannot read "
            "KubewrightMachine: spec.credentialsRef: Expected `object | null`, got `str`"
        )
        assert len(world.cloud.vms) == vms
        await world.client.patch(kind, key, {"spec": {"credentialsRef": None}})
        await asyncio.sleep(5)
        assert len(world.cloud.vms) == vms - 1


async def test_a_control_plane_with_a_component_that_cannot_be_read_can_be_deleted() -> None:
    async with embedded_world(OPTIONS, admission=()) as world:
        await applied(world, "control-plane.yaml")
        await loosen(world, NESTED_ETCD)
        name = await first(world, NESTED_ETCD)
        await world.client.patch(dynamic(NESTED_ETCD.resource), Key(NS, name), {"spec": {"version": 3}})
        await asyncio.sleep(10)
        events = await world.client.list(EVENT, NS)
        assert [each.involved_object.name for each in events if each.reason == "Unreadable"] == [name]
        plane = await first(world, NESTED_CONTROL_PLANE)
        await world.client.delete(NESTED_CONTROL_PLANE, Key(NS, plane))
        for _ in range(60):
            there = await left(world)
            if not {"nestedcontrolplanes", "nestedetcds"} & there.keys():
                return
            await asyncio.sleep(1)
        pytest.fail(f"left: {there}")
