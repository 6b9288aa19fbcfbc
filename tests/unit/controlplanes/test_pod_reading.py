"""Components in pods: what StatefulSets, Services and Pods say of a workload."""

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.hosting.contract import Instance, Running, WorkloadAddresses, WorkloadIdentity
from kubewright.controlplanes.hosting.pods import reading
from kubewright.controlplanes.hosting.pods.objects import CLAIM, INSTANCE

UID = "u-1"
FINGERPRINT = "controlplane.cluster.x-k8s.io/fingerprint"
STARTED = 1_767_225_600.0


def identity(component=Component.ETCD):
    return WorkloadIdentity("team", "demo", component, OwnerReference(name="mine", uid=UID))


def pod(ordinal=0, *, deleting=False, phase="Running", conditions=None, **container):
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "True"}] if conditions is None else conditions,
        "containerStatuses": [
            {"ready": True, "restartCount": 2, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            | container
        ],
    }
    metadata = {
        "name": f"demo-etcd-{ordinal}",
        "namespace": "team",
        "annotations": {FINGERPRINT: "f1", "controlplane.cluster.x-k8s.io/version": "3.6.8"},
        **({"deletionTimestamp": "2026-01-01T00:00:09Z"} if deleting else {}),
    }
    return INSTANCE.from_plain({"metadata": metadata, "status": status})


def stateful_set(replicas=1, **metadata):
    template = {"metadata": {"annotations": {FINGERPRINT: "f2"}}}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": template}}


READY = Instance(
    0,
    "demo-etcd-0",
    "demo-etcd-0.demo-etcd.team.svc",
    fingerprint="f1",
    version="3.6.8",
    ready=True,
    since=STARTED,
    restarts=2,
)


def seen(*pods, found=None, services=()):
    return reading.running(identity(), found, pods, [{"metadata": {"name": name}} for name in services])


def test_an_instance_is_a_pod():
    assert seen(pod(), found=stateful_set()) == Running((READY,), "f2", 1, exists=True)


def test_instances_are_in_the_order_of_their_ordinals():
    assert [each.ordinal for each in seen(pod(10), pod(2), pod(0)).instances] == [0, 2, 10]


def test_a_stateful_set_whose_pods_are_not_there_yet_is_not_ready():
    assert seen(found=stateful_set(3)) == Running((), "f2", 3, exists=True)


@pytest.mark.parametrize(
    ("running", "exists"),
    [
        pytest.param(seen(), False, id="nothing"),
        pytest.param(seen(services=["demo-etcd"]), True, id="a Service alone"),
        pytest.param(seen(pod(deleting=True)), True, id="a pod that ends after its StatefulSet"),
        pytest.param(
            seen(found=stateful_set(deletionTimestamp="2026-01-01T00:00:00Z")), True, id="one that is deleted"
        ),
    ],
)
def test_it_is_gone_when_nothing_is_there(running, exists):
    assert (running.exists, running.applied, running.replicas) == (exists, "", 0)


@pytest.mark.parametrize(
    ("services", "name"),
    [
        pytest.param([], "", id="none"),
        pytest.param(["a-metrics", "demo-etcd"], "demo-etcd", id="that of the workload, among others"),
        pytest.param(["b", "a"], "a", id="the first of those with other names"),
    ],
)
def test_the_service(services, name):
    assert seen(services=services).service == name


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}
SECRET = {"terminated": {"exitCode": 1, "reason": "Error", "message": "the key is hunter2"}}
NOT_READY = [{"type": "Ready", "status": "False"}]


@pytest.mark.parametrize(
    ("found", "ready", "message"),
    [
        pytest.param(pod(), True, "", id="well"),
        pytest.param(pod(deleting=True), False, "it is ending", id="asked to end"),
        pytest.param(
            pod(conditions=NOT_READY, ready=False), False, "it runs and is not ready", id="its probe fails"
        ),
        pytest.param(
            pod(
                phase="Pending",
                conditions=[],
                ready=False,
                state={"waiting": {"reason": "ContainerCreating"}},
            ),
            False,
            "it is being started",
            id="being made",
        ),
        pytest.param(
            pod(
                phase="Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes have room"}],
            ),
            False,
            "it has no node: 0/3 nodes have room",
            id="not placed",
        ),
        pytest.param(
            pod(
                phase="Pending",
                conditions=NOT_READY,
                ready=False,
                state={"waiting": {"reason": "ImagePullBackOff", "message": 'image "etcd:v9" not found'}},
            ),
            False,
            'ImagePullBackOff: image "etcd:v9" not found',
            id="no image",
        ),
        pytest.param(
            pod(conditions=NOT_READY, ready=False, state=BACK_OFF, lastState=SECRET),
            False,
            "CrashLoopBackOff: back-off 10s restarting; it ended with exit code 1 (Error)",
            id="it ends again and again; what its log said is not told",
        ),
        pytest.param(
            pod(conditions=NOT_READY, ready=False, state=SECRET),
            False,
            "it ended with exit code 1 (Error)",
            id="it has just ended",
        ),
        pytest.param(pod(phase="Failed"), False, "it ended: Failed", id="evicted"),
    ],
)
def test_how_an_instance_is(found, ready, message):
    (instance,) = seen(found).instances
    assert (instance.ready, instance.message) == (ready, message)


