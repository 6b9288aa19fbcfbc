"""Objects of providers: which version is read, where a contract has a field, and how an owner claims one."""

import pytest

from kubewright.api.cluster.v1beta1 import ApiEndpoint, ObjectReference
from kubewright.api.meta import OwnerReference
from kubewright.clusters.cluster.seen import endpoint_of
from kubewright.clusters.external import fields
from kubewright.clusters.external.fields import Contracts
from kubewright.clusters.external.object import (
    UNREADABLE,
    Claim,
    External,
    claim,
    look_up,
    same_for_cluster,
    same_for_machine,
)
from kubewright.runtime.references.reference import Absent, Cause, Found, Version
from kubewright.wire.gvk import Key

V1BETA1, V1BETA2 = "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"


@pytest.mark.parametrize(
    ("labels", "chosen"),
    [
        ({V1BETA1: "v1beta1"}, Version("v1beta1", "v1beta1")),
        ({V1BETA1: "v1alpha4_v1beta1"}, Version("v1beta1", "v1beta1")),
        ({V1BETA1: "v1_v1beta2_v2alpha1"}, Version("v1", "v1beta1")),
        ({V1BETA1: "v1beta1", V1BETA2: "v1beta2"}, Version("v1beta1", "v1beta1")),
        ({V1BETA2: "v1beta2"}, Version("v1beta2", "v1beta2")),
        ({V1BETA1: "", V1BETA2: "v1"}, Version("v1", "v1beta2")),
        (
            {},
            "has no versions matching contract v1beta1: it lacks the label cluster.x-k8s.io/v1beta1",
        ),
        ({V1BETA1: "latest"}, "names no version in its label cluster.x-k8s.io/v1beta1: 'latest'"),
    ],
    ids=[
        "the one version that the label names",
        "the latest of two",
        "a stable version before a later alpha",
        "the core's own contract before the next",
        "the next contract where there is no other",
        "the next contract where the own names nothing",
        "none without a label",
        "none where the label names no version",
    ],
)
def test_the_version_of_a_crd_is(labels, chosen) -> None:
    assert Contracts().choose(labels) == chosen


OLD = {
    "spec": {"providerID": "foo:///1", "failureDomain": "a"},
    "status": {
        "ready": True,
        "initialized": True,
        "failureReason": "CreateError",
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, "rubbish"],
        "failureDomains": {"a": {"controlPlane": True}},
    },
}
NEW = {
    "spec": {"providerID": "foo:///1"},
    "status": {
        "failureDomain": "a",
        "initialization": {"provisioned": True, "dataSecretCreated": True, "controlPlaneInitialized": True},
        "failureReason": "CreateError",
    },
}


@pytest.mark.parametrize(
    ("read", "field", "old", "new"),
    [
        (fields.flag, fields.MACHINE_READY, True, True),
        (fields.flag, fields.CLUSTER_READY, True, True),
        (fields.flag, fields.BOOTSTRAP_READY, True, True),
        (fields.flag, fields.CONTROL_PLANE_READY, True, True),
        (fields.flag, fields.CONTROL_PLANE_INITIALIZED, True, True),
        (fields.text, fields.PROVIDER_ID, "foo:///1", "foo:///1"),
        (fields.text, fields.FAILURE_DOMAIN, "a", "a"),
        (fields.text, fields.FAILURE_REASON, "CreateError", ""),
        (fields.structs, fields.ADDRESSES, ({"type": "InternalIP", "address": "10.0.0.1"},), ()),
        (fields.struct, fields.FAILURE_DOMAINS, {"a": {"controlPlane": True}}, {}),
    ],
)
def test_a_fact_is_read_where_the_contract_has_it(read, field, old, new) -> None:
    assert (read(OLD, field, "v1beta1"), read(NEW, field, "v1beta2")) == (old, new)


@pytest.mark.parametrize("found", [None, {}, {"status": None}, {"status": []}, {"status": {"ready": "true"}}])
def test_what_is_missing_or_of_another_type_is_not_so(found) -> None:
    assert fields.flag(found, fields.MACHINE_READY, "v1beta1") is False
    assert fields.text(found, fields.PROVIDER_ID, "v1beta1") == ""
    assert fields.structs(found, fields.ADDRESSES, "v1beta1") == ()
    assert fields.struct(found, fields.CONTROL_PLANE_ENDPOINT, "v1beta1") == {}


REF = ObjectReference(api_version="infra.example.com/v1", kind="FooMachine", name="m", namespace="ns")
OWNER = OwnerReference(
    api_version="cluster.x-k8s.io/v1beta1",
    kind="Machine",
    name="m",
    uid="machine-uid",
    controller=True,
    block_owner_deletion=True,
)
MINE = {
    "apiVersion": "cluster.x-k8s.io/v1beta1",
    "kind": "Machine",
    "name": "m",
    "uid": "machine-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}
SET = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "name": "s", "uid": "set-uid"}
TEAM = {"apiVersion": "v1", "kind": "ConfigMap", "name": "team", "uid": "team-uid"}
LABELS = {"cluster.x-k8s.io/cluster-name": "demo"}


