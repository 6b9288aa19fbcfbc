"""The Machine controller on embedded servers, with a tiny provider of bootstrap data and machines."""

import asyncio
from base64 import b64encode
from contextlib import asynccontextmanager

import msgspec
import pytest

from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_DRAIN_RULE,
    MACHINE_SET,
)
from kubewright.api.core import CRD, EVENT, NODE, PDB, POD, SECRET
from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.base.delays import WORDS_SECONDS
from kubewright.clusters import world as clusters
from kubewright.clusters.machine.look import CALL_SECONDS
from kubewright.clusters.sessions import WorkloadClusters
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Delay, Faulty
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource

NS, M = "default", Key("default", "m")
INFRA, BOOT = "infra.example.com", "boot.example.com"
FOO = dynamic(Resource(INFRA, "v1beta1", "foomachines", "FooMachine"))
CONFIG = dynamic(Resource(BOOT, "v1beta1", "fooconfigs", "FooConfig"))
FINALIZER = "example.com/foo"
PROVIDER_ID = "foo:///1"
LABEL = "cluster.x-k8s.io/cluster-name"
URL = "https://demo:6443"
SETTLED = WORDS_SECONDS + 1
"""Until also that is written what a machine only waits for."""


def definition(kind):
    resource = kind.resource
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()}
    version = {"name": resource.version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": str(resource), "labels": {"cluster.x-k8s.io/v1beta1": "v1beta1"}},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {**names, "listKind": f"{resource.kind}List"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


def ref(kind, name="m"):
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


KUBECONFIG = msgspec.json.encode(
    {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "demo", "user": "admin"}}],
        "clusters": [{"name": "demo", "cluster": {"server": URL}}],
        "users": [{"name": "admin", "user": {"token": "s3cr3t"}}],
    }
)


