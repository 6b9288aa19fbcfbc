"""One pass over one object: get, look, decide, act, report. The skeleton of every reconciler.

Theory.      Whatever a controller is for, its pass is the same: get the object from a cache, and forget what
             was known of another one that had its name; look at everything that matters; decide, purely, on
             a plan; note the plan, for users who ask; perform its steps; write the status, not too often,
             and tell what is new. ``ObjectReconciler`` is that pass, and a kind says in a subclass what is
             particular to it. The queue, retries and deadlines are ``controller``'s.
Hooks.       How a controller is built, file by file:
             ``seen``    a frozen value ``Seen``, all that decides; ``Step``, the union of the dataclasses of
                         its effects; ``Plan``, a subclass of ``base.plan.Plan[Step]``
             ``look``    reads, and writes nothing. ``look`` is ``async``, also where it reads caches alone
             ``decide``  ``Seen`` to ``Plan``, and ``Seen`` to status and events: pure. A plan whose steps
                         change what later deciders count says ``last=True``; one in whose pass no status
                         is to be written says ``silent=True``. None, for an object that is not ours:
                         the pass leaves no record, either
             ``act``     the subclass. Its ``act`` is a table: a ``match`` that returns for each step the
                         coroutine that performs it, or None for what it has just done (started a call). A
                         ``match`` that lacks a step does not type-check: "missing return statement"
             ``wiring``  ``wire``: caches, the controller, and which change of what enqueues which objects
             Particular to some kinds, each with a default that does nothing:
             ``forget``      the object with this uid is gone for good, or another one has its name
             ``resting``     why nothing at all is done about the object for now (it is paused): it is not
                             looked at, and no status of it waits to be written
             ``closer``      what must be seen before this plan is carried out (asked live of a server);
                             then ``decide`` is asked again
             ``together``    what steps in a row have in common that are sent beside each other
             ``after_step``  a step is done, or failed. By default its error ends the pass; a kind may keep
                             it in ``outcome`` for the status (``shown``), to be raised at the end
                             (``errors``), or both, and say whether the next step is performed
             ``looks_again`` the status is of a second look after the steps: ``look_again``
             ``urgent``      whether the status says what failed in this pass, and has no pace
             ``tell_problem``  what is wrong with the object as it is: told once (``reports.report_problem``)
             ``refused``     the API server refuses a write, or a read, for good: a role is missing, or a rule
                             of validation or a webhook says no. That does not end by itself in seconds, and
                             is no failure of ours: backing off would hide it. By default users are told by
                             an event, and the pass comes again after a pause; or raise it
             ``tell``        how an event is sent
             ``reported``    the status is written, or need not be: what is remembered of it, and when to look
                             again
Invariants.  Steps run in order. Each write onto the object itself names uid and version of what was seen, and
             leaves its metadata in ``outcome.meta``, which the next write names. The status is written after
             the steps, and not once the finalizer is off (``outcome.gone``). Nothing is remembered here but
             the uid of each key, and when statuses were written.
             Names here with an underscore are the kernel's own. A subclass that has one of them would replace
             it unseen; ``tests/docs/test_kernel_types.py`` finds it.
Called by    ``controller``; subclassed once for each kind. ``examples/toy_controller.py`` is a small one.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from kubewright.api.diff import Patch, merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import Object, ObjectMeta, with_finalizer, without_finalizer
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event, Plan
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.informer import Informer
from kubewright.kube.patches import Contested, onto
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.pace import UNPACED, Pace
from kubewright.runtime.passes import failed, idle, planned
from kubewright.runtime.reports import Reports
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, is_refusal
from kubewright.wire.gvk import Key

REFUSED = "FailedUpdate"
"""The reason of the event about a write that is refused."""

MAX_IN_FLIGHT = 32
"""Most requests of one pass in flight."""

Effect = Awaitable[Any] | None
"""How a step is performed: by this coroutine, or (None) it just was."""


Obj = TypeVar("Obj", bound=Object)
View = TypeVar("View")
P = TypeVar("P", bound=Plan[Any])
T = TypeVar("T")

log = structlog.get_logger(__name__)


class Outcome:
    """What has come of a plan so far.

    ``meta``    the object's metadata, as our last write of this pass left it
    ``wake``    when to look again at the latest, in seconds or as a time; at first what the plan says
    ``seen``    what was seen with what a step has added to it (what it made), for the status; None: nothing
    ``gone``    our finalizer is off: there may be no such object any more, and nothing more is written
    ``shown``   what failed and the status says, by what it is about
    ``errors``  what failed and is raised when the pass is over
    """

    __slots__ = ("errors", "gone", "meta", "seen", "shown", "wake")

    def __init__(self, meta: ObjectMeta, wake: timedelta | float | None = None) -> None:
        self.meta = meta
        self.wake = wake
        self.seen: Any = None
        self.gone = False
        self.shown: dict[str, str] = {}
        self.errors: list[KubewrightError] = []

    def sooner(self, wake: timedelta | float | None) -> None:
        """Look again after this time, or these seconds, at the latest."""
        self.wake = Result.later(self.wake).sooner(Result.later(wake)).after


class ObjectReconciler(ABC, Generic[Obj, View, P]):
    """The reconciler of the objects of one kind: of their type, of what is seen of one, and of its plan.

    Args:
        client: writes.
        objects: the objects of the kind, from the cache.
        recorder: sends the events.
        finalizer: ours; empty if there is none.
        pace: how soon statuses are written (``Reports``); None: in the pass in which they differ.
    """

    looks_again: ClassVar[bool] = False

    def __init__(
        self,
        client: Client,
        objects: Informer[Obj],
        recorder: EventRecorder,
        *,
        finalizer: str = "",
        pace: Pace | None = None,
    ) -> None:
        kind: Kind[Obj] = objects.kind
        self.client = client
        self.objects = objects
        self.recorder = recorder
        self.reports = Reports(client, kind, recorder, UNPACED if pace is None else pace)
        self.writing: set[Key] = set()
        """The keys whose status is being written, where that has no pace: a change of it is our own."""
        self._paced = pace is not None
        self._finalizer = finalizer
        self._uids: dict[Key, str] = {}

    # What a kind says.

    def get(self, key: Key) -> Obj | None:
        """The object; None: there is none of this name."""
        return self.objects.get(key)

    def forget(self, key: Key, uid: str) -> None:
        """The object with this uid is gone for good, or another one has its name."""

    def resting(self, found: Obj) -> str:
        """Why nothing at all is done about the object for now, a clause; empty: it has a pass."""
        return ""

    @abstractmethod
    async def look(self, found: Obj) -> View:
        """Read everything that decides.

        Raises:
            ApiError, TransportError: a server could not be asked.
        """

    @abstractmethod
    def decide(self, seen: View) -> P | None:
        """What to do now. Pure but for what paces a report; None: nothing, and nothing to be said of it."""

    def closer(self, seen: View, plan: P) -> Awaitable[View] | None:
        """What must be seen before this plan is carried out; None: no more than was seen."""
        return None

    @abstractmethod
    def act(self, seen: View, step: Any, outcome: Outcome) -> Effect:
        """The table of the steps: what performs this one."""

    def together(self, step: Any) -> object:
        """Steps in a row of which this is the same are sent beside each other; None: a step is sent alone."""
        return None

    def after_step(self, seen: View, step: Any, error: KubewrightError | None, outcome: Outcome) -> bool:
        """A step is done, or failed with this error. Returns whether the steps after it, or after those that
        it was sent beside, are performed.

        Raises:
            KubewrightError: the error ends the pass.
        """
        if error is not None:
            raise error
        return True

    async def look_again(self, found: Obj, seen: View, outcome: Outcome) -> View:
        """The second look, for the status; ``found``: the object as it is now."""
        return await self.look(found)

    def status(self, seen: View, plan: P, outcome: Outcome) -> Any:
        """The status as it should be; None: it stays as it is."""
        return None

    def tell_problem(self, found: Obj, seen: View) -> None:
        """Tell users what is wrong with the object as it is, before its status does."""

    def urgent(self, outcome: Outcome) -> bool:
        """Whether the status says what failed in this pass."""
        return bool(outcome.errors)

    def events(self, seen: View, plan: P, status: Any, *, written: bool) -> Iterable[Event]:
        """What users are told at the end of a pass; ``written``: the status was, and differed."""
        return ()

    def tell(self, about: Obj, event: Event) -> None:
        """Send an event."""
        self.recorder.event(about, event.reason, event.message, warning=event.warning)

    def reported(self, seen: View, status: Any, outcome: Outcome, *, written: bool) -> None:
        """The status is as it should be, or is written in time; ``seen``: what it was made of."""

    def refused(self, about: Obj, error: ApiError) -> Result:
        """A server refuses what this pass asked for, and would refuse it again. Returns the next pass.

        Raises:
            ApiError: it is no use to tell users.
        """
        return tell_refusal(error, about, self.recorder, self.refusal(error))

    def refusal(self, error: ApiError) -> str:
        """What users are told of a refusal; not the server's words where they may quote a Secret."""
        return in_full(error)

    # The pass.

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: a server said no for now, or could not be asked.
            PartlyFailed: steps failed; the others were tried all the same.
        """
        found = self.get(key)
        uid = "" if found is None else found.metadata.uid
        if self._uids.get(key, "") != uid:
            self._another(key, uid)
        if found is None:
            return Result.done()
        if because := self.resting(found):
            self.reports.rest(key)
            idle(because)
            return Result.done()
        try:
            seen = await self.look(found)
            plan = self.decide(seen)
            if plan is not None and (closer := self.closer(seen, plan)) is not None:
                seen = await closer
                plan = self.decide(seen)
            if plan is None:
                return Result.done()
            planned(plan)
            return await self.carry_out(found, seen, plan)
        except ApiError as error:
            if not is_refusal(error):
                raise
            return self.refused(found, error)

    async def carry_out(self, found: Obj, seen: View, plan: P) -> Result:
        """Perform a plan, and report.

        Raises:
            ApiError, TransportError: a server refused, or could not be asked.
            PartlyFailed: as ``reconcile``.
        """
        outcome = Outcome(found.metadata, plan.wake)
        if plan.steps:
            await self.perform(seen, plan, outcome)
        again: Result | None = None
        if not plan.silent or outcome.errors or outcome.shown:
            again = await self.report(found, seen, plan, outcome)
        result = Result.later(outcome.wake)
        if again is not None:
            result = result.sooner(again)
        return result.unless(outcome.errors)

    async def perform(self, seen: View, plan: P, outcome: Outcome) -> None:
        """The steps, in order; those in a row that go together, beside each other."""
        for _, row in groupby(plan.steps, lambda step: self.together(step) or object()):
            steps = tuple(row)
            errors = await side_by_side(steps, lambda step: self._error_of(seen, step, outcome))
            ended = [self.after_step(seen, *each, outcome) for each in zip(steps, errors, strict=True)]
            if not all(ended):
                return

    async def report(self, found: Obj, seen: View, plan: P, outcome: Outcome) -> Result | None:
        """Write the status, and send the events; when to come back for a status that would be too early."""
        written, again, status = False, None, None
        if outcome.seen is not None:
            seen = outcome.seen
        if not outcome.gone:
            if self.looks_again:
                meta = found.metadata
                now = self.get(Key(meta.namespace, meta.name))
                if now is None or now.metadata.uid != meta.uid:
                    return None
                if plan.steps or now.metadata.resource_version != meta.resource_version:
                    seen = await self.look_again(now, seen, outcome)
                found, outcome.meta = now, now.metadata
            self.tell_problem(found, seen)
            status = self.status(seen, plan, outcome)
            if status is not None:
                written, again = await self._report_status(found, status, outcome)
        for event in self.events(seen, plan, status, written=written):
            self.tell(found, event)
        if not outcome.gone:
            self.reported(seen, status, outcome, written=written)
        return again

    # For the coroutines of steps.

    async def patch(self, outcome: Outcome, body: Mapping[str, Any], *, subresource: str = "") -> None:
        """Merge ``body`` into the object, in the version that this pass has seen or made."""
        meta = outcome.meta
        key, conditional = Key(meta.namespace, meta.name), onto(body, meta)
        found = await self.client.patch(self.objects.kind, key, conditional, subresource=subresource)
        outcome.meta = found.metadata

    async def add_finalizer(self, outcome: Outcome, **also: Mapping[str, str]) -> None:
        """Put our finalizer on, and merge in what ``also`` has: ``annotations={...}``, ``labels={...}``."""
        finalizers = with_finalizer(outcome.meta.finalizers, self._finalizer)
        await self.patch(outcome, {"metadata": {"finalizers": finalizers, **also}})

    async def remove_finalizer(self, outcome: Outcome) -> None:
        """Take our finalizer off; the object may be gone already. Nothing more is written."""
        left = without_finalizer(outcome.meta.finalizers, self._finalizer)
        with MayBeGone(outcome.meta.name):
            await self.patch(outcome, {"metadata": {"finalizers": left or None}})  # null: none is left
        outcome.gone = True

    async def _error_of(self, seen: View, step: Any, outcome: Outcome) -> KubewrightError | None:
        try:
            effect = self.act(seen, step, outcome)
            if effect is not None:
                await effect
        except KubewrightError as error:
            return error
        return None

    async def _report_status(self, found: Any, status: Any, outcome: Outcome) -> tuple[bool, Result | None]:
        """Whether the status was written, and when to come back for one that would be too early."""
        if self._paced:
            urgent = self.urgent(outcome)
            return await self.reports.write(outcome.meta, found.status, status, urgent=urgent)
        if not (patch := merge_patch(found.status, status)):
            return False, None
        await self._write(patch, outcome)
        return True, None

    async def _write(self, status: Patch, outcome: Outcome) -> None:
        key = Key(outcome.meta.namespace, outcome.meta.name)
        self.writing.add(key)
        try:
            await self.patch(outcome, {"status": status}, subresource="status")
        finally:
            self.writing.discard(key)

    def _another(self, key: Key, uid: str) -> None:
        """The name has another object now, of this uid; empty: none."""
        if before := self._uids.pop(key, ""):
            self.reports.forget(key)
            self.forget(key, before)
        if uid:
            self._uids[key] = uid


def in_full(error: ApiError) -> str:
    """The message for users. Not for writes to Secrets: the server's own words may quote their content."""
    return f"The API server refused a write: {error.message}"


