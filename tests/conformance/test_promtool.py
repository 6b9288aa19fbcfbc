"""Prometheus' own checker takes our alerts, their tests, and what the program serves."""

from pathlib import Path

import pytest

from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options
from kubewright.compose.worlds import every_word
from kubewright.testing.clocks import LoopClock
from kubewright.testing.real_kubernetes import promtool

pytestmark = pytest.mark.kube

GAUGES_OF_MCM = (
    "mcm_machine_deployment_items_total",
    "mcm_machine_items_total",
    "mcm_machine_set_items_total",
)
"""MCM gave gauges the ending of counters, and dashboards know them by these names."""

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"


@pytest.mark.parametrize(
    "words",
    [("check", "rules", "rules.yaml"), ("test", "rules", "rules-test.yaml")],
    ids=["the alerts", "the tests of the alerts"],
)
def test_promtool_takes(words: tuple[str, str, str]) -> None:
    verb, what, name = words
    assert promtool.complaints(promtool.find(), verb, what, str(MONITORING / name)) == ""


def test_promtool_finds_a_mistake(tmp_path: Path) -> None:
    wrong = (MONITORING / "rules.yaml").read_text().replace("mcm_machine_current_status_phase ==", "sum(", 1)
    (tmp_path / "rules.yaml").write_text(wrong)
    assert "could not parse expression" in promtool.complaints(
        promtool.find(), "check", "rules", str(tmp_path / "rules.yaml")
    )


async def test_promtool_takes_what_is_served_but_for_three_names_of_mcm() -> None:
    async with Embedded(None, Options(controllers=every_word(Options())), LoopClock()) as embedded:
        served = embedded.metrics.render().decode()
    said = promtool.complaints(promtool.find(), "check", "metrics", stdin=served)
    wrong = 'non-counter metrics should not have "_total" suffix'
    assert said.splitlines() == [f"{name} {wrong}" for name in GAUGES_OF_MCM]
