"""The rules of a CapacityReserve: what is refused, in which words, and what its writer is told."""

from typing import Any

import pytest

from kubewright.api.admission import violations, warned
from kubewright.api.capacity.manifests import DEFINITIONS, ONE_WAY
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE
from kubewright.api.catalog import RULES
from kubewright.api.crd import crd

RULE = next(each for each in RULES if each.kind == CAPACITY_RESERVE)
GOOD: dict[str, Any] = {"unit": {"cpu": "500m", "memory": "1Gi"}, "replicas": 3}
WAYS = "replicas, percent, total or machines"


def told(spec: dict[str, Any]) -> list[str]:
    return [str(each) for each in violations(RULE, {"metadata": {"name": "r"}, "spec": spec}, None)]


def other(**members: Any) -> dict[str, Any]:
    """A spec that says how much in another way."""
    return {"unit": GOOD["unit"], **members}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(GOOD, id="a number"),
        pytest.param(GOOD | {"replicas": 0}, id="none for now"),
        pytest.param(other(percent={"cpu": 50}), id="half of the pool"),
        pytest.param(other(percent={"cpu": 100}, limits={"cpu": "8"}), id="all of the pool, within a limit"),
        pytest.param(other(total={"memory": "100Gi"}), id="an amount"),
        pytest.param(other(machines=2), id="machines"),
        pytest.param(GOOD | {"priority": 0}, id="the priority of the seed"),
        pytest.param(GOOD | {"tolerations": [{"operator": "Exists"}]}, id="all taints tolerated"),
        pytest.param(GOOD | {"unit": {"example.com/gpu": 1}}, id="a GPU"),
    ],
)
def test_good_reserves(spec):
    assert told(spec) == []