async def unless_refused(
    work: Awaitable[Result],
    about: Object,
    recorder: EventRecorder,
    message: Callable[[ApiError], str] = in_full,
) -> Result:
    """The result of ``work``, of a pass that is not the kernel's; where one of its writes is refused, a pause
    after which the next pass comes.

    Raises:
        ApiError: the API server said no for now.
    """
    try:
        return await work
    except ApiError as error:
        if not is_refusal(error):
            raise
        return tell_refusal(error, about, recorder, message(error))


def tell_refusal(error: ApiError, about: Object, recorder: EventRecorder, said: str) -> Result:
    """Tell users that a write is refused, as is said; the pause after which the next pass comes."""
    if isinstance(error, Contested):  # it is told where the write was withheld
        failed(error.message)
        return Result.later(error.wait)
    log.warning("refused", object=f"{about.metadata.namespace}/{about.metadata.name}", problem=said)
    recorder.event(about, REFUSED, said, warning=True)
    failed(said)
    return Result.later(delays.REFUSED)


async def side_by_side(
    items: Sequence[T], effect: Callable[[T], Awaitable[KubewrightError | None]]
) -> list[KubewrightError | None]:
    """What came of each item, in their order; at most ``MAX_IN_FLIGHT`` are in flight."""
    if len(items) == 1:  # the usual case: without a task of its own
        return [await effect(items[0])]
    found: list[KubewrightError | None] = [None] * len(items)
    todo = iter(enumerate(items))

    async def work() -> None:
        for number, item in todo:
            found[number] = await effect(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(MAX_IN_FLIGHT, len(items))):
            group.create_task(work())
    return found
