"""A guard around any driver: deadlines, limits, checked answers, counts.

Theory.      Drivers are code of other authors, and call clouds that may hang or answer anything. Whatever
             one does short of blocking the event loop, a call through ``GuardedDriver`` ends in bounded
             time, with an answer of the contract's types (``answers``) or with a ``DriverError``, and is
             counted. Each verb has slots of its own: a hundred creations that hang must not delay one
             deletion. Each world that calls a driver has a guard of its own, so two worlds have twice the
             slots.
Invariants.  Cancellation by the caller passes through untouched; a driver that cancels itself has failed. One
             that goes on although it was cancelled is abandoned: its call has failed, and its slot is taken
             until it ends.
             The wait for a slot has a deadline of the same length as the call's; when it passes the call was
             never begun, and the error is ``Unavailable``. When the deadline of the call passes, the cloud
             may have done it or not: DeadlineExceeded. A process that is not ``entitled`` to act any more,
             since it lost its Lease (``runtime.leader``), begins no call, and the error is ``Unavailable``,
             too: a process that was suspended may lead again in a moment, and then the call is soon due.
Metrics.     ``DriverMetrics`` shows calls to Prometheus, under the names that MCM's dashboards and alerts
             know: a histogram ``mcm_cloud_api_driver_request_duration_seconds`` by provider and operation,
             and a counter ``mcm_cloud_api_driver_requests_failed_total`` by error code, too. A call whose
             caller left (Canceled) is timed but not a failure.
Called by    ``machines.world`` and ``infra.world``, which put each driver that they are given behind one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, cast

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.driver import answers
from kubewright.driver.contract import (
    ClassRequest,
    Consoles,
    Driver,
    Endpoints,
    Instance,
    MachineRequest,
    Migrates,
    OldClass,
    Several,
    Size,
    Sizes,
    Updates,
    Validates,
    VolumeSpec,
)
from kubewright.driver.errors import Code, DriverError, Unimplemented
from kubewright.wire.gvk import Resource

log = structlog.get_logger(__name__)
T = TypeVar("T")

DELETE_ANSWER = cast("type[str | None]", str | None)
"""A last known state, or None."""


class Operation(StrEnum):
    """The verbs of the port; the values are labels of metrics."""

    CREATE = "create"
    INITIALIZE = "initialize"
    DELETE = "delete"
    STATUS = "status"
    LIST = "list"
    VOLUME_IDS = "volume_ids"
    ENDPOINT = "endpoint"
    RELEASE = "release"
    SIZE = "size"
    VALIDATE = "validate"
    CONSOLE = "console"
    UPDATE = "update_machine"
    GENERATE = "generate_machine_class"


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The bounds of one verb: ``seconds`` for slot and call each, ``slots`` calls at a time."""

    seconds: float
    slots: int


CALL_LIMITS: Mapping[Operation, CallLimits] = {
    Operation.CREATE: CallLimits(seconds=240, slots=200),
    Operation.INITIALIZE: CallLimits(seconds=240, slots=200),
    Operation.DELETE: CallLimits(seconds=240, slots=200),
    Operation.STATUS: CallLimits(seconds=60, slots=100),
    Operation.LIST: CallLimits(seconds=120, slots=4),
    Operation.VOLUME_IDS: CallLimits(seconds=60, slots=20),
    Operation.ENDPOINT: CallLimits(seconds=240, slots=50),
    Operation.RELEASE: CallLimits(seconds=240, slots=50),
    Operation.SIZE: CallLimits(seconds=60, slots=20),
    Operation.VALIDATE: CallLimits(seconds=60, slots=20),
    Operation.CONSOLE: CallLimits(seconds=5, slots=20),
    Operation.UPDATE: CallLimits(seconds=240, slots=50),
    Operation.GENERATE: CallLimits(seconds=60, slots=20),
}
"""Slot and call together may take twice the ``seconds``. Creations and deletions of machines run beside the
passes; a pass that waits for lists and deletions has time for both (``life.orphans.LONGEST_PASS``)."""

