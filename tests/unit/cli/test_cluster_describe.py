"""A cluster as a tree, its text, and what is said when there is nothing to show."""

from base64 import b64encode
from datetime import UTC, datetime

import pytest

from kubewright.api import catalog
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import CRD, SECRET
from kubewright.apiserver.server import ApiServer
from kubewright.base.errors import InvalidInput
from kubewright.cli.cluster import command
from kubewright.cli.cluster import tree as page
from kubewright.cli.cluster.tree import ClusterObjects, tree
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

NOW = datetime(2030, 1, 1, 12, 5, tzinfo=UTC)
AT = "2030-01-01T12:00:00Z"
DEMO = Key("default", "demo")


def condition(kind, status="True", **more):
    return {"type": kind, "status": status, "lastTransitionTime": AT, **more}


def thing(kind, name, *conditions, owner="", labels=None, spec=None, **status):
    owners = [{"kind": owner.split()[0], "name": owner.split()[1], "controller": True}] if owner else []
    return {
        "kind": kind,
        "metadata": {"name": name, "labels": labels or {}, "ownerReferences": owners},
        "spec": spec or {},
        "status": {**status, "conditions": list(conditions)},
    }


READY = condition("Ready")
REFS = {"infrastructureRef": {"kind": "FooCluster", "name": "demo"}}
BOTH = {**REFS, "controlPlaneRef": {"kind": "FooPlane", "name": "plane"}}
MASTER = {"cluster.x-k8s.io/control-plane": ""}
PENDING = condition("BootstrapReady", "False", reason="WaitingForDataSecret", severity="Info")


def shown(read):
    return page.text(list(page.lines(tree(read), NOW)))


def test_a_whole_cluster():
    others = [
        thing("MachineDeployment", "md", READY, spec={"replicas": 3}, phase="Running", readyReplicas=2, replicas=3),
        thing("MachineSet", "md-1", READY, owner="MachineDeployment md", spec={"replicas": 3}, readyReplicas=2, replicas=4),
        thing("Machine", "w1", READY, owner="MachineSet md-1", phase="Running"),
        thing("Machine", "w2", READY, owner="MachineSet md-1", phase="Running"),
        thing("Machine", "w3", condition("Ready", "False", reason="x"), PENDING, owner="MachineSet md-1", phase="Pending"),
        thing("Machine", "c1", READY, owner="FooPlane plane", labels=MASTER, phase="Running"),
        thing("MachineHealthCheck", "check", READY),
    ]  # fmt: skip
    infra, plane = thing("FooCluster", "demo", READY), thing("FooPlane", "plane", READY)
    cluster = thing("Cluster", "demo", READY, spec=BOTH, phase="Provisioned")
    assert shown(ClusterObjects(cluster, infra, plane, others)) == [
        "NAME                         PHASE        READY  SINCE  REPLICAS",
        "Cluster demo                 Provisioned  True   5m",
        "├─ FooCluster demo                        True   5m",
        "├─ FooPlane plane                         True   5m",
        "│  └─ Machine c1             Running      True   5m",
        "├─ Workers",
        "│  └─ MachineDeployment md   Running      True   5m     2 of 3 ready",
        "│     └─ MachineSet md-1                  True   5m     2 of 3 ready, 4 there",
        "│        ├─ 2 Machines       Running      True   5m",
        "│        │      w1, w2",
        "│        └─ Machine w3       Pending      False  5m",
        "│               BootstrapReady: WaitingForDataSecret",
        "└─ MachineHealthCheck check               True   5m",
    ]


