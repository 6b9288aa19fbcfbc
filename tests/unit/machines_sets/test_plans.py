"""Why a set or a deployment does what it plans, and when it looks again, for every case of the tables.

All of it stands in ``plans.txt``: read the diff of that file in a review. A change that is meant is written down
with ``UPDATE_GOLDENS=1 pytest tests/unit/machines_sets/test_plans.py``.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.machines_sets import test_deployment_decide, test_set_decide

from kubewright.base.plan import Plan
from kubewright.replicas.deployment.decide import decide as decide_deployment
from kubewright.replicas.set.decide import decide as decide_set

FILE = Path(__file__).parent / "plans.txt"


def said(name: str, plan: Plan[Any]) -> Iterator[str]:
    yield name
    if plan.because:
        yield f"    because: {plan.because}"
    if plan.steps:
        yield f"    steps: {', '.join(type(step).__name__ for step in plan.steps)}"
    if plan.wake is not None:
        yield f"    wake: {plan.wake}"


def test_every_plan_says_what_the_file_says() -> None:
    lines = ["## sets", ""]
    for case in test_set_decide.CASES:
        lines += [*said(case.name, decide_set(case.seen)), ""]
    lines += ["## deployments", ""]
    for each in test_deployment_decide.CASES:
        lines += [*said(each.name, decide_deployment(each.world.seen())), ""]
    told = "\n".join(lines)
    if os.environ.get("UPDATE_GOLDENS"):
        FILE.write_text(told)
    assert told == FILE.read_text()