class World:
    """A management cluster with the controller, a workload cluster, and what users and providers do."""

    def __init__(self):
        self.clock = LoopClock()
        self.server, self.workload = ApiServer(self.clock), ApiServer(self.clock)
        self.fault, self.hung, self.slow_evictions = None, "", 0.0
        self.line = Faulty(InProcess(self.server.handle), self.clock, lambda _request: None)
        self.client = Client(self.line, self.clock)
        self.user = Client(InProcess(self.server.handle), self.clock)
        self.there = Client(InProcess(self.workload.handle), self.clock)
        self.informers = Informers(self.client)
        self.recorder = Recorder(self.client, self.clock, "kubewright", kinds=(MACHINE,))

    @asynccontextmanager
    async def running(self, *kinds):
        await self.server.start()
        await self.workload.start()
        world = clusters.world()
        for each in (*world.definitions(), *map(definition, kinds or (FOO, CONFIG))):
            await self.user.create(CRD, each)
        session = Session(self.client, self.informers)
        workloads = WorkloadClusters(session, connect=self._connect)
        environment = Environment(
            session,
            Fixed(session),
            lambda: True,
            self.recorder,
            self.clock,
            Metrics(),
            workloads=lambda: workloads,
        )
        made = world.wire(environment, ["clustermachine"])
        runs = [
            self.informers.run,
            self.recorder.run,
            workloads.run,
            *made.background,
            *(c.run for c in made.controllers),
        ]
        tasks = [asyncio.create_task(run()) for run in runs]
        await asyncio.sleep(1)
        yield self
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.server.close()
        await self.workload.close()

    def _connect(self, access, clock):
        """A line to the workload cluster; requests for Pods hang for the cluster that is ``hung``, and each
        eviction takes the seconds of ``slow_evictions`` before it is carried out."""

        def fault(request):
            if self.slow_evictions and request.path.endswith("/eviction"):
                return Delay(self.slow_evictions)
            hangs = self.hung and self.hung in access.server and "/pods" in request.path
            return Delay(1e9) if hangs else self.fault

        return Faulty(InProcess(self.workload.handle), clock, fault)

    async def cluster(self, name="demo", **spec):
        await self.user.create(CLUSTER, {"metadata": {"name": name}, "spec": spec}, namespace=NS)
        secret = {
            "metadata": {"name": f"{name}-kubeconfig", "labels": {LABEL: name}},
            "data": {"value": b64encode(KUBECONFIG.replace(b"demo:", name.encode() + b":")).decode()},
        }
        await self.user.create(dynamic(SECRET.resource), secret, namespace=NS)
        await asyncio.sleep(SETTLED)

    async def make(self, name="m", *, labels=None, annotations=None, owner=None, **spec):
        meta = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
        if owner:
            meta["ownerReferences"] = [owner]
        body = {"clusterName": "demo", "infrastructureRef": ref(FOO, name)}
        wanted = {**body, "bootstrap": {"configRef": ref(CONFIG, name)}, **spec}
        await self.user.create(dynamic(MACHINE.resource), {"metadata": meta, "spec": wanted}, namespace=NS)
        await asyncio.sleep(SETTLED)

    async def provide(self, kind, name="m", **content):
        body = {"metadata": {"name": name, "finalizers": [FINALIZER]}, **content}
        await self.user.create(kind, body, namespace=NS)
        await asyncio.sleep(SETTLED)

    async def report(self, kind, name="m", *, spec=None, **status):
        key = Key(NS, name)
        if spec is not None:
            await self.user.patch(kind, key, {"spec": spec})
        await self.user.patch(kind, key, {"status": status}, subresource="status")
        await asyncio.sleep(SETTLED)

    async def node(self, name="n", provider_id=PROVIDER_ID, *, ready="True", **spec):
        body = {"metadata": {"name": name}, "spec": {"providerID": provider_id, **spec}}
        await self.there.create(dynamic(NODE.resource), body)
        await self.node_status(name, ready=ready)

    async def node_status(self, name="n", *, ready="True", **status):
        wanted = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": ready}
        conditions = [{"type": kind, "status": status} for kind, status in wanted.items()]
        body = {"status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.30.0"}, **status}}
        await self.there.patch(dynamic(NODE.resource), Key("", name), body, subresource="status")
        await asyncio.sleep(SETTLED)

    async def run_machine(self, name="m", provider_id=PROVIDER_ID, node="n", **made):
        """A machine that runs."""
        await self.provide(FOO, name)
        await self.provide(CONFIG, name)
        await self.make(name, **made)
        await self.report(CONFIG, name, ready=True, dataSecretName=name)
        await self.report(FOO, name, spec={"providerID": provider_id}, ready=True)
        await self.node(node, provider_id)

    async def patch(self, body, kind=MACHINE, name="m"):
        await self.user.patch(dynamic(kind.resource), Key(NS, name), body)
        await asyncio.sleep(SETTLED)

    async def delete(self, name="m", kind=MACHINE):
        await self.user.delete(kind, Key(NS, name))
        await asyncio.sleep(3)

    async def release(self, kind, name="m"):
        await self.user.patch(kind, Key(NS, name), {"metadata": {"finalizers": None}})
        await asyncio.sleep(3)

    async def machine(self, name="m"):
        return await self.user.get(MACHINE, Key(NS, name))

    async def phase(self, name="m"):
        return (await self.machine(name)).status.phase

    async def said(self, kind, name="m"):
        found = {each.type: each for each in (await self.machine(name)).status.conditions}.get(kind)
        return (found.status, found.reason, found.message) if found else None

    async def exists(self, kind, name="m", client=None):
        try:
            await (client or self.user).get(kind, Key(NS if kind.resource.namespaced else "", name))
        except NotFound:
            return False
        return True

    async def events(self):
        return {each.reason for each in await self.user.list(EVENT, NS)}

    def writes(self):
        """What the controller wrote into the management cluster, but for events."""
        sent = [request for _, request in self.line.asked if request.method != "GET"]
        return [f"{each.method} {each.path}" for each in sent if "/events" not in each.path]


@pytest.fixture
def world():
    return World()