LETS_GO = 10.0
"""Seconds that a driver may take to end its call after it was cancelled."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """One call is over: ``code`` is OK for an answer, Canceled when the caller left.

    ``provider``: which of the clouds that the driver stands for; empty: it is one.
    """

    operation: Operation
    code: Code
    seconds: float
    provider: str = ""


Listener = Callable[[CallEnded], None]


class GuardedDriver:
    """Any driver behind the guard; itself a ``Driver``."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        *,
        limits: Mapping[Operation, CallLimits] = CALL_LIMITS,
        on_end: Listener = lambda _ended: None,
        entitled: Callable[[], bool] = lambda: True,
    ) -> None:
        self.driver = driver
        """The driver inside, to be asked what else it can do (``contract``)."""
        self._several = driver if isinstance(driver, Several) else None
        self._clock = clock
        self._limits = limits
        self._slots = {operation: asyncio.Semaphore(limit.slots) for operation, limit in limits.items()}
        self._on_end = on_end
        self._entitled = entitled
        self._counts: dict[tuple[Operation, Code], int] = {}

    async def create(self, request: MachineRequest) -> Instance:
        return await self._call(
            Operation.CREATE, request.name, Instance, lambda: self.driver.create(request), request
        )

    async def initialize(self, request: MachineRequest) -> Instance:
        return await self._call(
            Operation.INITIALIZE, request.name, Instance, lambda: self.driver.initialize(request), request
        )

    async def delete(self, request: MachineRequest) -> str | None:
        return await self._call(
            Operation.DELETE, request.name, DELETE_ANSWER, lambda: self.driver.delete(request), request
        )

    async def status(self, request: MachineRequest) -> Instance:
        return await self._call(
            Operation.STATUS, request.name, Instance, lambda: self.driver.status(request), request
        )

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        name = request.machine_class.metadata.name
        return await self._call(
            Operation.LIST, name, list[Instance], lambda: self.driver.list(request), request
        )

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        what = f"{len(volumes)} volumes"
        return await self._call(
            Operation.VOLUME_IDS, what, list[str], lambda: self.driver.volume_ids(volumes)
        )

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        """As ``contract.Endpoints``. Raises Unimplemented where the driver inside has none."""
        offers, name = self._endpoints(), request.machine_class.metadata.name
        return await self._call(
            Operation.ENDPOINT, name, tuple[str, int], lambda: offers.endpoint(request), request
        )

    async def release(self, request: ClassRequest) -> None:
        """As ``contract.Endpoints``. Raises Unimplemented where the driver inside has none."""
        offers, name = self._endpoints(), request.machine_class.metadata.name
        await self._call(Operation.RELEASE, name, type(None), lambda: offers.release(request), request)

    async def size(self, request: ClassRequest) -> Size:
        """As ``contract.Sizes``. Raises Unimplemented where the driver inside does not know."""
        inside, name = self.driver, request.machine_class.metadata.name
        if not isinstance(inside, Sizes):
            raise Unimplemented("this driver does not know what a node will offer")
        return await self._call(Operation.SIZE, name, Size, lambda: inside.size(request), request)

    async def validate(self, request: ClassRequest) -> None:
        """As ``contract.Validates``. Raises Unimplemented where the driver inside cannot tell."""
        inside, name = self.driver, request.machine_class.metadata.name
        if not isinstance(inside, Validates):
            raise Unimplemented("this driver does not tell whether it accepts a class")
        await self._call(Operation.VALIDATE, name, type(None), lambda: inside.validate(request), request)

    async def console(self, request: MachineRequest) -> str:
        """As ``contract.Consoles``, bounded and without secrets. Raises Unimplemented where the driver inside
        shows none."""
        inside = self.driver
        if not isinstance(inside, Consoles):
            raise Unimplemented("this driver shows no consoles")
        told = await self._call(Operation.CONSOLE, request.name, str, lambda: inside.console(request))
        return answers.console_end(told) or answers.NOTHING_WRITTEN

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        """As ``contract.Updates``. Raises a DriverError: Unimplemented where the driver inside has no
        updates."""
        inside = self.driver
        if not isinstance(inside, Updates):
            raise Unimplemented("this driver updates no VM in place")
        try:
            return answers.checked(inside.hot_fields(machine_class), list[str], "hot_fields")
        except DriverError as error:
            raise answers.checked_error(error, "hot_fields") from error.__cause__
        except Exception as error:
            raise answers.unknown_error(error) from error

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        """As ``contract.Updates``. Raises Unimplemented where the driver inside has no updates."""
        inside = self.driver
        if not isinstance(inside, Updates):
            raise Unimplemented("this driver updates no VM in place")
        await self._call(
            Operation.UPDATE, request.name, type(None), lambda: inside.update(request, last_applied), request
        )

    def migrated_kinds(self) -> Sequence[Resource]:
        """As ``contract.Migrates``; none where the driver inside migrates none. Raises a DriverError for an
        answer that names no kinds."""
        inside = self.driver
        if not isinstance(inside, Migrates):
            return ()
        return answers.checked(inside.migrated_kinds(), list[Resource], "migrated_kinds")

    async def generate_machine_class(self, old: OldClass) -> MachineClass:
        """As ``contract.Migrates``. Raises Unimplemented where the driver inside migrates no classes."""
        inside = self.driver
        if not isinstance(inside, Migrates):
            raise Unimplemented("this driver migrates no classes")
        return await self._call(
            Operation.GENERATE, old.name, MachineClass, lambda: inside.generate_machine_class(old)
        )

    def _endpoints(self) -> Endpoints:
        if not isinstance(self.driver, Endpoints):
            raise Unimplemented("this driver offers no endpoints for API servers")
        return self.driver

    def statistics(self) -> Mapping[tuple[Operation, Code], int]:
        """How many calls have ended how, since the start; a snapshot."""
        return dict(self._counts)

    async def _call(
        self,
        operation: Operation,
        what: str,
        kind: type[T],
        call: Callable[[], Awaitable[object]],
        request: MachineRequest | ClassRequest | None = None,
    ) -> T:
        """One call; ``kind`` is the type of its answer."""
        began, code = self._clock.monotonic(), Code.Canceled
        try:
            answer = await self._in_slot(operation, what, kind, call)
            code = Code.OK
            return answer
        except DriverError as error:
            code = error.code
            raise
        finally:
            self._counts[operation, code] = self._counts.get((operation, code), 0) + 1
            seconds, provider = self._clock.monotonic() - began, self._provider_of(request)
            self._on_end(CallEnded(operation, code, seconds, provider))

    def _provider_of(self, request: MachineRequest | ClassRequest | None) -> str:
        if request is None or self._several is None:
            return ""
        return self._several.provider_of(request.machine_class)

    async def _in_slot(
        self, operation: Operation, what: str, kind: type[T], call: Callable[[], Awaitable[object]]
    ) -> T:
        slots, limits = self._slots[operation], self._limits[operation]
        try:
            async with asyncio.timeout(limits.seconds):
                await slots.acquire()
        except TimeoutError:
            busy = f"all {limits.slots} slots were taken for {limits.seconds:g} s; is the cloud slow?"
            raise _not_begun(operation, what, busy) from None
        if not self._entitled():
            slots.release()
            raise _not_begun(operation, what, "this process lost its Lease; the new leader calls")
        work = asyncio.create_task(_translated(operation, what, call))
        work.add_done_callback(lambda _: slots.release())
        try:
            await asyncio.wait({work}, timeout=limits.seconds)
            if work.done():
                return answers.checked(work.result(), kind, f"{operation.value} of {what}")
        finally:
            await _end(work, operation, what)
        late = f"{operation.value} of {what} was not answered within {limits.seconds:g} s"
        raise DriverError.of(Code.DeadlineExceeded, late)


