"""A machine that is being deleted, one look: what is planned (DEL-01 to DEL-24)."""

from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import NodeCondition
from kubewright.api.machine import names
from kubewright.api.machine.names import NodeConditionType, OperationState, Phase, TerminatingReason
from kubewright.api.machine.v1alpha1 import LastOperation, Machine
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import Instance
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import (
    Call,
    Cordon,
    DeleteBootstrapToken,
    DeleteNode,
    DeleteVolumeAttachments,
    Drain,
    Plan,
    Record,
    RemoveFinalizer,
    SetDrainFailedCondition,
    SetTerminatingCondition,
)
from kubewright.machines.settings import MachineSettings
from kubewright.nodes.drain.plan import DrainPlan, Held, Obstacle
from kubewright.nodes.drain.volumes import Attachment, Moving, Trip
from kubewright.testing.scenes import (
    ABSENT,
    ENSURED,
    GONE,
    NOW,
    POD,
    READY,
    SILENT,
    VM,
    Case,
    called,
    machine,
    minutes,
    node,
    seen,
)

DYING = machine("Running", deleted=timedelta(0))
FORCED = structs.replace(
    DYING, metadata=structs.replace(DYING.metadata, labels={"node": "m1", "force-deletion": "True"})
)
FORCED_WITHOUT_VM = structs.replace(
    machine(vm=False, deleted=timedelta(0)),
    metadata=structs.replace(
        machine(vm=False, deleted=timedelta(0)).metadata, labels={"force-deletion": "True"}
    ),
)
UNKNOWN_FIELD = DriverError.of(Code.InvalidArgument, "providerSpec: unknown field zoen")
SECRETLESS: dict[str, Any] = {
    "problem": 'Secret "default/keys" of MachineClass "small" not found',
    "can_call": False,
    "secret_missing": True,
}
EMPTY = DrainPlan(done=True)
ARRIVING = Moving(arriving=(Trip("pv", "default/db-0", True, True, NOW, NOW),), until=NOW + minutes(1))
UNLISTED = Moving(detaching=(Trip("pv", "default/db-0", True, True, NOW),), until=NOW + minutes(1))
ATTACHED, DETACHING = Attachment("a", "uid-a"), Attachment("b", "uid-b", deleting=True)
ANOTHER = Instance("sim:///another", VM.node_name)
BUSY = DrainPlan(evict=(POD,), wake=timedelta(seconds=5), because="pods: 1 to evict")
MARKED = SetTerminatingCondition(
    {
        "status": {
            "conditions": [
                {
                    "type": NodeConditionType.TERMINATING,
                    "status": "True",
                    "reason": TerminatingReason.SCALE_DOWN,
                    "message": "Machine Controller is scaling down machine",
                    "lastHeartbeatTime": "2030-01-01T12:00:00Z",
                    "lastTransitionTime": "2030-01-01T12:00:00Z",
                }
            ]
        }
    }
)

