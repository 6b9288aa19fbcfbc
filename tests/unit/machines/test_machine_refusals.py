"""Writes that an API server refuses and will refuse again: what is planned, and what people read."""

from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import Any, get_args

import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, OperationState, OperationType, Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.delays import MEDIUM, UNHEARD
from kubewright.base.errors import KubewrightError
from kubewright.driver.errors import Code
from kubewright.kube.errors import TimedOut
from kubewright.machines import node_marks
from kubewright.machines.machine.decide import (
    RULES,
    allowed,
    decide,
    event_of,
    paced,
    refusal_of,
    status_refused,
    unread_because,
)
from kubewright.machines.machine.living import delete_when_triggered
from kubewright.machines.machine.seen import (
    AddFinalizer,
    Call,
    Cordon,
    DeleteBootstrapToken,
    DeleteNode,
    DeleteVolumeAttachments,
    Drain,
    MachineStep,
    NodeStep,
    Plan,
    Record,
    Refused,
    RemoveFinalizer,
    Report,
    Seen,
    SetTerminatingCondition,
    Step,
    SyncCapacity,
    SyncNode,
    Verb,
)
from kubewright.nodes import marks
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.volumes import Attachment
from kubewright.testing.scenes import (
    ABSENT,
    ENSURED,
    GONE,
    NOW,
    POD,
    SILENT,
    VM,
    Case,
    being_made,
    machine,
    minutes,
    node,
    seen,
)
from kubewright.wire.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    is_refusal,
)

LATER = timedelta(seconds=MEDIUM.seconds)
NO = Forbidden("a webhook says no")
BUSY = DrainPlan(evict=(POD,), wake=timedelta(seconds=5), because="pods: 1 to evict")
EMPTY = DrainPlan(done=True)
DYING = machine("Running", deleted=timedelta(0))
FORCED = structs.replace(
    DYING, metadata=structs.replace(DYING.metadata, labels={"node": "m1", "force-deletion": "True"})
)
NAMELESS = structs.replace(node(), metadata=structs.replace(node().metadata, labels={}))

ASKED = seen(
    machine("Running"),
    structs.replace(
        node(),
        metadata=structs.replace(node().metadata, annotations={names.TRIGGER_DELETION_ANNOTATION: "true"}),
    ),
)

ADD_FINALIZER = AddFinalizer({"finalizers": [names.FINALIZER]})
RECORD = Record(VM)
SYNC = SyncNode(node_marks.sync_node(NAMELESS, machine("Running")))
CORDON = Cordon(marks.cordon())
MARK = SetTerminatingCondition(node_marks.terminating(node(), names.TerminatingReason.SCALE_DOWN, NOW))
ATTACHED = Attachment("a", "uid-a")
VOLUMES = DeleteVolumeAttachments((ATTACHED,))
NODE = DeleteNode("m1", "n1")
HIDDEN = unread_because(NO)
LOST = unread_because(TimedOut("no answer in 10 s"))
LATE = machine("Running", deleted=minutes(121))


def seen_refused(
    step: Step | None,
    of: Machine,
    *at: Any,
    error: KubewrightError = NO,
    ago: timedelta = timedelta(0),
    **more: Any,
) -> Seen:
    """A picture in which a step was refused a while ago."""
    return seen(of, *at, refused=(refusal_of(step, error, NOW - ago),), **more)


