"""The Cluster controller on an embedded server, with a tiny provider of infrastructure and control planes."""

import asyncio
from base64 import b64encode
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from kubewright.api.cluster import manifests
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.api.core import CRD, EVENT, SECRET
from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.clusters import world as clusters
from kubewright.kube.client import Client
from kubewright.kube.config import inline_access
from kubewright.kube.errors import ConnectFailed, Untrusted
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.pki import certificates
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import is_trusted
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing import permissions
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import Response

NS, DEMO = "default", Key("default", "demo")
INFRA, PLANE = "infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"
FOO_CLUSTER = dynamic(Resource(INFRA, "v1beta1", "fooclusters", "FooCluster"))
FOO_PLANE = dynamic(Resource(PLANE, "v1beta1", "fooplanes", "FooPlane"))
PLACE = {"host": "10.0.0.1", "port": 6443}
FINALIZER = "example.com/foo"


def definition(kind):
    resource = kind.resource
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": str(resource), "labels": {"cluster.x-k8s.io/v1beta1": "v1beta1"}},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "listKind": f"{resource.kind}List",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": schema,
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def ref(kind, name="demo"):
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


class FooServer:
    """The API server of the cluster, as far as it is asked by whom it verifies; ``pair`` is its authority."""

    def __init__(self):
        self.pair, self.asked = None, 0

    def connect(self, access, clock):
        self.access = access
        return self

    async def request(self, request, *, timeout):
        self.asked += 1
        if self.pair is None:
            raise ConnectFailed("connection refused")
        if not is_trusted(self.pair.certificate, self.access.ca):
            raise Untrusted("certificate verify failed")
        known = is_trusted(self.access.certificate, self.pair.certificate)
        return Response(200 if known else 401)

    async def close(self):
        pass


class World:
    """A server, the controllers of clusters, and what a user and providers do."""

    def __init__(self):
        self.clock = LoopClock()
        self.server = ApiServer(self.clock)
        self.line = Faulty(InProcess(self.server.handle), self.clock, lambda _request: None)
        self.client = Client(self.line, self.clock)
        self.user = Client(InProcess(self.server.handle), self.clock)
        self.informers = Informers(self.client)
        self.recorder = Recorder(self.client, self.clock, "kubewright", kinds=(CLUSTER,))
        self.plane = FooServer()

    @asynccontextmanager
    async def running(self, *kinds):
        await self.server.start()
        world = clusters.world(connect=self.plane.connect)
        for each in (*world.definitions(), *map(definition, kinds)):
            await self.user.create(CRD, each)
        session = Session(self.client, self.informers)
        environment = Environment(session, Fixed(session), lambda: True, self.recorder, self.clock, Metrics())
        made = world.wire(environment, ["cluster"])
        runs = [
            self.informers.run,
            self.recorder.run,
            *made.background,
            *(each.run for each in made.controllers),
        ]
        tasks = [asyncio.create_task(run()) for run in runs]
        yield self
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.server.close()

    async def make(self, **spec):
        await self.user.create(CLUSTER, {"metadata": {"name": "demo"}, "spec": spec}, namespace=NS)
        await asyncio.sleep(5)

    async def infra(self, kind=FOO_CLUSTER, **content):
        body = {"metadata": {"name": "demo", "finalizers": [FINALIZER]}, **content}
        await self.user.create(kind, body, namespace=NS)
        await asyncio.sleep(5)

    async def report(self, kind=FOO_CLUSTER, spec=None, **status):
        if spec is not None:
            await self.user.patch(kind, DEMO, {"spec": spec})
        await self.user.patch(kind, DEMO, {"status": status}, subresource="status")
        await asyncio.sleep(5)

    async def change(self, **body):
        await self.user.patch(CLUSTER, DEMO, body)
        await asyncio.sleep(5)

    async def delete(self, kind=CLUSTER, key=DEMO):
        await self.user.delete(kind, key)
        await asyncio.sleep(5)

    async def release(self, kind=FOO_CLUSTER, key=DEMO):
        await self.user.patch(kind, key, {"metadata": {"finalizers": None}})
        await asyncio.sleep(5)

    async def cluster(self):
        return await self.user.get(CLUSTER, DEMO)

    async def said(self, kind):
        conditions = {each.type: each for each in (await self.cluster()).status.conditions}
        found = conditions.get(kind)
        return (found.status, found.reason, found.message) if found else None

    async def gone(self, kind, key=DEMO):
        try:
            await self.user.get(kind, key)
        except NotFound:
            return True
        return False

    def writes(self):
        return [
            (request.method, request.path)
            for _, request in self.line.asked
            if request.method != "GET" and not request.path.endswith("/events")
        ]


