"""What comes next for a KubewrightCluster, for what is seen of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.infra.names import CLUSTER_FINALIZER
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER
from kubewright.driver.errors import Code, DriverError
from kubewright.infra.cluster.decide import cluster_status, decide
from kubewright.infra.cluster.seen import EndpointSeen, Seen, Step
from kubewright.wire.gvk import Key

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ENDPOINT = {"host": "10.0.0.1", "port": 6443}
OWNER = CLUSTER.from_plain({"metadata": {"name": "demo"}})
PLACED = CLUSTER.from_plain({"metadata": {"name": "demo"}, "spec": {"controlPlaneEndpoint": ENDPOINT}})
BUSY = DriverError.of(Code.Unavailable, "being made")
DELETED = {"deletionTimestamp": "2029-12-31T23:59:00Z"}
MANAGED = {"annotations": {"cluster.x-k8s.io/managed-by": "terraform"}}


def cluster(*, finalizer=True, spec=None, status=None, **meta):
    finalizers = {"finalizers": [CLUSTER_FINALIZER]} if finalizer else {}
    metadata = {"name": "demo", "namespace": "ns", "uid": "u1", "generation": 2, **finalizers, **meta}
    return KUBEWRIGHT_CLUSTER.from_plain({"metadata": metadata, "spec": spec or {}, "status": status or {}})


def seen(found=None, **facts):
    return Seen(found or cluster(), NOW, **{"owner": OWNER, "lives": True, **facts})


def failed(seconds):
    return EndpointSeen(error=BUSY, again=NOW + timedelta(seconds=seconds))


REF = {"apiVersion": "controlplane.cluster.x-k8s.io/v1alpha4", "kind": "NestedControlPlane", "name": "plane"}
NESTED = CLUSTER.from_plain({"metadata": {"name": "demo"}, "spec": {"controlPlaneRef": REF}})
KUBEADM = CLUSTER.from_plain(
    {"metadata": {"name": "demo"}, "spec": {"controlPlaneRef": {**REF, "kind": "KubeadmControlPlane"}}}
)

TWO = (Key("ns", "a"), Key("ns", "b"))
LEAVING = CLUSTER.from_plain({"metadata": {"name": "demo", "deletionTimestamp": "2030-01-01T00:00:00Z"}})
OWN = cluster(spec={"controlPlaneEndpoint": ENDPOINT})
GOING = cluster(spec={"controlPlaneEndpoint": ENDPOINT}, **DELETED)

FORCED = cluster(labels={"force-deletion": "True"}, **DELETED)


def refused(*, releasing=True):
    return replace(
        failed(3), error=DriverError.of(Code.InvalidArgument, "no such region"), releasing=releasing
    )


TABLE = [
    ("no Cluster owns it", seen(owner=None), (), "WaitingForOwner/Info"),
    ("it is new", seen(cluster(finalizer=False)), (Step.ADD_FINALIZER,), ""),
    ("its driver does not run here", seen(problem="no such driver"), (), "InvalidConfiguration/Error"),
    ("a user says where its API server is", seen(OWN), (), "True"),
    ("the Cluster says where its API server is", seen(owner=PLACED), (), "True"),
    ("neither says it, and the driver offers nothing", seen(), (), "WaitingForEndpoint/Info"),
    (
        "its control plane runs on no machine and says later where it is",
        seen(owner=NESTED, offers_endpoints=True),
        (),
        "WaitingForEndpoint/Info",
    ),
    (
        "its control plane runs on machines",
        seen(owner=KUBEADM, offers_endpoints=True),
        (Step.RESERVE,),
        "",
    ),
    ("the driver offers endpoints", seen(offers_endpoints=True), (Step.RESERVE,), ""),
    ("the user's endpoint goes before the driver's", seen(OWN, offers_endpoints=True), (), "True"),
    ("the driver is asked", seen(offers_endpoints=True, endpoint=EndpointSeen(running=True)), (), ""),
    (
        "the driver has answered",
        seen(offers_endpoints=True, endpoint=EndpointSeen(address=("h", 1))),
        (Step.RECORD,),
        "",
    ),
    ("the driver has failed", seen(offers_endpoints=True, endpoint=failed(4)), (), "EndpointFailed/Warning"),
    (
        "the driver has failed a while ago",
        seen(offers_endpoints=True, endpoint=failed(0)),
        (Step.RESERVE,),
        "EndpointFailed/Warning",
    ),
    ("another program manages it", seen(cluster(finalizer=False, **MANAGED), offers_endpoints=True), (), ""),
    ("it is paused", seen(cluster(finalizer=False), paused=True), (), ""),
    ("another program has given it up", seen(cluster(status={"failureReason": "CreateError"})), (), ""),
    ("it is being deleted before its machines", seen(GOING, machines=TWO), (), "WaitingForMachines/Info"),
    (
        "it is being deleted with its Cluster before a machine that nothing owns",
        seen(GOING, owner=LEAVING, lives=False, machines=TWO, unowned=TWO[:1]),
        (Step.DELETE_MACHINES,),
        "WaitingForMachines/Info",
    ),
    (
        "it is being deleted alone before a machine that nothing owns",
        seen(GOING, machines=TWO, unowned=TWO[:1]),
        (),
        "WaitingForMachines/Info",
    ),
    (
        "it is a copy that nothing owns, and the Cluster of its label lives",
        seen(GOING, owner=None, machines=TWO, unowned=TWO[:1]),
        (),
        "WaitingForMachines/Info",
    ),
    (
        "it is a copy, and its endpoint that of the one which its Cluster names",
        seen(GOING, original="first", offers_endpoints=True, machines=TWO, unowned=TWO),
        (Step.REMOVE_FINALIZER,),
        "",
    ),
    (
        "it is a copy of one that its Cluster names, and lives",
        seen(OWN, original="first", offers_endpoints=True),
        (),
        "True",
    ),
    ("it is being deleted", seen(GOING), (Step.REMOVE_FINALIZER,), ""),
    (
        "it is being deleted with an endpoint of the driver",
        seen(GOING, offers_endpoints=True),
        (Step.RELEASE,),
        "",
    ),
    (
        "the driver takes it back",
        seen(GOING, offers_endpoints=True, endpoint=EndpointSeen(running=True)),
        (),
        "",
    ),
    (
        "the driver has taken it back",
        seen(GOING, offers_endpoints=True, endpoint=EndpointSeen(released=True)),
        (Step.REMOVE_FINALIZER,),
        "",
    ),
    (
        "the driver does not take it back",
        seen(GOING, offers_endpoints=True, endpoint=replace(failed(3), releasing=True)),
        (),
        "EndpointFailed/Warning",
    ),
    (
        "the driver cannot be told to take it back",
        seen(GOING, offers_endpoints=True, problem="there is no Secret cloud with credentials"),
        (),
        "EndpointFailed/Warning",
    ),
    (
        "the driver refuses to take it back",
        seen(GOING, offers_endpoints=True, endpoint=refused()),
        (),
        "EndpointFailed/Warning",
    ),
    (
        "the driver refuses to take it back, and a user lets go of it",
        seen(FORCED, offers_endpoints=True, endpoint=refused()),
        (Step.REMOVE_FINALIZER,),
        "",
    ),
    (
        "a user lets go of it while the driver may still take it back",
        seen(FORCED, offers_endpoints=True, endpoint=replace(failed(3), releasing=True)),
        (),
        "EndpointFailed/Warning",
    ),
    (
        "the driver has refused to give it, and was not asked yet to take it back",
        seen(FORCED, offers_endpoints=True, endpoint=refused(releasing=False)),
        (Step.RELEASE,),
        "",
    ),
    (
        "the driver cannot be told, and a user lets go of it",
        seen(FORCED, offers_endpoints=True, problem="there is no Secret cloud with credentials"),
        (Step.REMOVE_FINALIZER,),
        "",
    ),
    ("it is being deleted while paused", seen(GOING, paused=True), (), ""),
    ("it has no finalizer of ours", seen(cluster(finalizer=False, finalizers=["x/y"], **DELETED)), (), ""),
]


@pytest.mark.parametrize(("found", "steps", "report"), [pytest.param(*row[1:], id=row[0]) for row in TABLE])
def test_the_plan_is(found, steps, report):
    plan = decide(found)
    said = plan.report

    assert plan.steps == steps
    assert report == (
        "" if said is None else "True" if said.status == "True" else f"{said.reason}/{said.severity}"
    )
    assert plan.because


def test_a_failed_call_is_repeated_after_its_pause() -> None:
    assert decide(seen(offers_endpoints=True, endpoint=failed(4))).wake == timedelta(seconds=4)


def test_the_status_has_ready_domains_and_conditions() -> None:
    domains = {"a": {"controlPlane": True, "attributes": {"x": "y"}, "providerSpec": {"zone": "1a"}}}
    found = seen(cluster(spec={"controlPlaneEndpoint": ENDPOINT, "failureDomains": domains}))
    status = cluster_status(found, decide(found).report, NOW)

    assert KUBEWRIGHT_CLUSTER.to_plain(KUBEWRIGHT_CLUSTER.type(status=status))["status"] == {
        "ready": True,
        "failureDomains": {"a": {"controlPlane": True, "attributes": {"x": "y"}}},
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"},
            {"type": "EndpointReady", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"},
        ],
        "observedGeneration": 2,
    }


def test_ready_stays_when_something_goes_wrong_later() -> None:
    found = seen(cluster(status={"ready": True}), problem="no such driver")
    status = cluster_status(found, decide(found).report, NOW)

    assert (status.ready, status.conditions[0].reason) == (True, "InvalidConfiguration")


@pytest.mark.parametrize("found", [pytest.param(row[1], id=row[0]) for row in TABLE])
def test_a_plan_that_only_waits_names_for_what_and_what_a_user_can_do(found):
    plan = decide(found)
    waits = plan.report is not None and plan.report.status != "True"
    if waits and not plan.steps:
        assert plan.awaits
    assert all(each.what and each.remedy for each in plan.awaits)
