"""Decide what comes next for one VM, and until when a creation without an answer may still bring one. Pure.

Theory.      A VM is wanted (``ENSURED``), or it is not (``GONE``). On the way to ``GONE`` lies ``KNOWN``: it
             is settled which VM there is, so that its node can be drained before the VM is deleted. The
             driver deletes by name: it would delete a VM that the cloud does not list yet, with all pods on
             it. So after an unanswered creation the VM is looked for before it is deleted. One "not found" is
             not enough, and an error says nothing. A failed call is repeated after the pause of its error, or
             at once when what the driver is told has changed. Two things end that. A VM that cannot have been
             made needs no deletion: where none is known and no creation is in doubt, a driver that refuses,
             or cannot be asked, changes nothing. And where a creation is in doubt that no driver will ever
             settle, a user may let go of it: what cannot be looked for is tried to be deleted by its name
             before that. A creation that was cut short (a deadline, a lost answer, the end of its process)
             may be carried out all the same, a moment later. That is a *doubt*. Our own start is one, too:
             the process before us may have died while a create call was in flight. A doubt is over when the
             driver has had ``confirm_absent`` to show what came of the creation, and has been asked again. A
             VM on record may be one of two: a creation that was not answered was repeated, and the record is
             of the second. So a doubt stays beside a record until its creation is LONGEST_CREATION ago. A
             list of the cloud's VMs ends no doubt, however soon after our start it comes: it shows what there
             was, and in doubt is what is still to come. So a machine without an older proof that is deleted
             just after a start waits for up to ``confirm_absent``.
Invariants.  An object that was created more than MAX_CLOCK_SKEW after our start, by the server's clock,
             inherits no doubt from the process before us. Nor does one that this process saw come to be in a
             server of its own: there is one clock, and no list is older than the server.
             While a creation or a look is in flight nothing else is called.
             ``GONE`` is done only by an answer that was asked for after the doubt was over, and that is not
             older than ``ANSWER_LASTS``.
             Without what the driver must be told nothing is called, and nothing is taken for settled that a
             creation in doubt leaves open. A VM that is known is let go for no refusal and by no user.
             A plan that waits for no event says for how long.
Called by    ``machines.machine``, ``infra.machine``; ``calls`` for doubts, ``orphans`` for LONGEST_CREATION.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kubewright.base.delays import LONG
from kubewright.base.durations import time_left
from kubewright.base.plan import Awaited
from kubewright.driver.errors import Code, DriverError, During
from kubewright.driver.life.seen import Verb, VmSeen

ANSWER_LASTS = timedelta(minutes=5)
"""How long an answer counts that there is no VM. Longer than a machine waits in a full queue for the pass
that reads it, or each would be too old and asked for again, which makes the queue no shorter."""


class Want(Enum):
    """What the owner of a VM wants."""

    ENSURED = "ensured"
    """The VM exists and is initialized."""

    KNOWN = "known"
    """It is settled which VM there is, if any: the first half of ``GONE``."""

    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted, and what the owner knows besides.

    ``recorded``     the VM is on record, so that a deletion by its id finds it
    ``node_healthy`` its node is healthy, so the VM is there: errors are not about its creation
    ``doubt_until``  until when an unanswered creation may still bring a VM (``VmCalls.doubt_until``)
    ``callable``     what the driver must be told is there; without it no call is made
    ``inputs``       changes whenever what the driver is told does
    ``identified``   something shows that there is a VM, if not all that ``recorded`` needs: its id, its node
    ``let_go``       a user accepts that a VM whose creation is in doubt may be left behind
    ``repeats``      any failed call is repeated; else one of ``errors.FINAL`` only when the inputs change
    """

    want: Want
    recorded: bool = False
    node_healthy: bool = False
    doubt_until: datetime | None = None
    callable: bool = True
    inputs: str = ""
    identified: bool = False
    let_go: bool = False
    repeats: bool = True


class State(Enum):
    """How it stands between the VM and what is wanted."""

    DONE = "done"
    """It is as wanted."""

    CALL = "call"
    """The driver is to be called."""

    RUNNING = "running"
    """A call is in flight; its end brings the next plan."""

    FAILED = "failed"
    """The last call failed; it is repeated."""

    DOUBTFUL = "doubtful"
    """The driver reports no VM; an unanswered creation may still bring one."""

    BLOCKED = "blocked"
    """The driver would be called, and cannot be."""


