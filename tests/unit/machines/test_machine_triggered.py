"""A node that is annotated to be replaced: what its machine does about it."""

from operator import attrgetter

import pytest
from msgspec import structs

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import NodeTemplateSpec
from kubewright.api.meta import ObjectMeta
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import AddFinalizer, Cordon, DeleteMachine, SyncNode
from kubewright.testing.scenes import SILENT, Case, machine, minutes, node, seen

TRIGGER = names.TRIGGER_DELETION_ANNOTATION


def annotated(at: Node, value: str) -> Node:
    return structs.replace(at, metadata=structs.replace(at.metadata, annotations={TRIGGER: value}))


TEMPLATE = NodeTemplateSpec(metadata=ObjectMeta(annotations={TRIGGER: "true"}))
DELETED = DeleteMachine(
    'The machine is deleted: node m1 is annotated with node.machine.sapcloud.io/trigger-deletion-by-mcm: "true"'
)

CASES = [
    Case("a Running machine goes", seen(machine("Running"), annotated(node(), "true")), [DELETED]),
    Case(
        "an unwell machine goes before its health timeout",
        seen(machine("Unknown"), annotated(node(SILENT), "true")),
        [DELETED],
    ),
    Case(
        "a machine goes whose class is gone",
        seen(machine("Running"), annotated(node(), "true"), problem="no class", can_call=False),
        [DELETED],
    ),
    Case(
        "a machine gets our finalizer first, so that its VM does not stay behind",
        seen(machine("Running", finalizers=()), annotated(node(), "true")),
        [AddFinalizer({"finalizers": ["machine.sapcloud.io/machine-controller-manager"]})],
    ),
    Case(
        "what was seen before nodes could not be watched is not obeyed",
        seen(machine("Running"), annotated(node(), "true"), unreachable="target"),
        [],
    ),
    Case(
        "one that is going already is not deleted again",
        seen(machine("Running", deleted=minutes(1)), annotated(node(), "true")),
        [Cordon({"spec": {"unschedulable": True}})],
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
        [
            SyncNode(
                {
                    "metadata": {
                        "annotations": {
                            "node.machine.sapcloud.io/last-applied-anno-labels-taints": '{"metadata":{"annotations":{"node.machine.sapcloud.io/trigger-deletion-by-mcm":"true"}},"spec":{}}'
                        }
                    }
                }
            )
        ],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_triggered_deletion(case: Case) -> None:
    plan = decide(case.seen)
    assert [*plan.steps] == case.steps
    assert plan.report is None or plan.report.phase is not Phase.FAILED
    assert plan.because
