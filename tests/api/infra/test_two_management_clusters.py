"""Two management clusters in one account of a cloud, with clusters of the same names. Time is virtual."""

from tests.api.infra.management import ENDPOINT, NS, management_cluster

from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE
from kubewright.wire.gvk import Key


def ready(found):
    return found is not None and found.status.ready


async def prepared(management):
    await management.cluster(infra={"controlPlaneEndpoint": ENDPOINT})
    await management.infrastructure_ready()
    await management.data()


async def test_a_machine_that_was_moved_before_its_vm_was_on_record_finds_it():
    async with management_cluster() as source, management_cluster(cloud=source.cloud, seed=1) as target:
        await prepared(source)
        await prepared(target)
        async with source.provider():
            await source.machine("m1")
            left = await source.until(ready)
        async with target.provider():
            await target.machine("m1", annotations=left.metadata.annotations)
            found = await target.until(ready)

            assert found.metadata.uid != left.metadata.uid
            assert (found.spec.provider_id, target.vms()) == (left.spec.provider_id, ["m1"])


async def test_a_namesake_in_another_management_cluster_does_not_take_the_vm():
    async with management_cluster() as one, management_cluster(cloud=one.cloud, seed=1) as other:
        await prepared(one)
        await prepared(other)
        async with one.provider(), other.provider():
            await one.machine("m1")
            await one.until(ready)
            await other.machine("m1")
            await other.until(lambda found: found is not None and "another owner" in str(found.status))
            await other.people.delete(KUBEWRIGHT_MACHINE, Key(NS, "m1"))
            await other.until(lambda found: found is None)

            assert one.vms() == ["m1"]