LIVING = [
    Case(
        "without our finalizer nothing is asked of a cloud",
        seen_refused(ADD_FINALIZER, machine(vm=False, finalizers=())),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "The API server refused to put finalizer and priority onto the machine: a webhook says no",
        LATER,
    ),
    Case(
        "and the creation timeout goes on",
        seen_refused(ADD_FINALIZER, machine(vm=False, finalizers=(), age=minutes(21))),
        [],
        Phase.FAILED,
        "refused to put finalizer",
        LATER,
    ),
    Case(
        "it is looked at when its creation timeout is over, if that is sooner",
        seen_refused(ADD_FINALIZER, machine(vm=False, finalizers=(), age=minutes(19))),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        wake=minutes(1) + timedelta(milliseconds=1),
    ),
    Case(
        "a machine whose VM is on record is looked after without a finalizer",
        seen_refused(ADD_FINALIZER, machine("Running", finalizers=()), node(SILENT)),
        [],
        Phase.UNKNOWN,
    ),
    Case(
        "after a while it is tried again",
        seen_refused(ADD_FINALIZER, machine(vm=False, finalizers=()), ago=LATER),
        [ADD_FINALIZER],
    ),
    Case(
        "a VM that cannot be recorded is a creation that fails",
        seen_refused(RECORD, machine(vm=False), vm=ENSURED, error=Invalid("metadata.labels: too long")),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "The API server refused to record the machine's VM: metadata.labels: too long",
        LATER,
    ),
    Case(
        "and in the end has failed",
        seen_refused(RECORD, machine("CrashLoopBackOff", vm=False, age=minutes(21)), vm=ENSURED),
        [],
        Phase.FAILED,
        "refused to record",
    ),
    Case(
        "whatever it said before",
        seen_refused(RECORD, being_made(vm=False), vm=ENSURED),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "refused to record",
    ),
    Case(
        "another VM is another record",
        seen_refused(Record(replace(VM, provider_id="sim:///here/other")), machine(vm=False), vm=ENSURED),
        [RECORD],
    ),
    Case(
        "a node that cannot be brought in line keeps no machine from Running",
        seen_refused(SYNC, machine(""), NAMELESS, vm=ENSURED),
        [],
        Phase.RUNNING,
    ),
    Case(
        "and is tried again in time",
        seen_refused(SYNC, machine("Running"), NAMELESS),
        [],
        wake=LATER,
    ),
    Case(
        "at once when it is to be another way",
        seen_refused(SyncNode({"metadata": {"labels": {"a": "b"}}}), machine("Running"), NAMELESS),
        [SYNC],
    ),
    Case(
        "a token that cannot be dropped keeps no machine from Running",
        seen_refused(DeleteBootstrapToken(), machine(""), node(), vm=ENSURED, has_token=True),
        [],
        Phase.RUNNING,
    ),
    Case(
        "a machine that cannot be deleted when its node asks for it is looked after",
        seen_refused(delete_when_triggered(ASKED).steps[0], ASKED.machine, ASKED.node),
        [],
        wake=LATER,
    ),
    Case(
        "a machine that cannot tell what it has become does not ask itself again at once",
        seen_refused(None, machine(""), node(), vm=ENSURED, has_token=True),
        [DeleteBootstrapToken()],
        Phase.RUNNING,
        wake=LATER,
    ),
    Case(
        "a machine that is unwell and whose node cannot be marked fails in time all the same",
        seen_refused(
            SYNC, machine("Unknown", since=minutes(11)), structs.replace(NAMELESS, status=node(SILENT).status)
        ),
        [],
        Phase.FAILED,
    ),
]

