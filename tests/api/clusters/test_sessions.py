"""Sessions with workload clusters, from the Secrets with their kubeconfigs."""

import asyncio
import base64
from contextlib import asynccontextmanager

import msgspec
import pytest
import structlog

from kubewright.api.cluster.manifests import crds
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    ObjectReference,
)
from kubewright.api.core import CRD, NODE, SECRET
from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.clusters.node import BY_PROVIDER_ID, CLUSTER_NODE, INDEXES
from kubewright.clusters.sessions import (
    Kubeconfig,
    Kubeconfigs,
    WorkloadClusters,
    read,
    reason_to_wait,
)
from kubewright.kube import header as headers
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.sessions.session import NotConnected, Session
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty
from kubewright.wire.gvk import Key

LABEL = "cluster.x-k8s.io/cluster-name"
DEMO = Key("default", "demo")


def kubeconfig(server="https://demo:6443", **user):
    """A kubeconfig in JSON, which is YAML too."""
    return msgspec.json.encode(
        {
            "current-context": "admin@demo",
            "contexts": [{"name": "admin@demo", "context": {"cluster": "demo", "user": "admin"}}],
            "clusters": [{"name": "demo", "cluster": {"server": server}}],
            "users": [{"name": "admin", "user": user or {"token": "s3cr3t"}}],
        }
    )


def secret(value=None, *, cluster="demo", name="", label=True, key="value"):
    data = {} if value is None else {key: base64.b64encode(value).decode()}
    labels = {LABEL: cluster} if label else {}
    return {"metadata": {"name": name or f"{cluster}-kubeconfig", "labels": labels}, "data": data}


class World:
    """A management cluster, workload clusters by the URL of their kubeconfig, and the lookup."""

    def __init__(self, **given):
        self.clock = LoopClock()
        self.server = ApiServer(self.clock)
        self.line = Faulty(InProcess(self.server.handle), self.clock, lambda _request: None)
        self.client = Client(InProcess(self.server.handle), self.clock)
        self.informers = Informers(Client(self.line, self.clock))
        self.workloads = {"https://demo:6443": ApiServer(self.clock)}
        self.reached = []
        control = Session(self.informers.client, self.informers)
        self.lookup = WorkloadClusters(control, connect=self._connect, **given)
        self.lookup.cache(CLUSTER_NODE, INDEXES)

    def _connect(self, access, clock):
        self.reached.append(access)
        return InProcess(self.workloads[access.server].handle)

    async def cluster(self, name="demo", **spec):
        await self.client.create(CLUSTER, {"metadata": {"name": name}, "spec": spec}, namespace="default")

    async def put(self, body):
        await self.client.create(dynamic(SECRET.resource), body, namespace="default")

    async def change(self, body):
        key = Key("default", body["metadata"]["name"])
        await self.client.patch(dynamic(SECRET.resource), key, {"data": body["data"]})

    def why(self, cluster=DEMO):
        with pytest.raises(NotConnected) as refused:
            self.lookup.get(cluster)
        return str(refused.value)

    @asynccontextmanager
    async def running(self):
        for each in (self.server, *self.workloads.values()):
            await each.start()
        for each in crds():
            await self.client.create(CRD, each)
        tasks = [asyncio.create_task(each.run()) for each in (self.informers, self.lookup)]
        await asyncio.sleep(1)
        yield self
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for each in (self.server, *self.workloads.values()):
            await each.close()


@pytest.fixture
def world():
    return World()


async def test_a_cluster_with_a_kubeconfig_is_connected(world):
    async with world.running():
        await world.cluster()
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(2)
        assert world.lookup.get(DEMO).cluster == DEMO


async def test_a_cluster_of_another_watch_filter_is_not_connected_to():
    world = World(admits=lambda labels: labels.get("shard") == "a")
    async with world.running():
        await world.cluster()
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(2)
        assert "label of the watch filter" in world.why()
        assert world.reached == []
        for value in ("a", "b"):
            await world.client.patch(CLUSTER, DEMO, {"metadata": {"labels": {"shard": value}}})
            await asyncio.sleep(2)
            assert (world.lookup.health(DEMO) is not None) is (value == "a")


