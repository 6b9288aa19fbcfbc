"""The guard around drivers: deadlines, slots, errors that are no DriverError, counts. Time is virtual."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from kubewright.base.delays import SHORT
from kubewright.base.limits import DRIVER_MESSAGE_CHARS
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec, stub
from kubewright.driver.errors import PAUSES, Code, DriverError, During, NotFound
from kubewright.driver.guard import (
    CALL_LIMITS,
    LETS_GO,
    CallEnded,
    CallLimits,
    DriverMetrics,
    GuardedDriver,
    Operation,
)
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request

CLASS = class_request()
REQUEST = CLASS.of(stub("m1", "ns", "uid"))
VM = Instance("cloud:///1", "m1")


class Scripted:
    """A driver whose creations and look-ups do what the test says; all else succeeds."""

    def __init__(self, create: Callable[[], Awaitable[Instance]]) -> None:
        self._create = create
        self.inside = self.most = 0

    async def create(self, _request: MachineRequest) -> Instance:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            return await self._create()
        finally:
            self.inside -= 1

    async def initialize(self, _request: MachineRequest) -> Instance:
        return VM

    async def delete(self, _request: MachineRequest) -> None:
        return None

    async def status(self, _request: MachineRequest) -> Instance:
        raise NotFound("no VM")

    async def list(self, _request: ClassRequest) -> Sequence[Instance]:
        return [VM]

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return [volume.name for volume in volumes]


async def at_once() -> Instance:
    return VM


async def never() -> Instance:
    await asyncio.sleep(1e9)
    return VM


async def in_ten_seconds() -> Instance:
    await asyncio.sleep(10)
    return VM


def raising(error: BaseException) -> Callable[[], Awaitable[Instance]]:
    async def create() -> Instance:
        raise error

    return create


def guarded(
    create: Callable[[], Awaitable[Instance]] = at_once, *, slots: int = 2, seconds: float = 60
) -> GuardedDriver:
    limits = {**CALL_LIMITS, Operation.CREATE: CallLimits(seconds, slots)}
    return GuardedDriver(Scripted(create), LoopClock(), limits=limits)


async def test_answers_pass_through() -> None:
    driver = guarded()
    assert await driver.create(REQUEST) == await driver.initialize(REQUEST) == VM
    assert await driver.list(CLASS) == [VM]
    assert await driver.volume_ids([VolumeSpec("pv", {})]) == ["pv"]
    await driver.delete(REQUEST)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        pytest.param(NotFound("gone"), Code.NotFound, "gone", id="a driver's own error stays what it is"),
        pytest.param(
            TimeoutError(),
            Code.DeadlineExceeded,
            "timed out in the driver",
            id="a driver's timeout is a deadline",
        ),
    ],
)
async def test_errors_leave_in_the_vocabulary(error: Exception, code: Code, says: str) -> None:
    with pytest.raises(DriverError, match=says) as raised:
        await guarded(raising(error)).create(REQUEST)
    assert raised.value.code is code


class WithoutTexts(DriverError):
    """An error of a driver's own whose constructor forgets ours."""

    def __init__(self) -> None:
        Exception.__init__(self, "lost")


BROKEN = [
    pytest.param(ValueError("boom"), "ValueError: boom", id="an exception of another kind"),
    pytest.param(SystemExit(3), "SystemExit: 3", id="an exit of the program"),
    pytest.param(asyncio.CancelledError(), "CancelledError: ", id="a cancellation that is not ours"),
    pytest.param(ExceptionGroup("two", [ValueError("boom")]), "ExceptionGroup: two", id="a group of them"),
    pytest.param(
        BaseExceptionGroup("two", [SystemExit(3)]), "BaseExceptionGroup: two", id="a group with an exit"
    ),
    pytest.param(DriverError("fine", code=Code.OK), "with an invalid code", id="an error that is OK"),
    pytest.param(DriverError(5), "with an invalid message", id="a message that is no text"),  # type: ignore[arg-type]
    pytest.param(WithoutTexts(), "a WithoutTexts for create of m1", id="an error without a message"),
]


