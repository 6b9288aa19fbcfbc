"""Copies of our objects, as `kubectl get -o yaml | sed | kubectl apply` and restored backups make them.

A copy has another name and uid, and with the annotations the name by which clouds know the original.
"""

import asyncio

import pytest
from tests.api.infra.management import GROUP, NS, Borrowed, management_cluster

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.core import EVENT
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.api.kinds import dynamic
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

DEMO, M1, COPY = Key(NS, "demo"), Key(NS, "m1"), Key(NS, "copy")
KEPT = ("labels", "annotations", "ownerReferences", "finalizers")


class Lending(Borrowed):
    """A driver that gives API servers their addresses; ``lent`` are those that were not given back."""

    def __init__(self, cloud):
        super().__init__(cloud)
        self.lent = {}

    async def endpoint(self, request):
        return self.lent.setdefault(self._of(request), ("10.0.0.1", 6443 + len(self.lent)))

    async def release(self, request):
        self.lent.pop(self._of(request), None)

    @staticmethod
    def _of(request):
        meta = request.machine_class.metadata
        return meta.namespace, meta.name, meta.uid


async def copied(management, kind, name, *, without=()):
    """A copy of an object with this much of its metadata; the status is not copied."""
    found = await management.people.get(dynamic(kind.resource), Key(NS, name))
    meta = {
        each: found["metadata"][each] for each in KEPT if each not in without and each in found["metadata"]
    }
    body = {"metadata": {"name": COPY.name, **meta}, "spec": found["spec"]}
    await management.people.create(kind, body, namespace=NS)
    await asyncio.sleep(5)


async def is_gone(management, kind, key):
    try:
        await management.people.get(kind, key)
    except NotFound:
        return True
    return False


async def with_machine(management):
    await management.cluster()
    await management.data()
    await management.infrastructure_ready()
    await management.machine("m1")
    await management.until(lambda found: found is not None and found.status.ready)


@pytest.mark.parametrize("without", [(), ("ownerReferences",)], ids=["whole", "that nobody owns"])
@pytest.mark.parametrize("machines", [False, True], ids=["no machine", "a machine"])
async def test_the_deletion_of_a_copy_of_a_kubewright_cluster_leaves_the_endpoint_and_goes(without, machines):
    async with management_cluster() as management:
        driver = Lending(management.cloud)
        async with management.provider(driver):
            await (with_machine(management) if machines else management.cluster())
            await asyncio.sleep(5)
            lent = dict(driver.lent)
            assert len(lent) == 1
            await copied(management, KUBEWRIGHT_CLUSTER, "demo", without=without)
            await management.people.delete(KUBEWRIGHT_CLUSTER, COPY)
            await asyncio.sleep(30)
            assert driver.lent == lent
            assert "EndpointLeftBehind" in await management.events()
            assert await is_gone(management, KUBEWRIGHT_CLUSTER, COPY)
            assert management.vms() == ["m1"] * machines
            await copied(management, KUBEWRIGHT_CLUSTER, "demo", without=without)
            for kind, key in ((KUBEWRIGHT_MACHINE, M1), (CLUSTER, DEMO), (KUBEWRIGHT_CLUSTER, DEMO)):
                if machines or kind is not KUBEWRIGHT_MACHINE:
                    await management.people.delete(kind, key)
            await asyncio.sleep(60)
            assert driver.lent == {}
            assert await is_gone(management, KUBEWRIGHT_CLUSTER, DEMO)


async def test_a_copy_that_its_cluster_names_now_keeps_the_endpoint_when_the_original_goes():
    async with management_cluster() as management:
        driver = Lending(management.cloud)
        async with management.provider(driver):
            await management.cluster()
            await asyncio.sleep(5)
            await copied(management, KUBEWRIGHT_CLUSTER, "demo")
            ref = {"apiVersion": GROUP, "kind": "KubewrightCluster", "name": "copy", "namespace": NS}
            await management.people.patch(CLUSTER, DEMO, {"spec": {"infrastructureRef": ref}})
            await asyncio.sleep(5)
            await management.people.delete(KUBEWRIGHT_CLUSTER, DEMO)
            await asyncio.sleep(30)
            assert await is_gone(management, KUBEWRIGHT_CLUSTER, DEMO)
            assert len(driver.lent) == 1


@pytest.mark.parametrize(
    "without",
    [(), ("ownerReferences",), ("annotations",)],
    ids=["whole", "that nobody owns", "without its annotations"],
)
async def test_the_deletion_of_a_copy_of_a_kubewright_machine_leaves_the_vm_and_goes(without):
    async with management_cluster() as management, management.provider():
        await with_machine(management)
        await copied(management, KUBEWRIGHT_MACHINE, "m1", without=without)
        assert management.vms() == ["m1"]
        await management.people.delete(KUBEWRIGHT_MACHINE, COPY)
        await asyncio.sleep(30)
        assert management.vms() == ["m1"]
        assert await is_gone(management, KUBEWRIGHT_MACHINE, COPY)
        told = [
            each for each in await management.people.list(EVENT, NS) if each.involved_object.name == "copy"
        ]
        assert [(each.reason, each.message) for each in told] == [
            (
                "VMLeftBehind",
                f"VM {(await management.infra()).spec.provider_id} stays: it is KubewrightMachine m1's",
            )
        ]
        await management.delete("m1")
        await asyncio.sleep(30)
        assert management.vms() == []
