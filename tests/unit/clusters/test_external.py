"""Objects of providers: read by the paths of their contract, and claimed for their owners."""

import pytest

from kubewright.api.cluster.v1beta1 import ApiEndpoint, ObjectReference
from kubewright.api.meta import OwnerReference
from kubewright.clusters.cluster.provided import endpoint_of
from kubewright.clusters.references.external import Claim, External, claim

REF = ObjectReference(api_version="infra.example/v1", kind="FooCluster", name="demo", namespace="ns")
OWNER = OwnerReference(
    api_version="cluster.x-k8s.io/v1beta1",
    kind="Cluster",
    name="demo",
    uid="u1",
    controller=True,
    block_owner_deletion=True,
)
MINE = {
    "apiVersion": "cluster.x-k8s.io/v1beta1",
    "kind": "Cluster",
    "name": "demo",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}
LABEL = {"cluster.x-k8s.io/cluster-name": "demo"}
SEEN = {"uid": "f1", "resourceVersion": "7"}


def found(metadata=None, **rest):
    return External(REF, {"metadata": {**SEEN, **(metadata or {})}, **rest})


OTHER = {**MINE, "kind": "Thing", "name": "theirs"}
SET = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "name": "s", "uid": "s1"}


def written(*owners, labels=None):
    body = {"ownerReferences": list(owners)} if owners else {}
    return Claim({"metadata": {**body, **({"labels": labels} if labels else {}), **SEEN}})


CLAIMS = [
    ("an object that is not there", External(REF, gone=True), Claim()),
    ("a new object gets owner and label", found(), written(MINE, labels=LABEL)),
    ("an object that is ours already", found({"ownerReferences": [MINE], "labels": LABEL}), Claim()),
    ("an object without the label", found({"ownerReferences": [MINE]}), written(labels=LABEL)),
    ("an object with another cluster's label", found({"ownerReferences": [MINE], "labels": {**LABEL, next(iter(LABEL)): "x"}}),
     written(labels=LABEL)),
    ("an owner reference with the uid from before a move", found({"ownerReferences": [{**MINE, "uid": "u0"}], "labels": LABEL}),
     written(MINE)),
    ("an owner reference of an older version", found({"ownerReferences": [{**MINE, "apiVersion": "cluster.x-k8s.io/v1alpha4"}], "labels": LABEL}),
     written(MINE)),
    ("an owner reference that does not control", found({"ownerReferences": [{**MINE, "controller": False}], "labels": LABEL}),
     written(MINE)),
    ("an owner that does not control stays", found({"ownerReferences": [{**OTHER, "controller": False}], "labels": LABEL}),
     written({**OTHER, "controller": False}, MINE)),
    ("an object of another controller", found({"ownerReferences": [OTHER]}),
     Claim(problem="FooCluster demo is controlled by Thing theirs")),
    ("an owner from before is dropped", found({"ownerReferences": [SET], "labels": LABEL}), written(MINE)),
    ("an owner from before is dropped beside us", found({"ownerReferences": [SET, MINE], "labels": LABEL}), written(MINE)),
    ("an object that is being deleted", found({"deletionTimestamp": "2030-01-01T00:00:00Z"}), Claim()),
    ("an object that is paused", found({"annotations": {"cluster.x-k8s.io/paused": ""}}), Claim()),
    ("owner references that are none", found({"ownerReferences": {"a": 1}, "labels": LABEL}), written(MINE)),
]  # fmt: skip


@pytest.mark.parametrize(("external", "result"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS])
def test_claim(external, result):
    assert claim(external, OWNER, "demo", former_owners=("MachineSet",)) == result


def test_only_another_controller_is_another_owner():
    assert found({"ownerReferences": [OTHER]}).other_controller(OWNER) == "Thing theirs"
    assert found({"ownerReferences": [{**MINE, "uid": "u0"}]}).other_controller(OWNER) == ""
    assert found().other_controller(OWNER) == ""


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
def test_endpoint(content, result):
    assert endpoint_of(External(REF, content)) == result


READY = [
    ("true", {"status": {"ready": True}}, True),
    ("false", {"status": {"ready": False}}, False),
    ("missing", {"status": {}}, False),
    ("a text", {"status": {"ready": "true"}}, False),
    ("no status", {}, False),
    ("addresses alone", {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}, False),
]


@pytest.mark.parametrize(("content", "result"), [row[1:] for row in READY], ids=[row[0] for row in READY])
def test_ready(content, result):
    assert External(REF, content).ready is result


def test_a_failure_says_where_it_comes_from():
    failed = External(REF, {"status": {"failureReason": "CreateError", "failureMessage": "no quota"}})
    said = 'Failure detected from referenced resource infra.example/v1, Kind=FooCluster with name "demo": no quota'
    assert failed.failure == ("CreateError", said)
    assert External(REF, {"status": {}}).failure == ("", "")