@pytest.mark.parametrize(("error", "says"), BROKEN)
async def test_a_driver_that_dies_has_an_unknown_error_and_a_slow_retry(
    error: BaseException, says: str
) -> None:
    with pytest.raises(DriverError) as raised:
        await guarded(raising(error)).create(REQUEST)
    found = raised.value
    assert (found.code, found.broken, says in found.message) == (Code.Unknown, True, True), found
    assert found.pause(During.CREATING) == timedelta(minutes=3)
    assert found.pause(During.DELETING) == timedelta(minutes=10)


async def test_a_page_of_html_in_a_message_is_cut() -> None:
    with pytest.raises(DriverError) as raised:
        await guarded(raising(DriverError.of(Code.Internal, "<p>" * 100_000))).create(REQUEST)
    assert len(raised.value.message) == DRIVER_MESSAGE_CHARS


RUBBISH = [
    pytest.param("list", None, "(NoneType)", id="nothing for a list"),
    pytest.param("list", [VM, None], "got `null` - at `$[1]`", id="a list with nothing in it"),
    pytest.param("list", {"cloud:///1": "m1"}, "(dict)", id="MCM's map for a list of VMs"),
    pytest.param("volume_ids", "vol-1", "(str)", id="a text for volumes"),
    pytest.param("volume_ids", [1], "got `int` - at `$[0]`", id="numbers for volumes"),
]


