"""Cloud calls in flight, and what came of the last one for each machine.

Theory.      Clouds answer in seconds or minutes; a worker that waited for them would be lost for
             everybody else. So a call is a task of its own: ``start`` returns at once, ``seen``
             tells how it stands, and ``on_done`` wakes the machine. What is kept here is only
             knowledge, never intent: after a restart it is empty, and the idempotent driver is
             simply asked again.
Invariants.  At most one call per machine at a time, so a delete never overtakes a create.
             ``driver`` is fenced (``driver.calls``): it ends in time, with an error of the
             vocabulary if at all. A creation that was cut short (deadline, lost answer) leaves a
             ``doubt``: the cloud may still carry it out. So does our own start: the process
             before us may have died with a creation on its lips.
Called by    ``act`` (starts), ``look`` (looks).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.driver.contract import Driver, Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented, Uninitialized
from kubewright.machines.machine.steps import Verb
from kubewright.wire.errors import is_refusal
from kubewright.wire.gvk import Key

_CERTAIN = frozenset((
    Code.InvalidArgument, Code.NotFound, Code.PermissionDenied, Code.ResourceExhausted,
    Code.FailedPrecondition, Code.OutOfRange, Code.Unimplemented, Code.Unauthenticated,
))  # fmt: skip
"""Codes by which a cloud says that nothing was done. Any other failed creation may have left a VM."""

Ask = Callable[[], Awaitable[MachineRequest]]
"""Makes the request of a call; it runs beside the workers too, for it may need a bootstrap token."""


@dataclass(frozen=True, slots=True)
class VmSeen:
    """What this process knows about one machine's VM, from the last call and those before it.

    ``began``, ``ended``  of the last call; ``ended`` is None while it runs
    ``instance``          the VM, when the last completed call found or made one
    ``absent``            the cloud's last word was that there is no VM
    ``deleted``           a deletion has succeeded, and no VM was seen since
    ``initializing``      the VM is there, its initialization failed
    ``doubt``             when a creation of ours last ended without a definite answer
    ``inputs``            what the call was made from: a change of them is worth another try
    """

    verb: Verb | None = None
    began: datetime | None = None
    ended: datetime | None = None
    instance: Instance | None = None
    error: DriverError | None = None
    absent: bool = False
    deleted: bool = False
    initializing: bool = False
    doubt: datetime | None = None
    inputs: str = ""

    @property
    def running(self) -> bool:
        return self.began is not None and self.ended is None

    def settled(self, verb: Verb) -> bool:
        """Whether the last call was ``verb`` and came to a good end."""
        return self.verb is verb and not self.running and self.error is None

    def failed(self, verb: Verb) -> DriverError | None:
        """The error that the last call ended with, if it was ``verb``."""
        return self.error if self.verb is verb and not self.running else None


NOTHING = VmSeen()


class VmCalls:
    """All cloud calls of this process, by machine uid."""

    def __init__(self, driver: Driver, clock: Clock, on_done: Callable[[Key], None]) -> None:
        self._driver = driver
        self._clock = clock
        self._on_done = on_done
        self._started = clock.monotonic()
        self._seen: dict[str, VmSeen] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def started(self) -> datetime:
        """Since when the calls are ours."""
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - self._started)

    def seen(self, uid: str) -> VmSeen:
        """How it stands with the VM of the machine with this uid."""
        return self._seen.get(uid, NOTHING)

    def busy(self, uid: str) -> bool:
        """Whether a call for the machine with this uid runs, even if the machine is forgotten."""
        return uid in self._tasks

    def forget(self, uid: str) -> None:
        """The machine is gone for good; a call that still runs finishes unheard."""
        self._seen.pop(uid, None)

    def start(self, key: Key, uid: str, verb: Verb, ask: Ask, *, inputs: str) -> None:
        """Begin a call; a second one while the first runs is ignored."""
        if uid in self._tasks:
            return
        before = self.seen(uid)
        self._seen[uid] = replace(before, verb=verb, began=self._clock.now(), ended=None, inputs=inputs)
        self._tasks[uid] = asyncio.create_task(
            self._run(key, uid, self._outcome(verb, ask, before)), name=f"{verb.value} {key}"
        )

    async def run(self) -> None:
        """Own the calls until cancelled: what still runs then is cancelled too.

        Our time begins now, not when this object was made: until we led, another process made calls.
        """
        self._started = self._clock.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Cancel what runs and wait for it; the next process asks the cloud again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)

    async def _run(self, key: Key, uid: str, outcome: Awaitable[VmSeen]) -> None:
        try:
            after = await outcome
            if (now := self._seen.get(uid)) is not None:
                ended = self._clock.now()
                self._seen[uid] = replace(
                    after, verb=now.verb, began=now.began, ended=ended, inputs=now.inputs
                )
        finally:
            del self._tasks[uid]
        self._on_done(key)

    async def _outcome(self, verb: Verb, ask: Ask, before: VmSeen) -> VmSeen:
        try:
            return await self._perform(verb, await ask(), before)
        except DriverError as failure:
            return replace(before, error=failure, initializing=False)
        except KubewrightError as failure:  # the cloud was not even asked
            code = Code.FailedPrecondition if is_refusal(failure) else Code.Unavailable
            told = DriverError.of(code, f"the request could not be made: {failure}")
            return replace(before, error=told)

    async def _perform(self, verb: Verb, request: MachineRequest, before: VmSeen) -> VmSeen:
        match verb:
            case Verb.ENSURE:
                return await self._ensure(request, before)
            case Verb.LOOK:
                return await self._look(request, before)
            case Verb.DELETE:
                return await self._delete(request, before)

    async def _ensure(self, request: MachineRequest, before: VmSeen) -> VmSeen:
        """Find, else make, then initialize (mcm.md §3.4, §4.4). Making is idempotent by name and owner.

        An initialization that finds no VM is skipped (seed 004, InitializeMachine); when there is none, the
        creation timeout says so. A VM without its names is not believed: it could never be found again.
        """
        found, whole = await self._find(request)
        if found is None:
            try:
                found = await self._driver.create(request)
            except DriverError as failure:
                doubt = before.doubt if failure.code in _CERTAIN else self._clock.now()
                return replace(before, error=failure, initializing=False, doubt=doubt)
        if not whole:
            try:
                found = _filled(await self._driver.initialize(request), found)
            except (NotFound, Unimplemented):
                pass
            except DriverError as failure:
                return replace(self._believed(found, before), error=failure, initializing=True)
        return self._believed(found, before)

    def _believed(self, found: Instance, before: VmSeen) -> VmSeen:
        """A VM as it may be recorded. One that lacks a name exists all the same, which is a doubt."""
        if not (lacks := _lacks(found)):
            return VmSeen(instance=found, doubt=before.doubt)
        error = DriverError.of(Code.Internal, f"the driver answered with a VM without {lacks}")
        return replace(before, error=error, initializing=False, doubt=self._clock.now())

    async def _find(self, request: MachineRequest) -> tuple[Instance | None, bool]:
        """The VM and whether it is initialized. One on record is believed in where nobody can see it.

        It is never made a second time; without a node's name on record there is only an error to tell.
        """
        known = Instance(request.provider_id, request.node_name)
        try:
            return _filled(await self._driver.status(request), known), True
        except Uninitialized as half:
            return _filled(Instance(half.provider_id, half.node_name), known), False
        except (NotFound, Unimplemented):
            if not request.provider_id:
                return None, False
            if request.node_name:
                return known, True
            text = f"VM {request.provider_id} is on record, and the cloud does not know it"
            raise DriverError.of(Code.Internal, text) from None

    async def _look(self, request: MachineRequest, before: VmSeen) -> VmSeen:
        try:
            found = await self._driver.status(request)
        except Uninitialized as half:
            found = Instance(half.provider_id, half.node_name)
        except NotFound:
            return VmSeen(absent=True, deleted=before.deleted, doubt=before.doubt)
        except Unimplemented:  # then only another deletion can tell
            return replace(before, error=None, absent=False, deleted=False)
        return VmSeen(instance=None if _lacks(found) else found, doubt=before.doubt)

    async def _delete(self, request: MachineRequest, before: VmSeen) -> VmSeen:
        with suppress(NotFound):
            await self._driver.delete(request)
        return VmSeen(absent=True, deleted=True, doubt=before.doubt)


def _filled(answer: Instance, known: Instance) -> Instance:
    """A driver's answer, with the names that it left out as they were known before."""
    return replace(
        answer,
        provider_id=answer.provider_id or known.provider_id,
        node_name=answer.node_name or known.node_name,
    )


def _lacks(found: Instance) -> str:
    """Which name a VM has not got, without which it cannot be found again; empty if none."""
    if not found.provider_id:
        return "a provider id"
    return "" if found.node_name else "a node name"
