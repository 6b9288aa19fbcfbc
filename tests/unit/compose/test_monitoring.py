"""The dashboard and the alerts of ``deploy/monitoring`` name families that the program serves.

These are the families that an assembly with all controllers has at a scrape.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.compose.assembly import Assembly
from kubewright.compose.options import Options
from kubewright.compose.worlds import every_word
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.runtime.metrics import Metrics
from kubewright.testing.clocks import LoopClock
from kubewright.wire.http import Request, Response

FOLDER = Path(__file__).parents[3] / "deploy" / "monitoring"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
RULES = [
    rule for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"] for rule in group["rules"]
]
METRIC = re.compile(r"\b(?:mcm|machine|workqueue|controller|rest_client|informer|reflector|capi)_\w+")
NOT_NAMES = re.compile(r"\{[^}]*\}|\b(?:by|on|without|ignoring) ?\([^)]*\)|\$\w+")
"""Matchers and lists of labels."""
TYPED = re.compile(r"^# TYPE (\S+) (\w+)$", re.MULTILINE)
PARTS = {"histogram": ("_bucket", "_count", "_sum")}


def expressions() -> Iterator[tuple[str, str]]:
    """What each panel and each alert asks Prometheus, by its title."""
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from (
        (variable["name"], re.sub(r"label_values\(([^,]+),.*", r"\1", variable["query"]["query"]))
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    )


def named(expression: str) -> set[str]:
    return set(METRIC.findall(NOT_NAMES.sub(" ", expression)))


@pytest.fixture
def assembly() -> Assembly:
    async def no_server(_request: Request) -> Response:
        return Response(503)

    clock = LoopClock()
    control, target = (Client(InProcess(no_server), clock, name=name) for name in ("control", "target"))
    driver = SimDriver(Cloud(clock, Store(None)))
    return Assembly(control, target, driver, Options(controllers=every_word(Options())), Metrics())


async def test_the_dashboard_and_the_alerts_name_families_that_are_served(assembly: Assembly) -> None:
    assembly.work(assembly.controllers)
    typed = TYPED.findall(assembly.metrics.render().decode())
    served = {f"{name}{part}" for name, kind in typed for part in PARTS.get(kind, ("",))}
    asked = {title: sorted(named(expression) - served) for title, expression in expressions()}
    assert {title: names for title, names in asked.items() if names} == {}
    assert all(named(expression) for _, expression in expressions())


def test_each_alert_has_a_severity_and_a_sentence() -> None:
    told = {
        rule["alert"]: (rule["labels"]["severity"], bool(rule["annotations"]["summary"])) for rule in RULES
    }
    assert set(told.values()) <= {("warning", True), ("critical", True)}
    assert len(told) == len(RULES)


def test_each_alert_is_tried() -> None:
    tests = yaml.safe_load((FOLDER / "rules-test.yaml").read_text())["tests"]
    fired = {
        each["alertname"] for test in tests for each in test["alert_rule_test"] if each.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in RULES}


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    cells: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at: dict[str, Any] = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert cells.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