async def test_a_machine_comes_up_in_few_writes(world):
    async with world.running():
        await world.cluster()
        await world.provide(FOO)
        await world.provide(CONFIG)
        await world.make(labels={"node.cluster.x-k8s.io/pool": "a", "team": "red"})
        assert await world.phase() == "Pending"
        assert (await world.said("Ready"))[2] == "0 of 2 completed"
        await world.report(CONFIG, ready=True, dataSecretName="m-data")
        assert await world.phase() == "Provisioning"
        assert (await world.said("Ready"))[2] == "1 of 2 completed"
        addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
        await world.report(
            FOO, spec={"providerID": PROVIDER_ID, "failureDomain": "a"}, ready=True, addresses=addresses
        )
        assert await world.phase() == "Provisioned"
        assert (await world.said("NodeHealthy"))[1] == "NodeProvisioning"
        taint = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
        await world.node(ready="False", taints=[taint])
        assert await world.phase() == "Running"
        assert (await world.said("NodeHealthy"))[2] == "Node condition Ready is False. "
        await world.node_status(ready="True")
        assert (await world.said("NodeHealthy"))[0] == "True"
        machine = await world.machine()
        assert (machine.spec.provider_id, machine.spec.failure_domain) == (PROVIDER_ID, "a")
        assert machine.status.node_ref.name == "n"
        assert machine.status.node_info.kubelet_version == "v1.30.0"
        assert [each.address for each in machine.status.addresses] == ["10.0.0.1"]
        assert machine.status.observed_generation == machine.metadata.generation
        assert machine.metadata.owner_references[0].kind == "Cluster"
        node = await world.there.get(NODE, Key("", "n"))
        assert node.metadata.labels["node.cluster.x-k8s.io/pool"] == "a"
        assert "team" not in node.metadata.labels
        assert node.metadata.annotations["cluster.x-k8s.io/machine"] == "m"
        assert (
            node.metadata.annotations["cluster.x-k8s.io/labels-from-machine"] == "node.cluster.x-k8s.io/pool"
        )
        assert not node.spec.taints
        assert "SuccessfulSetNodeRef" in await world.events()
        assert len(world.writes()) <= 11, world.writes()
        before = len(world.writes())
        await asyncio.sleep(3600)
        assert len(world.writes()) == before


async def test_a_running_machine_is_deleted_in_order(world):
    async with world.running():
        await world.cluster()
        await world.run_machine("cp", "foo:///cp", "ncp", labels={"cluster.x-k8s.io/control-plane": ""})
        await world.run_machine()
        pod = {
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }
        await world.there.create(dynamic(POD.resource), pod, namespace=NS)
        before = len(world.writes())
        await world.delete()
        node = await world.there.get(NODE, Key("", "n"))
        assert node.spec.unschedulable
        assert (await world.said("DrainingSucceeded"))[:2] == ("False", "Draining")
        assert await world.phase() == "Deleting"
        await world.there.delete(POD, Key(NS, "p"), grace=0)
        await asyncio.sleep(10)
        assert (await world.said("DrainingSucceeded"))[0] == "True"
        assert (await world.user.get(FOO, M))["metadata"]["deletionTimestamp"]
        assert "deletionTimestamp" not in (await world.user.get(CONFIG, M))["metadata"]
        assert (await world.said("InfrastructureReady"))[1] == "Deleting"
        await world.release(FOO)
        assert (await world.user.get(CONFIG, M))["metadata"]["deletionTimestamp"]
        assert await world.exists(NODE, "n", world.there)
        await world.release(CONFIG)
        assert not await world.exists(NODE, "n", world.there)
        assert not await world.exists(MACHINE)
        assert {"SuccessfulDrainNode", "Deleted"} <= await world.events()
        assert len(world.writes()) - before <= 6, world.writes()[before:]


