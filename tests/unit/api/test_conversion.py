"""v1beta1 and v1beta2 of Cluster API's kinds: what becomes of an object on the way to the other version and back."""

import copy
import json
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.api.objects_of_schemas import Objects

from kubewright.api.bootstrap import conversion as bootstrap
from kubewright.api.bootstrap import manifests as bootstrap_manifests
from kubewright.api.cluster import conversion as cluster
from kubewright.api.cluster import manifests as cluster_manifests
from kubewright.api.conversion import ANNOTATION, as_written, converter, downgraded, upgraded

CRDS = (*cluster_manifests.crds_of_today(), *bootstrap_manifests.crds_of_today())
TABLES = {table.kind.resource.kind: table for table in (*cluster.TABLES, *bootstrap.TABLES)}
CORE = [table.kind.resource.kind for table in cluster.TABLES]
OLD, NEW = "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"


def version_of(group, kind):
    return f"{group}/v1beta1"


def up(obj):
    return upgraded(TABLES[obj["kind"]], obj, version_of)


def down(obj):
    return downgraded(TABLES[obj["kind"]], obj, version_of)


def obj(kind, version, **content):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "n", "namespace": "ns"}, **content}


def without_annotation(found):
    annotations = {k: v for k, v in found["metadata"].get("annotations", {}).items() if k != ANNOTATION}
    rest = {key: value for key, value in found["metadata"].items() if key != "annotations"}
    return {**found, "metadata": {**rest, **({"annotations": annotations} if annotations else {})}}


SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_an_old_object_comes_back_as_it_was_written_first(kind, seed):
    first = without_annotation(down(up(Objects(CRDS, Random(seed)).one(kind, "v1beta1"))))
    assert without_annotation(down(up(first))) == first


@pytest.mark.parametrize("kind", CORE)
@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_new_object_comes_back_whole(kind, seed):
    found = Objects(CRDS, Random(seed)).one(kind, "v1beta2")
    whole = {key: found[key] for key in ("apiVersion", "kind", "metadata")}
    whole |= as_written(TABLES[kind].kind.type)(found)
    assert meant(up(down(found))) == meant(whole)


def meant(found):
    """Without what upstream writes or leaves out at will: zeros, and empty parts of what v1beta1 says."""
    found = copy.deepcopy(found)
    status = found.get("status") or {}
    for domain in status.get("failureDomains", ()):
        domain.setdefault("controlPlane", False)
    machine = found.get("spec", {}).get("template", {}).get("spec", {})
    if found["kind"] == "MachineSet" and machine.get("minReadySeconds") == 0:
        del machine["minReadySeconds"]
    old = (status.pop("deprecated", None) or {}).get("v1beta1") or {}
    if status.get("replicas") == 0:
        del status["replicas"]
    return {**found, "status": status, "old": {key: value for key, value in old.items() if value}}


@pytest.mark.parametrize("kind", ["KubeadmConfig", "KubeadmConfigTemplate"])
@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_new_kubeadm_config_changes_once_at_most(kind, seed):
    first = up(down(Objects(CRDS, Random(seed)).one(kind, "v1beta2")))
    assert up(down(first)) == first


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_what_is_converted_is_not_changed(kind, version):
    found = Objects(CRDS, Random(3)).one(kind, version)
    before = copy.deepcopy(found)
    (up if version == "v1beta1" else down)(found)
    assert found == before


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_converted_is_not_changed_where_it_has_fields_of_the_other_version(kind):
    random = Objects(CRDS, Random(4))
    versions = {version: random.one(kind, version) for version in ("v1beta1", "v1beta2")}
    for found, other in permutations(versions.values()):
        mixed = {**found, "apiVersion": other["apiVersion"]}
        before = copy.deepcopy(mixed)
        (up if mixed["apiVersion"].endswith("/v1beta1") else down)(mixed)
        assert mixed == before


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"spec": 1}', '{"status": {"initialization": []}}', "\ud800"]
)
def test_a_damaged_annotation_counts_as_none(text):
    found = obj("Cluster", OLD, spec={"paused": False})
    damaged = {**found, "metadata": {**found["metadata"], "annotations": {ANNOTATION: text, "a": "b"}}}
    kept = {**found, "metadata": {**found["metadata"], "annotations": {"a": "b"}}}
    assert up(damaged) == up(kept)


