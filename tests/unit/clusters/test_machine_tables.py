"""What is decided about one Machine: tables of phases, health, marks on Nodes, skips and stages of a deletion."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from kubewright.api.cluster.conditions import Reason
from kubewright.api.cluster.v1beta1 import (
    MACHINE_DRAIN_RULE,
    Bootstrap,
    Cluster,
    ClusterSpec,
    Condition,
    Machine,
    MachineSpec,
    MachineStatus,
    ObjectReference,
)
from kubewright.api.core import NodeCondition, NodeSpec, Pod, PodStatus, Taint
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.delays import REFUSED
from kubewright.base.plan import AT_ONCE
from kubewright.clusters.external.object import External
from kubewright.clusters.machine import deletion, wanted
from kubewright.clusters.machine.decide import decide
from kubewright.clusters.machine.seen import (
    Claim,
    DeleteExternal,
    DeleteNode,
    DeletionState,
    Drain,
    PatchNode,
    RemoveFinalizer,
    Seen,
    StoreData,
    UpdateMachine,
    Workload,
    parse_timeout,
)
from kubewright.clusters.machine.status import conditions, phase_of, status_of
from kubewright.clusters.node import ClusterNode, ClusterNodeStatus
from kubewright.nodes.drain.decide import plan_pass
from kubewright.nodes.drain.plan import DrainPlan

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AGO, TRIED = NOW - timedelta(minutes=5), NOW - timedelta(seconds=10)
LABEL, FINALIZER = "cluster.x-k8s.io/cluster-name", "machine.cluster.x-k8s.io"
INFRA_REF = ObjectReference(api_version="infra.example.com/v1", kind="FooMachine", name="m")
BOOT_REF = ObjectReference(api_version="boot.example.com/v1", kind="FooConfig", name="m")
PLANE_REF = ObjectReference(api_version="plane.example.com/v1", kind="FooPlane", name="demo")
NODE_REF = ObjectReference(api_version="v1", kind="Node", name="n", uid="node-uid")
PID = "foo:///1"
MINE = {
    "apiVersion": "cluster.x-k8s.io/v1beta1",
    "kind": "Machine",
    "name": "m",
    "uid": "u",
    "controller": True,
    "blockOwnerDeletion": True,
}


def machine(*, meta=None, spec=None, status=None, **names):
    metadata = ObjectMeta(
        **{
            "name": "m",
            "namespace": "ns",
            "uid": "u",
            "labels": {LABEL: "demo"},
            "finalizers": (FINALIZER,),
            "owner_references": (
                OwnerReference(
                    api_version="cluster.x-k8s.io/v1beta1",
                    kind="MachineSet",
                    name="s",
                    uid="s",
                    controller=True,
                ),
            ),
            **(meta or {}),
        }
    )
    body = {
        "cluster_name": "demo",
        "bootstrap": Bootstrap(config_ref=BOOT_REF),
        "infrastructure_ref": INFRA_REF,
        **(spec or {}),
    }
    return Machine(
        metadata=metadata, spec=MachineSpec(**body), status=MachineStatus(**(status or {})), **names
    )


def external(ref=INFRA_REF, *, spec=None, status=None, owned=True, **metadata):
    owner = {"ownerReferences": [MINE]} if owned else {}
    meta = {"uid": "x", "resourceVersion": "7", "labels": {LABEL: "demo"}, **owner, **metadata}
    return External(ref, {"metadata": meta, "spec": spec or {}, "status": status or {}})


GONE = External(INFRA_REF, gone=True, problem="there is no FooMachine ns/m")
UNKNOWN = External(INFRA_REF, problem="the kind FooMachine is not installed")
BOOT_GONE = External(BOOT_REF, gone=True, problem="there is no FooConfig ns/m")
ANOTHERS = {"owned": False, "ownerReferences": [{**MINE, "name": "other"}]}
DELETING = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
CLUSTER = Cluster(metadata=ObjectMeta(name="demo", namespace="ns", uid="c"))
NODE = ClusterNode(metadata=ObjectMeta(name="n", uid="node-uid"), spec=NodeSpec(provider_id=PID))


def seen(of=None, *, infrastructure=None, bootstrap=None, cluster=CLUSTER, **rest):
    return Seen(
        of or machine(),
        NOW,
        NOW,
        infrastructure if infrastructure is not None else external(),
        cluster=cluster,
        bootstrap=bootstrap if bootstrap is not None else external(BOOT_REF),
        **rest,
    )


# ---------------------------------------------------------------- phases

READY = {"bootstrap_ready": True, "infrastructure_ready": True}
PHASES = [
    ("Pending: nothing is there", {}, {}, {}, "Pending"),
    ("Provisioning: there is data, and no host yet", {}, {"bootstrap_ready": True}, {}, "Provisioning"),
    ("Pending: a host without data", {}, {"infrastructure_ready": True}, {}, "Pending"),
    ("Provisioned: the host has a providerID", {"provider_id": PID}, READY, {}, "Provisioned"),
    ("Running: there is a Node", {"provider_id": PID}, {**READY, "node_ref": NODE_REF}, {}, "Running"),
    (
        "Provisioned: the host of a Node is not ready any more",
        {"provider_id": PID},
        {"bootstrap_ready": True, "node_ref": NODE_REF},
        {},
        "Provisioned",
    ),
    (
        "Failed: a provider reports a failure",
        {"provider_id": PID},
        {**READY, "node_ref": NODE_REF, "failure_message": "x"},
        {},
        "Failed",
    ),
    ("Failed: a reason alone is one", {}, {"failure_reason": "x"}, {}, "Failed"),
    ("Deleting: whatever else is so", {}, {"failure_reason": "x"}, {"deletion_timestamp": NOW}, "Deleting"),
]


@pytest.mark.parametrize(
    ("spec", "status", "meta", "phase"), [row[1:] for row in PHASES], ids=[r[0] for r in PHASES]
)
def test_the_phase_is(spec, status, meta, phase):
    found = machine(spec=spec, status=status, meta=meta)
    assert phase_of(found, found.status) == phase


STRICT = [
    ("a Node that is Ready", True, "Running"),
    ("a Node that is not", False, "Provisioned"),
    ("a Node that cannot be seen, of a machine that ran", None, "Running"),
]


@pytest.mark.parametrize(("ready", "phase"), [row[1:] for row in STRICT], ids=[r[0] for r in STRICT])
def test_where_that_is_asked_for_only_a_ready_node_makes_a_machine_run(ready, phase):
    status = {**READY, "node_ref": NODE_REF, "phase": "Running"}
    conditions = (NodeCondition(type="Ready", status=str(ready)),)
    there = replace(NODE, status=ClusterNodeStatus(conditions=conditions))
    shown = Workload(nodes=(there,)) if ready is not None else Workload(unreachable="it hangs")
    facts = {"infrastructure": external(**HOST), "workload": shown}
    state = seen(machine(spec={"provider_id": PID}, status=status), **facts)
    assert status_of(state).phase == "Running"
    assert status_of(dataclasses.replace(state, strict_running=True)).phase == phase


# ---------------------------------------------------------------- health of the Node

GOOD = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
ALL_UNKNOWN = dict.fromkeys(GOOD, "Unknown")
HEALTH = [
    ("all is well", GOOD, "True", "", ""),
    ("it is not ready", {**GOOD, "Ready": "False"}, "False", "Warning", "Node condition Ready is False. "),
    (
        "its disk is full",
        {**GOOD, "DiskPressure": "True"},
        "False",
        "Warning",
        "Node condition DiskPressure is True. ",
    ),
    (
        "one is wrong, and one not known",
        {**GOOD, "Ready": "False", "PIDPressure": "Unknown"},
        "False",
        "Warning",
        "Node condition PIDPressure is Unknown. Node condition Ready is False. ",
    ),
    ("only Ready is not known", {**GOOD, "Ready": "Unknown"}, "True", "", ""),
    (
        "nothing is known",
        ALL_UNKNOWN,
        "Unknown",
        "",
        "".join(f"Node condition {k} is Unknown. " for k in GOOD),
    ),
    ("it has no conditions", {}, "Unknown", "", "".join(f"Node condition {k} is Unknown. " for k in GOOD)),
    ("other conditions do not count", {**GOOD, "KernelDeadlock": "True"}, "True", "", ""),
]


@pytest.mark.parametrize(
    ("said", "status", "severity", "message"), [r[1:] for r in HEALTH], ids=[r[0] for r in HEALTH]
)
def test_a_node_is_healthy_by_its_conditions(said, status, severity, message):
    found = tuple(NodeCondition(type=kind, status=value) for kind, value in said.items())
    health = wanted.health(replace(NODE, status=ClusterNodeStatus(conditions=found)))
    assert (health.status, health.severity, health.message) == (status, severity, message)


# ---------------------------------------------------------------- marks on the Node


@pytest.mark.parametrize(
    ("label", "shared"),
    [
        ("node-role.kubernetes.io/worker", True),
        ("x.node-role.kubernetes.io/worker", False),
        ("node-restriction.kubernetes.io/a", True),
        ("fleet.node-restriction.kubernetes.io/a", True),
        ("node.cluster.x-k8s.io/pool", True),
        ("team.node.cluster.x-k8s.io/pool", True),
        ("evilnode.cluster.x-k8s.io/pool", False),
        ("cluster.x-k8s.io/cluster-name", False),
        ("team", False),
    ],
)
def test_a_label_belongs_on_nodes_by_its_domain(label, shared):
    assert wanted.belongs_on_nodes(label) is shared


POINTERS = {
    "cluster.x-k8s.io/cluster-name": "demo",
    "cluster.x-k8s.io/cluster-namespace": "ns",
    "cluster.x-k8s.io/machine": "m",
    "cluster.x-k8s.io/owner-kind": "MachineSet",
    "cluster.x-k8s.io/owner-name": "s",
}
FROM = "cluster.x-k8s.io/labels-from-machine"
POOL = "node.cluster.x-k8s.io/pool"
UNINITIALIZED = Taint(key="node.cluster.x-k8s.io/uninitialized", effect="NoSchedule")
OUTDATED = Taint(key="node.cluster.x-k8s.io/outdated-revision", effect="PreferNoSchedule")
OTHER = Taint(key="team", effect="NoSchedule")


def marked(labels=None, annotations=None, taints=()):
    meta = ObjectMeta(
        name="n", labels=labels or {}, annotations={**POINTERS, FROM: "", **(annotations or {})}
    )
    return replace(NODE, metadata=meta, spec=NodeSpec(provider_id=PID, taints=taints))


MARKS = [
    ("a Node in line gets nothing", {}, marked(), {}),
    (
        "a label of the machine comes, and its key is kept",
        {"labels": {POOL: "a"}},
        marked(),
        {"metadata": {"labels": {POOL: "a"}, "annotations": {FROM: POOL}}},
    ),
    (
        "a label that the machine lost goes",
        {},
        marked({POOL: "a", "x": "y"}, {FROM: POOL}),
        {"metadata": {"labels": {POOL: None}, "annotations": {FROM: ""}}},
    ),
    ("a label of others stays", {}, marked({POOL: "theirs"}), {}),
    (
        "the taint of a new worker goes, others stay",
        {},
        marked(taints=(UNINITIALIZED, OTHER)),
        {"metadata": {}, "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}},
    ),
    (
        "a taint of an outdated Node that is current again goes",
        {},
        marked(taints=(OUTDATED,)),
        {"metadata": {}, "spec": {"taints": None}},
    ),
]


@pytest.mark.parametrize(("meta", "found", "patch"), [r[1:] for r in MARKS], ids=[r[0] for r in MARKS])
def test_what_is_written_onto_a_node(meta, found, patch):
    labels = {LABEL: "demo", **meta.get("labels", {})}
    assert wanted.sync(seen(machine(meta={"labels": labels})), found) == patch


def test_an_outdated_or_interruptible_machine_marks_its_node():
    state = seen(infrastructure=external(status={"interruptible": True}), outdated=True)
    patch = wanted.sync(state, marked())
    assert patch["metadata"] == {"labels": {"cluster.x-k8s.io/interruptible": ""}}
    assert [each["key"] for each in patch["spec"]["taints"]] == [OUTDATED.key]


# ---------------------------------------------------------------- the Machine itself

TOLD = {"status": {"ready": True, "dataSecretName": "d"}}
HOST = {"spec": {"providerID": PID, "failureDomain": "a"}, "status": {"ready": True}}
ALONE = {"owner_references": ()}
ADOPTED = [{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "demo", "uid": "c"}]
UPDATES = [
    ("nothing when it is in order", seen(), {}),
    ("the finalizer", seen(machine(meta={"finalizers": ("theirs",)})), {"metadata": {"finalizers": ["theirs", FINALIZER]}}),
    ("the label of the cluster", seen(machine(meta={"labels": {}})), {"metadata": {"labels": {LABEL: "demo"}}}),
    ("the Cluster as the owner of a machine that a user made", seen(machine(meta=ALONE)), {"metadata": {"ownerReferences": ADOPTED}}),
    ("no owner while there is no Cluster", seen(machine(meta=ALONE), cluster=None), {}),
    (
        "no owner where its set is there and will be it",
        seen(machine(meta={**ALONE, "labels": {LABEL: "demo", "cluster.x-k8s.io/set-name": "s"}}), has_maker=True),
        {},
    ),
    (
        "the Cluster as the owner of a machine that its set has left",
        seen(machine(meta={**ALONE, "labels": {LABEL: "demo", "cluster.x-k8s.io/set-name": "s"}})),
        {"metadata": {"ownerReferences": ADOPTED}},
    ),
    ("the name of the Secret with the data", seen(bootstrap=external(BOOT_REF, **TOLD)), {"spec": {"bootstrap": {"dataSecretName": "d"}}}),
    (
        "no other name than the one that is there",
        seen(machine(spec={"bootstrap": Bootstrap(config_ref=BOOT_REF, data_secret_name="mine")}), bootstrap=external(BOOT_REF, **TOLD)),
        {},
    ),
    ("providerID and failure domain of a host that is ready", seen(infrastructure=external(**HOST)), {"spec": {"providerID": PID, "failureDomain": "a"}}),
    ("nothing of a host that is not", seen(infrastructure=external(spec=HOST["spec"])), {}),
    ("nothing of a host that another Machine controls", seen(infrastructure=external(**HOST, **ANOTHERS)), {}),
    ("nothing of data that another Machine controls", seen(bootstrap=external(BOOT_REF, **TOLD, **ANOTHERS)), {}),
    ("what its set controls, which made it", seen(infrastructure=external(**HOST, **{**ANOTHERS, "ownerReferences": [{**MINE, "kind": "MachineSet"}]})), {"spec": {"providerID": PID, "failureDomain": "a"}}),
    ("nothing of a host that is deleted", seen(infrastructure=external(**HOST, **DELETING)), {}),
    (
        "nothing of a host that is paused",
        seen(infrastructure=external(**HOST, annotations={"cluster.x-k8s.io/paused": ""})),
        {},
    ),
    (
        "data that stands in the machine goes into a Secret",
        seen(machine(spec={"bootstrap": Bootstrap(data="x")})),
        {"spec": {"bootstrap": {"data": None, "dataSecretName": "m-bootstrap-data"}}},
    ),
    (
        "an empty name, which means no data, becomes that of a Secret without any",
        seen(machine(spec={"bootstrap": Bootstrap(data_secret_name="")}), bootstrap=external(BOOT_REF, **TOLD)),
        {"spec": {"bootstrap": {"dataSecretName": "m-bootstrap-data"}}},
    ),
    (
        "data beside the name of a Secret goes",
        seen(machine(spec={"bootstrap": Bootstrap(data="x", data_secret_name="mine")})),
        {"spec": {"bootstrap": {"data": None}}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("state", "patch"), [r[1:] for r in UPDATES], ids=[r[0] for r in UPDATES])
def test_what_is_written_onto_the_machine_itself(state, patch):
    assert wanted.machine_patch(state) == patch


STORED = [
    ("empty data, which say that there is nothing to boot with", Bootstrap(data=""), ""),
    ("an empty name of a Secret, which says the same", Bootstrap(data_secret_name=""), ""),
    ("an empty name, whatever a provider tells", Bootstrap(config_ref=BOOT_REF, data_secret_name=""), ""),
    ("data beside an empty name", Bootstrap(data="x", data_secret_name=""), "x"),
]


@pytest.mark.parametrize(("bootstrap", "data"), [r[1:] for r in STORED], ids=[r[0] for r in STORED])
def test_what_is_moved_into_a_secret(bootstrap, data):
    state = seen(machine(spec={"bootstrap": bootstrap}), bootstrap=external(BOOT_REF, **TOLD))
    assert wanted.data_to_store(state) == StoreData("m-bootstrap-data", data)


def test_data_that_a_provider_wrote_in_place_of_a_name_goes_into_a_secret():
    old = external(BOOT_REF, status={"ready": True, "bootstrapData": "x"})
    state = seen(bootstrap=old)
    assert wanted.data_to_store(state) == StoreData("m-bootstrap-data", "x")
    assert wanted.machine_patch(state) == {"spec": {"bootstrap": {"dataSecretName": "m-bootstrap-data"}}}
    assert wanted.problem_of_bootstrap(state) == ""
    named = external(BOOT_REF, status={"ready": True, "bootstrapData": "x", "dataSecretName": "d"})
    assert wanted.data_to_store(seen(bootstrap=named)) is None


def test_data_is_in_no_repr():
    assert "s3cr3t" not in repr(
        wanted.data_to_store(seen(machine(spec={"bootstrap": Bootstrap(data="s3cr3t")})))
    )


# ---------------------------------------------------------------- the plan of a living machine


def kinds(plan):
    return [type(step) for step in plan.steps]


JOINED = machine(spec={"provider_id": PID})
PLANS = [
    ("nothing when all is in order", seen(), []),
    ("nothing while it is paused", seen(machine(meta={"annotations": {"cluster.x-k8s.io/paused": ""}, "finalizers": ()})), []),
    ("nothing while its cluster is paused", seen(machine(meta={"finalizers": ()}), cluster=Cluster(spec=ClusterSpec(paused=True))), []),
    (
        "itself first, then what belongs to it",
        seen(machine(meta={"finalizers": ()}), infrastructure=external(owned=False), bootstrap=external(BOOT_REF, owned=False)),
        [UpdateMachine, Claim, Claim],
    ),
    ("its data before its name", seen(machine(spec={"bootstrap": Bootstrap(data="x")})), [StoreData, UpdateMachine]),
    ("its Node", seen(JOINED, workload=Workload(nodes=(NODE,))), [PatchNode]),
    ("no Node of another machine", seen(JOINED, workload=Workload(nodes=(NODE,), taken_by="b")), []),
    ("none of two Nodes", seen(JOINED, workload=Workload(nodes=(NODE, replace(NODE, metadata=ObjectMeta(name="o"))))), []),
    ("no Node while the cluster cannot be reached", seen(JOINED, workload=Workload(unreachable="it is away")), []),
]  # fmt: skip


@pytest.mark.parametrize(("state", "steps"), [r[1:] for r in PLANS], ids=[r[0] for r in PLANS])
def test_a_living_machine_is_given(state, steps):
    assert kinds(decide(state)) == steps


def test_bootstrap_is_claimed_before_infrastructure():
    plan = decide(seen(infrastructure=external(owned=False), bootstrap=external(BOOT_REF, owned=False)))
    assert [str(each.external) for each in plan.steps] == ["FooConfig m", "FooMachine m"]


# ---------------------------------------------------------------- deletion

NODES = Workload(nodes=(NODE,))
CORDONED = Workload(nodes=(replace(NODE, spec=NodeSpec(provider_id=PID, unschedulable=True)),))
EVICT = DrainPlan(
    evict=(Pod(metadata=ObjectMeta(name="p")),), wake=timedelta(seconds=5), because="pods: 1 to evict"
)
DRAINED = DrainPlan(done=True, because="no pods are left")


def leaving(of=None, workload=CORDONED, meta=None, spec=None, **facts):
    """A machine that is being deleted, with a Node that ought to be drained."""
    gone = {k: facts.pop(k) for k in ("infrastructure", "bootstrap", "cluster") if k in facts}
    found = of or machine(
        meta={"deletion_timestamp": AGO, **(meta or {})},
        spec={"provider_id": PID, **(spec or {})},
        status={"node_ref": NODE_REF},
    )
    return seen(
        found,
        workload=workload,
        deletion=DeletionState(**{"active_control_planes": 1, "deleted_at": AGO, **facts}),
        **gone,
    )


ENDING = replace(CLUSTER, metadata=ObjectMeta(name="demo", deletion_timestamp=NOW))
PLANE = External(PLANE_REF, {"metadata": {}, "status": {}})
SKIPS = [
    ("nothing is skipped", leaving(), ""),
    ("its Cluster is gone", leaving(cluster=None), "its Cluster is gone"),
    ("its Cluster is being deleted", leaving(cluster=ENDING), "its Cluster is being deleted"),
    ("it has no Node", leaving(machine(meta={"deletion_timestamp": AGO})), "it never became a Node"),
    ("its Node is another's", leaving(workload=Workload(taken_by="b")), "its Node is another Machine's"),
    (
        "its control plane goes",
        leaving(control_plane=External(PLANE_REF, {"metadata": DELETING})),
        "its control plane is being deleted",
    ),
    ("its control plane is gone", leaving(control_plane=External(PLANE_REF, gone=True)), "its control plane is being deleted"),
    ("nothing, while it is not known what became of its control plane", leaving(control_plane=External(PLANE_REF)), ""),
    ("it is the last of its control plane", leaving(active_control_planes=0), "no other machine of the control plane is left"),
    (
        "nothing, where the control plane is managed elsewhere",
        leaving(active_control_planes=0, control_plane=External(PLANE_REF, {"metadata": {}, "status": {"externalManagedControlPlane": True}})),
        "",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("state", "because"), [r[1:] for r in SKIPS], ids=[r[0] for r in SKIPS])
def test_drain_volumes_and_node_are_skipped_because(state, because):
    assert deletion.skip(state) == because


def hook(name):
    return {"annotations": {f"{name}.delete.hook.machine.cluster.x-k8s.io/x": ""}}


INFRA_GOES = external(**DELETING)
OVER = {"drain": DRAINED}
STAGES = [
    ("a hook before the drain holds all up", leaving(meta=hook("pre-drain")), "WaitingForPreDrainHook", []),
    ("it does not where nothing is drained", leaving(cluster=None, meta=hook("pre-drain")), "WaitingForInfrastructureDeletion", [DeleteExternal]),
    ("the Node is cordoned before its pods are looked at", leaving(None, NODES), "DrainingNode", [PatchNode]),
    ("its pods are evicted", leaving(drain=EVICT), "DrainingNode", [Drain]),
    ("they are waited for", leaving(drain=DrainPlan(waiting=EVICT.evict, because="pods: 1 leaving")), "DrainingNode", []),
    ("a cluster that is away is waited for", leaving(workload=Workload(unreachable="it is away")), "DrainingNode", []),
    ("so is one that does not show its pods", leaving(unread="it does not answer"), "DrainingNode", []),
    (
        "the drain's time counts for a cluster that is away, too",
        leaving(workload=Workload(unreachable="away"), spec={"node_drain_timeout": "1m", "node_volume_detach_timeout": "1m"}, drain_since=AGO, detach_since=AGO),
        "WaitingForInfrastructureDeletion",
        [DeleteExternal],
    ),
    ("volumes are waited for", leaving(**OVER, volumes=("v",)), "WaitingForVolumeDetach", []),
    ("a time-out ends that", leaving(**OVER, volumes=("v",), spec={"node_volume_detach_timeout": "1m"}, detach_since=AGO), "WaitingForInfrastructureDeletion", [DeleteExternal]),
    (
        "so does an annotation",
        leaving(**OVER, volumes=("v",), meta={"annotations": {"machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach": ""}}),
        "WaitingForInfrastructureDeletion",
        [DeleteExternal],
    ),
    (
        "an annotation excludes the drain",
        leaving(None, NODES, drain=EVICT, meta={"annotations": {"machine.cluster.x-k8s.io/exclude-node-draining": ""}}),
        "WaitingForInfrastructureDeletion",
        [DeleteExternal],
    ),
    ("a hook before the end of the host holds that up", leaving(**OVER, meta=hook("pre-terminate")), "WaitingForPreTerminateHook", []),
    ("it does so where nothing is drained, too", leaving(cluster=None, meta=hook("pre-terminate")), "WaitingForPreTerminateHook", []),
    ("then the host is deleted", leaving(**OVER), "WaitingForInfrastructureDeletion", [DeleteExternal]),
    ("and waited for", leaving(infrastructure=INFRA_GOES), "WaitingForInfrastructureDeletion", []),
    ("also while nothing is known of it", leaving(**OVER, infrastructure=UNKNOWN), "WaitingForInfrastructureDeletion", []),
    ("then the bootstrap object is", leaving(infrastructure=GONE), "WaitingForBootstrapDeletion", [DeleteExternal]),
    ("then the Node", leaving(infrastructure=GONE, bootstrap=BOOT_GONE), "DeletingNode", [DeleteNode]),
    ("it is tried again for a while", leaving(infrastructure=GONE, bootstrap=BOOT_GONE, deleted_at=NOW, node_error="no"), "DeletingNode", [DeleteNode]),
    ("and then left", leaving(infrastructure=GONE, bootstrap=BOOT_GONE, node_error="no", node_error_since=TRIED), "DeletionCompleted", [RemoveFinalizer]),
    ("one attempt is not enough, however late it is", leaving(infrastructure=GONE, bootstrap=BOOT_GONE, node_error="no", node_error_since=NOW), "DeletingNode", [DeleteNode]),
    ("attempts alone are not, if the Machine has more time", leaving(infrastructure=GONE, bootstrap=BOOT_GONE, node_error="no", node_error_since=TRIED, spec={"node_deletion_timeout": "1h"}), "DeletingNode", [DeleteNode]),
    (
        "unless the Machine says for ever",
        leaving(infrastructure=GONE, bootstrap=BOOT_GONE, node_error="no", node_error_since=AGO, spec={"node_deletion_timeout": "0s"}),
        "DeletingNode",
        [DeleteNode],
    ),
    (
        "a Node in a cluster that is away is left after a while",
        leaving(infrastructure=GONE, bootstrap=BOOT_GONE, workload=Workload(unreachable="away", unreachable_for=NOW - TRIED)),
        "DeletionCompleted",
        [RemoveFinalizer],
    ),
    (
        "a Node in a cluster that has just been lost is not left yet",
        leaving(infrastructure=GONE, bootstrap=BOOT_GONE, workload=Workload(unreachable="away", unreachable_for=timedelta(seconds=9))),
        "DeletingNode",
        [],
    ),
    ("the Node stays where its end does not matter", leaving(infrastructure=GONE, bootstrap=BOOT_GONE, cluster=None), "DeletionCompleted", [RemoveFinalizer]),
    ("the finalizer goes last", leaving(infrastructure=GONE, bootstrap=BOOT_GONE, workload=Workload()), "DeletionCompleted", [RemoveFinalizer]),
    (
        "what another machine controls is left to it",
        leaving(**OVER, infrastructure=external(owned=False, ownerReferences=[{**MINE, "name": "b"}]), bootstrap=BOOT_GONE, workload=Workload()),
        "DeletionCompleted",
        [RemoveFinalizer],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("infrastructure", "wake"),
    [(UNKNOWN, REFUSED), (INFRA_GOES, None)],
    ids=["no watch shows it", "one does"],
)
def test_what_may_be_there_and_no_watch_shows_is_looked_for_again(infrastructure, wake):
    assert decide(leaving(**OVER, infrastructure=infrastructure)).wake == wake


@pytest.mark.parametrize(("state", "reason", "steps"), [r[1:] for r in STAGES], ids=[r[0] for r in STAGES])
def test_a_deletion_goes_on(state, reason, steps):
    found = deletion.stage(state)
    assert (found.reason, kinds(found.plan)) == (reason, steps)
    assert found.plan.because
    assert found.plan.wake is AT_ONCE or not any(step in (DeleteExternal, RemoveFinalizer) for step in steps)


def test_a_machine_without_our_finalizer_is_left_to_others():
    assert decide(leaving(meta={"finalizers": ("theirs",)})).steps == ()


POD = ObjectMeta(name="p", namespace="ns")
SKIPPED = [
    ("a pod that runs", Pod(metadata=POD), False),
    ("one that has finished", Pod(metadata=POD, status=PodStatus(phase="Succeeded")), True),
    ("one of a DaemonSet", Pod(metadata=replace(POD, owner_references=(OwnerReference(kind="DaemonSet", controller=True),))), True),
    ("one with a label that says so", Pod(metadata=replace(POD, labels={"cluster.x-k8s.io/drain": "Skip"})), True),
    ("one that leaves", Pod(metadata=replace(POD, deletion_timestamp=AGO)), False),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "skipped"), [r[1:] for r in SKIPPED], ids=[r[0] for r in SKIPPED])
def test_a_drain_leaves_alone(pod, skipped):
    assert deletion.drain_policy(leaving(), NODE).skips(pod) is skipped


def test_a_pod_with_a_label_that_says_so_is_awaited_and_not_evicted():
    policy = deletion.drain_policy(leaving(), NODE)
    batch = Pod(metadata=replace(POD, labels={"cluster.x-k8s.io/drain": "wait-completed"}))
    plan = plan_pass([batch], policy, now=NOW, started=NOW)
    assert (plan.evict, plan.waiting, plan.done) == ((), (batch,), False)
    ended = replace(batch, status=PodStatus(phase="Succeeded"))
    assert plan_pass([ended], policy, now=NOW, started=NOW).done


def rule(name="r", behavior="Drain", order=None, machines=None, pods=None):
    drain = {"behavior": behavior, **({} if order is None else {"order": order})}
    spec = {
        "drain": drain,
        **({"machines": machines} if machines else {}),
        **({"pods": pods} if pods else {}),
    }
    return MACHINE_DRAIN_RULE.from_plain({"metadata": {"name": name}, "spec": spec})


def labelled(**labels):
    return {"selector": {"matchLabels": labels}}


def around(key, **labels):
    return {key: {"matchLabels": labels}}


WEB = Pod(metadata=replace(POD, labels={"app": "web"}))
RULED = [
    ("no rule", [], ("Drain", 0)),
    ("a rule for all pods of all machines", [rule(behavior="Skip")], ("Skip", 0)),
    ("an order", [rule(order=-3)], ("Drain", -3)),
    ("waiting, which has no order", [rule(behavior="WaitCompleted", order=7)], ("WaitCompleted", 0)),
    ("the first by name", [rule("b", order=2), rule("a", order=1)], ("Drain", 1)),
    ("machines with this label", [rule(order=1, machines=[labelled(os="linux")])], ("Drain", 1)),
    ("machines with another label", [rule(order=1, machines=[labelled(os="other")])], ("Drain", 0)),
    ("clusters with this label", [rule(order=1, machines=[around("clusterSelector", stage="x")])], ("Drain", 1)),
    (
        "this label in a cluster with another",
        [rule(order=1, machines=[labelled(os="linux") | around("clusterSelector", stage="y")])],
        ("Drain", 0),
    ),
    ("one of several", [rule(order=1, machines=[labelled(os="other"), labelled(os="linux")])], ("Drain", 1)),
    ("pods with this label", [rule(order=1, pods=[labelled(app="web")])], ("Drain", 1)),
    ("pods with another label", [rule(order=1, pods=[labelled(app="db")])], ("Drain", 0)),
    ("pods of such a namespace", [rule(order=1, pods=[around("namespaceSelector", team="a")])], ("Drain", 1)),
    (
        "this pod of another namespace",
        [rule(order=1, pods=[labelled(app="web") | around("namespaceSelector", team="b")])],
        ("Drain", 0),
    ),
    ("the next by name, where the first is not for it", [rule("a", order=1, pods=[labelled(app="db")]), rule("b", order=2)], ("Drain", 2)),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "found"), [r[1:] for r in RULED], ids=[r[0] for r in RULED])
def test_what_drain_rules_say_of_a_pod(rules, found):
    one = machine(meta={"labels": {"os": "linux"}})
    read = deletion.rules_for(
        one, replace(CLUSTER, metadata=replace(CLUSTER.metadata, labels={"stage": "x"})), rules
    )
    assert dataclasses.replace(read, namespaces={"ns": {"team": "a"}}).behavior_of(WEB) == found


EXAMPLE = Path(__file__).parents[3] / "examples" / "drain-rules.yaml"


@pytest.mark.parametrize(
    ("labels", "namespace", "found"),
    [
        ({"batch.kubernetes.io/job-name": "j", "app": "node-cache"}, "ns", ("WaitCompleted", 0)),
        ({"app": "log-collector"}, "kube-system", ("Drain", 100)),
        ({"app": "log-collector"}, "ns", ("Drain", 0)),
        ({"app": "node-cache"}, "ns", ("Skip", 0)),
    ],
    ids=["the pod of a job", "what collects logs", "its namesake elsewhere", "a cache"],
)
def test_the_example_of_drain_rules_does_what_it_says(labels, namespace, found):
    bodies = yaml.safe_load_all(EXAMPLE.read_text())
    production = replace(CLUSTER, metadata=replace(CLUSTER.metadata, labels={"stage": "production"}))
    read = deletion.rules_for(machine(), production, map(MACHINE_DRAIN_RULE.from_plain, bodies))
    named = {each: {"kubernetes.io/metadata.name": each} for each in ("kube-system", "ns")}
    pod = Pod(metadata=replace(POD, labels=labels, namespace=namespace))
    assert dataclasses.replace(read, namespaces=named).behavior_of(pod) == found


def test_a_rule_that_cannot_be_read_says_which_it_is():
    odd = rule("odd", pods=[{"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}])
    with pytest.raises(deletion.UnreadableRule, match="MachineDrainRule odd cannot be read"):
        deletion.rules_for(machine(), None, [odd])


def test_pods_leave_in_the_order_of_rules_and_their_own_labels_go_first():
    rules = deletion.rules_for(
        machine(),
        None,
        [rule(order=5, pods=[labelled(app="db")]), rule("s", "Skip", pods=[labelled(app="x")])],
    )
    policy = deletion.drain_policy(leaving(), NODE, rules)
    first, last, kept, own = (
        Pod(metadata=replace(POD, name=name, uid=name, labels=labels))
        for name, labels in (
            ("first", {}),
            ("last", {"app": "db"}),
            ("kept", {"app": "x"}),
            ("own", {"app": "db", "cluster.x-k8s.io/drain": "skip"}),
        )
    )
    plan = plan_pass([last, kept, own, first], policy, now=NOW, started=NOW)
    assert (plan.evict, plan.waiting, plan.because) == (
        (first,),
        (last,),
        "pods: 1 to evict, 1 to leave after these",
    )
    assert plan_pass([last, kept, own], policy, now=NOW, started=NOW).evict == (last,)
    assert plan_pass([kept, own], policy, now=NOW, started=NOW).done


def test_pods_that_leave_a_silent_node_are_not_waited_for():
    silent = replace(
        NODE, spec=NodeSpec(taints=(Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"),))
    )
    policy = deletion.drain_policy(leaving(), silent)
    assert policy.skips(Pod(metadata=replace(POD, deletion_timestamp=AGO)))
    assert not policy.skips(Pod(metadata=POD))


@pytest.mark.parametrize(
    ("duration", "found"),
    [(None, None), ("0s", None), ("5m", timedelta(minutes=5)), ("rubbish", None), ("-1s", None)],
)
def test_a_time_out_of_the_spec(duration, found):
    assert parse_timeout(duration) == found


def test_an_unset_time_out_has_its_default_and_zero_is_for_ever():
    default = timedelta(seconds=10)
    assert (
        parse_timeout(None, default),
        parse_timeout("0s", default),
        parse_timeout("rubbish", default),
    ) == (default, None, default)


# ---------------------------------------------------------------- conditions

TRUE_READY = {"conditions": [{"type": "Ready", "status": "True"}], "ready": True}
BUILDING = {
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "Booting", "message": "1 of 3", "severity": "Info"}
    ]
}
SAID = [
    ("BootstrapReady is mirrored", seen(bootstrap=external(BOOT_REF, status=BUILDING)), "BootstrapReady", ("False", "Booting", "1 of 3")),
    ("InfrastructureReady is mirrored", seen(infrastructure=external(status=TRUE_READY, spec={"providerID": PID})), "InfrastructureReady", ("True", "", "")),
    ("a silent provider is waited for", seen(), "InfrastructureReady", ("False", "WaitingForInfrastructure", "waiting for FooMachine m to report that it is ready")),
    ("a readiness that is no boolean is told", seen(infrastructure=external(status={"ready": "true"})), "InfrastructureReady", ("False", "WaitingForInfrastructure", "waiting for FooMachine m to be ready: status.ready is no boolean, but 'true'")),
    ("a missing object is", seen(infrastructure=GONE), "InfrastructureReady", ("False", "WaitingForInfrastructure", "waiting: there is no FooMachine ns/m")),
    ("a kind that is not installed is", seen(infrastructure=UNKNOWN), "InfrastructureReady", ("False", "WaitingForInfrastructure", "waiting: the kind FooMachine is not installed")),
    (
        "an object of another owner is wrong",
        seen(infrastructure=external(owned=False, ownerReferences=[{**MINE, "name": "b"}])),
        "InfrastructureReady",
        ("False", "IncorrectExternalRef", "FooMachine m is controlled by Machine b"),
    ),
    ("what a step could not do is told", seen(failed={"infrastructure": "could not write"}), "InfrastructureReady", ("False", "IncorrectExternalRef", "could not write")),
    ("data of one's own is enough", seen(machine(spec={"bootstrap": Bootstrap(data_secret_name="mine")})), "BootstrapReady", ("True", "", "")),
    ("ready without data is wrong", seen(bootstrap=external(BOOT_REF, status={"ready": True})), "BootstrapReady", ("False", "WaitingForDataSecret", "FooConfig m is ready, but has no status.dataSecretName")),
    ("no Node before a providerID", seen(), "NodeHealthy", ("False", "WaitingForNodeRef", "waiting for the infrastructure to tell its providerID")),
    ("then a Node is waited for", seen(JOINED), "NodeHealthy", ("False", "NodeProvisioning", "waiting for a Node with the providerID foo:///1")),
    ("with the reason why it cannot be seen", seen(JOINED, workload=Workload(unreachable="it is away")), "NodeHealthy", ("False", "NodeProvisioning", "waiting for a Node: it is away")),
    ("a Node that was there is missed", seen(machine(spec={"provider_id": PID}, status={"node_ref": NODE_REF})), "NodeHealthy", ("False", "NodeNotFound", "Node n is gone from its cluster")),
    (
        "two Nodes are too many",
        seen(JOINED, workload=Workload(nodes=(NODE, replace(NODE, metadata=ObjectMeta(name="o"))))),
        "NodeHealthy",
        ("Unknown", "NodeInspectionFailed", "2 Nodes have the providerID foo:///1: n, o"),
    ),
    ("Ready counts the first two steps", seen(), "Ready", ("False", "WaitingForInfrastructure", "0 of 2 completed")),
    ("Deleting says what is waited for", leaving(drain=EVICT), "Deleting", ("True", "DrainingNode", "pods: 1 to evict")),
    ("so does the stage's own condition", leaving(drain=EVICT), "DrainingSucceeded", ("False", "Draining", "pods: 1 to evict")),
    ("what is over is True", leaving(drain=EVICT), "PreDrainDeleteHookSucceeded", ("True", "", "")),
    ("what is skipped says nothing", leaving(cluster=None), "DrainingSucceeded", None),
    ("the host's end is mirrored", leaving(infrastructure=INFRA_GOES), "InfrastructureReady", ("False", "Deleting", "waiting for FooMachine m to be deleted")),
    ("and kept", leaving(infrastructure=GONE), "InfrastructureReady", ("False", "Deleted", "")),
    ("a Node that stays is told of", leaving(infrastructure=GONE, bootstrap=BOOT_GONE, deleted_at=NOW, node_error="refused"), "NodeHealthy", ("False", "DeletionFailed", "refused")),
]  # fmt: skip


@pytest.mark.parametrize(("state", "kind", "said"), [r[1:] for r in SAID], ids=[r[0] for r in SAID])
def test_conditions_say(state, kind, said):
    found = {each.type: each for each in conditions(state)}.get(kind)
    assert (None if found is None else (found.status, found.reason, found.message)) == said


def test_a_short_silence_of_a_cluster_changes_nothing_and_a_long_one_makes_health_unknown():
    healthy = Condition(type="NodeHealthy", status="True", last_transition_time=AGO)
    of = machine(spec={"provider_id": PID}, status={"node_ref": NODE_REF, "conditions": (healthy,)})
    for minutes, status in ((4, "True"), (6, "Unknown")):
        state = seen(
            of, workload=Workload(unreachable="it is away", unreachable_for=timedelta(minutes=minutes))
        )
        assert {each.type: each.status for each in conditions(state)}["NodeHealthy"] == status


def test_conditions_of_others_stay():
    theirs = Condition(
        type="HealthCheckSucceeded", status="False", severity="Warning", reason="UnhealthyNode"
    )
    state = seen(machine(status={"conditions": (theirs,)}))
    found = {each.type: each for each in conditions(state)}
    assert found["HealthCheckSucceeded"].reason == "UnhealthyNode"
    assert found["Ready"].reason == "UnhealthyNode"


def test_a_status_that_was_lost_comes_out_the_same_again():
    infrastructure = external(**HOST, labels={LABEL: "demo"})
    spec = {"provider_id": PID, "failure_domain": "a", "bootstrap": Bootstrap(data_secret_name="d")}
    state = seen(machine(spec=spec), infrastructure=infrastructure, workload=NODES)
    status = status_of(state)
    again = status_of(dataclasses.replace(state, machine=replace(state.machine, status=status)))
    assert (status.phase, status.node_ref) == ("Running", NODE_REF)
    assert again == status


def test_reasons_name_the_stages_in_order():
    assert len(deletion.REASONS) == len(deletion.STAGES)
    assert deletion.REASONS[-1] is Reason.DELETION_COMPLETED


# ---------------------------------------------------------------- what is waited for

DATA = {"bootstrap": Bootstrap(config_ref=BOOT_REF, data_secret_name="d")}
HAS_VM = {**DATA, "provider_id": PID}
HOST_READY = external(status={"ready": True}, spec={"providerID": PID})
WAITS = {
    "its Cluster": (seen(cluster=None), ["Cluster ns/demo"]),
    "both providers": (seen(), ["FooConfig m to be ready", "FooMachine m to be ready"]),
    "an object that is not there": (
        seen(machine(spec=DATA), infrastructure=External(INFRA_REF, gone=True, problem="p", remedy="create it")), ["FooMachine m"],
    ),
    "data of the user's own": (
        dataclasses.replace(seen(machine(spec={"bootstrap": Bootstrap()}), infrastructure=HOST_READY), bootstrap=None),
        ["spec.bootstrap.dataSecretName"],
    ),
    "its Node": (seen(machine(spec=HAS_VM), infrastructure=HOST_READY), [f"a Node with the providerID {PID}"]),
    "its Node again": (
        seen(machine(spec=HAS_VM, status={"node_ref": NODE_REF}), infrastructure=HOST_READY), ["Node n"],
    ),
    "its cluster": (
        seen(machine(spec=HAS_VM), infrastructure=HOST_READY, workload=Workload(unreachable="it is away")),
        ["cluster ns/demo"],
    ),
    "a Node of its own": (
        seen(machine(spec=HAS_VM), infrastructure=HOST_READY, workload=Workload(nodes=(NODE,), taken_by="b")),
        ["a Node that no other machine has"],
    ),
    "nothing": (seen(machine(spec=HAS_VM), infrastructure=HOST_READY, workload=Workload(nodes=(NODE,))), []),
}  # fmt: skip


@pytest.mark.parametrize(("state", "waits"), WAITS.values(), ids=WAITS)
def test_a_machine_names_what_it_waits_for_and_what_a_user_can_do(state, waits):
    plan = decide(state)
    assert [each.what for each in plan.awaits] == waits
    assert all(each.remedy for each in plan.awaits)


@pytest.mark.parametrize("state", [row[1] for row in STAGES], ids=[row[0] for row in STAGES])
def test_a_stage_of_a_deletion_does_something_or_names_what_it_waits_for(state):
    plan = deletion.stage(state).plan
    assert plan.steps or plan.awaits
    assert all(each.what and each.remedy for each in plan.awaits)
