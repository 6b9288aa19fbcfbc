"""The example of a cluster comes up as it stands in the repository, in one process, and goes without a trace."""

import asyncio
from dataclasses import replace
from pathlib import Path

import yaml

from kubewright.api import catalog
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.api.core import SECRET
from kubewright.cli.cluster import command
from kubewright.cli.cluster.tree import tree
from kubewright.compose.worlds import every_word
from kubewright.testing.world import SHORT_TIMEOUTS, embedded_world
from kubewright.wire.gvk import Key

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster.yaml"
OPTIONS = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS))
BLUE = Key("default", "blue")
KINDS = {
    (each.kind.resource.api_version, each.kind.resource.kind): each.kind
    for api, definitions in catalog.DEFINITIONS.items()
    if api != "clusterctl"  # kinds that no world brings
    for each in definitions
}


PLANE_KINDS = {
    each.resource.kind: each
    for each in (NESTED_CONTROL_PLANE, NESTED_ETCD, NESTED_API_SERVER, NESTED_CONTROLLER_MANAGER)
}


async def shown(client):
    """What the tree says of each part: its phase, and what it waits for."""
    found = tree(await command.read(client, BLUE))
    parts = [found]
    for each in parts:
        parts += each.children
    return {
        each.kind or each.name: (each.phase, each.ready, len(each.names), each.waits_for) for each in parts
    }


async def versions(client):
    """Of everything that the example consists of."""
    return {
        (kind.resource.plural, each.name): each.metadata.resource_version
        for kind in KINDS.values()
        for each in await client.list(kind, BLUE.namespace)
    }


async def test_it_and_the_example_of_a_control_plane_can_be_applied_together():
    async with embedded_world(OPTIONS) as world:
        client = world.client
        for example in (EXAMPLE, EXAMPLE.with_name("control-plane.yaml")):
            for body in yaml.safe_load_all(example.read_text()):
                kind = KINDS.get((body["apiVersion"], body["kind"])) or PLANE_KINDS[body["kind"]]
                await client.create(kind, body, namespace=BLUE.namespace)
        await asyncio.sleep(60)
        assert (await shown(client))["Cluster"] == ("Provisioned", "True", 1, ())
        (plane,) = await client.list(NESTED_CONTROL_PLANE, BLUE.namespace)
        assert plane.status.ready


async def test_the_example_of_a_cluster_comes_up_rests_and_goes():
    async with embedded_world(OPTIONS) as world:
        client = world.client
        for body in yaml.safe_load_all(EXAMPLE.read_text()):
            await client.create(KINDS[body["apiVersion"], body["kind"]], body, namespace=BLUE.namespace)
        await asyncio.sleep(60)
        said = await shown(client)
        assert said["Cluster"] == ("Provisioned", "True", 1, ())
        assert said["MachineDeployment"] == ("Running", "True", 1, ())
        machines = await client.list(MACHINE, BLUE.namespace)
        assert [each.status.phase for each in machines] == ["Running"] * 4
        assert b"certificate-authority-data" in await command.kubeconfig(client, BLUE)
        before = await versions(client)
        await asyncio.sleep(600)
        assert await versions(client) == before

        await client.delete(CLUSTER, BLUE)
        await asyncio.sleep(60)
        for kind in (CLUSTER, MACHINE, MACHINE_DEPLOYMENT):
            assert await client.list(kind, BLUE.namespace) == []
        mine = [
            each.name for each in await client.list(SECRET, BLUE.namespace) if each.name.startswith("blue")
        ]
        assert mine == []
        assert not [vm for vm in world.cloud.vms.values() if vm.name.startswith("blue")]