DELETION = [
    Case(
        "a creation under way comes to its end first",
        seen(machine(vm=False, deleted=timedelta(0)), vm=VmSeen(verb=Verb.ENSURE, began=NOW)),
        [],
    ),
    Case(
        "until then the node is not even cordoned",
        seen(DYING, node(), vm=VmSeen(verb=Verb.ENSURE, began=NOW)),
        [],
    ),
    Case("first the node is cordoned", seen(DYING, node()), [Cordon({"spec": {"unschedulable": True}})]),
    Case(
        "then its pods are asked to leave",
        seen(DYING, node(cordoned=True), drain=BUSY),
        [MARKED, Drain(BUSY)],
    ),
    Case(
        "a silent node's pods are not waited for before the cloud was asked",
        seen(DYING, node(SILENT, cordoned=True), drain=BUSY),
        [Call(Verb.LOOK)],
    ),
    Case(
        "how soon its pods are looked at again grows with the age of the deletion",
        seen(
            machine("Running", deleted=timedelta(seconds=24)),
            node(cordoned=True),
            drain=DrainPlan(waiting=(POD,), wake=timedelta(seconds=5), because="pods: 1 leaving"),
        ),
        [MARKED],
        Phase.TERMINATING,
        wake=timedelta(seconds=3),
    ),
    Case(
        "and with the number of machines that are drained: each look is a list of pods",
        replace(
            seen(
                machine("Running", deleted=timedelta(seconds=24)),
                node(cordoned=True),
                drain=DrainPlan(waiting=(POD,), wake=timedelta(seconds=60), because="pods: 1 leaving"),
            ),
            drains_at_once=10_000,
        ),
        [MARKED],
        Phase.TERMINATING,
        wake=timedelta(seconds=50),
    ),
    Case(
        "a silent node without pods is not asked about",
        seen(DYING, node(SILENT, cordoned=True), drain=EMPTY),
        [Call(Verb.DELETE)],
    ),
    Case("an empty node's VM may go", seen(DYING, node(cordoned=True), drain=EMPTY), [Call(Verb.DELETE)]),
    Case(
        "attached volumes are waited for",
        seen(DYING, node(cordoned=True), drain=EMPTY, attachments=(ATTACHED,), drained_since=NOW),
        [],
    ),
    Case(
        "so are those that are being detached",
        seen(DYING, node(cordoned=True), drain=EMPTY, attachments=(DETACHING,), drained_since=NOW),
        [],
    ),
    Case(
        "for as long as the policy says, and no longer than that without a look",
        seen(
            machine("Running", deleted=minutes(3)),
            node(cordoned=True),
            drain=EMPTY,
            attachments=(ATTACHED,),
            drained_since=NOW - minutes(1),
        ),
        [],
        Phase.TERMINATING,
        "1 volumes are still attached",
        minutes(1),
    ),
    Case(
        "not a moment longer",
        seen(
            DYING, node(cordoned=True), drain=EMPTY, attachments=(ATTACHED,), drained_since=NOW - minutes(2)
        ),
        [Call(Verb.DELETE)],
    ),
    Case(
        "but not for ever",
        seen(
            DYING, node(cordoned=True), drain=EMPTY, attachments=(ATTACHED,), drained_since=NOW - minutes(3)
        ),
        [Call(Verb.DELETE)],
    ),
    Case(
        "those of the last pod should be attached to another node, so that it runs there",
        seen(DYING, node(cordoned=True), drain=DrainPlan(done=True, moving=ARRIVING, wake=minutes(1))),
        [],
        wake=timedelta(seconds=1),
    ),
    Case(
        "that is reported, and looked at again when the drain says so",
        seen(
            machine("Running", deleted=minutes(3)),
            node(cordoned=True),
            drain=DrainPlan(done=True, moving=ARRIVING, wake=minutes(1)),
        ),
        [],
        Phase.TERMINATING,
        "Volume pv of default/db-0 is to be attached to another node. Delete Volume Attachments",
        minutes(1),
    ),
    Case(
        "a volume without a VolumeAttachment is to leave the node's list before the VM goes",
        seen(
            machine("Running", deleted=minutes(3)),
            node(cordoned=True),
            drain=DrainPlan(done=True, moving=UNLISTED, wake=minutes(1)),
        ),
        [],
        Phase.TERMINATING,
        "Volume pv of default/db-0 is to be detached from the node. Delete Volume Attachments",
        minutes(1),
    ),
    Case(
        "a user who forces the deletion does not wait for it",
        seen(FORCED, node(cordoned=True), drain=DrainPlan(done=True, moving=ARRIVING)),
        [Call(Verb.DELETE)],
    ),
    Case(
        "a forced deletion takes the attachments off",
        seen(DYING, node(cordoned=True), drain=DrainPlan(done=True, forced=True), attachments=(ATTACHED,)),
        [DeleteVolumeAttachments((ATTACHED,))],
    ),
    Case(
        "and only those that are not being deleted yet",
        seen(
            DYING,
            node(cordoned=True),
            drain=DrainPlan(done=True, forced=True),
            attachments=(ATTACHED, DETACHING),
        ),
        [DeleteVolumeAttachments((ATTACHED,))],
    ),
    Case(
        "then their detachment is not waited for",
        seen(DYING, node(cordoned=True), drain=DrainPlan(done=True, forced=True), attachments=(DETACHING,)),
        [Call(Verb.DELETE)],
    ),
    Case(
        "while the VM is deleted nothing is asked twice",
        seen(DYING, node(cordoned=True), vm=VmSeen(verb=Verb.DELETE, began=NOW)),
        [],
    ),
    Case("the node goes after the VM", seen(DYING, node(cordoned=True), vm=GONE), [DeleteNode("m1", "n1")]),
    Case(
        "pods on a VM that is gone hold up nothing",
        seen(DYING, node(cordoned=True), vm=GONE, drain=BUSY),
        [DeleteNode("m1", "n1")],
    ),
    Case(
        "volumes attached to a VM that is gone hold up nothing",
        seen(DYING, node(cordoned=True), vm=GONE, drain=EMPTY, attachments=(ATTACHED,)),
        [DeleteNode("m1", "n1")],
    ),
    Case("the finalizer goes last", seen(DYING, vm=GONE), [RemoveFinalizer()]),
    Case(
        "and the last event tells in whole seconds how long that took",
        seen(machine("Running", deleted=timedelta(seconds=90.5)), vm=GONE),
        [RemoveFinalizer()],
    ),
    Case(
        "a failed deletion is reported and tried again in time",
        seen(DYING, vm=called(Verb.DELETE, error=DriverError("busy"))),
        [],
        Phase.TERMINATING,
        "VM deletion failed due to",
        timedelta(seconds=5),
    ),
    Case(
        "a failed deletion is tried again",
        seen(DYING, vm=called(Verb.DELETE, ago=minutes(1), error=DriverError("busy"))),
        [Call(Verb.DELETE)],
        Phase.TERMINATING,
    ),
    Case(
        "while a failed deletion is tried again its failure stays told",
        seen(DYING, vm=VmSeen(verb=Verb.DELETE, began=NOW, error=DriverError("busy"))),
        [],
        wake=None,
    ),
    Case(
        "a silent node of a VM that we made is asked about, too",
        seen(DYING, node(SILENT, cordoned=True), drain=BUSY, vm=ENSURED),
        [Call(Verb.LOOK)],
    ),
    Case(
        "pods of a VM that the cloud denies are not waited for",
        seen(DYING, node(SILENT, cordoned=True), drain=BUSY, vm=ABSENT),
        [Call(Verb.DELETE)],
    ),
    Case(
        "pods of a VM that the cloud cannot tell about are waited for",
        seen(DYING, node(SILENT, cordoned=True), drain=BUSY, vm=called(Verb.LOOK)),
        [MARKED, Drain(BUSY)],
    ),
    Case(
        "a VM that may be there and is not on record is looked for",
        seen(machine(vm=False, deleted=timedelta(0)), doubt_until=NOW - minutes(1)),
        [Call(Verb.LOOK)],
    ),
    Case(
        "another VM in the place of one that is gone: first the node of that one is cordoned",
        seen(DYING, node(), vm=called(Verb.LOOK, instance=ANOTHER)),
        [Cordon({"spec": {"unschedulable": True}})],
    ),
    Case(
        "and goes when it is empty",
        seen(DYING, node(cordoned=True), vm=called(Verb.LOOK, instance=ANOTHER), drain=EMPTY),
        [DeleteNode("m1", "n1")],
    ),
    Case(
        "then the other VM is recorded",
        seen(DYING, vm=called(Verb.LOOK, instance=ANOTHER)),
        [Record(ANOTHER)],
    ),
    Case(
        "what is found is recorded, so that its node can be drained",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            vm=called(Verb.LOOK, instance=VM),
            doubt_until=NOW - minutes(1),
        ),
        [Record(VM)],
    ),
    Case(
        "a look-up that fails for now is repeated, and told in MCM's words",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            vm=called(Verb.LOOK, error=DriverError.of(Code.Unavailable, "busy")),
            doubt_until=NOW - minutes(1),
        ),
        [],
        Phase.TERMINATING,
        "Set machine status to termination. Now, getting VM Status",
        timedelta(seconds=5),
    ),
    Case(
        "a look-up that is refused is asked again: it is not known which node to empty",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            vm=called(Verb.LOOK, error=DriverError.of(Code.PermissionDenied, "no")),
            doubt_until=NOW - minutes(1),
        ),
        [],
        Phase.TERMINATING,
        "aborting without retry. machine code: ",
        minutes(3),
    ),
    Case(
        "a deletion that is refused is asked for again after ten minutes",
        seen(DYING, vm=called(Verb.DELETE, error=DriverError.of(Code.PermissionDenied, "no"))),
        [],
        Phase.TERMINATING,
        "Aborting operation",
        minutes(10),
    ),
    Case(
        "a first no is not believed while a creation may still show: a deletion by name would find it",
        seen(machine(vm=False, deleted=timedelta(0)), vm=ABSENT, doubt_until=NOW + minutes(1)),
        [],
    ),
    Case(
        "a denied VM is deleted all the same: its disks may be left",
        seen(machine(vm=False, deleted=timedelta(0)), vm=ABSENT, doubt_until=NOW - minutes(1)),
        [Call(Verb.DELETE)],
    ),
    Case(
        "a machine whose class is missing and that never had a VM may go",
        seen(machine(vm=False, deleted=timedelta(0)), problem="no class", can_call=False),
        [RemoveFinalizer()],
    ),
    Case(
        "one whose creation was not answered may have one, and stays",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            vm=called(Verb.ENSURE, error=DriverError("cut off"), doubt=NOW),
            doubt_until=NOW + minutes(1),
            problem="no class",
            can_call=False,
        ),
        [],
        Phase.TERMINATING,
        "VM deletion is blocked: no class",
    ),
    Case(
        "so does one of which an earlier process may have made a VM a moment ago",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            doubt_until=NOW + minutes(1),
            problem="no class",
            can_call=False,
        ),
        [],
        Phase.TERMINATING,
        "VM deletion is blocked: no class",
    ),
    Case(
        "until that VM would have shown",
        seen(machine(vm=False, deleted=timedelta(0)), doubt_until=NOW, problem="no class", can_call=False),
        [RemoveFinalizer()],
    ),
    Case(
        "one denial does not settle a doubt: who forces the deletion after it is told",
        seen(
            FORCED_WITHOUT_VM,
            vm=called(Verb.LOOK, ago=minutes(9), absent=True),
            doubt_until=NOW - minutes(8),
            **SECRETLESS,
        ),
        [RemoveFinalizer()],
    ),
    Case(
        "where our API server refuses what a call needs, the driver has refused nothing",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            vm=called(Verb.LOOK, error=DriverError.of(Code.FailedPrecondition, "forbidden", begun=False)),
            doubt_until=NOW - minutes(8),
        ),
        [],
        Phase.TERMINATING,
        "forbidden",
    ),
    Case(
        "nor does a refusal settle what came of a creation without an answer",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            vm=called(Verb.LOOK, error=UNKNOWN_FIELD, doubt=NOW - minutes(9)),
            doubt_until=NOW - minutes(8),
        ),
        [],
        Phase.TERMINATING,
        "unknown field zoen",
    ),
    Case(
        "a person may leave a VM behind whose class is gone",
        seen(FORCED, problem="no class", can_call=False),
        [RemoveFinalizer()],
    ),
    Case(
        "while a secret of its class is missing the driver is not called, and the machine says which",
        seen(DYING, **SECRETLESS),
        [],
        Phase.TERMINATING,
        'VM deletion is blocked: Secret "default/keys" of MachineClass "small" not found',
    ),
    Case(
        "force is about pods: it deletes no VM without the secret, and leaves none behind",
        seen(FORCED, **SECRETLESS),
        [],
        Phase.TERMINATING,
        "blocked",
    ),
    Case(
        "a creation that the process before may have begun is not taken for none",
        seen(machine(vm=False, deleted=timedelta(0)), doubt_until=NOW + minutes(1), **SECRETLESS),
        [],
        Phase.TERMINATING,
        "blocked",
    ),
    Case(
        "nor, much later, is one that was not answered",
        seen(
            machine(vm=False, deleted=minutes(9)),
            vm=called(
                Verb.ENSURE, error=DriverError.of(Code.DeadlineExceeded, "late"), doubt=NOW - minutes(9)
            ),
            doubt_until=NOW - minutes(8),
            **SECRETLESS,
        ),
        [],
        Phase.TERMINATING,
        "blocked",
    ),
    Case(
        "a doubt that only the missing secret could end is ended by a user who forces the deletion",
        seen(FORCED_WITHOUT_VM, doubt_until=NOW - minutes(8), **SECRETLESS),
        [RemoveFinalizer()],
    ),
    Case(
        "a driver that refuses the deletion of a VM that was never made holds up nothing",
        seen(machine(vm=False, deleted=timedelta(0)), vm=called(Verb.DELETE, error=UNKNOWN_FIELD)),
        [RemoveFinalizer()],
    ),
    Case(
        "one that refuses to look for a VM that may have been made does, and the machine names a way out",
        seen(
            machine(vm=False, deleted=timedelta(0)),
            vm=called(Verb.LOOK, error=UNKNOWN_FIELD),
            doubt_until=NOW - minutes(8),
        ),
        [],
        Phase.TERMINATING,
        "if the cloud has no VM of this machine, label the machine force-deletion=True",
    ),
    Case(
        "a user who forces the deletion has it deleted by name first",
        seen(FORCED_WITHOUT_VM, vm=called(Verb.LOOK, error=UNKNOWN_FIELD), doubt_until=NOW - minutes(8)),
        [Call(Verb.DELETE)],
    ),
    Case(
        "and lets go of it when that is refused too",
        seen(FORCED_WITHOUT_VM, vm=called(Verb.DELETE, error=UNKNOWN_FIELD), doubt_until=NOW - minutes(8)),
        [RemoveFinalizer()],
    ),
    Case(
        "but not of one that has a node",
        seen(
            structs.replace(
                FORCED_WITHOUT_VM,
                metadata=structs.replace(FORCED_WITHOUT_VM.metadata, labels=FORCED.metadata.labels),
            ),
            node(cordoned=True),
            vm=called(Verb.DELETE, error=UNKNOWN_FIELD),
            doubt_until=NOW - minutes(8),
        ),
        [],
        Phase.TERMINATING,
        "unknown field zoen",
    ),
    Case(
        "a VM on record stays for a driver that refuses, also by force",
        seen(FORCED, vm=called(Verb.DELETE, error=UNKNOWN_FIELD)),
        [],
        Phase.TERMINATING,
        "its VM stays until the driver deletes it",
    ),
    Case(
        "a VM that is gone needs no secret",
        seen(DYING, vm=GONE, **SECRETLESS),
        [RemoveFinalizer()],
    ),
    Case(
        "and a machine that cannot have got a VM may go",
        seen(machine(vm=False, deleted=timedelta(0)), **SECRETLESS),
        [RemoveFinalizer()],
    ),
    Case(
        "a VM behind a silent node is not looked for without the secret",
        seen(DYING, node(SILENT, cordoned=True), drain=BUSY, **SECRETLESS),
        [MARKED, Drain(BUSY)],
    ),
    Case(
        "the token of a machine that never joined goes with it",
        seen(machine("Pending", deleted=timedelta(0)), vm=GONE, has_token=True),
        [DeleteBootstrapToken(), RemoveFinalizer()],
    ),
    Case(
        "the token of one that was up is gone already",
        seen(machine("Running", deleted=timedelta(0)), vm=GONE, has_token=True),
        [RemoveFinalizer()],
    ),
    Case(
        "a node loses MCM's finalizer",
        seen(
            DYING,
            structs.replace(
                node(cordoned=True),
                metadata=ObjectMeta(
                    name="m1", uid="n1", finalizers=(names.NODE_FINALIZER,), deletion_timestamp=NOW
                ),
            ),
            vm=GONE,
        ),
        [DeleteNode("m1", "n1", ())],
    ),
    Case(
        "without its class a VM cannot be deleted, and the machine says so",
        seen(DYING, problem='MachineClass "small" not found', can_call=False),
        [],
        Phase.TERMINATING,
        "blocked",
    ),
    Case(
        "a deletion is reported when it has lasted for a second",
        seen(machine("Running", deleted=timedelta(seconds=1)), vm=VmSeen(verb=Verb.DELETE, began=NOW)),
        [],
        Phase.TERMINATING,
    ),
    Case(
        "a deletion that lasts is reported",
        seen(machine("Running", deleted=minutes(1)), vm=VmSeen(verb=Verb.DELETE, began=NOW)),
        [],
        Phase.TERMINATING,
    ),
    Case(
        "a no that is old is asked for again: a creation may have come late",
        seen(
            machine(vm=False, deleted=minutes(9)),
            vm=replace(GONE, began=NOW - minutes(6), ended=NOW - minutes(6)),
            doubt_until=NOW - minutes(8),
        ),
        [Call(Verb.LOOK)],
    ),
    Case(
        "a creation without an answer is waited for",
        seen(machine(vm=False, deleted=timedelta(0)), vm=GONE, doubt_until=NOW + minutes(1)),
        [],
        wake=timedelta(seconds=1),
    ),
    Case(
        "for as long as it may still bring a VM",
        seen(machine(vm=False, deleted=minutes(1)), vm=GONE, doubt_until=NOW + minutes(1)),
        [],
        Phase.TERMINATING,
        wake=minutes(1),
    ),
    Case(
        "after the doubt the cloud is asked once more",
        seen(
            machine(vm=False, deleted=minutes(1)),
            vm=called(Verb.DELETE, ago=minutes(1), absent=True, deleted=True),
            doubt_until=NOW,
        ),
        [Call(Verb.LOOK)],
    ),
    Case(
        "and then believed",
        seen(machine(vm=False, deleted=minutes(1)), vm=GONE, doubt_until=NOW - minutes(1)),
        [RemoveFinalizer()],
    ),
    Case(
        "a machine that others hold is left to them",
        seen(machine("Terminating", deleted=minutes(1), finalizers=("theirs",))),
        [],
    ),
]


