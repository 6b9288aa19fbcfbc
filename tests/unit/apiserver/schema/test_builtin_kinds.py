"""What the server fills in and refuses of built-in kinds, beyond the recorded cases."""

import base64
from typing import Any

import pytest

from kubewright.apiserver.registry.builtin import builtin_catalog, conversion, prepare
from kubewright.apiserver.registry.kind import ServedKind
from kubewright.apiserver.schema.node import Object

CATALOG = builtin_catalog()


def kind(group: str, plural: str) -> ServedKind:
    found = CATALOG.find(group, "v1", plural)
    assert found is not None
    return found


def test_string_data_becomes_data() -> None:
    secret = {"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "stringData": {"a": "b", "c": "ü"}}
    stored = kind("", "secrets").prepare(secret, None)
    assert stored["data"] == {
        name: base64.b64encode(text.encode()).decode() for name, text in (("a", "b"), ("c", "ü"))
    }
    assert "stringData" not in stored
    assert "stringData" in secret, "the argument is not changed"


def test_a_namespace_begins_active_finalized_and_labelled() -> None:
    stored = kind("", "namespaces").prepare({"metadata": {"name": "n", "labels": {"a": "b"}}}, None)
    assert stored["status"] == {"phase": "Active"}
    assert stored["spec"] == {"finalizers": ["kubernetes"]}
    assert stored["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "n"}


def test_an_update_of_a_namespace_leaves_its_finalizers_alone() -> None:
    old = {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}}
    new = {"metadata": {"name": "n"}, "spec": {"finalizers": []}}
    assert kind("", "namespaces").prepare(new, old)["spec"] == {"finalizers": []}


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({}, {"completions": 1, "backoffLimit": 6, "podReplacementPolicy": "TerminatingOrFailed"}),
        ({"backoffLimitPerIndex": 1, "completions": 3}, {"completions": 3, "backoffLimit": 2**31 - 1}),
        ({"backoffLimitPerIndex": 1, "backoffLimit": 2}, {"backoffLimit": 2}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
        ({"parallelism": 2, "backoffLimit": None}, {"parallelism": 2, "backoffLimit": 6}),
    ],
)
def test_what_a_job_gets_depends_on_what_it_has(spec: Object, filled: Object) -> None:
    job = {"metadata": {"name": "j"}, "spec": {**spec, "template": {"spec": {"containers": []}}}}
    stored = kind("batch", "jobs").prepare(job, None)["spec"]
    assert {name: stored.get(name) for name in filled} == filled
    assert ("completions" in stored) == ("completions" in spec or "parallelism" not in spec)


IMAGES = [
    ("nginx", "Always"), ("nginx:latest", "Always"), ("nginx:1.2", "IfNotPresent"),
    ("host:5000/nginx", "Always"), ("host:5000/nginx:1", "IfNotPresent"),
    ("nginx@sha256:abc", "IfNotPresent"),
]  # fmt: skip


@pytest.mark.parametrize(("image", "policy"), IMAGES)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    spec = prepare.spec_defaults({"containers": [{"name": "c", "image": image}]})
    assert spec["containers"][0]["imagePullPolicy"] == policy


def resources(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return {"resources": {"requests": requests, "limits": limits}}


BOTH = {"cpu": "1", "memory": "1Gi"}
QOS = [
    ("no requests", [{}], "BestEffort"),
    ("all is bounded", [resources(BOTH, BOTH)], "Guaranteed"),
    ("limits alone", [resources({}, BOTH)], "Guaranteed"),
    ("one of two containers is not bounded", [resources(BOTH, BOTH), {}], "Burstable"),
    ("requests below limits", [resources({"cpu": "500m"}, BOTH)], "Burstable"),
    ("only the memory is bounded", [resources({}, {"memory": "1Gi"})], "Burstable"),
    ("devices do not count", [resources({"gpu": "1"}, {"gpu": "1"})], "BestEffort"),
]


@pytest.mark.parametrize(("containers", "wanted"), [c[1:] for c in QOS], ids=[c[0] for c in QOS])
def test_quality_of_service(containers: list[Any], wanted: str) -> None:
    assert prepare.qos_class({"containers": containers}) == wanted


def test_tolerations_for_a_lost_node_are_added_unless_given() -> None:
    own = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    tolerant = prepare.with_default_tolerations({"spec": {"tolerations": [own]}})
    assert [t["tolerationSeconds"] for t in tolerant["spec"]["tolerations"]] == [5, 300]
    assert prepare.with_default_tolerations(tolerant) == tolerant
    everything = {"spec": {"tolerations": [{"operator": "Exists"}]}}
    assert prepare.with_default_tolerations(everything) == everything


@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}, "status": {"phase": "Running"}}, 7),
        ({"spec": {"terminationGracePeriodSeconds": 7}, "status": {"phase": "Pending"}}, 0),
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}, "status": {"phase": "Failed"}}, 0),
        ({"spec": {"nodeName": "n"}}, 30),
    ],
    ids=["as its spec says", "none without a node", "none once it is over", "half a minute by default"],
)
def test_grace_of_a_pod(pod: Object, seconds: int) -> None:
    assert prepare.grace_seconds(pod) == seconds


