"""Cloud calls in flight, and what came of the last one for each machine.

Theory.      Clouds answer in seconds or minutes; a worker that waited for them would be lost for
             everybody else. So a call is a task of its own: ``start`` returns at once, ``seen``
             tells how it stands, and ``on_done`` wakes the machine. What is kept here is only
             knowledge, never intent: after a restart it is empty, and the idempotent driver is
             simply asked again.
Invariants.  At most one call per machine at a time, so a delete never overtakes a create.
             ``driver`` is fenced (``driver.calls``): it ends in time, with an error of the vocabulary
             if at all. A creation that was cut short (deadline, lost answer)
             leaves a ``doubt``: the cloud may still carry it out. So does our own start: the
             process before us may have died with a creation on its lips.
Called by    ``act`` (starts), ``observe`` (looks).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from kubewright.base.clock import Clock
from kubewright.driver.contract import Driver, Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented, Uninitialized
from kubewright.machines.machine.steps import Verb
from kubewright.wire.gvk import Key

_CERTAIN = frozenset((
    Code.InvalidArgument, Code.NotFound, Code.PermissionDenied, Code.ResourceExhausted,
    Code.FailedPrecondition, Code.OutOfRange, Code.Unimplemented, Code.Unauthenticated,
))  # fmt: skip
"""Codes by which a cloud says that nothing was done. Any other failed creation may have left a VM."""


@dataclass(frozen=True, slots=True)
class VmSeen:
    """What this process knows about one machine's VM, from the last call and those before it.

    ``began``, ``ended``  of the last call; ``ended`` is None while it runs
    ``instance``          the VM, when the last completed call found or made one
    ``initializing``      the VM is there, its initialization failed
    ``doubt``             when a creation of ours last ended without a definite answer
    ``inputs``            what the call was made from: a change of them is worth another try
    """

    verb: Verb | None = None
    began: datetime | None = None
    ended: datetime | None = None
    instance: Instance | None = None
    error: DriverError | None = None
    initializing: bool = False
    doubt: datetime | None = None
    inputs: str = ""

    @property
    def running(self) -> bool:
        return self.began is not None and self.ended is None

    def settled(self, verb: Verb) -> bool:
        """Whether the last call was ``verb`` and came to a good end."""
        return self.verb is verb and not self.running and self.error is None


NOTHING = VmSeen()


class VmCalls:
    """All cloud calls of this process, by machine uid."""

    def __init__(self, driver: Driver, clock: Clock, on_done: Callable[[Key], None]) -> None:
        self._driver = driver
        self._clock = clock
        self._on_done = on_done
        self.started = clock.now()
        self._seen: dict[str, VmSeen] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def seen(self, uid: str) -> VmSeen:
        return self._seen.get(uid, NOTHING)

    def forget(self, uid: str) -> None:
        """The machine is gone for good; a call that still runs finishes unheard."""
        self._seen.pop(uid, None)

    def start(self, key: Key, verb: Verb, request: MachineRequest, inputs: str) -> None:
        """Begin a call; a second one while the first runs is ignored."""
        uid = request.owner_uid
        if uid in self._tasks:
            return
        before = self.seen(uid)
        self._seen[uid] = replace(before, verb=verb, began=self._clock.now(), ended=None, inputs=inputs)
        task = asyncio.create_task(self._run(key, verb, request, before), name=f"{verb.value} {key}")
        self._tasks[uid] = task

    async def run(self) -> None:
        """Own the calls until cancelled: what still runs then is cancelled too."""
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

    async def _run(self, key: Key, verb: Verb, request: MachineRequest, before: VmSeen) -> None:
        uid = request.owner_uid
        try:
            after = await self._outcome(verb, request, before)
            if (now := self._seen.get(uid)) is not None:
                ended = self._clock.now()
                self._seen[uid] = replace(after, verb=verb, began=now.began, ended=ended, inputs=now.inputs)
        finally:
            del self._tasks[uid]
        self._on_done(key)

    async def _outcome(self, verb: Verb, request: MachineRequest, before: VmSeen) -> VmSeen:
        try:
            return await self._perform(verb, request, before)
        except DriverError as failure:
            error = failure
        doubt = self._clock.now() if verb is Verb.ENSURE and error.code not in _CERTAIN else before.doubt
        return replace(before, error=error, doubt=doubt, initializing=False)

    async def _perform(self, verb: Verb, request: MachineRequest, before: VmSeen) -> VmSeen:
        match verb:
            case Verb.ENSURE:
                return await self._ensure(request, before)
            case Verb.LOOK:
                return await self._look(request, before)
            case Verb.DELETE:
                return await self._delete(request, before)

    async def _ensure(self, request: MachineRequest, before: VmSeen) -> VmSeen:
        """Find, else make, then initialize (mcm.md §3.4, §4.4). Making is idempotent by name and owner."""
        fresh = False
        try:
            instance = await self._driver.status(request)
        except Uninitialized as half:
            instance, fresh = Instance(half.provider_id, half.node_name), True
        except (NotFound, Unimplemented):
            instance, fresh = await self._driver.create(request), True
        if fresh:
            try:
                instance = await self._driver.initialize(request)
            except Unimplemented:
                pass
            except DriverError as failure:
                return VmSeen(instance=instance, error=failure, initializing=True, doubt=before.doubt)
        return VmSeen(instance=instance, doubt=before.doubt)

    async def _look(self, request: MachineRequest, before: VmSeen) -> VmSeen:
        try:
            found: Instance | None = await self._driver.status(request)
        except Uninitialized as half:
            found = Instance(half.provider_id, half.node_name)
        except (NotFound, Unimplemented):
            found = None
        return replace(before, instance=found, error=None)

    async def _delete(self, request: MachineRequest, before: VmSeen) -> VmSeen:
        with suppress(NotFound):
            await self._driver.delete(request)
        return VmSeen(doubt=before.doubt)