@pytest.fixture
def world():
    return World()


READY = {"spec": {"controlPlaneEndpoint": PLACE}, "ready": True}


async def provisioned(world):
    await world.infra()
    await world.make(infrastructureRef=ref(FOO_CLUSTER))
    await world.report(**READY)


async def test_a_cluster_comes_to_provisioned(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        found = await world.cluster()
        assert (found.status.phase, found.status.infrastructure_ready) == ("Provisioned", True)
        assert str(found.spec.control_plane_endpoint) == "10.0.0.1:6443"
        assert found.metadata.finalizers == ("cluster.cluster.x-k8s.io",)
        assert found.status.observed_generation == found.metadata.generation
        assert await world.said("InfrastructureReady") == ("True", "", "")
        infra = await world.user.get(FOO_CLUSTER, DEMO)
        (owner,) = infra["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Cluster", found.metadata.uid, True)
        assert infra["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}


async def test_its_phases_and_its_infrastructure_are_told_as_events(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        told = {(each.reason, each.message) for each in await world.user.list(EVENT, NS)}
        assert {
            ("Provisioning", "Cluster demo is Provisioning"),
            ("Provisioned", "Cluster demo is Provisioned"),
            ("InfrastructureReady", "Cluster demo InfrastructureReady is now true"),
        } <= told


async def test_it_takes_few_writes(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        finalizer, claim, waiting, endpoint, ready = world.writes()
        assert [finalizer[1], endpoint[1]] == [
            f"/apis/cluster.x-k8s.io/v1beta1/namespaces/{NS}/clusters/demo"
        ] * 2
        assert claim[1].endswith("/fooclusters/demo")
        assert [waiting[1], ready[1]] == [f"{finalizer[1]}/status"] * 2


async def test_at_rest_nothing_is_written(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        before = world.writes()
        await asyncio.sleep(10_000)
        assert world.writes() == before


async def test_infrastructure_may_come_later_and_its_kind_too(world):
    async with world.running():
        await world.make(infrastructureRef=ref(FOO_CLUSTER))
        await asyncio.sleep(60)
        status, reason, message = await world.said("InfrastructureReady")
        assert (status, reason) == ("False", "WaitingForInfrastructure")
        assert message.startswith(
            "waiting: the kind FooCluster.infrastructure.cluster.x-k8s.io is not installed"
        )
        before = world.writes()
        await asyncio.sleep(10_000)
        assert world.writes() == before
        await world.user.create(CRD, definition(FOO_CLUSTER))
        await asyncio.sleep(60)
        told = "waiting: there is no FooCluster default/demo; create it, or correct the reference"
        assert (await world.said("InfrastructureReady"))[2] == told
        await world.infra()
        await world.report(**READY)
        assert (await world.cluster()).status.phase == "Provisioned"


async def test_the_finalizer_is_there_before_it_is_known_whether_the_kind_is(world):
    async with world.running():
        await world.make(infrastructureRef=ref(FOO_CLUSTER))
        found = await world.cluster()
        assert found.metadata.finalizers == ("cluster.cluster.x-k8s.io",)
        assert found.status.phase == ""


async def test_a_cluster_whose_kind_does_not_exist_can_be_deleted(world):
    async with world.running():
        await world.make(infrastructureRef=ref(FOO_CLUSTER))
        await asyncio.sleep(60)
        await world.delete()
        assert await world.gone(CLUSTER)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"namespace": "other"},
            "waiting: the reference is to the namespace other, and only default is allowed; correct the reference",
        ),
        ({"kind": ""}, "waiting: the reference has no kind; correct the reference"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap"},
            "waiting: the kind ConfigMap is one of Kubernetes' own, not a provider's; the reference lacks the provider's API group; correct the reference",
        ),
    ],
)
async def test_a_reference_that_leads_nowhere_says_so_and_stops_no_deletion(world, changed, message):
    async with world.running(FOO_CLUSTER):
        await world.infra()
        await world.make(infrastructureRef={**ref(FOO_CLUSTER), **changed})
        assert await world.said("InfrastructureReady") == ("False", "WaitingForInfrastructure", message)
        await world.delete()
        assert await world.gone(CLUSTER)
        assert not await world.gone(FOO_CLUSTER)


async def test_what_another_cluster_has_is_neither_taken_nor_deleted(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        other = {"metadata": {"name": "other"}, "spec": {"infrastructureRef": ref(FOO_CLUSTER)}}
        await world.user.create(CLUSTER, other, namespace=NS)
        await asyncio.sleep(5)
        status = (await world.user.get(CLUSTER, Key(NS, "other"))).status
        (said,) = [each for each in status.conditions if each.type == "InfrastructureReady"]
        assert (said.severity, said.message) == ("Error", "FooCluster demo is controlled by Cluster demo")
        await world.delete(CLUSTER, Key(NS, "other"))
        assert await world.gone(CLUSTER, Key(NS, "other"))
        assert "deletionTimestamp" not in (await world.user.get(FOO_CLUSTER, DEMO))["metadata"]


def child(name, owner, *, spec=None, **labels):
    references = [{"apiVersion": "cluster.x-k8s.io/v1beta1", "controller": True, **owner}] if owner else []
    machine = {
        "clusterName": "demo",
        "bootstrap": {"dataSecretName": "d"},
        "infrastructureRef": ref(FOO_CLUSTER),
    }
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "ownerReferences": references,
            "finalizers": [FINALIZER, "machine.cluster.x-k8s.io"],
        },
        "spec": machine if spec is None else spec,
    }


