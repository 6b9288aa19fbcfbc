"""Strings, defaults and rules of the machine API."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from kubewright.api.machine import names
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.api.machine.validate import (
    validate_class,
    validate_deployment,
    validate_machine,
    validate_set,
    with_defaults,
)
from kubewright.api.meta import with_finalizer, without_finalizer

TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"class": {"kind": "MachineClass", "name": "small"}},
}
GOOD = {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}


def deployment(**spec):
    return MACHINE_DEPLOYMENT.from_plain({"spec": {**GOOD, **spec}})


def messages(errors):
    return [str(error) for error in errors]


SAMPLES = Path(__file__).parents[3] / "examples" / "step-by-step"


def test_what_stands_in_comments_of_a_sample_is_valid():
    text = (SAMPLES / "machine-deployment.yaml").read_text()
    for paused, rollback in ((True, False), (False, True), (True, True)):
        shown = re.sub(r"# (?=paused:)", "", text) if paused else text
        shown = re.sub(r"# (?=rollbackTo:|  revision:)", "", shown) if rollback else shown
        found = MACHINE_DEPLOYMENT.from_plain(yaml.safe_load(shown))
        assert messages(validate_deployment(found)) == []
        assert found.spec.paused == paused
        assert (found.spec.rollback_to is not None) == rollback


class TestNames:
    @pytest.mark.parametrize("text", ["True", "true", "TRUE", "1", "t"])
    def test_any_true_forces_a_deletion(self, text):
        assert names.force_deletion({"force-deletion": text})

    @pytest.mark.parametrize("text", ["", "False", "yes", "0"])
    def test_nothing_else_does(self, text):
        assert not names.force_deletion({"force-deletion": text})

    @pytest.mark.parametrize(("text", "value"), [("1", 1), ("-2", -2), ("high", 3), ("", 3)])
    def test_priority(self, text, value):
        assert names.priority({names.PRIORITY_ANNOTATION: text}) == value
        assert names.priority({}) == 3

    def test_victims_come_back_as_written(self):
        victims = {"m1": "2030-01-01T00:00:00Z", "m2": ""}
        assert (
            names.triggered_deletions(
                {names.TRIGGER_DELETION_ANNOTATION: names.format_triggered_deletions(victims)}
            )
            == victims
        )

    @pytest.mark.parametrize("text", ["", ",", " , ~x"])
    def test_no_victims(self, text):
        assert names.triggered_deletions({names.TRIGGER_DELETION_ANNOTATION: text}) == {}

    def test_creation_timeout_override(self):
        key = names.EFFECTIVE_CREATION_TIMEOUT_ANNOTATION
        assert names.creation_timeout_override({key: "30m"}) == timedelta(minutes=30)
        assert names.creation_timeout_override({key: "soon"}) is None
        assert names.creation_timeout_override({}) is None

    def test_condition_list(self):
        assert names.condition_list("A, B,,C ") == ("A", "B", "C")

    def test_finalizers(self):
        assert with_finalizer(("a",), "b") == ["a", "b"]
        assert with_finalizer(("a", "b"), "b") == ["a", "b"]
        assert without_finalizer(("a", "b"), "b") == ["a"]


DEFAULTED = [
    ("no strategy", {}, ("RollingUpdate", 1, 0)),
    ("only a type", {"type": "RollingUpdate"}, ("RollingUpdate", 1, 0)),
    ("only bounds", {"rollingUpdate": {"maxSurge": "20%"}}, ("RollingUpdate", "20%", 0)),
    ("a surge of nothing", {"rollingUpdate": {"maxSurge": 0}}, ("RollingUpdate", 0, 1)),
    ("a surge of no percent", {"rollingUpdate": {"maxSurge": "0%"}}, ("RollingUpdate", "0%", 1)),
    ("only maxUnavailable", {"rollingUpdate": {"maxUnavailable": 2}}, ("RollingUpdate", 1, 2)),
    ("everything", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 4}},
     ("RollingUpdate", 3, 4)),
]  # fmt: skip


class TestDefaults:
    @pytest.mark.parametrize(("given", "wanted"), [c[1:] for c in DEFAULTED], ids=[c[0] for c in DEFAULTED])
    def test_strategy(self, given, wanted):
        result = with_defaults(deployment(strategy=given))
        bounds = result.spec.strategy.rolling_update
        assert (result.spec.strategy.type, bounds.max_surge, bounds.max_unavailable) == wanted
        assert with_defaults(result) is result
        assert validate_deployment(result) == []

    def test_recreate_gets_no_bounds(self):
        assert with_defaults(deployment(strategy={"type": "Recreate"})).spec.strategy.rolling_update is None

    def test_in_place_gets_bounds_but_no_orchestration(self):
        strategy = with_defaults(
            deployment(strategy={"type": "InPlaceUpdate", "inPlaceUpdate": {}})
        ).spec.strategy
        assert (strategy.in_place_update.max_surge, strategy.in_place_update.max_unavailable) == (1, 0)
        assert strategy.in_place_update.orchestration_type == ""


ROLLING = "spec.strategy.rollingUpdate"
IN_PLACE = "spec.strategy.inPlaceUpdate"
RECREATE = {"strategy": {"type": "Recreate"}}
DEPLOYMENTS = [
    ("a good one", RECREATE, []),
    ("an empty strategy, undefaulted", {},
     ['spec.strategy.type: Invalid value: "": '
      "strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]"]),
    ("no bounds", {"strategy": {"type": "RollingUpdate"}},
     [f"{ROLLING}: Required value: RollingUpdate parameter cannot be nil for rolling update strategy"]),
    ("bad bounds",
     {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "many", "maxUnavailable": 2**31}}},
     [f"{ROLLING}.maxUnavailable: Required value: unable to convert maxUnavailable to int32",
      f"{ROLLING}.maxSurge: Required value: unable to convert maxSurge to int32"]),
    ("in place without a block", {"strategy": {"type": "InPlaceUpdate"}},
     [f"{IN_PLACE}: Required value: InPlaceUpdate parameter cannot be nil for in-place update strategy"]),
    ("in place without orchestration",
     {"strategy": {"type": "InPlaceUpdate", "inPlaceUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}}},
     [f'{IN_PLACE}.orchestrationType: Invalid value: "": '
      "orchestrationType must be either Auto or Manual"]),
    ("negative replicas", {**RECREATE, "replicas": -1},
     ["spec.replicas: Required value: Replicas has to be a whole number"]),
    ("a selector beside the labels", {**RECREATE, "selector": {"matchLabels": {"app": "b", "x": "y"}}},
     ["spec.selector.matchLabels: Required value: is not matching with spec.template.metadata.labels"]),
    ("an empty selector", {**RECREATE, "selector": {}},
     ["spec.selector: Required value: an empty selector would select all machines"]),
    ("no class", {**RECREATE, "template": {"metadata": TEMPLATE["metadata"]}},
     ["spec.template.spec.class.kind: Required value: Kind is required",
      "spec.template.spec.class.name: Required value: Name is required"]),
    ("negative seconds", {**RECREATE, "minReadySeconds": -5},
     ["spec.minReadySeconds: Invalid value: -5: must be greater than or equal to 0"]),
]  # fmt: skip


class TestRules:
    @pytest.mark.parametrize(
        ("spec", "wanted"), [c[1:] for c in DEPLOYMENTS], ids=[c[0] for c in DEPLOYMENTS]
    )
    def test_deployment(self, spec, wanted):
        assert messages(validate_deployment(deployment(**spec))) == wanted

    def test_set(self):
        assert validate_set(MACHINE_SET.from_plain({"spec": GOOD})) == []
        missing = validate_set(MACHINE_SET.from_plain({}))
        assert [error.path for error in missing] == [
            "spec.selector", "spec.template.spec.class.kind", "spec.template.spec.class.name",
        ]  # fmt: skip

    def test_machine(self):
        machine = MACHINE.from_plain(
            {
                "spec": {
                    "class": {"kind": "MachineClass"},
                    "drainTimeout": "1d",
                    "healthTimeout": "-1s",
                    "maxEvictRetries": -1,
                }
            }
        )
        assert messages(validate_machine(machine)) == [
            "spec.class.name: Required value: Name is required",
            'spec.drainTimeout: Invalid value: "1d": must be a duration like 90s, 20m or 1h30m',
            'spec.healthTimeout: Invalid value: "-1s": must not be negative',
            "spec.maxEvictRetries: Invalid value: -1: must be greater than or equal to 0",
        ]

    @pytest.mark.parametrize(("vm", "faults"), [("", 1), ("sim:///vm-1", 0)])
    def test_a_machine_with_a_vm_keeps_a_name_that_no_new_one_may_have(self, vm, faults):
        spec = {"class": {"kind": "MachineClass", "name": "small"}, "providerID": vm}
        found = MACHINE.from_plain({"metadata": {"name": 64 * "x"}, "spec": spec})
        assert len(validate_machine(found)) == faults

    def test_class(self):
        capacity = "MachineClass NodeTemplate Capacity should mandatorily have CPU, GPU and Memory configured"
        names_missing = "MachineClass NodeTemplate Instance Type, region and zone cannot be empty"
        bad = MACHINE_CLASS.from_plain({"nodeTemplate": {"capacity": {"cpu": 1}, "region": "r"}})
        assert [error.message for error in validate_class(bad)] == [capacity, capacity, names_missing]
        assert validate_class(MACHINE_CLASS.from_plain({"providerSpec": {}})) == []


def test_the_api_has_the_one_version_that_gardener_serves():
    assert {version["name"] for crd in crds() for version in crd["spec"]["versions"]} == {"v1alpha1"}
