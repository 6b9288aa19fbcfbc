"""Every call of the driver with every code that it may fail with: what the machine says, and what comes next.

``TABLE`` is MCM and the tables of its documentation (CAL-01 to CAL-07) with a row for each call and code,
and for a driver that fails without a code (``foreign``). Each row runs the whole way of an answer: the guard,
the call, the decision, the status.

Two rows follow the seed where MCM does not: NotFound from InitializeMachine is skipped. A driver that fails
without a code is reported like others; MCM writes nothing then.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from msgspec import structs
from tests.unit.driver.test_life_calls import Scripted

from kubewright.api.machine.v1alpha1 import Machine
from kubewright.driver.contract import Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.guard import GuardedDriver
from kubewright.driver.life.calls import outcome
from kubewright.driver.life.seen import NOTHING, Verb, VmSeen
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import Plan, Seen, believed
from kubewright.machines.machine.states import machine_status
from kubewright.testing.clocks import ManualClock
from kubewright.testing.scenes import NOW, VM, class_request, machine, minutes, node, seen

TABLE = """
status     | OK                 | status                   | -                              | -                  | kept  | -      | Record
status     | Canceled           | status                   | CrashLoopBackOff Create Failed | Canceled           | wiped | Medium | cloud
status     | Unknown            | status                   | CrashLoopBackOff Create Failed | Unknown            | kept  | Short  | cloud
status     | InvalidArgument    | status                   | CrashLoopBackOff Create Failed | InvalidArgument    | wiped | Medium | cloud
status     | DeadlineExceeded   | status                   | CrashLoopBackOff Create Failed | DeadlineExceeded   | kept  | Short  | cloud
status     | NotFound           | status create initialize | -                              | -                  | kept  | -      | Record
status     | AlreadyExists      | status                   | CrashLoopBackOff Create Failed | AlreadyExists      | wiped | Medium | cloud
status     | PermissionDenied   | status                   | CrashLoopBackOff Create Failed | PermissionDenied   | wiped | Medium | cloud
status     | ResourceExhausted  | status                   | CrashLoopBackOff Create Failed | ResourceExhausted  | kept  | Long   | cloud
status     | FailedPrecondition | status                   | CrashLoopBackOff Create Failed | FailedPrecondition | wiped | Medium | cloud
status     | Aborted            | status                   | CrashLoopBackOff Create Failed | Aborted            | kept  | Short  | cloud
status     | OutOfRange         | status                   | CrashLoopBackOff Create Failed | OutOfRange         | wiped | Medium | cloud
status     | Unimplemented      | status create initialize | -                              | -                  | kept  | -      | Record
status     | Internal           | status                   | CrashLoopBackOff Create Failed | Internal           | wiped | Medium | cloud
status     | Unavailable        | status                   | CrashLoopBackOff Create Failed | Unavailable        | kept  | Short  | cloud
status     | DataLoss           | status                   | CrashLoopBackOff Create Failed | DataLoss           | wiped | Medium | cloud
status     | Unauthenticated    | status                   | CrashLoopBackOff Create Failed | Unauthenticated    | wiped | Medium | cloud
status     | Uninitialized      | status initialize        | -                              | -                  | kept  | -      | Record
status     | foreign          | status                   | CrashLoopBackOff Create Failed | Unknown            | wiped | Medium | cloud
create     | OK                 | status create initialize | -                              | -                  | kept  | -      | Record
create     | Canceled           | status create            | CrashLoopBackOff Create Failed | Canceled           | wiped | Medium | cloud
create     | Unknown            | status create            | CrashLoopBackOff Create Failed | Unknown            | kept  | Short  | cloud
create     | InvalidArgument    | status create            | CrashLoopBackOff Create Failed | InvalidArgument    | wiped | Medium | cloud
create     | DeadlineExceeded   | status create            | CrashLoopBackOff Create Failed | DeadlineExceeded   | kept  | Short  | cloud
create     | NotFound           | status create            | CrashLoopBackOff Create Failed | NotFound           | wiped | Medium | cloud
create     | AlreadyExists      | status create            | CrashLoopBackOff Create Failed | AlreadyExists      | wiped | Medium | cloud
create     | PermissionDenied   | status create            | CrashLoopBackOff Create Failed | PermissionDenied   | wiped | Medium | cloud
create     | ResourceExhausted  | status create            | CrashLoopBackOff Create Failed | ResourceExhausted  | kept  | Long   | cloud
create     | FailedPrecondition | status create            | CrashLoopBackOff Create Failed | FailedPrecondition | wiped | Medium | cloud
create     | Aborted            | status create            | CrashLoopBackOff Create Failed | Aborted            | kept  | Short  | cloud
create     | OutOfRange         | status create            | CrashLoopBackOff Create Failed | OutOfRange         | wiped | Medium | cloud
create     | Unimplemented      | status create            | CrashLoopBackOff Create Failed | Unimplemented      | wiped | Medium | cloud
create     | Internal           | status create            | CrashLoopBackOff Create Failed | Internal           | wiped | Medium | cloud
create     | Unavailable        | status create            | CrashLoopBackOff Create Failed | Unavailable        | kept  | Short  | cloud
create     | DataLoss           | status create            | CrashLoopBackOff Create Failed | DataLoss           | wiped | Medium | cloud
create     | Unauthenticated    | status create            | CrashLoopBackOff Create Failed | Unauthenticated    | wiped | Medium | cloud
create     | Uninitialized      | status create            | CrashLoopBackOff Create Failed | Uninitialized      | wiped | Medium | cloud
create     | foreign          | status create            | CrashLoopBackOff Create Failed | Unknown            | wiped | Medium | cloud
initialize | OK                 | status create initialize | -                              | -                  | kept  | -      | Record
initialize | Canceled           | status create initialize | CrashLoopBackOff Create Failed | Canceled           | kept  | Short  | initialization
initialize | Unknown            | status create initialize | CrashLoopBackOff Create Failed | Unknown            | kept  | Short  | initialization
initialize | InvalidArgument    | status create initialize | CrashLoopBackOff Create Failed | InvalidArgument    | kept  | Short  | initialization
initialize | DeadlineExceeded   | status create initialize | CrashLoopBackOff Create Failed | DeadlineExceeded   | kept  | Short  | initialization
initialize | NotFound           | status create initialize | -                              | -                  | kept  | -      | Record
initialize | AlreadyExists      | status create initialize | CrashLoopBackOff Create Failed | AlreadyExists      | kept  | Short  | initialization
initialize | PermissionDenied   | status create initialize | CrashLoopBackOff Create Failed | PermissionDenied   | kept  | Short  | initialization
initialize | ResourceExhausted  | status create initialize | CrashLoopBackOff Create Failed | ResourceExhausted  | kept  | Short  | initialization
initialize | FailedPrecondition | status create initialize | CrashLoopBackOff Create Failed | FailedPrecondition | kept  | Short  | initialization
initialize | Aborted            | status create initialize | CrashLoopBackOff Create Failed | Aborted            | kept  | Short  | initialization
initialize | OutOfRange         | status create initialize | CrashLoopBackOff Create Failed | OutOfRange         | kept  | Short  | initialization
initialize | Unimplemented      | status create initialize | -                              | -                  | kept  | -      | Record
initialize | Internal           | status create initialize | CrashLoopBackOff Create Failed | Internal           | kept  | Short  | initialization
initialize | Unavailable        | status create initialize | CrashLoopBackOff Create Failed | Unavailable        | kept  | Short  | initialization
initialize | DataLoss           | status create initialize | CrashLoopBackOff Create Failed | DataLoss           | kept  | Short  | initialization
initialize | Unauthenticated    | status create initialize | CrashLoopBackOff Create Failed | Unauthenticated    | kept  | Short  | initialization
initialize | Uninitialized      | status create initialize | CrashLoopBackOff Create Failed | Uninitialized      | kept  | Short  | initialization
initialize | foreign          | status create initialize | CrashLoopBackOff Create Failed | Unknown            | kept  | Long   | initialization
look       | OK                 | status                   | -                              | -                  | kept  | -      | Record
look       | Canceled           | status                   | Terminating Delete Failed      | Canceled           | kept  | Medium | look told
look       | Unknown            | status                   | Terminating Delete Failed      | Unknown            | kept  | Short  | look again
look       | InvalidArgument    | status                   | Terminating Delete Failed      | InvalidArgument    | kept  | Medium | look told
look       | DeadlineExceeded   | status                   | Terminating Delete Failed      | DeadlineExceeded   | kept  | Short  | look again
look       | NotFound           | status                   | -                              | -                  | kept  | -      | Call
look       | AlreadyExists      | status                   | Terminating Delete Failed      | AlreadyExists      | kept  | Medium | look stops
look       | PermissionDenied   | status                   | Terminating Delete Failed      | PermissionDenied   | kept  | Medium | look told
look       | ResourceExhausted  | status                   | Terminating Delete Failed      | ResourceExhausted  | kept  | Medium | look stops
look       | FailedPrecondition | status                   | Terminating Delete Failed      | FailedPrecondition | kept  | Medium | look told
look       | Aborted            | status                   | Terminating Delete Failed      | Aborted            | kept  | Short  | look again
look       | OutOfRange         | status                   | Terminating Delete Failed      | OutOfRange         | kept  | Medium | look stops
look       | Unimplemented      | status                   | -                              | -                  | kept  | -      | Call
look       | Internal           | status                   | Terminating Delete Failed      | Internal           | kept  | Medium | look told
look       | Unavailable        | status                   | Terminating Delete Failed      | Unavailable        | kept  | Short  | look again
look       | DataLoss           | status                   | Terminating Delete Failed      | DataLoss           | kept  | Medium | look told
look       | Unauthenticated    | status                   | Terminating Delete Failed      | Unauthenticated    | kept  | Medium | look told
look       | Uninitialized      | status                   | -                              | -                  | kept  | -      | Call
look       | foreign          | status                   | Terminating Delete Failed      | Unknown            | kept  | Long   | look broken
delete     | OK                 | delete                   | -                              | -                  | wiped | -      | DeleteNode
delete     | Canceled           | delete                   | Terminating Delete Failed      | Canceled           | wiped | Long   | deletion stops
delete     | Unknown            | delete                   | Terminating Delete Failed      | Unknown            | wiped | Short  | deletion again
delete     | InvalidArgument    | delete                   | Terminating Delete Failed      | InvalidArgument    | wiped | Long   | deletion told
delete     | DeadlineExceeded   | delete                   | Terminating Delete Failed      | DeadlineExceeded   | wiped | Short  | deletion again
delete     | NotFound           | delete                   | -                              | -                  | wiped | -      | DeleteNode
delete     | AlreadyExists      | delete                   | Terminating Delete Failed      | AlreadyExists      | wiped | Long   | deletion stops
delete     | PermissionDenied   | delete                   | Terminating Delete Failed      | PermissionDenied   | wiped | Long   | deletion told
delete     | ResourceExhausted  | delete                   | Terminating Delete Failed      | ResourceExhausted  | wiped | Long   | deletion stops
delete     | FailedPrecondition | delete                   | Terminating Delete Failed      | FailedPrecondition | wiped | Long   | deletion told
delete     | Aborted            | delete                   | Terminating Delete Failed      | Aborted            | wiped | Short  | deletion again
delete     | OutOfRange         | delete                   | Terminating Delete Failed      | OutOfRange         | wiped | Long   | deletion stops
delete     | Unimplemented      | delete                   | Terminating Delete Failed      | Unimplemented      | wiped | Long   | deletion told
delete     | Internal           | delete                   | Terminating Delete Failed      | Internal           | wiped | Long   | deletion stops
delete     | Unavailable        | delete                   | Terminating Delete Failed      | Unavailable        | wiped | Short  | deletion again
delete     | DataLoss           | delete                   | Terminating Delete Failed      | DataLoss           | wiped | Long   | deletion stops
delete     | Unauthenticated    | delete                   | Terminating Delete Failed      | Unauthenticated    | wiped | Long   | deletion told
delete     | Uninitialized      | delete                   | Terminating Delete Failed      | Uninitialized      | wiped | Long   | deletion stops
delete     | foreign          | delete                   | Terminating Delete Failed      | Unknown            | wiped | Long   | deletion broken
"""
"""The call that answers so | its code | what the driver is asked in all | phase and lastOperation, its errorCode |
the last known state after it | when it is asked again, and the text of the status; or the step that follows."""

PAUSES = {"Short": timedelta(seconds=5), "Medium": timedelta(minutes=3), "Long": timedelta(minutes=10)}
LOOKING = "Error occurred with decoding machine error status while getting VM status, aborting"
GETTING = "Set machine status to termination. Now, getting VM Status"
MEND = "Mend its MachineClass, its Secret, the VM in the cloud or what the driver runs with"
NO_VM = f"{MEND}; or, if the cloud has no VM of this machine, label the machine force-deletion=True"
A_VM = f"{MEND}: its VM stays until the driver deletes it"
TEXTS = {
    "cloud": "Cloud provider message - {error}",
    "initialization": "Provider error: {error}. Initialize VM Instance",
    "look again": f"{LOOKING} with retry. {{error}}. {GETTING}",
    "look stops": f"{LOOKING} without retry. machine code: {{error}}. {GETTING}",
    "look told": f"{LOOKING} without retry. machine code: {{error}}. {NO_VM}. {GETTING}",
    "look broken": f"{LOOKING} without retry. {{error}}. {NO_VM}. {GETTING}",
    "deletion again": "VM deletion failed due to - {error}. However, will re-try in the next resync. Initiate VM deletion",
    "deletion stops": "VM deletion failed due to - {error}. Aborting operation. Initiate VM deletion",
    "deletion told": f"VM deletion failed due to - {{error}}. Aborting operation. {A_VM}. Initiate VM deletion",
    "deletion broken": "Error occurred while decoding machine error: {error}. Initiate VM deletion",
}


@dataclass(frozen=True)
class Row:
    call: str
    code: str
    asked: list[str]
    operation: list[str]
    error_code: str
    note: str
    pause: timedelta | None
    then: str

    @property
    def error(self) -> Exception | None:
        """What the driver raises."""
        if self.code == "foreign":
            return ValueError("no")
        return None if self.code == "OK" else DriverError.of(Code[self.code], "no")

    @property
    def text(self) -> str:
        told = "ValueError: no" if self.code == "foreign" else "no"
        return TEXTS.get(self.then, "").format(
            error=f"machine codes error: code = [{self.error_code}] message = [{told}]"
        )


def parsed(line: str) -> Row:
    call, code, asked, operation, error_code, note, pause, then = (cell.strip() for cell in line.split("|"))
    said = [] if operation == "-" else operation.split()
    return Row(call, code, asked.split(), said, error_code, note, PAUSES.get(pause), then)


ROWS = [parsed(line) for line in TABLE.strip().splitlines()]
VERBS = {"look": Verb.LOOK, "delete": Verb.DELETE}
BEFORE_IT: dict[str, dict[str, object]] = {
    "status": {"create": VM, "initialize": VM},
    "create": {"status": DriverError.of(Code.NotFound, "none")},
    "initialize": {"status": DriverError.of(Code.NotFound, "none"), "create": VM},
    "look": {},
    "delete": {},
}
"""What the other calls answer; the rest is not implemented."""


def noted(of: Machine) -> Machine:
    """The machine with a last known state on record."""
    return structs.replace(of, status=structs.replace(of.status, last_known_state="noted"))


LIVING, RECORDED, DYING = (
    noted(each) for each in (machine(vm=False), machine(), machine(deleted=minutes(1)))
)
UNSURE = noted(machine(vm=False, deleted=minutes(1)))


async def after(driver: object, verb: Verb, of: Machine) -> VmSeen:
    """What is known after one call that ended just now."""
    guarded = GuardedDriver(driver, ManualClock())  # type: ignore[arg-type]

    async def request() -> MachineRequest:
        return class_request().of(of)

    known = await outcome(guarded, ManualClock(), verb, request, NOTHING)
    return replace(known, verb=verb, began=NOW, ended=NOW)


def look_at(vm: VmSeen) -> Seen:
    match vm.verb:
        case Verb.LOOK:
            return seen(UNSURE, vm=vm, doubt_until=NOW)
        case Verb.DELETE:
            return seen(DYING, node(cordoned=True), vm=vm)
    return seen(RECORDED if vm.initializing else LIVING, vm=vm)


def said(of: Seen, plan: Plan) -> tuple[list[str], str, str, str]:
    """Phase and operation, error code, description and last known state of the status after a plan."""
    status = machine_status(of, plan.report, NOW)
    if plan.report is None:
        return [], "-", "", status.last_known_state
    last, phase = status.last_operation, status.current_status.phase
    return [phase, last.type, last.state], last.error_code, last.description, status.last_known_state


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.call} {row.code}")
async def test_what_comes_of_an_answer(row: Row) -> None:
    answer = row.error or (None if row.call == "delete" else VM)
    verb_of_driver = "status" if row.call == "look" else row.call
    driver = Scripted({**BEFORE_IT[row.call], verb_of_driver: answer})
    vm = await after(driver, VERBS.get(row.call, Verb.ENSURE), DYING if row.call == "delete" else LIVING)
    of = look_at(vm)
    plan = decide(of)
    note = "noted" if row.note == "kept" else ""
    assert driver.asked == row.asked
    assert said(of, plan) == (row.operation, row.error_code, row.text, note)
    if row.pause is None:
        assert [type(step).__name__ for step in plan.steps] == [row.then]
    else:
        assert (plan.steps, plan.wake) == ((), row.pause)
        due = decide(replace(of, now=of.now + row.pause))
        assert [type(step).__name__ for step in due.steps] == ["Call"], "then it is called again"


def test_the_table_has_a_row_for_each_call_and_code() -> None:
    codes = [*(code.name for code in Code), "foreign"]
    expected = [(call, code) for call in BEFORE_IT for code in codes]
    assert sorted((row.call, row.code) for row in ROWS) == sorted(expected)


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.operation[:1] == ["CrashLoopBackOff"]],
    ids=lambda row: f"{row.call} {row.code}",
)
async def test_past_the_creation_timeout_the_same_error_fails_the_machine(row: Row) -> None:
    driver = Scripted({**BEFORE_IT[row.call], row.call: row.error})
    vm = await after(driver, Verb.ENSURE, LIVING)
    late = seen(noted(machine(vm=vm.initializing, age=minutes(21))), vm=vm)
    operation, code, text, _ = said(late, decide(late))
    assert (operation, code, text) == (["Failed", "Create", "Failed"], row.error_code, row.text)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("create", Code.Internal),
        ("create", Code.Unavailable),
        ("status", Code.Internal),
        ("delete", Code.Unavailable),
    ],
    ids=lambda value: getattr(value, "name", value),
)
async def test_a_last_known_state_that_comes_with_an_error_is_written(call: str, code: Code) -> None:
    driver = Scripted({**BEFORE_IT[call], call: DriverError.of(code, "no", last_known_state="half")})
    of = look_at(await after(driver, VERBS.get(call, Verb.ENSURE), DYING if call == "delete" else LIVING))
    assert said(of, decide(of))[3] == "half"


OTHER = Instance("sim:///here/vm-2", "m2", machine_name="m2", owner_uid="u2")
WRONG = [
    pytest.param("create", None, "(NoneType) is not what the contract says", id="nothing for a VM"),
    pytest.param("create", "vm-1", "(str) is not what the contract says", id="a text for a VM"),
    pytest.param("status", Instance(7, "m1"), "Expected `str`, got `int` - at `$.provider_id`", id="a number for an id"),  # type: ignore[arg-type]
    pytest.param("create", Instance("", "m1"), "a VM without a provider id", id="a VM without an id"),
    pytest.param("create", Instance("sim:///1", ""), "a VM without a node name", id="a VM without a node's name"),
    pytest.param("initialize", 5, "(int) is not what the contract says", id="a number for an initialized VM"),
    pytest.param("create", OTHER, "VM sim:///here/vm-2, which was made for another machine (m2)", id="another machine's VM, created"),
    pytest.param("status", OTHER, "VM sim:///here/vm-2, which was made for another machine (m2)", id="another machine's VM, found"),
    pytest.param("status", replace(OTHER, owner_uid=""), "which was made for another machine (m2)", id="another machine's VM by its name alone"),
    pytest.param("look", OTHER, "which was made for another machine (m2)", id="another machine's VM, before a deletion"),
    pytest.param("look", None, "(NoneType) is not what the contract says", id="nothing, before a deletion"),
    pytest.param("delete", VM, "(Instance) is not what the contract says", id="a VM for a deletion"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "answer", "says"), WRONG)
async def test_a_wrong_answer_is_reported_as_internal_and_asked_for_again(
    call: str, answer: object, says: str
) -> None:
    driver = Scripted({**BEFORE_IT[call], "status" if call == "look" else call: answer})
    of = look_at(await after(driver, VERBS.get(call, Verb.ENSURE), DYING if call == "delete" else LIVING))
    plan = decide(of)
    operation, code, text, _ = said(of, plan)
    dies = call in VERBS
    assert (
        operation == ["Terminating", "Delete", "Failed"] if dies else ["CrashLoopBackOff", "Create", "Failed"]
    )
    assert (code, says in text) == ("Internal", True), text
    assert plan.warning is not None
    assert says in plan.warning[1], "an event says so too"
    assert plan.wake is not None
    assert plan.wake >= PAUSES["Medium"], "no busy loop"
    assert not plan.steps, "nothing is recorded, drained or deleted by such an answer"


async def test_a_vm_that_another_machine_has_on_record_is_not_recorded_twice() -> None:
    vm = await after(Scripted({"status": VM}), Verb.ENSURE, LIVING)
    other = structs.replace(machine(), metadata=structs.replace(machine().metadata, name="m2", uid="u2"))
    of = look_at(believed(vm, [other]))
    operation, code, text, _ = said(of, decide(of))
    assert (operation, code) == (["CrashLoopBackOff", "Create", "Failed"], "Internal")
    assert "VM sim:///here/vm-1, which is on record for machine default/m2" in text
    assert decide(of).steps == ()
    assert believed(vm, []) == vm


async def test_the_vm_on_record_is_believed_although_its_tags_name_an_older_uid() -> None:
    """As after a restore from a backup."""
    known = replace(VM, machine_name="m1", owner_uid="an older one")
    vm = await after(Scripted({"status": known}), Verb.ENSURE, machine())
    assert (vm.instance, vm.error) == (known, None)