async def test_the_lookup_says_what_is_missing(world):
    async with world.running():
        assert world.why() == "cluster default/demo is not connected: there is no such Cluster"
        await world.cluster()
        await asyncio.sleep(1)
        missing = (
            "there is no Secret default/demo-kubeconfig; one without the label "
            "cluster.x-k8s.io/cluster-name=demo is noticed within a minute"
        )
        assert world.why().endswith(missing)
        await world.put(secret(kubeconfig(), label=False))
        await asyncio.sleep(1)
        assert world.why().endswith(missing)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (secret(), "Secret default/demo-kubeconfig has no value"),
        (secret(kubeconfig(), key="kubeconfig"), "Secret default/demo-kubeconfig has no value"),
        (secret(b"\x00\x01 rubbish"), "the kubeconfig in Secret default/demo-kubeconfig: not YAML"),
        (secret(b"hello"), "the kubeconfig in Secret default/demo-kubeconfig: not a kubeconfig"),
        (
            secret(kubeconfig(exec={"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"})),
            "the kubeconfig in Secret default/demo-kubeconfig: exec is a program, and a kubeconfig from a "
            "Secret may hold only inline data",
        ),
        (
            secret(kubeconfig(tokenFile="/etc/passwd")),
            "the kubeconfig in Secret default/demo-kubeconfig: tokenFile is a path, and a kubeconfig from a "
            "Secret may hold only inline data",
        ),
        (
            secret(kubeconfig(**{"auth-provider": {"name": "gcp"}})),
            "the kubeconfig in Secret default/demo-kubeconfig: auth-provider is a credential plugin, and a "
            "kubeconfig from a Secret may hold only inline data",
        ),
    ],
    ids=["no value", "another key", "no YAML", "no kubeconfig", "a program", "a file", "an auth provider"],
)
async def test_a_secret_of_no_use_is_named_and_mended_by_another(world, body, problem):
    async with world.running():
        await world.cluster()
        await world.put(body)
        await asyncio.sleep(2)
        assert problem in world.why()
        await asyncio.sleep(3600)
        await world.change(secret(kubeconfig()))
        await asyncio.sleep(2)
        assert world.lookup.get(DEMO).cluster == DEMO


async def test_another_kubeconfig_is_used_at_once(world):
    async with world.running():
        await world.cluster()
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(2)
        before = world.lookup.get(DEMO)
        await world.change(secret(kubeconfig(token="n3w")))
        await asyncio.sleep(2)
        assert world.lookup.get(DEMO) is not before
        assert len(world.reached) == 2


async def test_the_same_kubeconfig_with_another_label_changes_nothing(world):
    async with world.running():
        await world.cluster()
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(2)
        before = world.lookup.get(DEMO)
        key = Key("default", "demo-kubeconfig")
        await world.client.patch(dynamic(SECRET.resource), key, {"metadata": {"labels": {"team": "red"}}})
        await asyncio.sleep(2)
        assert world.lookup.get(DEMO) is before


@pytest.mark.parametrize(
    ("kind", "key", "why"),
    [
        (CLUSTER, DEMO, "there is no such Cluster"),
        (SECRET, Key("default", "demo-kubeconfig"), "there is no Secret default/demo-kubeconfig"),
    ],
    ids=["the Cluster", "its Secret"],
)
async def test_the_session_ends_with(world, kind, key, why):
    async with world.running():
        await world.cluster()
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(2)
        await world.client.delete(kind, key)
        await asyncio.sleep(1)
        assert why in world.why()


