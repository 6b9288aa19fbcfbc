"""What the test has left in the cloud: the resource tracker of a driver, or the driver's own list of VMs.

Theory.      MCM's Resource Tracker Interface has two calls: one before the cases, which looks at the cloud as
             it is then, and one after them, which says whether something is left. The author of a driver may
             write one that looks at disks, interfaces and addresses too: a driver that has both methods, or
             an object in a file of cases. Without one, the VMs that the driver lists by the classes of the
             test are compared; a driver without a list has no tracker.
Invariants.  What a tracker raises or answers never ends the test: it is what the last case says.
Source       seed 004, "Adding Integration Tests for new providers"; mcm.md §14.2.
Called by    ``run``; ``cases`` asks at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import structlog

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.errors import InvalidInput
from kubewright.driver.contract import ClassRequest, Driver
from kubewright.driver.errors import DriverError, Unimplemented
from kubewright.integration.classes import secret_keys
from kubewright.kube.client import Client
from kubewright.wire.errors import NotFound

NO_TRACKER = "no driver is named whose VMs could be listed (--driver), and no tracker is given"

log = structlog.get_logger(__name__)

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


@dataclass(slots=True)
class ListTracker:
    """A tracker for every driver that lists its VMs; it may be initialized for several classes."""

    driver: Driver
    _before: set[str] = field(default_factory=set)
    _asked: list[ClassRequest] = field(default_factory=list)

    async def initialize_resources_tracker(
        self, machine_class: MachineClass, secret_data: Mapping[str, bytes], _cluster_name: str
    ) -> None:
        """As ``ResourcesTracker``.

        Raises:
            DriverError: the VMs cannot be listed.
        """
        request = ClassRequest(machine_class, Secret(data=dict(secret_data)))
        self._before |= {each.provider_id for each in await self.driver.list(request)}
        self._asked.append(request)

    async def is_orphaned_resources_available(self) -> Sequence[str]:
        """The VMs that the driver lists and did not list before."""
        found: dict[str, str] = {}
        for request in self._asked:
            for each in await self.driver.list(request):
                found[each.provider_id] = (
                    f"VM {each.provider_id} of machine {each.machine_name or '(unknown)'}"
                )
        return [told for vm, told in sorted(found.items()) if vm not in self._before]


@dataclass(slots=True)
class Tracked:
    """The tracker as the cases ask it. ``why_not``: why there is none; empty where there is one."""

    tracker: ResourcesTracker | None
    why_not: str = ""

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
        every = classes if isinstance(self.tracker, ListTracker) else classes[:1]
        secrets = [await secret_data(control, each) for each in every]
        try:
            for each, data in zip(every, secrets, strict=True):
                await self.tracker.initialize_resources_tracker(each, data, cluster_name)
        except Unimplemented:
            self.why_not = "this driver lists no VMs, and has no tracker"
        except Exception as error:  # a tracker is code of other authors
            raise InvalidInput(f"the resource tracker cannot begin: {_told(error)}") from error

    async def left(self) -> list[str]:
        """What is left, in a few words each; also that the tracker cannot say it."""
        if self.tracker is None or self.why_not:
            return []
        try:
            return what_is_left(await self.tracker.is_orphaned_resources_available())
        except Exception as error:  # a tracker is code of other authors
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


def _told(error: Exception) -> str:
    """An error of a tracker; a driver's own words, or what Python calls it and its words."""
    return str(error) if isinstance(error, DriverError | InvalidInput) else f"{type(error).__name__}: {error}"
