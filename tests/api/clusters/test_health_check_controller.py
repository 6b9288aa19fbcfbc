"""MachineHealthChecks on an embedded server, with a workload cluster of its own."""

import asyncio
from base64 import b64encode
from contextlib import asynccontextmanager

import msgspec
import pytest

from kubewright.api.catalog import RULES
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_HEALTH_CHECK
from kubewright.api.core import CRD, EVENT, NODE, SECRET
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import rfc3339
from kubewright.clusters import world as clusters
from kubewright.clusters.sessions import WorkloadClusters
from kubewright.kube.client import Client
from kubewright.kube.errors import ConnectFailed
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty
from kubewright.wire.gvk import Key

NS, DEMO, CHECK = "default", Key("default", "demo"), Key("default", "check")
CONFIG = {
    "current-context": "it",
    "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    "clusters": [{"name": "it", "cluster": {"server": "https://demo:6443"}}],
    "users": [{"name": "it", "user": {"token": "t"}}],
}
REF = {"apiVersion": "infra.example.com/v1beta1", "kind": "FooMachine", "name": "x"}
SPEC = {
    "clusterName": "demo",
    "selector": {"matchLabels": {"pool": "a"}},
    "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "2m"}],
}


class World:
    """A management server with the controller of health checks, and the server of one workload cluster."""

    def __init__(self, admission=RULES):
        self.clock = LoopClock()
        self.server, self.workload = ApiServer(self.clock, admission=admission), ApiServer(self.clock)
        self.client = Client(InProcess(self.server.handle), self.clock)
        self.inside = Client(InProcess(self.workload.handle), self.clock)
        self.cut = False
        self.line = Faulty(InProcess(self.workload.handle), self.clock, self._fault)
        self.informers = Informers(self.client)
        self.recorder = Recorder(self.client, self.clock, "kubewright", kinds=(MACHINE, MACHINE_HEALTH_CHECK))

    def _fault(self, _request):
        if self.cut:
            raise ConnectFailed("the cable is cut")

    @asynccontextmanager
    async def running(self):
        await self.server.start()
        await self.workload.start()
        world = clusters.world()
        for each in world.definitions():
            await self.client.create(CRD, each)
        session = Session(self.client, self.informers)
        workloads = WorkloadClusters(session, connect=lambda _access, _clock: self.line)
        environment = Environment(
            session,
            Fixed(session),
            lambda: True,
            self.recorder,
            self.clock,
            Metrics(),
            workloads=lambda: workloads,
        )
        made = world.wire(environment, ["machinehealthcheck"])
        runs = (
            self.informers.run,
            workloads.run,
            *made.background,
            *(each.run for each in made.controllers),
            self.recorder.run,
        )
        tasks = [asyncio.create_task(run()) for run in runs]
        yield self
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.server.close()
        await self.workload.close()

    async def _cluster(self):
        await self.client.create(CLUSTER, {"metadata": {"name": "demo"}, "spec": {}}, namespace=NS)
        at = rfc3339(self.clock.now())
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": at}
            for kind in ("ControlPlaneInitialized", "InfrastructureReady")
        ]
        await self.client.patch(CLUSTER, DEMO, {"status": {"conditions": conditions}}, subresource="status")
        labels = {"cluster.x-k8s.io/cluster-name": "demo"}
        body = {
            "metadata": {"name": "demo-kubeconfig", "labels": labels},
            "data": {"value": b64encode(msgspec.json.encode(CONFIG)).decode()},
        }
        await self.client.create(SECRET, body, namespace=NS)

    async def machine(self, name, node=True, pool="a"):
        spec = {"clusterName": "demo", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": REF}
        meta = {"name": name, "labels": {"pool": pool}, "finalizers": ["example.com/hold"]}
        await self.client.create(MACHINE, {"metadata": meta, "spec": spec}, namespace=NS)
        if node:
            await self.inside.create(NODE, {"metadata": {"name": name}})
            await self.node_says(name, "True")
            body = {"status": {"nodeRef": {"kind": "Node", "name": name}}}
            await self.client.patch(MACHINE, Key(NS, name), body, subresource="status")

    async def node_says(self, name, ready):
        at = rfc3339(self.clock.now())
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": at}]
        await self.inside.patch(
            NODE, Key("", name), {"status": {"conditions": conditions}}, subresource="status"
        )

    async def check(self, **spec):
        """A cluster whose machines are watched."""
        await self._cluster()
        body = {"metadata": {"name": "check"}, "spec": {**SPEC, **spec}}
        await self.client.create(MACHINE_HEALTH_CHECK, body, namespace=NS)

    async def said(self, name):
        found = await self.client.get(MACHINE, Key(NS, name))
        return {each.type: (each.status, each.reason) for each in found.status.conditions}

    async def events(self):
        found = await self.client.list(EVENT, NS)
        return sorted({(each.involved_object.name, each.reason) for each in found})

    async def status(self):
        found = (await self.client.get(MACHINE_HEALTH_CHECK, CHECK)).status
        return found.expected_machines, found.current_healthy, found.remediations_allowed


@pytest.fixture
async def world():
    async with World().running() as made:
        yield made


FINE = {"HealthCheckSucceeded": ("True", "")}


async def test_a_node_that_stays_bad_makes_its_machine_unhealthy(world):
    await world.machine("a")
    await world.machine("b")
    await world.machine("other", pool="b")
    await world.check()
    await asyncio.sleep(10)
    assert (await world.said("a"), await world.said("b"), await world.said("other")) == (FINE, FINE, {})
    assert await world.status() == (2, 2, 2)
    await world.node_says("a", "False")
    await asyncio.sleep(60)
    assert (await world.said("a"), await world.status()) == (FINE, (2, 1, 1))
    assert await world.events() == [("a", "DetectedUnhealthy")]
    await asyncio.sleep(70)
    assert await world.said("a") == {
        "HealthCheckSucceeded": ("False", "UnhealthyNode"),
        "OwnerRemediated": ("False", "WaitingForRemediation"),
    }
    assert await world.events() == [("a", "DetectedUnhealthy"), ("a", "MachineMarkedUnhealthy")]
    await world.node_says("a", "True")
    await asyncio.sleep(10)
    assert await world.said("a") == FINE
    found = await world.client.get(MACHINE_HEALTH_CHECK, CHECK)
    assert found.status.targets == ("a", "b")
    assert [each.kind for each in found.metadata.owner_references] == ["Cluster"]


async def test_a_machine_that_does_not_start_and_a_node_that_goes(world):
    await world.machine("a", node=False)
    await world.machine("b")
    await world.check(nodeStartupTimeout="3m")
    await asyncio.sleep(120)
    assert (await world.said("a"), await world.status()) == ({}, (2, 1, 1))
    assert await world.events() == []
    await asyncio.sleep(65)
    assert (await world.said("a"))["HealthCheckSucceeded"] == ("False", "NodeStartupTimeout")
    await world.inside.delete(NODE, Key("", "b"))
    await asyncio.sleep(10)
    assert (await world.said("b"))["HealthCheckSucceeded"] == ("False", "NodeNotFound")


async def test_a_cluster_that_is_away_makes_no_machine_unhealthy(world):
    await world.machine("a")
    await world.check()
    await asyncio.sleep(10)
    world.cut = True
    await asyncio.sleep(3600)
    assert await world.said("a") == FINE
    world.cut = False
    await asyncio.sleep(120)
    assert await world.said("a") == FINE


async def test_nothing_is_replaced_while_too_many_are_unhealthy(world):
    for name in ("a", "b", "c"):
        await world.machine(name)
        await world.node_says(name, "False")
    await world.check(maxUnhealthy="50%")
    await asyncio.sleep(200)
    for name in ("a", "b", "c"):
        assert await world.said(name) == {"HealthCheckSucceeded": ("False", "UnhealthyNode")}
    found = await world.client.get(MACHINE_HEALTH_CHECK, CHECK)
    (allowed,) = found.status.conditions
    assert (allowed.type, allowed.status, allowed.reason) == (
        "RemediationAllowed",
        "False",
        "TooManyUnhealthy",
    )
    await world.node_says("a", "True")
    await world.node_says("b", "True")
    await asyncio.sleep(10)
    assert (await world.said("c"))["OwnerRemediated"] == ("False", "WaitingForRemediation")


async def allowed(world):
    found = await world.client.get(MACHINE_HEALTH_CHECK, CHECK)
    (said,) = found.status.conditions
    return said.status, said.reason, said.severity


async def test_fewer_unhealthy_machines_than_a_range_wants_are_no_warning(world):
    for name in ("a", "b", "c"):
        await world.machine(name)
    await world.check(unhealthyRange="[2-2]")
    await asyncio.sleep(200)
    assert await allowed(world) == ("False", "TooFewUnhealthy", "Info")
    await world.node_says("a", "False")
    await asyncio.sleep(200)
    assert await allowed(world) == ("False", "TooFewUnhealthy", "Info")
    assert "OwnerRemediated" not in await world.said("a")
    assert ("check", "RemediationRestricted") not in await world.events()
    await world.node_says("b", "False")
    await asyncio.sleep(200)
    assert (await allowed(world))[0] == "True"
    assert (await world.said("a"))["OwnerRemediated"] == ("False", "WaitingForRemediation")
    await world.node_says("c", "False")
    await asyncio.sleep(200)
    assert await allowed(world) == ("False", "TooManyUnhealthy", "Warning")
    assert ("check", "RemediationRestricted") in await world.events()


async def test_a_check_that_no_webhook_has_refused_says_what_is_wrong_and_replaces_nothing():
    async with World(admission=()).running() as world:
        await world.machine("a")
        await world.node_says("a", "False")
        await world.check(unhealthyRange="[3-1]")
        await asyncio.sleep(300)
        assert await allowed(world) == ("False", "InvalidConfiguration", "Error")
        assert (await world.status())[2] == 0
        assert "OwnerRemediated" not in await world.said("a")


async def test_nothing_is_written_at_rest(world):
    await world.machine("a")
    await world.check()
    await asyncio.sleep(30)
    before = (
        await world.client.get(MACHINE_HEALTH_CHECK, CHECK),
        await world.client.get(MACHINE, Key(NS, "a")),
    )
    await asyncio.sleep(3600)
    after = (
        await world.client.get(MACHINE_HEALTH_CHECK, CHECK),
        await world.client.get(MACHINE, Key(NS, "a")),
    )
    assert [each.metadata.resource_version for each in before] == [
        each.metadata.resource_version for each in after
    ]
