"""VMs that no object of ours wants: suspected, confirmed, and deleted, for the machines of every API.

Theory.      Which VMs are listed together, what keeps one and what has to leave it first differs between
             APIs: that is the ``Policy``. Everything else is the same: the rules of confirmation
             (``driver.life.orphans``), since when a VM is suspect and when its deletion was last tried, how
             the driver is asked, what users are told. The keys are those of the objects whose VMs are listed
             together: a MachineClass, a cluster. A VM that several keys list is suspect for each of them,
             since each may have other credentials. ``Suspects`` serves for VMs that lists lack in the same
             way: these are confirmed as gone. A process that starts anew confirms its suspects later, and
             nothing else changes.
Invariants.  Nothing is remembered of a VM that is no suspect. One VM that cannot be deleted delays no other:
             deletions of a pass run at the same time, and none of them raises. A VM is deleted only after its
             policy has asked the *server*. "There is no such machine" is an answer that names it: while the
             kind is not served every path of it answers 404.
Called by    the reconcilers of ``machines.orphans`` and ``infra.orphans``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

import structlog

from kubewright.api.kinds import Kind
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import soonest
from kubewright.driver import errors as cloud
from kubewright.driver.contract import ClassRequest, Driver, Instance, stub
from kubewright.driver.life.orphans import LONGEST_PASS, NotListed, OrphanSettings, Try, due, update_suspects
from kubewright.kube.client import Client
from kubewright.runtime.controller import Controller, Reconciler
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.queue import Curve
from kubewright.wire.errors import NotFound, is_refusal
from kubewright.wire.gvk import Key

T = TypeVar("T")
K = TypeVar("K")
T_contra = TypeVar("T_contra", contravariant=True)

NO_PAUSE = timedelta(0)
"""Nothing failed that a cloud asks to wait for: the next pass may go on."""
LIST_BACKOFF = Curve(base=delays.SHORT.seconds, cap=delays.LONG.seconds)
"""Between lists that fail: they cost a cloud more than other calls, and no machine waits for them."""

Collect = Callable[[Instance], Awaitable[timedelta | None]]
"""Goes on with the deletion of a VM. None: it is gone; else how long to wait at least before the next try."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Noted:
    """What a list of VMs has changed.

    ``new``        provider ids of VMs that were no suspects of this key before, sorted
    ``cleared``    those that are suspects of no key any more: gone, or wanted
    ``confirmed``  VMs that may be deleted, the oldest suspicion first
    ``wake``       in how many seconds the next suspect can be confirmed; None when there is none
    """

    new: Sequence[str] = ()
    cleared: AbstractSet[str] = frozenset()
    confirmed: Sequence[Instance] = ()
    wake: float | None = None


