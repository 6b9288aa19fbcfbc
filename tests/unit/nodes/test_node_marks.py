"""Patches on nodes: the smallest that does it, and none when it is done."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.core import NODE, Node, NodeCondition, Taint
from kubewright.nodes import marks
from kubewright.nodes.marks import Desired
from kubewright.wire.patch import apply_merge

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING = Desired()


def node(labels=None, annotations=None, taints=(), conditions=(), version="7"):
    metadata = {
        "name": "n",
        "resourceVersion": version,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    spec, status = {"taints": list(taints)}, {"conditions": list(conditions)}
    return NODE.from_plain({"metadata": metadata, "spec": spec, "status": status})


def patched(before: Node, patch):
    return NODE.from_plain(apply_merge(NODE.to_plain(before), patch))


def taint(key, effect="NoSchedule", value=""):
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


T, U = Taint(key="t", effect="NoSchedule"), Taint(key="u", effect="NoSchedule")
VERSION = {"resourceVersion": "7"}
SYNCED = [
    ("nothing is wanted, nothing was", node({"a": "1"}), NOTHING, NOTHING, {}),
    ("labels and annotations are set in one patch", node(), Desired({"a": "1"}, {"b": "2"}), NOTHING,
     {"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}}),
    ("what is there already is not sent", node({"a": "1"}), Desired({"a": "1"}), NOTHING, {}),
    ("what was wanted before is taken off", node({"a": "1", "b": "1"}), Desired({"b": "2"}), Desired({"a": "1"}),
     {"metadata": {"labels": {"a": None, "b": "2"}}}),
    ("what was wanted before and is gone already is not sent", node(), NOTHING, Desired({"a": "1"}), {}),
    ("a taint comes with the version", node(), Desired(taints=(T,)), NOTHING,
     {"metadata": VERSION, "spec": {"taints": [taint("t")]}}),
    ("of a node that came from no server no version is sent", node(version=""), Desired(taints=(T,)), NOTHING,
     {"metadata": {}, "spec": {"taints": [taint("t")]}}),
    ("taints of others stay in front", node(taints=[taint("u")]), Desired(taints=(T,)), NOTHING,
     {"metadata": VERSION, "spec": {"taints": [taint("u"), taint("t")]}}),
    ("a taint that changes keeps the time at which it was put on",
     node(taints=[{**taint("t"), "timeAdded": "2029-01-01T00:00:00Z"}]),
     Desired(taints=(Taint(key="t", effect="NoSchedule", value="v"),)), NOTHING,
     {"metadata": VERSION, "spec": {"taints": [{**taint("t", value="v"), "timeAdded": "2029-01-01T00:00:00Z"}]}}),
    ("the last taint goes", node(taints=[taint("t")]), NOTHING, Desired(taints=(T,)),
     {"metadata": VERSION, "spec": {"taints": None}}),
    ("all in one patch", node(taints=[taint("u")]), Desired({"a": "1"}, {"b": "2"}, (T,)), Desired(taints=(U,)),
     {"metadata": {**VERSION, "labels": {"a": "1"}, "annotations": {"b": "2"}}, "spec": {"taints": [taint("t")]}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("there", "desired", "applied", "patch"), [c[1:] for c in SYNCED], ids=[c[0] for c in SYNCED]
)
def test_a_node_is_brought_in_line(there, desired, applied, patch):
    assert marks.sync(there, desired, applied) == patch


WORDS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))
TAINTS = st.lists(
    st.builds(
        lambda key, effect, value: Taint(key=key, effect=effect, value=value),
        st.sampled_from("abc"),
        st.sampled_from(["NoSchedule", "NoExecute"]),
        st.sampled_from(["", "v"]),
    ),
    max_size=3,
    unique_by=lambda item: (item.key, item.effect),
).map(tuple)
DESIRED = st.builds(Desired, WORDS, WORDS, TAINTS)


@given(st.builds(node, WORDS, WORDS), DESIRED, DESIRED)
def test_a_second_sync_finds_nothing_to_do(bare, first, second):
    once = patched(bare, marks.sync(bare, first, NOTHING))
    assert marks.sync(once, first, first) == {}
    twice = patched(once, marks.sync(once, second, first))
    assert marks.sync(twice, second, second) == {}
    assert second.labels.items() <= twice.metadata.labels.items()
    assert set(second.taints) == set(twice.spec.taints)


class TestConditions:
    def test_only_a_new_status_or_reason_is_a_transition(self):
        old = {
            "type": "X",
            "status": "True",
            "reason": "A",
            "message": "m",
            "lastTransitionTime": "2029-01-01T00:00:00Z",
        }
        there, later = node(conditions=[old]), NOW + timedelta(hours=1)
        same = marks.condition(
            there, NodeCondition(type="X", status="True", reason="A", message="other"), later
        )
        moved = marks.condition(there, NodeCondition(type="X", status="True", reason="B", message="m"), later)
        said = {"type": "X", "status": "True", "lastHeartbeatTime": "2030-01-01T01:00:00Z"}
        first = marks.condition(node(), there.status.conditions[0], later)
        for patch, reason, message, since in (
            (same, "A", "other", "2029-01-01T00:00:00Z"),
            (moved, "B", "m", "2030-01-01T01:00:00Z"),
            (first, "A", "m", "2030-01-01T01:00:00Z"),
        ):
            entry = {**said, "reason": reason, "message": message, "lastTransitionTime": since}
            assert patch == {"status": {"conditions": [entry]}}
        assert marks.condition(there, there.status.conditions[0], later) == {}


class TestSingleMarks:
    def test_cordon(self):
        assert patched(node(), marks.cordon()).spec.unschedulable

    def test_annotations(self):
        there = node(annotations={"a": "1", "b": "2"})
        assert marks.annotate(there, {"a": "1", "b": None, "x": None, "y": "4"}) == {
            "metadata": {"annotations": {"b": None, "y": "4"}}
        }
        assert marks.annotate(there, {"a": "1", "d": None}) == {}

    def test_a_taint_on_and_off(self):
        mark = Taint(key="t", value="v", effect="NoSchedule")
        there = node(taints=[taint("other")])
        marked = patched(there, marks.taint(there, mark))
        assert marked.spec.taints[-1] == mark
        assert marks.taint(marked, mark) == {}
        assert patched(marked, marks.untaint(marked, "t", "NoSchedule")).spec.taints == there.spec.taints
        assert marks.untaint(there, "t", "NoSchedule") == {}