def test_false_on_purpose_is_told_from_unset():
    found = obj("Cluster", NEW, spec={"paused": False})
    assert up(down(found))["spec"] == {"paused": False}
    assert "spec" not in up(obj("Cluster", OLD, spec={"paused": False}))


def test_what_the_old_version_changed_wins_over_the_annotation():
    stored = down(obj("Cluster", NEW, spec={"paused": False}))
    changed = {**stored, "spec": {**stored["spec"], "paused": True}}
    assert up(changed)["spec"] == {"paused": True}


def test_a_reference_gets_the_version_that_its_contract_names():
    reference = {"apiGroup": "toys.io", "kind": "ToyCluster", "name": "t"}
    found = obj("Cluster", NEW, spec={"infrastructureRef": reference})
    old = downgraded(
        TABLES["Cluster"], found, lambda group, kind: f"{group}/v7" if kind == "ToyCluster" else ""
    )
    assert old["spec"]["infrastructureRef"] == {
        "apiVersion": "toys.io/v7",
        "kind": "ToyCluster",
        "name": "t",
        "namespace": "ns",
    }
    assert up(old)["spec"]["infrastructureRef"] == reference


def test_a_phase_is_what_the_newer_version_said():
    stored = down(obj("Machine", NEW, status={"phase": "Updating"}))
    assert stored["status"]["phase"] == "Running"
    stored["status"]["phase"] = "Failed"
    assert up(stored)["status"]["phase"] == "Updating"


def test_conditions_of_both_versions_stand_in_both():
    old, new = [{"type": "Ready", "status": "True"}], [{"type": "Available", "status": "True", "message": ""}]
    found = up(obj("Machine", OLD, status={"conditions": old, "v1beta2": {"conditions": new}}))
    assert found["status"]["conditions"] == new
    assert found["status"]["deprecated"] == {"v1beta1": {"conditions": old}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.9s", 1), ("0s", 0), ("1h0m1s", 3601), ("2000000h0m0s", 2**31 - 1), ("soon", None)],
)
def test_a_duration_becomes_whole_seconds_that_32_bits_hold(text, seconds):
    found = up(obj("Machine", OLD, spec={"clusterName": "c", "nodeDrainTimeout": text}))
    assert found["spec"].get("deletion", {}).get("nodeDrainTimeoutSeconds") == seconds


def test_flags_are_a_list_in_the_order_of_their_names():
    spec = {"clusterConfiguration": {"apiServer": {"extraArgs": {"v": "4", "a": ""}}}}
    found = up(obj("KubeadmConfig", "bootstrap.cluster.x-k8s.io/v1beta1", spec=spec))
    flags = [{"name": "a", "value": ""}, {"name": "v", "value": "4"}]
    assert found["spec"]["clusterConfiguration"] == {"apiServer": {"extraArgs": flags}}


def test_a_time_of_v1beta1_stands_where_v1beta2_waits():
    spec = {"clusterConfiguration": {"apiServer": {"timeoutForControlPlane": "5m0s"}}}
    found = up(obj("KubeadmConfig", "bootstrap.cluster.x-k8s.io/v1beta1", spec=spec))
    waits = {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 300}}
    assert found["spec"] == {"initConfiguration": waits, "joinConfiguration": waits}


def test_the_annotation_is_what_go_writes():
    found = down(obj("Machine", NEW, spec={"version": "<v>", "clusterName": "c"}))
    assert found["metadata"]["annotations"][ANNOTATION] == (
        '{"kind":"Machine","apiVersion":"cluster.x-k8s.io/v1beta2",'
        '"spec":{"clusterName":"c","version":"\\u003cv\\u003e"}}'
    )
    assert json.loads(found["metadata"]["annotations"][ANNOTATION])["spec"]["version"] == "<v>"


def test_an_object_that_has_the_version_is_not_touched():
    convert = converter(TABLES["Machine"], version_of)
    found = obj("Machine", OLD, spec={"clusterName": "c"})
    assert convert(found, OLD) is found
    assert convert(convert(found, NEW), OLD)["spec"]["clusterName"] == "c"
