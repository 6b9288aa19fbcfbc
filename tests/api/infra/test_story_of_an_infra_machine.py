"""KubewrightCluster and KubewrightMachine from nothing to gone, by the contract of Cluster API. Time is virtual."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from tests.api.infra.management import GROUP, management_cluster

from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import SECRET
from kubewright.api.infra import manifests
from kubewright.api.infra.names import CLUSTER_FINALIZER
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.api.rbac import READ
from kubewright.testing import permissions
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

NS = "fleet"
ENDPOINT = {"host": "10.0.0.1", "port": 6443}


def ready(found):
    return found is not None and found.status.ready


def gone(found):
    return found is None


def waits_for(reason):
    return lambda found: found is not None and any(each.reason == reason for each in found.status.conditions)


def said(found):
    """The condition Ready, in short."""
    first = found.status.conditions[0]
    return f"{first.type} {first.status} {first.reason}".strip()


@asynccontextmanager
async def ready_cluster():
    """A cluster whose infrastructure is ready, with the data for its machines."""
    async with management_cluster() as management:
        await management.cluster(infra={"controlPlaneEndpoint": ENDPOINT})
        await management.infrastructure_ready()
        await management.data()
        yield management


async def test_a_machine_gets_its_vm_and_says_what_the_contract_asks_for():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1")
        found = await cluster.until(ready)

        assert cluster.vms() == ["m1"]
        assert found.spec.provider_id == "sim:///sim-1/vm-000001"
        assert [each.type for each in found.status.addresses] == ["InternalIP", "Hostname"]
        assert said(found) == "Ready True"
        assert found.metadata.finalizers == ("kubewrightmachine.infrastructure.cluster.x-k8s.io",)

        await cluster.delete("m1")
        await cluster.until(gone)
        assert cluster.vms() == []
        await asyncio.sleep(3)
        assert await cluster.events() == ["VMCreated", "VMDeleted"]


async def test_a_machine_costs_three_writes():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1")
        before = await cluster.infra()
        await cluster.until(ready)
        await asyncio.sleep(30)
        after = await cluster.infra()
        versions = await _writes(cluster, before, after)

        assert versions <= 3


async def _writes(management, before, after):
    """How many versions of the object lie between; no other object is written meanwhile but one event."""
    return int(after.metadata.resource_version) - int(before.metadata.resource_version) - 1


async def test_each_wait_is_reported_and_ends_by_itself():
    async with management_cluster() as management, management.provider():
        await management.cluster(infra={"controlPlaneEndpoint": ENDPOINT})
        await management.machine("m1", data="")
        await management.until(waits_for("WaitingForClusterInfrastructure"))
        await management.infrastructure_ready()
        await management.until(waits_for("WaitingForBootstrapData"))
        await management.change("m1", bootstrap={"dataSecretName": "late"})
        found = await management.until(
            lambda m: m is not None and "no Secret late" in m.status.conditions[0].message
        )
        assert management.vms() == []
        assert said(found) == "Ready False WaitingForBootstrapData"
        await management.data("late", wrong=b"x")
        await management.until(lambda m: m is not None and "no key value" in m.status.conditions[0].message)
        await management.people.patch(SECRET, Key(NS, "late"), {"stringData": {"value": "#cloud-config"}})
        await management.until(ready)


async def test_a_machine_that_no_machine_owns_waits():
    async with ready_cluster() as cluster, cluster.provider():
        meta = {"name": "m1", "namespace": NS, "labels": {"cluster.x-k8s.io/cluster-name": "demo"}}
        await cluster.people.create(KUBEWRIGHT_MACHINE, {"metadata": meta, "spec": {}})
        await cluster.until(waits_for("WaitingForOwner"))
        assert cluster.vms() == []


async def test_failures_of_a_cloud_are_conditions_and_end():
    async with ready_cluster() as cluster:
        faults = [{"operation": "create", "code": "ResourceExhausted", "message": "no room", "times": 1}]
        async with cluster.provider():
            await cluster.machine("m1", spec={"providerSpec": {"faults": faults}})
            found = await cluster.until(waits_for("VMCreationFailed"))
            assert "no room" in found.status.conditions[0].message
            assert found.status.failure_reason is None
            await cluster.until(ready, seconds=700)


async def test_a_wrong_spec_is_a_condition_and_can_be_mended():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1", spec={"driver": "nocloud"})
        found = await cluster.until(waits_for("InvalidConfiguration"))
        assert (
            found.status.conditions[0].message == "driver 'nocloud' does not run in this program, only: sim"
        )
        await cluster.people.patch(KUBEWRIGHT_MACHINE, Key(NS, "m1"), {"spec": {"driver": "sim"}})
        await cluster.until(ready)


async def test_credentials_that_come_late_are_noticed():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1", spec={"credentialsRef": {"name": "cloud"}})
        await cluster.until(waits_for("InvalidConfiguration"))
        await cluster.data("cloud", key=b"secret")
        await cluster.until(ready)


async def test_a_machine_is_placed_where_its_machine_says():
    async with management_cluster() as management:
        domains = {"b": {"controlPlane": True, "providerSpec": {"zone": "sim-1b"}}}
        await management.cluster(infra={"controlPlaneEndpoint": ENDPOINT, "failureDomains": domains})
        await management.infrastructure_ready()
        await management.data()
        async with management.provider():
            await management.machine("m1", failureDomain="b")
            await management.machine("m2", failureDomain="z")
            found = await management.until(ready)
            assert found.spec.failure_domain == "b"
            assert management.cloud.named("m1").spec.zone == "sim-1b"
            lost = await management.until(waits_for("InvalidConfiguration"), "m2")
            assert lost.status.conditions[0].message == "failure domain 'z' is none of the cluster's: b"


async def test_a_paused_cluster_is_not_written_not_even_to_delete():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1")
        await cluster.until(ready)
        await cluster.pause()
        await asyncio.sleep(1)
        await cluster.machine("m2")
        await cluster.delete("m1")
        before = [(await cluster.infra(name)).metadata.resource_version for name in ("m1", "m2")]
        await asyncio.sleep(60)
        after = [(await cluster.infra(name)).metadata.resource_version for name in ("m1", "m2")]
        assert (before, cluster.vms()) == (after, ["m1"])
        await cluster.pause(False)
        await cluster.until(gone)
        await cluster.until(ready, "m2")


async def test_a_process_that_dies_during_a_creation_loses_no_vm():
    async with ready_cluster() as cluster:
        async with cluster.provider():
            await cluster.machine("m1", spec={"providerSpec": {"createSeconds": 20}})
            await asyncio.sleep(5)
        assert cluster.vms() == ["m1"]
        assert (await cluster.infra()).spec.provider_id is None
        async with cluster.provider():
            await cluster.until(ready)
            assert cluster.vms() == ["m1"]


async def test_a_vm_that_comes_after_its_object_was_deleted_is_deleted_too():
    async with ready_cluster() as cluster:
        faults = [{"operation": "create", "code": "DeadlineExceeded", "afterSuccess": True, "hangSeconds": 3}]
        async with cluster.provider():
            await cluster.machine("m1", spec={"providerSpec": {"faults": faults}})
            await asyncio.sleep(5)
            await cluster.delete("m1")
            await cluster.until(gone)
            assert cluster.vms() == []


async def test_a_vm_goes_after_machine_and_cluster_are_gone():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1")
        await cluster.until(ready)
        await cluster.people.delete(MACHINE, Key(NS, "m1"))
        await cluster.people.delete(CLUSTER, Key(NS, "demo"))
        await cluster.delete("m1")
        await cluster.until(gone)
        assert cluster.vms() == []


async def test_after_a_move_the_status_is_made_again_and_no_vm_is():
    async with ready_cluster() as cluster:
        async with cluster.provider():
            await cluster.machine("m1")
            known = (await cluster.until(ready)).spec.provider_id
            status = {
                "ready": None,
                "addresses": None,
                "conditions": None,
                "nodeName": None,
                "observedGeneration": None,
            }
            await cluster.people.patch(
                KUBEWRIGHT_MACHINE, Key(NS, "m1"), {"status": status}, subresource="status"
            )
        async with cluster.provider():
            found = await cluster.until(ready)
            assert (found.spec.provider_id, found.status.node_name, cluster.vms()) == (known, "m1", ["m1"])


async def test_the_endpoint_of_a_user_makes_the_cluster_ready():
    async with management_cluster() as management, management.provider():
        await management.cluster(infra={"failureDomains": {"a": {"controlPlane": True}}})
        await asyncio.sleep(5)
        found = await management.infra_cluster()
        assert (found.status.ready, said(found)) == (False, "Ready False WaitingForEndpoint")
        body = {"spec": {"controlPlaneEndpoint": ENDPOINT}}
        await management.people.patch(KUBEWRIGHT_CLUSTER, Key(NS, "demo"), body)
        await asyncio.sleep(1)
        found = await management.infra_cluster()
        assert (found.status.ready, said(found)) == (True, "Ready True")
        assert list(found.status.failure_domains) == ["a"]


async def test_a_kubewright_cluster_stays_until_its_machines_are_gone():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1")
        await cluster.until(ready)
        await cluster.people.delete(KUBEWRIGHT_CLUSTER, Key(NS, "demo"))
        await asyncio.sleep(30)
        assert said(await cluster.infra_cluster()) == "Ready False WaitingForMachines"
        await cluster.delete("m1")
        await cluster.until(gone)
        await asyncio.sleep(1)
        assert await cluster.people.list(KUBEWRIGHT_CLUSTER, NS) == []


UNOWNED = {"metadata": {"name": "left", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}}}


async def test_a_machine_that_nothing_owns_goes_with_its_cluster_and_not_with_the_infrastructure_alone():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.people.create(KUBEWRIGHT_MACHINE, UNOWNED, namespace=NS)
        await asyncio.sleep(5)
        await cluster.people.delete(KUBEWRIGHT_CLUSTER, Key(NS, "demo"))
        await asyncio.sleep(30)
        (found,) = (await cluster.infra_cluster()).status.conditions[1:]
        assert found.message.startswith("KubewrightMachine left of its cluster is still there; ")
        assert len(await cluster.people.list(KUBEWRIGHT_MACHINE, NS)) == 1
        await cluster.people.delete(CLUSTER, Key(NS, "demo"))
        await asyncio.sleep(5)
        assert await cluster.people.list(KUBEWRIGHT_MACHINE, NS) == []
        assert await cluster.people.list(KUBEWRIGHT_CLUSTER, NS) == []


NAMED = {"metadata": {**UNOWNED["metadata"], "name": "named"}}
COPY = {"metadata": {**UNOWNED["metadata"], "name": "copy", "finalizers": [CLUSTER_FINALIZER]}}


async def test_a_copy_of_a_kubewright_cluster_deletes_no_machine_of_the_cluster_that_its_label_names():
    async with ready_cluster() as cluster, cluster.provider():
        for each in (UNOWNED, NAMED):
            await cluster.people.create(KUBEWRIGHT_MACHINE, each, namespace=NS)
        ref = {"apiVersion": GROUP, "kind": "KubewrightMachine", "name": "named"}
        core = {
            "metadata": {"name": "named"},
            "spec": {
                "clusterName": "demo",
                "infrastructureRef": ref,
                "bootstrap": {"dataSecretName": "data"},
            },
        }
        await cluster.people.create(MACHINE, core, namespace=NS)
        await cluster.people.create(KUBEWRIGHT_CLUSTER, COPY, namespace=NS)
        await cluster.people.delete(KUBEWRIGHT_CLUSTER, Key(NS, "copy"))
        await asyncio.sleep(30)
        assert len(await cluster.people.list(KUBEWRIGHT_MACHINE, NS)) == 2
        await cluster.people.delete(CLUSTER, Key(NS, "demo"))
        await asyncio.sleep(5)
        (left,) = await cluster.people.list(KUBEWRIGHT_MACHINE, NS)
        assert left.metadata.name == "named", "its Machine deletes it"
        await cluster.people.delete(MACHINE, Key(NS, "named"))
        await asyncio.sleep(5)
        assert await cluster.people.list(KUBEWRIGHT_MACHINE, NS) == []


async def test_the_role_that_we_ship_allows_what_a_cluster_asks_for_and_no_write_of_a_cluster():
    async with management_cluster() as management, management.provider():
        await management.cluster(
            infra={"credentialsRef": {"name": "cloud"}, "controlPlaneEndpoint": ENDPOINT}
        )
        await management.infrastructure_ready()
        await management.data()
        await management.data("cloud", key=b"x")
        template = {"metadata": {"name": "t"}, "spec": {"template": {"spec": {"providerSpec": {}}}}}
        await management.people.create(KUBEWRIGHT_MACHINE_TEMPLATE, template, namespace=NS)
        await management.machine("m1")
        await management.until(ready)
        await asyncio.sleep(5)
        await management.delete("m1")
        await management.until(gone)
        await management.people.create(KUBEWRIGHT_MACHINE, UNOWNED, namespace=NS)
        await management.people.delete(CLUSTER, Key(NS, "demo"))
        await management.people.delete(KUBEWRIGHT_CLUSTER, Key(NS, "demo"))
        await asyncio.sleep(30)
        needs = management.line.needs

    grants = permissions.granted(manifests.manifest())
    assert permissions.missing(needs, grants) == []
    unused = {each for each in permissions.unused(needs, grants) if each.verb in ("patch", "delete")}
    assert {each.resource for each in unused} <= {"events"}, "an event is patched when it comes again"
    written = {each.resource for each in needs if each.group == "cluster.x-k8s.io" and each.verb not in READ}
    assert written == set()


async def test_no_secret_is_seen_in_objects_or_events():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.data("cloud", key=b"hush-hush")
        await cluster.machine("m1", spec={"credentialsRef": {"name": "cloud"}})
        found = await cluster.until(ready)
        assert "hush-hush" not in repr(found)
        assert "cloud-config" not in repr(found)


async def test_a_machine_that_is_deleted_while_its_cloud_hangs_says_so_and_goes():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("hang-1")
        await cluster.until(waits_for("CreatingVM"), "hang-1")
        await cluster.delete("hang-1")
        found = await cluster.until(waits_for("Deleting"), "hang-1")
        assert found.status.conditions[0].message == "a cloud call is still in flight"
        await cluster.until(gone, "hang-1", seconds=900)
        assert cluster.vms() == []


async def end_by_hand(management, kind, name):
    """A user deletes an object, and takes off what would keep it."""
    await management.people.delete(kind, Key(NS, name))
    await asyncio.sleep(1)
    with suppress(NotFound):
        await management.people.patch(kind, Key(NS, name), {"metadata": {"finalizers": None}})


async def test_without_its_kubewright_cluster_no_driver_is_called_for_a_machine():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1")
        await cluster.until(ready)
        await end_by_hand(cluster, KUBEWRIGHT_CLUSTER, "demo")
        await cluster.machine("m2")
        found = await cluster.until(waits_for("InvalidConfiguration"), "m2")
        lacks = "there is no KubewrightCluster demo, which would name driver and credentials"
        assert (found.status.conditions[0].message, cluster.vms()) == (lacks, ["m1"])

        await cluster.delete("m1")
        found = await cluster.until(waits_for("VMDeletionFailed"))
        assert (found.status.conditions[0].message, cluster.vms()) == (
            f"its VM cannot be deleted: {lacks}",
            ["m1"],
        )

        labels = {"cluster.x-k8s.io/cluster-name": "demo"}
        again = {"metadata": {"name": "demo", "namespace": NS, "labels": labels}, "spec": {}}
        await cluster.people.create(KUBEWRIGHT_CLUSTER, again)
        await cluster.until(gone)
        await cluster.until(ready, "m2")
        assert cluster.vms() == ["m2"]


async def test_a_machine_that_names_driver_and_credentials_needs_no_kubewright_cluster():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.data("cloud", key=b"secret")
        await end_by_hand(cluster, KUBEWRIGHT_CLUSTER, "demo")
        await cluster.machine("m1", spec={"driver": "sim", "credentialsRef": {"name": "cloud"}})
        await cluster.until(ready)


async def test_a_vm_whose_cluster_left_no_trace_is_not_given_up():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1")
        await cluster.until(ready)
        await end_by_hand(cluster, KUBEWRIGHT_CLUSTER, "demo")
        for kind, name in ((MACHINE, "m1"), (CLUSTER, "demo")):
            await end_by_hand(cluster, kind, name)
        await cluster.delete("m1")
        found = await cluster.until(waits_for("VMDeletionFailed"))
        assert "there is neither Cluster demo nor its KubewrightCluster" in found.status.conditions[0].message
        assert cluster.vms() == ["m1"]


@pytest.mark.parametrize("whose", ["cluster", "machine"])
async def test_credentials_stay_until_the_vm_is_gone(whose):
    async with management_cluster() as management, management.provider():
        named = {"credentialsRef": {"name": "cloud"}}
        await management.data("cloud", key=b"secret")
        await management.data()
        infra = {"controlPlaneEndpoint": ENDPOINT, **(named if whose == "cluster" else {})}
        await management.cluster(infra=infra)
        await management.infrastructure_ready()
        await management.machine("m1", spec=named if whose == "machine" else {})
        await management.until(ready)

        await management.people.delete(SECRET, Key(NS, "cloud"))
        await management.people.delete(KUBEWRIGHT_CLUSTER, Key(NS, "demo"))
        await asyncio.sleep(30)
        assert await management.people.get(SECRET, Key(NS, "cloud"))
        await management.delete("m1")
        await management.until(gone)
        await asyncio.sleep(5)
        assert management.vms() == []
        assert [each.name for each in await management.people.list(SECRET, NS)] == ["data"]


async def test_credentials_that_nothing_names_any_more_are_let_go():
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.data("cloud", key=b"secret")
        await cluster.machine("m1", spec={"credentialsRef": {"name": "cloud"}})
        await cluster.until(ready)
        held = await cluster.people.get(SECRET, Key(NS, "cloud"))
        assert held.metadata.finalizers == ("infrastructure.cluster.x-k8s.io/kubewright-credentials",)
        await cluster.delete("m1")
        await cluster.until(gone)
        await asyncio.sleep(5)
        assert (await cluster.people.get(SECRET, Key(NS, "cloud"))).metadata.finalizers == ()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"providerSpec": {"regoin": "sim-1"}}, id="a typo in providerSpec"),
        pytest.param({"driver": "clowd"}, id="a driver that does not run here"),
        pytest.param({"credentialsRef": {"name": "keys"}}, id="credentials that are missing"),
    ],
)
async def test_a_machine_that_the_driver_refuses_can_be_deleted(spec):
    async with ready_cluster() as cluster, cluster.provider():
        await cluster.machine("m1", spec=spec)
        await asyncio.sleep(5)
        assert (await cluster.infra()).status.conditions[0].status == "False"
        await cluster.delete("m1")
        await cluster.until(gone, seconds=10)
        assert "VMLeftBehind" not in await cluster.events()


async def test_after_a_restart_a_user_decides_about_a_vm_of_which_nothing_is_known():
    async with ready_cluster() as cluster:
        async with cluster.provider():
            await cluster.machine("m1", spec={"providerSpec": {"regoin": "sim-1"}})
            await cluster.until(waits_for("VMCreationFailed"))
        await cluster.delete("m1")
        async with cluster.provider():
            found = await cluster.until(waits_for("VMDeletionFailed"))
            assert "label it force-deletion=True" in found.status.conditions[0].message
            label = {"metadata": {"labels": {"force-deletion": "True"}}}
            await cluster.people.patch(KUBEWRIGHT_MACHINE, Key(NS, "m1"), label)
            await cluster.until(gone, seconds=10)
            await asyncio.sleep(2)
            assert "VMLeftBehind" in await cluster.events()


async def test_a_machine_whose_name_is_too_long_for_its_nodes_label_gets_no_vm():
    async with ready_cluster() as cluster, cluster.provider():
        name = "m" * 64
        await cluster.machine(name)
        found = await cluster.until(waits_for("InvalidConfiguration"), name)
        told = "metadata.name must be no more than 63 characters, as its node's label has it"
        assert (found.status.conditions[0].message, cluster.vms()) == (told, [])
        await cluster.delete(name)
        await cluster.until(gone, name, seconds=10)