def test_many_machines_that_say_the_same_are_one_line():
    many = [thing("Machine", f"w{n}", READY, phase="Running") for n in range(5)]
    lines = shown(ClusterObjects(thing("Cluster", "demo"), others=many))
    assert lines[-2:] == ["   └─ 5 Machines  Running  True   5m", "          w0, w1, w2 and 2 more"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_the_ends_of_names_are_seen(width):
    name = f"{'green-' * 8}5mkx2"
    others = [
        thing("MachineDeployment", name, READY, spec={"replicas": 3}, phase="ScalingUp", readyReplicas=3, replicas=3),
        thing("Machine", f"{name}-pkh6p", PENDING, owner=f"MachineDeployment {name}", phase="Provisioning"),
        thing("Machine", "c1", condition("Ready", "False", message="it waits " * 20), owner="FooPlane x"),
    ]  # fmt: skip
    found = page.text(
        list(page.lines(tree(ClusterObjects(thing("Cluster", "demo"), others=others)), NOW)), width
    )
    rows = [row for line in found for row in line.split("\n")]
    assert max(map(len, rows)) <= max(width, 66)
    assert any(row.split("  ")[0].endswith("pkh6p") or "pkh6p " in row for row in rows)
    assert "ScalingUp" in "\n".join(rows)


def test_what_is_missing_is_shown_as_missing():
    found = tree(
        ClusterObjects(thing("Cluster", "demo", spec=BOTH), "there is no FooCluster demo", "not installed")
    )
    infra, plane = found.children
    assert (infra.kind, infra.name, infra.waits_for) == (
        "FooCluster",
        "demo",
        ("there is no FooCluster demo",),
    )
    assert (plane.name, plane.waits_for) == ("plane", ("not installed",))


ETCD, SERVER = {"kind": "NestedEtcd", "name": "e"}, {"kind": "NestedAPIServer", "name": "s"}
MANAGER = {"kind": "NestedControllerManager", "name": "m"}
NEEDS_ETCD = condition(
    "DependenciesReady", "False", reason="WaitingForDependency", message="NestedEtcd e is not ready"
)
NOT_READY = condition("Ready", "False", reason="NotReady")
COMPONENTS = [
    (
        "all are ready",
        [(ETCD, thing(*ETCD.values(), READY, spec={"replicas": 3}, phase="Ready", replicas=3, readyReplicas=3)),
         (SERVER, thing(*SERVER.values(), READY, spec={"replicas": 1}, phase="Ready", replicas=1, readyReplicas=1))],
        ["NestedEtcd e Ready True 5m 3 of 3 ready",
         "NestedAPIServer s Ready True 5m 1 of 1 ready"],
    ),
    (
        "one waits for another",
        [(ETCD, thing(*ETCD.values(), NOT_READY, phase="Provisioning")),
         (SERVER, thing(*SERVER.values(), NOT_READY, NEEDS_ETCD, phase="WaitingForDependency"))],
        ["NestedEtcd e Provisioning False 5m",
         "Ready: NotReady",
         "NestedAPIServer s WaitingForDependency False 5m",
         "DependenciesReady: NestedEtcd e is not ready"],
    ),
    (
        "one is not there",
        [(MANAGER, "there is no NestedControllerManager m")],
        ["NestedControllerManager m", "there is no NestedControllerManager m"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("components", "said"), [row[1:] for row in COMPONENTS], ids=[row[0] for row in COMPONENTS]
)
def test_the_components_of_a_control_plane_are_below_it(components, said):
    plane = thing("NestedControlPlane", "plane", READY)
    read = ClusterObjects(
        thing("Cluster", "demo", READY, spec=BOTH), control_plane=plane, components=components
    )
    _, _, rest = "\n".join(shown(read)).partition("NestedControlPlane plane")
    assert [" ".join(line.strip("│├└─ ").split()) for line in rest.splitlines()[1:]] == said


def test_machines_of_a_control_plane_without_a_provider_have_a_heading():
    found = tree(ClusterObjects(thing("Cluster", "demo"), others=[thing("Machine", "c1", labels=MASTER)]))
    (heading,) = found.children
    assert (heading.kind, heading.name, [each.name for each in heading.children]) == (
        "",
        "Control plane",
        ["c1"],
    )


WAITS = [
    ("nothing", [READY], ()),
    ("Ready where it is alone", [condition("Ready", "False", reason="A", message="b")], ("Ready: b",)),
    ("the others rather than Ready",
     [condition("Ready", "False", message="b"), condition("X", "False", reason="R")], ("X: R",)),
    ("a deletion", [READY, condition("Deleting", message="waiting for Machine a to be deleted")],
     ("Deleting: waiting for Machine a to be deleted",)),
    ("what is not known", [condition("X", "Unknown")], ("X: Unknown",)),
    ("a control plane that sleeps", [READY, condition("Sleeping", message="NestedAPIServer s")],
     ("Sleeping: NestedAPIServer s",)),
    ("a rollout that is over", [READY, condition("RollingOut", "False")], ()),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "said"), [row[1:] for row in WAITS], ids=[row[0] for row in WAITS])
def test_what_is_waited_for(conditions, said):
    assert tree(ClusterObjects(thing("Cluster", "demo", *conditions))).waits_for == said


COLOURS = [
    ("ready", thing("Cluster", "demo", READY), page.GOOD),
    ("no condition yet", thing("Cluster", "demo"), page.WAITING),
    ("waiting", thing("Cluster", "demo", condition("Ready", "False", severity="Info")), page.WAITING),
    ("an error", thing("Cluster", "demo", condition("Ready", "False", severity="Error")), page.BAD),
    ("failed", thing("Cluster", "demo", READY, phase="Failed"), page.BAD),
]


@pytest.mark.parametrize(("cluster", "colour"), [row[1:] for row in COLOURS], ids=[row[0] for row in COLOURS])
def test_colours(cluster, colour):
    _, line, *_ = page.lines(tree(ClusterObjects(cluster)), NOW)
    assert line.colour == colour


def test_an_object_that_is_bent_is_shown_as_far_as_it_can_be_read():
    bent = {
        "kind": "Machine",
        "metadata": {"name": "m", "ownerReferences": "none"},
        "status": {"conditions": [7]},
    }
    found = tree(ClusterObjects({"metadata": {"name": "demo"}, "spec": "no"}, others=[bent]))
    assert [each.name for each in found.children[0].children] == ["m"]


@pytest.fixture
async def client():
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    client = Client(InProcess(server.handle), clock, name="https://here")
    yield client
    await server.close()


async def made(client, **spec):
    for each in catalog.crds():
        await client.create(CRD, each)
    await client.create(CLUSTER, {"metadata": {"name": "demo"}, "spec": spec}, namespace="default")


async def test_objects_are_read_by_the_cluster_that_they_name(client):
    ref = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "KubewrightCluster",
        "name": "demo",
    }
    await made(
        client, infrastructureRef=ref, controlPlaneRef={**ref, "apiVersion": "nowhere/v1", "kind": "Foo"}
    )
    read = await command.read(client, DEMO)
    assert (read.infrastructure, read.control_plane) == (
        "there is no KubewrightCluster demo",
        "the kind Foo.nowhere is not installed",
    )


async def test_the_components_are_those_that_the_control_plane_names(client):
    nested = "controlplane.cluster.x-k8s.io/v1alpha4"
    await made(client, controlPlaneRef={"apiVersion": nested, "kind": "NestedControlPlane", "name": "plane"})
    spec = {"etcd": {"name": "e"}, "controllerManager": {"name": "m"}}
    await client.create(
        NESTED_CONTROL_PLANE, {"metadata": {"name": "plane"}, "spec": spec}, namespace="default"
    )
    await client.create(NESTED_ETCD, {"metadata": {"name": "e"}}, namespace="default")
    found = [found for _, found in (await command.read(client, DEMO)).components]
    assert (found[0]["kind"], found[1:]) == ("NestedEtcd", ["there is no NestedControllerManager m"])


def test_what_a_condition_says_is_no_command_to_the_terminal():
    told = page.text([page.Line(page.HEAD), page.Line(("waits\x1b[2J",), hang="  ")])
    assert told[1] == "waits[2J"


async def test_a_cluster_that_does_not_exist(client):
    with pytest.raises(InvalidInput, match=r"https://here does not serve clusters\.cluster"):
        await command.read(client, DEMO)
    await made(client)
    with pytest.raises(InvalidInput, match="there is no cluster other in namespace default; there are: demo"):
        await command.read(client, Key("default", "other"))
    with pytest.raises(InvalidInput, match="https://here has no namespace else"):
        await command.kubeconfig(client, Key("else", "demo"))


async def test_a_kubeconfig_or_what_it_waits_for(client):
    await made(client)
    said = [condition("ControlPlaneInitialized", "False", message="waiting for a Node")]
    await client.patch(CLUSTER, DEMO, {"status": {"conditions": said}}, subresource="status")
    with pytest.raises(
        InvalidInput, match=r"no kubeconfig yet, .*default/demo-kubeconfig: waiting for a Node"
    ):
        await command.kubeconfig(client, DEMO)
    secret = {
        "metadata": {"name": "demo-kubeconfig"},
        "data": {"value": b64encode(b"kind: Config\n").decode()},
    }
    await client.create(SECRET, secret, namespace="default")
    assert await command.kubeconfig(client, DEMO) == b"kind: Config\n"
    await client.patch(SECRET, Key("default", "demo-kubeconfig"), {"data": None})
    with pytest.raises(InvalidInput, match="Secret default/demo-kubeconfig has no value"):
        await command.kubeconfig(client, DEMO)