@pytest.mark.parametrize(
    ("spec", "sentences"),
    [
        pytest.param(
            {"replicas": 1}, ["spec.unit: Required value: must name at least one resource, such as cpu: 500m"],
            id="no unit",
        ),
        pytest.param(
            GOOD | {"unit": {"cpu": "0"}},
            ['spec.unit[cpu]: Invalid value: "0": must be greater than zero: it keeps nothing free'],
            id="a unit of zero",
        ),
        pytest.param(
            GOOD | {"unit": {"cpu": -1}},
            ["spec.unit[cpu]: Invalid value: -1: must be greater than zero: it keeps nothing free"],
            id="a negative unit",
        ),
        pytest.param(
            GOOD | {"unit": {"cpu": "much"}},
            ['spec.unit[cpu]: Invalid value: "much": must be a quantity like 2, 500m or 8Gi'],
            id="a unit that is no quantity",
        ),
        pytest.param(
            GOOD | {"unit": {"cpu": "1", "pods": "3"}},
            ["spec.unit[pods]: Forbidden: each placeholder is one pod already"],
            id="pods",
        ),
        pytest.param(other(), [f"spec: Required value: one of {WAYS} must say how much is kept free"], id="no way"),
        pytest.param(
            GOOD | {"percent": {"cpu": 5}},
            ["spec: Forbidden: replicas and percent are set; only one may say how much is kept free"],
            id="two ways",
        ),
        pytest.param(
            GOOD | {"percent": {"cpu": 5}, "total": {"cpu": 5}, "machines": 1},
            ["spec: Forbidden: replicas, percent, total and machines are set; only one may say how much is kept free"],
            id="all ways",
        ),
        pytest.param(
            GOOD | {"replicas": -1}, ["spec.replicas: Invalid value: -1: must not be negative"], id="a negative number"
        ),
        pytest.param(
            GOOD | {"replicas": 1001},
            ["spec.replicas: Invalid value: 1001: must not be greater than 1000"],
            id="too many placeholders",
        ),
        pytest.param(
            other(percent={"cpu": 101}, limits={"cpu": 1}),
            ["spec.percent[cpu]: Invalid value: 101: must not be greater than 100"],
            id="more than all",
        ),
        pytest.param(
            other(percent={"cpu": -1}), ["spec.percent[cpu]: Invalid value: -1: must not be negative"],
            id="a negative share",
        ),
        pytest.param(
            other(percent={"cpu": 51, "memory": 5}, limits={"memory": "1Gi"}),
            [
                "spec.limits[cpu]: Required value: is needed with more than 50 percent: each node that is added for "
                "placeholders makes the share larger"
            ],
            id="a share that feeds itself, without a limit",
        ),
        pytest.param(
            other(percent={}), ["spec.percent: Required value: must name at least one resource, such as cpu: 10"],
            id="a share of nothing",
        ),
        pytest.param(
            other(percent={"disk": 5}),
            ["spec.percent[disk]: Forbidden: placeholders do not ask for it: spec.unit does not name it"],
            id="a share of what a unit has not",
        ),
        pytest.param(
            other(total={}), ["spec.total: Required value: must name at least one resource, such as cpu: 8"],
            id="an empty amount",
        ),
        pytest.param(
            other(total={"cpu": "-2"}), ['spec.total[cpu]: Invalid value: "-2": must not be negative'],
            id="a negative amount",
        ),
        pytest.param(
            other(total={"gpu": "x"}),
            [
                "spec.total[gpu]: Forbidden: placeholders do not ask for it: spec.unit does not name it",
                'spec.total[gpu]: Invalid value: "x": must be a quantity like 2, 500m or 8Gi',
            ],
            id="an amount that is none, of what a unit has not",
        ),
        pytest.param(
            other(machines=-2), ["spec.machines: Invalid value: -2: must not be negative"], id="negative machines"
        ),
        pytest.param(
            GOOD | {"limits": {"cpu": "-1"}}, ['spec.limits[cpu]: Invalid value: "-1": must not be negative'],
            id="a negative limit",
        ),
        pytest.param(
            GOOD | {"priority": 1},
            [
                "spec.priority: Invalid value: 1: must be zero or lower: placeholders must give way to workloads, not "
                "preempt them"
            ],
            id="a priority above workloads",
        ),
        pytest.param(
            GOOD | {"zoneSpread": "Some"},
            ['spec.zoneSpread: Invalid value: "Some": must be Prefer, Require or None'],
            id="another spread",
        ),
        pytest.param(
            GOOD | {"tolerations": [{"key": "a", "operator": "In"}]},
            ['spec.tolerations[0].operator: Invalid value: "In": must be Exists or Equal'],
            id="an operator that is none",
        ),
        pytest.param(
            GOOD | {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            ['spec.tolerations[0].value: Invalid value: "b": must be empty when `operator` is Exists'],
            id="a value where any will do",
        ),
        pytest.param(
            GOOD | {"tolerations": [{"operator": "Exists"}, {"effect": "Never"}]},
            [
                'spec.tolerations[1].operator: Invalid value: "Equal": must be Exists when `key` is empty',
                'spec.tolerations[1].effect: Invalid value: "Never": must be NoSchedule, PreferNoSchedule or '
                "NoExecute, or empty",
            ],
            id="a toleration of no taint",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_and_why(spec, sentences):
    assert told(spec) == sentences


@pytest.mark.parametrize(
    ("priority", "sentence"),
    [
        pytest.param(-1, None, id="the default"),
        pytest.param(-10, None, id="the lowest that cluster-autoscaler sees"),
        pytest.param(
            -11, "cluster-autoscaler adds no nodes for pods with a priority below -10", id="below it"
        ),
        pytest.param(0, "pods without a PriorityClass have priority 0, too", id="that of most pods"),
    ],
)
def test_a_priority_that_may_surprise_is_told(priority, sentence):
    found = warned(RULE, {"metadata": {"name": "r"}, "spec": GOOD | {"priority": priority}}, None)
    assert len(found) == (sentence is not None)
    assert sentence is None or sentence in found[0]


def test_a_real_server_asks_for_one_way_without_a_webhook():
    (definition,) = map(crd, DEFINITIONS)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["x-kubernetes-validations"] == [ONE_WAY]
    assert ONE_WAY["message"].startswith("exactly one of replicas, percent, total, machines")