CASES = DELETION


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    plan = decide(case.seen)
    assert [*plan.steps] == case.steps
    assert (plan.report.phase if plan.report else None) == case.phase
    assert case.says in (plan.report.description if plan.report else "")
    if case.wake != "any":
        assert plan.wake == case.wake
    assert plan.because


def test_the_same_picture_gives_the_same_plan() -> None:
    of = seen(DYING, node(cordoned=True), drain=BUSY)
    assert decide(of) == decide(of)


SOFT = Obstacle("budget x allows no eviction now", topic="x")
FIRM = Obstacle("budget y never yields", firm=True, topic="y")
FORCE_AT = NOW + minutes(90)


LEAVING = structs.replace(POD, metadata=structs.replace(POD.metadata, uid="p2", deletion_timestamp=NOW))


def held_by(*obstacles: Obstacle) -> DrainPlan:
    held = tuple(Held(obstacle, ("default/web",)) for obstacle in obstacles)
    return replace(BUSY, evict=(), waiting=(POD,), held=held, force_at=FORCE_AT)


OLD = machine("Running", deleted=minutes(30))
HELD = [
    (
        "a budget that may yield is waited for",
        held_by(SOFT),
        OperationState.PROCESSING,
        'Drain waits: error while evicting pod "default/web": budget x allows no eviction now; '
        "pods are deleted by force from 2030-01-01T13:30:00Z on",
        "DrainHeld",
    ),
    (
        "without force no time of it is told, and those that leave are counted",
        replace(held_by(SOFT), waiting=(POD, LEAVING), force_at=None),
        OperationState.PROCESSING,
        "Drain waits: 1 pods are leaving; "
        'error while evicting pod "default/web": budget x allows no eviction now',
        "DrainHeld",
    ),
    (
        "one that never yields is a failure",
        held_by(FIRM),
        OperationState.FAILED,
        'Drain failed due to - error while evicting pod "default/web": budget y never yields; '
        "pods are deleted by force from 2030-01-01T13:30:00Z on. Will retry in next sync",
        "FailedDrain",
    ),
]