DEPLOYMENT = {
    "clusterName": "demo",
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"clusterName": "demo", "bootstrap": {}, "infrastructureRef": ref(FOO_CLUSTER)},
    },
}


async def test_deletion_goes_in_order_and_says_what_it_waits_for(world):
    async with world.running(FOO_CLUSTER, FOO_PLANE):
        await world.infra()
        await world.infra(FOO_PLANE)
        await world.make(infrastructureRef=ref(FOO_CLUSTER), controlPlaneRef=ref(FOO_PLANE))
        mine = {"kind": "Cluster", "name": "demo", "uid": (await world.cluster()).metadata.uid}
        await world.user.create(MACHINE_DEPLOYMENT, child("md", mine, spec=DEPLOYMENT), namespace=NS)
        deployment = await world.user.get(MACHINE_DEPLOYMENT, Key(NS, "md"))
        theirs = {"kind": "MachineDeployment", "name": "md", "uid": deployment.metadata.uid}
        await world.user.create(MACHINE, child("w", theirs), namespace=NS)
        await world.delete()
        assert await world.said("Deleting") == (
            "True",
            "WaitingForWorkersDeletion",
            "waiting for MachineDeployment md; Machine w to be deleted",
        )
        assert (await world.user.get(MACHINE_DEPLOYMENT, Key(NS, "md"))).metadata.deleting
        assert not (await world.user.get(MACHINE, Key(NS, "w"))).metadata.deleting
        await world.release(MACHINE_DEPLOYMENT, Key(NS, "md"))
        await world.delete(MACHINE, Key(NS, "w"))
        await world.release(MACHINE, Key(NS, "w"))
        assert (await world.said("Deleting"))[1] == "WaitingForControlPlaneDeletion"
        assert "deletionTimestamp" not in (await world.user.get(FOO_CLUSTER, DEMO))["metadata"]
        await world.release(FOO_PLANE)
        assert (await world.said("Deleting"))[1] == "WaitingForInfrastructureDeletion"
        assert await world.said("ControlPlaneReady") == ("False", "Deleted", "")
        await world.release(FOO_CLUSTER)
        assert await world.gone(CLUSTER)
        told = {(each.reason, each.message) for each in await world.user.list(EVENT, NS)}
        assert ("Deleted", "Cluster demo has been deleted") in told


