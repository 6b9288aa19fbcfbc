"""What the test has left in the cloud: the resource tracker of a driver, or the driver's own list of VMs.

Theory.      MCM's Resource Tracker Interface has two calls: one before the cases, which looks at the cloud as
             it is then, and one after them, which says whether something is left. The author of a driver may
             write one that looks at disks, interfaces and addresses too: a driver that has both methods, or
             an object in a file of cases. Without one, the VMs that the driver lists by the classes of the
             test are compared; a driver without a list has no tracker.
Invariants.  What a tracker raises or answers never ends the test: it is what the last case says.
Source       ITS-03.
Called by    ``run``; ``cases`` asks at the end.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import structlog

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.driver.contract import ClassRequest, Driver, Instance, Leading
from kubewright.driver.errors import DriverError, Unimplemented
from kubewright.integration.classes import secret_keys
from kubewright.integration.managers import Managers
from kubewright.kube.client import Client
from kubewright.wire.errors import NotFound

NO_TRACKER = "no driver is named whose VMs could be listed (--driver), and no tracker is given"

log = structlog.get_logger(__name__)

REST_SECONDS = 30.0
"""How long a manager works, at least, before it rests again to let its VMs be listed."""

DIAL_SECONDS = 30.0
"""A driver in another process dials every five seconds, and is looked for so often."""
AGAIN_SECONDS = 0.5

KEPT = 100
"""At most so many things that are left are told of."""


@runtime_checkable
class ResourcesTracker(Protocol):
    """What the author of a driver offers, on the driver or in a file of cases."""

    async def initialize_resources_tracker(
        self, machine_class: MachineClass, secret_data: Mapping[str, bytes], cluster_name: str
    ) -> None:
        """Before the first case: look at the cloud as it is. What it raises ends the test."""
        ...

    async def is_orphaned_resources_available(self) -> Sequence[str] | bool:
        """After the cases: what is left, a few words for each thing; or only whether something is."""
        ...


class _Lists(ABC):
    """Compares what is listed by some classes, before and after; ``_listed`` is how."""

    def __init__(self) -> None:
        self._before: set[str] = set()
        self._asked: list[ClassRequest] = []

    @abstractmethod
    async def _listed(self, requests: Sequence[ClassRequest]) -> list[Instance]:
        """What there is by these classes."""

    async def initialize_resources_tracker(
        self, machine_class: MachineClass, secret_data: Mapping[str, bytes], _cluster_name: str
    ) -> None:
        """As ``ResourcesTracker``; also for several classes, one after another.

        Raises:
            DriverError: the VMs cannot be listed.
        """
        request = ClassRequest(machine_class, Secret(data=dict(secret_data)))
        self._before |= {each.provider_id for each in await self._listed([request])}
        self._asked.append(request)

    async def is_orphaned_resources_available(self) -> Sequence[str]:
        """The VMs that the driver lists and did not list before."""
        found = {
            each.provider_id: f"VM {each.provider_id} of machine {each.machine_name or '(unknown)'}"
            for each in await self._listed(self._asked)
        }
        return [told for vm, told in sorted(found.items()) if vm not in self._before]


class ListTracker(_Lists):
    """A tracker for every driver that lists its VMs."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

    async def _listed(self, requests: Sequence[ClassRequest]) -> list[Instance]:
        return await _list(self._driver, requests)


class FolderTracker(_Lists):
    """The same for a driver that one process at a time may work on, as its VMs are in a folder: the manager,
    which the test has started, rests while it is asked. Drivers that dial in (``contract.Leading``) dial in
    here meanwhile."""

    def __init__(
        self,
        load: Callable[[], Driver],
        close: Callable[[object], Awaitable[None]],
        managers: Managers,
        clock: Clock,
    ) -> None:
        super().__init__()
        self._load, self._close, self._managers, self._clock = load, close, managers, clock

    async def _listed(self, requests: Sequence[ClassRequest]) -> list[Instance]:
        await self._managers.stop()
        try:
            driver = self._load()
            try:
                async with _leading(driver):
                    return await self._once_there(driver, requests)
            finally:
                await self._close(driver)
        finally:
            await self._managers.start()

    async def _once_there(self, driver: Driver, requests: Sequence[ClassRequest]) -> list[Instance]:
        """What it lists, when one has dialled in that serves the classes."""
        deadline = self._clock.monotonic() + DIAL_SECONDS
        while True:
            try:
                return await _list(driver, requests)
            except DriverError as error:
                if error.begun or self._clock.monotonic() >= deadline:
                    raise
            await self._clock.sleep(AGAIN_SECONDS)