@pytest.mark.parametrize(
    ("drain", "state", "text", "reason"), [case[1:] for case in HELD], ids=[case[0] for case in HELD]
)
def test_a_drain_that_is_held(drain: DrainPlan, state: OperationState, text: str, reason: str) -> None:
    plan = decide(seen(OLD, node(cordoned=True), drain=drain))
    assert plan.report is not None
    assert (plan.report.state, plan.report.description) == (state, f"{text}. Initiate node drain")
    assert plan.warning == (reason, text)
    assert plan.topics == drain.topics


def marks_of(plan: Plan) -> list[Any]:
    """What the plan writes about the drain into the node's conditions: status, reason and message."""
    entries = [
        entry
        for step in plan.steps
        if isinstance(step, SetDrainFailedCondition)
        for entry in step.patch["status"]["conditions"]
    ]
    return [(each["type"], each["status"], each["reason"], each["message"]) for each in entries]


NEVER_YIELDS = 'error while evicting pod "default/web": budget y never yields'
TOLD = NodeCondition(type="DrainFailed", status="True", reason="FailedDrain", message=NEVER_YIELDS)
CONDITIONS = [
    ("a drain that waiting does not end", held_by(SOFT, FIRM), (), [("DrainFailed", "True", "FailedDrain", NEVER_YIELDS)]),
    ("which is said once", held_by(SOFT, FIRM), (TOLD,), []),
    ("one that it may end", held_by(SOFT), (), []),
    ("one that goes on after all", BUSY, (TOLD,), [("DrainFailed", "False", "Draining", "")]),
    ("that, too, is said once", BUSY, (structs.replace(TOLD, status="False", reason="Draining", message=""),), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("drain", "conditions", "written"),
    [case[1:] for case in CONDITIONS],
    ids=[case[0] for case in CONDITIONS],
)
def test_the_node_of_a_failed_drain_says_so(
    drain: DrainPlan, conditions: tuple[NodeCondition, ...], written: list[Any]
) -> None:
    of = node(cordoned=True)
    of = structs.replace(
        of, status=structs.replace(of.status, conditions=(*of.status.conditions, *conditions))
    )
    assert marks_of(decide(seen(OLD, of, drain=drain))) == written


def test_a_drain_that_is_held_for_a_moment_is_no_news() -> None:
    plan = decide(seen(DYING, node(cordoned=True), drain=held_by(FIRM)))
    assert plan.report is None
    assert plan.warning is None


def test_a_drain_that_goes_on_warns_of_nothing() -> None:
    plan = decide(seen(OLD, node(cordoned=True), drain=BUSY))
    assert plan.report is not None
    assert plan.report.state is OperationState.PROCESSING
    assert plan.warning is None


def test_dates_that_people_read_are_those_of_our_wall_clock() -> None:
    """Ages count by a clock that does not step, and that may be an hour behind."""
    of = replace(seen(OLD, node(cordoned=True), drain=held_by(FIRM)), wall=NOW + minutes(60))
    plan = decide(of)
    assert plan.report is not None
    assert "pods are deleted by force from 2030-01-01T14:30:00Z on" in plan.report.description
    marks = [
        step for step in plan.steps if isinstance(step, SetTerminatingCondition | SetDrainFailedCondition)
    ]
    dates = {each["lastTransitionTime"] for mark in marks for each in mark.patch["status"]["conditions"]}
    assert dates == {"2030-01-01T13:00:00Z"}


FAILED = machine("Failed", deleted=minutes(1), operation=LastOperation(state=OperationState.FAILED))
TERMINATING = machine("Terminating", deleted=minutes(1))
IN_THE_WAY = machine("Terminating", deleted=minutes(1), operation=LastOperation(state=OperationState.FAILED))
REASONS = [
    pytest.param(FAILED, None, (), TerminatingReason.UNHEALTHY, id="one that failed"),
    pytest.param(DYING, None, (), TerminatingReason.SCALE_DOWN, id="one that runs"),
    pytest.param(TERMINATING, FAILED, (), TerminatingReason.UNHEALTHY, id="also after the deletion has told of itself"),
    pytest.param(IN_THE_WAY, DYING, (), TerminatingReason.SCALE_DOWN, id="a deletion that met an obstacle is not ill"),
    pytest.param(IN_THE_WAY, None, (READY,), TerminatingReason.SCALE_DOWN, id="nor after a restart"),
    pytest.param(TERMINATING, None, (SILENT,), TerminatingReason.UNHEALTHY, id="after a restart its conditions tell"),
    pytest.param(IN_THE_WAY, None, (), TerminatingReason.SCALE_DOWN, id="one that never had any is not ill"),
]  # fmt: skip


@pytest.mark.parametrize(("now", "before", "conditions", "reason"), REASONS)
def test_why_a_machine_goes(
    now: Machine, before: Machine | None, conditions: tuple[NodeCondition, ...], reason: TerminatingReason
) -> None:
    found = structs.replace(now, status=structs.replace(now.status, conditions=conditions))
    assert seen(found, before=before.status if before else None).terminating_reason is reason


def test_the_token_of_a_machine_that_ran_is_not_asked_for_however_long_the_deletion_lasts() -> None:
    of = seen(TERMINATING, vm=GONE, has_token=True)
    assert decide(replace(of, before=DYING.status)).steps == (RemoveFinalizer(),)
    assert decide(of).steps == (DeleteBootstrapToken(), RemoveFinalizer())


def test_a_state_that_is_to_be_reported_at_once_is() -> None:
    assert seen(DYING).until_worth_reporting(since=NOW, after=timedelta(0)) == timedelta(0)


WITHOUT_WORD = "where our API server refuses what a call needs, the driver has refused nothing"
IN_DOUBT = "nor does a refusal settle what came of a creation without an answer"
REFUSED = "one that refuses to look for a VM that may have been made does, and the machine names a way out"


@pytest.mark.parametrize(
    ("name", "code"), [(WITHOUT_WORD, "Aborted"), (IN_DOUBT, "Aborted"), (REFUSED, "InvalidArgument")]
)
def test_only_the_drivers_own_refusal_without_a_doubt_of_ours_is_told_by_its_code(
    name: str, code: str
) -> None:
    """Sets count a machine in deletion with such a code as one without a VM."""
    (found,) = (case for case in CASES if case.name == name)
    report = decide(found.seen).report
    assert report is not None
    assert report.error_code == code


def test_a_machine_that_goes_in_doubt_says_that_a_vm_may_be_left_behind() -> None:
    name = "one denial does not settle a doubt: who forces the deletion after it is told"
    (found,) = (case for case in CASES if case.name == name)
    plan = decide(found.seen)
    assert plan.warning is not None
    assert plan.warning[0] == "VMLeftBehind"
    assert plan.milestone is not None
    assert plan.milestone.message.endswith("not known whether it had a VM")


@pytest.mark.parametrize("drains", [True, False])
def test_a_forced_deletion_that_skips_the_drain_does_not_even_cordon(drains: bool) -> None:
    settings = replace(MachineSettings(), forced_deletion_drains=drains)
    steps = [type(each) for each in decide(replace(seen(FORCED, node()), settings=settings)).steps]
    assert (Cordon in steps) is drains
    assert (Call in steps) is not drains