REMEDIES = {
    Code.Unauthenticated: "correct the credentials",
    Code.PermissionDenied: "allow the call in the cloud",
    Code.InvalidArgument: "correct what the driver is told: the class, or the provider's spec",
    Code.OutOfRange: "correct what the driver is told: the class, or the provider's spec",
    Code.Unimplemented: "use a driver that offers the call",
    Code.ResourceExhausted: "raise the quota, or choose another zone or type",
    Code.Unavailable: "see whether the cloud answers",
    Code.DeadlineExceeded: "see whether the cloud answers",
}
"""By code; of the others the message says more."""


@dataclass(frozen=True, slots=True)
class VmPlan:
    """What comes next.

    ``because``  one clause, for logs and messages
    ``call``     the call to start now; None: none
    ``wake``     how long a pause or a doubt still lasts; with a ``call`` it is not waited for
    ``error``    what the last call failed with, if that is why
    """

    state: State
    because: str
    call: Verb | None = None
    wake: timedelta | None = None
    error: DriverError | None = None

    @property
    def awaits(self) -> tuple[Awaited, ...]:
        """What has to come from driver and cloud. Why the driver cannot be called, its caller knows."""
        match self.state:
            case State.CALL | State.RUNNING:
                return (Awaited("the driver to answer", "see whether its cloud answers"),)
            case State.FAILED if self.error is not None:
                return (
                    Awaited(f"the cloud to take a call: {self.error.code.name}", remedy(self.error.code)),
                )
            case State.DOUBTFUL:
                return (Awaited("the cloud to show what came of a creation", "it is asked again by itself"),)
            case _:
                return ()


def remedy(code: Code) -> str:
    """What a user can do about a call that fails with this code, as a clause."""
    return REMEDIES.get(code, "see the message of the driver")


def plan(vm: VmSeen, wanted: Wanted, exhausted: timedelta, now: datetime) -> VmPlan:
    """The next step of a VM's life.

    ``exhausted``: the pause after a creation for which the cloud has no capacity. ``now``: the steady clock.
    """
    match wanted.want:
        case Want.ENSURED:
            return _ensured(vm, wanted, exhausted, now)
        case Want.KNOWN:
            return _released(_known(vm, wanted, now), vm, wanted)
        case Want.GONE:
            known = _known(vm, wanted, now)
            found = known if known.state is not State.DONE else _gone(vm, wanted, now)
            return _released(found, vm, wanted)


def _released(found: VmPlan, vm: VmSeen, wanted: Wanted) -> VmPlan:
    """The plan; or done, where the driver cannot settle anything, and there is nothing to settle."""
    error, blocked = found.error, found.state is State.BLOCKED
    if not blocked and (found.state is not State.FAILED or error is None):
        return found
    if wanted.recorded or wanted.identified or vm.told or vm.instance is not None:
        return found
    if wanted.doubt_until is None:
        refused = error is not None and (error.refuses or (not error.begun and error.lasts))
        if blocked or refused:
            return VmPlan(
                State.DONE, "no VM was ever made, so none is missed that the driver will not delete"
            )
        return found
    if wanted.let_go and (blocked or (error is not None and error.lasts)):
        if wanted.want is Want.GONE and vm.failed(Verb.LOOK) and wanted.callable and not vm.deleted:
            return VmPlan(State.CALL, "a user lets go of its VM; it is tried once to delete it", Verb.DELETE)
        return VmPlan(State.DONE, "a user lets go of a VM that the driver may have made")
    return found


def _ensured(vm: VmSeen, wanted: Wanted, exhausted: timedelta, now: datetime) -> VmPlan:
    if vm.settled(Verb.ENSURE):
        return VmPlan(State.DONE, "the VM is complete")
    if vm.running:
        return VmPlan(State.RUNNING, "the cloud is working on its VM")
    if error := vm.failed(Verb.ENSURE):
        during = During.COMPLETING if vm.initializing or wanted.node_healthy else During.CREATING
        return _again(Verb.ENSURE, vm, _pause(error, during, wanted, exhausted), wanted, now)
    return _call(Verb.ENSURE, "it is not known to have a complete VM", wanted)


def _known(vm: VmSeen, wanted: Wanted, now: datetime) -> VmPlan:
    if vm.running and vm.verb is not Verb.DELETE:
        return VmPlan(State.RUNNING, "a cloud call is still in flight")
    if wanted.recorded or wanted.doubt_until is None:
        return VmPlan(State.DONE, "no creation is in doubt")
    if vm.verb in (None, Verb.ENSURE):
        return _call(Verb.LOOK, "the cloud is asked whether there is a VM", wanted)
    if error := vm.failed(Verb.LOOK):
        return _again(Verb.LOOK, vm, _pause(error, During.LOOKING, wanted), wanted, now)
    if vm.absent and not vm.deleted:
        return _confirmed(vm, wanted, now)
    return VmPlan(State.DONE, "the cloud has told of the VM")


