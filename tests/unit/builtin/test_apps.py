"""Pods as members, which of them go first, and when two templates are the same."""

import json
from datetime import UTC, datetime

import pytest

from kubewright.api.apps import DELETION_COST, DEPLOYMENT, Deployment
from kubewright.api.core import POD
from kubewright.base.clock import rfc3339
from kubewright.builtin.apps import DEPLOYMENTS, PodMember, rank, read
from kubewright.kube.header import Header
from kubewright.rollout.planner import Recreate, RollingUpdate
from kubewright.wire.gvk import Key

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AT = NOW.timestamp()


def member(name="p", **facts):
    return PodMember(
        Key("ns", name), name, "set", {}, **{"deleting": False, "node": "n", "stage": 2, **facts}
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(member("z", node=""), member("a"), id="one without a node goes before one with"),
        pytest.param(
            member("z", stage=0), member("a", stage=1), id="a pending one before one that is unknown"
        ),
        pytest.param(member("z", stage=1), member("a", stage=2), id="an unknown one before one that runs"),
        pytest.param(member("z"), member("a", ready_since=AT), id="one that is not ready before one that is"),
        pytest.param(member("z", cost=-1), member("a"), id="the cheaper one"),
        pytest.param(
            member("z", ready_since=AT, cost=1),
            member("a", ready_since=AT, cost=2),
            id="the cheaper of two ready ones",
        ),
        pytest.param(
            member("z", ready_since=AT),
            member("a", ready_since=AT - 1),
            id="the one that is ready for less time",
        ),
        pytest.param(member("z", created=AT), member("a", created=AT - 1), id="the younger one"),
        pytest.param(member("a"), member("z"), id="the first by name"),
        pytest.param(member("z", node=""), member("a", cost=-9), id="the node counts more than the cost"),
        pytest.param(
            member("z"), member("a", ready_since=AT, cost=-9), id="readiness counts more than the cost"
        ),
    ],
)
def test_which_of_two_pods_is_deleted_first(first, second):
    assert rank(first) < rank(second)


def pod(phase="Running", ready="True", **metadata):
    return POD.from_plain(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "1", "resourceVersion": "7", **metadata},
            "spec": {"nodeName": "n"},
            "status": {
                "phase": phase,
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": rfc3339(NOW)}],
            },
        }
    )


HEADER = Header(
    Key("ns", "p"), "1", 7, 0, "set", deleting=False, data=b'{"metadata": {"labels": {"a": "b"}}}'
)


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        pytest.param(pod(), {"ready_since": AT, "alive": True, "ready": True}, id="one that is ready"),
        pytest.param(
            pod(ready="False"), {"ready_since": None, "alive": True, "ready": False}, id="one that is not"
        ),
        pytest.param(pod("Pending", "False"), {"stage": 0, "ready": False}, id="one that has not begun"),
        pytest.param(pod("Failed"), {"owner_uid": "", "alive": False}, id="one that failed is no replica"),
        pytest.param(pod("Succeeded"), {"owner_uid": "", "alive": False}, id="nor is one that is done"),
        pytest.param(pod(annotations={DELETION_COST: "-3"}), {"cost": -3}, id="its cost"),
        pytest.param(pod(annotations={DELETION_COST: "dear"}), {"cost": 0}, id="a cost that is no number"),
        pytest.param(
            None, {"owner_uid": "set", "alive": True, "ready": False}, id="one that cannot be read counts"
        ),
    ],
)
def test_the_facts_of_a_pod(found, facts):
    seen = read(HEADER, found)
    assert {name: getattr(seen, name) for name in facts} == facts


def deployment(labels=None, image="app:1", collisions=None, **spec) -> Deployment:
    template = {"metadata": {"labels": labels or {"a": "b"}}, "spec": {"containers": [{"image": image}]}}
    status = {} if collisions is None else {"collisionCount": collisions}
    return DEPLOYMENT.decode(
        json.dumps(
            {"metadata": {"name": "web"}, "spec": {"template": template, **spec}, "status": status}
        ).encode()
    )


def test_a_template_is_the_same_with_and_without_the_hash_of_its_pods():
    plain, hashed = deployment(), deployment({"a": "b", "pod-template-hash": "x"})
    assert DEPLOYMENTS.identity(plain.spec.template) == DEPLOYMENTS.identity(hashed.spec.template)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(deployment(image="app:2"), id="another image"),
        pytest.param(deployment({"a": "c"}), id="another label"),
    ],
)
def test_another_image_or_label_is_another_template(other):
    assert DEPLOYMENTS.identity(deployment().spec.template) != DEPLOYMENTS.identity(other.spec.template)


def test_a_collision_changes_the_name_and_the_hash():
    names = {DEPLOYMENTS.name_and_hash(deployment(collisions=count)) for count in (None, 1, 2)}
    assert len(names) == 3
    assert all(name == f"web-{hashed}" for name, hashed in names)


@pytest.mark.parametrize(
    ("given", "means"),
    [
        pytest.param({"type": "Recreate"}, Recreate(), id="Recreate"),
        pytest.param(
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
            RollingUpdate(0, "50%"),
            id="a rolling update with bounds",
        ),
    ],
)
def test_the_strategy_of_a_deployment(given, means):
    assert DEPLOYMENTS.strategy(deployment(strategy=given)) == means