@pytest.mark.parametrize(
    ("status", "is_seen"),
    [
        pytest.param({}, False, id="no status yet"),
        pytest.param({"observedGeneration": 1}, False, id="the change before"),
        pytest.param({"observedGeneration": 2}, True, id="the last change"),
    ],
)
def test_whether_the_controller_of_stateful_sets_has_seen_the_last_change(status, is_seen):
    assert reading.observed({**stateful_set(generation=2), "status": status}) is is_seen


# ---------------------------------------------------------------- where it is reached


def addresses(component, service=None, replicas=1):
    return reading.addresses(identity(component), replicas, service, "cluster.local")


def test_members_and_their_service_are_reached_by_name():
    assert addresses(Component.ETCD, replicas=2) == WorkloadAddresses(
        ("demo-etcd-0.demo-etcd.team.svc", "demo-etcd-1.demo-etcd.team.svc"),
        ("demo-etcd.team.svc", 2379),
        (
            "demo-etcd-0.demo-etcd.team",
            "demo-etcd-1.demo-etcd.team",
            "demo-etcd-0.demo-etcd.team.svc.cluster.local",
            "demo-etcd-1.demo-etcd.team.svc.cluster.local",
            "demo-etcd",
            "demo-etcd.team",
            "demo-etcd.team.svc",
            "demo-etcd.team.svc.cluster.local",
        ),
    )


def test_a_component_without_clients_has_no_endpoint():
    found = addresses(Component.CONTROLLER_MANAGER)
    assert found == WorkloadAddresses(("demo-controller-manager-0.demo-controller-manager.team.svc",))


INGRESS = {"loadBalancer": {"ingress": [{"hostname": "api.example.com"}, {"ip": "192.0.2.7"}]}}
INSIDE = "demo-apiserver.team.svc"


@pytest.mark.parametrize(
    ("service", "endpoint", "also"),
    [
        pytest.param(None, (INSIDE, 6443), set(), id="before there is a Service"),
        pytest.param(
            {
                "spec": {
                    "clusterIP": "10.0.0.9",
                    "clusterIPs": ["10.0.0.9", "fd00::9"],
                    "ports": [{"port": 443}],
                }
            },
            (INSIDE, 443),
            {"10.0.0.9", "fd00::9"},
            id="inside the cluster",
        ),
        pytest.param(
            {"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.9"}},
            None,
            {"10.0.0.9"},
            id="no balancer yet",
        ),
        pytest.param(
            {"spec": {"type": "LoadBalancer", "ports": [{"port": 6443}]}, "status": INGRESS},
            ("api.example.com", 6443),
            {"api.example.com", "192.0.2.7"},
            id="a load balancer",
        ),
        pytest.param(
            {"spec": {"clusterIP": "None", "externalIPs": ["192.0.2.8"]}},
            (INSIDE, 6443),
            {"192.0.2.8"},
            id="headless, with an address of its own",
        ),
    ],
)
def test_the_endpoint_of_an_api_server(service, endpoint, also):
    found = addresses(Component.API_SERVER, service)
    waits = "" if endpoint else "the load balancer of Service demo-apiserver has no address yet"
    assert (found.endpoint, found.waits) == (endpoint, waits)
    assert set(found.also) - set(addresses(Component.API_SERVER).also) == also


def claim(*owners, deleting=False):
    metadata = {
        "name": "data-demo-etcd-1",
        "ownerReferences": [{"kind": kind, "name": "its", "uid": "u-2"} for kind in owners],
        **({"deletionTimestamp": "2026-01-01T00:00:09Z"} if deleting else {}),
    }
    return CLAIM.from_plain({"metadata": metadata})


POD_FIRST = "the pod demo-etcd-1 of a larger number before ends first"
CLAIM_FIRST = "the volume claim data-demo-etcd-1 of a larger number before is deleted first"


@pytest.mark.parametrize(
    ("policy", "pods", "claims", "says"),
    [
        pytest.param("Delete", [], [], "", id="nothing is left"),
        pytest.param(
            "Delete", [pod(1, deleting=True)], [], POD_FIRST, id="a pod ends, and its claim goes with it"
        ),
        pytest.param("Delete", [pod(1)], [], POD_FIRST, id="a pod whose deletion is not asked for yet"),
        pytest.param("Retain", [pod(1, deleting=True)], [claim()], "", id="a pod ends, and its claim stays"),
        pytest.param("Delete", [], [claim()], "", id="a claim that was kept is used again"),
        pytest.param("Delete", [], [claim("StatefulSet")], "", id="a claim that goes with the StatefulSet"),
        pytest.param(
            "Delete", [], [claim("Pod")], CLAIM_FIRST, id="a claim that goes with its pod, which is gone"
        ),
        pytest.param("Retain", [], [claim("Pod")], CLAIM_FIRST, id="and it was put to sleep since"),
        pytest.param("Delete", [], [claim(deleting=True)], CLAIM_FIRST, id="a claim that is being deleted"),
    ],
)
def test_the_number_grows_when_what_a_smaller_one_ended_is_gone(policy, pods, claims, says):
    found = {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": policy}}}
    assert reading.leaving(found, pods, claims) == says