LABELS = {"cluster.x-k8s.io/cluster-name": "demo"}
SET = {**LABELS, "cluster.x-k8s.io/set-name": "gone", "machine-template-hash": "1"}
FOREIGN = {"kind": "FooPool", "name": "p", "uid": "x", "apiVersion": "foo.example.com/v1"}
LEFT = {
    "a machine that its set has left": (MACHINE, None, None, SET),
    "a machine that nobody made": (MACHINE, None, None, LABELS),
    "a machine of a controller that is gone, or is another program's": (MACHINE, FOREIGN, None, SET),
    "a set that its deployment has left": (
        MACHINE_SET, None, DEPLOYMENT, {**LABELS, "cluster.x-k8s.io/deployment-name": "gone"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "owner", "spec", "labels"), LEFT.values(), ids=LEFT)
async def test_deletion_deletes_whatever_it_waits_for(world, kind, owner, spec, labels):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        await world.user.create(kind, child("left", owner, spec=spec, **labels), namespace=NS)
        await world.delete()
        assert (await world.user.get(kind, Key(NS, "left"))).metadata.deleting
        await world.release(kind, Key(NS, "left"))
        assert (await world.said("Deleting"))[1] == "WaitingForInfrastructureDeletion"


async def test_a_machine_is_deleted_only_when_its_controller_has_begun_with_it(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        new = child("w", None, **LABELS)
        new["metadata"]["finalizers"] = [FINALIZER]
        await world.user.create(MACHINE, new, namespace=NS)
        await world.delete()
        assert not (await world.user.get(MACHINE, Key(NS, "w"))).metadata.deleting
        begun = {"metadata": {"finalizers": [FINALIZER, "machine.cluster.x-k8s.io"]}}
        await world.user.patch(MACHINE, Key(NS, "w"), begun)
        await asyncio.sleep(1)
        assert (await world.user.get(MACHINE, Key(NS, "w"))).metadata.deleting


async def test_machines_that_a_control_plane_has_left_go_with_the_cluster(world):
    async with world.running(FOO_CLUSTER, FOO_PLANE):
        await world.infra()
        await world.infra(FOO_PLANE)
        await world.make(infrastructureRef=ref(FOO_CLUSTER), controlPlaneRef=ref(FOO_PLANE))
        mine = {**LABELS, "cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": "demo"}
        await world.user.create(MACHINE, child("c", None, **mine), namespace=NS)
        await world.delete()
        assert not (await world.user.get(MACHINE, Key(NS, "c"))).metadata.deleting
        await world.release(FOO_PLANE)
        assert (await world.user.get(MACHINE, Key(NS, "c"))).metadata.deleting
        assert await world.said("Deleting") == (
            "True", "WaitingForControlPlaneDeletion", "waiting for Machine c to be deleted",
        )  # fmt: skip
        assert "deletionTimestamp" not in (await world.user.get(FOO_CLUSTER, DEMO))["metadata"]


async def test_a_deletion_names_what_is_paused_and_so_holds_it_up(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        paused = child("w", None, **LABELS)
        paused["metadata"]["annotations"] = {"cluster.x-k8s.io/paused": ""}
        await world.user.create(MACHINE, paused, namespace=NS)
        await world.delete()
        assert (await world.said("Deleting"))[2] == "waiting for Machine w (paused) to be deleted"


async def test_a_paused_cluster_is_never_written(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        await world.change(spec={"paused": True})
        before = world.writes()
        await world.report(ready=False)
        await world.delete()
        await asyncio.sleep(3600)
        assert world.writes() == before
        await world.change(spec={"paused": False})
        await world.release()
        assert await world.gone(CLUSTER)


async def test_a_cluster_goes_on_when_its_pause_ends(world):
    async with world.running(FOO_CLUSTER):
        await world.infra()
        await world.make(infrastructureRef=ref(FOO_CLUSTER), paused=True)
        assert world.writes() == []
        await world.change(spec={"paused": False})
        await world.report(**READY)
        assert (await world.cluster()).status.phase == "Provisioned"


async def test_a_status_that_a_move_lost_comes_back_the_same(world):
    async with world.running(FOO_CLUSTER, FOO_PLANE):
        await world.infra()
        await world.infra(FOO_PLANE)
        await world.make(infrastructureRef=ref(FOO_CLUSTER), controlPlaneRef=ref(FOO_PLANE))
        await world.report(**READY, failureDomains={"a": {"controlPlane": True}})
        await world.report(FOO_PLANE, ready=True, initialized=True)
        before = (await world.cluster()).status
        assert before.control_plane_ready
        await world.user.patch(CLUSTER, DEMO, {"status": None}, subresource="status")
        await asyncio.sleep(5)
        after = (await world.cluster()).status
        assert undated(after) == undated(before)


def undated(status):
    plain = CLUSTER.to_plain(CLUSTER.type(status=status))["status"]
    return {**plain, "conditions": [{**each, "lastTransitionTime": ""} for each in plain["conditions"]]}


async def test_a_control_plane_elsewhere_needs_no_kubeconfig_of_ours(world):
    async with world.running(FOO_CLUSTER, FOO_PLANE):
        await world.infra()
        await world.infra(FOO_PLANE)
        await world.make(infrastructureRef=ref(FOO_CLUSTER), controlPlaneRef=ref(FOO_PLANE))
        await world.report(**READY)
        await world.report(FOO_PLANE, ready=True, initialized=True, externalManagedControlPlane=True)
        assert await world.said("ControlPlaneInitialized") == ("True", "", "")
        assert await world.said("Ready") == ("True", "", "")
        assert await world.gone(SECRET, Key(NS, "demo-kubeconfig"))


async def test_initialized_stays_when_the_provider_forgets_it(world):
    async with world.running(FOO_CLUSTER, FOO_PLANE):
        await world.infra(FOO_PLANE)
        await world.make(controlPlaneRef=ref(FOO_PLANE))
        await world.report(FOO_PLANE, initialized=True)
        await world.report(FOO_PLANE, initialized=False)
        assert await world.said("ControlPlaneInitialized") == ("True", "", "")


def authority(pair, **metadata):
    return {
        "metadata": {"name": "demo-ca", **metadata},
        "type": "cluster.x-k8s.io/secret",
        "data": {"tls.crt": b64encode(pair.certificate).decode(), "tls.key": b64encode(pair.key).decode()},
    }


LABELLED = {"labels": {"cluster.x-k8s.io/cluster-name": "demo"}}


@pytest.mark.parametrize("metadata", [LABELLED, {}], ids=["with the label", "without the label"])
async def test_a_kubeconfig_is_made_once_the_authority_is_there(world, metadata):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        assert (await world.said("ControlPlaneInitialized"))[2] == (
            "waiting for Secret demo-ca, by which the kubeconfig is signed"
        )
        await world.user.create(
            SECRET,
            authority(new_cluster_authority(world.clock.now(), Algorithm.EC), **metadata),
            namespace=NS,
        )
        await asyncio.sleep(35)
        secret = await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))
        assert inline_access(secret.data["value"]).server == "https://10.0.0.1:6443"
        assert (secret.type, secret.metadata.labels) == ("cluster.x-k8s.io/secret", LABELLED["labels"])
        assert [each.kind for each in secret.metadata.owner_references] == ["Cluster"]


async def test_a_secret_that_is_not_there_is_asked_for_every_half_minute(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        began = world.clock.monotonic()
        for number in range(20):
            await world.user.patch(CLUSTER, DEMO, {"metadata": {"annotations": {"n": str(number)}}})
            await asyncio.sleep(3)
        asked = [
            request.path for at, request in world.line.asked if at >= began and "secrets/" in request.path
        ]
        assert 2 <= asked.count(f"/api/v1/namespaces/{NS}/secrets/demo-ca") <= 3


async def test_a_kubeconfig_that_is_made_here_is_neither_asked_for_nor_read_back(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        pair = new_cluster_authority(world.clock.now(), Algorithm.EC)
        await world.user.create(SECRET, authority(pair, **LABELLED), namespace=NS)
        await asyncio.sleep(5)
        assert await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))
        asked = [request for _, request in world.line.asked if request.method == "GET"]
        assert not [request for request in asked if request.path.endswith("secrets/demo-kubeconfig")]


async def test_a_users_own_kubeconfig_is_found_where_none_can_be_made(world):
    async with world.running(FOO_CLUSTER):
        mine = {"metadata": {"name": "demo-kubeconfig"}, "stringData": {"value": "mine"}}
        await world.user.create(SECRET, mine, namespace=NS)
        await provisioned(world)
        waits = "waiting for Secret demo-ca, by which the kubeconfig is signed"
        assert (await world.said("ControlPlaneInitialized"))[2] == waits
        await asyncio.sleep(40)
        assert (await world.said("ControlPlaneInitialized"))[2] != waits


async def test_a_users_own_kubeconfig_without_the_label_is_taken_as_it_is(world):
    async with world.running(FOO_CLUSTER):
        mine = {"metadata": {"name": "demo-kubeconfig"}, "stringData": {"value": "mine"}}
        await world.user.create(SECRET, mine, namespace=NS)
        pair = new_cluster_authority(world.clock.now(), Algorithm.EC)
        await world.user.create(SECRET, authority(pair, **LABELLED), namespace=NS)
        await provisioned(world)
        began = world.clock.monotonic()
        await asyncio.sleep(600)
        assert (await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))).data == {"value": b"mine"}
        assert not [request for at, request in world.line.asked if at >= began and request.method == "POST"]


