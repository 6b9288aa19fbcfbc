"""The virtual capacity of a class on a node: what is written, what is taken off, what stays (NOD-02)."""

from collections.abc import Mapping

import pytest

from kubewright.api.core import NODE, Node
from kubewright.api.machine.names import LAST_APPLIED_CAPACITY_ANNOTATION
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.machines import node_marks
from kubewright.testing.scenes import machine
from kubewright.wire.patch import apply_merge

Amounts = Mapping[str, str]
KUBELETS: Amounts = {"cpu": "2", "memory": "4Gi"}


def node(amounts: Amounts, applied: str | None = None) -> Node:
    notes = {} if applied is None else {LAST_APPLIED_CAPACITY_ANNOTATION: applied}
    return NODE.from_plain(
        {"metadata": {"name": "m1", "annotations": notes}, "status": {"capacity": {**KUBELETS, **amounts}}}
    )


def synced(before: Node, wanted: Amounts | None) -> tuple[Amounts, str | None]:
    """The capacity beside the kubelet's and the annotation after a sync; a second one changes nothing."""
    after = NODE.from_plain(apply_merge(NODE.to_plain(before), node_marks.capacity_patch(before, wanted)))
    after = NODE.from_plain(
        apply_merge(NODE.to_plain(after), node_marks.sync_node(after, machine(), capacity=wanted))
    )
    assert node_marks.capacity_patch(after, wanted) == {}
    assert node_marks.sync_node(after, machine(), capacity=wanted) == {}
    amounts = {key: str(value) for key, value in after.status.capacity.items() if key not in KUBELETS}
    return amounts, after.metadata.annotations.get(LAST_APPLIED_CAPACITY_ANNOTATION)


@pytest.mark.parametrize(
    ("before", "wanted", "amounts", "applied"),
    [
        pytest.param(node({}), {}, {}, None, id="none"),
        pytest.param(node({}), {"x/y": "2"}, {"x/y": "2"}, '{"x/y":"2"}', id="added"),
        pytest.param(
            node({"x/y": "2"}, '{"x/y":"2"}'), {"x/y": "5"}, {"x/y": "5"}, '{"x/y":"5"}', id="changed"
        ),
        pytest.param(
            node({"x/y": "2", "x/z": "1"}, '{"x/y":"2","x/z":"1"}'),
            {"x/z": "1"},
            {"x/z": "1"},
            '{"x/z":"1"}',
            id="one of two removed",
        ),
        pytest.param(node({"x/y": "2"}, '{"x/y":"2"}'), {}, {}, None, id="all removed, and the annotation"),
        pytest.param(
            node({"x/y": "2", "gpu": "4"}, '{"x/y":"2"}'),
            {},
            {"gpu": "4"},
            None,
            id="what a device plugin offers stays",
        ),
        pytest.param(
            node({"x/y": "0"}, '{"x/y":"2"}'),
            {"x/y": "2"},
            {"x/y": "2"},
            '{"x/y":"2"}',
            id="what a kubelet has reset at its start is written again",
        ),
        pytest.param(
            node({"x/y": "1000m"}, '{"x/y":"1"}'),
            {"x/y": "1"},
            {"x/y": "1000m"},
            '{"x/y":"1"}',
            id="another text for the same amount is no difference",
        ),
        pytest.param(
            node({"x/y": "2"}, "{"), {"x/y": "2"}, {"x/y": "2"}, '{"x/y":"2"}', id="a broken annotation"
        ),
        pytest.param(
            node({"x/y": "2"}, '{"x/y":"2"}'),
            None,
            {"x/y": "2"},
            '{"x/y":"2"}',
            id="a class of which nothing is known",
        ),
    ],
)
def test_what_a_node_offers_after_a_sync(
    before: Node, wanted: Amounts | None, amounts: Amounts, applied: str | None
) -> None:
    assert synced(before, wanted) == (amounts, applied)


@pytest.mark.parametrize(
    ("template", "known"),
    [
        pytest.param({"virtualCapacity": {"x/y": 2}}, {"x/y": 2}, id="a class that names resources"),
        pytest.param({}, {}, id="a class that names none"),
        pytest.param(None, None, id="a class without a node template"),
    ],
)
def test_what_a_class_says(template: object, known: object) -> None:
    plain = {"metadata": {"name": "c"}, **({} if template is None else {"nodeTemplate": template})}
    assert node_marks.capacity_of(MACHINE_CLASS.from_plain(plain)) == known
    assert node_marks.capacity_of(None) is None