async def test_a_drain_names_the_pods_and_budgets_that_hold_it_up(world):
    async with world.running():
        await world.cluster()
        await world.run_machine("cp", "foo:///cp", "ncp", labels={"cluster.x-k8s.io/control-plane": ""})
        await world.run_machine(nodeDrainTimeout="10m")
        pod = {
            "metadata": {"name": "p", "labels": {"app": "db"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }
        budget = {
            "metadata": {"name": "db"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}},
        }
        await world.there.create(dynamic(POD.resource), pod, namespace=NS)
        await world.there.patch(
            dynamic(POD.resource),
            Key(NS, "p"),
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
            subresource="status",
        )
        await world.there.create(dynamic(PDB.resource), budget, namespace=NS)
        await world.delete()
        await asyncio.sleep(60)
        status, reason, message = await world.said("DrainingSucceeded")
        assert (status, reason) == ("False", "DrainingFailed")
        assert '"default/p"' in message
        assert "default/db" in message
        await asyncio.sleep(700)
        assert (await world.user.get(FOO, M))["metadata"]["deletionTimestamp"]


def in_node(name, **labels):
    container = {"name": "c", "image": "i"}
    metadata = {"name": name, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": "n", "containers": [container]}}


async def evicted(world):
    """The pods that have been asked to leave."""
    return {each.name for each in await world.there.list(POD) if each.metadata.deleting}


async def test_evictions_that_take_longer_than_the_calls_of_a_pass_all_happen_and_hold_up_no_other_machine(
    world,
):
    async with world.running():
        await world.cluster()
        await world.run_machine("cp", "foo:///cp", "ncp", labels={"cluster.x-k8s.io/control-plane": ""})
        await world.run_machine()
        await world.run_machine("empty", "foo:///empty", "nempty")
        pods = {f"p{number}" for number in range(12)}
        for name in pods:
            await world.there.create(dynamic(POD.resource), in_node(name), namespace=NS)
        world.slow_evictions = CALL_SECONDS + 3
        await world.delete()
        assert (await world.said("DrainingSucceeded"))[:2] == ("False", "Draining")
        await world.delete("empty")
        assert (await world.user.get(FOO, Key(NS, "empty")))["metadata"]["deletionTimestamp"]
        await asyncio.sleep(3 * CALL_SECONDS)
        assert await evicted(world) == pods
        assert "did not answer" not in (await world.said("DrainingSucceeded"))[2]


async def test_pods_leave_as_drain_rules_say(world):
    async with world.running():
        await world.cluster()
        await world.run_machine("cp", "foo:///cp", "ncp", labels={"cluster.x-k8s.io/control-plane": ""})
        await world.run_machine()
        team = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NS}}}
        for name, drain, app in (
            ("last", {"behavior": "Drain", "order": 5}, "db"),
            ("never", {"behavior": "Skip"}, "log"),
            ("ends", {"behavior": "WaitCompleted"}, "batch"),
        ):
            spec = {"drain": drain, "pods": [{"selector": {"matchLabels": {"app": app}}, **team}]}
            await world.user.create(
                MACHINE_DRAIN_RULE, {"metadata": {"name": name}, "spec": spec}, namespace=NS
            )
        for name in ("db", "log", "batch", "web"):
            await world.there.create(dynamic(POD.resource), in_node(name, app=name), namespace=NS)
        await world.delete()
        await asyncio.sleep(10)
        assert await evicted(world) == {"web"}

        await world.there.delete(POD, Key(NS, "web"), grace=0)
        await asyncio.sleep(60)
        assert await evicted(world) == set(), "the batch job has not ended"
        ended = {"status": {"phase": "Succeeded"}}
        await world.there.patch(dynamic(POD.resource), Key(NS, "batch"), ended, subresource="status")
        await asyncio.sleep(30)
        assert await evicted(world) == {"db"}

        await world.there.delete(POD, Key(NS, "db"), grace=0)
        await asyncio.sleep(30)
        assert (await world.user.get(FOO, M))["metadata"]["deletionTimestamp"]
        assert await evicted(world) == set(), "what is skipped stays"


