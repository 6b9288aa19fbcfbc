"""What comes next for one VM: a table of what is seen and wanted, and the plan that follows."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pytest

from kubewright.driver.contract import Instance
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.plan import (
    ANSWER_LASTS,
    LONGEST_CREATION,
    MAX_CLOCK_SKEW,
    State,
    VmPlan,
    Want,
    Wanted,
    doubt_until,
    plan,
)
from kubewright.driver.life.seen import NOTHING, Verb, VmSeen

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
VM = Instance("sim:///vm-1", "m1")
EXHAUSTED = timedelta(minutes=7)
ENSURED, KNOWN, GONE = (Wanted(want, inputs="v1") for want in Want)
OVER = NOW - timedelta(seconds=1)
"""A doubt that ended a moment ago."""


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def ended(verb: Verb, ago: float = 0, *, code: Code | None = None, **more: Any) -> VmSeen:
    error = None if code is None else DriverError.of(code, "no")
    at = NOW - seconds(ago)
    return VmSeen(verb=verb, began=at, ended=at, error=error, inputs="v1", **more)


def running(verb: Verb, **more: Any) -> VmSeen:
    return VmSeen(verb=verb, began=NOW - seconds(3), inputs="v1", **more)


ABSENT = ended(Verb.LOOK, absent=True)
DELETED = ended(Verb.DELETE, absent=True, deleted=True)


@dataclass(frozen=True)
class Case:
    """``call``, ``wake``, ``because``: of the plan."""

    name: str
    vm: VmSeen
    wanted: Wanted
    state: State
    call: Verb | None = None
    wake: timedelta | None = None
    because: str = ""


REFUSING = (
    Code.InvalidArgument,
    Code.PermissionDenied,
    Code.FailedPrecondition,
    Code.Unimplemented,
    Code.Unauthenticated,
)


@pytest.mark.parametrize("code", [code for code in Code if code not in (Code.OK, Code.NotFound)], ids=str)
def test_a_refused_deletion_ends_only_where_no_vm_can_have_been_made(code: Code) -> None:
    refused = ended(Verb.DELETE, code=code)
    ends = State.DONE if code in REFUSING else State.FAILED
    assert plan(refused, GONE, EXHAUSTED, NOW).state is ends
    for known in (
        replace(GONE, recorded=True),
        replace(GONE, identified=True),
        replace(GONE, doubt_until=OVER),
    ):
        assert plan(refused, known, EXHAUSTED, NOW).state is State.FAILED
    found = replace(refused, instance=VM)
    assert plan(found, GONE, EXHAUSTED, NOW).state is State.FAILED


def test_a_driver_that_fails_by_a_defect_of_its_own_refuses_nothing() -> None:
    broken = replace(ended(Verb.DELETE), error=DriverError.of(Code.InvalidArgument, "no", broken=True))
    assert plan(broken, GONE, EXHAUSTED, NOW).state is State.FAILED


LASTING = (*REFUSING, Code.Canceled, Code.Internal, Code.DataLoss)


@pytest.mark.parametrize("code", [code for code in Code if code not in (Code.OK, Code.NotFound)], ids=str)
@pytest.mark.parametrize("want", [KNOWN, GONE], ids=["known", "gone"])
def test_a_user_lets_go_only_of_a_vm_in_doubt_that_the_driver_will_never_tell_of(
    code: Code, want: Wanted
) -> None:
    doubtful = replace(want, doubt_until=OVER)
    refused = ended(Verb.LOOK, code=code)
    assert plan(refused, doubtful, EXHAUSTED, NOW).state is State.FAILED
    forced = replace(doubtful, let_go=True)
    tried = refused if want is KNOWN else ended(Verb.DELETE, code=code)
    ends = State.DONE if code in LASTING else State.FAILED
    assert plan(tried, forced, EXHAUSTED, NOW).state is ends
    assert plan(tried, replace(forced, identified=True), EXHAUSTED, NOW).state is State.FAILED
    assert plan(replace(tried, told=True), forced, EXHAUSTED, NOW).state is State.FAILED


def test_a_vm_that_cannot_be_looked_for_is_deleted_by_name_once_before_a_user_lets_go_of_it() -> None:
    forced = replace(GONE, doubt_until=OVER, let_go=True)
    denied = ended(Verb.LOOK, code=Code.PermissionDenied)
    found = plan(denied, forced, EXHAUSTED, NOW)
    assert (found.state, found.call) == (State.CALL, Verb.DELETE)
    looks = plan(DELETED, forced, EXHAUSTED, NOW + seconds(1))
    assert (looks.state, looks.call) in ((State.CALL, Verb.LOOK), (State.DONE, None))
    again = replace(denied, absent=True, deleted=True)
    assert plan(again, forced, EXHAUSTED, NOW).state is State.DONE


@pytest.mark.parametrize(
    ("wanted", "state"),
    [
        pytest.param(GONE, State.DONE, id="no VM can have been made"),
        pytest.param(replace(GONE, doubt_until=OVER), State.BLOCKED, id="a creation is in doubt"),
        pytest.param(replace(GONE, doubt_until=OVER, let_go=True), State.DONE, id="a user lets go"),
        pytest.param(replace(GONE, recorded=True, let_go=True), State.BLOCKED, id="a VM is on record"),
    ],
)
def test_a_driver_that_cannot_be_called_holds_up_what_may_have_a_vm(wanted: Wanted, state: State) -> None:
    assert plan(NOTHING, replace(wanted, callable=False), EXHAUSTED, NOW).state is state


CASES = [
    # ---------------------------------------------------------------- ensured
    Case(
        "a VM that was never asked about is ensured",
        NOTHING,
        ENSURED,
        State.CALL,
        Verb.ENSURE,
        because="it is not known to have a complete VM",
    ),
    Case(
        "a VM on record is ensured again after a restart: it may not be initialized",
        NOTHING,
        replace(ENSURED, recorded=True),
        State.CALL,
        Verb.ENSURE,
        because="it is not known to have a complete VM",
    ),
    Case(
        "a call in flight is waited for",
        running(Verb.ENSURE),
        ENSURED,
        State.RUNNING,
        because="the cloud is working on its VM",
    ),
    Case(
        "a VM that was ensured is done",
        ended(Verb.ENSURE, instance=VM),
        ENSURED,
        State.DONE,
        because="the VM is complete",
    ),
    Case(
        "without what the driver must be told nothing is called",
        NOTHING,
        replace(ENSURED, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "a VM that was ensured is done, even if its class is missing now",
        ended(Verb.ENSURE, instance=VM),
        replace(ENSURED, callable=False),
        State.DONE,
        because="the VM is complete",
    ),
    Case(
        "an error that passes is waited out for five seconds",
        ended(Verb.ENSURE, 1, code=Code.Unavailable),
        ENSURED,
        State.FAILED,
        wake=seconds(4),
        because="it tries again in 4s",
    ),
    Case(
        "and then the call is repeated",
        ended(Verb.ENSURE, 5, code=Code.Unavailable),
        ENSURED,
        State.FAILED,
        Verb.ENSURE,
        wake=seconds(0),
        because="it tries again",
    ),
    Case(
        "an error that lasts is waited out for three minutes",
        ended(Verb.ENSURE, code=Code.InvalidArgument),
        ENSURED,
        State.FAILED,
        wake=timedelta(minutes=3),
        because="it tries again in 3m0s",
    ),
    Case(
        "but not when what the driver is told has changed",
        ended(Verb.ENSURE, code=Code.InvalidArgument),
        replace(ENSURED, inputs="v2"),
        State.FAILED,
        Verb.ENSURE,
        wake=timedelta(minutes=3),
        because="it tries again",
    ),
    Case(
        "a cloud without capacity is asked again when the operator says",
        ended(Verb.ENSURE, code=Code.ResourceExhausted),
        ENSURED,
        State.FAILED,
        wake=timedelta(minutes=7),
        because="it tries again in 7m0s",
    ),
    Case(
        "a quota does not matter any more to a VM that only lacks its initialization",
        ended(Verb.ENSURE, code=Code.ResourceExhausted, instance=VM, initializing=True),
        ENSURED,
        State.FAILED,
        wake=seconds(5),
        because="it tries again in 5s",
    ),
    Case(
        "nor does a wrong class to one whose node is healthy",
        ended(Verb.ENSURE, code=Code.InvalidArgument),
        replace(ENSURED, node_healthy=True),
        State.FAILED,
        wake=seconds(5),
        because="it tries again in 5s",
    ),
    Case(
        "a look does not tell that a VM is complete",
        ended(Verb.LOOK, instance=VM),
        ENSURED,
        State.CALL,
        Verb.ENSURE,
        because="it is not known to have a complete VM",
    ),
    Case(
        "nor does a look that failed delay the creation",
        ended(Verb.LOOK, code=Code.Unavailable),
        ENSURED,
        State.CALL,
        Verb.ENSURE,
        because="it is not known to have a complete VM",
    ),
    # ---------------------------------------------------------------- known
    Case(
        "where no creation is in doubt, no VM is looked for",
        NOTHING,
        KNOWN,
        State.DONE,
        because="no creation is in doubt",
    ),
    Case(
        "a creation in flight is waited for",
        running(Verb.ENSURE),
        KNOWN,
        State.RUNNING,
        because="a cloud call is still in flight",
    ),
    Case(
        "even when the VM is on record",
        running(Verb.ENSURE),
        replace(KNOWN, recorded=True),
        State.RUNNING,
        because="a cloud call is still in flight",
    ),
    Case(
        "a VM that an unanswered creation may have left is looked for",
        ended(Verb.ENSURE, code=Code.DeadlineExceeded),
        replace(KNOWN, doubt_until=NOW + seconds(9)),
        State.CALL,
        Verb.LOOK,
        because="the cloud is asked whether there is a VM",
    ),
    Case(
        "as is one that the process before us may have created",
        NOTHING,
        replace(KNOWN, doubt_until=NOW + seconds(9)),
        State.CALL,
        Verb.LOOK,
        because="the cloud is asked whether there is a VM",
    ),
    Case(
        "unless it is on record",
        NOTHING,
        replace(KNOWN, doubt_until=OVER, recorded=True),
        State.DONE,
        because="no creation is in doubt",
    ),
    Case(
        "while the driver cannot be called it stays unknown",
        NOTHING,
        replace(KNOWN, doubt_until=OVER, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "also after a look that failed",
        ended(Verb.LOOK, code=Code.Unavailable),
        replace(KNOWN, doubt_until=OVER, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "and after a first denial",
        replace(ABSENT, began=NOW - seconds(2), ended=NOW),
        replace(KNOWN, doubt_until=OVER, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "but where no creation is in doubt there is nothing to ask",
        NOTHING,
        replace(KNOWN, callable=False),
        State.DONE,
        because="no creation is in doubt",
    ),
    Case(
        "a VM that was found is known",
        ended(Verb.LOOK, instance=VM),
        replace(KNOWN, doubt_until=OVER),
        State.DONE,
        because="the cloud has told of the VM",
    ),
    Case(
        "a first denial is not believed before the doubt is over",
        ABSENT,
        replace(KNOWN, doubt_until=NOW + seconds(9)),
        State.DOUBTFUL,
        wake=seconds(9),
        because="a creation may still be under way; the cloud is asked again in 9s",
    ),
    Case(
        "nor after it: the cloud is asked again",
        replace(ABSENT, began=NOW - seconds(2), ended=NOW),
        replace(KNOWN, doubt_until=OVER),
        State.CALL,
        Verb.LOOK,
        because="it makes sure that no late creation left a VM",
    ),
    Case(
        "a denial that was asked for after the doubt counts",
        ABSENT,
        replace(KNOWN, doubt_until=OVER),
        State.DONE,
        because="there is no VM, and none can come",
    ),
    Case(
        "a look that failed for a moment is repeated soon",
        ended(Verb.LOOK, code=Code.Unavailable),
        replace(KNOWN, doubt_until=OVER),
        State.FAILED,
        wake=seconds(5),
        because="it tries again in 5s",
    ),
    Case(
        "one that was refused is repeated, too: it is not known whose node to drain",
        ended(Verb.LOOK, code=Code.PermissionDenied),
        replace(KNOWN, doubt_until=OVER),
        State.FAILED,
        wake=timedelta(minutes=3),
        because="it tries again in 3m0s",
    ),
    # ---------------------------------------------------------------- gone
    Case(
        "a VM on record is deleted at once",
        NOTHING,
        replace(GONE, recorded=True),
        State.CALL,
        Verb.DELETE,
        because="its VM may go",
    ),
    Case(
        "what may be known is known before it is deleted",
        NOTHING,
        replace(GONE, doubt_until=OVER),
        State.CALL,
        Verb.LOOK,
        because="the cloud is asked whether there is a VM",
    ),
    Case(
        "a VM that the cloud denies is deleted all the same: its disks may be left",
        ABSENT,
        replace(GONE, doubt_until=OVER),
        State.CALL,
        Verb.DELETE,
        because="its VM may go",
    ),
    Case(
        "a deletion in flight is waited for",
        running(Verb.DELETE),
        GONE,
        State.RUNNING,
        because="the cloud is deleting the VM",
    ),
    Case(
        "a deletion waits for the creation in flight",
        running(Verb.ENSURE),
        GONE,
        State.RUNNING,
        because="a cloud call is still in flight",
    ),
    Case("a deletion without a doubt is final", DELETED, GONE, State.DONE, because="there is no VM"),
    Case(
        "with a doubt it is not",
        DELETED,
        replace(GONE, doubt_until=NOW + seconds(4)),
        State.DOUBTFUL,
        wake=seconds(4),
        because="a creation may still be under way; the cloud is asked again in 4s",
    ),
    Case(
        "after the doubt the cloud is asked once more",
        ended(Verb.DELETE, 4, absent=True, deleted=True),
        replace(GONE, doubt_until=OVER),
        State.CALL,
        Verb.LOOK,
        because="it makes sure that no late creation left a VM",
    ),
    Case(
        "an answer from after the doubt is final",
        ended(Verb.LOOK, absent=True, deleted=True),
        replace(GONE, doubt_until=OVER),
        State.DONE,
        because="there is no VM, and none can come",
    ),
    Case(
        "also one that was asked for in the moment in which it ended",
        DELETED,
        replace(GONE, doubt_until=NOW),
        State.DONE,
        because="there is no VM, and none can come",
    ),
    Case(
        "and for as long as a machine may wait for the pass that reads it",
        ended(Verb.LOOK, ANSWER_LASTS.total_seconds(), absent=True, deleted=True),
        replace(GONE, doubt_until=NOW - timedelta(hours=1)),
        State.DONE,
        because="there is no VM, and none can come",
    ),
    Case(
        "unless it is old: a late creation may have shown meanwhile",
        ended(Verb.LOOK, ANSWER_LASTS.total_seconds() + 1, absent=True, deleted=True),
        replace(GONE, doubt_until=NOW - timedelta(hours=1)),
        State.CALL,
        Verb.LOOK,
        because="it makes sure that no late creation left a VM",
    ),
    Case(
        "where the cloud cannot say what came of a deletion, it is deleted again after the pause of that error",
        ended(Verb.LOOK, 1, code=Code.Unavailable, absent=True, deleted=True),
        replace(GONE, doubt_until=OVER, recorded=True),
        State.FAILED,
        wake=seconds(4),
        because="it tries again in 4s",
    ),
    Case(
        "and not before",
        ended(Verb.LOOK, 5, code=Code.Unavailable, absent=True, deleted=True),
        replace(GONE, doubt_until=OVER, recorded=True),
        State.FAILED,
        Verb.DELETE,
        wake=seconds(0),
        because="it tries again",
    ),
    Case(
        "a VM that shows after its deletion is deleted again",
        ended(Verb.LOOK, instance=VM),
        replace(GONE, doubt_until=OVER),
        State.CALL,
        Verb.DELETE,
        because="its VM may go",
    ),
    Case(
        "a deletion that failed for a moment is repeated soon",
        ended(Verb.DELETE, code=Code.Unavailable),
        replace(GONE, recorded=True),
        State.FAILED,
        wake=seconds(5),
        because="it tries again in 5s",
    ),
    Case(
        "one that was refused is repeated after ten minutes",
        ended(Verb.DELETE, code=Code.PermissionDenied),
        replace(GONE, recorded=True),
        State.FAILED,
        wake=timedelta(minutes=10),
        because="it tries again in 10m0s",
    ),
    Case(
        "a failed deletion of a VM in doubt is followed by a look",
        ended(Verb.DELETE, 6, code=Code.Unavailable),
        replace(GONE, doubt_until=OVER),
        State.FAILED,
        Verb.LOOK,
        wake=seconds(-1),
        because="it tries again",
    ),
    Case(
        "that of a VM on record by another deletion",
        ended(Verb.DELETE, 6, code=Code.Unavailable),
        replace(GONE, recorded=True, doubt_until=OVER),
        State.FAILED,
        Verb.DELETE,
        wake=seconds(-1),
        because="it tries again",
    ),
    Case(
        "as is that of a VM of which there is no doubt",
        ended(Verb.DELETE, 6, code=Code.Unavailable),
        GONE,
        State.FAILED,
        Verb.DELETE,
        wake=seconds(-1),
        because="it tries again",
    ),
    Case(
        "without what the driver must be told the VM is not deleted",
        NOTHING,
        replace(GONE, recorded=True, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "nor is it looked for",
        NOTHING,
        replace(GONE, doubt_until=OVER, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "nor is a failed deletion repeated",
        ended(Verb.DELETE, 6, code=Code.Unavailable),
        replace(GONE, recorded=True, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "nor is a deletion confirmed, and so it is not final",
        ended(Verb.DELETE, 4, absent=True, deleted=True),
        replace(GONE, doubt_until=OVER, callable=False),
        State.BLOCKED,
        because="the driver's request cannot be made",
    ),
    Case(
        "one without a doubt is", DELETED, replace(GONE, callable=False), State.DONE, because="there is no VM"
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_plan(case: Case) -> None:
    found = plan(case.vm, case.wanted, EXHAUSTED, NOW)
    error = case.vm.error if case.state is State.FAILED else None
    assert found == VmPlan(case.state, case.because, case.call, case.wake, error)


STARTED = NOW - timedelta(hours=1)
OLD = STARTED - timedelta(hours=1)
DOUBTS = [
    pytest.param(
        None, STARTED + MAX_CLOCK_SKEW + seconds(1), False, None, id="an object of our time has no doubt"
    ),
    pytest.param(
        None,
        STARTED + MAX_CLOCK_SKEW,
        False,
        STARTED + seconds(10),
        id="one that may be older inherits the calls of the process before us",
    ),
    pytest.param(None, None, False, STARTED + seconds(10), id="so does one without a date"),
    pytest.param(None, OLD, True, None, id="one whose VM is on record, long after our start, has no doubt"),
    pytest.param(
        OVER,
        OLD,
        False,
        OVER + seconds(10),
        id="a creation of ours that was not answered counts when it is later",
    ),
    pytest.param(OVER, OLD, True, OVER + seconds(10), id="also beside a record, which may be of a second VM"),
    pytest.param(
        NOW - LONGEST_CREATION - seconds(1), OLD, True, None, id="until the cloud can have left no other one"
    ),
]


@pytest.mark.parametrize(("unanswered", "created", "recorded", "until"), DOUBTS)
def test_how_long_a_creation_is_in_doubt(
    unanswered: datetime | None, created: datetime | None, recorded: bool, until: datetime | None
) -> None:
    found = doubt_until(
        unanswered, STARTED, created=created, recorded=recorded, now=NOW, confirm_absent=seconds(10)
    )
    assert found == until


def test_a_record_says_nothing_of_the_creations_of_the_process_before_us() -> None:
    """A machine waited long for a quota; the process that called for its VM died, and we called again."""
    started = NOW - seconds(20)
    found = doubt_until(None, started, created=OLD, recorded=True, now=NOW, confirm_absent=seconds(10))
    assert found == started + seconds(10)


@pytest.mark.parametrize(
    ("witnessed", "doubt"),
    [
        pytest.param(None, NOW + seconds(10), id="its date may be of a clock that is ahead"),
        pytest.param(NOW - seconds(1), NOW + seconds(10), id="we did not lead yet when it came to be"),
        pytest.param(NOW, None, id="it came to be in the moment in which we began to lead"),
        pytest.param(NOW + seconds(1), None, id="it came to be in our own server while we led"),
    ],
)
def test_where_there_is_one_clock_a_new_object_inherits_no_doubt(
    witnessed: datetime | None, doubt: datetime | None
) -> None:
    found = doubt_until(
        None,
        NOW,
        created=NOW + seconds(2),
        recorded=False,
        now=NOW + seconds(3),
        confirm_absent=seconds(10),
        witnessed=witnessed,
    )
    assert found == doubt


AS_DOCUMENTED = {
    "a creation over quota": (Verb.ENSURE, ENSURED, Code.ResourceExhausted),
    "a creation with a wrong class": (Verb.ENSURE, ENSURED, Code.InvalidArgument),
    "a creation of what is there": (Verb.ENSURE, ENSURED, Code.AlreadyExists),
    "a creation in a broken cloud": (Verb.ENSURE, ENSURED, Code.Internal),
    "a deletion without rights": (Verb.DELETE, replace(GONE, recorded=True), Code.PermissionDenied),
}


@pytest.mark.parametrize(("verb", "wanted", "code"), AS_DOCUMENTED.values(), ids=AS_DOCUMENTED)
def test_where_the_table_of_codes_rules_a_call_is_not_repeated_until_something_changes(
    verb: Verb, wanted: Wanted, code: Code
) -> None:
    failed, strict = ended(verb, ago=86400, code=code), replace(wanted, repeats=False)
    waits = plan(failed, strict, EXHAUSTED, NOW)
    assert (waits.state, waits.call, waits.wake) == (State.FAILED, None, None)
    assert "when the machine, its class or its Secret changes" in waits.because
    assert plan(failed, replace(strict, inputs="v2"), EXHAUSTED, NOW).call is verb
    assert plan(failed, wanted, EXHAUSTED, NOW).call is verb, "as it is by default"


@pytest.mark.parametrize("code", [Code.Unknown, Code.DeadlineExceeded, Code.Aborted, Code.Unavailable])
def test_what_the_table_repeats_is_repeated_all_the_same(code: Code) -> None:
    strict = replace(ENSURED, repeats=False)
    assert plan(ended(Verb.ENSURE, ago=86400, code=code), strict, EXHAUSTED, NOW).call is Verb.ENSURE


def test_what_the_guard_says_of_a_driver_that_breaks_the_contract_is_in_no_table() -> None:
    error = DriverError.of(Code.Internal, "no", broken=True)
    failed = replace(ended(Verb.ENSURE, ago=86400), error=error)
    assert plan(failed, replace(ENSURED, repeats=False), EXHAUSTED, NOW).call is Verb.ENSURE
