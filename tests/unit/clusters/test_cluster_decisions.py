"""What is to be done about a Cluster, and what its status says, as tables."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs, to_builtins

from kubewright.api.cluster.conditions import ERROR, INFO, false_condition, true_condition
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    ApiEndpoint,
    Cluster,
    ClusterStatus,
    Condition,
    ObjectReference,
)
from kubewright.api.core import SECRET, Secret
from kubewright.base import delays
from kubewright.base.plan import Event
from kubewright.clusters.cluster.act import kubeconfig_secret
from kubewright.clusters.cluster.decide import decide, kubeconfig_problem
from kubewright.clusters.cluster.seen import (
    AddFinalizer,
    Child,
    Claim,
    DeleteChild,
    DeleteExternal,
    RemoveFinalizer,
    Seen,
    SetEndpoint,
    WriteKubeconfig,
)
from kubewright.clusters.cluster.status import events_of, status_of
from kubewright.clusters.external.object import External
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.credentials import Login
from kubewright.pki.keys import Algorithm
from kubewright.runtime.credentials.contents import read_secret
from kubewright.testing.keys import unusual_authority

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
INFRA = {"apiVersion": "infra.example/v1", "kind": "FooCluster", "name": "demo"}
PLANE = {"apiVersion": "plane.example/v1", "kind": "FooPlane", "name": "demo"}
PLACE = {"host": "10.0.0.1", "port": 6443}
OWNER = {
    "apiVersion": "cluster.x-k8s.io/v1beta1",
    "kind": "Cluster",
    "name": "demo",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}
OURS = {"labels": {"cluster.x-k8s.io/cluster-name": "demo"}, "ownerReferences": [OWNER]}
THEIRS = {"ownerReferences": [{**OWNER, "kind": "Thing", "name": "other"}]}
PAUSED = {"annotations": {"cluster.x-k8s.io/paused": ""}}
DELETED_AT = "2030-01-01T11:59:00Z"


def cluster(spec=None, status=None, **metadata) -> Cluster:
    meta = {
        "name": "demo",
        "namespace": "ns",
        "uid": "u1",
        "resourceVersion": "5",
        "generation": 2,
        "finalizers": ["cluster.cluster.x-k8s.io"],
    }
    return CLUSTER.from_plain(
        {
            "metadata": {**meta, **metadata},
            "spec": {"infrastructureRef": INFRA} if spec is None else spec,
            "status": status or {},
        }
    )


def external(ref=INFRA, metadata=OURS, **content) -> External:
    found = {"metadata": {"name": "demo", "uid": "f1", "resourceVersion": "7", **metadata}, **content}
    return External(ObjectReference(api_version=ref["apiVersion"], kind=ref["kind"], name="demo"), found)


def missing(ref=INFRA, **what) -> External:
    return replace(external(ref), found=None, **what)


READY = {"status": {"ready": True}, "spec": {"controlPlaneEndpoint": PLACE}}
BOTH = {"infrastructureRef": INFRA, "controlPlaneRef": PLANE}
WITH_ENDPOINT = {"infrastructureRef": INFRA, "controlPlaneEndpoint": PLACE}
HERE = ApiEndpoint(host="10.0.0.1", port=6443)


def authority(made=NOON - timedelta(days=1), *, key=True):
    pair = new_cluster_authority(made, Algorithm.EC)
    data = {"tls.crt": pair.certificate, **({"tls.key": pair.key} if key else {})}
    return read_secret(Secret(data=data))


CA = authority()


def seen(about=None, **what) -> Seen:
    return Seen(about or cluster(), NOON, **what)


def kinds(plan):
    return [type(step) for step in plan.steps]


PLANS = [
    ("a new cluster gets its finalizer first", seen(cluster(finalizers=[]), infrastructure=external(metadata={})),
     [AddFinalizer]),
    ("a paused cluster is left alone", seen(cluster({"paused": True}, finalizers=[])), []),
    ("so is one that is paused by annotation", seen(cluster(finalizers=[], **PAUSED)), []),
    ("a paused cluster is not deleted", seen(cluster({"paused": True}, deletionTimestamp=DELETED_AT)), []),
    ("the infrastructure is claimed", seen(infrastructure=external(metadata={})), [Claim]),
    ("so is the control plane",
     seen(cluster(BOTH), infrastructure=external(), control_plane=external(PLANE, {})), [Claim]),
    ("what is claimed is not claimed again", seen(infrastructure=external()), []),
    ("what another controls is not claimed", seen(infrastructure=external(metadata=THEIRS)), []),
    ("what is not there is waited for", seen(infrastructure=missing(gone=True)), []),
    ("the endpoint of a ready infrastructure is copied", seen(infrastructure=external(**READY)), [SetEndpoint]),
    ("that of one that another Cluster controls is not", seen(infrastructure=external(metadata=THEIRS, **READY)), []),
    ("that of one that is not ready is not",
     seen(infrastructure=external(spec={"controlPlaneEndpoint": PLACE})), []),
    ("an endpoint that is known is not changed",
     seen(cluster({**WITH_ENDPOINT, "controlPlaneRef": PLANE}),
          infrastructure=external(**{**READY, "spec": {"controlPlaneEndpoint": {"host": "b", "port": 1}}})), []),
    ("the endpoints of v1alpha2 are read",
     seen(infrastructure=external(status={"ready": True, "apiEndpoints": [PLACE]})), [SetEndpoint]),
    ("a port that is none is no endpoint",
     seen(infrastructure=external(status={"ready": True}, spec={"controlPlaneEndpoint": {"host": "a", "port": "6443"}})), []),
    ("an endpoint from the control plane",
     seen(cluster(BOTH), infrastructure=external(status={"ready": True}),
          control_plane=external(PLANE, spec={"controlPlaneEndpoint": PLACE})), [SetEndpoint]),
    ("a kubeconfig is made", seen(cluster(WITH_ENDPOINT), infrastructure=external(), authority=CA), [WriteKubeconfig]),
    ("not without an endpoint", seen(infrastructure=external(), authority=CA), []),
    ("not without an authority", seen(cluster(WITH_ENDPOINT), infrastructure=external()), []),
    ("not without the authority's key",
     seen(cluster(WITH_ENDPOINT), infrastructure=external(), authority=authority(key=False)), []),
    ("not where a provider has the control plane",
     seen(cluster({**WITH_ENDPOINT, "controlPlaneRef": PLANE}), authority=CA), []),
]  # fmt: skip


@pytest.mark.parametrize(("found", "steps"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_plan(found, steps):
    assert kinds(decide(found)) == steps


def kept(endpoint=HERE, ca=CA, made=NOON, owner=OWNER):
    body = kubeconfig_secret("demo", seen().owner, endpoint, ca, made)
    body["metadata"] |= {"ownerReferences": [owner] if owner else [], "uid": "s1", "resourceVersion": "9"}
    return read_secret(SECRET.from_plain(body))


HALF = timedelta(days=182, hours=12)
OTHER_CA = authority()
RENEWALS = [
    ("a fresh one stays", kept(), []),
    ("one past half of its life is made anew", kept(made=NOON - HALF - timedelta(hours=2)), [WriteKubeconfig]),
    ("one just before that stays", kept(made=NOON - HALF + timedelta(hours=2)), []),
    ("one for another endpoint is made anew", kept(ApiEndpoint(host="b", port=6443)), [WriteKubeconfig]),
    ("one of another authority is made anew", kept(ca=OTHER_CA), [WriteKubeconfig]),
    ("one that cannot be read is made anew",
     replace(kept(), kubeconfig=Login()), [WriteKubeconfig]),
    ("one that a user brought stays", kept(ApiEndpoint(host="b", port=6443), owner=None), []),
]  # fmt: skip


@pytest.mark.parametrize(("old", "steps"), [row[1:] for row in RENEWALS], ids=[row[0] for row in RENEWALS])
def test_renewal_of_a_kubeconfig(old, steps):
    assert kinds(decide(seen(cluster(WITH_ENDPOINT), kubeconfig=old, authority=CA))) == steps


def differing(unverified, ca=CA, old=None):
    return seen(
        cluster(WITH_ENDPOINT), kubeconfig=old or kept(ca=OTHER_CA), authority=ca, unverified=unverified
    )


REFUSED = "its API server shows a certificate that this authority has not signed"
DIFFERS = "the kubeconfig has another authority than Secret demo-ca, and stays: "


def trusted(found):
    types = {each.type: each for each in status_of(found).conditions}
    return types.get("CertificateAuthorityVerified")


def test_a_kubeconfig_stays_while_the_api_server_does_not_verify_by_the_new_authority():
    found = differing(REFUSED)
    plan = decide(found)
    assert (plan.steps, plan.because.startswith(DIFFERS + REFUSED)) == ((), True)
    assert plan.wake == timedelta(seconds=30)
    assert plan.awaits[0].what == "the API server to verify by Secret demo-ca"
    condition = trusted(found)
    assert (condition.status, condition.reason, condition.severity, condition.message) == (
        "False", "CertificateAuthorityDiffers", "Warning", DIFFERS + REFUSED
    )  # fmt: skip


def test_nothing_is_said_or_done_while_the_api_server_is_being_asked():
    found = differing(None)
    assert decide(found).steps == ()
    assert trusted(found) is None


def test_a_kubeconfig_is_replaced_when_the_api_server_verifies_by_the_new_authority():
    found = differing("")
    assert kinds(decide(found)) == [WriteKubeconfig]
    assert trusted(found) is None
    before = false_condition(
        "CertificateAuthorityVerified", "CertificateAuthorityDiffers", "Warning", DIFFERS
    )
    status = structs.replace(found.cluster.status, conditions=(before,))
    later = replace(found, cluster=structs.replace(found.cluster, status=status), kubeconfig=kept())
    assert trusted(later).status == "True"


def test_an_authority_that_cannot_sign_leaves_the_kubeconfig_and_says_that_they_differ():
    found = differing("", ca=authority(key=False))
    assert decide(found).steps == ()
    assert (
        trusted(found).message == f"{DIFFERS}the Secret has no tls.key, by which a kubeconfig could be signed"
    )


def test_a_kubeconfig_that_a_user_brought_may_have_another_authority():
    found = differing(REFUSED, old=kept(ca=OTHER_CA, owner=None))
    assert decide(found).steps == ()
    assert trusted(found) is None


def test_a_fresh_kubeconfig_is_looked_at_again_at_half_of_its_life():
    plan = decide(seen(cluster(WITH_ENDPOINT), kubeconfig=kept(), authority=CA))
    assert HALF - timedelta(hours=1) < plan.wake <= HALF


def test_an_expired_authority_signs_nothing():
    found = seen(cluster(WITH_ENDPOINT), authority=authority(NOON - timedelta(days=4000)))
    assert decide(found).steps == ()
    assert kubeconfig_problem(found).startswith("Secret demo-ca has a certificate that expired on")


UNUSUAL = {
    "CA:FALSE": ({"basic": False}, "is no authority: its basic constraints do not say CA:TRUE"),
    "no certSign": ({"signs": False}, "may sign no others: its key usage lacks certSign"),
    "not yet valid": ({"begins": timedelta(days=1)}, "is valid only from "),
}


@pytest.mark.parametrize(("given", "told"), UNUSUAL.values(), ids=UNUSUAL)
def test_an_authority_that_signs_nothing_is_refused_with_the_reason(given, told):
    pair = unusual_authority(NOON, **given)
    held = read_secret(Secret(data={"tls.crt": pair.certificate, "tls.key": pair.key}))
    found = seen(cluster(WITH_ENDPOINT), authority=held)
    assert decide(found).steps == ()
    assert kubeconfig_problem(found).startswith(f"Secret demo-ca has a certificate that {told}")


GOING = {"deletionTimestamp": DELETED_AT}
DEPLOYMENT = Child(MACHINE_DEPLOYMENT, "MachineDeployment", "md", "d1")
WORKER = Child(MACHINE, "Machine", "w", "m1", controller="d1")
MASTER = Child(MACHINE, "Machine", "c", "m2", control_plane=True)
DELETIONS = [
    ("what the cluster owns goes first", [DEPLOYMENT, WORKER], external(PLANE), external(), [DeleteChild],
     "WaitingForWorkersDeletion", "waiting for MachineDeployment md; Machine w to be deleted"),
    ("what goes already is waited for", [replace(DEPLOYMENT, deleted_at=NOON)], external(PLANE), external(), [],
     "WaitingForWorkersDeletion", "waiting for MachineDeployment md to be deleted"),
    ("the machines of a provided control plane are its own", [MASTER], external(PLANE), external(), [DeleteExternal],
     "WaitingForControlPlaneDeletion", "waiting for FooPlane demo to be deleted"),
    ("those of no provider go with the workers", [MASTER], None, external(), [DeleteChild],
     "WaitingForControlPlaneDeletion", "waiting for Machine c to be deleted"),
    ("the control plane goes before the infrastructure", [], external(PLANE, {**OURS, **GOING}), external(), [],
     "WaitingForControlPlaneDeletion", "waiting for FooPlane demo to be deleted"),
    ("then the infrastructure", [], missing(PLANE, gone=True), external(), [DeleteExternal],
     "WaitingForInfrastructureDeletion", "waiting for FooCluster demo to be deleted"),
    ("what cannot be looked at counts as there", [], None, missing(problem="the server is silent"), [],
     "WaitingForInfrastructureDeletion", "waiting to see whether FooCluster demo is deleted: the server is silent"),
    ("what another controls is not deleted", [], None, external(metadata=THEIRS), [RemoveFinalizer],
     "DeletionCompleted", ""),
    ("then the cluster", [], None, missing(gone=True), [RemoveFinalizer], "DeletionCompleted", ""),
    ("a cluster that has nothing goes at once", [], None, None, [RemoveFinalizer], "DeletionCompleted", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("children", "plane", "infra", "steps", "reason", "message"),
    [row[1:] for row in DELETIONS],
    ids=[row[0] for row in DELETIONS],
)
def test_deletion(children, plane, infra, steps, reason, message):
    spec = {"infrastructureRef": INFRA, **({"controlPlaneRef": PLANE} if plane is not None else {})}
    found = seen(cluster(spec, **GOING), children=tuple(children), control_plane=plane, infrastructure=infra)
    assert kinds(decide(found)) == steps
    said = {each.type: each for each in status_of(found).conditions}["Deleting"]
    assert (said.status, said.reason, said.message) == ("True", reason, message)
    assert status_of(found).phase == "Deleting"


def test_what_may_be_there_and_no_watch_shows_is_looked_for_again():
    """No event tells when an extension server, or a definition whose names are taken, is gone."""
    going = cluster({"infrastructureRef": INFRA}, **GOING)
    assert decide(seen(going, infrastructure=missing(problem="not installed"))).wake == delays.REFUSED
    assert decide(seen(going, infrastructure=external(metadata={**OURS, **GOING}))).wake is None


def test_a_message_names_five_children_of_a_kind():
    many = tuple(replace(WORKER, name=f"w{n}") for n in range(8))
    said = {each.type: each for each in status_of(seen(cluster(**GOING), children=many)).conditions}[
        "Deleting"
    ]
    assert said.message == "waiting for Machine w0, w1, w2, w3, w4 and 3 more to be deleted"


INITIALIZED = {"conditions": [to_builtins(true_condition("ControlPlaneInitialized"))]}
PHASES = [
    ("no reference", seen(cluster({})), "Pending"),
    ("a reference", seen(infrastructure=missing(gone=True)), "Provisioning"),
    ("ready without an endpoint", seen(infrastructure=external(status={"ready": True})), "Provisioning"),
    ("ready with an endpoint", seen(cluster(WITH_ENDPOINT), infrastructure=external(status={"ready": True})),
     "Provisioned"),
    ("a failure", seen(cluster(WITH_ENDPOINT), infrastructure=external(status={"ready": True, "failureReason": "CreateError"})),
     "Failed"),
    ("a failure that the provider took back",
     seen(cluster(WITH_ENDPOINT, {"failureReason": "CreateError"}), infrastructure=external(status={"ready": True})),
     "Provisioned"),
    ("a failure of a provider that cannot be looked at now",
     seen(cluster(status={"failureReason": "CreateError"}), infrastructure=missing(problem="no answer")), "Failed"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "phase"), [row[1:] for row in PHASES], ids=[row[0] for row in PHASES])
def test_phase(found, phase):
    assert status_of(found).phase == phase


def said(found: Seen, kind: str) -> Condition | None:
    match = next((each for each in status_of(found).conditions if each.type == kind), None)
    return None if match is None else structs.replace(match, last_transition_time=None)


INFRA_READY, PLANE_READY, INITIAL = "InfrastructureReady", "ControlPlaneReady", "ControlPlaneInitialized"
THEIR_READY = {
    "conditions": [
        {"type": "Ready", "status": "False", "severity": "Warning", "reason": "NoQuota", "message": "full"}
    ]
}
CONDITIONS = [
    ("what is missing is waited for", seen(infrastructure=missing(gone=True, problem="there is no FooCluster ns/demo")),
     false_condition(INFRA_READY, "WaitingForInfrastructure", INFO, "waiting: there is no FooCluster ns/demo")),
    ("what was ready and is missing is an error",
     seen(cluster(status={"infrastructureReady": True}), infrastructure=missing(gone=True)),
     false_condition(INFRA_READY, "Deleted", ERROR, "FooCluster demo was ready and has been deleted since")),
    ("a Ready is mirrored", seen(infrastructure=external(status=THEIR_READY)),
     Condition(type=INFRA_READY, status="False", severity="Warning", reason="NoQuota", message="full")),
    ("without a Ready, status.ready counts", seen(infrastructure=external(status={"ready": True})), true_condition(INFRA_READY)),
    ("without both it is waited for", seen(infrastructure=external()),
     false_condition(INFRA_READY, "WaitingForInfrastructure", INFO, "waiting for FooCluster demo to report that it is ready")),
    ("another's object", seen(infrastructure=external(metadata=THEIRS)),
     false_condition(INFRA_READY, "IncorrectExternalRef", ERROR, "FooCluster demo is controlled by Thing other")),
    ("a step that was refused", replace(seen(infrastructure=external()), failed={"infrastructure": "could not claim"}),
     false_condition(INFRA_READY, "IncorrectExternalRef", ERROR, "could not claim")),
    ("an object that is being deleted", seen(infrastructure=external(metadata={**OURS, **GOING})),
     false_condition(INFRA_READY, "Deleting", INFO, "FooCluster demo is being deleted")),
    ("a paused object says nothing new", seen(infrastructure=external(metadata={**OURS, **PAUSED})), None),
    ("no reference, no condition", seen(cluster({})), None),
]  # fmt: skip


@pytest.mark.parametrize(("found", "result"), [row[1:] for row in CONDITIONS], ids=[r[0] for r in CONDITIONS])
def test_infrastructure_ready(found, result):
    assert said(found, INFRA_READY) == result


INITIALS = [
    ("a provider that says so", seen(cluster(BOTH), control_plane=external(PLANE, status={"initialized": True})), true_condition(INITIAL)),
    ("a provider that does not", seen(cluster(BOTH), control_plane=external(PLANE)),
     false_condition(INITIAL, "WaitingForControlPlaneProviderInitialized", INFO,
            "waiting for FooPlane demo to report that the control plane is initialized")),
    ("a first Node", seen(first_node="c1"), true_condition(INITIAL)),
    ("no Node yet", seen(infrastructure=external()),
     false_condition(INITIAL, "MissingNodeRef", INFO, "waiting for the first machine of the control plane to become a Node")),
    ("no endpoint", seen(infrastructure=external(status={"ready": True})),
     false_condition(INITIAL, "MissingNodeRef", INFO, "waiting for an endpoint: FooCluster demo is ready, but has no "
            "spec.controlPlaneEndpoint, and the Cluster has none of its own")),
    ("no authority", seen(cluster(WITH_ENDPOINT), infrastructure=external()),
     false_condition(INITIAL, "MissingNodeRef", INFO, "waiting for Secret demo-ca, by which the kubeconfig is signed")),
    ("once initialized, always initialized", seen(cluster(status=INITIALIZED), infrastructure=external()), true_condition(INITIAL)),
]  # fmt: skip


@pytest.mark.parametrize(("found", "result"), [row[1:] for row in INITIALS], ids=[row[0] for row in INITIALS])
def test_control_plane_initialized(found, result):
    assert said(found, INITIAL) == result


def test_ready_sums_up_the_control_plane_first():
    found = seen(cluster(BOTH), infrastructure=external(), control_plane=external(PLANE))
    assert said(found, "Ready").reason == "WaitingForControlPlane"
    assert said(found, PLANE_READY).reason == "WaitingForControlPlane"


def test_a_topology_is_refused_with_what_to_do_instead():
    found = said(seen(cluster({"topology": {"class": "x"}})), "TopologyReconciled")
    assert found.severity == ERROR
    assert "set spec.infrastructureRef and spec.controlPlaneRef" in found.message


def test_a_status_that_was_lost_comes_out_the_same():
    there = {"infrastructure": external(**READY), "first_node": "c1", "kubeconfig": kept(), "authority": CA}
    before = status_of(seen(cluster(WITH_ENDPOINT), **there))
    moved = cluster(WITH_ENDPOINT, to_builtins(ClusterStatus()))
    assert status_of(seen(moved, **there)) == before
    kept_on = cluster(WITH_ENDPOINT, to_builtins(before))
    assert status_of(seen(kept_on, **there)) == before


def test_failure_domains_are_read_from_both_contracts_and_what_is_none_is_left_out():
    zones = {"a": {"controlPlane": True, "attributes": {"x": "y"}}, "b": "rubbish"}
    found = seen(infrastructure=external(status={"ready": True, "failureDomains": zones}))
    assert to_builtins(status_of(found).failure_domains) == {"a": zones["a"]}
    listed = [{"name": "a", "controlPlane": True}]
    found = seen(infrastructure=external(status={"ready": True, "failureDomains": listed}))
    assert to_builtins(status_of(found).failure_domains) == {"a": {"controlPlane": True}}


def test_the_booleans_are_always_written():
    written = to_builtins(status_of(seen(cluster({}))))
    assert (written["infrastructureReady"], written["controlPlaneReady"]) == (False, False)


def test_events_tell_what_changed():
    before = ClusterStatus(phase="Provisioning")
    after = ClusterStatus(phase="Failed", infrastructure_ready=True, control_plane_ready=False)
    assert list(events_of(before, after, "demo")) == [
        Event("InfrastructureReady", "Cluster demo InfrastructureReady is now true"),
        Event("Failed", "Cluster demo is Failed", True),
    ]
    assert list(events_of(after, after, "demo")) == []


def not_ready(*types):
    at = "2030-01-01T11:00:00Z"
    return {"conditions": [{"type": each, "status": "False", "lastTransitionTime": at} for each in types]}


ABSENT = {"problem": "p", "remedy": "create it"}
WAITS = {
    "infrastructure that is not ready": (seen(infrastructure=external()), ["FooCluster demo to be ready"]),
    "infrastructure that is not there": (seen(infrastructure=missing(gone=True, **ABSENT)), ["FooCluster demo"]),
    "infrastructure of another": (
        seen(infrastructure=external(metadata=THEIRS)), ["FooCluster demo to be controlled by Cluster demo"],
    ),
    "infrastructure that is paused": (
        seen(infrastructure=external(metadata={**OURS, **PAUSED})), ["FooCluster demo to be resumed"],
    ),
    "no infrastructure": (seen(cluster({})), ["spec.infrastructureRef"]),
    "caches that fill": (seen(infrastructure=missing(transient=True, **ABSENT)), []),
    "a control plane, too": (
        seen(cluster(BOTH), infrastructure=external(**READY), control_plane=external(PLANE), ),
        ["FooPlane demo to be ready", "spec.controlPlaneEndpoint"],
    ),
    "an endpoint": (seen(infrastructure=external(status={"ready": True})), ["spec.controlPlaneEndpoint"]),
    "an authority": (
        seen(cluster(WITH_ENDPOINT), infrastructure=external(**READY)), ["Secret demo-ca"],
    ),
    "a first machine": (
        seen(cluster(WITH_ENDPOINT), infrastructure=external(**READY), authority=CA),
        ["the first machine of the control plane to become a Node"],
    ),
    "nothing": (
        seen(cluster(WITH_ENDPOINT), infrastructure=external(**READY), authority=CA, first_node="c"), [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("state", "waits"), WAITS.values(), ids=WAITS)
def test_a_cluster_names_what_it_waits_for_and_what_a_user_can_do(state, waits):
    plan = decide(state)
    if not plan.last:
        assert [each.what for each in plan.awaits] == waits
        assert all(each.what in plan.because and each.remedy for each in plan.awaits)


def test_a_wait_counts_from_when_the_condition_says_so():
    about = cluster(status=not_ready("InfrastructureReady"))
    (wait,) = decide(seen(about, infrastructure=external())).awaits
    assert wait.since == NOON - timedelta(hours=1)


def test_a_deletion_names_what_it_waits_for():
    leaving = cluster(deletionTimestamp=DELETED_AT)
    state = seen(leaving, infrastructure=external(), children=(replace(DEPLOYMENT, deleted_at=NOON), WORKER))
    waits = {each.what: each.since for each in decide(state).awaits}
    assert waits == {"MachineDeployment md to be deleted": NOON, "Machine w to be deleted": None}
    going = external(metadata={**OURS, "deletionTimestamp": DELETED_AT})
    (wait,) = decide(seen(leaving, infrastructure=going)).awaits
    assert (wait.what, wait.since) == ("FooCluster demo to be deleted", NOON - timedelta(minutes=1))
