"""What one call leaves known of a VM of which something was known before: whole values are compared."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import pytest
from tests.unit.driver.test_life_calls import CLASS, Scripted

from kubewright.base.errors import KubewrightError
from kubewright.driver.contract import Instance, MachineRequest, stub
from kubewright.driver.errors import Code, DriverError, NotFound
from kubewright.driver.life.calls import outcome
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.testing.clocks import BEGIN, ManualClock
from kubewright.wire.errors import Forbidden, Unavailable

VM = Instance("sim:///vm-1", "m1")
DOUBT = datetime(2029, 12, 31, tzinfo=UTC)
BEFORE = VmSeen(
    instance=Instance("sim:///old", "m1"),
    error=DriverError("an earlier one"),
    absent=True,
    deleted=True,
    initializing=True,
    doubt=DOUBT,
    last_known_state="old",
)
BUSY, FULL = DriverError.of(Code.Unavailable, "busy"), DriverError.of(Code.ResourceExhausted, "full")
LATE = DriverError.of(Code.DeadlineExceeded, "late")


@dataclass(frozen=True)
class Case:
    """``refused``: the error with which the request itself cannot be made. ``error``: code and message."""

    name: str
    verb: Verb
    answers: Mapping[str, Any]
    after: VmSeen
    error: tuple[Code, str] | None = None
    refused: KubewrightError | None = None


CASES = [
    Case("a VM that exists replaces all that was known, but for the doubt and what the driver left",
         Verb.ENSURE, {"status": VM}, VmSeen(instance=VM, doubt=DOUBT, last_known_state="old")),
    Case("an initialization that fails is all that is wrong with the VM; what its creation left is kept",
         Verb.ENSURE, {"create": replace(VM, last_known_state="half"), "initialize": BUSY},
         VmSeen(instance=VM, initializing=True, doubt=DOUBT, last_known_state="half"), (Code.Unavailable, "busy")),
    Case("a creation that is refused leaves the doubt of an earlier one",
         Verb.ENSURE, {"create": FULL}, replace(BEFORE, initializing=False), (Code.ResourceExhausted, "full")),
    Case("a creation without an answer leaves one of its own",
         Verb.ENSURE, {"create": LATE}, replace(BEFORE, initializing=False, doubt=BEGIN),
         (Code.DeadlineExceeded, "late")),
    Case("a VM without its names too, and what it left is kept",
         Verb.ENSURE, {"status": Instance("", "m1", last_known_state="half")},
         replace(BEFORE, told=True, initializing=False, doubt=BEGIN, last_known_state="half"),
         (Code.Internal, "the driver answered with a VM without a provider id")),
    Case("a look tells of a VM without its names",
         Verb.LOOK, {"status": Instance("sim:///vm-9", "")},
         VmSeen(told=True, doubt=DOUBT, last_known_state="old")),
    Case("so does an error that says that there is one",
         Verb.LOOK, {"status": DriverError.of(Code.AlreadyExists, "here")}, replace(BEFORE, told=True),
         (Code.AlreadyExists, "here")),
    Case("a look that fails changes nothing that was known but the error",
         Verb.LOOK, {"status": BUSY}, BEFORE, (Code.Unavailable, "busy")),
    Case("where the cloud cannot say whether there is a VM, an initialization that failed is still to be repeated",
         Verb.ENSURE, {"status": BUSY}, BEFORE, (Code.Unavailable, "busy")),
    Case("a look that finds no VM leaves the doubt, and that it was deleted",
         Verb.LOOK, {"status": NotFound("no")},
         VmSeen(absent=True, deleted=True, doubt=DOUBT, last_known_state="old")),
    Case("a look that finds one ends the deletion",
         Verb.LOOK, {"status": VM}, VmSeen(instance=VM, doubt=DOUBT, last_known_state="old")),
    Case("after a driver that cannot look only another deletion can tell",
         Verb.LOOK, {}, replace(BEFORE, absent=False, deleted=False)),
    Case("a deletion leaves the doubt, and no VM",
         Verb.DELETE, {"delete": None}, VmSeen(absent=True, deleted=True, doubt=DOUBT, last_known_state="")),
    Case("a request that the server refuses is not worth another try as it is",
         Verb.DELETE, {}, BEFORE, (Code.FailedPrecondition, "the request could not be made: not allowed"),
         Forbidden("not allowed")),
    Case("one that it cannot answer now is",
         Verb.DELETE, {}, BEFORE, (Code.Unavailable, "the request could not be made: overloaded"),
         Unavailable("overloaded")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
async def test_what_is_known_after_a_call(case: Case) -> None:
    async def request() -> MachineRequest:
        if case.refused is not None:
            raise case.refused
        return CLASS.of(stub("m1", "default", "u1"))

    found = await outcome(Scripted({**case.answers}), ManualClock(), case.verb, request, BEFORE)
    instance = found.instance and replace(found.instance, last_known_state="")
    assert replace(found, error=None, instance=instance) == replace(case.after, error=None)
    assert (found.error and (found.error.code, found.error.message)) == case.error


RECORDED = stub("m1", "default", "u1", provider_id=VM.provider_id, node_name=VM.node_name)


@pytest.mark.parametrize(
    ("answers", "before", "after"),
    [
        pytest.param({"status": NotFound("no")}, True, True, id="while the cloud does not show the VM"),
        pytest.param({}, True, True, id="where the driver cannot say whether there is one"),
        pytest.param({"status": VM}, True, False, id="but not where the cloud says that the VM is complete"),
        pytest.param({"status": NotFound("no")}, False, False, id="nor where none has failed"),
    ],
)
async def test_an_initialization_that_failed_is_repeated(
    answers: Mapping[str, Any], before: bool, after: bool
) -> None:
    async def request() -> MachineRequest:
        return CLASS.of(RECORDED)

    driver = Scripted({**answers, "initialize": BUSY})
    known = VmSeen(instance=VM, initializing=before)
    found = await outcome(driver, ManualClock(), Verb.ENSURE, request, known)
    assert (found.instance, found.initializing, bool(found.error)) == (VM, after, after)


async def test_a_fault_of_ours_ends_the_call_too_and_leaves_a_doubt() -> None:
    async def request() -> MachineRequest:
        raise ZeroDivisionError

    found = await outcome(Scripted({}), ManualClock(), Verb.ENSURE, request, BEFORE)
    assert (found.error and (found.error.code, found.error.message)) == (
        Code.Internal,
        "ZeroDivisionError in Kubewright itself",
    )
    assert replace(found, error=None) == replace(BEFORE, error=None, doubt=BEGIN)