LEAVING = [
    Case(
        "a VM that cannot be recorded is drained and deleted all the same",
        seen_refused(RECORD, machine(vm=False, deleted=timedelta(0)), node(), vm=ENSURED),
        [CORDON],
    ),
    Case(
        "a node that cannot be cordoned holds its drain up, and the machine says so",
        seen_refused(CORDON, DYING, node(), drain=BUSY),
        [],
        Phase.TERMINATING,
        "The API server refused to cordon the node: a webhook says no. Will retry in next sync. Initiate node drain",
        LATER,
    ),
    Case(
        "not when a user forces it",
        seen_refused(CORDON, FORCED, node(), drain=DrainPlan(delete=(POD,), forced=True, because="by force")),
        [MARK, Drain(DrainPlan(delete=(POD,), forced=True, because="by force"))],
    ),
    Case(
        "nor when the drain has had its time",
        seen_refused(CORDON, machine("Running", deleted=minutes(121)), node(), drain=EMPTY),
        [Call(Verb.DELETE)],
    ),
    Case(
        "a node that cannot be marked is drained",
        seen_refused(MARK, DYING, node(cordoned=True), drain=BUSY),
        [Drain(BUSY)],
    ),
    Case(
        "attachments that cannot be deleted stay behind a VM that goes by force",
        seen_refused(
            VOLUMES,
            FORCED,
            node(cordoned=True),
            drain=DrainPlan(done=True, forced=True),
            attachments=(ATTACHED,),
        ),
        [Call(Verb.DELETE)],
    ),
    Case(
        "a node that cannot be deleted holds up its machine, and the machine says so",
        seen_refused(NODE, DYING, node(cordoned=True), vm=GONE),
        [],
        Phase.TERMINATING,
        "refused to delete the node: a webhook says no. Will retry in next sync. Initiate node object deletion",
        LATER,
    ),
    Case(
        "not when a user forces it to go",
        seen_refused(NODE, FORCED, node(cordoned=True), vm=GONE),
        [RemoveFinalizer()],
    ),
    Case(
        "a token that cannot be deleted holds up nothing: it ends by itself",
        seen_refused(
            DeleteBootstrapToken(), machine("Pending", deleted=timedelta(0)), vm=GONE, has_token=True
        ),
        [RemoveFinalizer()],
    ),
    Case(
        "a finalizer that cannot be taken off is told of",
        seen_refused(RemoveFinalizer(), DYING, vm=GONE),
        [],
        Phase.TERMINATING,
        "refused to take the finalizer off the machine: a webhook says no. Will retry in next sync. "
        "Initiate machine object finalizer removal",
        LATER,
    ),
    Case(
        "pods that cannot be listed may be there",
        seen(DYING, node(cordoned=True), unread=HIDDEN),
        [],
        Phase.TERMINATING,
        "refused to show node or pods: a webhook says no. Will retry in next sync. Initiate node drain",
        LATER,
    ),
    Case(
        "and until the time of the drain is over",
        seen(
            machine("Running", deleted=minutes(120) - timedelta(seconds=10)),
            node(cordoned=True),
            unread=HIDDEN,
        ),
        [],
        Phase.TERMINATING,
        "refused to show node or pods: a webhook says no. Will retry in next sync. Initiate node drain",
        timedelta(seconds=10),
    ),
    Case(
        "unless a user says that they do not matter",
        seen(FORCED, node(cordoned=True), unread=HIDDEN),
        [Call(Verb.DELETE)],
    ),
    Case(
        "a node that may not be read does not matter any more once its VM is gone",
        seen(DYING, vm=GONE, unread=HIDDEN),
        [RemoveFinalizer()],
    ),
    Case(
        "nor do pods whose VM the driver does not find",
        seen(DYING, node(cordoned=True), vm=ABSENT, unread=HIDDEN),
        [Call(Verb.DELETE)],
    ),
    Case(
        "while the target cluster does not answer the VM is kept",
        seen(DYING, node(cordoned=True), unread=LOST),
        [],
        Phase.TERMINATING,
        "The target cluster does not answer, asked for node and pods: no answer in 10 s. "
        "Will retry in next sync. Initiate node drain",
        UNHEARD,
    ),
    Case(
        "until a user forces the deletion",
        seen(FORCED, node(cordoned=True), unread=LOST),
        [Call(Verb.DELETE)],
    ),
    Case(
        "or the time of the drain is over",
        seen(LATE, node(cordoned=True), unread=LOST),
        [Call(Verb.DELETE)],
    ),
    Case(
        "once the VM is gone, a node that a silent cluster may have is awaited",
        seen(DYING, vm=GONE, unread=LOST),
        [],
        Phase.TERMINATING,
        "Will retry in next sync. Initiate node object deletion",
        UNHEARD,
    ),
    Case(
        "and not longer than its drain would have been",
        seen(LATE, vm=GONE, unread=LOST),
        [RemoveFinalizer()],
    ),
    Case(
        "a cordon without an answer is awaited",
        seen_refused(CORDON, DYING, node(), error=TimedOut("no answer in 10 s")),
        [],
        Phase.TERMINATING,
        "The target cluster does not answer, asked to cordon the node: no answer in 10 s. "
        "Will retry in next sync. Initiate node drain",
        UNHEARD,
    ),
    Case(
        "and done without when the drain's time is over",
        seen_refused(CORDON, LATE, node(), error=TimedOut("no answer in 10 s"), unread=LOST),
        [Call(Verb.DELETE)],
    ),
    Case(
        "it is looked at when the drain's time is over, if that is sooner",
        seen_refused(CORDON, machine("Running", deleted=minutes(119)), node()),
        [],
        Phase.TERMINATING,
        wake=minutes(1),
    ),
    Case(
        "a node whose deletion was not answered is awaited",
        seen_refused(NODE, DYING, node(cordoned=True), vm=GONE, error=TimedOut("no answer")),
        [],
        Phase.TERMINATING,
        "Initiate node object deletion",
        UNHEARD,
    ),
    Case(
        "and left behind when the drain's time is over",
        seen_refused(NODE, LATE, node(cordoned=True), vm=GONE, error=TimedOut("no answer")),
        [RemoveFinalizer()],
    ),
    Case(
        "one whose deletion the server refuses is not",
        seen_refused(NODE, LATE, node(cordoned=True), vm=GONE),
        [],
        Phase.TERMINATING,
        "refused to delete the node",
    ),
]