async def _list(driver: Driver, requests: Sequence[ClassRequest]) -> list[Instance]:
    return [each for request in requests for each in await driver.list(request)]


@asynccontextmanager
async def _leading(driver: Driver) -> AsyncIterator[None]:
    """Let drivers dial in, if that is what it is for, with the time that they need to come."""
    if not isinstance(driver, Leading):
        yield
        return
    term = asyncio.ensure_future(driver.lead())
    try:
        yield
    finally:
        term.cancel()
        await asyncio.gather(term, return_exceptions=True)


@dataclass(slots=True)
class Tracked:
    """The tracker as the cases ask it. ``why_not``: why there is none; empty where there is one."""

    tracker: ResourcesTracker | None
    why_not: str = ""

    @property
    def pause(self) -> float:
        """From one question to the next at least, in seconds."""
        return REST_SECONDS if isinstance(self.tracker, FolderTracker) else 0.0

    async def begin(self, control: Client, classes: Sequence[MachineClass], cluster_name: str) -> None:
        """Let it look at the cloud; also without a tracker, a Secret that is missing is found here.

        Raises:
            InvalidInput: it cannot, or a Secret is missing.
        """
        if self.tracker is None:
            for each in classes:
                await secret_data(control, each)
            self.why_not = self.why_not or NO_TRACKER
            return
        every = classes if isinstance(self.tracker, _Lists) else classes[:1]
        secrets = [await secret_data(control, each) for each in every]
        try:
            for each, data in zip(every, secrets, strict=True):
                await self.tracker.initialize_resources_tracker(each, data, cluster_name)
        except Unimplemented:
            self.why_not = "this driver lists no VMs, and has no tracker"
        except InvalidInput as error:
            if not isinstance(self.tracker, ListTracker):
                raise
            self.why_not = f"the driver cannot list its VMs here: {error}"
        except (Exception, SystemExit) as error:  # a tracker is code of other authors
            raise InvalidInput(f"the resource tracker cannot begin: {_told(error)}") from error

    async def left(self) -> list[str]:
        """What is left, in a few words each; also that the tracker cannot say it."""
        if self.tracker is None or self.why_not:
            return []
        try:
            return what_is_left(await self.tracker.is_orphaned_resources_available())
        except (Exception, SystemExit) as error:  # a tracker is code of other authors
            log.warning("the resource tracker has failed", error=str(error), exc_info=error)
            return [f"the resource tracker cannot say what is left: {_told(error)}"]


def what_is_left(answer: Any) -> list[str]:
    """The answer of a tracker in words, whether it names things or only says that there are some."""
    if isinstance(answer, bool) or answer is None:
        return ["something; the tracker does not say what"] if answer else []
    if isinstance(answer, str):
        return [answer] if answer else []
    if not isinstance(answer, Sequence):
        return [f"the resource tracker answers {type(answer).__name__}, and should answer words or a bool"]
    return [str(each) for each in answer[:KEPT]]


async def secret_data(control: Client, machine_class: MachineClass) -> dict[str, bytes]:
    """What the Secrets of a class hold, as a driver is given it.

    Raises:
        InvalidInput: one is missing.
        ApiError, TransportError: the server refused, or did not answer.
    """
    data: dict[str, bytes] = {}
    for key in secret_keys(machine_class):
        try:
            data |= (await control.get(SECRET, key)).data
        except NotFound:
            raise InvalidInput(
                f"there is no Secret {key.name} in namespace {key.namespace} of the control cluster, which "
                f"MachineClass {machine_class.name} names; create it with the credentials and userData"
            ) from None
    return data


def _told(error: BaseException) -> str:
    """An error of a tracker; a driver's own words, or what Python calls it and its words."""
    return str(error) if isinstance(error, DriverError | InvalidInput) else f"{type(error).__name__}: {error}"
