"""What a MachineSet decides (SET-01 to SET-10), as tables of sentences."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase, Preserve
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineSet,
    MachineSetSpec,
    MachineSpec,
    MachineTemplateSpec,
)
from kubewright.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kubewright.base.clock import rfc3339
from kubewright.base.delays import CREATION
from kubewright.base.limits import DOUBT_SECONDS
from kubewright.base.plan import AT_ONCE
from kubewright.machines.machineset.decide import MachineSetSeen
from kubewright.machines.machineset.member import MachineMember, digest
from kubewright.machines.machineset.policy import MACHINE_SETS
from kubewright.replicas.objects import AddFinalizer, RemoveFinalizer, letters, number_of, verified_number
from kubewright.replicas.set.decide import decide
from kubewright.replicas.set.look import Memory, size_contradiction
from kubewright.replicas.set.seen import (
    BURST,
    Adopt,
    Annotate,
    Create,
    Delete,
    Disown,
    Propagate,
    RecordNumber,
    Seen,
    Step,
    Wait,
)
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
NOW = T0.timestamp()
SPEC = MachineSpec(machine_class=ClassSpec(kind="MachineClass", name="small"), drain_timeout="1h")
AT_MOST = 4
"""Machines created and deleted in one pass."""


def machine_set(replicas: int = 3, **meta: Any) -> MachineSet:
    meta.setdefault("finalizers", (names.FINALIZER,))
    return MachineSet(
        metadata=ObjectMeta(name="ms", namespace="ns", uid="ms-uid", **meta),
        spec=MachineSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "a"}),
            template=MachineTemplateSpec(metadata=ObjectMeta(labels={"app": "a"}), spec=SPEC),
        ),
    )


def member(name: str, phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    facts.setdefault("propagated_digest", digest(SPEC, own_timeout=facts.get("own_timeout", False)))
    facts.setdefault("deleting", False)
    return MachineMember(Key("ns", name), f"{name}-uid", "ms-uid", {"app": "a"}, phase=phase, **facts)


def members(*names_: str) -> tuple[MachineMember, ...]:
    return tuple(member(name) for name in names_)


def seen(
    replicas: int = 3,
    *,
    found: tuple[MachineMember, ...] = (),
    meta: dict[str, Any] | None = None,
    keeps: int = 0,
    **more: Any,
) -> MachineSetSeen:
    of = machine_set(replicas, **(meta or {}))
    of = structs.replace(of, spec=structs.replace(of.spec, auto_preserve_failed_machine_max=keeps))
    more = {"burst": AT_MOST, "blocked": MACHINE_SETS.blocked(of, None), **more}
    return Seen(MACHINE_SETS, of, T0.timestamp(), T0, found, **more)


def in_words(step: Step) -> str:
    """A step in words; names of new machines are counted, since they look random."""
    match step:
        case AddFinalizer():
            return "hold"
        case RemoveFinalizer():
            return "remove finalizer"
        case Create(new):
            return f"create {len(new)}"
        case RecordNumber(number):
            return f"remember {number}"
        case Delete(found):
            return f"delete {' '.join(v.name for v in found)}"
        case Annotate(found, names.PRESERVE_ANNOTATION, Preserve.AUTO):
            return f"keep {' '.join(m.name for m in found)}"
        case Annotate(found, names.PRESERVE_ANNOTATION, None):
            return f"unkeep {' '.join(m.name for m in found)}"
        case Adopt(found) | Disown(found) | Propagate(found):
            return f"{type(step).__name__.lower()} {' '.join(m.name for m in found)}"
        case _:
            raise AssertionError(f"no such step was expected: {step}")


@dataclass(frozen=True)
class Case:
    name: str
    seen: MachineSetSeen
    expect: list[str]
    wake: timedelta | None = None
    why: str = ""


FAILED, TERMINATING = Phase.FAILED, Phase.TERMINATING
CHANGED = {names.LAST_SCALER_CHANGE_ANNOTATION: rfc3339(T0)}
OUTDATED = Wait("the deployment wants 7", 3.0)
CASES = [
    # growing and shrinking
    Case("what is missing is made", seen(3, found=members("a")), ["create 2"], why="1 of 3"),
    Case("no more than a burst at once, and the rest at once after it", seen(9), ["create 4"], AT_ONCE),
    Case("enough is enough", seen(2, found=members("a", "b")), []),
    Case("machines that were moved here wait for the size to follow",
         seen(1, found=(member("a"), member("b", moved=True))), []),
    Case("and no other one is too many meanwhile", seen(2, found=(member("a"), member("b"), member("c", moved=True))),
         []),
    Case("surplus machines are deleted", seen(1, found=members("a", "b", "c")), ["delete a b"], why="2 too many"),
    Case("a set without our finalizer gets it first", seen(1, meta={"finalizers": ()}), ["hold", "create 1"]),
    Case("terminating machines are no replicas",
         seen(2, found=(*members("a"), member("b", deleting=True), member("c", TERMINATING))), ["create 1"]),
    Case("machines that are being deleted are not deleted again", seen(0, found=(*members("a"), member("b", deleting=True))), ["delete a"]),
    Case("a machine that its type cannot read still counts", seen(1, found=(member("a", propagated_digest=b""),)), []),
    # who goes
    Case("lower priority goes first", seen(1, found=(member("a"), member("b", priority=2))), ["delete b"]),
    Case("then the worse phase", seen(1, found=(member("a"), member("b", Phase.PENDING))), ["delete b"]),
    Case("then the older one", seen(1, found=(member("a", created=2.0), member("b", created=1.0))), ["delete b"]),
    # a size that is for another desired size
    Case("nothing is created for a desired size that was withdrawn", seen(3, found=members("a"), pause=OUTDATED), [],
         wake=timedelta(seconds=3), why="machines missing: 2, but the deployment wants 7"),
    Case("nothing is deleted for a desired size that was withdrawn", seen(0, found=members("a"), pause=OUTDATED), [],
         wake=timedelta(seconds=3), why="machines too many: 1, but the deployment wants 7"),
    Case("a failed machine is deleted whatever the desired size is",
         seen(0, found=(*members("a"), member("b", FAILED)), pause=OUTDATED), ["delete b"], why="1 failed"),
    # failed machines
    Case("a Failed machine is deleted, so that it is replaced",
         seen(2, found=(*members("a"), member("b", FAILED))), ["delete b"], why="1 failed"),
    Case("Failed machines are deleted even when some are missing",
         seen(3, found=(*members("a"), member("b", FAILED))), ["create 1", "delete b"]),
    Case("a machine that is too many is deleted, failed or not",
         seen(0, found=(member("b", FAILED),)), ["delete b"]),
    Case("a preserved Failed machine stays until its preservation expires",
         seen(1, found=(member("b", FAILED, preserved_until=NOW + 60),)), [], timedelta(seconds=60)),
    Case("an expired preservation does not count",
         seen(1, found=(member("b", FAILED, preserved_until=NOW - 1),)), ["delete b"]),
    # kept without being asked for
    Case("a set may preserve some Failed machines, the newest first",
         seen(3, found=(member("a", FAILED, created=1.0), member("b", FAILED, created=2.0), *members("c")),
              keeps=1), ["keep b", "delete a"]),
    Case("of more than a burst those that are to be preserved later are not deleted meanwhile",
         seen(6, found=tuple(member(name, FAILED, created=float(age)) for age, name in enumerate("abcdef")), keeps=5),
         ["keep f e d c", "delete a"]),
    Case("machines that it preserves already count",
         seen(2, found=(member("a", FAILED, preserving=True, auto_preserved=True, preserve_annotated=True),
                        member("b", FAILED)), keeps=1), ["delete b"]),
    Case("a machine that a user has annotated is left alone",
         seen(1, found=(member("a", FAILED, preserve_annotated=True),), keeps=1), ["delete a"]),
    Case("a machine whose preservation has expired is not preserved again",
         seen(1, found=(member("a", FAILED, preserved_until=NOW - 1),), keeps=1), ["delete a"]),
    Case("when it may preserve fewer, the oldest are preserved no longer",
         seen(2, found=tuple(member(name, FAILED, created=age, preserved_until=NOW + 60, auto_preserved=True,
                                    preserve_annotated=True) for name, age in (("a", 2.0), ("b", 1.0))), keeps=1),
         ["unkeep b"], timedelta(seconds=60)),
    Case("a machine that scaling down deletes is not preserved",
         seen(0, found=(member("a", FAILED),), keeps=1), ["delete a"]),
    Case("a machine that the autoscaler chose is not preserved, and does not count",
         seen(2, found=(member("a", FAILED, created=2.0, priority=1, marked_at=NOW - 1),
                        member("b", FAILED, created=1.0)), keeps=1, meta={"annotations": CHANGED}),
         ["keep b", "delete a"]),
    Case("an annotation without an expiry preserves a machine for ten minutes",
         seen(1, found=(member("b", FAILED, preserving=True, failed_at=NOW - 60),)), [], timedelta(seconds=540)),
    Case("and not for ever",
         seen(1, found=(member("b", FAILED, preserving=True, failed_at=NOW - 601),)), ["delete b"]),
    Case("a request to preserve counts before the preservation has begun",
         seen(1, found=(member("b", FAILED, preserving=True),)), []),
    # numbers
    Case("the highest number is written before its machine is deleted",
         seen(0, found=(member("a", number=1), member("b", number=2))), ["remember 2", "delete a b"]),
    Case("not while another machine shows a higher one",
         seen(1, found=(member("a", FAILED, number=1), member("b", number=2))), ["delete a"]),
    Case("not when it is written already",
         seen(0, found=(member("a", number=1),), meta={"annotations": {names.LAST_NUMBER_ANNOTATION: "1"}}),
         ["delete a"]),
    Case("also when another client deletes the machine, or has",
         seen(0, found=(member("a", number=1, deleting=True),), number=3), ["remember 3"],
         why="the set records the number"),
    Case("a set that is being deleted records no number",
         seen(1, found=(member("a", number=1),), meta={"deletion_timestamp": T0}), ["delete a"]),
    # the autoscaler
    Case("a machine that the autoscaler chose is deleted even when the number is right",
         seen(2, found=(*members("a"), member("b", priority=1, marked_at=NOW - 1)), meta={"annotations": CHANGED}),
         ["delete b"], why="chosen"),
    Case("also when it was chosen in the moment of that change",
         seen(2, found=(*members("a"), member("b", priority=1, marked_at=NOW)), meta={"annotations": CHANGED}),
         ["delete b"], why="chosen"),
    Case("not when it was chosen after the last change of replicas",
         seen(2, found=(*members("a"), member("b", priority=1, marked_at=NOW + 1)), meta={"annotations": CHANGED}),
         []),
    Case("not without the time of that change",
         seen(2, found=(*members("a"), member("b", priority=1, marked_at=NOW - 1))), []),
    Case("a priority that a user gave counts for scaling down only",
         seen(2, found=(*members("a"), member("b", priority=1)), meta={"annotations": CHANGED}), []),
    # who forbids
    Case("a frozen set creates nothing", seen(1, meta={"labels": {"freeze": "True"}}), [], why="frozen"),
    Case("a frozen set still deletes", seen(0, found=members("a"), meta={"labels": {"freeze": "True"}}), ["delete a"]),
    Case("scale-up can be disabled", seen(1, meta={"labels": {names.SCALE_UP_DISABLED_LABEL: ""}}), []),
    Case("an invalid set is not worked on", seen(1, problem="bad"), [], why="not valid: bad"),
    # doubts
    Case("a creation in doubt is asked for again, and nothing else is made",
         seen(3, found=members("a"), doubts=("x",)), ["create 1"], CREATION),
    Case("doubts do not matter when nothing is missing", seen(1, found=members("a"), doubts=("x",)), []),
    # whose machines
    Case("orphans that match are adopted, then everything is counted anew",
         seen(3, orphans=members("o")), ["adopt o"], AT_ONCE),
    Case("machines that no longer match are disowned, and replaced",
         seen(1, unselected=members("s")), ["disown s", "create 1"]),
    # settings flow down
    Case("living machines get a new configuration", seen(1, found=(member("a", propagated_digest=b"old"),)), ["propagate a"]),
    Case("failed machines do not", seen(1, found=(member("a", FAILED, propagated_digest=b"old", preserving=True),)), []),
    Case("a creation timeout of its own is left alone",
         seen(1, found=(member("a", own_timeout=True),)), []),
    # the end
    Case("a deleted set takes all its machines with it, in one pass",
         seen(9, found=members(*"abcdef"), unselected=members("s"), meta={"deletion_timestamp": T0}),
         ["delete a b c d e f s"]),
    Case("and waits for those that are terminating",
         seen(1, found=(member("a", deleting=True),), meta={"deletion_timestamp": T0}), []),
    Case("and removes its finalizer when nothing is left", seen(1, meta={"deletion_timestamp": T0}), ["remove finalizer"]),
    Case("but not while a creation is in doubt",
         seen(1, doubts=("x",), meta={"deletion_timestamp": T0}), [], timedelta(seconds=DOUBT_SECONDS)),
    Case("it creates and adopts nothing", seen(3, orphans=members("o"), meta={"deletion_timestamp": T0}), ["remove finalizer"]),
    Case("machines that are being orphaned are not deleted",
         seen(1, found=members("a"),
              meta={"deletion_timestamp": T0, "finalizers": (names.FINALIZER, "orphan")}), []),
    Case("without our finalizer the members are left to the garbage collector",
         seen(1, found=members("a"), meta={"deletion_timestamp": T0, "finalizers": ("foregroundDeletion",)}), []),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    """A member in a step is the very one that was seen, with its uid and version: both bind the write."""
    plan = decide(case.seen)
    assert [in_words(step) for step in plan.steps] == case.expect
    there = (*case.seen.members, *case.seen.orphans, *case.seen.unselected)
    carried = [found for step in plan.steps for found in getattr(step, "members", ())]
    assert all(any(found is each for each in there) for found in carried)
    assert plan.wake == case.wake
    assert case.why in plan.because


def new_names(of: MachineSetSeen) -> tuple[str, ...]:
    plan = decide(replace(of, burst=BURST))
    return next(step.names for step in plan.steps if isinstance(step, Create))


def numbered(number: int, phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    """A machine of the set with its number, named accordingly."""
    return member(f"ms-{letters('ms-uid', number)}", phase, number=number, **facts)


TWO = (numbered(1), numbered(2))
LAST = {"annotations": {names.LAST_NUMBER_ANNOTATION: "7"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(seen(6, found=TWO), seen(6, found=TWO), id="two controllers that see the same"),
        pytest.param(seen(6, found=TWO), seen(6, found=TWO[::-1]), id="in whatever order they see it"),
        pytest.param(
            seen(6, found=TWO), seen(6, found=TWO[1:]), id="one knows already that a machine is gone"
        ),
        pytest.param(
            seen(6, found=TWO), seen(9, found=TWO, meta={"generation": 2}), id="one knows a newer size"
        ),
        pytest.param(
            seen(6, found=TWO, number=7), seen(6, found=TWO, meta=LAST), id="one has seen what was written"
        ),
    ],
)
def test_the_same_names_are_chosen_when(one: MachineSetSeen, other: MachineSetSeen) -> None:
    first, second = new_names(one), new_names(other)
    assert set(first) <= set(second) or set(second) <= set(first)


@pytest.mark.parametrize(
    ("after", "before"),
    [
        pytest.param(seen(2, number=2), seen(2), id="all machines of the set are gone"),
        pytest.param(seen(2, meta=LAST), seen(2), id="a process begins that has seen none of them"),
        pytest.param(
            seen(2, meta={**LAST, "generation": 3}), seen(2), id="a pool was scaled to nothing and back"
        ),
        pytest.param(
            seen(2, found=TWO[:1], number=2), seen(2, found=TWO[:1]), id="the newest of several is gone"
        ),
    ],
)
def test_no_name_comes_again_when(after: MachineSetSeen, before: MachineSetSeen) -> None:
    assert not set(new_names(after)) & set(new_names(before))


def test_an_older_view_chooses_names_that_exist() -> None:
    older, newer = seen(3, found=TWO[:1]), seen(3, found=TWO)
    assert new_names(older)[0] == TWO[1].name
    assert TWO[1].name not in new_names(newer)


def test_a_set_that_was_made_again_has_other_names() -> None:
    reborn = structs.replace(machine_set(6), metadata=structs.replace(machine_set(6).metadata, uid="reborn"))
    assert not set(new_names(seen(6))) & set(new_names(replace(seen(6), set=reborn)))


def test_numbers_and_names_are_one_to_one() -> None:
    found = [letters("ms-uid", number) for number in range(1, 20_001)]
    assert len(set(found)) == 20_000
    assert [number_of("ms-uid", f"ms-{each}") for each in found[:100]] == [*range(1, 101)]
    assert number_of("ms-uid", "ms-aeiou") == 0, "none of a set's letters is a vowel"


@pytest.mark.parametrize(
    ("name", "number", "expect"),
    [
        pytest.param(f"ms-{letters('ms-uid', 5)}", 5, 5, id="what name and annotation agree on"),
        pytest.param(f"ms-{letters('ms-uid', 1)}", 1, 1, id="the first of a set"),
        pytest.param(f"ms-{letters('ms-uid', 5)}", 6, 0, id="an annotation that was copied"),
        pytest.param("ms-x7f2k", 5, 0, id="a name that a user gave"),
        pytest.param(f"ms-{letters('ms-uid', 5)}", 0, 0, id="no annotation"),
    ],
)
def test_a_machine_shows_the_number(name: str, number: int, expect: int) -> None:
    assert verified_number("ms-uid", name, number) == expect


def test_names_are_all_different_and_never_taken() -> None:
    first = new_names(seen(200))
    assert len(set(first)) == 200
    second = new_names(seen(200, taken=frozenset(first[:50])))
    assert not set(second) & set(first[:50])
    assert all(name.startswith("ms-") and len(name) == 8 for name in first)


OWNED = OwnerReference(
    api_version="machine.sapcloud.io/v1alpha1",
    kind="MachineDeployment",
    name="md",
    uid="md-uid",
    controller=True,
)


@pytest.mark.parametrize(
    ("desired", "uid", "deleting", "contradicts"),
    [
        pytest.param("3", "md-uid", False, False, id="a size for the deployment's own desired size is right"),
        pytest.param("7", "md-uid", False, True, id="a size for another desired size is not"),
        pytest.param("", "md-uid", False, False, id="a size without an annotation is the set's own"),
        pytest.param("7", "other", False, False, id="another deployment of the same name does not count"),
        pytest.param(
            "7", "md-uid", True, False, id="a deployment that is being deleted wants no size any more"
        ),
    ],
)
def test_a_size_is_for_a_desired_size(desired: str, uid: str, deleting: bool, contradicts: bool) -> None:
    marks = {names.DESIRED_REPLICAS_ANNOTATION: desired} if desired else {}
    found = machine_set(annotations=marks, owner_references=(OWNED,))
    gone = T0 if deleting else None
    meta = ObjectMeta(name="md", namespace="ns", uid=uid, deletion_timestamp=gone)
    template = MachineTemplateSpec(spec=SPEC)
    deployment = MachineDeployment(metadata=meta, spec=MachineDeploymentSpec(replicas=3, template=template))
    assert bool(size_contradiction(MACHINE_SETS, found, deployment)) == contradicts
    assert not size_contradiction(MACHINE_SETS, found, None)


def test_a_set_waits_for_a_new_size_but_not_for_ever() -> None:
    memory = Memory()
    pauses = [
        memory.pause(word, at, 5.0)
        for word, at in (("a", 0.0), ("a", 2.0), ("b", 4.0), ("b", 9.0), ("", 9.0))
    ]
    said = [pause and (pause.because, pause.seconds) for pause in pauses]
    assert said == [("a", 5.0), ("a", 3.0), ("b", 5.0), None, None]
    assert all(pause.awaits is not None for pause in pauses if pause is not None)
