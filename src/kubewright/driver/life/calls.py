"""The calls about VMs that are in flight, as tasks; what one call asks, and what is known of the VM after it.

Theory.      Clouds answer in seconds or minutes; a worker that waited for them would be lost for all other
             objects. So a call is a task of its own: ``start`` returns at once, ``seen`` tells how it stands,
             and ``on_done`` wakes the object. What is kept here is only knowledge, never intent. A call may
             take several verbs of the driver (ensure: status, create, initialize). Whatever they answer
             becomes one ``VmSeen``; a failure keeps what was known before. What the driver leaves for its
             next call is kept until it says something else. A creation that cannot succeed as it is makes it
             void, and so does a deletion. What a VM has of its class is known of a creation that was the
             first to be asked for, and of an update that was answered; not of a VM that was found.
Invariants.  A creation that the driver did not definitely refuse leaves a doubt. A VM without its names is
             not recorded: it could never be found again. Nothing but cancellation is raised.
             At most one call per object at a time, beside one that reads its VM's console: that changes
             nothing, and nothing waits for it.
             ``driver`` is guarded (``driver.guard``): a call ends in time, and if it fails, then with an
             error of the vocabulary.
Called by    the controller of the objects; a program owns ``run``.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.driver import hot
from kubewright.driver.contract import Driver, Instance, MachineRequest, Updates
from kubewright.driver.errors import (
    TELLING,
    Code,
    DriverError,
    NotFound,
    Trouble,
    Unimplemented,
    Uninitialized,
)
from kubewright.driver.life.plan import doubt_until
from kubewright.driver.life.seen import NOTHING, ConsoleSeen, Verb, VmSeen
from kubewright.wire.errors import is_refusal
from kubewright.wire.gvk import Key

Ask = Callable[[], Awaitable[MachineRequest]]
"""Makes the request of a call; it runs beside the workers too, for it may need a bootstrap token."""

log = structlog.get_logger(__name__)


class VmCalls:
    """All calls of this process about VMs, by the uid of the object that a VM is for. ``clock`` is steady."""

    def __init__(self, driver: Driver, clock: Clock, on_done: Callable[[Key], None]) -> None:
        self._driver = driver
        self._clock = clock
        self._on_done = on_done
        self._leading_since = clock.monotonic()
        self._seen: dict[str, VmSeen] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._consoles: dict[str, ConsoleSeen | None] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    def seen(self, uid: str) -> VmSeen:
        """How it stands with the VM of the object with this uid."""
        return self._seen.get(uid, NOTHING)

    def doubt_until(
        self,
        uid: str,
        *,
        created: datetime | None,
        recorded: bool,
        confirm_absent: timedelta,
        witnessed: datetime | None = None,
    ) -> datetime | None:
        """As ``doubts.doubt_until``, for an object that was ``created`` then by the server's clock."""
        now = self._clock.now()
        return doubt_until(
            self.seen(uid).doubt,
            now - timedelta(seconds=self._clock.monotonic() - self._leading_since),
            created=created,
            recorded=recorded,
            now=now,
            confirm_absent=confirm_absent,
            witnessed=witnessed,
        )

    def busy(self, uid: str) -> bool:
        """Whether a call for the object with this uid runs, even if the object is forgotten."""
        return uid in self._tasks

    def forget(self, uid: str) -> None:
        """The object is gone for good; what a call that still runs comes to is not kept."""
        self._seen.pop(uid, None)
        self._consoles.pop(uid, None)

    def console(self, uid: str) -> ConsoleSeen | None:
        """How the console of its VM ended when it was read last; None: this process has not read it."""
        return self._consoles.get(uid)

    def read_console(self, key: Key, uid: str, read: Callable[[], Awaitable[str]]) -> None:
        """Begin to read it; a second time while that lasts is ignored."""
        if uid not in self._reading:
            self._consoles.setdefault(uid, None)
            self._reading[uid] = asyncio.create_task(self._read(key, uid, read), name=f"console of {key}")

    async def _read(self, key: Key, uid: str, read: Callable[[], Awaitable[str]]) -> None:
        text = ""
        try:
            text = await read()
        except KubewrightError as error:
            log.debug("a console could not be read", object=str(key), why=str(error))
        finally:
            del self._reading[uid]
        if uid in self._consoles:
            self._consoles[uid] = ConsoleSeen(self._clock.now(), text)
        self._on_done(key)

    def start(
        self,
        key: Key,
        uid: str,
        verb: Verb,
        ask: Ask,
        *,
        inputs: str,
        last_applied: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin a call; a second one while the first runs is ignored. ``last_applied`` is for updates."""
        if uid in self._tasks:
            return
        before = self.seen(uid)
        self._seen[uid] = replace(before, verb=verb, began=self._clock.now(), ended=None, inputs=inputs)

        def call() -> Awaitable[VmSeen]:
            return outcome(self._driver, self._clock, verb, ask, before, last_applied=last_applied)

        self._tasks[uid] = asyncio.create_task(self._run(key, uid, call), name=f"{verb.value} {key}")

    async def run(self) -> None:
        """Own the calls until cancelled: what still runs then is cancelled too.

        Now we lead: until this moment another process made the calls, also if this object is older.
        """
        self._leading_since = self._clock.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Cancel what runs and wait for it; the next process asks the cloud again."""
        tasks = [*self._tasks.values(), *self._reading.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that was cancelled before it started has not removed itself.
        self._tasks = {uid: task for uid, task in self._tasks.items() if not task.done()}
        self._reading = {uid: task for uid, task in self._reading.items() if not task.done()}

    def __len__(self) -> int:
        return len(self._tasks)

    async def _run(self, key: Key, uid: str, call: Callable[[], Awaitable[VmSeen]]) -> None:
        try:
            after = await call()
            if (now := self._seen.get(uid)) is not None:
                ended = self._clock.now()
                self._seen[uid] = replace(
                    after, verb=now.verb, began=now.began, ended=ended, inputs=now.inputs
                )
        finally:
            del self._tasks[uid]
        self._on_done(key)


async def outcome(
    driver: Driver,
    clock: Clock,
    verb: Verb,
    ask: Ask,
    before: VmSeen,
    *,
    last_applied: Mapping[str, Any] | None = None,
) -> VmSeen:
    """What is known after a call; ``last_applied`` is for updates. Verb and times of the call are filled in
    by ``calls``."""
    try:
        if verb is Verb.UPDATE:
            found = await _update(driver, await ask(), last_applied, before)
        else:
            found = await _asked(driver, clock, verb, ask, before)
    except DriverError as failure:
        told = before.told or failure.code in TELLING
        found = replace(before, error=failure, told=told, last_known_state=_state_after(verb, failure))
    except KubewrightError as failure:  # the cloud was not even asked
        code = Code.FailedPrecondition if is_refusal(failure) else Code.Unavailable
        error = DriverError.of(code, f"the request could not be made: {failure}", begun=False)
        return replace(before, error=error)
    except Exception as failure:  # a fault of ours must not leave a call without an end
        log.exception("a call about a VM failed in this program", verb=verb.value)
        doubt = clock.now() if verb is Verb.ENSURE else before.doubt
        error = DriverError.of(Code.Internal, f"{type(failure).__name__} in Kubewright itself", broken=True)
        return replace(before, error=error, doubt=doubt)
    kept = before.last_known_state if found.last_known_state is None else found.last_known_state
    return replace(found, last_known_state=kept)


def _state_after(verb: Verb, failure: DriverError) -> str | None:
    """What a failed call leaves for the next one; None: what is on record (CAL-04)."""
    lasting = failure.meaning.trouble in (Trouble.PERSISTENT, Trouble.BROKEN)
    void = verb is Verb.DELETE or (verb is Verb.ENSURE and lasting)
    return failure.last_known_state or ("" if void else None)


async def _asked(driver: Driver, clock: Clock, verb: Verb, ask: Ask, before: VmSeen) -> VmSeen:
    request = await ask()
    if verb is Verb.ENSURE:
        return await _ensure(driver, clock, request, before)
    if verb is Verb.LOOK:
        return await _look(driver, request, before)
    return await _delete(driver, request, before)


async def _ensure(driver: Driver, clock: Clock, request: MachineRequest, before: VmSeen) -> VmSeen:
    """Find, else create, then initialize. Creating is idempotent by name and owner.

    An initialization that finds no VM is skipped; when there is none, the creation timeout says so. One
    that failed is repeated, also while the cloud does not show the VM; after a restart only ``status`` can
    tell that it failed.
    """
    found, complete = await _find(driver, request, complete=not before.initializing)
    applied = before.applied
    if found is None:
        try:
            found = await driver.create(request)
            applied = "" if before.doubt else _spec_of(request)
        except DriverError as failure:
            doubt = before.doubt if failure.meaning.nothing_done else clock.now()
            state, told = _state_after(Verb.ENSURE, failure), before.told or failure.code in TELLING
            return replace(
                before,
                error=failure,
                told=told,
                initializing=False,
                doubt=doubt,
                last_known_state=state,
            )
    before = replace(before, applied=applied)
    if not complete and not _strange(found, request):
        try:
            found = _filled(await driver.initialize(request), found)
        except (NotFound, Unimplemented):
            pass
        except DriverError as failure:
            state = failure.last_known_state or found.last_known_state or None
            named = _named(found, request, before, clock)
            return replace(named, error=failure, initializing=True, last_known_state=state)
    return _named(found, request, before, clock)


def _named(found: Instance, request: MachineRequest, before: VmSeen, clock: Clock) -> VmSeen:
    """A VM as it may be recorded. After another answer to a creation there may be one, which is a doubt."""
    if not (wrong := _strange(found, request) or _lacks(found)):
        left = found.last_known_state or None
        return VmSeen(instance=found, doubt=before.doubt, applied=before.applied, last_known_state=left)
    error = DriverError.of(Code.Internal, f"the driver answered with {wrong}")
    state, now = found.last_known_state or None, clock.now()
    return replace(before, error=error, told=True, initializing=False, doubt=now, last_known_state=state)


async def _find(driver: Driver, request: MachineRequest, *, complete: bool) -> tuple[Instance | None, bool]:
    """The VM and whether it is initialized. One on record counts as there where the driver shows none, and as
    ``complete`` or not as this process knows it.

    It is never created a second time; without a node's name on record there is only an error to tell.
    """
    known = Instance(request.provider_id, request.node_name)
    try:
        return _filled(await driver.status(request), known), True
    except Uninitialized as vm:
        return _filled(Instance(vm.provider_id, vm.node_name), known), False
    except (NotFound, Unimplemented):
        if not request.provider_id:
            return None, False
        if request.node_name:
            return known, complete
        text = f"VM {request.provider_id} is on record, and the cloud does not know it"
        raise DriverError.of(Code.Internal, text) from None


async def _look(driver: Driver, request: MachineRequest, before: VmSeen) -> VmSeen:
    try:
        found = await driver.status(request)
    except Uninitialized as vm:
        found = Instance(vm.provider_id, vm.node_name)
    except NotFound:
        return VmSeen(absent=True, deleted=before.deleted, doubt=before.doubt)
    except Unimplemented:  # then only another deletion can tell
        return replace(before, error=None, absent=False, deleted=False)
    if wrong := _strange(found, request):
        error = DriverError.of(Code.Internal, f"the driver answered with {wrong}")
        return replace(before, error=error, told=True, last_known_state=None)
    lacks = bool(_lacks(found))
    return VmSeen(instance=None if lacks else found, told=lacks, doubt=before.doubt)


async def _delete(driver: Driver, request: MachineRequest, before: VmSeen) -> VmSeen:
    try:
        state = await driver.delete(request)
    except NotFound as gone:
        state = gone.last_known_state
    return VmSeen(absent=True, deleted=True, doubt=before.doubt, last_known_state=state or "")


async def _update(
    driver: Driver, request: MachineRequest, last_applied: Mapping[str, Any] | None, before: VmSeen
) -> VmSeen:
    """Of VM and doubts nothing is learned by it; a failed one may have done a part."""
    if not isinstance(driver, Updates):
        raise Unimplemented("this driver updates no VM in place")
    await driver.update(request, last_applied)
    return replace(before, error=None, applied=_spec_of(request), last_known_state=None)


def _spec_of(request: MachineRequest) -> str:
    """The same text for all VMs of a class: it is kept for each."""
    return sys.intern(hot.written(request.machine_class.provider_spec))


def _filled(answer: Instance, known: Instance) -> Instance:
    """A driver's answer, with what it left out as it was known before."""
    return replace(
        answer,
        last_known_state=answer.last_known_state or known.last_known_state,
        provider_id=answer.provider_id or known.provider_id,
        node_name=answer.node_name or known.node_name,
    )


def _lacks(found: Instance) -> str:
    """What is wrong with a VM that lacks a name without which it cannot be found again; empty if none."""
    if not found.provider_id:
        return "a VM without a provider id"
    return "" if found.node_name else "a VM without a node name"


def _strange(found: Instance, request: MachineRequest) -> str:
    """What is wrong with a VM that was made for another machine; empty if nothing says so.

    The one on record is believed whatever its tags say: a machine that was restored from a backup has a new
    uid, and its VM the old one.
    """
    if found.provider_id and found.provider_id == request.provider_id:
        return ""
    theirs, ours = found.machine_name, request.name
    if found.owner_uid and request.owner_uid:
        theirs, ours = found.owner_uid, request.owner_uid
    if not theirs or theirs == ours:
        return ""
    return f"VM {found.provider_id}, which was made for another machine ({found.machine_name or theirs})"
