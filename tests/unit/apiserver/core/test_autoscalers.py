"""HorizontalPodAutoscalers in the shapes of autoscaling/v1 and v2."""

import pytest

from kubewright.apiserver.registry.builtin.conversion import cpu, to_newer, to_older

MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value", "value": "1Gi"}}}
METRICS = "autoscaling.alpha.kubernetes.io/metrics"


def newer(*metrics, status=None, **spec):
    body = {
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "a"},
        "spec": {"metrics": list(metrics), **spec},
    }
    return {**body, **({"status": status} if status else {})}


def test_the_older_version_has_the_share_of_cpu_in_a_field():
    older = to_older(newer(cpu(50), maxReplicas=3))
    assert older["apiVersion"] == "autoscaling/v1"
    assert older["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    assert older["metadata"] == {"name": "a"}


def test_one_that_names_no_share_looks_at_four_fifths():
    spec = {"maxReplicas": 3}
    assert to_newer({"metadata": {}, "spec": spec})["spec"] == {**spec, "metrics": [cpu(80)]}


def test_what_is_measured_is_shown_as_a_share():
    status = {
        "currentReplicas": 2,
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 20}}}
        ],
    }
    assert to_older(newer(cpu(50), status=status))["status"] == {
        "currentReplicas": 2,
        "currentCPUUtilizationPercentage": 20,
    }


CPU_NOW, MEMORY_NOW = (
    {"type": "Resource", "resource": {"name": name, "current": {"averageValue": "1", **more}}}
    for name, more in (("cpu", {"averageUtilization": 20}), ("memory", {}))
)
LIMITED = {"type": "ScalingLimited", "status": "True", "reason": "TooFew"}


def test_the_older_status_has_only_fields_that_this_version_has():
    status = {"currentReplicas": 2, "currentMetrics": [MEMORY_NOW], "conditions": [LIMITED]}
    assert to_older(newer(cpu(50), status=status))["status"] == {"currentReplicas": 2}


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(
            newer(cpu(50), status={"currentMetrics": [CPU_NOW, MEMORY_NOW], "conditions": [LIMITED]}),
            id="what is measured, and conditions",
        ),
        pytest.param(newer(cpu(50), maxReplicas=3), id="the share of cpu alone"),
        pytest.param(newer(cpu(50), MEMORY), id="another metric beside it"),
        pytest.param(newer(MEMORY), id="another metric alone"),
        pytest.param(
            newer(cpu(50), behavior={"scaleDown": {"selectPolicy": "Disabled"}}), id="how fast it goes"
        ),
    ],
)
def test_what_is_read_as_the_older_version_and_sent_back_means_the_same(whole):
    assert to_newer(to_older(whole)) == whole


@pytest.mark.parametrize("note", ["", "[", "{}", '"x"', "7", "[7]"])
def test_an_annotation_that_is_no_list_of_metrics_counts_as_none(note):
    spec = {"targetCPUUtilizationPercentage": 50}
    found = to_newer({"metadata": {"annotations": {METRICS: note}}, "spec": spec})
    assert found["spec"]["metrics"] == [cpu(50)]
    assert "annotations" not in found["metadata"]