@pytest.mark.parametrize(("verb", "answer", "says"), RUBBISH)
async def test_an_answer_of_another_type_is_an_internal_error(
    verb: str, answer: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrong(_request: object) -> object:
        return answer

    driver = guarded()
    monkeypatch.setattr(driver.driver, verb, wrong)
    with pytest.raises(DriverError) as raised:
        await (driver.list(CLASS) if verb == "list" else driver.volume_ids([VolumeSpec("pv", {})]))
    found = raised.value
    assert (found.code, found.broken, says in found.message) == (Code.Internal, True, True), found


async def test_the_log_says_what_an_error_is_that_is_no_driver_error() -> None:
    async def broken() -> Instance:
        raise KeyError("zone")

    with capture_logs() as lines, pytest.raises(DriverError):
        await guarded(broken).create(REQUEST)
    (line,) = [each for each in lines if each["log_level"] == "warning"]
    assert line["event"] == "a driver raised an exception that is no DriverError"
    assert line["error"] == "KeyError: 'zone'"


async def test_a_call_that_hangs_ends_at_its_deadline() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(DriverError) as late:
        await guarded(never, seconds=60).create(REQUEST)
    assert (late.value.code, loop.time() - began) == (Code.DeadlineExceeded, 60)


async def test_no_more_calls_at_a_time_than_slots_and_all_get_through() -> None:
    driver = guarded(in_ten_seconds, slots=2)
    assert await asyncio.gather(*(driver.create(REQUEST) for _ in range(6))) == [VM] * 6
    assert isinstance(driver.driver, Scripted)
    assert driver.driver.most == 2


async def test_waiting_for_a_slot_is_bounded_and_says_that_nothing_was_begun() -> None:
    driver = guarded(never, slots=1, seconds=60)
    first = asyncio.ensure_future(driver.create(REQUEST))
    await asyncio.sleep(1)
    second = asyncio.ensure_future(driver.create(REQUEST))
    await asyncio.sleep(0.5)
    third = asyncio.ensure_future(driver.create(REQUEST))
    await asyncio.wait([first, second, third])
    codes = [call.exception().code for call in (first, second, third)]  # type: ignore[union-attr]
    assert codes == [Code.DeadlineExceeded, Code.DeadlineExceeded, Code.Unavailable]


async def test_hanging_creations_do_not_hold_up_a_deletion() -> None:
    driver = guarded(never, slots=1)
    hanging = asyncio.ensure_future(driver.create(REQUEST))
    await asyncio.sleep(1)
    async with asyncio.timeout(1):
        await driver.delete(REQUEST)
    hanging.cancel()
    await asyncio.wait([hanging])


async def test_a_cancelled_call_frees_its_slot() -> None:
    driver = guarded(in_ten_seconds, slots=1)
    first = asyncio.ensure_future(driver.create(REQUEST))
    await asyncio.sleep(1)
    first.cancel()
    assert await driver.create(REQUEST) == VM
    assert driver.statistics() == {(Operation.CREATE, Code.Canceled): 1, (Operation.CREATE, Code.OK): 1}


async def test_a_call_that_a_process_may_not_make_while_it_does_not_lead_is_not_made_and_is_due_soon() -> (
    None
):
    inner = Scripted(at_once)
    leads = False
    driver = GuardedDriver(inner, LoopClock(), entitled=lambda: leads)
    with pytest.raises(DriverError) as refused:
        await driver.create(REQUEST)
    assert (inner.most, PAUSES[During.CREATING][refused.value.meaning.trouble]) == (0, SHORT)
    assert PAUSES[During.DELETING][refused.value.meaning.trouble] == SHORT
    leads = True
    assert await driver.create(REQUEST) == VM


async def test_calls_are_counted_by_operation_and_code_and_timed() -> None:
    ended: list[CallEnded] = []
    driver = GuardedDriver(Scripted(in_ten_seconds), LoopClock(), on_end=ended.append)
    await driver.create(REQUEST)
    with pytest.raises(NotFound):
        await driver.status(REQUEST)
    assert ended == [
        CallEnded(Operation.CREATE, Code.OK, 10.0),
        CallEnded(Operation.STATUS, Code.NotFound, 0.0),
    ]


def test_prometheus_gets_the_names_that_dashboards_know() -> None:
    registry = CollectorRegistry()
    count = DriverMetrics(registry).of("sim")
    count(CallEnded(Operation.CREATE, Code.ResourceExhausted, 0.2))
    count(CallEnded(Operation.DELETE, Code.OK, 1.5))
    count(CallEnded(Operation.DELETE, Code.Canceled, 1.5))
    failed = {"provider": "sim", "operation": "create", "error_code": "ResourceExhausted"}
    assert registry.get_sample_value("mcm_cloud_api_driver_requests_failed_total", failed) == 1
    timed = {"provider": "sim", "operation": "delete"}
    assert registry.get_sample_value("mcm_cloud_api_driver_request_duration_seconds_count", timed) == 2


async def test_a_call_that_was_not_begun_has_left_no_vm() -> None:
    driver = guarded(never, slots=1, seconds=60)
    calls = [asyncio.ensure_future(driver.create(REQUEST)) for _ in range(2)]
    lost = GuardedDriver(Scripted(at_once), LoopClock(), entitled=lambda: False)
    calls.append(asyncio.ensure_future(lost.create(REQUEST)))
    await asyncio.wait(calls)
    errors = [call.exception() for call in calls]
    assert [isinstance(error, DriverError) and error.meaning.nothing_done for error in errors] == [
        False,
        True,
        True,
    ]


async def test_a_driver_that_goes_on_when_it_is_cancelled_holds_up_no_caller() -> None:
    ends = asyncio.Event()

    async def stubborn() -> Instance:
        while not ends.is_set():
            with suppress(asyncio.CancelledError):
                await ends.wait()
        return VM

    driver = guarded(stubborn, slots=1, seconds=60)
    async with asyncio.timeout(60 + LETS_GO + 1):
        with pytest.raises(DriverError) as late:
            await driver.create(REQUEST)
    assert late.value.code is Code.DeadlineExceeded
    with pytest.raises(DriverError, match="all 1 slots"):
        await driver.create(REQUEST)
    leaving = asyncio.ensure_future(guarded(stubborn).create(REQUEST))
    await asyncio.sleep(1)
    leaving.cancel()
    async with asyncio.timeout(LETS_GO + 1):
        await asyncio.wait([leaving])
    assert leaving.cancelled()
    ends.set()
    assert await driver.create(REQUEST) == VM


async def test_an_answer_that_comes_after_the_deadline_is_none() -> None:
    async def late() -> Instance:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1e9)
        return VM

    with pytest.raises(DriverError) as error:
        await guarded(late).create(REQUEST)
    assert error.value.code is Code.DeadlineExceeded