async def test_a_drain_waits_while_a_rule_cannot_be_read_and_needs_no_rules_at_all(world):
    async with world.running():
        await world.cluster()
        await world.run_machine("cp", "foo:///cp", "ncp", labels={"cluster.x-k8s.io/control-plane": ""})
        await world.run_machine()
        await world.there.create(dynamic(POD.resource), in_node("web"), namespace=NS)
        wrong = {"matchExpressions": [{"key": "a", "operator": "Is"}]}
        spec = {"drain": {"behavior": "Skip"}, "pods": [{"selector": wrong}]}
        await world.user.create(MACHINE_DRAIN_RULE, {"metadata": {"name": "odd"}, "spec": spec}, namespace=NS)
        await world.delete()
        await asyncio.sleep(30)
        assert "MachineDrainRule odd cannot be read" in (await world.said("DrainingSucceeded"))[2]
        assert await evicted(world) == set()

        await world.user.delete(CRD, Key("", "machinedrainrules.cluster.x-k8s.io"))
        await asyncio.sleep(60)
        assert await evicted(world) == {"web"}


async def test_hooks_hold_up_the_stages_they_are_for(world):
    before, after = (
        "pre-drain.delete.hook.machine.cluster.x-k8s.io/a",
        "pre-terminate.delete.hook.machine.cluster.x-k8s.io/b",
    )
    async with world.running():
        await world.cluster()
        await world.run_machine("cp", "foo:///cp", "ncp", labels={"cluster.x-k8s.io/control-plane": ""})
        await world.run_machine(annotations={before: "", after: ""})
        await world.delete()
        assert (await world.said("PreDrainDeleteHookSucceeded"))[:2] == ("False", "WaitingExternalHook")
        assert before in (await world.said("Deleting"))[2]
        assert not (await world.there.get(NODE, Key("", "n"))).spec.unschedulable
        await world.patch({"metadata": {"annotations": {before: None}}})
        assert (await world.there.get(NODE, Key("", "n"))).spec.unschedulable
        assert (await world.said("PreTerminateDeleteHookSucceeded"))[0] == "False"
        assert "deletionTimestamp" not in (await world.user.get(FOO, M))["metadata"]
        await world.patch({"metadata": {"annotations": {after: None}}})
        assert (await world.user.get(FOO, M))["metadata"]["deletionTimestamp"]


async def test_a_machine_that_never_became_a_node_goes_without_a_drain(world):
    async with world.running():
        await world.cluster()
        await world.provide(FOO)
        await world.make()
        await world.delete()
        await world.release(FOO)
        assert not await world.exists(MACHINE)


async def test_a_machine_can_go_when_its_cluster_is_gone_already(world):
    async with world.running():
        await world.cluster()
        await world.run_machine()
        await world.delete("demo", CLUSTER)
        await world.delete()
        await world.release(FOO)
        await world.release(CONFIG)
        assert not await world.exists(MACHINE)


NOWHERE = {
    "a kind that is not installed": {"kind": "BarMachine", "apiVersion": "bar.example.com/v1beta1"},
    "a group that is not a provider's": {"kind": "FooMachine", "apiVersion": "v1"},
    "another namespace": {"namespace": "other"},
    "no name": {"name": ""},
    "a name that nothing has": {"name": "another"},
}


@pytest.mark.parametrize("wrong", NOWHERE.values(), ids=NOWHERE)
async def test_a_machine_goes_whose_references_lead_nowhere(world, wrong):
    async with world.running():
        await world.cluster()
        bootstrap = {"configRef": {**ref(CONFIG), **wrong}}
        await world.make(infrastructureRef={**ref(FOO), **wrong}, bootstrap=bootstrap)
        assert "machine.cluster.x-k8s.io" in (await world.machine()).metadata.finalizers
        await world.delete()
        await asyncio.sleep(15)
        assert not await world.exists(MACHINE)


