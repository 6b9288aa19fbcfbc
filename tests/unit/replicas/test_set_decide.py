"""What a set decides in whatever API, as tables of sentences: whole steps are compared, not their types.

The policy here is the smallest one: things that are ready or not. What that of machines adds has tables of
its own (``machines_sets``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pytest
from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, LabelSelector, ObjectMeta, Value
from kubewright.base.delays import CREATION
from kubewright.base.plan import AT_ONCE, Awaited, Plan
from kubewright.kube.client import Client
from kubewright.replicas.objects import AddFinalizer, Member, RemoveFinalizer, new_names
from kubewright.replicas.set.decide import decide
from kubewright.replicas.set.seen import (
    Adopt,
    Annotate,
    Create,
    Delete,
    Deletions,
    Disown,
    Failure,
    Propagate,
    RecordNumber,
    Seen,
    SetPolicy,
    Step,
    Wait,
    Words,
)
from kubewright.rollout.model import Rank
from kubewright.wire.gvk import Key, Resource

from .things import but


class Template(Value, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta(labels={"app": "a"})


class Spec(Value, frozen=True, kw_only=True):
    replicas: int = 0
    selector: LabelSelector | None = LabelSelector(match_labels={"app": "a"})
    template: Template = Template()
    min_ready_seconds: int = 0


class ThingSet(KubeObject, frozen=True, kw_only=True):
    spec: Spec = Spec()
    status: dict[str, int] = field(default_factory=dict)


class Thing(KubeObject, frozen=True, kw_only=True):
    pass


T0 = datetime(2030, 1, 1, tzinfo=UTC)
THREE, NINE = timedelta(seconds=3), timedelta(seconds=9)
SETS = Kind(Resource("toys.example.com", "v1", "thingsets", "ThingSet"), ThingSet)
THINGS = Kind(Resource("toys.example.com", "v1", "things", "Thing"), Thing)
FINALIZER, NUMBER = "toys.example.com/things", "toys.example.com/last-number"


class ThingSets(SetPolicy[ThingSet, Member, Thing]):
    name = "thingset"
    component = "things"
    words = Words("thing", "things", created="Created {}", deleted="Deleted {}")
    kind = SETS
    member_kind = THINGS
    finalizer = FINALIZER
    number_annotation = NUMBER

    async def create(self, client: Client, owner: ThingSet, name: str) -> None:
        await client.create(THINGS, Thing(metadata=ObjectMeta(name=name)))

    def ranking(self, of: ThingSet, wall: float, living: Sequence[Member]) -> Callable[[Member], Rank]:
        return lambda member: (member.name,)

    def status(self, seen: Seen[ThingSet, Member], failure: Failure | None) -> dict[str, int]:
        return {}


POLICY = ThingSets()
PLAIN = but(POLICY, finalizer="", number_annotation="")
COUNTS_DELETING = but(POLICY, counts_deleting=True)


def member(name: str, **facts: Any) -> Member:
    facts = {"ready_since": 0.0, "deleting": False, **facts}
    return Member(Key("ns", name), f"{name}-uid", "ts-uid", {"app": "a"}, **facts)


A, B, C, D = (member(name) for name in "abcd")
GOING = member("g", deleting=True)
META = ObjectMeta(name="ts", namespace="ns", uid="ts-uid", finalizers=(FINALIZER,))
DELETED = {"deletion_timestamp": T0}


def seen(
    replicas: int,
    *members: Member,
    policy: SetPolicy[ThingSet, Member, Thing] = POLICY,
    meta: dict[str, Any] | None = None,
    **more: Any,
) -> Seen[ThingSet, Member]:
    facts = {"name": "ts", "namespace": "ns", "uid": "ts-uid", "finalizers": (FINALIZER,), **(meta or {})}
    found = ThingSet(metadata=ObjectMeta(**facts), spec=Spec(replicas=replicas))
    return Seen(policy, found, T0.timestamp(), T0, members, burst=2, **more)


def created(*numbers: int) -> Create:
    return Create(tuple(new_names(META, number - 1, (), 1)[0] for number in numbers))


def dooming(*members: Member, because: str = "", wake: timedelta | None = None) -> Any:
    return but(POLICY, to_delete=lambda _seen: Deletions(members, because, wake))


def pushing(*stale: Member) -> Any:
    return but(POLICY, stale=lambda _seen: stale)


ASK = Annotate((A,), "toys.example.com/keep", "true")


@dataclass(frozen=True)
class Case:
    name: str
    seen: Seen[ThingSet, Member]
    expect: tuple[Step, ...]
    wake: timedelta | None = None
    because: str = ""
    awaits: tuple[str, ...] = ()


ANSWERED = ("the API server to answer a creation",)
NO_PLANE = Awaited("FooPlane p", "create it")
CASES = [
    Case("what is missing is created, and no more than a burst at once",
         seen(4, A), (created(1, 2),), AT_ONCE, "1 of 4 things"),
    Case("the last ones of it need no further look", seen(2, A), (created(1),), None, "1 of 2 things"),
    Case("new members are numbered after the highest that was ever seen",
         seen(1, number=7), (created(8), RecordNumber(7)), None,
         "0 of 1 things; the thing with the highest number leaves: the set records the number"),
    Case("a name that another owner has is left out",
         seen(1, taken=frozenset(created(1).names)), (created(2),), None, "0 of 1 things"),
    Case("surplus members are deleted in the order of the policy's ranking",
         seen(1, C, A, B), (Delete((A, B)),), None, "2 too many"),
    Case("no more than a burst of them at once", seen(0, A, B, C), (Delete((A, B)),), AT_ONCE, "3 too many"),
    Case("a member that is being deleted is replaced at once",
         seen(2, A, GOING), (created(1),), None, "1 of 2 things"),
    Case("or when it is gone, where it still counts", seen(2, A, GOING, policy=COUNTS_DELETING), ()),
    Case("where it still counts, it is the first of the surplus",
         seen(1, A, B, GOING, policy=COUNTS_DELETING), (Delete((A,)),), None, "1 too many"),
    Case("the finalizer is added before the first member",
         seen(1, meta={"finalizers": ("other",)}), (AddFinalizer(), created(1)), None,
         "it has no finalizer of ours yet; 0 of 1 things"),
    Case("a policy without a finalizer writes none", seen(0, policy=PLAIN, meta={"finalizers": ()}), ()),
    Case("a candidate is adopted, and everything counted anew",
         seen(2, A, orphans=(B,)), (Adopt((B,)),), AT_ONCE, "things that match and have no controller: 1"),
    Case("a member that is not selected any more is disowned and replaced",
         seen(1, unselected=(A,)), (Disown((A,)), created(1)), None,
         "things that no longer match: 1; 0 of 1 things"),
    Case("the highest number is written before its member is disowned",
         seen(1, member("b", number=2), unselected=(member("a", number=4),)),
         (RecordNumber(4), Disown((member("a", number=4),))), AT_ONCE, "things that no longer match: 1"),
    Case("not if a member that stays shows it, or the set itself",
         seen(1, member("b", number=4), unselected=(member("a", number=3),)),
         (Disown((member("a", number=3),)),), None, "things that no longer match: 1"),
    Case("what the template changes is propagated to living members, no more than a burst at once",
         seen(3, A, B, C, policy=pushing(A, B, C)), (Propagate((A, B)),), AT_ONCE,
         "things with an older configuration: 3"),
    Case("a burst of it needs no further look", seen(2, A, B, policy=pushing(A, B)), (Propagate((A, B)),), None,
         "things with an older configuration: 2"),
    Case("members that the policy wants deleted come after those that are too many",
         seen(1, A, B, policy=dooming(B, because="1 failed")), (Delete((A, B)),), None, "1 too many, 1 failed"),
    Case("each of them once", seen(1, A, B, policy=dooming(A, because="1 failed")), (Delete((A,)),), None,
         "1 too many, 1 failed"),
    Case("the policy says when there may be more of them", seen(1, A, policy=dooming(wake=NINE)), (), NINE),
    Case("the policy's own deciders come before members are deleted",
         seen(1, A, B, policy=but(POLICY, deciders=lambda: (lambda _seen: Plan((ASK,), because="asked"),))),
         (ASK, Delete((A,))), None, "asked; 1 too many"),
    Case("a blocked set creates nothing", seen(1, blocked=Wait("the control plane is upgraded", 15.0)), (), timedelta(seconds=15),
         "things missing: 1, but the control plane is upgraded"),
    Case("what it waits for is named, if it has to come from elsewhere",
         seen(1, blocked=Wait("there is no FooPlane p", None, NO_PLANE)), (), None,
         "things missing: 1, but there is no FooPlane p", ("FooPlane p",)),
    Case("and still deletes", seen(0, A, blocked=Wait("no")), (Delete((A,)),), None, "1 too many"),
    Case("a paused set neither creates", seen(1, pause=Wait("wait", 3.0)), (), THREE, "things missing: 1, but wait"),
    Case("and is not looked at in a loop when the pause is all but over", seen(1, pause=Wait("wait", 1e-9)), (),
         timedelta(microseconds=1), "things missing: 1, but wait"),
    Case("nor deletes what is too many", seen(0, A, pause=Wait("wait", 3.0)), (), THREE,
         "things too many: 1, but wait"),
    Case("but writes the highest number", seen(0, A, number=7, pause=Wait("wait", 3.0)), (RecordNumber(7),), THREE,
         "things too many: 1, but wait"),
    Case("a paused set of the right size waits for nothing", seen(1, A, pause=Wait("wait", 3.0)), ()),
    Case("an unanswered creation is asked for again, by its name and before any other",
         seen(3, A, doubts=("x",)), (Create(("x",)),), CREATION, "creations without an answer: 1", ANSWERED),
    Case("the highest number is written before its member is deleted",
         seen(0, member("a", number=4)), (RecordNumber(4), Delete((member("a", number=4),))), None, "1 too many"),
    Case("the first number too",
         seen(0, member("a", number=1)), (RecordNumber(1), Delete((member("a", number=1),))), None, "1 too many"),
    Case("not where names are random",
         seen(0, member("a", number=4), policy=PLAIN), (Delete((member("a", number=4),)),), None, "1 too many"),
    Case("an invalid set is left alone", seen(1, problem="bad"), (), None, "the set is not valid: bad"),
    Case("a set that is being deleted deletes all that it controls",
         seen(1, A, GOING, unselected=(B,), meta=DELETED), (Delete((A, B)),), None, "things left: 3",
         ("Thing g to be deleted",)),
    Case("those that are going get what the template changes, if it concerns them",
         seen(1, A, GOING, policy=pushing(A, GOING), meta=DELETED), (Propagate((GOING,)), Delete((A,))), None,
         "things left: 2", ("Thing g to be deleted",)),
    Case("a few of those that are waited for are named",
         seen(1, *(member(name, deleting=True) for name in "abcde"), meta=DELETED), (), None, "things left: 5",
         ("Thing a to be deleted", "Thing b to be deleted", "Thing c to be deleted")),
    Case("then removes its finalizer", seen(1, meta=DELETED), (RemoveFinalizer(),), None, "no thing is left"),
    Case("not while a creation may still happen", seen(1, doubts=("x",), meta=DELETED), (), timedelta(seconds=60),
         "a creation without an answer may still happen", ANSWERED),
    Case("members that are being orphaned stay",
         seen(1, A, meta={**DELETED, "finalizers": (FINALIZER, "orphan")}), (), None,
         "the things are being orphaned"),
    Case("without our finalizer the garbage collector deletes them",
         seen(1, A, meta={**DELETED, "finalizers": ()}), ()),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    plan = decide(case.seen)
    last = case.wake == AT_ONCE  # what is looked at again at once changes what is counted
    assert replace(plan, awaits=()) == Plan(case.expect, case.wake, case.because, last=last)
    assert tuple(each.what for each in plan.awaits) == case.awaits
