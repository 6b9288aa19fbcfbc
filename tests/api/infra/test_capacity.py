"""What a KubewrightMachineTemplate tells cluster-autoscaler about nodes that do not exist yet."""

import asyncio
from datetime import UTC, datetime

import pytest
from tests.api.infra.management import GROUP, NS, management_cluster

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE_TEMPLATE,
    KubewrightMachineTemplateStatus,
    NodeInfo,
)
from kubewright.driver.contract import Size
from kubewright.infra.template import template_status
from kubewright.wire.gvk import Key


async def made(management, **spec):
    """The template's status after a while."""
    body = {"metadata": {"name": "t", "namespace": NS}, "spec": {"template": {"spec": spec}}}
    await management.people.create(KUBEWRIGHT_MACHINE_TEMPLATE, body)
    await asyncio.sleep(5)
    return (await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, Key(NS, "t"))).status


async def test_the_driver_tells_capacity_and_architecture() -> None:
    async with management_cluster() as management, management.provider():
        spec = {"capacity": {"cpu": "8", "memory": "32Gi"}, "architecture": "arm64"}
        found = await made(management, providerSpec=spec)

    assert found == KubewrightMachineTemplateStatus(
        capacity={"cpu": "8", "memory": "32Gi"},
        node_info=NodeInfo(architecture="arm64", operating_system="linux"),
    )


async def test_credentials_are_waited_for() -> None:
    async with management_cluster() as management, management.provider():
        assert (await made(management, credentialsRef={"name": "cloud"})).capacity == {}
        await management.data("cloud", key=b"x")
        await asyncio.sleep(5)
        found = await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, Key(NS, "t"))

    assert found.status.capacity["cpu"] == "2"
    assert SECRET.resource.plural not in repr(found)


async def test_a_template_whose_secret_is_not_there_says_so_if_that_lasts() -> None:
    async with management_cluster() as management, management.provider():
        name = Key(NS, "t")

        async def said():
            found = await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, name)
            return [(each.type, each.status, each.reason, each.message) for each in found.status.conditions]

        missing = (
            "Accepted",
            "Unknown",
            "WaitingForCredentials",
            "there is no Secret cloud with credentials",
        )
        await made(management, credentialsRef={"name": "cloud"})
        assert await said() == [missing]
        await management.data("cloud", key=b"x")
        await asyncio.sleep(1)
        assert [each[:2] for each in await said()] == [("Accepted", "True")]
        await management.people.delete(SECRET, Key(NS, "cloud"))
        await asyncio.sleep(1)
        assert await said() == [missing]
        assert await management.events() == []


async def test_a_template_that_takes_the_credentials_of_its_cluster_hears_of_them_too() -> None:
    async with management_cluster() as management, management.provider():
        await management.cluster(infra={"credentialsRef": {"name": "cloud"}})
        uid = (await management.people.get(CLUSTER, Key(NS, "demo"))).metadata.uid
        owner = {"apiVersion": CLUSTER.resource.api_version, "kind": "Cluster", "name": "demo", "uid": uid}
        meta = {"name": "t", "namespace": NS, "ownerReferences": [owner]}
        body = {"metadata": meta, "spec": {"template": {"spec": {}}}}
        await management.people.create(KUBEWRIGHT_MACHINE_TEMPLATE, body)
        await asyncio.sleep(5)
        await management.data("cloud", key=b"x")
        await asyncio.sleep(5)
        found = await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, Key(NS, "t"))
        assert found.status.capacity["cpu"] == "2"
        assert [(each.type, each.status) for each in found.status.conditions] == [("Accepted", "True")]