async def test_a_machine_goes_whose_providers_and_cluster_were_removed_with_their_objects(world):
    async with world.running():
        await world.cluster()
        await world.run_machine()
        for kind in (FOO, CONFIG):
            await world.release(kind)
            await world.user.delete(CRD, Key("", str(kind.resource)))
        await world.delete("demo", CLUSTER)
        await asyncio.sleep(15)
        await world.delete()
        await asyncio.sleep(15)
        assert not await world.exists(MACHINE)


SETS_LABELS = {"cluster.x-k8s.io/set-name": "s", "a": "b"}


async def test_a_machine_that_its_set_has_left_is_the_clusters(world):
    """While a set is there that selects it, that adopts it."""
    template = {"clusterName": "demo", "bootstrap": {}, "infrastructureRef": ref(FOO)}
    spec = {
        "clusterName": "demo",
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": SETS_LABELS}, "spec": template},
    }
    async with world.running():
        await world.cluster()
        await world.user.create(
            MACHINE_SET, {"metadata": {"name": "s", "finalizers": [FINALIZER]}, "spec": spec}, namespace=NS
        )
        await world.make(labels=SETS_LABELS)
        assert (await world.machine()).metadata.owner_references == ()
        await world.delete("s", MACHINE_SET)
        await world.patch({"metadata": {"annotations": {"touched": "1"}}})
        assert [each.kind for each in (await world.machine()).metadata.owner_references] == ["Cluster"]


async def test_data_of_a_users_own_needs_no_bootstrap_provider(world):
    async with world.running():
        await world.cluster()
        await world.provide(FOO)
        await world.make(bootstrap={"dataSecretName": "mine"})
        machine = await world.machine()
        assert machine.status.bootstrap_ready
        assert await world.phase() == "Provisioning"
        assert (await world.said("BootstrapReady"))[0] == "True"


async def test_data_in_the_machine_moves_into_a_secret_of_its_own(world):
    async with world.running():
        await world.cluster()
        await world.provide(FOO)
        await world.make(bootstrap={"data": "#cloud-config\n"})
        machine = await world.machine()
        assert machine.spec.bootstrap.data is None
        secret = await world.user.get(SECRET, Key(NS, machine.spec.bootstrap.data_secret_name))
        assert secret.data == {"value": b"#cloud-config\n", "format": b"cloud-config"}
        assert secret.metadata.controller.uid == machine.metadata.uid


MINE = {"metadata": {"name": "m-bootstrap-data"}, "stringData": {"value": "mine"}}
ANOTHERS = {
    "metadata": {
        "name": "m-bootstrap-data",
        "labels": {LABEL: "demo"},
        "ownerReferences": [
            {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "m", "uid": "an-old-one"}
            | {"controller": True}
        ],
    },
    "stringData": {"value": "mine"},
}


@pytest.mark.parametrize(
    ("there", "by"), [(MINE, "no object controls it"), (ANOTHERS, "Machine m controls it")]
)
async def test_a_secret_of_the_name_that_is_not_the_machines_stays_and_is_told_of(world, there, by):
    async with world.running():
        await world.cluster()
        await world.user.create(SECRET, there, namespace=NS)
        await world.make(bootstrap={"data": "#cloud-config\n"})
        assert by in (await world.said("BootstrapReady"))[2]
        assert (await world.machine()).spec.bootstrap.data_secret_name is None
        began = world.clock.monotonic()
        await asyncio.sleep(290)
        assert len([at for at, each in world.line.asked if at > began and each.method == "POST"]) < 15
        secret = Key(NS, "m-bootstrap-data")
        assert (await world.user.get(SECRET, secret)).data == {"value": b"mine"}
        await world.user.delete(SECRET, secret)
        await asyncio.sleep(35)
        assert (await world.user.get(SECRET, secret)).data["value"] == b"#cloud-config\n"
        assert (await world.machine()).spec.bootstrap.data_secret_name == "m-bootstrap-data"


