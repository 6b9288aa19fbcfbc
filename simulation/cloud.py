"""The connection from a manager to the simulated cloud: calls that outlive their callers, and their faults.

Theory.      As a request on a network, a driver call is carried out by the other side: a task of the
             cloud's process. When a manager is killed, or stops waiting, the cloud still finishes its
             call. Faults are those of a real cloud: an error instead of the work, an error
             after the work, an answer that comes late or never, no capacity, work that is done long
             after its caller got a timeout, an answer that was true some seconds ago.
Invariants.  The driver inside sees each call at most once, and to its end.
Called by    ``managers``, which puts it between the product's ``GuardedDriver`` and ``providers.sim``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import structs

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock
from kubewright.driver.contract import (
    ClassRequest,
    Driver,
    Endpoints,
    Instance,
    MachineRequest,
    Size,
    Sizes,
    Updates,
    VolumeSpec,
)
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented
from simulation.loop import Process

T = TypeVar("T")

LEG_SECONDS = (0.001, 0.02)
HANG_SECONDS = 4.0
"""How long a call hangs before it does its work: less than ``MachineSettings.confirm_absent``."""
LATE_SECONDS = 8.0
VERY_LATE_SECONDS = 60.0
"""After so long a cloud does work that its caller has given up: far beyond ``confirm_absent``."""
STALE_SECONDS = 5.0
"""How old a stale answer is. With a creation that hangs it stays below ``confirm_absent``."""

Answer = asyncio.Future[tuple[Any, DriverError | None]]
Choose = Callable[[str, str], str]
"""The fault word for a verb and a name; empty for none."""


class OtherAccount:
    """What a driver finds that was not given the secrets of its class, and took credentials from elsewhere:
    an account without our VMs."""

    async def create(self, request: MachineRequest) -> Instance:
        raise DriverError.of(Code.PermissionDenied, f"{request.name}: these credentials make no VMs")

    async def initialize(self, request: MachineRequest) -> Instance:
        raise NotFound(f"this account has no VM {request.name}")

    async def delete(self, request: MachineRequest) -> str | None:
        raise NotFound(f"this account has no VM {request.name}")

    async def status(self, request: MachineRequest) -> Instance:
        raise NotFound(f"this account has no VM {request.name}")

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return ()

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return ()


class RemoteDriver:
    """A ``Driver`` on the other side of a network. A request without the secrets of its class reaches
    ``OtherAccount``."""

    def __init__(
        self,
        driver: Driver,
        cloud: Process,
        clock: Clock,
        choose: Choose,
        heard: Callable[[MachineRequest], None] = lambda _request: None,
    ) -> None:
        self._driver = driver
        self._cloud = cloud
        self._clock = clock
        self._choose = choose
        self._heard = heard
        """Told of each deletion when it is asked for."""

    async def create(self, request: MachineRequest) -> Instance:
        account = self._account(request)
        return await self._call("create", request.name, lambda: account.create(request))

    async def initialize(self, request: MachineRequest) -> Instance:
        account = self._account(request)
        return await self._call("initialize", request.name, lambda: account.initialize(request))

    async def delete(self, request: MachineRequest) -> str | None:
        account = self._account(request)
        self._heard(request)
        return await self._call("delete", request.name, lambda: account.delete(request))

    async def status(self, request: MachineRequest) -> Instance:
        account, then = self._account(request), partial(self._status_then, request)
        return await self._call("status", request.name, lambda: account.status(request), then)

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        account, then = self._account(request), partial(self._list_then, request)
        name = request.machine_class.metadata.name
        return await self._call("list", name, lambda: account.list(request), then)

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return await self._driver.volume_ids(volumes)

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        driver, name = self._driver, request.machine_class.metadata.name
        if not isinstance(driver, Endpoints):
            raise Unimplemented("this cloud has no endpoints")
        return await self._call("endpoint", name, lambda: driver.endpoint(request))

    async def release(self, request: ClassRequest) -> None:
        driver, name = self._driver, request.machine_class.metadata.name
        if not isinstance(driver, Endpoints):
            raise Unimplemented("this cloud has no endpoints")
        await self._call("release", name, lambda: driver.release(request))

    async def size(self, request: ClassRequest) -> Size:
        driver = self._driver
        if not isinstance(driver, Sizes):
            raise Unimplemented("this cloud tells no sizes")
        return await driver.size(request)

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        return self._changing().hot_fields(machine_class)

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        """Work that its caller has given up is done soon, or not at all: no driver could tell it from what a
        user changes in the cloud."""
        work = partial(self._changing().update, request, last_applied)
        await self._call("update", request.name, work, words={"very-late": "hang"})

    def _changing(self) -> Updates:
        if not isinstance(self._driver, Updates):
            raise Unimplemented("this cloud changes no VM")
        return self._driver

    def _account(self, request: MachineRequest | ClassRequest) -> Driver:
        strange = request.machine_class.secret_ref is not None and not request.secret.data
        return OtherAccount() if strange else self._driver

    async def _call(
        self,
        verb: str,
        name: str,
        work: Callable[[], Awaitable[T]],
        then: Callable[[], Awaitable[T]] | None = None,
        *,
        words: Mapping[str, str] = MappingProxyType({}),
    ) -> T:
        """One call; ``then`` gives the answer that was true ``STALE_SECONDS`` ago, where there is one. Faults
        in ``words`` are others for it."""
        answer: Answer = asyncio.get_running_loop().create_future()
        chosen = self._choose(verb, name)
        word = words.get(chosen, chosen)
        if word == "stale" and then is not None:
            work = then
        self._cloud.spawn(self._serve(word, work, answer), name=f"{verb} {name}")
        result, error = await answer
        if error is not None:
            raise error
        found: T = result
        return found

    async def _serve(
        self,
        word: str,
        work: Callable[[], Awaitable[Any]],
        answer: Answer,
    ) -> None:
        await self._clock.sleep(self._clock.random.uniform(*LEG_SECONDS))
        result: Any = None
        error = await self._before(word, answer)
        if error is None:
            try:
                result = await work()
            except DriverError as refused:
                error = refused
            error = await self._after(word, error)
        if not answer.done() and word != "lost":
            answer.set_result((result, error))

    async def _before(self, word: str, answer: Answer) -> DriverError | None:
        match word:
            case "fail":
                return DriverError.of(Code.Unavailable, "the cloud cannot be reached (injected)")
            case "quota":
                return DriverError.of(Code.ResourceExhausted, "no capacity left (injected)")
            case "hang":
                await self._clock.sleep(HANG_SECONDS)
            case "very-late":
                await self._clock.sleep(HANG_SECONDS)
                if not answer.done():
                    late = DriverError.of(Code.DeadlineExceeded, "the cloud is slow (injected)")
                    answer.set_result((None, late))
                await self._clock.sleep(VERY_LATE_SECONDS - HANG_SECONDS)
        return None

    async def _after(self, word: str, error: DriverError | None) -> DriverError | None:
        if word == "late":
            await self._clock.sleep(LATE_SECONDS)
        if word == "fail-after" and error is None:
            return DriverError.of(Code.Internal, "the answer got lost in the cloud (injected)")
        return error

    async def _list_then(self, request: ClassRequest) -> Sequence[Instance]:
        spec = {**request.machine_class.provider_spec, "listLagSeconds": STALE_SECONDS}
        late = structs.replace(request.machine_class, provider_spec=spec)
        return await self._account(request).list(replace(request, machine_class=late))

    async def _status_then(self, request: MachineRequest) -> Instance:
        for vm in await self._list_then(ClassRequest(request.machine_class, request.secret)):
            if (vm.machine_name, vm.owner_uid) == (request.name, request.owner_uid):
                return vm
        raise NotFound(f"there was no VM for machine {request.name} (injected)")