def external(owners=(), *, labels=LABELS, contract="v1beta1", status=None, **metadata) -> External:
    found = {
        "metadata": {
            "uid": "u",
            "resourceVersion": "7",
            "labels": labels,
            "ownerReferences": list(owners),
            **metadata,
        },
        "status": status or {},
    }
    return External(REF, found, contract=contract)


OTHER = {**MINE, "kind": "Thing", "name": "theirs"}


def written(*owners, labels=None) -> Claim:
    body = {"ownerReferences": list(owners)} if owners else {}
    guard = {"uid": "u", "resourceVersion": "7"}
    return Claim({"metadata": {**body, **({"labels": labels} if labels else {}), **guard}})


CLAIMS = [
    ("an object that is not there", External(REF, gone=True), Claim()),
    ("a new object gets owner and label", external(labels={}), written(MINE, labels=LABELS)),
    ("an object that is claimed already", external([MINE]), Claim()),
    ("an object without the label", external([MINE], labels={}), written(labels=LABELS)),
    ("an object with another cluster's label", external([MINE], labels={next(iter(LABELS)): "x"}), written(labels=LABELS)),
    ("an object with labels of a team", external([MINE], labels={"team": "red"}), written(labels=LABELS)),
    ("an owner reference with the uid from before a move", external([{**MINE, "uid": "of-another-server"}]), written(MINE)),
    ("an owner reference of an older version", external([{**MINE, "apiVersion": "cluster.x-k8s.io/v1alpha4"}]), written(MINE)),
    ("an owner reference that does not control", external([{**MINE, "controller": False}]), written(MINE)),
    ("an owner that does not control stays", external([TEAM]), written(TEAM, MINE)),
    ("an object of another controller", external([OTHER]), Claim(problem="FooMachine m is controlled by Thing theirs")),
    ("an object of another owner of our kind", external([{**MINE, "name": "other"}]),
     Claim(problem="FooMachine m is controlled by Machine other")),
    ("a former owner that controls is replaced", external([{**SET, "controller": True}]), written(MINE)),
    ("a former owner is removed beside us", external([MINE, SET]), written(MINE)),
    ("an object that is being deleted", external(deletionTimestamp="2030-01-01T00:00:00Z"), Claim()),
    ("an object that is paused", external(annotations={"cluster.x-k8s.io/paused": ""}), Claim()),
    ("owner references that are no list", external(ownerReferences={"a": 1}), written(MINE)),
]  # fmt: skip


@pytest.mark.parametrize(("found", "result"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS])
def test_claim(found, result) -> None:
    assert claim(found, OWNER, "demo", former_owners=("MachineSet",)) == result


def test_only_another_controller_is_another_owner() -> None:
    assert external([OTHER]).other_controller(OWNER) == "Thing theirs"
    assert external([{**MINE, "uid": "of-another-server"}]).other_controller(OWNER) == ""
    assert external().other_controller(OWNER) == ""


def test_a_failure_says_where_it_comes_from_and_ends_when_the_provider_ends_it() -> None:
    failed = external(status={"failureReason": "CreateError", "failureMessage": "no quota"})
    assert failed.failure == (
        "CreateError",
        "Failure detected from referenced resource infra.example.com/v1, Kind=FooMachine "
        'with name "m": no quota',
    )
    old = external(status={"errorReason": "CreateError", "errorMessage": "no quota"})
    assert old.failure == failed.failure
    both = external(
        status={"failureReason": "New", "errorReason": "Old", "failureMessage": "", "errorMessage": "x"}
    )
    assert (both.failure[0], both.failure[1][-3:]) == ("New", ": x")
    assert external(contract="v1beta2", status={"errorReason": "CreateError"}).failure == ("", "")
    assert external().failure == ("", "")


