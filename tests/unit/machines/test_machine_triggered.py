"""A node that is annotated to be replaced: what its machine does about it (seed 004, FAQ; mcm.md §15.1)."""

from operator import attrgetter

import pytest
from msgspec import structs

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import NodeTemplateSpec
from kubewright.api.meta import ObjectMeta
from kubewright.machines.machine.decide import decide
from kubewright.testing.scenes import SILENT, Case, machine, minutes, node, seen

TRIGGER = names.TRIGGER_DELETION_ANNOTATION


def annotated(at: Node, value: str) -> Node:
    return structs.replace(at, metadata=structs.replace(at.metadata, annotations={TRIGGER: value}))


TEMPLATE = NodeTemplateSpec(metadata=ObjectMeta(annotations={TRIGGER: "true"}))

CASES = [
    Case("a Running machine goes", seen(machine("Running"), annotated(node(), "true")), ["DeleteMachine"]),
    Case(
        "an unwell machine goes before its health timeout",
        seen(machine("Unknown"), annotated(node(SILENT), "true")),
        ["DeleteMachine"],
    ),
    Case(
        "a machine goes whose class is gone",
        seen(machine("Running"), annotated(node(), "true"), problem="no class", can_call=False),
        ["DeleteMachine"],
    ),
    Case(
        "a machine gets our finalizer first, so that its VM does not stay behind",
        seen(machine("Running", finalizers=()), annotated(node(), "true")),
        ["Adorn"],
    ),
    Case(
        "what was seen before nodes could not be watched is not obeyed",
        seen(machine("Running"), annotated(node(), "true"), blind="target"),
        [],
    ),
    Case(
        "one that is going already is not deleted again",
        seen(machine("Running", deleted=minutes(1)), annotated(node(), "true")),
        ["Cordon"],
    ),
    Case(
        "the value false asks for nothing",
        seen(machine("Running"), annotated(node(), "false")),
        [],
    ),
    Case(
        "only the word of the FAQ counts",
        seen(machine("Running"), annotated(node(), "True")),
        [],
    ),
    Case(
        "a node template cannot have every new machine deleted",
        seen(machine("Running", node_template=TEMPLATE), annotated(node(), "true")),
        ["SyncNode"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_triggered_deletion(case: Case) -> None:
    plan = decide(case.seen)
    assert [type(step).__name__ for step in plan.steps] == case.steps
    assert plan.report is None or plan.report.phase is not Phase.FAILED
    assert plan.because
