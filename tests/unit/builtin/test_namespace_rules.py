"""Discovery is read, and the end of a namespace is told."""

from datetime import timedelta

import pytest

from kubewright.base.clock import parse_rfc3339
from kubewright.builtin.namespaces import Left, conditions, finalizes, next_pass
from kubewright.kube.discovery import Served, read
from kubewright.wire.gvk import Resource

PODS = Resource("", "v1", "pods", "Pod")
NOW = "2030-01-01T00:00:00Z"


def item(plural, kind, scope="Namespaced", verbs=("list", "watch")):
    return {"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": list(verbs)}


def test_discovery_takes_each_resource_in_its_preferred_version():
    core = {
        "items": [
            {
                "versions": [
                    {"version": "v1", "resources": [item("pods", "Pod"), item("nodes", "Node", "Cluster")]}
                ]
            }
        ]
    }
    groups = {
        "items": [
            {
                "metadata": {"name": "policy"},
                "versions": [
                    {"version": "v1", "resources": [item("poddisruptionbudgets", "PodDisruptionBudget")]},
                    {
                        "version": "v1beta1",
                        "resources": [item("poddisruptionbudgets", "PodDisruptionBudget")],
                    },
                ],
            }
        ]
    }
    found = read([core, groups]).served
    assert [str(each.resource) for each in found] == ["pods", "nodes", "poddisruptionbudgets.policy"]
    assert [each.resource.version for each in found] == ["v1", "v1", "v1"]
    assert [each.resource.namespaced for each in found] == [True, False, True]
    assert found[0] == Served(PODS, frozenset({"list", "watch"}))


def test_discovery_reports_stale_group_versions():
    old = {"version": "v1beta1", "freshness": "Stale", "resources": [item("nodes", "NodeMetrics", "Cluster")]}
    found = read([{"items": [{"metadata": {"name": "metrics.k8s.io"}, "versions": [old]}]}])
    assert found.stale == ("metrics.k8s.io/v1beta1",)
    assert [str(each.resource) for each in found.served] == ["nodes.metrics.k8s.io"]


def test_only_our_finalizer_counts():
    assert finalizes({"spec": {"finalizers": ["kubernetes"]}})
    assert not finalizes({"spec": {"finalizers": ["other"]}})
    assert not finalizes({})


@pytest.mark.parametrize(("age", "wait"), [(0, 1), (4, 1), (20, 5), (600, 15)])
def test_the_time_to_the_next_pass_grows_with_age_within_bounds(age, wait):
    namespace = {"metadata": {"deletionTimestamp": NOW}}
    assert next_pass(namespace, parse_rfc3339(NOW) + timedelta(seconds=age)) == timedelta(seconds=wait)


def test_what_is_left_is_reported_in_the_messages_of_kube_controller_manager():
    told = {
        each["type"]: each for each in conditions({}, [Left(PODS, (("a/b",), ("a/b", "c"), ()))], [], NOW)
    }
    remaining, held = told["NamespaceContentRemaining"], told["NamespaceFinalizersRemaining"]
    assert (remaining["status"], remaining["reason"]) == ("True", "SomeResourcesRemain")
    assert remaining["message"] == "Some resources are remaining: pods has 3 resource instances"
    assert held["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "a/b in 2 resource instances, c in 1 resource instances"
    )
    assert told["NamespaceDeletionContentFailure"]["status"] == "False"


def test_an_equal_condition_keeps_its_time_and_conditions_of_others_stay():
    other = {"type": "Other", "status": "True"}
    before = conditions({"conditions": [other]}, [Left(PODS, ((),))], [], NOW)
    after = conditions({"conditions": before}, [Left(PODS, ((),))], [], "2030-01-01T00:01:00Z")
    assert after == before
    assert other in after
    changed = conditions({"conditions": before}, [], [], "2030-01-01T00:01:00Z")
    times = {each["type"]: each.get("lastTransitionTime") for each in changed}
    assert times["NamespaceContentRemaining"] == "2030-01-01T00:01:00Z"
    assert times["NamespaceFinalizersRemaining"] == NOW


def test_errors_are_reported():
    told = conditions({}, [], ["pods: forbidden"], NOW)[0]
    assert (told["reason"], told["message"]) == ("ContentDeletionFailed", "pods: forbidden")