HERE = ApiEndpoint(host="10.0.0.1", port=6443)
PLACE = {"host": "10.0.0.1", "port": 6443}
ENDPOINTS = [
    ("nothing said", {}, None),
    ("the contract's path", {"spec": {"controlPlaneEndpoint": PLACE}}, HERE),
    ("the list of v1alpha2", {"status": {"apiEndpoints": [PLACE, {"host": "other", "port": 1}]}}, HERE),
    ("the contract before the list", {"spec": {"controlPlaneEndpoint": PLACE},
                                      "status": {"apiEndpoints": [{"host": "other", "port": 1}]}}, HERE),
    ("no port yet", {"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 0}}}, None),
    ("a port that is none", {"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": "6443"}}}, None),
    ("a port out of range", {"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 70000}}}, None),
    ("an empty list", {"status": {"apiEndpoints": []}}, None),
    ("a spec that is none", {"spec": "no", "status": []}, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "result"), [row[1:] for row in ENDPOINTS], ids=[row[0] for row in ENDPOINTS]
)
def test_endpoint(content, result) -> None:
    assert endpoint_of(External(REF, content)) == result


@pytest.mark.parametrize(
    ("contract", "status", "ready"),
    [
        ("v1beta1", {"ready": True}, True),
        ("v1beta1", {"ready": False}, False),
        ("v1beta1", {"ready": "true"}, False),
        ("v1beta1", {}, False),
        ("v1beta1", {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}, False),
        ("v1beta1", {"initialization": {"provisioned": True}}, False),
        ("v1beta2", {"ready": True}, False),
        ("v1beta2", {"initialization": {"provisioned": True}}, True),
        ("v1beta2", {"initialization": {"dataSecretCreated": True}}, True),
        ("v1beta2", {"initialization": {"controlPlaneInitialized": True}}, True),
    ],
)
def test_an_object_is_ready_by_its_contract(contract, status, ready) -> None:
    assert external(contract=contract, status=status).ready is ready


class Answers:
    """A lookup that gives one answer, and keeps what was asked."""

    def __init__(self, answer) -> None:
        self.answer, self.asked = answer, []

    def get(self, owner, reference):
        self.asked.append((owner, reference))
        return self.answer


MACHINE = Key("ns", "m")


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (Found({"metadata": {}}, None, "v1beta2"), External(REF, {"metadata": {}}, contract="v1beta2")),
        (
            Absent(Cause.MISSING, "there is no x"),
            External(REF, problem="there is no x", gone=True, remedy="create it, or correct the reference"),
        ),
        (
            Absent(Cause.NOT_INSTALLED, "not installed"),
            External(REF, problem="not installed", remedy="install its provider, or correct the reference"),
        ),
        (
            Absent(Cause.NOT_SYNCED, "not listed", transient=True),
            External(REF, problem="not listed", transient=True, remedy=UNREADABLE),
        ),
    ],
    ids=["an object", "none", "a kind that is not installed", "a cache that is not full"],
)
def test_a_lookup_finds(answer, wanted) -> None:
    assert look_up(Answers(answer), MACHINE, REF) == wanted


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        (ObjectReference(), "the reference has no apiVersion and no kind and no name"),
        (ObjectReference(api_version="a/v1", kind="Foo"), "the reference has no name"),
        (
            ObjectReference(api_version="v1", kind="ConfigMap", name="x"),
            "the kind ConfigMap is one of Kubernetes' own, not a provider's; the reference lacks the provider's API group",
        ),
        (
            ObjectReference(api_version="a/v1", kind="Foo", name="x", namespace="other"),
            "the reference is to the namespace other, and only ns is allowed",
        ),
    ],
)
def test_a_reference_that_cannot_be_followed_is_not_looked_up(ref, problem) -> None:
    user = Answers(None)
    assert look_up(user, MACHINE, ref) == External(
        ref, problem=problem, remedy="correct the reference", usable=False
    )
    assert user.asked == []


def test_a_reference_without_a_namespace_is_to_that_of_its_owner() -> None:
    user = Answers(Absent(Cause.MISSING, ""))
    look_up(user, MACHINE, ObjectReference(api_version="infra.example.com/v1", kind="Foo", name="x"))
    ((owner, reference),) = user.asked
    assert (owner, str(reference)) == (MACHINE, "Foo ns/x")


def an_object(**parts) -> dict[str, object]:
    meta = {"uid": "u", "resourceVersion": "1", **parts.get("metadata", {})}
    return {"metadata": meta, "spec": parts.get("spec", {}), "status": parts.get("status", {})}


BARE, OK = an_object(), {"ready": True}
OWNED = {"ownerReferences": [{"apiVersion": "a/v1", "kind": "B", "name": "c"}]}


@pytest.mark.parametrize(
    ("before", "after", "machine", "cluster"),
    [
        pytest.param(BARE, an_object(metadata={"finalizers": ["f"]}), True, True, id="a finalizer"),
        pytest.param(BARE, an_object(metadata={"annotations": {"a": "b"}}), True, True, id="an annotation"),
        pytest.param(
            BARE,
            an_object(metadata={"annotations": {"cluster.x-k8s.io/paused": ""}}),
            False,
            False,
            id="it is paused",
        ),
        pytest.param(BARE, an_object(metadata=OWNED), False, False, id="it is claimed"),
        pytest.param(BARE, an_object(metadata={"uid": "v"}), False, False, id="it is another object"),
        pytest.param(
            BARE, an_object(metadata={"deletionTimestamp": "now"}), False, False, id="it is being deleted"
        ),
        pytest.param(
            BARE, an_object(spec={"providerID": "p"}), True, True, id="a providerID before it is ready"
        ),
        pytest.param(
            an_object(status=OK),
            an_object(status=OK, spec={"providerID": "p"}),
            False,
            True,
            id="a providerID when it is ready",
        ),
        pytest.param(
            BARE,
            an_object(spec={"controlPlaneEndpoint": {"host": "h", "port": 1}}),
            True,
            False,
            id="an endpoint",
        ),
        pytest.param(BARE, an_object(status=OK), False, False, id="its status"),
        pytest.param(
            BARE,
            an_object(metadata={"annotations": {"machine.cluster.x-k8s.io/certificates-expiry": "t"}}),
            False,
            True,
            id="when its certificates expire",
        ),
    ],
)
def test_a_change_that_an_owner_cannot_see(before, after, machine: bool, cluster: bool) -> None:
    assert same_for_machine(before, after, "v1beta1") is machine
    assert same_for_cluster(before, after, "v1beta1") is cluster
