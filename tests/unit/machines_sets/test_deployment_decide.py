"""What a MachineDeployment decides (DEP-01 to DEP-17), as tables of sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    InPlaceUpdate,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineDeploymentStatus,
    MachineDeploymentStrategy,
    MachineSet,
    MachineSetStatus,
    MachineSpec,
    MachineTemplateSpec,
    NodeTemplateSpec,
    RollbackConfig,
    RollingUpdate,
)
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS, identity, name_and_hash, propagated_template
from kubewright.machines.machineset.member import MachineMember
from kubewright.replicas.deployment.decide import decide, new_set, sized
from kubewright.replicas.deployment.seen import (
    Adopt,
    AnnotateMembers,
    ChangeDeployment,
    ChangeSet,
    CreateSet,
    DeleteSets,
    Disown,
    RecordEvent,
    Seen,
    Step,
)
from kubewright.replicas.objects import AddFinalizer, RemoveFinalizer
from kubewright.rollout.model import Sizes
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
MD_META: dict[str, Any] = {"name": "md", "namespace": "ns", "uid": "md-uid", "finalizers": (names.FINALIZER,)}


def template(class_name: str = "small", **spec: Any) -> MachineTemplateSpec:
    machine_class = ClassSpec(kind="MachineClass", name=class_name)
    return MachineTemplateSpec(
        metadata=ObjectMeta(labels={"app": "a"}), spec=MachineSpec(machine_class=machine_class, **spec)
    )


def deployment(replicas: int = 3, *, of: MachineTemplateSpec | None = None, meta: dict[str, Any] | None = None,
               kind: str = "RollingUpdate", **spec: Any) -> MachineDeployment:  # fmt: skip
    rolling = RollingUpdate(max_surge=1, max_unavailable=1) if kind == "RollingUpdate" else None
    in_place = (
        InPlaceUpdate(max_surge=0, max_unavailable=1, orchestration_type="Auto")
        if kind == "InPlaceUpdate"
        else None
    )
    spec.setdefault("selector", LabelSelector(match_labels={"app": "a"}))
    return MachineDeployment(
        metadata=ObjectMeta(**{**MD_META, **(meta or {})}),
        spec=MachineDeploymentSpec(
            replicas=replicas,
            template=of or template(),
            strategy=MachineDeploymentStrategy(type=kind, rolling_update=rolling, in_place_update=in_place),
            **spec,
        ),
    )


@dataclass
class World:
    """A deployment with sets that it made itself, each one second younger than the one before."""

    md: MachineDeployment
    sets: tuple[MachineSet, ...] = ()
    members: dict[str, tuple[MachineMember, ...]] | None = None
    more: dict[str, Any] | None = None

    def seen(self) -> Seen:
        return Seen(
            MACHINE_DEPLOYMENTS,
            self.md,
            T0,
            T0.timestamp(),
            self.sets,
            members=self.members or {},
            **(self.more or {}),
        )


def made(class_name: str, size: int, revision: int = 1, *, desired: int = 3, **meta: Any) -> MachineSet:
    plan = Sizes(desired=desired, ceiling=desired + 1 if desired else 0)
    found = new_set(MACHINE_DEPLOYMENTS, deployment(of=template(class_name)), revision, plan, size)
    stamp = T0 + timedelta(seconds=revision)
    metadata = structs.replace(
        found.metadata, name=f"ms-{class_name}", uid=f"{class_name}-uid", creation_timestamp=stamp, **meta
    )
    return structs.replace(found, metadata=metadata)


def frozen(class_name: str, size: int, value: str = "in-place-update") -> MachineSet:
    found = made(class_name, size)
    labels = {**found.metadata.labels, names.SCALE_UP_DISABLED_LABEL: value}
    return structs.replace(found, metadata=structs.replace(found.metadata, labels=labels))


LIMIT = names.MAX_REPLACEMENTS_ANNOTATION


def annotated(class_name: str, more: dict[str, str]) -> MachineSet:
    """A set of three with these annotations besides its own."""
    found = made(class_name, 3)
    return structs.replace(
        found, metadata=structs.replace(found.metadata, annotations={**found.metadata.annotations, **more})
    )


def running(
    class_name: str, count: int, phase: Phase = Phase.RUNNING, **facts: Any
) -> dict[str, tuple[MachineMember, ...]]:
    uid = f"{class_name}-uid"
    facts.setdefault("deleting", False)
    found = [MachineMember(Key("ns", f"{class_name}-{n}"), f"{class_name}-{n}", uid, {"app": "a"}, phase=phase, **facts)
             for n in range(count)]  # fmt: skip
    return {uid: tuple(found)}


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict) or not value:
        return {path: value}
    return {place: leaf for key, each in value.items() for place, leaf in leaves(each, (*path, key)).items()}


def changed(before: Any, after: Any) -> str:
    """What a write changes, and to what: ``replicas=2``; what it takes away is None."""
    old, new = leaves(msgspec.to_builtins(before)), leaves(msgspec.to_builtins(after))
    filled = {place[:length] for place in new for length in range(len(place))}
    places = [p for p in (*new, *(old.keys() - new.keys() - filled)) if old.get(p) != new.get(p)]
    return " ".join(f"{place[-1].rpartition('/')[2]}={new.get(place)}" for place in places)


def in_words(seen: Seen, steps: Sequence[Step]) -> list[str]:
    lines = []
    for step in steps:
        match step:
            case CreateSet(new):
                lines.append(f"create set with {new.spec.replicas}")
            case ChangeSet(before, after):
                lines.append(f"{after.metadata.name} {changed(before, after)}")
            case DeleteSets(found):
                lines.append("delete " + " ".join(s.metadata.name for s in found))
            case Adopt(found) | Disown(found):
                lines.append(f"{type(step).__name__.lower()} {' '.join(s.metadata.name for s in found)}")
            case AnnotateMembers(found):
                lines.append("mark " + " ".join(f"{m.member.name} {m.annotations}" for m in found))
            case RecordEvent(reason, message, warning):
                lines.append(f"{'warn' if warning else 'tell'} {reason}: {message}")
            case AddFinalizer() | RemoveFinalizer():
                lines.append("add finalizer" if isinstance(step, AddFinalizer) else "remove finalizer")
            case ChangeDeployment(after):
                lines.append(f"change {changed(seen.written, after)}")
    return lines


REVISION_1 = {"annotations": {names.REVISION_ANNOTATION: "1"}}
REVISION_2 = {"annotations": {names.REVISION_ANNOTATION: "2"}}
OBSERVED = MachineSetStatus(observed_generation=1)
SCALED = "tell ScalingMachineSet"


@dataclass(frozen=True)
class Case:
    name: str
    world: World
    expect: list[str]


CASES = [
    Case("our finalizer comes first, alone", World(deployment(meta={"finalizers": ()})), ["add finalizer"]),
    Case("a new deployment makes its set, complete, and takes its revision",
         World(deployment()), ["create set with 3", "tell ScalingMachineSet: Scaled up machine set md-6f599 to 3", "change revision=1"]),
    Case("a paused one does not", World(deployment(paused=True)), []),
    Case("when all is as wanted nothing is done",
         World(deployment(meta=REVISION_1), (made("small", 3),), running("small", 3)), []),
    Case("another class rolls: the new set appears and the old one shrinks in the same pass",
         World(deployment(of=template("large"), meta=REVISION_1), (made("small", 3),), running("small", 3)),
         ["ms-small replicas=2", "create set with 1", "tell ScalingMachineSet: Scaled up machine set md-79bf6 to 1", "change revision=2", "tell ScalingMachineSet: Scaled down machine set ms-small to 2"]),
    Case("a paused one does not roll",
         World(deployment(of=template("large"), meta=REVISION_1, paused=True), (made("small", 3),),
               running("small", 3)), []),
    Case("the rollout goes on with what is available",
         World(deployment(of=template("large"), meta=REVISION_2), (made("small", 2), made("large", 2, 2)),
               running("small", 2) | running("large", 2)),
         ["ms-small replicas=None", "tell ScalingMachineSet: Scaled down machine set ms-small to 0"]),
    Case("terminating machines take room, so the new set waits",
         World(deployment(of=template("large"), meta=REVISION_2), (made("small", 0), made("large", 2, 2)),
               running("small", 2, deleting=True) | running("large", 2)), []),
    Case("timeouts and node labels are propagated without a rollout",
         World(deployment(of=template("small", drain_timeout="1h",
                                      node_template=NodeTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}))),
                          meta=REVISION_1), (made("small", 3),), running("small", 3)),
         ["ms-small drainTimeout=1h a=b"]),
    Case("while paused too",
         World(deployment(of=template("small", drain_timeout="1h"), meta=REVISION_1, paused=True),
               (made("small", 3),), running("small", 3)), ["ms-small drainTimeout=1h"]),
    Case("annotations are propagated to the current set",
         World(deployment(meta={"annotations": {names.REVISION_ANNOTATION: "1", "a": "b"}}), (made("small", 3),),
               running("small", 3)), ["ms-small a=b"]),
    Case("a limit of replacements is propagated",
         World(deployment(meta={"annotations": {names.REVISION_ANNOTATION: "1", LIMIT: "2"}}), (made("small", 3),),
               running("small", 3)), ["ms-small max-replacements=2"]),
    Case("and taken off the set when it is taken off the deployment; others stay",
         World(deployment(meta=REVISION_1), (annotated("small", {LIMIT: "2", "a": "b"}),), running("small", 3)),
         ["ms-small max-replacements=None"]),
    Case("scaling is one write on the one set",
         World(deployment(5, meta=REVISION_1), (made("small", 3),), running("small", 3)),
         ["ms-small desired-replicas=5 max-replicas=6 replicas=5", "tell ScalingMachineSet: Scaled up machine set ms-small to 5"]),
    Case("scaling also works while paused",
         World(deployment(5, meta=REVISION_1, paused=True), (made("small", 3),), running("small", 3)),
         ["ms-small desired-replicas=5 max-replicas=6 replicas=5", "tell ScalingMachineSet: Scaled up machine set ms-small to 5"]),
    Case("an earlier template makes its set current again, with a new revision",
         World(deployment(meta=REVISION_2), (made("small", 0), made("large", 3, 2)), running("large", 3)),
         ["ms-small revision=3 revision-history=1 replicas=1", "ms-large replicas=2", "tell ScalingMachineSet: Scaled up machine set ms-small to 1", "tell ScalingMachineSet: Scaled down machine set ms-large to 2", "change revision=3"]),
    Case("recreate removes the old machines first",
         World(deployment(of=template("large"), meta=REVISION_1, kind="Recreate"), (made("small", 3),),
               running("small", 3)), ["ms-small max-replicas=3 replicas=None", "tell ScalingMachineSet: Scaled down machine set ms-small to 0"]),
    Case("and waits for the last of them",
         World(deployment(of=template("large"), meta=REVISION_1, kind="Recreate"), (made("small", 0),),
               running("small", 1, deleting=True)), []),
    Case("and then makes the new set",
         World(deployment(of=template("large"), meta=REVISION_1, kind="Recreate"), (made("small", 0),)),
         ["create set with 3", "tell ScalingMachineSet: Scaled up machine set md-79bf6 to 3", "change revision=2"]),
    Case("an omitted strategy is a rolling update",
         World(deployment(meta=REVISION_1, kind=""), (made("small", 3),), running("small", 3)), []),
    # updates in place (the sizes: tests/unit/rollout/test_in_place.py)
    Case("an update in place forbids the old set to make machines, and makes the new one without any",
         World(deployment(of=template("large"), meta=REVISION_1, kind="InPlaceUpdate"), (made("small", 3),),
               running("small", 3)),
         ["ms-small scale-up-disabled=in-place-update max-replicas=3", "create set with 0", "change revision=2"]),
    Case("what needs no rollout goes to the new set",
         World(deployment(of=template("large", drain_timeout="1h"), meta=REVISION_2, kind="InPlaceUpdate"),
               (frozen("small", 3), made("large", 0, 2)), running("small", 3)),
         ["ms-small max-replicas=3", "ms-large max-replicas=3 drainTimeout=1h"]),
    Case("a set that becomes the current one again may make machines again",
         World(deployment(meta=REVISION_2, kind="InPlaceUpdate"), (frozen("small", 3), made("large", 0, 2)),
               running("small", 3)),
         ["ms-small max-replicas=3 revision=3 revision-history=1 scale-up-disabled=None", "change revision=3"]),
    Case("unless a user forbids it",
         World(deployment(meta=REVISION_2, kind="InPlaceUpdate"),
               (frozen("small", 3, "true"), made("large", 0, 2)), running("small", 3)),
         ["ms-small max-replicas=3 revision=3 revision-history=1", "change revision=3"]),
    Case("orphaned sets are adopted, then everything is looked at anew",
         World(deployment(), more={"orphans": (made("small", 3),)}), ["adopt ms-small"]),
    Case("sets that no longer match are disowned",
         World(deployment(meta=REVISION_1), (made("small", 3),), running("small", 3),
               {"unselected": (made("old", 1),)}), ["disown ms-old"]),
    # history
    Case("empty old sets beyond the limit are pruned, oldest first",
         World(deployment(meta={"annotations": {names.REVISION_ANNOTATION: "4"}}, revision_history_limit=1),
               (made("x", 0, 1), made("y", 0, 2), made("z", 0, 3), made("small", 3, 4)), running("small", 3)),
         ["delete ms-x ms-y"]),
    Case("without a limit all are kept",
         World(deployment(meta=REVISION_2), (made("x", 0, 1), made("small", 3, 2)), running("small", 3)), []),
    Case("nothing is pruned during a rollout",
         World(deployment(meta=REVISION_2, revision_history_limit=0),
               (made("x", 0, 1), made("small", 2, 2)), running("small", 2)),
         ["ms-small replicas=3", "tell ScalingMachineSet: Scaled up machine set ms-small to 3"]),
    Case("nothing is pruned while a rollback waits: its target may be one of them",
         World(deployment(meta=REVISION_2, revision_history_limit=0, rollback_to=RollbackConfig(revision=1),
                          paused=True),
               (made("x", 0, 1), made("small", 3, 2)), running("small", 3)), []),
    # rollback
    Case("a rollback takes the template of a revision, and is looked at anew",
         World(deployment(of=template("large"), meta=REVISION_2, rollback_to=RollbackConfig(revision=1)),
               (made("small", 0), made("large", 3, 2)), running("large", 3)),
         ["change name=small revision=None", 'tell DeploymentRollback: Rolled back deployment "md" to revision 1']),
    Case("the limit of replacements is not rolled back",
         World(deployment(of=template("large"), meta=REVISION_2, rollback_to=RollbackConfig(revision=1)),
               (annotated("small", {LIMIT: "2"}), made("large", 3, 2)), running("large", 3)),
         ["change name=small revision=None", 'tell DeploymentRollback: Rolled back deployment "md" to revision 1']),
    Case("a rollback to a revision that does not exist sends an event, and the request is cleared",
         World(deployment(meta=REVISION_1, rollback_to=RollbackConfig()), (made("small", 3),), running("small", 3)),
         ["change rollbackTo=None", "warn DeploymentRollbackRevisionNotFound: Unable to find the last revision; revisions that exist: 1"]),
    Case("the event says which revision it was",
         World(deployment(meta=REVISION_1, rollback_to=RollbackConfig(revision=7)), (made("small", 3),),
               running("small", 3)),
         ["change revision=None", "warn DeploymentRollbackRevisionNotFound: Unable to find revision 7; revisions that exist: 1"]),
    Case("so is one to the same template",
         World(deployment(meta=REVISION_1, rollback_to=RollbackConfig(revision=1)), (made("small", 3),),
               running("small", 3)),
         ["change revision=None", "warn DeploymentRollbackTemplateUnchanged: the template of revision 1 is the one that the deployment has"]),
    Case("while paused the request waits",
         World(deployment(meta=REVISION_1, rollback_to=RollbackConfig(), paused=True), (made("small", 3),),
               running("small", 3)), []),
    # the autoscaler
    Case("the machines that the autoscaler chose are marked before anything is scaled",
         World(deployment(2, meta={"annotations": {names.REVISION_ANNOTATION: "1",
                                                   names.TRIGGER_DELETION_ANNOTATION: "small-1~2030-01-01T00:00:00Z"}}),
               (made("small", 3),), running("small", 3)), ["mark small-1 {'machinepriority.machine.sapcloud.io': '1', 'machine.sapcloud.io/marked-for-deletion-time': '2030-01-01T00:00:00Z'}"]),
    Case("those that do not exist are taken off its list",
         World(deployment(2, meta={"annotations": {
             names.REVISION_ANNOTATION: "1", names.TRIGGER_DELETION_ANNOTATION: ",".join(
                 f"{name}~2030-01-01T00:00:00Z" for name in ("small-0", "small-1", "gone"))}}),
               (made("small", 3),), running("small", 3)),
         ["mark small-0 {'machinepriority.machine.sapcloud.io': '1', 'machine.sapcloud.io/marked-for-deletion-time': '2030-01-01T00:00:00Z'}"
          " small-1 {'machinepriority.machine.sapcloud.io': '1', 'machine.sapcloud.io/marked-for-deletion-time': '2030-01-01T00:00:00Z'}",
          "change trigger-deletion-by-mcm=small-0~2030-01-01T00:00:00Z,small-1~2030-01-01T00:00:00Z"]),
    Case("a list on which no machine is left is removed",
         World(deployment(meta={"annotations": {names.REVISION_ANNOTATION: "1",
                                                names.TRIGGER_DELETION_ANNOTATION: "gone"}}),
               (made("small", 3),), running("small", 3)), ["change trigger-deletion-by-mcm=None"]),
    # wrong input and the end
    Case("an invalid deployment is left alone", World(deployment(-1)), []),
    Case("an in-place update of existing machines is not supported yet",
         World(structs.replace(deployment(), spec=structs.replace(
             deployment(of=template("large"), meta=REVISION_1).spec,
             strategy=MachineDeploymentStrategy(type="InPlaceUpdate"))), (made("small", 3),)), []),
    Case("a deleted deployment deletes its sets",
         World(deployment(meta={"deletion_timestamp": T0}), (made("small", 3), made("large", 1, 2))),
         ["delete ms-small ms-large"]),
    Case("and waits for them",
         World(deployment(meta={"deletion_timestamp": T0}), (made("small", 3, deletion_timestamp=T0),)), []),
    Case("and removes the finalizer when none is left", World(deployment(meta={"deletion_timestamp": T0})), ["remove finalizer"]),
    Case("sets that are being orphaned are not deleted",
         World(deployment(meta={"deletion_timestamp": T0, "finalizers": (names.FINALIZER, "orphan")}),
               (made("small", 3),)), []),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    """A set in a step is the very one that was seen, with its uid and version: both bind the write."""
    seen = case.world.seen()
    steps = decide(seen).steps
    assert in_words(seen, steps) == case.expect
    there = [
        *seen.sets,
        *(case.world.more or {}).get("orphans", ()),
        *(case.world.more or {}).get("unselected", ()),
    ]
    carried = [found for step in steps for found in getattr(step, "sets", ())]
    assert all(any(found is each for each in there) for found in carried)


def created(world: World) -> MachineSet:
    new = next(step.new for step in decide(world.seen()).steps if isinstance(step, CreateSet))
    assert isinstance(new, MachineSet)
    return new


def test_a_new_set_is_complete() -> None:
    md = deployment(
        4, meta={"annotations": {"a": "b", names.TRIGGER_DELETION_ANNOTATION: ""}}, min_ready_seconds=7
    )
    found = created(World(md))
    _, hashed = name_and_hash(md)
    assert found.spec.replicas == 4
    assert found.spec.min_ready_seconds == 7
    assert found.spec.selector == LabelSelector(match_labels={"app": "a", names.TEMPLATE_HASH_LABEL: hashed})
    assert found.spec.template.metadata.labels == {"app": "a", names.TEMPLATE_HASH_LABEL: hashed}
    assert found.metadata.labels == found.spec.template.metadata.labels
    assert found.metadata.finalizers == (names.FINALIZER,)
    assert found.metadata.owner_references[0].uid == "md-uid"
    assert found.metadata.annotations == {
        "a": "b",
        names.REVISION_ANNOTATION: "1",
        names.DESIRED_REPLICAS_ANNOTATION: "4",
        names.MAX_REPLICAS_ANNOTATION: "5",
    }


def test_a_collision_gives_another_name() -> None:
    md = deployment()
    collided = structs.replace(md, status=MachineDeploymentStatus(collision_count=1))
    assert created(World(md)).metadata.name != created(World(collided)).metadata.name


@pytest.mark.parametrize(
    ("collisions", "name"),
    [
        pytest.param(None, ("md-6f599", "2915555812"), id="none"),
        pytest.param(1, ("md-57b99", "1365512581"), id="one"),
    ],
)
def test_a_name_is_the_same_in_each_version_of_ours(collisions: int | None, name: tuple[str, str]) -> None:
    md = structs.replace(deployment(), status=MachineDeploymentStatus(collision_count=collisions))
    assert name_and_hash(md) == name


def test_the_order_of_labels_is_none_of_a_template() -> None:
    one, other = (
        structs.replace(template(), metadata=ObjectMeta(labels={key: key for key in keys}))
        for keys in ("ab", "ba")
    )
    assert identity(one) == identity(other)


def test_a_template_takes_all_that_takes_no_part_in_its_identity() -> None:
    old = structs.replace(
        template(),
        spec=MachineSpec(
            machine_class=ClassSpec(api_group="x", kind="Old", name="small"), provider_id="sim:///1"
        ),
    )
    wanted = structs.replace(
        template(),
        spec=MachineSpec(
            machine_class=ClassSpec(api_group="y", kind="New", name="large"), drain_timeout="1h"
        ),
    )
    found = propagated_template(old, wanted)
    assert found.metadata == old.metadata
    assert found.spec == MachineSpec(
        machine_class=ClassSpec(api_group="x", kind="New", name="small"),
        provider_id="sim:///1",
        drain_timeout="1h",
    )
    assert identity(found) == identity(old)


def test_a_set_that_is_being_deleted_is_never_current() -> None:
    world = World(deployment(), (made("small", 3, deletion_timestamp=T0),), running("small", 3))
    assert created(world).spec.replicas == 1, "its machines still take room below the ceiling of 4"


def test_a_set_remembers_the_revisions_it_had() -> None:
    world = World(deployment(meta=REVISION_2), (made("small", 0), made("large", 3, 2)), running("large", 3))
    change = next(
        s
        for s in decide(world.seen()).steps
        if isinstance(s, ChangeSet) and s.after.metadata.name == "ms-small"
    )
    annotations = change.after.metadata.annotations
    assert (annotations[names.REVISION_ANNOTATION], annotations[names.REVISION_HISTORY_ANNOTATION]) == (
        "3",
        "1",
    )


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(template("small", health_timeout="1m"), True, id="a timeout is no rollout"),
        pytest.param(template("small", node_template=NodeTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}))),
                     True, id="a node label is none"),
        pytest.param(structs.replace(template(), spec=MachineSpec(machine_class=ClassSpec(kind="X", name="small"))),
                     True, id="the class's kind is none"),
        pytest.param(structs.replace(template(), metadata=ObjectMeta(
            labels={names.TEMPLATE_HASH_LABEL: "1", "app": "a"})), True, id="the hash is none"),
        pytest.param(structs.replace(template(), metadata=ObjectMeta(labels={"app": "a"}, creation_timestamp=T0)),
                     True, id="a date is none"),
        pytest.param(template(provider_id="sim:///1"), False, id="the VM is one"),
        pytest.param(structs.replace(template(), spec=MachineSpec(machine_class=ClassSpec(api_group="x", name="small"))),
                     False, id="the class's group is one"),
        pytest.param(template("large"), False, id="the class's name is one"),
        pytest.param(structs.replace(template(), metadata=ObjectMeta(labels={"app": "b"})), False, id="a label is one"),
        pytest.param(structs.replace(template(), metadata=ObjectMeta(labels={"app": "a"}, annotations={"a": "b"})),
                     False, id="an annotation is one"),
    ],
)  # fmt: skip
def test_what_rolls(other: MachineTemplateSpec, same: bool) -> None:
    assert (identity(template()) == identity(other)) is same


def test_size_annotations_are_written_without_a_new_size() -> None:
    before = made("small", 3)
    after = sized(MACHINE_DEPLOYMENTS, before, Sizes(desired=3, ceiling=6))
    assert after.spec == before.spec
    assert after.metadata.annotations[names.MAX_REPLICAS_ANNOTATION] == "6"
