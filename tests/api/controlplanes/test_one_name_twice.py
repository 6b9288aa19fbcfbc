"""Two control planes whose instances and Secrets would have the same names, as a copied label of a Cluster makes
them: what one has is never run, changed or deleted for the other."""

import asyncio

import pytest
from tests.api.controlplanes import test_snapshots as snapshots
from tests.api.controlplanes.kit import stage
from tests.api.controlplanes.test_example_control_plane import OPTIONS, create, found

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE
from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import SECRET
from kubewright.testing.world import embedded_world
from kubewright.wire.gvk import Key

NS = "default"


def plane(name, label="same"):
    """A control plane with an etcd and an API server of its own, under the name in its label."""
    version = NESTED_ETCD.resource.api_version
    labels = {CLUSTER_NAME_LABEL: label} if label else {}
    named = {"etcd": {"name": f"{name}-etcd"}, "apiserver": {"name": f"{name}-api"}}
    kinds = {"NestedEtcd": f"{name}-etcd", "NestedAPIServer": f"{name}-api"}
    return [
        {"apiVersion": version, "kind": "NestedControlPlane"}
        | {"metadata": {"name": name, "labels": labels}, "spec": named},
        *(
            {"apiVersion": version, "kind": kind, "metadata": {"name": each}, "spec": {"replicas": 1}}
            for kind, each in kinds.items()
        ),
    ]


async def ready(client, name):
    return (await client.get(NESTED_CONTROL_PLANE, Key(NS, name))).status.ready


async def first_runs(world):
    await create(world.client, plane("first"))
    await asyncio.sleep(60)
    assert await ready(world.client, "first")
    return await what_runs(world.client)


async def what_runs(client):
    """The components of the first one and the Secrets, as they are."""
    etcd = await client.get(NESTED_ETCD, Key(NS, "first-etcd"))
    server = await client.get(NESTED_API_SERVER, Key(NS, "first-api"))
    return etcd, server, await client.list(SECRET, NS)


@pytest.mark.parametrize(
    "second", [plane("second"), plane("same", label="")], ids=["a label", "its own name"]
)
async def test_a_control_plane_whose_name_another_one_has_waits_and_says_so(second) -> None:
    async with embedded_world(OPTIONS) as world:
        before = await first_runs(world)
        await create(world.client, second)
        await asyncio.sleep(60)
        assert await what_runs(world.client) == before
        name = second[0]["metadata"]["name"]
        status = (await world.client.get(NESTED_ETCD, Key(NS, f"{name}-etcd"))).status
        assert (status.ready, status.phase, status.replicas) == (False, "Failed", 0)
        assert "NestedEtcd first-etcd of NestedControlPlane first" in status.errors[0]
        assert not await ready(world.client, name)


@pytest.mark.looptime(False)
async def test_the_data_of_one_control_plane_outlives_another_one_that_asks_for_its_name(tmp_path) -> None:
    async with stage(folder=tmp_path) as on:
        await snapshots.create(on)
        await snapshots.write(on, "kept")
        await create(on.client, plane("second", label="demo"))

        async def waits() -> bool:
            return (await on.status(NESTED_ETCD, "second-etcd")).phase == "Failed"

        async def gone() -> bool:
            return await found(on.client, NESTED_CONTROL_PLANE, "second") is None

        await on.until(waits, 20)
        await on.client.delete(NESTED_CONTROL_PLANE, Key(NS, "second"))
        await on.until(gone, 20)
        assert await snapshots.read(on) == "kept"


async def test_two_that_are_created_at_once_do_not_share_what_runs_and_the_second_follows_the_first() -> None:
    async with embedded_world(OPTIONS) as world:
        await create(world.client, [*plane("first"), *plane("second")])
        await asyncio.sleep(60)
        assert (await ready(world.client, "first"), await ready(world.client, "second")) == (True, False)
        await world.client.delete(NESTED_CONTROL_PLANE, Key(NS, "first"))
        await asyncio.sleep(120)
        assert await found(world.client, NESTED_ETCD, "first-etcd") is None
        assert await ready(world.client, "second")


async def test_no_restore_puts_data_into_a_control_plane_that_only_shares_its_name() -> None:
    async with embedded_world(OPTIONS) as world:
        await first_runs(world)
        await create(world.client, plane("second"))
        wanted = {"file": {"name": f"{NS}/first/s-1"}, "controlPlaneName": "second"}
        await world.client.create(
            CONTROL_PLANE_RESTORE, {"metadata": {"name": "r"}, "spec": wanted}, namespace=NS
        )
        await asyncio.sleep(60)
        restore = await world.client.get(CONTROL_PLANE_RESTORE, Key(NS, "r"))
        assert restore.status.replaced_at is None
        assert "NestedEtcd first-etcd of NestedControlPlane first" in restore.status.conditions[0].message
        assert await ready(world.client, "first")
