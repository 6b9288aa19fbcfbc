"""Merge patches from before and after."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubewright.api.core import NODE, Node, NodeSpec, Taint
from kubewright.api.diff import merge_patch
from kubewright.api.meta import ObjectMeta
from kubewright.kube import patches
from kubewright.wire.patch import apply_merge

LEAVES = st.booleans() | st.integers(-3, 3) | st.text(max_size=2) | st.lists(st.integers(0, 2), max_size=2)
OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), LEAVES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), LEAVES | inner, max_size=3),
    max_leaves=10,
)


@given(OBJECTS, OBJECTS)
def test_a_patch_leads_from_before_to_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply_merge(before, merge_patch(before, after)) == after


@given(OBJECTS)
def test_nothing_is_sent_when_nothing_changed(obj: dict[str, Any]) -> None:
    assert merge_patch(obj, obj) == {}


@given(OBJECTS, OBJECTS)
def test_a_patch_applied_twice_does_nothing_more(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = merge_patch(before, after)
    assert apply_merge(apply_merge(before, patch), patch) == after


def node(**changes: Any) -> Node:
    meta = ObjectMeta(name="w", resource_version="7", labels={"a": "1", "b": "2"}, finalizers=("f",))
    return replace(Node(metadata=meta, spec=NodeSpec(provider_id="sim:///w", unschedulable=True)), **changes)


BEFORE = node()

STRUCTS = [
    ("nothing", BEFORE, {}),
    (
        "a label changes",
        node(metadata=replace(BEFORE.metadata, labels={"a": "1", "b": "3"})),
        {"metadata": {"labels": {"b": "3"}}},
    ),
    (
        "a label goes",
        node(metadata=replace(BEFORE.metadata, labels={"a": "1"})),
        {"metadata": {"labels": {"b": None}}},
    ),
    (
        "all labels go",
        node(metadata=replace(BEFORE.metadata, labels={})),
        {"metadata": {"labels": {"a": None, "b": None}}},
    ),
    (
        "the last of a list goes",
        node(metadata=replace(BEFORE.metadata, finalizers=())),
        {"metadata": {"finalizers": None}},
    ),
    (
        "a list is replaced whole",
        node(spec=replace(BEFORE.spec, taints=(Taint(key="k", effect="NoSchedule"),))),
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    ),
    (
        "a time is written as Kubernetes writes it",
        node(metadata=replace(BEFORE.metadata, deletion_timestamp=datetime(2030, 1, 1, tzinfo=UTC))),
        {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}},
    ),
    (
        "a flag that goes back to its default is said, not removed",
        node(spec=replace(BEFORE.spec, unschedulable=False)),
        {"spec": {"unschedulable": False}},
    ),
]


@pytest.mark.parametrize(
    ("after", "patch"), [case[1:] for case in STRUCTS], ids=[case[0] for case in STRUCTS]
)
def test_structs_are_compared_by_their_wire_names(after: Node, patch: dict[str, Any]) -> None:
    assert merge_patch(BEFORE, after) == patch


def test_a_struct_and_a_decoded_copy_of_it_are_the_same() -> None:
    assert merge_patch(BEFORE, NODE.decode(NODE.encode(BEFORE)))  # apiVersion and kind are new
    assert merge_patch(NODE.decode(NODE.encode(BEFORE)), NODE.decode(NODE.encode(BEFORE))) == {}


def test_conditions_are_added_to_a_patch_but_never_make_one() -> None:
    patch = {"metadata": {"labels": {"a": "1"}}}
    assert patches.with_version(patch, "7") == {"metadata": {"labels": {"a": "1"}, "resourceVersion": "7"}}
    assert patches.with_uid({"spec": {}}, "u") == {"spec": {}, "metadata": {"uid": "u"}}
    assert patches.with_version({}, "7") == {}
    meta = ObjectMeta(name="n", uid="u", resource_version="7")
    condition = {"uid": "u", "resourceVersion": "7"}
    assert patches.onto({"status": {}}, meta) == {"status": {}, "metadata": condition}
    assert patches.onto({}, meta) == {}


@pytest.mark.parametrize(
    ("body", "guarded"),
    [
        ({"metadata": {"resourceVersion": "7"}}, True),
        ({"metadata": {"uid": "u"}}, True),
        ({"metadata": None}, False),
        ({"spec": {"resourceVersion": "7"}}, False),
        ([{"op": "test", "path": "/metadata/uid", "value": "u"}], True),
        ([{"op": "add", "path": "/metadata/uid", "value": "u"}], False),
    ],
)
def test_whether_a_patch_may_be_sent_twice(body: Any, guarded: bool) -> None:
    assert patches.guarded(body) is guarded