@pytest.mark.parametrize("served", list(CATALOG), ids=lambda served: str(served.resource))
def test_preparing_twice_changes_nothing_more(served: ServedKind) -> None:
    template = {
        "metadata": {},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v"}]},
    }
    body = {
        "metadata": {"name": "x"},
        "spec": {**template["spec"], "template": template, "ports": [{"port": 1}]},
    }
    once = served.prepare(served.schema.default(body), None)
    assert served.prepare(once, once) == once


def test_events_change_shape_without_loss() -> None:
    core = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"},
        "message": "m", "count": 2, "source": {"component": "c"}, "firstTimestamp": "f", "lastTimestamp": "l",
        "reportingComponent": "r", "reportingInstance": "i", "series": {"count": 1}, "type": "Normal",
    }  # fmt: skip
    new = conversion.from_core_event(core)
    assert (new["regarding"], new["note"], new["deprecatedCount"]) == ({"kind": "Pod"}, "m", 2)
    assert new["reportingController"] == "r"
    assert new["apiVersion"] == "events.k8s.io/v1"
    assert conversion.to_core_event(new) == core


SELECTABLE: list[tuple[str, str, Object, str, str]] = [
    ("", "pods", {"spec": {"nodeName": "n"}}, "spec.nodeName", "n"),
    ("", "pods", {}, "spec.hostNetwork", "false"),
    ("", "pods", {"status": {"podIPs": [{"ip": "1.1.1.1"}]}}, "status.podIP", "1.1.1.1"),
    ("", "nodes", {}, "spec.unschedulable", "false"),
    ("", "nodes", {"spec": {"unschedulable": True}}, "spec.unschedulable", "true"),
    ("", "secrets", {"type": "Opaque"}, "type", "Opaque"),
    ("", "namespaces", {"status": {"phase": "Active"}}, "status.phase", "Active"),
    ("", "events", {"involvedObject": {"uid": "u"}}, "involvedObject.uid", "u"),
    ("", "events", {"reportingComponent": "c"}, "source", "c"),
    ("events.k8s.io", "events", {"regarding": {"name": "p"}}, "regarding.name", "p"),
]


@pytest.mark.parametrize(("group", "plural", "obj", "label", "value"), SELECTABLE)
def test_selectable_fields(group: str, plural: str, obj: Object, label: str, value: str) -> None:
    assert kind(group, plural).fields(obj)[label] == value


def test_an_event_about_something_cluster_wide_lies_in_default() -> None:
    check = kind("", "events").check
    about_node = {"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Node", "name": "n"}}
    assert check(about_node, None) == []
    elsewhere = {**about_node, "metadata": {"namespace": "other"}}
    assert [cause.field for cause in check(elsewhere, None)] == ["involvedObject.namespace"]


def test_a_pod_may_get_an_image_a_toleration_and_lose_a_gate() -> None:
    old = {"spec": {"containers": [{"name": "c", "image": "a"}], "schedulingGates": [{"name": "g"}]}}
    new = {"spec": {"containers": [{"name": "c", "image": "b"}], "tolerations": [{"key": "k"}]}}
    check = kind("", "pods").check
    assert check(new, old) == []
    assert [cause.field for cause in check(old, new)] == ["spec"], "a toleration does not go again"