async def test_what_is_missing_is_said_and_found_when_it_comes(world):
    async with world.running():
        await world.make()
        assert "there is no Cluster default/demo" in (await world.said("InfrastructureReady"))[2]
        await world.cluster()
        told = "waiting: there is no {} default/m; create it, or correct the reference"
        assert (await world.said("InfrastructureReady"))[2] == told.format("FooMachine")
        assert (await world.said("BootstrapReady"))[2] == told.format("FooConfig")
        await world.provide(FOO)
        found = await world.user.get(FOO, M)
        assert found["metadata"]["ownerReferences"][0]["name"] == "m"
        assert found["metadata"]["labels"] == {LABEL: "demo"}


async def test_a_provider_that_is_ready_without_a_provider_id_is_told_of(world):
    async with world.running():
        await world.cluster()
        await world.provide(FOO)
        await world.make(bootstrap={"dataSecretName": "mine"})
        await world.report(FOO, ready=True)
        assert (await world.said("InfrastructureReady"))[
            2
        ] == "FooMachine m is ready, but has no spec.providerID"
        assert (await world.machine()).spec.provider_id is None


async def test_a_provider_id_that_was_edited_by_hand_changes_nothing(world):
    async with world.running():
        await world.cluster()
        await world.run_machine()
        await world.report(FOO, spec={"providerID": "foo:///other"}, ready=True)
        assert (await world.machine()).spec.provider_id == PROVIDER_ID
        assert "became a Node with foo:///1" in (await world.said("InfrastructureReady"))[2]


async def test_two_machines_that_claim_one_node_are_told_so_and_the_first_keeps_it(world):
    async with world.running():
        await world.cluster()
        await world.run_machine()
        await world.provide(FOO, "b")
        await world.make("b", bootstrap={"dataSecretName": "mine"})
        await world.report(FOO, "b", spec={"providerID": PROVIDER_ID}, ready=True)
        assert (await world.said("NodeHealthy", "b"))[1:] == (
            "NodeInspectionFailed",
            "Machine m has the providerID foo:///1, too, and was there first",
        )
        assert (await world.said("NodeHealthy"))[0] == "True"
        await world.delete("b")
        await world.release(FOO, "b")
        assert await world.exists(NODE, "n", world.there)


async def test_a_failure_of_a_provider_shows_and_ends(world):
    async with world.running():
        await world.cluster()
        await world.provide(FOO)
        await world.make(bootstrap={"dataSecretName": "mine"})
        await world.report(FOO, failureReason="CreateError", failureMessage="no quota")
        assert await world.phase() == "Failed"
        assert "no quota" in (await world.machine()).status.failure_message
        await world.report(FOO, failureReason=None, failureMessage=None)
        assert await world.phase() == "Provisioning"
        assert (await world.machine()).status.failure_message is None


async def test_infrastructure_that_vanishes_is_a_failure_until_it_is_back(world):
    async with world.running():
        await world.cluster()
        await world.run_machine()
        await world.release(FOO)
        await world.delete(kind=FOO)
        assert await world.phase() == "Failed"
        assert (await world.machine()).status.failure_reason == "InvalidConfiguration"
        await world.provide(FOO)
        await world.report(FOO, spec={"providerID": PROVIDER_ID}, ready=True)
        assert await world.phase() == "Running"


@pytest.mark.parametrize(
    "pause",
    [
        (MACHINE, "m", {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}),
        (CLUSTER, "demo", {"spec": {"paused": True}}),
    ],
    ids=["the machine", "its cluster"],
)
async def test_nothing_is_written_while_paused(world, pause):
    kind, name, body = pause
    async with world.running():
        await world.cluster()
        await world.run_machine()
        await world.patch(body, kind, name)
        before = len(world.writes())
        await world.report(FOO, ready=False)
        await world.delete()
        assert len(world.writes()) == before
        undo = {"metadata": {"annotations": None}} if kind is MACHINE else {"spec": {"paused": False}}
        await world.patch(undo, kind, name)
        assert (await world.user.get(FOO, M))["metadata"]["deletionTimestamp"]