async def test_a_kubeconfig_is_made_anew_when_half_of_its_life_is_over(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        short = certificates.new_authority("kubernetes", world.clock.now(), timedelta(hours=5))
        pair = KeyPair(short.certificate, short.key)  # a certificate does not outlive its authority
        await world.user.create(SECRET, authority(pair, **LABELLED), namespace=NS)
        await asyncio.sleep(5)
        before = (await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))).data
        await asyncio.sleep(timedelta(hours=1.9).total_seconds())
        assert (await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))).data == before
        await asyncio.sleep(timedelta(hours=0.2).total_seconds())
        assert (await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))).data != before


async def test_another_authority_replaces_the_kubeconfig_once_the_api_server_verifies_by_it(world):
    first, second = (new_cluster_authority(world.clock.now(), Algorithm.EC) for _ in range(2))

    async def held():
        return inline_access((await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))).data["value"]).ca

    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        world.plane.pair = first
        await world.user.create(SECRET, authority(first, **LABELLED), namespace=NS)
        await asyncio.sleep(5)
        assert (await held(), await world.said("CertificateAuthorityVerified")) == (first.certificate, None)
        await world.user.patch(SECRET, Key(NS, "demo-ca"), {"data": authority(second)["data"]})
        await asyncio.sleep(200)
        differs = "the kubeconfig has another authority than Secret demo-ca, and stays: its API server"
        assert await held() == first.certificate
        status, reason, message = await world.said("CertificateAuthorityVerified")
        assert (status, reason) == ("False", "CertificateAuthorityDiffers")
        assert message == f"{differs} shows a certificate that this authority has not signed"
        assert 4 <= world.plane.asked <= 9
        world.plane.pair = None
        await asyncio.sleep(70)
        assert await held() == first.certificate
        told = (await world.said("CertificateAuthorityVerified"))[2]
        assert told == f"{differs} cannot be asked: connection refused"
        world.plane.pair = second
        await asyncio.sleep(70)
        assert await held() == second.certificate
        assert await world.said("CertificateAuthorityVerified") == ("True", "", "")
        (event,) = {
            each.message for each in await world.user.list(EVENT, NS) if each.reason == "CertificateAuthorityDiffers"
            and "has not signed" in each.message
        }  # fmt: skip
        assert event == f"{differs} shows a certificate that this authority has not signed"