CASES = [*LIVING, *LEAVING]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    plan = decide(case.seen)
    assert [*plan.steps] == case.steps
    assert (plan.report.phase if plan.report else None) == case.phase
    assert case.says in (plan.report.description if plan.report else "")
    if case.wake != "any":
        assert plan.wake == case.wake
    if plan.report is not None and "refused" in plan.report.description:
        assert plan.report.state is OperationState.FAILED
    assert plan.because


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_nothing_that_was_refused_sleeps_for_ever(case: Case) -> None:
    plan = decide(case.seen)
    assert plan.steps or plan.wake is not None or plan.report


ERRORS = [
    (BadRequest("?"), True),
    (Unauthorized("who?"), False),
    (Forbidden("no"), True),
    (NotFound("gone"), False),
    (MethodNotAllowed("no such verb"), True),
    (Conflict("changed"), False),
    (AlreadyExists("taken"), False),
    (Gone("old"), False),
    (TooLarge("more than 3 MiB"), True),
    (Invalid("labels: too long"), True),
    (TooManyRequests("later"), False),
    (ServerError("failed calling webhook"), False),
    (Unavailable("starting"), False),
    (TimedOut("30 s"), False),
]


@pytest.mark.parametrize(("error", "refusal"), ERRORS, ids=[type(row[0]).__name__ for row in ERRORS])
def test_what_a_server_will_say_again(error: Exception, refusal: bool) -> None:
    assert is_refusal(error) is refusal


def test_every_step_has_its_row() -> None:
    assert set(RULES) == {*get_args(MachineStep), *get_args(NodeStep)}


@pytest.mark.parametrize(
    "step",
    [
        None,
        ADD_FINALIZER,
        RECORD,
        SYNC,
        CORDON,
        MARK,
        VOLUMES,
        NODE,
        DeleteBootstrapToken(),
        RemoveFinalizer(),
    ],
    ids=str,
)
def test_what_people_read_says_which_write_and_why(step: Step | None) -> None:
    found = refusal_of(step, NO, NOW)
    assert found.problem.startswith("The API server refused to ")
    assert found.problem.endswith(": a webhook says no")
    assert found.code is Code.PermissionDenied
    assert event_of(found) in (EventReason.FAILED_UPDATE, EventReason.FAILED_NODE_SYNC)


@pytest.mark.parametrize(
    ("step", "error", "expect", "event"),
    [
        pytest.param(SYNC, NO, Refused(SYNC, "The API server refused to bring the node in line with the machine: a webhook says no",
                                       Code.PermissionDenied, NOW + minutes(3)), EventReason.FAILED_NODE_SYNC, id="a step"),
        pytest.param(None, Invalid("odd"), Refused(None, "The API server refused to write the machine's status: odd",
                                                   Code.InvalidArgument, NOW + minutes(3)), EventReason.FAILED_UPDATE,
                     id="the status"),
    ],
)  # fmt: skip
def test_what_is_remembered_of(
    step: Step | None, error: ApiError, expect: Refused, event: EventReason
) -> None:
    found = refusal_of(step, error, NOW)
    assert found == expect
    assert event_of(found) is event


def taint(version: str, key: str, added: str) -> SyncNode:
    taints = [{"key": key, "effect": "NoSchedule", "timeAdded": added}]
    return SyncNode({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}})


