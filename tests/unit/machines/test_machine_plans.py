"""What a plan says beside its steps, for every case of the tables: when to look again, why, the status, events.

All of it stands in ``plans.txt``: read the diff of that file in a review. A change that is meant is written down
with ``UPDATE_GOLDENS=1 pytest tests/unit/machines/test_machine_plans.py``.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from tests.unit.machines import (
    test_hot_update,
    test_machine_decisions,
    test_machine_deletion,
    test_machine_outages,
    test_machine_refusals,
    test_machine_triggered,
)

from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import Plan
from kubewright.testing.scenes import Case, node, seen

DRAINS = [
    Case(name, seen(test_machine_deletion.OLD, node(cordoned=True), drain=drain))
    for name, drain, *_ in test_machine_deletion.HELD
]
FILE = Path(__file__).parent / "plans.txt"
TABLES = {
    "living": test_machine_decisions.CASES,
    "dying": test_machine_deletion.CASES,
    "drains that are held": DRAINS,
    "clusters that cannot be seen": test_machine_outages.CASES,
    "writes that are refused": test_machine_refusals.CASES,
    "updates of VMs that run": test_hot_update.CASES,
    "deletions that a user triggers": test_machine_triggered.CASES,
}


def said(plan: Plan) -> Iterator[str]:
    """A line for each field of a plan that is not at its default; its steps by name, the tables have the rest."""
    yield f"because: {plan.because}"
    if plan.steps:
        yield f"steps: {', '.join(type(step).__name__ for step in plan.steps)}"
    if plan.wake is not None:
        yield f"wake: {plan.wake}"
    for each in plan.awaits:
        yield f"awaits: {each.what}: {each.remedy}"
    if (report := plan.report) is not None:
        flags = [name for name in ("joining", "exact") if getattr(report, name)]
        state = [str(report.phase), report.type.value, report.state.value, report.error_code, *flags]
        yield f"report: {', '.join(filter(None, state))}: {report.description}"
    if plan.warning is not None:
        yield f"warning: {plan.warning[0]}: {plan.warning[1]}"
    if plan.topics:
        yield f"topics: {', '.join(sorted(plan.topics))}"
    if (milestone := plan.milestone) is not None:
        kind = "event" if milestone.event else "log"
        yield f"milestone: {kind} {milestone.reason}: {milestone.message}"


def chapter(title: str, cases: list[Case]) -> str:
    told = (f"{case.name}\n" + "".join(f"    {line}\n" for line in said(decide(case.seen))) for case in cases)
    return f"## {title}\n\n" + "\n".join(told)


def test_every_plan_says_what_the_file_says() -> None:
    told = "\n".join(chapter(title, cases) for title, cases in TABLES.items())
    if os.environ.get("UPDATE_GOLDENS"):
        FILE.write_text(told)
    assert told == FILE.read_text()
