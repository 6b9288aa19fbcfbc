"""What a deployment decides in whatever API, as tables of sentences: what the steps carry is compared.

The policy is the smallest one (``things``). What that of machines adds has tables of its own
(``machines_sets``).
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
from msgspec import structs
from tests.unit.replicas.things import (
    FINALIZER,
    FINALIZING,
    GROUP,
    POLICY,
    T0,
    SetSpec,
    Template,
    ThingSet,
    deployment,
    members,
    seen,
    thing_set,
)

from kubewright.api.diff import merge_patch
from kubewright.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.replicas.deployment.decide import decide
from kubewright.replicas.deployment.seen import (
    Adopt,
    AnnotateMembers,
    ChangeDeployment,
    ChangeSet,
    CreateSet,
    DeleteSets,
    Disown,
    MemberAnnotations,
    RecordEvent,
    Seen,
    Step,
)
from kubewright.replicas.objects import AddFinalizer, RemoveFinalizer
from kubewright.rollout.planner import MCM_SCALING

from .things import but

OLD, NEW = thing_set("old", 3, 1), thing_set("new", 3, 2)
SMALLER = thing_set("new", 1, 2)
FROZEN = thing_set("old", 3, 1, **{"no-creation": "true"})
ALL_OLD, ALL_NEW = members("old", 3), members("new", 3)
BEING_DELETED = {"deletion_timestamp": T0}
KEEPING = {"finalizers": (FINALIZER,)}


def without(image: str, revision: int, **meta: Any) -> ThingSet:
    """A set without replicas that was sized for none."""
    found = thing_set(image, 0, revision, desired="0", ceiling="0")
    return structs.replace(found, metadata=structs.replace(found.metadata, **meta))


def in_short(picture: Seen[Any, Any, Any], step: Step) -> Any:
    """A step that holds a whole object as what it changes in it; any other as it is."""
    match step:
        case ChangeDeployment(after):
            return "deployment", merge_patch(picture.written, after)
        case ChangeSet(before, after):
            return before.name, merge_patch(before, after)
        case CreateSet(new):
            return f"create {new.name}", new.spec.replicas
        case _:
            return step


def sized(size: int, **notes: str | None) -> dict[str, Any]:
    return {"spec": {"replicas": size}} | ({"metadata": {"annotations": notes}} if notes else {})


def scaled(name: str, before: int, after: int) -> RecordEvent:
    direction = "up" if after > before else "down"
    return RecordEvent("Scaled", f"Scaled {direction} {name} from {before} to {after}")


def revision(number: int) -> tuple[str, dict[str, Any]]:
    return "deployment", {"metadata": {"annotations": {"revision": str(number)}}}


def marking(picture: Seen[Any, Any, Any]) -> Plan[Step]:
    """A decider that only this policy has."""
    (first, *_) = picture.all_members
    return Plan(
        (AnnotateMembers((MemberAnnotations(first, {"marked": "yes"}),)),),
        AT_ONCE,
        "the policy wants it",
        last=True,
    )


def initial_metadata(picture: Seen[Any, Any, Any]) -> ObjectMeta:
    meta: ObjectMeta = picture.written.metadata
    return structs.replace(meta, labels={**meta.labels, "mine": "yes"})


TO_ALL = but(POLICY, propagates_to_all=True)
INITIALIZING = but(FINALIZING, initial_metadata=initial_metadata)


@dataclass(frozen=True)
class Case:
    name: str
    seen: Seen[Any, Any, Any]
    expect: list[Any]
    at_once: bool = False


CASES = [
    Case("all is as it is wanted", seen(deployment(), NEW, members=ALL_NEW), []),
    Case("an invalid deployment is left alone", seen(deployment(replicas=-1), NEW, members=ALL_NEW), []),
    # finalizers, adoption
    Case("where the policy has a finalizer it comes first",
         seen(deployment(meta={"finalizers": ("foreign",)}), policy=FINALIZING),
         [AddFinalizer()], at_once=True),
    Case("what else belongs on a new deployment goes with it, and the first revision",
         seen(deployment(), policy=INITIALIZING),
         [("deployment", {"metadata": {
             "finalizers": [FINALIZER], "labels": {"mine": "yes"}, "annotations": {"revision": "1"},
         }})], at_once=True),
    Case("but no revision where there are sets, which may have higher ones",
         seen(deployment(), OLD, policy=INITIALIZING),
         [("deployment", {"metadata": {"finalizers": [FINALIZER], "labels": {"mine": "yes"}}})], at_once=True),
    Case("sets are disowned and adopted, and then everything is counted anew",
         seen(deployment(), orphans=(NEW,), unselected=(OLD,)), [Disown((OLD,)), Adopt((NEW,))], at_once=True),
    Case("disowning alone delays nothing",
         seen(deployment(replicas=4), NEW, members=ALL_NEW, unselected=(OLD,)),
         [Disown((OLD,)), ("d-new", sized(4, desired="4", ceiling="5")), scaled("d-new", 3, 4)]),
    Case("what only this policy does comes before sizes, and may end the pass",
         seen(deployment(replicas=4), NEW, members=ALL_NEW, policy=but(POLICY, deciders=lambda: (marking,))),
         [AnnotateMembers((MemberAnnotations(ALL_NEW["new-uid"][0], {"marked": "yes"}),))], at_once=True),
    # rolling
    Case("another template: the set is created in the room that the surge leaves",
         seen(deployment("newer"), NEW, members=ALL_NEW),
         [("create d-newer", 1), scaled("d-newer", 0, 1), revision(3)]),
    Case("both sizes go in one pass, each with what it is sized for",
         seen(deployment(), OLD, SMALLER, members=ALL_OLD | members("new", 1)),
         [("d-old", sized(2)), scaled("d-old", 3, 2)]),
    Case("while paused only the number counts",
         seen(deployment("newer", replicas=5, paused=True), NEW, members=ALL_NEW),
         [("d-new", sized(5, desired="5", ceiling="6")), scaled("d-new", 3, 5)]),
    Case("paused: a set that gets the rest of its size later is not marked as sized for the new number",
         seen(deployment(replicas=8, paused=True), OLD, SMALLER, policy=but(POLICY, scaling=MCM_SCALING),
              members={"old-uid": (*ALL_OLD["old-uid"], *members("x", 2, deleting=True)["x-uid"])} | members("new", 1)),
         [("d-old", {"metadata": {"annotations": {"desired": "8", "ceiling": "9"}}}),
          ("d-new", sized(4)), scaled("d-new", 1, 4)]),
    Case("of two sets of the wanted template the policy's choice is the current one",
         seen(deployment("old"), without("old", 1), structs.replace(OLD, metadata=structs.replace(
             OLD.metadata, name="d-old-2", uid="old-2-uid", annotations={**OLD.metadata.annotations, "revision": "3"})),
             members={"old-2-uid": ALL_OLD["old-uid"]}), [revision(3)]),
    Case("what needs no rollout is propagated, annotations with it, but for those of one object alone",
         seen(deployment(min_ready_seconds=5, meta={"annotations": {"a": "b"}}), NEW, members=ALL_NEW),
         [("d-new", {"spec": {"minReadySeconds": 5}, "metadata": {"annotations": {"a": "b"}}})]),
    Case("an old set gets it, too, in an API whose policy says so, but no annotation",
         seen(deployment(min_ready_seconds=5, strategy="Recreate", meta={"annotations": {"a": "b"}}),
              without("old", 1), NEW, members=ALL_NEW, policy=TO_ALL),
         [("d-old", {"spec": {"minReadySeconds": 5}}),
          ("d-new", {"spec": {"minReadySeconds": 5}, "metadata": {"annotations": {"a": "b"}}})]),
    Case("a set that becomes current again gets a fresh number, and remembers the old one",
         seen(deployment("old", strategy="Recreate"), without("old", 1), NEW, members=ALL_NEW),
         [("d-old", {"metadata": {"annotations": {"revision": "3", "history": "1"}}}),
          ("d-new", sized(0, ceiling="3")), scaled("d-new", 3, 0), revision(3)]),
    Case("with those that it remembers already",
         seen(deployment("old", strategy="Recreate"), structs.replace(without("old", 2), metadata=structs.replace(
             without("old", 2).metadata, annotations={"revision": "2", "history": "1", "desired": "0", "ceiling": "0"})),
             thing_set("new", 3, 3), members=ALL_NEW),
         [("d-old", {"metadata": {"annotations": {"revision": "4", "history": "1,2"}}}),
          ("d-new", sized(0, ceiling="3")), scaled("d-new", 3, 0), revision(4)]),
    Case("here a rollout's step comes before scaling",
         seen(deployment(replicas=9), OLD, SMALLER, members=ALL_OLD | members("new", 1)),
         [("d-new", sized(7, desired="9", ceiling="10")), scaled("d-new", 1, 7)]),
    # on delete
    Case("on delete: the old set may create nothing any more, and keeps its size",
         seen(deployment(strategy="OnDelete"), OLD, without("new", 2), members=ALL_OLD),
         [("d-old", {"metadata": {"annotations": {"no-creation": "true"}}})]),
    Case("on delete: what was deleted from the old set is created by the new one",
         seen(deployment(strategy="OnDelete"), FROZEN, without("new", 2), members=members("old", 2)),
         [("d-old", sized(2, ceiling="3")), ("d-new", sized(1, desired="3", ceiling="3")),
          scaled("d-old", 3, 2), scaled("d-new", 0, 1)]),
    Case("on delete: the new set is created when the old one has lost members",
         seen(deployment("newer", strategy="OnDelete"), FROZEN, members=members("old", 2)),
         [("d-old", sized(2, ceiling="3")), scaled("d-old", 3, 2), ("create d-newer", 1), scaled("d-newer", 0, 1)]),
    Case("on delete: while it is terminating it is not replaced",
         seen(deployment(strategy="OnDelete"), FROZEN, without("new", 2),
              members={"old-uid": (*members("old", 2)["old-uid"], *members("x", 1, deleting=True)["x-uid"])}),
         [("d-old", sized(2, ceiling="3")), scaled("d-old", 3, 2)]),
    Case("on delete: a set that becomes current again may create members again",
         seen(deployment("old", strategy="OnDelete"), FROZEN, SMALLER, members=ALL_OLD | members("new", 1)),
         [("d-old", {"metadata": {"annotations": {"no-creation": None, "revision": "3", "history": "1"}}}),
          ("d-new", sized(0, ceiling="3", **{"no-creation": "true"})), scaled("d-new", 1, 0), revision(3)]),
    # history
    Case("old sets beyond the limit are deleted, oldest first",
         seen(deployment(revision_history_limit=1), without("x", 0), without("y", 1), NEW, members=ALL_NEW),
         [DeleteSets((without("x", 0),))]),
    Case("not while the policy keeps them",
         seen(deployment(revision_history_limit=1), without("x", 0), without("y", 1), NEW, members=ALL_NEW,
              policy=but(POLICY, keeps_history=lambda _deployment: True)), []),
    Case("nor while sizes change",
         seen(deployment(replicas=4, revision_history_limit=0), without("x", 0), NEW, members=ALL_NEW),
         [("d-new", sized(4, desired="4", ceiling="5")), scaled("d-new", 3, 4)]),
    # the end
    Case("a deployment that is being deleted deletes the sets that are not yet",
         seen(deployment(meta=BEING_DELETED | KEEPING), OLD, without("new", 2, **BEING_DELETED), policy=FINALIZING),
         [DeleteSets((OLD,))]),
    Case("those that are get what needs no rollout, where all sets do",
         seen(deployment(meta=BEING_DELETED | KEEPING, min_ready_seconds=5), OLD,
              without("new", 2, **BEING_DELETED), policy=but(TO_ALL, finalizer=FINALIZER)),
         [("d-new", {"spec": {"minReadySeconds": 5}}), DeleteSets((OLD,))]),
    Case("but not from a deployment that is not valid",
         seen(deployment(meta=BEING_DELETED | KEEPING, min_ready_seconds=5, replicas=-1),
              without("new", 2, **BEING_DELETED), policy=but(TO_ALL, finalizer=FINALIZER)), []),
    Case("it waits for the last of them",
         seen(deployment(meta=BEING_DELETED | KEEPING), without("new", 2, **BEING_DELETED), policy=FINALIZING), []),
    Case("and removes the finalizer", seen(deployment(meta=BEING_DELETED | KEEPING), policy=FINALIZING),
         [RemoveFinalizer()]),
    Case("sets that are being orphaned stay",
         seen(deployment(meta=BEING_DELETED | {"finalizers": (FINALIZER, "orphan")}), OLD, policy=FINALIZING), []),
    Case("without a finalizer the garbage collector deletes them", seen(deployment(meta=BEING_DELETED), OLD), []),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    plan = decide(case.seen)
    assert [in_short(case.seen, step) for step in plan.steps] == case.expect
    assert (plan.wake == AT_ONCE) is case.at_once


def test_a_new_set_is_complete() -> None:
    written = deployment("newer", 2, min_ready_seconds=7, meta={"annotations": {"a": "b"}})
    (new,) = (step.new for step in decide(seen(written)).steps if isinstance(step, CreateSet))
    labels = {"app": "a", "hash": "newer"}
    assert new == ThingSet(
        metadata=ObjectMeta(
            name="d-newer",
            namespace="ns",
            labels=labels,
            annotations={"a": "b", "desired": "2", "ceiling": "3", "revision": "1"},
            owner_references=(
                OwnerReference(
                    api_version=f"{GROUP}/v1",
                    kind="ThingDeployment",
                    name="d",
                    uid="d-uid",
                    controller=True,
                    block_owner_deletion=True,
                ),
            ),
        ),
        spec=SetSpec(
            replicas=2,
            selector=LabelSelector(match_labels=labels),
            template=Template(metadata=ObjectMeta(labels=labels), image="newer"),
            min_ready_seconds=7,
        ),
    )


def test_a_deployment_that_is_being_deleted_names_the_sets_that_it_waits_for() -> None:
    going = [without(image, 1, **BEING_DELETED) for image in ("a", "b", "c", "d")]
    plan = decide(seen(deployment(meta=BEING_DELETED | KEEPING), *going, policy=FINALIZING))
    assert [(each.what, each.since) for each in plan.awaits] == [
        (f"ThingSet d-{image} to be deleted", T0) for image in ("a", "b", "c")
    ]


def test_a_rollout_names_the_members_that_it_waits_for() -> None:
    short = seen(deployment(), OLD, SMALLER, members=members("old", 2))
    assert [each.what for each in decide(short).awaits] == ["its Things to be available"]
    assert decide(seen(deployment(), NEW, members=ALL_NEW)).awaits == ()