def guarded(
    drivers: Mapping[str, Driver],
    clock: Clock,
    on_call: Callable[[str], Listener],
    entitled: Callable[[], bool],
) -> dict[str, GuardedDriver]:
    """Each of these drivers behind a guard; ``on_call`` makes the listener of one by its name."""
    return {
        name: GuardedDriver(each, clock, on_end=on_call(name), entitled=entitled)
        for name, each in drivers.items()
    }


def _not_begun(operation: Operation, what: str, why: str) -> DriverError:
    return DriverError.of(Code.Unavailable, f"{operation.value} of {what} was not begun: {why}", begun=False)


async def _end(work: asyncio.Task[object], operation: Operation, what: str) -> None:
    """Cancel a driver's call that still runs, and abandon it if it does not end by that."""
    if work.done():
        return
    work.cancel()
    await asyncio.wait({work}, timeout=LETS_GO)
    if not work.done():
        log.warning("a driver does not end a cancelled call", operation=operation.value, what=what)
    elif not work.cancelled():
        work.exception()  # its answer comes too late, whatever it is


async def _translated(operation: Operation, what: str, call: Callable[[], Awaitable[object]]) -> object:
    """Call the driver; the only exceptions that leave are ``DriverError`` and the caller's cancellation."""
    try:
        return await call()
    except DriverError as error:
        raise answers.checked_error(error, f"{operation.value} of {what}") from error.__cause__
    except TimeoutError as error:
        late = f"{operation.value} of {what} timed out in the driver: {error}"
        raise DriverError.of(Code.DeadlineExceeded, late[:MESSAGE_CHARS]) from error
    except (Exception, SystemExit, asyncio.CancelledError, BaseExceptionGroup) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        unknown = answers.unknown_error(error)
        log.warning(
            "a driver raised an exception that is no DriverError",
            operation=operation.value,
            what=what,
            error=unknown.message,
        )
        log.debug("where the driver failed", exc_info=error)
        raise unknown from error


_SECONDS = (0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 240.0)
"""Buckets from a cached answer to the longest deadline of a call; the wait for its slot counts as well."""


class DriverMetrics:
    """The two series; ``of`` gives the listener that feeds them for one provider."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "mcm_cloud_api_driver_request_duration_seconds",
            "Seconds that a driver took for one call, its wait for a slot included.",
            ("provider", "operation"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._failed = Counter(
            "mcm_cloud_api_driver_requests_failed",
            "Driver calls that ended with an error, by its code.",
            ("provider", "operation", "error_code"),
            registry=registry,
        )

    def of(self, provider: str) -> Listener:
        """A listener for ``guard.GuardedDriver(on_end=...)``; a driver that stands for several clouds names
        the one that was called."""

        def count(ended: CallEnded) -> None:
            cloud = ended.provider or provider
            self._seconds.labels(cloud, ended.operation.value).observe(ended.seconds)
            if ended.code not in (Code.OK, Code.Canceled):
                self._failed.labels(cloud, ended.operation.value, ended.code.name).inc()

        return count