def _gone(vm: VmSeen, wanted: Wanted, now: datetime) -> VmPlan:
    if vm.running:
        return VmPlan(State.RUNNING, "the cloud is deleting the VM")
    if vm.deleted and vm.error is None:
        return _confirmed(vm, wanted, now)
    if vm.deleted and (error := vm.failed(Verb.LOOK)):  # it was to confirm the deletion; another one can, too
        return _again(Verb.DELETE, vm, _pause(error, During.LOOKING, wanted), wanted, now)
    if error := vm.failed(Verb.DELETE):
        unknown = not wanted.recorded and wanted.doubt_until is not None  # a creation may have ended since
        verb = Verb.LOOK if unknown else Verb.DELETE
        return _again(verb, vm, _pause(error, During.DELETING, wanted), wanted, now)
    return _call(Verb.DELETE, "its VM may go", wanted)


def _confirmed(vm: VmSeen, wanted: Wanted, now: datetime) -> VmPlan:
    """The driver has reported that there is no VM: whether that is final, or is to be asked again."""
    if wanted.doubt_until is None:
        return VmPlan(State.DONE, "there is no VM")
    if (left := wanted.doubt_until - now) > timedelta(0):
        because = f"a creation may still be under way; the cloud is asked again in {time_left(left)}"
        return VmPlan(State.DOUBTFUL, because, wake=left)
    if vm.is_absent_since(wanted.doubt_until) and vm.ended and vm.ended >= now - ANSWER_LASTS:
        return VmPlan(State.DONE, "there is no VM, and none can come")
    return _call(Verb.LOOK, "it makes sure that no late creation left a VM", wanted)


def _call(verb: Verb, because: str, wanted: Wanted) -> VmPlan:
    return VmPlan(State.CALL, because, verb) if wanted.callable else _blocked()


def _pause(
    error: DriverError, during: During, wanted: Wanted, exhausted: timedelta = LONG.pause
) -> timedelta | None:
    """How long to wait before a failed call is repeated; None: until something changes."""
    return error.pause(during, exhausted) if wanted.repeats or not error.is_final(during) else None


def _again(verb: Verb, vm: VmSeen, pause: timedelta | None, wanted: Wanted, now: datetime) -> VmPlan:
    """Call again after the pause of the error, or at once when what the driver is told has changed."""
    if not wanted.callable:
        return _blocked()
    changed = vm.inputs != wanted.inputs
    if pause is None and not changed:
        because = "it is tried again when the machine, its class or its Secret changes"
        return VmPlan(State.FAILED, because, None, None, vm.error)
    left = (vm.ended or now) + (pause or timedelta(0)) - now
    if left <= timedelta(0) or changed:
        return VmPlan(State.FAILED, "it tries again", verb, left, vm.error)
    because = f"it tries again in {time_left(left)}"
    return VmPlan(State.FAILED, because, None, left, vm.error)


def _blocked() -> VmPlan:
    return VmPlan(State.BLOCKED, "the driver's request cannot be made")


MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far the server's clock, which dates creations, may be ahead of ours. An object that seems to be created
less than this after our start may be older, and the process before us may have called for its VM."""

LONGEST_CREATION = timedelta(minutes=5)
"""How long a creation that nothing waits for any more may go on in the cloud: longer than a driver call may
last. Of an object that is gone only its age is known: one that was older, with its VM on record, is taken to
have left no other (``orphans.may_leave_a_vm``)."""


def doubt_until(
    unanswered: datetime | None,
    started: datetime,
    *,
    created: datetime | None,
    recorded: bool,
    now: datetime,
    confirm_absent: timedelta,
    witnessed: datetime | None = None,
) -> datetime | None:
    """Until when a creation may still bring a VM; None when none can be under way.

    Args:
        unanswered: when this process last may have made a VM that it does not know (``VmSeen.doubt``).
        started: since when calls are made by this process, and no longer by one before it.
        created: when the object was created, by the server's clock.
        recorded: the VM is on record.
        now: the steady clock.
        confirm_absent: how long a VM may stay unseen after its creation.
        witnessed: when this process saw the object come to be, by the clock of ``started``; None: it did not,
            or what it sees may be older than its start (``kube.client.Client.one_clock``).
    """
    dated = created is not None and created > started + MAX_CLOCK_SKEW
    ours = dated or (witnessed is not None and witnessed >= started)
    moments = [moment for moment in (None if ours else started, unanswered) if moment is not None]
    if not moments or (recorded and max(moments) + LONGEST_CREATION < now):
        return None
    return max(moments) + confirm_absent
