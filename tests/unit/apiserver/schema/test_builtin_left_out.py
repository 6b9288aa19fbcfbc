"""Of a built-in kind what is required may not be empty, but where Go's own checks let it; what is stored stays writable."""

import pytest

from kubewright.apiserver.schema.builtin import BuiltinSchema

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


def said(kind: str, obj: dict, old: dict | None = None) -> list[tuple[str, str]]:
    schema = BuiltinSchema(kind)
    return [(each.field, each.message) for each in schema.validate(schema.default(obj), old)]


@pytest.mark.parametrize(
    ("kind", "obj", "field"),
    [
        ("core.v1.Pod", {"spec": {"containers": [{"name": "", "image": "i"}]}}, "spec.containers[0].name"),
        ("core.v1.Pod", {"spec": {"containers": []}}, "spec.containers"),
        (
            "batch.v1.CronJob",
            {"spec": {"schedule": "", "jobTemplate": {"spec": {"template": POD}}}},
            "spec.schedule",
        ),
        ("storage.v1.CSINode", {"spec": {"drivers": [{"name": "", "nodeID": "n"}]}}, "spec.drivers[0].name"),
        ("storage.v1.StorageClass", {"provisioner": ""}, "provisioner"),
    ],
)
def test_empty_is_as_good_as_absent(kind, obj, field):
    assert said(kind, obj) == [(field, "Required value")]


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("storage.v1.CSINode", {}),
        ("storage.v1.CSINode", {"spec": {"drivers": []}}),
        ("storage.v1.CSIDriver", {"spec": {"tokenRequests": [{}]}}),
        ("core.v1.LimitRange", {"spec": {}}),
        ("core.v1.LimitRange", {"spec": {"limits": []}}),
        (
            "core.v1.Pod",
            {"spec": {**POD["spec"], "securityContext": {"sysctls": [{"name": "a", "value": ""}]}}},
        ),
        ("core.v1.Pod", {"spec": {**POD["spec"], "securityContext": {"sysctls": [{"name": "a"}]}}}),
        ("batch.v1.Job", {"spec": {"template": POD, "podFailurePolicy": {}}}),
        ("authentication.v1.TokenReview", {"spec": {}}),
        (
            "core.v1.ReplicationController",
            {"spec": {"template": POD}, "status": {"conditions": [{}], "replicas": 0}},
        ),
    ],
)
def test_what_kube_apiserver_does_not_ask_for(kind, obj):
    assert said(kind, obj) == []


def test_what_is_stored_is_not_judged_again():
    stored = {"spec": {"containers": [{"name": "", "image": "i"}]}}
    labelled = {**stored, "metadata": {"labels": {"a": "b"}}}
    assert said("core.v1.Pod", labelled, stored) == []
    worse = {"spec": {"containers": [*stored["spec"]["containers"], {"name": "", "image": "i"}]}}
    assert said("core.v1.Pod", worse, stored) == [("spec.containers[1].name", "Required value")]