async def test_a_label_of_a_node_that_another_client_rewrites_is_told_in_few_writes(world):
    """Its status does not say with each pass for how many seconds the label is not written."""
    async with world.running():
        await world.cluster()
        await world.run_machine(labels={"node.cluster.x-k8s.io/pool": "a"})
        for second in range(120):
            theirs = {"labels": {"node.cluster.x-k8s.io/pool": "b"}, "annotations": {"seen": str(second)}}
            await world.there.patch(NODE, Key("", "n"), {"metadata": theirs})
            if second == 60:
                before = len(world.writes())
            await asyncio.sleep(1)
        assert "metadata.labels.node.cluster.x-k8s.io/pool" in (await world.said("NodeHealthy"))[2]
        assert len(world.writes()) - before <= 4, world.writes()[before:]


async def test_a_node_of_a_rollout_is_marked_outdated(world):
    async with world.running():
        await world.cluster()
        key = "machinedeployment.clusters.x-k8s.io/revision"
        spec = {
            "clusterName": "demo",
            "selector": {},
            "template": {"spec": {"clusterName": "demo", "bootstrap": {}, "infrastructureRef": ref(FOO)}},
        }
        for kind, name in ((MACHINE_DEPLOYMENT, "d"), (MACHINE_SET, "s")):
            body = {"metadata": {"name": name, "annotations": {key: "1"}}, "spec": spec}
            await world.user.create(dynamic(kind.resource), body, namespace=NS)
        owner = {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "MachineSet",
            "name": "s",
            "uid": "u",
            "controller": True,
        }
        await world.run_machine(labels={"cluster.x-k8s.io/deployment-name": "d"}, owner=owner)
        assert not (await world.there.get(NODE, Key("", "n"))).spec.taints
        await world.patch({"metadata": {"annotations": {key: "2"}}}, MACHINE_DEPLOYMENT, "d")
        (taint,) = (await world.there.get(NODE, Key("", "n"))).spec.taints
        assert taint.key == "node.cluster.x-k8s.io/outdated-revision"
        await world.patch({"metadata": {"annotations": {key: "2"}}}, MACHINE_SET, "s")
        assert not (await world.there.get(NODE, Key("", "n"))).spec.taints


async def test_a_cluster_that_does_not_answer_changes_a_nodes_health_only_after_a_while(world):
    async with world.running():
        await world.cluster()
        await world.run_machine()
        world.fault = Delay(1e9)
        await asyncio.sleep(240)
        assert (await world.said("NodeHealthy"))[0] == "True"
        await asyncio.sleep(300)
        assert (await world.said("NodeHealthy"))[:2] == ("Unknown", "NodeInspectionFailed")
        world.fault = None
        await asyncio.sleep(90)
        assert (await world.said("NodeHealthy"))[0] == "True"


async def test_a_cluster_that_does_not_show_its_pods_stalls_only_itself(world):
    plane = {"cluster.x-k8s.io/control-plane": ""}
    async with world.running():
        for cluster in ("demo", "away"):
            await world.cluster(cluster)
            name = f"cp-{cluster}"
            await world.run_machine(name, f"foo:///{name}", name, labels=plane, clusterName=cluster)
        for number in range(30):
            name = f"away-{number}"
            await world.run_machine(name, f"foo:///{name}", name, clusterName="away")
        await world.run_machine()
        world.hung = "away"
        for number in range(30):
            await world.user.delete(MACHINE, Key(NS, f"away-{number}"))
        await asyncio.sleep(1)
        began = world.clock.monotonic()
        await world.user.delete(MACHINE, M)
        while "deletionTimestamp" not in (await world.user.get(FOO, M))["metadata"]:
            await asyncio.sleep(0.5)
            assert world.clock.monotonic() - began < 15
        await asyncio.sleep(15)
        told = [await world.said("Deleting", f"away-{number}") for number in range(30)]
        assert any(each is not None and each[1] == "DrainingNode" for each in told)
        world.hung = ""
        await asyncio.sleep(120)
        for number in range(30):
            assert (await world.user.get(FOO, Key(NS, f"away-{number}")))["metadata"]["deletionTimestamp"]