@pytest.mark.parametrize("labelled", [True, False], ids=["with its label", "without a label"])
async def test_a_template_hears_of_the_kubewright_cluster_that_comes_after_it_and_is_claimed_later(labelled):
    async with management_cluster() as management, management.provider():
        ref = {"apiVersion": GROUP, "kind": "KubewrightCluster", "name": "demo", "namespace": NS}
        body = {"metadata": {"name": "demo", "namespace": NS}, "spec": {"infrastructureRef": ref}}
        uid = (await management.people.create(CLUSTER, body)).metadata.uid
        owner = {"apiVersion": CLUSTER.resource.api_version, "kind": "Cluster", "name": "demo", "uid": uid}
        meta = {"name": "t", "namespace": NS, "ownerReferences": [owner]}
        body = {"metadata": meta, "spec": {"template": {"spec": {}}}}
        await management.people.create(KUBEWRIGHT_MACHINE_TEMPLATE, body)
        await asyncio.sleep(60)

        async def said():
            found = await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, Key(NS, "t"))
            return [(each.type, each.status, each.reason) for each in found.status.conditions]

        assert await said() == [("Accepted", "Unknown", "WaitingForClusterInfrastructure")]
        labels = {"cluster.x-k8s.io/cluster-name": "demo"}
        meta = {"name": "demo", "namespace": NS, "labels": labels if labelled else {}}
        await management.people.create(KUBEWRIGHT_CLUSTER, {"metadata": meta, "spec": {}})
        await asyncio.sleep(1)
        claimed = {"metadata": {"ownerReferences": [{**owner, "controller": True}], "labels": labels}}
        await management.people.patch(KUBEWRIGHT_CLUSTER, Key(NS, "demo"), claimed)
        await asyncio.sleep(60)
        assert [each[:2] for each in await said()] == [("Accepted", "True")]


async def test_a_secret_that_comes_a_moment_after_its_template_is_no_news() -> None:
    async with management_cluster() as management, management.provider():
        body = {
            "metadata": {"name": "t", "namespace": NS},
            "spec": {"template": {"spec": {"credentialsRef": {"name": "cloud"}}}},
        }
        await management.people.create(KUBEWRIGHT_MACHINE_TEMPLATE, body)
        await asyncio.sleep(1)
        await management.data("cloud", key=b"x")
        await asyncio.sleep(10)
        found = await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, Key(NS, "t"))
        assert found.status.conditions == ()


async def test_a_template_of_a_paused_cluster_is_written_when_the_pause_is_over() -> None:
    async with management_cluster() as management, management.provider():
        await management.cluster(paused=True)
        uid = (await management.people.get(CLUSTER, Key(NS, "demo"))).metadata.uid
        owner = {"apiVersion": CLUSTER.resource.api_version, "kind": "Cluster", "name": "demo", "uid": uid}
        meta = {"name": "t", "namespace": NS, "ownerReferences": [owner]}
        body = {"metadata": meta, "spec": {"template": {"spec": {}}}}
        await management.people.create(KUBEWRIGHT_MACHINE_TEMPLATE, body)
        await asyncio.sleep(5)
        paused = await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, Key(NS, "t"))
        await management.pause(paused=False)
        await asyncio.sleep(5)
        after = await management.people.get(KUBEWRIGHT_MACHINE_TEMPLATE, Key(NS, "t"))

    assert (paused.status.capacity, after.status.capacity["cpu"]) == ({}, "2")


async def test_another_driver_is_left_alone() -> None:
    async with management_cluster() as management, management.provider():
        assert (await made(management, driver="other")).capacity == {}


def test_what_a_driver_does_not_say_stays() -> None:
    before = KubewrightMachineTemplateStatus(capacity={"cpu": "1"}, node_info=NodeInfo(architecture="amd64"))

    nothing, now = KubewrightMachineTemplateStatus(), datetime(2030, 1, 1, tzinfo=UTC)
    for answer in (Size({}), None):
        assert template_status(before, answer, now) == before
        assert template_status(nothing, answer, now) == nothing


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"providerSpec": {"regoin": "here"}}, "providerSpec: Object contains unknown field `regoin`"),
        ({"driver": "clowd"}, "driver 'clowd' does not run in this program, only: sim"),
    ],
    ids=["a typo in providerSpec", "a driver that does not run here"],
)
async def test_a_template_that_no_driver_accepts_says_so_before_there_is_a_machine(spec, problem) -> None:
    async with management_cluster() as management, management.provider():
        status = await made(management, **spec)
        told = [(each.type, each.status, each.reason, each.message) for each in status.conditions]
        assert told == [("Accepted", "False", "InvalidConfiguration", problem)]
        await asyncio.sleep(2)
        assert await management.events() == ["FailedValidation"]
