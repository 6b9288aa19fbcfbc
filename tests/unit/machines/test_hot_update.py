"""A class that has changed: what becomes of the VMs that were made by it (HOT-01 to HOT-06)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import Node, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import NotApplied, Phase
from kubewright.api.machine.v1alpha1 import LastOperation, Machine, MachineClass
from kubewright.api.meta import ObjectMeta
from kubewright.base import delays
from kubewright.driver.errors import Code, DriverError, Unimplemented
from kubewright.driver.hot import digest, written
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.machines.machine.applied import LARGEST, NO_MARKS, Specs, against, specs_of
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.living import ANOTHER_DRIVER
from kubewright.machines.machine.seen import Annotate, Record, Seen, SyncNode, UpdateVm
from kubewright.machines.machine.states import machine_status
from kubewright.machines.machineset.member import member_of
from kubewright.machines.settings import MachineSettings
from kubewright.testing.scenes import NOW, SILENT, VM, Case, called, machine, minutes, node, seen

S1 = {"type": "s", "tags": {"team": "a"}}
S2 = {"type": "s", "tags": {"team": "b", "new": "x"}}
BIG = {"type": "s", "tags": {"x": "y" * LARGEST}}
WIDE = {"type": "s", "tags": {"x": "\N{SNOWMAN}" * (LARGEST // 2)}}
OTHER_TYPE = {"type": "l", "tags": {"team": "a"}}
MIXED = {"type": "l", "tags": {"team": "b"}}
HOT = ("tags",)
WELL = node()
UNREADY = Taint(key=names.INSTANCE_NOT_READY_TAINT, effect="NoSchedule")
ALONE = MachineSettings(joins=False)


def specs(wanted: dict[str, Any], last: dict[str, Any] | None = S1, **more: Any) -> Specs:
    """A machine of class small, whose VM is of class small."""
    return replace(Specs(wanted, of="small", last=last, last_of="small", hot=HOT), **more)


def begun(
    goal: dict[str, Any], wanted: dict[str, Any], last: dict[str, Any] | None = S1, **more: Any
) -> Specs:
    return specs(wanted, last, in_flight=True, marked=digest(goal), pending=goal, **more)


def at(
    of: Specs,
    phase: str = "Running",
    vm: VmSeen | None = None,
    *,
    on: Node | None = WELL,
    operation: LastOperation | None = None,
    deleted: timedelta | None = None,
    **more: Any,
) -> Seen:
    """A machine, and its node."""
    known = more if vm is None else {**more, "vm": vm}
    return seen(machine(phase, operation=operation, deleted=deleted), on, specs=of, **known)


def updates(
    goal: dict[str, Any], before: dict[str, Any] | None, pending: dict[str, Any] | None = None
) -> UpdateVm:
    """The update that is marked, and then asked of the driver."""
    marks = {
        names.UPDATE_ANNOTATION: digest(goal),
        names.UPDATE_SPEC_ANNOTATION: written(goal if pending is None else pending),
    }
    return UpdateVm({"annotations": marks}, goal, before)


def again(goal: dict[str, Any], before: dict[str, Any] | None) -> UpdateVm:
    """The same update once more: its marks are there."""
    return UpdateVm({"annotations": {}}, goal, before)


def notes(spec: dict[str, Any]) -> Annotate:
    known = {names.APPLIED_SPEC_ANNOTATION: written(spec), names.APPLIED_CLASS_ANNOTATION: "small"}
    return Annotate({"annotations": {**known, **NO_MARKS}})


def failed(code: Code, ago: timedelta = timedelta(0), **more: Any) -> VmSeen:
    return called(Verb.UPDATE, ago=ago, error=DriverError.of(code, "no"), **more)


DONE = called(Verb.UPDATE, applied=written(S2))
LASTS = VmSeen(verb=Verb.UPDATE, began=NOW - timedelta(seconds=9))
SHORT = VmSeen(verb=Verb.UPDATE, began=NOW - timedelta(seconds=1))
UPDATE_FAILED = LastOperation(type="Update", state="Failed", description="no", error_code="Internal")
UPDATE_LASTS = LastOperation(type="Update", state="Processing", description="")
BACK = {"type": "s", "tags": {"team": "a", "new": "x"}}
BOTH = {"type": "s", "tags": {"team": "b", "new": "x"}}
CASES = [
    Case("another hash leads to an update, which is marked first", at(specs(S2)), [updates(S2, S1)]),
    Case("where the VM has what the class says nothing is done", at(specs(S1))),
    Case("of a VM from before the annotation nothing is known, so nothing is taken off",
         at(specs(S2, None)), [updates(S2, None)]),
    Case("the driver's work is told only when it lasts", at(begun(S2, S2), vm=SHORT), wake=timedelta(seconds=2)),
    Case("and then it is told", at(begun(S2, S2), vm=LASTS), phase=Phase.RUNNING,
         says="Updating the VM of machine m1 on cloud provider. The driver has not answered since 2030-01-01T11:59:51Z"),
    Case("what was applied is noted, and the mark taken off, in one write", at(begun(S2, S2), vm=DONE), [notes(S2)]),
    Case("that it is over is told where it was told that it lasts",
         at(begun(S2, S2), vm=DONE, operation=UPDATE_LASTS), [notes(S2)], Phase.RUNNING,
         "Machine m1 successfully updated on cloud provider"),
    Case("or that it failed", at(begun(S2, S2), vm=DONE, operation=UPDATE_FAILED), [notes(S2)], Phase.RUNNING,
         "Machine m1 successfully updated on cloud provider"),
    Case("EDGE-1: the class is back at what was applied last, and the update failed half-way",
         at(begun(S2, S1), vm=failed(Code.Internal, inputs="S2"), inputs="S1"),
         [updates(S1, BOTH, BACK)]),
    Case("EDGE-2: the same, and this process has never seen the call", at(begun(S2, S1)), [updates(S1, BOTH, BACK)]),
    Case("a call that the process before us may have begun is awaited: it would undo ours",
         at(begun(S2, S1, settled_at=NOW + timedelta(seconds=4))), wake=timedelta(seconds=4) + delays.JUST_PAST),
    Case("and then the driver is called", at(begun(S2, S1, settled_at=NOW)), [updates(S1, BOTH, BACK)]),
    Case("after a crash the same update is asked for again, without a write", at(begun(S2, S2)), [again(S2, S2)]),
    Case("without the mark lastOperation tells that an update was begun",
         at(specs(S1, in_flight=True), operation=UPDATE_LASTS), [updates(S1, S1)]),
    Case("what an update puts on that is not the one that is marked, is not noted as that",
         at(begun(S1, S1), vm=DONE), [again(S1, S1)]),
    Case("a transient error is repeated in seconds", at(begun(S2, S2), vm=failed(Code.Unavailable)),
         phase=Phase.RUNNING, wake=delays.SHORT.pause,
         says="Cloud provider message - machine codes error: code = [Unavailable] message = [no]"),
    Case("a lasting one no sooner than in three minutes", at(begun(S2, S2), vm=failed(Code.InvalidArgument)),
         phase=Phase.RUNNING, wake=minutes(3),
         says="Cloud provider message - machine codes error: code = [InvalidArgument] message = [no]"),
    Case("then it is repeated", at(begun(S2, S2), vm=failed(Code.InvalidArgument, minutes(3))), [again(S2, S2)]),
    Case("or at once, when class or secret have changed",
         at(begun(S2, S2), vm=failed(Code.InvalidArgument, inputs="before"), inputs="now"), [again(S2, S2)]),
    Case("a call that found no slot is no failure",
         at(begun(S2, S2), vm=called(Verb.UPDATE, error=DriverError.of(Code.Unavailable, "busy", begun=False))),
         wake=delays.SHORT.pause),
    Case("a driver that says only now that it updates nothing is not asked again, and the mark goes",
         at(begun(S2, S2), vm=failed(Code.Unimplemented)), [Annotate({"annotations": NO_MARKS})]),
    Case("and then there is nothing to write", at(specs(S2), vm=failed(Code.Unimplemented))),
    Case("a driver without updates, which may be of another version later", at(specs(S2, hot=None)),
         wake=ANOTHER_DRIVER),
    Case("one that cannot say yet what it can update", at(specs(S2, hot=(), unknown="it has not dialled in")),
         wake=delays.UNHEARD),
    Case("only fixed fields differ", at(specs(OTHER_TYPE)), wake=ANOTHER_DRIVER),
    Case("of a mixed change the hot part is applied, and the fixed part is not said to be",
         at(specs(MIXED)), [updates({"type": "s", "tags": {"team": "b"}}, S1)]),
    Case("EDGE: a machine that was given another class is not updated by that one",
         at(specs(S2, last_of="large"))),
    Case("nor is one whose update was begun by the first", at(begun(S2, S2, last_of="large"))),
    Case("but one whose node was updated in place is of its new class, with the tags that it has",
         at(specs(MIXED, last_of="", adopts=True)),
         [Annotate({"annotations": {names.APPLIED_SPEC_ANNOTATION: written(OTHER_TYPE),
                                    names.APPLIED_CLASS_ANNOTATION: "small"}})]),
    Case("and where that cannot be read, nothing of it is known", at(specs(MIXED, None, last_of="", adopts=True)),
         [Annotate({"annotations": {names.APPLIED_SPEC_ANNOTATION: None, names.APPLIED_CLASS_ANNOTATION: "small"}})]),
    Case("nor has it the tags of its new class where it had none of its old one",
         at(specs(S1, {}, last_of="", adopts=True)),
         [Annotate({"annotations": {names.APPLIED_SPEC_ANNOTATION: written({"type": "s"}),
                                    names.APPLIED_CLASS_ANNOTATION: "small"}})]),
    Case("EDGE: an update that ends when its node was updated in place meanwhile, was one of its old class",
         at(begun(S2, MIXED, last_of="", adopts=True), vm=DONE),
         [Annotate({"annotations": {names.APPLIED_SPEC_ANNOTATION: written(S2), names.APPLIED_CLASS_ANNOTATION: "",
                                    **NO_MARKS}})]),
    Case("what cannot be noted is not applied", at(specs(BIG))),
    Case("nor what has as many letters and more bytes", at(specs(WIDE))),
    Case("without a secret no driver is called", at(specs(S2), can_call=False)),
    Case("another call about the VM is awaited", at(specs(S2), vm=VmSeen(verb=Verb.ENSURE, began=NOW))),
    Case("EDGE: a machine that became Unknown in the middle goes on with its update", at(begun(S2, S2), "Unknown",
         on=node(SILENT)), [again(S2, S2)]),
    Case("and its lastOperation tells of its health", at(begun(S2, S2), "Unknown", on=node(SILENT), vm=LASTS)),
    Case("its health goes first", at(specs(S2), on=node(SILENT)), phase=Phase.UNKNOWN),
    Case("not while its node is awaited", at(specs(S2), Phase.PENDING, on=None)),
    Case("not when it failed", at(specs(S2), "Failed", on=None)),
    Case("not while its node is updated in place", at(specs(S2), Phase.IN_PLACE_UPDATING)),
    Case("without a target cluster there is no node to wait for", replace(at(specs(S2), "Available"), settings=ALONE),
         [updates(S2, S1)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_becomes_of_a_vm_whose_class_has_changed(case: Case) -> None:
    plan = decide(case.seen)
    steps = [step for step in plan.steps if not isinstance(step, SyncNode)]
    assert steps == case.steps
    assert (plan.report.phase if plan.report else None) == case.phase
    if case.says:
        assert plan.report is not None
        assert plan.report.description == case.says
    if case.wake != "any":
        assert plan.wake == case.wake
    assert plan.because


def test_what_the_node_lacks_is_written_before_the_update() -> None:
    assert [type(step) for step in decide(at(specs(S2), on=node(taints=(UNREADY,)))).steps] == [
        SyncNode,
        UpdateVm,
    ]


def test_a_machine_in_deletion_is_not_updated() -> None:
    steps = decide(at(begun(S2, S2), "Terminating", deleted=minutes(1))).steps
    assert not any(isinstance(step, UpdateVm) for step in steps)


def test_a_deletion_waits_for_an_update_in_flight() -> None:
    plan = decide(at(begun(S2, S2), "Terminating", LASTS, deleted=minutes(1)))
    assert "in flight" in plan.because


CREATED = called(Verb.ENSURE, instance=VM, applied=written(S1))
FOUND = called(Verb.ENSURE, instance=VM)


def test_what_a_new_vm_was_made_by_is_noted_in_the_write_that_records_it() -> None:
    known = {names.APPLIED_SPEC_ANNOTATION: written(S1), names.APPLIED_CLASS_ANNOTATION: "small"}
    assert decide(seen(machine(vm=False), vm=CREATED)).steps == (Record(VM, known),)


OF_SMALL = {names.APPLIED_CLASS_ANNOTATION: "small"}


def test_of_a_vm_that_was_found_it_is_not_known() -> None:
    assert decide(seen(machine(vm=False), vm=FOUND)).steps == (Record(VM),)


def test_a_vm_is_recorded_also_where_users_have_filled_the_annotations() -> None:
    bare = machine(vm=False)
    full = {**bare.metadata.annotations, "a-user's": "x" * 200_000}
    of = structs.replace(bare, metadata=structs.replace(bare.metadata, annotations=full))
    assert decide(seen(of, vm=CREATED)).steps == (Record(VM),)


def test_what_is_too_large_to_be_noted_is_left_out() -> None:
    for spec in (BIG, WIDE):
        big = called(Verb.ENSURE, instance=VM, applied=written(spec))
        assert decide(seen(machine(vm=False), vm=big)).steps == (Record(VM, OF_SMALL),)


def annotated(operation: LastOperation | None = None, **annotations: str) -> Machine:
    made = machine("Running", operation=operation)
    keys = {"applied": names.APPLIED_SPEC_ANNOTATION, "of": names.APPLIED_CLASS_ANNOTATION,
            "mark": names.UPDATE_ANNOTATION, "pending": names.UPDATE_SPEC_ANNOTATION}  # fmt: skip
    notes = {keys[key]: text for key, text in annotations.items()}
    return structs.replace(made, metadata=structs.replace(made.metadata, annotations=notes))


def klass(spec: dict[str, Any]) -> MachineClass:
    return MachineClass(metadata=ObjectMeta(name="small"), provider_spec=spec)


def tags_are_hot(_class: MachineClass) -> Sequence[str]:
    return HOT


READ: dict[str, tuple[Machine, dict[str, Any], Specs | None]] = {
    "the VM has what the class says": (annotated(applied=written(S1), of="small"), S1, None),
    "nothing is known of its class": (annotated(applied=written(S1)), S1, None),
    "the order of keys is no difference": (
        annotated(applied=written(S1), of="small"), dict(reversed(S1.items())), None),
    "the class says something else": (annotated(applied=written(S1), of="small"), S2, specs(S2)),
    "a user wrote the keys in another order": (
        annotated(applied='{"type": "s", "tags": {"team": "a"}}', of="small"), S1, specs(S1)),
    "nothing is noted": (annotated(), S1, specs(S1, None, last_of="")),
    "what is noted is no object": (annotated(applied="[1]", of="small"), S1, specs(S1, None)),
    "or cut off": (annotated(applied='{"type": "s"', of="small"), S1, specs(S1, None)),
    "an update is marked": (
        annotated(applied=written(S1), of="small", mark=digest(S2), pending=written(S2)), S1, begun(S2, S1)),
    "a mark that a user has written": (
        annotated(applied=written(S1), of="small", mark="x", pending="y"), S1,
        specs(S1, in_flight=True, marked="x")),
    "lastOperation says that an update lasts": (
        annotated(UPDATE_LASTS, applied=written(S1), of="small"), S1, specs(S1, in_flight=True)),
    "or that it failed": (
        annotated(UPDATE_FAILED, applied=written(S1), of="small"), S1, specs(S1, in_flight=True)),
    "but not that it succeeded": (
        annotated(LastOperation(type="Update", state="Successful"), applied=written(S1), of="small"), S1, None),
    "its node was updated in place to its class": (annotated(applied=written(S1), of=""), S1,
        specs(S1, last_of="", adopts=True)),
    "the VM is of another class": (annotated(applied=written(S1), of="large"), S1, specs(S1, last_of="large")),
}  # fmt: skip


@pytest.mark.parametrize(("of", "says", "found"), READ.values(), ids=READ.keys())
def test_what_annotations_and_class_say_of_a_vm(
    of: Machine, says: dict[str, Any], found: Specs | None
) -> None:
    assert specs_of(of, klass(says), tags_are_hot) == found


def test_what_a_driver_can_update_is_asked_only_where_something_differs() -> None:
    def none(_class: MachineClass) -> Sequence[str]:
        raise Unimplemented("no updates")

    def later(_class: MachineClass) -> Sequence[str]:
        raise DriverError.of(Code.Unavailable, "not connected")

    of = annotated(applied=written(S1), of="small")
    assert specs_of(of, klass(S1), none) is None
    assert specs_of(of, klass(S2), none) == specs(S2, hot=None)
    waits = specs_of(of, klass(S2), later)
    assert waits is not None
    assert "not connected" in waits.unknown


AGAINST: dict[str, tuple[Specs, NotApplied | None, str]] = {
    "nothing, where hot fields differ": (specs(S2), None, ""),
    "nothing, where nothing differs": (specs(S1), None, ""),
    "nothing that is known, of an old machine": (specs(S2, None), None, ""),
    "a fixed field": (specs(OTHER_TYPE), NotApplied.FIXED_FIELDS,
        "only another VM can have what the class says of providerSpec.type"),
    "a fixed field beside a hot one": (specs(MIXED), NotApplied.FIXED_FIELDS,
        "only another VM can have what the class says of providerSpec.type"),
    "several, of which the first are named": (specs({str(n): 1 for n in range(9)} | S1), NotApplied.FIXED_FIELDS,
        "only another VM can have what the class says of providerSpec.0, providerSpec.1, providerSpec.2 and 6 more"),
    "a driver without updates": (specs(S2, hot=None), NotApplied.NO_UPDATES,
        "its driver changes no VM that runs, so it does not get providerSpec.tags.new, providerSpec.tags.team"),
    "such a driver, and nothing is known": (specs(S2, None, hot=None), None, ""),
    "such a driver, and an update that another began": (specs(S1, hot=None, in_flight=True), NotApplied.NO_UPDATES,
        "its driver changes no VM that runs, so it does not get an update that was begun"),
    "another class": (specs(S2, last_of="large"), NotApplied.OTHER_CLASS,
        'its VM was made by MachineClass "large"'),
    "nothing, where its node was updated in place meanwhile": (specs(OTHER_TYPE, last_of="", adopts=True), None, ""),
    "too much": (specs(BIG), NotApplied.TOO_LARGE,
        "what it would have then is over 65536 bytes, too much for an annotation"),
}  # fmt: skip


@pytest.mark.parametrize(("of", "kind", "told"), AGAINST.values(), ids=AGAINST.keys())
def test_what_speaks_against_an_update(of: Specs, kind: NotApplied | None, told: str) -> None:
    found = against(of)
    assert (found.kind if found else None) == kind
    assert (found.told if found else "") == told


def test_all_that_cut_off_updates_may_have_put_on_is_kept_until_one_succeeds() -> None:
    s3 = {"type": "s", "tags": {"third": "y"}}
    (*_, step) = decide(at(begun(S2, s3))).steps
    assert step == updates(s3, BOTH, {"type": "s", "tags": {"team": "b", "new": "x", "third": "y"}})


def test_a_machine_whose_update_fails_is_counted_as_before_and_told_by_its_set() -> None:
    look = at(begun(S2, S2), vm=failed(Code.InvalidArgument))
    after = structs.replace(look.machine, status=machine_status(look, decide(look).report, NOW))
    before = member_of(look.machine)
    member = member_of(after)
    assert (member.phase, member.up, member.ready) == (before.phase, before.up, before.ready)
    assert member.failure_summary is not None
    assert member.failure_summary.last_operation.type == "Update"
    assert member.failure_summary.last_operation.error_code == "InvalidArgument"


def test_a_machine_whose_update_failed_is_not_called_unhealthy_when_it_goes() -> None:
    going = at(specs(S2), "Terminating", operation=UPDATE_FAILED, deleted=minutes(1))
    before = replace(going, before=machine("Running", operation=UPDATE_FAILED).status)
    assert before.terminating_reason == "ScaleDown"


def test_a_user_who_asks_why_is_told_what_an_update_waits_for() -> None:
    lasts = decide(at(begun(S2, S2), vm=LASTS))
    assert [each.what for each in lasts.awaits] == ["the driver to update the VM"]
    fails = decide(at(begun(S2, S2), vm=failed(Code.PermissionDenied)))
    assert [each.what for each in fails.awaits] == ["the cloud to take an update of the VM: PermissionDenied"]
    assert "next try in" in fails.because