class Suspects:
    """The suspects of all keys."""

    def __init__(self, settings: OrphanSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._since: dict[Key, Mapping[str, float]] = {}
        self._tries: dict[Key, dict[str, Try]] = {}

    def note(self, key: Key, unwanted: Iterable[Instance], *, began: float) -> Noted:
        """Compare a list, of which nothing wants these VMs, with those before. ``began``: when it was asked
        for, in monotonic seconds; it has just been answered."""
        before = self._since.get(key, {})
        updated = update_suspects(
            unwanted,
            before,
            began=began,
            ended=self._clock.monotonic(),
            confirmation=self._settings.confirmation.total_seconds(),
        )
        self._since[key] = updated.suspects
        tries = self._tries.get(key, {})
        self._tries[key] = {vm: tried for vm, tried in tries.items() if vm in updated.suspects}
        return Noted(
            sorted(updated.suspects.keys() - before.keys()),
            self.unsuspected(before),
            updated.confirmed,
            updated.wake,
        )

    def forget(self, key: Key) -> AbstractSet[str]:
        """No VM of this key is suspect any more; which VMs are so for no other key."""
        self._tries.pop(key, None)
        return self.unsuspected(self._since.pop(key, {}))

    def unsuspected(self, vm_ids: Iterable[str]) -> AbstractSet[str]:
        """Those of these VMs that are suspect for no key."""
        return frozenset(vm_ids).difference(*self._since.values())

    async def collect(self, key: Key, noted: Noted, collect: Collect) -> float | None:
        """Try to delete the VMs that are due, at the same time. In how many seconds the next pass is worth
        its list; None: no suspect is left."""
        tries, began = self._tries[key], self._clock.monotonic()
        some = due(noted.confirmed, tries, now=began, at_once=self._settings.at_once)
        gone: set[str] = set()

        async def attempt(vm: Instance) -> None:
            tries[vm.provider_id] = Try(began, began)  # remembered also if the pass is cut short
            pause = await collect(vm)
            if pause is None:
                gone.add(vm.provider_id)
            else:
                tries[vm.provider_id] = Try(began, self._clock.monotonic() + pause.total_seconds())

        async with asyncio.TaskGroup() as group:
            for vm in some:
                group.create_task(attempt(vm))
        left = [vm.provider_id for vm in noted.confirmed if vm.provider_id not in gone]
        return soonest(noted.wake, self._next_try([tries.get(vm_id) for vm_id in left]))

    def counts(self) -> Iterable[tuple[Key, int]]:
        """How many VMs of each key are suspect now."""
        return [(key, len(since)) for key, since in self._since.items()]

    def _next_try(self, left: Sequence[Try | None]) -> float | None:
        """In how many seconds one of these may be tried: not before ``soon``."""
        if not left:
            return None
        now = self._clock.monotonic()
        first = min(tried.again - now if tried is not None else 0.0 for tried in left)
        return max(self._settings.soon.total_seconds(), first)


# ---------------------------------------------------------------- what differs between APIs


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a driver is asked for one VM.

    ``request``    of the class and the account that listed the VM
    ``namespace``  of the machine that the VM was made for
    ``owner``      for which object it was made; empty: it is known by its provider id alone
    ``because``    a clause
    ``nodes``      names of its nodes, which go after it
    """

    request: ClassRequest
    namespace: str
    owner: str
    because: str = "there is no such machine"
    nodes: AbstractSet[str] = frozenset()


class Policy(Protocol[T_contra]):
    """Of one API: what keeps a VM, what goes before and after it, and whom it is told.

    ``tells_of_gone``  whether a VM that the driver no longer has is told as deleted
    """

    tells_of_gone: bool

    async def may_go(self, target: T_contra, vm: Instance) -> Deletion | str:
        """What to delete. Else why the VM is spared, a clause; empty if something has to leave it first.

        Raises:
            KubewrightError: a server was asked in vain; a later pass asks again.
        """

    async def is_cleared(self, vm: Instance, deletion: Deletion) -> bool:
        """Whether what goes with a VM that is gone is gone, too."""

    def deleted(self, target: T_contra, message: str) -> None:
        """Tell users that a VM was deleted, and count it."""

    def failed(self, target: T_contra, message: str) -> None:
        """Tell users that a VM could not be deleted."""


class Collector(Generic[T]):
    """Deletes VMs that are confirmed as orphans. ``suspects``: those of all keys."""

    def __init__(self, policy: Policy[T], driver: Driver, suspects: Suspects) -> None:
        self.suspects = suspects
        self._policy = policy
        self._driver = driver
        self._under_way: set[str] = set()

    async def collect(self, key: Key, noted: Noted, target_of: Callable[[Instance], T]) -> float | None:
        """Go on with the deletions that are due. In how many seconds the next pass is worth its list."""

        async def attempt(vm: Instance) -> timedelta | None:
            return await self.attempt(target_of(vm), vm)

        return await self.suspects.collect(key, noted, attempt)

    async def attempt(self, target: T, vm: Instance) -> timedelta | None:
        """Go on with the deletion of a confirmed orphan. None: it is gone, and what goes with it; else how
        long to wait at least before it is tried again. One that several keys list is left to the one that
        began."""
        if vm.provider_id in self._under_way:
            return NO_PAUSE
        self._under_way.add(vm.provider_id)
        try:
            return None if await self._is_gone(target, vm) else NO_PAUSE
        except KubewrightError as error:
            log.warning("a VM without a machine is not gone", vm=vm.provider_id, error=str(error))
            if is_refusal(error):
                self._policy.failed(target, _not_deleted(vm, f"the API server refused: {error}"))
            return error.pause(cloud.During.DELETING) if isinstance(error, cloud.DriverError) else NO_PAUSE
        finally:
            self._under_way.discard(vm.provider_id)

    async def _is_gone(self, target: T, vm: Instance) -> bool:
        deletion = await self._policy.may_go(target, vm)
        if isinstance(deletion, str):
            if deletion:
                log.info("a VM without a machine is spared", vm=vm.provider_id, because=deletion)
            return False
        await self._delete(target, vm, deletion)
        return await self._policy.is_cleared(vm, deletion)

    async def _delete(self, target: T, vm: Instance, deletion: Deletion) -> None:
        known = {"provider_id": vm.provider_id, "node_name": vm.node_name}
        machine = stub(vm.machine_name, deletion.namespace, deletion.owner, **known)
        try:
            await self._driver.delete(deletion.request.of(machine))
        except cloud.NotFound:
            if not self._policy.tells_of_gone:
                return
        except cloud.DriverError as error:
            self._policy.failed(target, _not_deleted(vm, str(error)))
            raise
        log.warning("a VM without a machine is deleted", vm=vm.provider_id, machine=vm.machine_name)
        message = f"Deleted VM {vm.provider_id} of machine {vm.machine_name}: {deletion.because}"
        self._policy.deleted(target, message)


def _not_deleted(vm: Instance, why: str) -> str:
    return f"VM {vm.provider_id} of machine {vm.machine_name} is not deleted: {why}"


async def from_server(client: Client, kind: Kind[K], key: Key) -> K | None:
    """The object, as the server has it now and not a cache; None: there is no such object.

    Raises:
        ApiError, TransportError: the server did not say whether there is one.
    """
    try:
        return await client.get(kind, key)
    except NotFound as error:
        if not error.names(key.name):
            raise
        return None


async def listed(driver: Driver, request: ClassRequest, whose: str) -> Sequence[Instance]:
    """The VMs that a driver has for a request.

    Raises:
        Unimplemented: it cannot tell.
        NotListed: the cloud did not answer with a list.
    """
    try:
        return await driver.list(request)
    except cloud.Unimplemented:
        raise
    except cloud.DriverError as error:
        raise NotListed(f"the VMs of {whose} were not listed: {error}") from error


def controller(name: str, reconciler: Reconciler, clock: Clock, metrics: Metrics) -> Controller:
    """A controller whose passes list VMs."""
    return Controller(
        name, reconciler, clock, workers=4, timeout=LONGEST_PASS, metrics=metrics, curve=LIST_BACKOFF
    )
