"""What the Machine API writes onto nodes: its template, remembered in an annotation, and why a node goes."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.core import NODE, Node, Taint
from kubewright.api.machine.names import (
    INSTANCE_NOT_READY_TAINT,
    LAST_APPLIED_ANNOTATION,
    MACHINE_NAME_LABEL,
    NODE_FINALIZER,
    PREFER_NO_SCHEDULE,
    PRESERVE_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    SCALE_DOWN_DISABLED_BY_US_ANNOTATION,
    TerminatingReason,
)
from kubewright.api.machine.v1alpha1 import MACHINE
from kubewright.machines import node_marks
from kubewright.wire.patch import apply_merge

NOW = datetime(2030, 1, 1, tzinfo=UTC)
READY = {"type": "Ready", "status": "True"}


def node(labels=None, annotations=None, taints=(), conditions=()):
    metadata = {"name": "n", "resourceVersion": "7", "labels": labels or {}, "annotations": annotations or {}}
    spec, status = {"taints": list(taints)}, {"conditions": list(conditions)}
    return NODE.from_plain({"metadata": metadata, "spec": spec, "status": status})


def machine(labels=None, annotations=None, taints=()):
    template = {
        "metadata": {"labels": labels or {}, "annotations": annotations or {}, "creationTimestamp": None},
        "spec": {"taints": list(taints)},
    }
    return MACHINE.from_plain({"metadata": {"name": "m"}, "spec": {"nodeTemplate": template}})


def patched(before: Node, patch):
    return NODE.from_plain(apply_merge(NODE.to_plain(before), patch))


def synced(before: Node, wanted):
    after = patched(before, node_marks.sync_node(before, wanted))
    assert node_marks.sync_node(after, wanted) == {}
    return after


def taint(key, effect="NoSchedule", value=""):
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


class TestTemplate:
    def test_a_bare_template_leaves_only_the_machines_name(self):
        assert node_marks.sync_node(node(), machine()) == {"metadata": {"labels": {MACHINE_NAME_LABEL: "m"}}}

    def test_everything_is_put_on_in_one_patch(self):
        after = synced(node(), machine({"a": "1"}, {"b": "2"}, [taint("t")]))
        assert after.metadata.labels == {"a": "1", MACHINE_NAME_LABEL: "m"}
        assert after.metadata.annotations["b"] == "2"
        assert after.spec.taints == (Taint(key="t", effect="NoSchedule"),)

    def test_what_the_template_lost_is_taken_off_and_what_is_foreign_stays(self):
        first = synced(
            node({"mine": "x"}, {"theirs": "y"}, [taint("foreign")]),
            machine({"a": "1", "b": "1"}, taints=[taint("t")]),
        )
        after = synced(first, machine({"b": "2"}))
        assert after.metadata.labels == {"mine": "x", "b": "2", MACHINE_NAME_LABEL: "m"}
        assert after.metadata.annotations["theirs"] == "y"
        assert [item.key for item in after.spec.taints] == ["foreign"]

    def test_what_others_changed_is_changed_back(self):
        after = synced(node({"a": "other"}), machine({"a": "1"}))
        meddled = node({"a": "meddled", MACHINE_NAME_LABEL: "x"}, after.metadata.annotations)
        assert synced(meddled, machine({"a": "1"})).metadata.labels == {"a": "1", MACHINE_NAME_LABEL: "m"}

    def test_the_time_that_a_taint_was_added_is_no_difference(self):
        wanted = machine(taints=[{**taint("t", "NoExecute"), "timeAdded": "2029-01-01T00:00:00Z"}])
        after = synced(
            node(taints=[{**taint("t", "NoExecute"), "timeAdded": "2030-01-01T00:00:00Z"}]), wanted
        )
        assert after.spec.taints[0].time_added == NOW

    def test_taints_of_one_key_and_two_effects_are_two(self):
        after = synced(
            node(taints=[taint("t", "NoExecute", "v")]), machine(taints=[taint("t", "NoSchedule", "w")])
        )
        assert [(item.effect, item.value) for item in after.spec.taints] == [
            ("NoExecute", "v"),
            ("NoSchedule", "w"),
        ]

    @pytest.mark.parametrize(
        ("running", "left"),
        [
            pytest.param(False, [INSTANCE_NOT_READY_TAINT, "theirs"], id="stays while the machine is not"),
            pytest.param(True, ["theirs"], id="goes when it is"),
        ],
    )
    @pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
    def test_the_taint_of_an_instance_that_is_not_ready(self, running, left, effect):
        before = node(taints=[taint(INSTANCE_NOT_READY_TAINT, effect), taint("theirs")])
        after = patched(before, node_marks.sync_node(before, machine(), running=running))
        assert [item.key for item in after.spec.taints] == left
        assert node_marks.sync_node(after, machine(), running=running) == {}

    def test_a_template_may_name_it_too(self):
        wanted, begun = machine(taints=[taint(INSTANCE_NOT_READY_TAINT), taint("t")]), node()
        joining = patched(begun, node_marks.sync_node(begun, wanted))
        assert {item.key for item in joining.spec.taints} == {INSTANCE_NOT_READY_TAINT, "t"}
        running = patched(joining, node_marks.sync_node(joining, wanted, running=True))
        assert [item.key for item in running.spec.taints] == ["t"]
        assert node_marks.sync_node(running, wanted, running=True) == {}

    def test_only_a_patch_of_taints_carries_the_version(self):
        assert "resourceVersion" not in node_marks.sync_node(node(), machine({"a": "1"}))["metadata"]
        assert (
            node_marks.sync_node(node(), machine(taints=[taint("t")]))["metadata"]["resourceVersion"] == "7"
        )

    def test_the_base_can_be_read_by_upstream(self):
        base = json.loads(
            synced(node(), machine({"a": "1"}, taints=[taint("t")])).metadata.annotations[
                LAST_APPLIED_ANNOTATION
            ]
        )
        assert base == {"metadata": {"labels": {"a": "1"}}, "spec": {"taints": [taint("t")]}}

    def test_a_base_that_upstream_wrote_is_not_rewritten(self):
        upstreams = json.dumps(
            {"metadata": {"creationTimestamp": None, "labels": {"a": "1"}}, "spec": {"taints": [taint("t")]}}
        )
        there = node({"a": "1", MACHINE_NAME_LABEL: "m"}, {LAST_APPLIED_ANNOTATION: upstreams}, [taint("t")])
        assert node_marks.sync_node(there, machine({"a": "1"}, taints=[taint("t")])) == {}

    @pytest.mark.parametrize("text", ["", "{", "[]", "[" * 3000, '{"metadata":{"labels":{"a":1}}}'])
    def test_a_broken_base_counts_as_none(self, text):
        after = synced(node({"a": "1", "b": "2"}, {LAST_APPLIED_ANNOTATION: text}), machine({"a": "1"}))
        assert after.metadata.labels == {"a": "1", "b": "2", MACHINE_NAME_LABEL: "m"}

    WORDS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))
    EFFECTS = st.sampled_from(["NoSchedule", "NoExecute"])
    TAINTS = st.lists(
        st.builds(taint, st.sampled_from("abc"), EFFECTS, st.sampled_from(["", "v"])),
        max_size=3, unique_by=lambda item: (item["key"], item["effect"]),
    )  # fmt: skip
    TEMPLATES = st.builds(machine, WORDS, WORDS, TAINTS)

    @given(st.builds(node, WORDS, WORDS, TAINTS), TEMPLATES, TEMPLATES)
    def test_after_two_templates_the_node_has_the_second_and_nothing_of_the_first(self, bare, first, second):
        after = synced(synced(bare, first), second)
        wanted, gone = second.spec.node_template, first.spec.node_template
        assert wanted.metadata.labels.items() <= after.metadata.labels.items()
        assert (
            not (gone.metadata.labels.keys() - wanted.metadata.labels.keys()) & after.metadata.labels.keys()
        )
        assert set(wanted.spec.taints) <= set(after.spec.taints)


def test_terminating_tells_why_once():
    patch = node_marks.terminating(node(), TerminatingReason.SCALE_DOWN, NOW)
    (entry,) = patch["status"]["conditions"]
    assert (entry["type"], entry["status"], entry["reason"]) == ("Terminating", "True", "ScaleDown")
    assert entry["message"] == "Machine Controller is scaling down machine"
    marked = node(conditions=[entry])
    assert node_marks.terminating(marked, TerminatingReason.UNHEALTHY, NOW) == {}


def test_the_finalizer_goes_from_the_very_version_that_was_seen():
    """Finalizers are replaced as a whole. A heartbeat alone makes no other step of it: what was refused rests."""

    def at(version, *finalizers):
        meta = {"name": "n", "uid": "u", "resourceVersion": version, "finalizers": list(finalizers)}
        return NODE.from_plain({"metadata": meta})

    step = node_marks.deletion(at("7", "f", NODE_FINALIZER))
    assert (step.name, step.uid, step.finalizers, step.version) == ("n", "u", ("f",), "7")
    assert node_marks.deletion(at("8", "f", NODE_FINALIZER)) == step
    assert node_marks.deletion(at("7", "f")).finalizers is None


DISABLED, BY_US = SCALE_DOWN_DISABLED_ANNOTATION, SCALE_DOWN_DISABLED_BY_US_ANNOTATION
MARKED = node(
    annotations={DISABLED: "true", BY_US: "true"},
    taints=[{"key": PREFER_NO_SCHEDULE, "value": "True", "effect": "PreferNoSchedule"}],
)


def after(of: Node) -> Node:
    return NODE.from_plain(apply_merge(NODE.to_plain(of), {"metadata": {"resourceVersion": "8"}}))


@pytest.mark.parametrize(
    ("of", "before", "now", "same"),
    [
        pytest.param(machine(), node(), MARKED, True, id="marks of a rollout"),
        pytest.param(machine(), MARKED, node(), True, id="they go"),
        pytest.param(machine(), node(), node(annotations={"a": "b"}), False, id="another annotation"),
        pytest.param(machine(), node(), node({"a": "b"}), False, id="a label"),
        pytest.param(machine(), node(), node(taints=[{"key": "a", "effect": "NoSchedule"}]), False, id="a taint"),
        pytest.param(machine(annotations={DISABLED: "true"}), MARKED, node(), False, id="of its template"),
        pytest.param(
            machine(taints=[{"key": PREFER_NO_SCHEDULE, "effect": "PreferNoSchedule"}]),
            MARKED, node(), False, id="a taint of its template",
        ),
        pytest.param(
            machine(), node(annotations={LAST_APPLIED_ANNOTATION: json.dumps({"metadata": {"annotations": {DISABLED: ""}}})}),
            node(annotations={
                DISABLED: "true",
                LAST_APPLIED_ANNOTATION: json.dumps({"metadata": {"annotations": {DISABLED: ""}}}),
            }),
            False, id="of the template before",
        ),
        pytest.param(
            machine(), node(annotations={PRESERVE_ANNOTATION: "now"}),
            node(annotations={PRESERVE_ANNOTATION: "now", DISABLED: "true"}), False, id="it is to be preserved",
        ),
    ],
)  # fmt: skip
def test_which_versions_of_a_node_decide_the_same(of, before: Node, now: Node, same: bool) -> None:
    assert node_marks.decides_as(of, before, after(now)) is same


@pytest.mark.parametrize(
    ("now", "alone"),
    [
        pytest.param(node({"a": "b"}, {"c": "d"}), True, id="what the patch says"),
        pytest.param(node({"a": "b"}, {"c": "d", "e": "f"}), False, id="another annotation"),
        pytest.param(node({"a": "b", "x": "y"}, {"c": "d"}), False, id="another label"),
        pytest.param(node({"a": "b"}, {"c": "d"}, conditions=[READY]), False, id="a condition"),
    ],
)
def test_whether_a_node_has_only_what_a_patch_without_a_version_put_there(now: Node, alone: bool) -> None:
    patch = {"metadata": {"uid": "u", "labels": {"a": "b", "old": None}, "annotations": {"c": "d"}}}
    assert node_marks.patched_alone(node({"old": "1"}), now, patch) is alone
