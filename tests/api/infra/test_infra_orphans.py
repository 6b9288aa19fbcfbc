"""A VM of a cluster whose KubewrightMachine is gone: deleted late and surely, and not when it may be wanted."""

import asyncio
from itertools import pairwise

from tests.api.infra.management import ENDPOINT, NS, Borrowed, management_cluster

from kubewright.api.cluster.names import DELETE_FOR_MOVE_ANNOTATION
from kubewright.api.cluster.v1beta1 import MACHINE
from kubewright.api.core import CRD
from kubewright.api.infra.manifests import crds
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.driver.errors import Code, DriverError
from kubewright.wire.gvk import Key

SOON, CONFIRMED = 60, 300


def ready(found):
    return found is not None and found.status.ready


async def with_machines(management, *names):
    await management.cluster(infra={"controlPlaneEndpoint": ENDPOINT})
    await management.infrastructure_ready()
    await management.data()
    for name in names:
        await management.machine(name)
        await management.until(ready, name)


async def abandon(management, name="m1", **annotations):
    """The objects of a machine go, and its VM does not: a user takes the finalizer off, or clusterctl does."""
    key = Key(NS, name)
    await management.people.delete(MACHINE, key)
    marked = {"metadata": {"annotations": annotations, "finalizers": None}}
    await management.people.patch(KUBEWRIGHT_MACHINE, key, marked)
    await management.people.delete(KUBEWRIGHT_MACHINE, key)


async def test_a_vm_that_no_machine_wants_goes_after_confirmation():
    async with management_cluster() as cluster:
        async with cluster.provider():
            await with_machines(cluster, "m1", "m2")
        await abandon(cluster)
        async with cluster.provider():
            await asyncio.sleep(SOON + CONFIRMED - 10)
            early = cluster.vms()
            await asyncio.sleep(2 * SOON)
            assert (early, cluster.vms()) == (["m1", "m2"], ["m2"])
            assert "OrphanDeleted" in await cluster.events()


async def test_what_is_paused_is_left_alone_and_the_time_begins_anew_after_the_pause():
    async with management_cluster() as cluster:
        async with cluster.provider():
            await with_machines(cluster, "m1")
        await abandon(cluster)
        async with cluster.provider():
            await asyncio.sleep(SOON + 10)
            await cluster.pause()
            await asyncio.sleep(3600)
            paused = cluster.vms()
            await cluster.pause(paused=False)
            await asyncio.sleep(CONFIRMED)
            early = cluster.vms()
            await asyncio.sleep(3 * SOON)
            assert (paused, early, cluster.vms()) == (["m1"], ["m1"], [])


async def test_a_vm_that_was_moved_is_no_orphan_where_its_cluster_is_resumed_too_early():
    async with management_cluster() as source, source.provider():
        await with_machines(source, "m1", "m2")
        await source.pause()
        await abandon(source, "m1", **{DELETE_FOR_MOVE_ANNOTATION: ""})
        await abandon(source, "m2")
        await source.pause(paused=False)
        await asyncio.sleep(3600)

        assert source.vms() == ["m1"]


async def test_what_was_made_before_a_move_is_not_collected_after_it():
    async with management_cluster() as source:
        async with source.provider():
            await with_machines(source, "m1")
        async with management_cluster(cloud=source.cloud, seed=1) as target, target.provider():
            await with_machines(target)
            await asyncio.sleep(4 * 3600)

            assert target.vms() == ["m1"]


async def test_a_new_kubewright_cluster_of_the_name_takes_no_vm_of_the_one_before():
    async with management_cluster() as cluster:
        async with cluster.provider():
            await with_machines(cluster, "m1")
        await abandon(cluster)
        key = Key(NS, "demo")
        found = await cluster.infra_cluster()
        await cluster.people.patch(KUBEWRIGHT_CLUSTER, key, {"metadata": {"finalizers": None}})
        await cluster.people.delete(KUBEWRIGHT_CLUSTER, key)
        owners = [
            {
                "apiVersion": each.api_version,
                "kind": each.kind,
                "name": each.name,
                "uid": each.uid,
                "controller": True,
            }
            for each in found.metadata.owner_references
        ]
        meta = {
            "name": "demo",
            "namespace": NS,
            "labels": dict(found.metadata.labels),
            "ownerReferences": owners,
        }
        await cluster.people.create(
            KUBEWRIGHT_CLUSTER, {"metadata": meta, "spec": {"controlPlaneEndpoint": ENDPOINT}}
        )
        async with cluster.provider():
            await asyncio.sleep(4 * 3600)
            assert cluster.vms() == ["m1"]


class Refusing(Borrowed):
    """A driver that may delete no VM of ``m1``; it notes when it is asked to."""

    asked = ()

    async def delete(self, request):
        if request.name == "m1":
            self.asked = (*self.asked, asyncio.get_running_loop().time())
            raise DriverError.of(Code.PermissionDenied, "deletion protection is on")
        return await super().delete(request)


async def test_a_vm_that_cannot_go_is_tried_again_after_the_pause_of_its_error_and_holds_up_no_other():
    async with management_cluster() as cluster:
        async with cluster.provider():
            await with_machines(cluster, "m1", "m2")
        await abandon(cluster)
        await abandon(cluster, "m2")
        async with cluster.provider(driver := Refusing(cluster.cloud)):
            await asyncio.sleep(SOON + CONFIRMED + 10 + 1300)
            gaps = [round(later - earlier) for earlier, later in pairwise(driver.asked)]
            assert (cluster.vms(), gaps) == (["m1"], [600, 600])


async def test_while_the_server_does_not_serve_the_kind_no_vm_goes():
    async with management_cluster() as cluster:
        async with cluster.provider():
            await with_machines(cluster, "m1")
        await abandon(cluster)
        [crd] = [each for each in crds() if each["spec"]["names"]["plural"] == "kubewrightmachines"]
        async with cluster.provider():
            await asyncio.sleep(1)
            await cluster.people.delete(CRD, Key("", crd["metadata"]["name"]))
            await asyncio.sleep(SOON + 3 * CONFIRMED)
            assert cluster.vms() == ["m1"]
