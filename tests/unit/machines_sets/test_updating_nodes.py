"""Which nodes are updated in place next, which machines change their set, and how nodes and machines are patched
(INP-05)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeSpec, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import (
    CANDIDATE_LABEL,
    SELECTED_LABEL,
    UPDATE_AIM_ANNOTATION,
    UPDATE_RESULT_LABEL,
    Phase,
)
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    InPlaceUpdate,
    Machine,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineDeploymentStrategy,
    MachineSet,
    MachineSpec,
    MachineTemplateSpec,
)
from kubewright.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.machineset.member import MachineMember, member_of
from kubewright.machines.machineset.policy import moved_patch
from kubewright.machines.rolling.act import patch_of
from kubewright.machines.rolling.decide import aim_of, decide, update_labels, updates_in_place
from kubewright.machines.rolling.seen import ClearMoved, LabelNode, MarkNode, Move, Nodes, UpdateMark
from kubewright.replicas.deployment.decide import new_set
from kubewright.replicas.deployment.seen import Seen
from kubewright.rollout.model import Sizes
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
NOW = T0.timestamp()
CANDIDATE, SELECTED = UpdateMark.CANDIDATE, UpdateMark.SELECTED
AGAIN, RELEASED = UpdateMark.CANDIDATE_AGAIN, UpdateMark.RELEASED


def deployment(of: str = "large", *, kind: str = "Auto", replicas: int = 3, **spec: Any) -> MachineDeployment:
    in_place = InPlaceUpdate(max_surge=0, max_unavailable=1, orchestration_type=kind)
    return MachineDeployment(
        metadata=ObjectMeta(name="md", namespace="ns", uid="md-uid"),
        spec=MachineDeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "a"}),
            strategy=MachineDeploymentStrategy(type="InPlaceUpdate", in_place_update=in_place)
            if kind
            else MachineDeploymentStrategy(type="Recreate"),
            template=MachineTemplateSpec(
                metadata=ObjectMeta(labels={"app": "a", "of": of}),
                spec=MachineSpec(machine_class=ClassSpec(kind="MachineClass", name=of)),
            ),
            **spec,
        ),
    )


def machine_set(of: str, size: int, *, observed: bool = True) -> MachineSet:
    made = new_set(MACHINE_DEPLOYMENTS, deployment(of), 1, Sizes(desired=3, ceiling=3), size)
    meta = structs.replace(made.metadata, name=of, uid=of, creation_timestamp=T0, generation=2)
    status = structs.replace(made.status, observed_generation=2 if observed else 1)
    return structs.replace(made, metadata=meta, status=status)


def machine(node: str, phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    facts.setdefault("deleting", False)
    facts.setdefault("ready_since", NOW - 1000 if phase is Phase.RUNNING else None)
    return MachineMember(
        Key("ns", f"m-{node}"), f"uid-{node}", "", {names.NODE_LABEL: node}, phase=phase, **facts
    )


def seen(
    old: Iterable[MachineMember],
    new: Iterable[MachineMember] = (),
    *,
    size: int | None = None,
    **changes: Any,
) -> Seen[Any, Any, Any]:
    old, new = tuple(old), tuple(new)
    observed = changes.pop("observed", True)
    sets = (
        machine_set("small", len(old)),
        machine_set("large", len(new) if size is None else size, observed=observed),
    )
    members = {"small": old, "large": new}
    return Seen(MACHINE_DEPLOYMENTS, deployment(**changes), T0, NOW, sets=sets, members=members)


def nodes(**marks: str) -> Nodes:
    """The nodes a, b and c, and the letters of those with a mark."""
    return Nodes(frozenset("abc"), **{mark: frozenset(letters) for mark, letters in marks.items()})


THREE = (machine("a"), machine("b"), machine("c"))
LATER = (machine("b"), machine("c"))


@pytest.mark.parametrize(
    ("world", "there", "expect"),
    [
        pytest.param(seen(THREE), nodes(), [("a", CANDIDATE), ("b", CANDIDATE), ("c", CANDIDATE)],
                     id="all nodes of old sets become candidates first"),
        pytest.param(seen(THREE), nodes(candidates="abc"), [("a", SELECTED)],
                     id="then as many are selected as may be unavailable"),
        pytest.param(seen(THREE), nodes(candidates="abc", selected="a"), [], id="and no other one meanwhile"),
        pytest.param(seen((machine("a", Phase.IN_PLACE_UPDATING), *LATER)), nodes(candidates="abc", selected="a"), [],
                     id="nor while the agent works"),
        pytest.param(seen((machine("a", Phase.UNKNOWN), *LATER)), nodes(candidates="abc"), [],
                     id="none while another machine is not well"),
        pytest.param(seen((machine("a", Phase.UNKNOWN), *LATER), replicas=2), nodes(candidates="abc"), [("b", SELECTED)],
                     id="and never one that is not well itself"),
        pytest.param(seen(THREE, kind="Manual"), nodes(candidates="abc"), [], id="with Manual a user selects them"),
        pytest.param(seen(THREE, kind=""), nodes(), [], id="other strategies replace the machines"),
        pytest.param(seen(THREE), nodes(candidates="abc", selected="a", updated="a"), [("move", "a")],
                     id="a machine whose node was updated moves to the current set"),
        pytest.param(seen((machine("a", Phase.IN_PLACE_UPDATING), *LATER)),
                     nodes(candidates="abc", selected="a", updated="a"), [], id="once its phase says so too"),
        pytest.param(seen(THREE), nodes(candidates="abc", selected="a", updated="a", aimed="a", aimed_elsewhere="a"), [("a", AGAIN)],
                     id="one that was updated to another template is a candidate anew"),
        pytest.param(seen(THREE, paused=True), nodes(candidates="abc", selected="a", updated="a"), [],
                     id="a paused deployment moves none"),
        pytest.param(seen((machine("a", deleting=True), *LATER)), nodes(candidates="bc"), [],
                     id="a machine that is being deleted keeps its place until it is gone"),
        pytest.param(seen(LATER, (machine("a", moved=True),)), nodes(candidates="abc", selected="a", updated="a"),
                     [("a", RELEASED), ("clear", "a")], id="the node of a moved machine is released, and its mark goes"),
        pytest.param(seen(LATER, (machine("a", moved=True),), size=0), nodes(candidates="bc"), [],
                     id="the mark not before the size counts the machine"),
        pytest.param(seen(LATER, (machine("a", moved=True),), observed=False), nodes(candidates="bc"), [("b", SELECTED)],
                     id="nor before the set's controller has read the size"),
        pytest.param(seen((machine("a", moved=True),), LATER, kind="Manual"), nodes(candidates="abc", selected="a"),
                     [("b", RELEASED), ("c", RELEASED), ("clear", "a")],
                     id="also in a set that is old again, whose size counts it"),
        pytest.param(seen((), (*LATER, machine("a", moved=True)), size=2, replicas=2), nodes(), [("clear", "a")],
                     id="it goes also where there are enough without the machine"),
        pytest.param(seen((), THREE), nodes(candidates="abc", selected="b"),
                     [("a", RELEASED), ("b", RELEASED), ("c", RELEASED)],
                     id="the nodes of a set that became the current one again are released"),
        pytest.param(seen((), THREE), nodes(candidates="a", selected="a", begun="a"), [],
                     id="but not one that was emptied for its agent"),
        pytest.param(seen((), THREE, kind=""), nodes(candidates="ab", selected="a", aimed="a"), [("a", RELEASED)],
                     id="with another strategy only those that the controller has selected"),
    ],
)  # fmt: skip
def test_the_next_steps(world: Any, there: Nodes, expect: list[tuple[str, str]]) -> None:
    plan = decide(world, there, spare_nodes=False)
    found = [step for step in plan.steps if isinstance(step, LabelNode | Move | ClearMoved)]
    assert [told(step) for step in found] == expect
    assert plan.because or not found
    if not world.written.spec.paused:
        assert found == updates_in_place(world, there)


def told(step: LabelNode | Move | ClearMoved) -> tuple[str, str]:
    node = names.node_name(step.member.labels)
    if isinstance(step, LabelNode):
        assert step.aim == (aim_of(machine_set("large", 0)) if step.mark is SELECTED else "")
        return node, step.mark
    if isinstance(step, Move):
        assert (step.source.name, step.target.name) == ("small", "large")
        return "move", node
    return "clear", node


def test_how_far_it_is_is_said() -> None:
    there = nodes(candidates="abc", selected="a")
    assert decide(seen(THREE), there, spare_nodes=False).because.endswith(
        "machines to be updated in place: 3, of these selected: 1"
    )
    assert decide(seen(THREE, kind="Manual"), there, spare_nodes=False).because.endswith(
        "1; a user selects them"
    )
    assert decide(seen(THREE), Nodes(), spare_nodes=False).because == (
        "sets to annotate: 1; machines to be updated in place: 3, of these selected: 0; without a node, on which "
        "an agent could update them: 3"
    )


def node(*labels: str, cordoned: bool = False, **annotations: str) -> Node:
    held = {"aim": UPDATE_AIM_ANNOTATION, "why": names.UPDATE_FAILED_REASON_ANNOTATION}
    meta = ObjectMeta(
        name="a",
        labels=dict.fromkeys(labels, "x"),
        annotations={held[key]: text for key, text in annotations.items()},
    )
    return Node(metadata=meta, spec=NodeSpec(unschedulable=cordoned))


ALL = (CANDIDATE_LABEL, SELECTED_LABEL, UPDATE_RESULT_LABEL)


@pytest.mark.parametrize(
    ("found", "mark", "patch"),
    [
        pytest.param(node(), CANDIDATE, {"metadata": {"labels": {CANDIDATE_LABEL: "true"}}}, id="a candidate"),
        pytest.param(
            node(), SELECTED,
            {"metadata": {"labels": {SELECTED_LABEL: "true"}, "annotations": {UPDATE_AIM_ANNOTATION: "42"}}},
            id="one that is selected says for which template",
        ),
        pytest.param(
            node(*ALL, cordoned=True, aim="41", why="no"), RELEASED,
            {"metadata": {"labels": dict.fromkeys(ALL), "annotations": {
                names.UPDATE_FAILED_REASON_ANNOTATION: None, UPDATE_AIM_ANNOTATION: None}},
             "spec": {"unschedulable": False}},
            id="one that is released takes pods again",
        ),
        pytest.param(
            node(CANDIDATE_LABEL, cordoned=True), RELEASED, {"metadata": {"labels": {CANDIDATE_LABEL: None}}},
            id="unless it was not selected, so that a user has cordoned it",
        ),
        pytest.param(
            node(*ALL, cordoned=True, aim="41"), AGAIN,
            {"metadata": {"labels": {SELECTED_LABEL: None, UPDATE_RESULT_LABEL: None},
                          "annotations": {UPDATE_AIM_ANNOTATION: None}},
             "spec": {"unschedulable": False}},
            id="one that was updated to a template that is wanted no longer stays a candidate",
        ),
    ],
)  # fmt: skip
def test_how_a_node_is_labelled(found: Node, mark: UpdateMark, patch: Any) -> None:
    assert update_labels(found, mark, "42") == patch


@pytest.mark.parametrize(
    ("mark", "version"),
    [
        pytest.param(CANDIDATE, "", id="whatever else is written on it, it may be updated"),
        pytest.param(SELECTED, "7", id="its update may be over since"),
        pytest.param(AGAIN, "7", id="another result may have been written since"),
        pytest.param(RELEASED, "7", id="the agent may have been told to begin since"),
    ],
)
def test_in_which_version_a_node_is_labelled(mark: UpdateMark, version: str) -> None:
    found = node(*(ALL if mark is not CANDIDATE else ()))
    meta = structs.replace(found.metadata, uid="u", resource_version="7")
    patch = patch_of([LabelNode(machine("a"), mark)], structs.replace(found, metadata=meta))
    assert (patch["metadata"]["uid"], patch["metadata"].get("resourceVersion", "")) == ("u", version)


def test_all_that_a_pass_writes_on_a_node_is_one_patch() -> None:
    found = node(*ALL, cordoned=True, aim="41")
    taints = (Taint(key=names.PREFER_NO_SCHEDULE, value="True", effect="PreferNoSchedule"),)
    found = structs.replace(found, spec=structs.replace(found.spec, taints=taints))
    meta = structs.replace(found.metadata, uid="u", resource_version="7")
    member = machine("a")
    steps = [MarkNode(member, taint=False, annotate=True), LabelNode(member, RELEASED)]
    assert patch_of(steps, structs.replace(found, metadata=meta)) == {
        "metadata": {
            "uid": "u",
            "resourceVersion": "7",
            "labels": dict.fromkeys(ALL),
            "annotations": {
                UPDATE_AIM_ANNOTATION: None,
                names.SCALE_DOWN_DISABLED_ANNOTATION: "true",
                names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION: "true",
            },
        },
        "spec": {"taints": None, "unschedulable": False},
    }


def test_a_moved_machine_is_as_the_current_set_makes_them_but_for_what_others_wrote() -> None:
    small, large = machine_set("small", 3), machine_set("large", 0)
    owner = OwnerReference(
        api_version="machine.sapcloud.io/v1alpha1", kind="MachineSet", name="small", uid="small"
    )
    before = Machine(
        metadata=ObjectMeta(
            name="m", namespace="ns", uid="u", annotations={names.APPLIED_CLASS_ANNOTATION: "small"},
            labels={**small.spec.template.metadata.labels, "node": "a", "mine": "yes"}, owner_references=(owner,),
        ),
        spec=MachineSpec(machine_class=ClassSpec(kind="MachineClass", name="small"), provider_id="sim:///1"),
    )  # fmt: skip
    patch = moved_patch(before, small, large)
    (reference,) = patch["metadata"].pop("ownerReferences")
    assert (reference["name"], reference["uid"], reference["controller"]) == ("large", "large", True)
    hashed = large.metadata.labels[names.TEMPLATE_HASH_LABEL]
    assert patch == {
        "metadata": {
            "labels": {"of": "large", names.TEMPLATE_HASH_LABEL: hashed, UPDATE_RESULT_LABEL: "successful"},
            "annotations": {names.APPLIED_CLASS_ANNOTATION: ""},
        },
        "spec": {"class": {"name": "large"}},
    }


def test_a_member_knows_that_it_was_moved() -> None:
    label = {UPDATE_RESULT_LABEL: "successful"}
    assert [member_of(Machine(metadata=ObjectMeta(labels=each))).moved for each in ({}, label)] == [
        False,
        True,
    ]