async def test_a_provided_control_plane_is_reached_once_it_is_initialized_and_from_then_on(world):
    reference = {"apiVersion": "controlplane.example.com/v1", "kind": "Foo", "name": "demo"}
    async with world.running():
        await world.cluster(controlPlaneRef=reference)
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(60)
        assert world.why().endswith("its control plane is not initialized yet")
        assert world.reached == []
        done = {
            "type": "ControlPlaneInitialized",
            "status": "True",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        status = {"status": {"conditions": [done]}}
        await world.client.patch(dynamic(CLUSTER.resource), DEMO, status, subresource="status")
        await asyncio.sleep(1)
        session = world.lookup.get(DEMO)
        await world.client.patch(
            dynamic(CLUSTER.resource), DEMO, {"status": {"conditions": None}}, subresource="status"
        )
        await asyncio.sleep(1)
        assert world.lookup.get(DEMO) is session


async def test_nodes_are_kept_pruned_and_found_by_provider_id(world):
    async with world.running():
        await world.cluster()
        workload = Client(InProcess(world.workloads["https://demo:6443"].handle), world.clock)
        images = [{"names": [f"registry.example.com/image-{n}:v1"], "sizeBytes": 1} for n in range(50)]
        await workload.create(
            dynamic(NODE.resource),
            {"metadata": {"name": "n"}, "spec": {"providerID": "foo:///1"}},
        )
        status = {
            "images": images,
            "nodeInfo": {"kubeletVersion": "v1.30.0"},
            "volumesAttached": [{"name": "vol-1", "devicePath": "/dev/x"}],
        }
        await workload.patch(dynamic(NODE.resource), Key("", "n"), {"status": status}, subresource="status")
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(2)
        nodes = world.lookup.get(DEMO).informer(CLUSTER_NODE)
        (node,) = nodes.by(BY_PROVIDER_ID, "foo:///1")
        assert node.status.node_info.kubelet_version == "v1.30.0"
        assert [each.name for each in node.status.volumes_attached] == ["vol-1"]
        assert nodes.statistics().bytes < 800


async def test_a_kubeconfig_without_the_label_is_found_within_a_minute_changed_and_gone_too(world):
    async with world.running():
        await world.cluster()
        await world.put(secret(kubeconfig(), label=False))
        assert "one without the label" in world.why()
        await asyncio.sleep(60)
        first = world.lookup.get(DEMO)
        await world.change(secret(kubeconfig(token="n3w")))
        await asyncio.sleep(31)
        assert world.lookup.get(DEMO) is not first
        await world.client.delete(SECRET, Key("default", "demo-kubeconfig"))
        await asyncio.sleep(31)
        assert "there is no Secret default/demo-kubeconfig" in world.why()


async def test_a_kubeconfig_that_gets_the_label_later_keeps_its_session_and_is_heard_of_from_then_on(world):
    async with world.running():
        await world.cluster()
        await world.put(secret(kubeconfig(), label=False))
        await asyncio.sleep(60)
        first, key = world.lookup.get(DEMO), Key("default", "demo-kubeconfig")
        await world.client.patch(dynamic(SECRET.resource), key, {"metadata": {"labels": {LABEL: "demo"}}})
        await asyncio.sleep(90)
        assert world.lookup.get(DEMO) is first
        await world.change(secret(kubeconfig(token="n3w")))
        await asyncio.sleep(2)
        assert world.lookup.get(DEMO) is not first


async def test_the_secret_of_a_cluster_is_not_asked_for_where_the_label_brings_it(world):
    async with world.running():
        await world.cluster()
        await asyncio.sleep(20)
        await world.put(secret(kubeconfig()))
        await asyncio.sleep(600)
        asked = [request for _, request in world.line.asked if request.path.endswith("/demo-kubeconfig")]
        assert [request.method for request in asked] == []


async def test_a_thousand_clusters_are_connected(world):
    async with world.running():
        for number in range(1000):
            await world.cluster(f"c{number}")
            await world.put(secret(kubeconfig(), cluster=f"c{number}"))
        await asyncio.sleep(60)
        sessions = {world.lookup.get(Key("default", f"c{number}")).cluster.name for number in range(1000)}
        assert len(sessions) == 1000


async def test_a_kubeconfig_is_in_no_log_and_no_repr(world):
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as logged:
        async with world.running():
            await world.cluster()
            await world.put(secret(kubeconfig()))
            await asyncio.sleep(2)
            await world.change(secret(b"s3cr3t: ["))
            await asyncio.sleep(2)
            shown = f"{logged} {world.lookup!r} {vars(world.lookup)!r} {world.why()} {world.reached!r}"
    assert any(each["event"] == "not connected" for each in logged)
    assert "s3cr3t" not in shown


def stored(body, version="1"):
    metadata = {**body["metadata"], "namespace": "default", "uid": "u", "resourceVersion": version}
    return headers.read(msgspec.json.encode({**body, "metadata": metadata}))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (secret(b"x"), (DEMO, Kubeconfig(b"x"))),
        (secret(), (DEMO, Kubeconfig(problem="Secret default/demo-kubeconfig has no value"))),
        (secret(b"x", name="demo-ca"), None),
        (secret(b"x", name="other-kubeconfig"), None),
        (secret(b"x", label=False), None),
        (
            {**secret(), "data": {"value": "!"}},
            (DEMO, Kubeconfig(problem="Secret default/demo-kubeconfig cannot be read")),
        ),
    ],
    ids=["the kubeconfig", "no value", "a certificate", "another cluster's name", "no label", "no base64"],
)
def test_a_secret_holds(body, found):
    assert read(stored(body)) == found


def test_a_list_tells_what_came_changed_and_went():
    told = []
    kept = Kubeconfigs(lambda cluster: told.append(cluster.name))
    kept.begin()
    kept.page(1, [stored(secret(b"x", cluster=name)) for name in ("a", "b", "c")])
    kept.end()
    assert sorted(told) == ["a", "b", "c"]
    told.clear()
    kept.begin()
    kept.page(5, [stored(secret(b"x", cluster="a")), stored(secret(b"y", cluster="b"))])
    kept.end()
    assert sorted(told) == ["b", "c"]
    assert kept.get(Key("default", "c")) is None


def provided(*conditions):
    reference = ObjectReference(api_version="a/v1", kind="Foo", name="demo")
    return Cluster(spec=ClusterSpec(control_plane_ref=reference), status=ClusterStatus(conditions=conditions))


@pytest.mark.parametrize(
    ("cluster", "waits"),
    [
        (Cluster(), False),
        (provided(), True),
        (provided(Condition(type="ControlPlaneInitialized", status="False")), True),
        (provided(Condition(type="ControlPlaneInitialized", status="True")), False),
    ],
    ids=["its machines tell", "nothing known", "not initialized", "initialized"],
)
def test_a_connection_waits_for_the_control_plane(cluster, waits):
    assert bool(reason_to_wait(cluster)) is waits