@pytest.mark.parametrize(
    ("refused", "planned", "left"),
    [
        pytest.param(taint("1", "a", "then"), taint("2", "a", "now"), False, id="the same change, from another version"),
        pytest.param(taint("1", "a", "then"), taint("1", "b", "then"), True, id="another change"),
        pytest.param(taint("1", "a", "then"), Cordon(taint("1", "a", "then").patch), True, id="another step"),
        pytest.param(DeleteBootstrapToken(), DeleteBootstrapToken(), False, id="a step without a patch"),
    ],
)  # fmt: skip
def test_a_step_is_refused_again_if_it_is(refused: Step, planned: Step, left: bool) -> None:
    look = seen(machine("Running"), node(), refused=(refusal_of(refused, NO, NOW),))
    plan = Plan((planned,), because="so")
    assert allowed(plan, look) == (plan if left else None)


RESTING = (refusal_of(None, NO, NOW - minutes(1)), refusal_of(SYNC, NO, NOW - minutes(2)))
GOING, TOLD = (
    machine("Running", deleted=minutes(9)),
    Report(Phase.CRASH_LOOP_BACK_OFF, OperationType.CREATE, OperationState.FAILED, "no"),
)


@pytest.mark.parametrize(
    ("look", "plan", "wake"),
    [
        pytest.param(seen(machine("")), Plan(report=TOLD, wake=timedelta(0)), timedelta(0), id="as planned without a refusal"),
        pytest.param(seen(machine(""), refused=(refusal_of(None, NO, NOW - minutes(3)),)),
                     Plan(report=TOLD, wake=timedelta(0)), timedelta(0), id="or when it has had its pause"),
        pytest.param(seen(machine(""), refused=RESTING), Plan(report=TOLD, wake=timedelta(0)), minutes(1),
                     id="when the first write may be sent again"),
        pytest.param(seen(GOING, refused=RESTING), Plan(report=TOLD, wake=timedelta(0)), timedelta(seconds=5),
                     id="in a deletion in five seconds"),
        pytest.param(seen(GOING, refused=RESTING), Plan(report=TOLD, wake=timedelta(seconds=9)), timedelta(seconds=9),
                     id="or as planned, if that is later"),
        pytest.param(seen(GOING, refused=RESTING), Plan(report=TOLD), minutes(1), id="or for the write alone"),
        pytest.param(seen(machine(""), refused=RESTING), Plan(wake=timedelta(0)), timedelta(0),
                     id="at once when there is nothing to report"),
        pytest.param(seen(machine(""), refused=(refusal_of(None, NO, NOW - minutes(3)), *RESTING[1:])), Plan(report=TOLD),
                     minutes(1), id="not for a write that may be sent now"),
        pytest.param(seen(machine(""), refused=RESTING[1:]), Plan(report=TOLD, wake=timedelta(0)), timedelta(0),
                     id="at once when the status was not refused"),
    ],
)  # fmt: skip
def test_the_next_pass_comes(look: Seen, plan: Plan, wake: timedelta) -> None:
    assert paced(plan, look) == replace(plan, wake=wake)


def test_a_machine_whose_vm_may_not_be_complete_does_not_go_on_without_its_finalizer() -> None:
    add = RULES[AddFinalizer]
    assert [add.living(seen(of)) for of in (machine("Running"), being_made(), machine(vm=False))] == [
        True,
        False,
        False,
    ]


def test_a_long_answer_is_cut() -> None:
    assert len(refusal_of(RECORD, Invalid("x" * 10_000), NOW).problem) <= 1024


def test_a_status_that_was_refused_rests() -> None:
    found: Refused = refusal_of(None, Invalid("no"), NOW)
    assert status_refused(seen(machine(""), refused=(found,)))
    assert not status_refused(seen(machine(""), refused=(replace(found, until=NOW),)))


def test_a_capacity_that_the_server_refuses_is_not_noted_as_applied() -> None:
    applied = {names.LAST_APPLIED_CAPACITY_ANNOTATION: '{"x/y":"2"}'}
    found = structs.replace(
        node(),
        metadata=structs.replace(node().metadata, annotations=applied),
        status=structs.replace(node().status, capacity={"x/y": "2"}),
    )
    refusal = refusal_of(SyncCapacity({"status": {"capacity": {"x/y": None}}}), NO, NOW)
    plan = decide(seen(machine("Running"), found, capacity={}, refused=(refusal,)))
    assert names.LAST_APPLIED_CAPACITY_ANNOTATION not in str(plan.steps)