async def test_an_authority_that_comes_back_ends_the_difference(world):
    first, second = (new_cluster_authority(world.clock.now(), Algorithm.EC) for _ in range(2))
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        world.plane.pair = first
        await world.user.create(SECRET, authority(first, **LABELLED), namespace=NS)
        await asyncio.sleep(5)
        before = (await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))).data
        for pair in (second, first):
            await world.user.patch(SECRET, Key(NS, "demo-ca"), {"data": authority(pair)["data"]})
            await asyncio.sleep(70)
        assert (await world.user.get(SECRET, Key(NS, "demo-kubeconfig"))).data == before
        assert await world.said("CertificateAuthorityVerified") == ("True", "", "")


async def test_a_first_node_initializes_a_control_plane_without_a_provider(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        label = {"cluster.x-k8s.io/control-plane": ""}
        await world.user.create(MACHINE, child("c", None, **label), namespace=NS)
        await world.user.create(MACHINE, child("w", None), namespace=NS)
        node = {"status": {"nodeRef": {"kind": "Node", "name": "n"}}}
        await world.user.patch(MACHINE, Key(NS, "w"), node, subresource="status")
        await asyncio.sleep(5)
        assert (await world.said("ControlPlaneInitialized"))[:2] == ("False", "MissingNodeRef")
        await world.user.patch(MACHINE, Key(NS, "c"), node, subresource="status")
        await asyncio.sleep(5)
        assert (await world.said("ControlPlaneInitialized"))[:2] == ("True", "")


async def test_a_failure_ends_when_the_provider_ends_it(world):
    async with world.running(FOO_CLUSTER):
        await provisioned(world)
        await world.report(failureReason="CreateError", failureMessage="no quota", ready=False)
        status = (await world.cluster()).status
        assert (status.phase, status.failure_reason) == ("Failed", "CreateError")
        await world.report(failureReason=None, failureMessage=None, ready=True)
        status = (await world.cluster()).status
        assert (status.phase, status.failure_reason, status.failure_message) == ("Provisioned", None, None)


async def test_the_roles_that_we_ship_allow_all_that_a_life_of_a_cluster_asks_for(world):
    async with world.running(FOO_CLUSTER, FOO_PLANE):
        await provisioned(world)
        await world.user.create(
            SECRET,
            authority(new_cluster_authority(world.clock.now(), Algorithm.EC), **LABELLED),
            namespace=NS,
        )
        mine = {"kind": "Cluster", "name": "demo", "uid": (await world.cluster()).metadata.uid}
        await world.user.create(MACHINE_DEPLOYMENT, child("md", mine, spec=DEPLOYMENT), namespace=NS)
        await world.delete()
        await world.release(MACHINE_DEPLOYMENT, Key(NS, "md"))
        await world.release()
        assert await world.gone(CLUSTER)
    needs = {need for _, request in world.line.asked for need in permissions.asked(request)}
    assert permissions.missing(needs, permissions.granted(manifests.manifest())) == []
