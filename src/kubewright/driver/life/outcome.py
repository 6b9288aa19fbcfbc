"""One call about a VM: the driver is asked, and what is known after that.

Theory.      A call may take several verbs of the driver (ensure: status, create, initialize). Whatever they
             answer becomes one ``VmSeen``; a failure keeps what was known before.
             What the driver leaves for its next call is kept until it says something else. A creation
             that cannot succeed as it is makes it void, and so does a deletion.
Invariants.  A creation that the driver did not definitely refuse leaves a doubt. A VM without its names is
             not recorded: it could never be found again. Nothing but cancellation is raised.
Source       mcm.md §3.4, §3.5, §4.4; seed 004 (InitializeMachine).
Called by    ``calls``.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.driver.contract import Driver, Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError, NotFound, Trouble, Unimplemented, Uninitialized
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.wire.errors import is_refusal

Ask = Callable[[], Awaitable[MachineRequest]]
"""Makes the request of a call; it runs beside the workers too, for it may need a bootstrap token."""


async def outcome(driver: Driver, clock: Clock, verb: Verb, ask: Ask, before: VmSeen) -> VmSeen:
    """What is known after a call. Verb and times of the call are filled in by ``calls``."""
    try:
        found = await _asked(driver, clock, verb, ask, before)
    except DriverError as failure:
        found = replace(
            before, error=failure, initializing=False, last_known_state=_state_after(verb, failure)
        )
    except KubewrightError as failure:  # the cloud was not even asked
        code = Code.FailedPrecondition if is_refusal(failure) else Code.Unavailable
        told = DriverError.of(code, f"the request could not be made: {failure}")
        return replace(before, error=told)
    kept = before.last_known_state if found.last_known_state is None else found.last_known_state
    return replace(found, last_known_state=kept)


def _state_after(verb: Verb, failure: DriverError) -> str | None:
    """What a failed call leaves for the next one; None: what is on record (mcm.md §3.5)."""
    persistent = failure.meaning.trouble is Trouble.PERSISTENT
    void = verb is Verb.DELETE or (verb is Verb.ENSURE and persistent)
    return failure.last_known_state or ("" if void else None)


async def _asked(driver: Driver, clock: Clock, verb: Verb, ask: Ask, before: VmSeen) -> VmSeen:
    request = await ask()
    match verb:
        case Verb.ENSURE:
            return await _ensure(driver, clock, request, before)
        case Verb.LOOK:
            return await _look(driver, request, before)
        case Verb.DELETE:
            return await _delete(driver, request, before)


async def _ensure(driver: Driver, clock: Clock, request: MachineRequest, before: VmSeen) -> VmSeen:
    """Find, else create, then initialize. Creating is idempotent by name and owner.

    An initialization that finds no VM is skipped; when there is none, the creation timeout says so.
    """
    found, complete = await _find(driver, request)
    if found is None:
        try:
            found = await driver.create(request)
        except DriverError as failure:
            doubt = before.doubt if failure.meaning.certain else clock.now()
            state = _state_after(Verb.ENSURE, failure)
            return replace(before, error=failure, initializing=False, doubt=doubt, last_known_state=state)
    if not complete:
        try:
            found = _filled(await driver.initialize(request), found)
        except (NotFound, Unimplemented):
            pass
        except DriverError as failure:
            state = failure.last_known_state or found.last_known_state or None
            half = _named(found, before, clock)
            return replace(half, error=failure, initializing=True, last_known_state=state)
    return _named(found, before, clock)


def _named(found: Instance, before: VmSeen, clock: Clock) -> VmSeen:
    """A VM as it may be recorded. One that lacks a name exists all the same, which is a doubt."""
    if not (lacks := _lacks(found)):
        return VmSeen(instance=found, doubt=before.doubt, last_known_state=found.last_known_state or None)
    error = DriverError.of(Code.Internal, f"the driver answered with a VM without {lacks}")
    state = found.last_known_state or None
    return replace(before, error=error, initializing=False, doubt=clock.now(), last_known_state=state)


async def _find(driver: Driver, request: MachineRequest) -> tuple[Instance | None, bool]:
    """The VM and whether it is initialized. One on record counts as there where the driver shows none.

    It is never created a second time; without a node's name on record there is only an error to tell.
    """
    known = Instance(request.provider_id, request.node_name)
    try:
        return _filled(await driver.status(request), known), True
    except Uninitialized as half:
        return _filled(Instance(half.provider_id, half.node_name), known), False
    except (NotFound, Unimplemented):
        if not request.provider_id:
            return None, False
        if request.node_name:
            return known, True
        text = f"VM {request.provider_id} is on record, and the cloud does not know it"
        raise DriverError.of(Code.Internal, text) from None


async def _look(driver: Driver, request: MachineRequest, before: VmSeen) -> VmSeen:
    try:
        found = await driver.status(request)
    except Uninitialized as half:
        found = Instance(half.provider_id, half.node_name)
    except NotFound:
        return VmSeen(absent=True, deleted=before.deleted, doubt=before.doubt)
    except Unimplemented:  # then only another deletion can tell
        return replace(before, error=None, absent=False, deleted=False)
    return VmSeen(instance=None if _lacks(found) else found, doubt=before.doubt)


async def _delete(driver: Driver, request: MachineRequest, before: VmSeen) -> VmSeen:
    try:
        state = await driver.delete(request)
    except NotFound as gone:
        state = gone.last_known_state
    return VmSeen(absent=True, deleted=True, doubt=before.doubt, last_known_state=state or "")


def _filled(answer: Instance, known: Instance) -> Instance:
    """A driver's answer, with what it left out as it was known before."""
    return replace(
        answer,
        last_known_state=answer.last_known_state or known.last_known_state,
        provider_id=answer.provider_id or known.provider_id,
        node_name=answer.node_name or known.node_name,
    )


def _lacks(found: Instance) -> str:
    """Which name a VM has not got, without which it cannot be found again; empty if none."""
    if not found.provider_id:
        return "a provider id"
    return "" if found.node_name else "a node name"
