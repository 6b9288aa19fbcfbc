"""Machines that are kept free (``spec.excessReplicas``): which ones, what they count for, and their marks."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeSpec, Taint
from kubewright.api.machine import excess, names
from kubewright.api.machine.names import Phase
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
    NodeTemplateSpec,
    RollingUpdate,
)
from kubewright.api.machine.validate import validate_deployment
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.excess.decide import decide
from kubewright.machines.machineset.member import MachineMember, digest, ranking
from kubewright.machines.machineset.policy import MACHINE_SETS, configuration_patch
from kubewright.machines.node_marks import preserved, rolling, sync_node, unpreserved
from kubewright.machines.rolling.act import ANNOTATED, marks_of
from kubewright.replicas.deployment.decide import decide as decide_deployment
from kubewright.replicas.deployment.decide import new_set
from kubewright.replicas.deployment.seen import ChangeSet, CreateSet, Failures, Seen
from kubewright.replicas.deployment.status import counted, rolled_out
from kubewright.replicas.set.look import size_contradiction
from kubewright.rollout.model import Sizes
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
NOW = T0.timestamp()
FREE = frozenset(excess.EFFECTS)
OURS = tuple(Taint(key=excess.TAINT, value="true", effect=effect) for effect in excess.EFFECTS)
THEIRS = Taint(key="example.com/dedicated", value="gpu", effect="NoSchedule")
DISABLED, BY_US = names.SCALE_DOWN_DISABLED_ANNOTATION, names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION
FOR_EXCESS, KEPT = excess.PROOF_ANNOTATION, excess.KEPT_ANNOTATION
MINUTES_TO_LIVE = 600.0
IN_PLACE = MachineDeploymentStrategy(
    type="InPlaceUpdate", in_place_update=InPlaceUpdate(orchestration_type="Manual", max_unavailable=1)
)


def machine_spec(class_name: str = "small", *taints: Taint) -> MachineSpec:
    return MachineSpec(
        machine_class=ClassSpec(kind="MachineClass", name=class_name),
        node_template=NodeTemplateSpec(spec=NodeSpec(taints=taints)),
    )


def deployment(
    replicas: int, more: int | None, *, of: str = "small", surge: int | str = 1, **spec: Any
) -> MachineDeployment:
    template = MachineTemplateSpec(metadata=ObjectMeta(labels={"app": "a"}), spec=machine_spec(of))
    rolling_update = RollingUpdate(max_surge=surge, max_unavailable=0)
    rolls = MachineDeploymentStrategy(type="RollingUpdate", rolling_update=rolling_update)
    spec = {"template": template, "strategy": rolls, **spec}
    return MachineDeployment(
        metadata=ObjectMeta(name="md", namespace="ns", uid="md-uid", finalizers=(names.FINALIZER,)),
        spec=MachineDeploymentSpec(
            replicas=replicas,
            excess_replicas=more,
            selector=LabelSelector(match_labels={"app": "a"}),
            **spec,
        ),
    )


def made(size: int, of: str = "small", notes: Mapping[str, str] | None = None) -> MachineSet:
    found = new_set(MACHINE_DEPLOYMENTS, deployment(3, None, of=of), 1, Sizes(desired=3, ceiling=4), size)
    annotations = {**found.metadata.annotations, **(notes or {})}
    metadata = structs.replace(
        found.metadata, name=f"ms-{of}", uid=of, annotations=annotations, creation_timestamp=T0
    )
    return structs.replace(found, metadata=metadata)


def machine(name: str, *, of: str = "small", phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    """``m3`` is the third machine of the set ``small``, and younger than ``m2``."""
    facts.setdefault("created", float(name[1:]))
    facts.setdefault("ready_since", NOW - MINUTES_TO_LIVE)
    facts.setdefault("deleting", False)
    return MachineMember(Key("ns", name), name, of, {"app": "a"}, phase=phase, number=int(name[1:]), **facts)


def fleet(text: str, **facts: Any) -> tuple[MachineMember, ...]:
    """``m1 m2 m3* m4?``: the third has the taints, the fourth is not ready yet, one with ``-`` is being
    deleted, one with ``!`` is Failed, and one with ``:`` has lost one of its two taints."""
    found = []
    for word in text.split():
        phase = Phase.PENDING if "?" in word else Phase.FAILED if "!" in word else Phase.RUNNING
        free = FREE if "*" in word else frozenset({"NoExecute"}) if ":" in word else frozenset()
        name, old = word.rstrip("*?-!:"), word.startswith("o")
        found.append(machine(name, of="old" if old else "small", phase=phase, free=free,
                             deleting="-" in word, **facts))  # fmt: skip
    return tuple(found)


def seen(md: MachineDeployment, members: tuple[MachineMember, ...], *sets: MachineSet) -> Seen:
    found = sets or (made(len(members)),)
    by_set = {
        each.metadata.uid: tuple(m for m in members if m.owner_uid == each.metadata.uid) for each in found
    }
    return Seen(MACHINE_DEPLOYMENTS, md, T0, NOW, found, members=by_set)


@pytest.mark.parametrize(
    ("replicas", "more", "before", "changes"),
    [
        pytest.param(2, None, "m1 m2", "", id="without excess nothing is written"),
        pytest.param(2, None, "m1 m2 m3", "", id="even while there is a machine too many"),
        pytest.param(2, 0, "m1 m2", "", id="an excess of none is none"),
        pytest.param(2, 1, "m1 m2 m3", "m3+", id="the newest machine is kept free"),
        pytest.param(3, 2, "m1 m2 m3 m4 m5", "m4+ m5+", id="and as many as there are to be in excess"),
        pytest.param(2, 1, "m1 m2 m3*", "", id="where the taints are right nothing is written"),
        pytest.param(2, 1, "m1 m2 m3:", "m3+", id="a taint that a user took off comes back"),
        pytest.param(2, 2, "m1 m2", "", id="no machine with workload is tainted before the new ones are there"),
        pytest.param(2, 2, "m1 m2 m3?", "m3+", id="one that is being made is kept free from its first moment"),
        pytest.param(3, 1, "m1 m2 m3*", "m3-", id="a larger number of replicas takes the reserve at once"),
        pytest.param(3, 1, "m1 m2 m3* m4?", "m3- m4+",
                     id="the new machine is the reserve, though it is not ready yet"),
        pytest.param(3, 1, "m1 m2- m3 m4*", "m4-", id="what is lost is replaced by what was kept free"),
        pytest.param(3, 1, "m1 m2- m3 m4 m5?", "m5+", id="and the replacement is the reserve"),
        pytest.param(2, 1, "m1 m2! m3*", "m3-", id="a failed machine is no replica, and is not written"),
        pytest.param(2, 1, "m1 m2 m3!", "", id="nor is it a reserve"),
        pytest.param(2, 1, "m1 m2 m3!*", "", id="and one that had the taints keeps them"),
        pytest.param(2, 1, "m1 m2 m3-*", "", id="one that is being deleted is no reserve"),
        pytest.param(3, 1, "m1 m2 m3 m4* m5*", "", id="a smaller excess leaves the taints until the set shrinks"),
        pytest.param(3, 1, "m1 m2 m3 m5*", "", id="after that they are right"),
        pytest.param(3, None, "m1 m2 m3 m4* m5*", "", id="without an excess it is the same"),
        pytest.param(3, None, "m1 m2 m3*", "m3-", id="when no machine is too many the taints go"),
        pytest.param(4, 1, "m1 m2 m3 m4* m5*", "m4-",
                     id="what the autoscaler takes from the excess for replicas is free at once"),
        pytest.param(2, 2, "m1 m2 m3 m4* m5*", "", id="fewer replicas taint no machine with workload"),
        pytest.param(2, 3, "m1 m2 m3 m4* m5*", "m3+",
                     id="unless the user turns replicas into excess: then the newest of them"),
        pytest.param(0, 2, "m1 m2", "m1+ m2+", id="all machines may be kept free"),
    ],
)  # fmt: skip
def test_which_machines_are_kept_free(replicas, more, before, changes):
    plan = decide(seen(deployment(replicas, more), fleet(before)))
    assert " ".join(f"{step.member.name}{'+' if step.free else '-'}" for step in plan.steps) == changes


def test_machines_of_one_second_are_as_old_as_their_numbers_say():
    members = fleet("m9 m10 m11", created=7.0)
    assert [step.member.name for step in decide(seen(deployment(1, 2), members)).steps] == ["m10", "m11"]


@pytest.mark.parametrize(
    ("members", "changes"),
    [
        pytest.param("o1 o2 o3* m4?", "m4+", id="the first new machine is kept free, and the old reserve stays"),
        pytest.param("o1 o2 o3*- m4*", "", id="when it is ready the old reserve goes, on which nothing runs"),
        pytest.param("o1 o2 m4* m5?", "m5+", id="the next one is kept free as well"),
        pytest.param("o1- o2 m4* m5*", "m4-", id="a machine with workload goes, and what was kept free takes it"),
        pytest.param("o2- m4 m5* m6*", "m5-", id="and so on"),
        pytest.param("m4 m5 m6*", "", id="to the end, where the newest one is the reserve"),
    ],
)  # fmt: skip
def test_the_taints_follow_a_rollout_into_the_new_set(members, changes):
    old, new = made(3, "old"), made(3)
    plan = decide(seen(deployment(2, 1), fleet(members), old, new))
    assert " ".join(f"{step.member.name}{'+' if step.free else '-'}" for step in plan.steps) == changes


@pytest.mark.parametrize(
    ("members", "spec", "changes"),
    [
        pytest.param("o1 o2 o3 m4?", {}, "m4+", id="a machine that is to be replaced is drained, not evicted"),
        pytest.param("o1 o2 o3*", {}, "", id="and one that is free already stays so"),
        pytest.param("o1 o2 o3 m4?", {"paused": True}, "o3+ m4+", id="a paused rollout replaces none"),
        pytest.param("o1 o2 o3 m4?", {"strategy": IN_PLACE}, "o3+ m4+", id="nor does an update in place"),
    ],
)  # fmt: skip
def test_workload_that_a_rollout_moves_is_not_evicted_before(members, spec, changes):
    old, new = made(3, "old"), made(1)
    plan = decide(seen(deployment(1, 2, **spec), fleet(members), old, new))
    assert " ".join(f"{step.member.name}{'+' if step.free else '-'}" for step in plan.steps) == changes


def test_nothing_is_tainted_while_the_deployment_is_deleted_or_invalid():
    md, members = deployment(1, 1), fleet("m1 m2")
    gone = structs.replace(md, metadata=structs.replace(md.metadata, deletion_timestamp=T0))
    assert decide(seen(md, members)).steps
    assert decide(seen(gone, members)).steps == ()
    assert decide(seen(deployment(1, -1), members)).steps == ()


def test_a_paused_deployment_keeps_its_reserve():
    assert decide(seen(deployment(1, 1, paused=True), fleet("m1 m2"))).steps


def test_a_plan_names_the_machines():
    plan = decide(seen(deployment(3, 1), fleet("m1 m2 m3* m4?")))
    assert plan.because == "machines to be kept free: m4; machines that take workload now: m3"


@pytest.mark.parametrize(
    ("more", "size", "kept"),
    [
        pytest.param(
            2, 5, "2", id="replicas and excess together are the size, written with what is kept free"
        ),
        pytest.param(None, 3, None, id="without the field a set has its old size, and no annotation"),
        pytest.param(0, 3, None, id="with none it is the same"),
    ],
)
def test_a_new_set_has_room_for_the_excess(more, size, kept):
    plan = decide_deployment(Seen(MACHINE_DEPLOYMENTS, deployment(3, more), T0, NOW))
    (new,) = (step.new for step in plan.steps if isinstance(step, CreateSet))
    notes = new.metadata.annotations
    assert (new.spec.replicas, notes.get(KEPT)) == (size, kept)
    assert notes[names.DESIRED_REPLICAS_ANNOTATION] == str(size)
    assert notes[names.MAX_REPLICAS_ANNOTATION] == str(size + 1)


def after_a_pass(md: MachineDeployment, members: str, *sets: MachineSet) -> dict[str, MachineSet]:
    steps = decide_deployment(seen(md, fleet(members), *sets)).steps
    return {step.after.metadata.name: step.after for step in steps if isinstance(step, ChangeSet)}


def test_excess_changes_at_any_time_without_a_rollout():
    one = made(4, notes={KEPT: "1", names.DESIRED_REPLICAS_ANNOTATION: "4"})
    found = after_a_pass(deployment(3, 2), "m1 m2 m3 m4*", one)
    assert {name: (each.spec.replicas, each.metadata.annotations[KEPT]) for name, each in found.items()} == {
        "ms-small": (5, "2")
    }
    gone = after_a_pass(deployment(3, None), "m1 m2 m3 m4*", one)["ms-small"]
    assert (gone.spec.replicas, KEPT in gone.metadata.annotations) == (3, False)


def test_an_old_set_keeps_no_machine_free_when_it_shrinks():
    old, new = made(3, "old", {KEPT: "1"}), made(1)
    found = after_a_pass(deployment(2, 1), "o1 o2 o3* m4*", old, new)["ms-old"]
    assert (found.spec.replicas, KEPT in found.metadata.annotations) == (2, False)


@pytest.mark.parametrize(
    "spec",
    [pytest.param({"paused": True}, id="while it is paused"),
     pytest.param({"strategy": IN_PLACE}, id="and where machines are updated in place")],
)  # fmt: skip
def test_an_old_set_that_shrinks_for_fewer_replicas_keeps_the_reserve(spec):
    notes = {KEPT: "2", names.DESIRED_REPLICAS_ANNOTATION: "5", names.MAX_REPLICAS_ANNOTATION: "6"}
    old, new = made(5, "old", notes), made(0, notes=notes)
    found = after_a_pass(deployment(2, 2, **spec), "o1 o2 o3 o4* o5*", old, new)["ms-old"]
    assert (found.spec.replicas, found.metadata.annotations.get(KEPT)) == (4, "2")
    assert min(fleet("o1 o2 o3 o4* o5*"), key=ranking(found, NOW, fleet("o1 o2 o3 o4* o5*"))).name == "o1"


@pytest.mark.parametrize(
    ("surge", "ceiling"),
    [pytest.param("50%", 6, id="a percentage counts of replicas and excess together"),
     pytest.param(2, 6, id="a number is what it is")],
)  # fmt: skip
def test_the_bounds_of_a_rollout_are_those_of_the_whole_size(surge, ceiling):
    md = deployment(2, 2, surge=surge)
    one = seen(md, fleet("m1 m2 m3* m4*"))
    assert one.sizes.desired == one.desired == 4
    limits = one.strategy.limits(one.desired)
    assert (limits.ceiling, limits.floor) == (ceiling, 4)


def test_the_status_misses_machines_that_are_to_be_kept_free():
    md = deployment(2, 2)
    lacking, whole = (seen(md, fleet(text), made(4)) for text in ("m1 m2 m3?", "m1 m2 m3* m4*"))
    status = counted(lacking, Failures())
    assert (status["replicas"], status["available_replicas"], status["unavailable_replicas"]) == (3, 2, 2)
    assert (rolled_out(lacking), rolled_out(whole)) == (False, True)
    conditions = {
        each.type: each.status for each in MACHINE_DEPLOYMENTS.status(lacking, Failures()).conditions
    }
    assert conditions["Available"] == "False"


def noted(md: MachineDeployment, text: str) -> MachineDeployment:
    return structs.replace(md, metadata=structs.replace(md.metadata, annotations={KEPT: text}))


def test_an_annotation_says_it_where_programs_drop_the_field():
    md = noted(deployment(2, None), "1")
    assert seen(md, fleet("m1 m2 m3")).desired == 3
    assert [step.member.name for step in decide(seen(md, fleet("m1 m2 m3"))).steps] == ["m3"]
    controlled = made(3, notes={names.DESIRED_REPLICAS_ANNOTATION: "3"})
    assert size_contradiction(MACHINE_SETS, controlled, md) == ""
    (kept,) = after_a_pass(md, "m1 m2 m3", controlled).values()
    assert kept.metadata.annotations[KEPT] == "1"
    assert seen(noted(deployment(2, 0), "1"), fleet("m1 m2")).desired == 2, "the field goes first"
    assert KEPT in seen(noted(deployment(2, None), "-1"), fleet("m1 m2")).problem
    assert decide(seen(noted(deployment(0, None), "many"), fleet("m1 m2"))).steps == ()


def test_a_set_waits_only_for_a_size_that_was_computed_for_another_number_in_all():
    owner = deployment(3, 2)
    controlled = made(5, notes={names.DESIRED_REPLICAS_ANNOTATION: "5"})
    assert size_contradiction(MACHINE_SETS, controlled, owner) == ""
    fewer = structs.replace(owner, spec=structs.replace(owner.spec, excess_replicas=1))
    assert "computed for 5 machines, its deployment wants 4" in size_contradiction(
        MACHINE_SETS, controlled, fewer
    )


@pytest.mark.parametrize(
    ("kept", "members", "order"),
    [
        pytest.param(1, "m1 m2 m3 m4* m5*", "m4 m1 m2 m3 m5",
                     id="an excess that shrinks loses its oldest machine, and one that stays goes last"),
        pytest.param(2, "m1 m2 m3 m4* m5*", "m1 m2 m3 m4 m5", id="fewer replicas delete one with workload"),
        pytest.param(None, "m1 m2 m3 m4* m5*", "m4 m5 m1 m2 m3", id="without an excess all of them go first"),
        pytest.param(2, "m1 m2 m3 m4* m5?*", "m1 m2 m3 m5 m4",
                     id="one that is kept stays, ready or not: the taints would move to one with workload"),
        pytest.param(1, "m1 m2? m3* m4*", "m2 m3 m1 m4",
                     id="one beyond that goes before a ready one with workload, and after one that is not"),
        pytest.param(2, "m1 m2 m3*", "m1 m2 m3", id="fewer than the set keeps are all kept"),
    ],
)  # fmt: skip
def test_the_order_in_which_a_set_deletes_them(kept, members, order):
    notes = {} if kept is None else {KEPT: str(kept)}
    living = fleet(members)
    rank = ranking(made(5, notes=notes), NOW, living)
    assert " ".join(member.name for member in sorted(living, key=rank)) == order


def test_a_machine_that_the_autoscaler_names_goes_first_all_the_same():
    living = tuple(
        replace(member, priority=1, marked_at=1.0) if member.name == "m2" else member
        for member in fleet("m1 m2 m3* m4*")
    )
    rank = ranking(made(4, notes={KEPT: "1"}), NOW, living)
    assert min(living, key=rank).name == "m2"


def test_the_taints_of_a_machine_are_no_difference_to_its_template_and_survive_what_it_pushes_down():
    template, tainted = machine_spec("small", THEIRS), machine_spec("small", *OURS, THEIRS)
    assert digest(template, own_timeout=False) == digest(tainted, own_timeout=False)
    machine_set = made(1)
    pushed = structs.replace(machine_set.spec.template, spec=template)
    machine_set = structs.replace(machine_set, spec=structs.replace(machine_set.spec, template=pushed))
    assert (
        configuration_patch(machine_set, Machine(spec=structs.replace(template, provider_id="sim:///1")))
        == {}
    )
    before = Machine(spec=machine_spec("small", *OURS))
    taints = configuration_patch(machine_set, before)["spec"]["nodeTemplate"]["spec"]["taints"]
    assert [(each["key"], each["effect"]) for each in taints] == [
        (THEIRS.key, "NoSchedule"), (excess.TAINT, "NoSchedule"), (excess.TAINT, "NoExecute"),
    ]  # fmt: skip


def test_taints_are_put_on_and_taken_off_beside_those_of_others():
    other = Taint(key=excess.TAINT, effect="PreferNoSchedule")
    spec = machine_spec("small", THEIRS, other)
    tainted = excess.kept_free(spec, free=True)
    assert tainted.node_template.spec.taints == (THEIRS, other, *OURS)
    assert excess.kept_free(tainted, free=True) == tainted
    assert excess.kept_free(tainted, free=False) == spec
    assert excess.effects_of(spec.node_template) == frozenset()


@pytest.mark.parametrize(
    ("replicas", "more", "told"),
    [
        pytest.param(2, None, "", id="without the field"),
        pytest.param(2, 0, "", id="none"),
        pytest.param(2, 3, "", id="some"),
        pytest.param(2, -1, "spec.excessReplicas: Invalid value: -1: must be greater than or equal to 0",
                     id="fewer than none"),
        pytest.param(2**31 - 2, 2,
                     "spec.excessReplicas: Invalid value: 2: is at most 2147483647 together with spec.replicas, "
                     "which is 2147483646", id="more than there can be in all"),
    ],
)  # fmt: skip
def test_what_validation_says(replicas, more, told):
    assert "; ".join(map(str, validate_deployment(deployment(replicas, more)))) == told


def test_a_template_may_not_have_the_taints_of_machines_that_are_kept_free():
    spec = machine_spec("small", THEIRS, OURS[1])
    template = MachineTemplateSpec(metadata=ObjectMeta(labels={"app": "a"}), spec=spec)
    (error,) = validate_deployment(deployment(1, 1, template=template))
    assert error.path == "spec.template.spec.nodeTemplate.spec.taints[1].key"


def node(notes: Mapping[str, str] | None = None, *taints: Taint) -> Node:
    meta = ObjectMeta(name="n", resource_version="7", annotations=notes or {})
    return Node(metadata=meta, spec=NodeSpec(taints=taints))


def synced(notes: Mapping[str, str], *, free: bool) -> dict[str, Any]:
    """What a sync changes in the two annotations of a node; it stands on a machine with or without taints."""
    found = Machine(metadata=ObjectMeta(name="m"), spec=excess.kept_free(machine_spec(), free=free))
    patch = sync_node(node(notes), found)
    edits = patch.get("metadata", {}).get("annotations", {})
    return {key: edits[key] for key in (DISABLED, BY_US, FOR_EXCESS) if key in edits}


PAIR = {DISABLED: "true", FOR_EXCESS: "true"}
BOTH_PROOFS = {**PAIR, BY_US: "true"}


@pytest.mark.parametrize(
    ("notes", "free", "edits"),
    [
        pytest.param({}, False, {}, id="a node that takes workload gets nothing"),
        pytest.param({}, True, PAIR, id="one that is kept free is spared by the autoscaler"),
        pytest.param(PAIR, True, {}, id="once"),
        pytest.param(PAIR, False, dict.fromkeys(PAIR), id="the annotation goes with the taints"),
        pytest.param({DISABLED: "true", BY_US: "true"}, True, {FOR_EXCESS: "true"},
                     id="in a rollout only the proof is added"),
        pytest.param(BOTH_PROOFS, False, {FOR_EXCESS: None}, id="and in a rollout only the proof goes"),
        pytest.param({DISABLED: "true"}, True, {}, id="what a user wrote has no proof"),
        pytest.param({DISABLED: "true"}, False, {}, id="and stays"),
        pytest.param({DISABLED: "false"}, True, {}, id="another value of a user stays, too"),
        pytest.param({DISABLED: "false", FOR_EXCESS: "true"}, False, {FOR_EXCESS: None},
                     id="also one that was given meanwhile"),
    ],
)  # fmt: skip
def test_the_annotation_for_the_autoscaler_follows_the_taints(notes, free, edits):
    assert synced(notes, free=free) == edits


def test_taints_reach_the_node_and_leave_it_again():
    tainted = Machine(metadata=ObjectMeta(name="m"), spec=excess.kept_free(machine_spec(), free=True))
    patch = sync_node(node({}, THEIRS), tainted)
    assert [each["effect"] for each in patch["spec"]["taints"]] == ["NoSchedule", "NoSchedule", "NoExecute"]
    assert patch["metadata"]["resourceVersion"] == "7"
    notes = {names.LAST_APPLIED_ANNOTATION: patch["metadata"]["annotations"][names.LAST_APPLIED_ANNOTATION]}
    after = sync_node(node(notes, THEIRS, *OURS), Machine(metadata=ObjectMeta(name="m"), spec=machine_spec()))
    assert [each["key"] for each in after["spec"]["taints"]] == [THEIRS.key]


@pytest.mark.parametrize(
    ("notes", "annotated", "edits"),
    [
        pytest.param(PAIR, True, {BY_US: "true"}, id="a rollout adds its proof to a node that is kept free"),
        pytest.param(BOTH_PROOFS, False, {BY_US: None}, id="and takes only that off when it ends"),
        pytest.param({DISABLED: "true", BY_US: "true"}, False, {DISABLED: None, BY_US: None},
                     id="the last reason takes the annotation with it"),
        pytest.param({DISABLED: "true"}, True, {}, id="a user's annotation gets no proof"),
    ],
)  # fmt: skip
def test_a_rollout_and_the_excess_do_not_fight_for_the_annotation(notes, annotated, edits):
    patch = rolling(node(notes), taint=None, annotated=annotated)
    assert patch.get("metadata", {}).get("annotations", {}) == edits
    shared = FOR_EXCESS in notes and bool(edits)
    assert patch.get("metadata", {}).get("resourceVersion") == ("7" if shared else None)


def test_a_rollout_sees_that_a_node_has_the_annotation_for_the_excess_alone():
    assert ANNOTATED not in marks_of(node(PAIR))
    assert ANNOTATED in marks_of(node(BOTH_PROOFS))
    assert ANNOTATED in marks_of(node({DISABLED: "true"}))


def test_neither_does_a_preservation():
    assert preserved(node(PAIR), T0, Phase.RUNNING)["metadata"]["annotations"] == {BY_US: "true"}
    gone = unpreserved(node(BOTH_PROOFS), drop=False)["metadata"]
    assert (gone["annotations"], gone["resourceVersion"]) == ({BY_US: None}, "7")
