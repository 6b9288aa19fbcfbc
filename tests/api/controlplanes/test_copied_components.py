"""Copies of components, as `kubectl get -o yaml | sed | kubectl apply` and restored backups make them: nothing of
the original ends with its copy, and no copy runs anything. Time is virtual."""

import asyncio

import pytest
from tests.api.controlplanes.test_example_control_plane import KINDS, OBJECTS, OPTIONS, create, found, ready

from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.kinds import dynamic
from kubewright.testing.world import embedded_world
from kubewright.wire.gvk import Key

NS = "default"
COMPONENTS = [each["kind"] for each in OBJECTS if each["kind"] != "NestedControlPlane"]
KEPT = ("labels", "annotations", "ownerReferences", "finalizers")


async def copied(client, kind, name, *, without):
    original = await client.get(dynamic(kind.resource), Key(NS, name))
    meta = {
        each: original["metadata"][each]
        for each in KEPT
        if each in original["metadata"] and each not in without
    }
    await client.create(kind, {"metadata": {"name": "copy", **meta}, "spec": original["spec"]}, namespace=NS)
    await asyncio.sleep(10)


async def all_there(client):
    """The objects of the example, as they are."""
    return [
        await client.get(dynamic(KINDS[each["kind"]].resource), Key(NS, each["metadata"]["name"]))
        for each in OBJECTS
    ]


@pytest.mark.parametrize("kind", COMPONENTS)
@pytest.mark.parametrize("without", [(), ("ownerReferences",)], ids=["whole", "that nothing owns"])
async def test_nothing_of_the_original_ends_with_a_copy_of_it(kind, without) -> None:
    async with embedded_world(OPTIONS) as world:
        await create(world.client, OBJECTS)
        await asyncio.sleep(60)
        assert await ready(world.client)
        before = await all_there(world.client)
        name = next(each["metadata"]["name"] for each in OBJECTS if each["kind"] == kind)
        await copied(world.client, KINDS[kind], name, without=without)
        assert "names " + f"{kind} {name}" in str(
            await world.client.get(dynamic(KINDS[kind].resource), Key(NS, "copy"))
        )
        await world.client.delete(KINDS[kind], Key(NS, "copy"))
        await asyncio.sleep(30)
        assert await found(world.client, KINDS[kind], "copy") is None
        assert await all_there(world.client) == before


async def test_a_copy_goes_with_its_control_plane() -> None:
    async with embedded_world(OPTIONS) as world:
        await create(world.client, OBJECTS)
        await asyncio.sleep(60)
        assert await ready(world.client)
        await copied(world.client, KINDS["NestedEtcd"], "demo-etcd", without=())
        await world.client.delete(NESTED_CONTROL_PLANE, Key(NS, "demo"))
        await asyncio.sleep(60)
        left = [await world.client.list(dynamic(each.resource), NS) for each in KINDS.values()]
        assert left == [[], [], [], []]
