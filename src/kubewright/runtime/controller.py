"""A controller: workers that take keys from a queue and call one reconciler.

Theory.      The queue hands out only a key. The reconciler looks at the world and answers with a ``Result``
             or raises; what happens next is decided in one place, ``_settle``: finished, look later, retry
             after a fixed time, retry with the key's own backoff, or wait for a change. Nothing else in the
             program retries a pass. A mapping (``ToKeys``) is a pure function from a ``Change`` to the keys
             that must look again. It looks at both sides of the change: an object that moves from one owner
             to another wakes both. It may find too many keys, never too few: ``controller.watches(sets,
             only(spec_or_life))``.
Invariants.  No key has two passes at one time. Nothing that its reconciler does ends a
             worker: an error, a deadline, a stray cancellation. An error of ours (``KubewrightError``) is
             one line in the log; any other is a defect, and is logged with its traceback.
Called by    the ``wire`` functions of worlds, which make it and add ``watches``; ``manager``, which runs it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, assert_never

import structlog
from structlog.contextvars import bind_contextvars, reset_contextvars

from kubewright.api.kinds import Kind
from kubewright.api.meta import Object
from kubewright.base.clock import Clock
from kubewright.base.errors import After, Backoff, KubewrightError, OnChange, Retry, precedence
from kubewright.kube.header import Header
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import CONTESTS, Contests
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.passes import Noted, Passes, noting
from kubewright.runtime.queue import Curve, Queue, QueueStatistics, Turn
from kubewright.runtime.result import PartlyFailed, Result
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.sessions.session import Listener, Session
from kubewright.wire.gvk import Key

LOOK_AGAIN_BELOW = 1.0
"""In seconds: a fixed retry sooner than this means "look again"; when that does not help, backoff takes
over."""

LOGGED_ERRORS = 5
"""Errors of one pass that are logged: a set may have hundreds, which mostly say the same."""

YIELD_EVERY = 16
"""Keys that one worker takes in a row before all other tasks have their turn: where no pass waits for a
server, it would else hold the event loop for as long as there are keys."""

Gather = Callable[[Change[Any]], float]
"""For how many seconds the pass after a change may wait for more changes (a debounce)."""

Admits = Callable[[Mapping[str, str]], bool]
"""Whether a program works on objects with these labels."""

log = structlog.get_logger("kubewright.controller")


ToKeys = Callable[[Change[Any]], Iterable[Key]]
"""Pure: which keys a change concerns."""

ToKeysIn = Callable[[Key, Change[Any]], Iterable[Key]]
"""Pure: which keys a change in a workload cluster, the first argument, concerns."""


def own_key(change: Change[Any]) -> tuple[Key, ...]:
    """The changed object itself."""
    return (change.key,)


def in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    """The keys in the order in which a mapping yields them; those of a set by namespace and name.

    The order of a set differs from process to process, and a run of the simulator must be the same in each.
    """
    return tuple(sorted(keys, key=str) if isinstance(keys, (set, frozenset)) else keys)


def only(matters: Callable[[Change[Any]], bool], to_keys: ToKeys = own_key) -> ToKeys:
    """``to_keys`` for the changes that ``matters`` lets through, none for the others."""

    def keys(change: Change[Any]) -> Iterable[Key]:
        return to_keys(change) if matters(change) else ()

    return keys


def spec_or_existence(change: Change[Any]) -> bool:
    """Whether an object came, went, or has another generation."""
    old, new = change.old, change.new
    return old is None or new is None or (old.uid, old.generation) != (new.uid, new.generation)


def spec_or_life(change: Change[Any]) -> bool:
    """Whether the change is more than one of status: creation, end, deletion begun, generation, labels."""
    old, new = change.old, change.new
    if old is None or new is None or spec_or_existence(change):
        return True
    return (old.deleting, old.labels) != (new.deleting, new.labels)


def alike(change: Change[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether the change is one of status or metadata, and ``same`` finds nothing in it that matters.

    ``same`` compares the objects before and after; their generations, labels and deletion are equal.
    """
    return not spec_or_life(change) and same(change.before(), change.after())


def status_alone(change: Change[Any], same: Callable[[Any, Any], bool] = lambda _old, _new: True) -> bool:
    """Whether spec and metadata are as they were, but for the version, and ``same`` says so of the status."""

    def unchanged(old: Object, new: Object) -> bool:
        a, b = old.metadata, new.metadata
        others = (b.annotations, b.finalizers, b.owner_references)
        return (a.annotations, a.finalizers, a.owner_references) == others and same(old, new)

    return alike(change, unchanged)


class Reconciler(Protocol):
    """Drives one object towards what is wanted of it.

    Called with a key whose object may be gone. Must be safe to cancel at any await and to repeat.
    """

    async def reconcile(self, key: Key) -> Result:
        """Look, decide, act.

        Raises:
            KubewrightError: it did not work this time; ``error.retry`` says when another try can help.
        """


class Controller:
    """N workers over one queue. ``timeout`` is the deadline of one pass, in seconds."""

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        clock: Clock,
        *,
        workers: int = 10,
        timeout: float = 300.0,
        metrics: Metrics | None = None,
        curve: Curve | None = None,
    ) -> None:
        self.name = name
        self.passes = Passes(name)
        """The last pass of each key."""
        self._reconciler = reconciler
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._queue = Queue(clock, name, curve=curve)
        self.contests = Contests(clock.monotonic)
        """What its passes have written, so that none of them fights with another client."""
        self._admitted: Callable[[Key], bool] = lambda key: True
        self._metrics = (metrics or Metrics()).controller(name, self._queue.statistics)

    def watches(
        self, informer: Informer[Any], to_keys: ToKeys = own_key, *, gather: Gather | None = None
    ) -> "Controller":
        """Enqueue the keys that ``to_keys`` finds in a change, at once or after what ``gather`` says."""

        def changed(change: Change[Any]) -> None:
            self._changed(informer.kind, change, to_keys, low_priority=not informer.synced, gather=gather)

        informer.subscribe(changed)
        return self

    def watches_in(
        self,
        workloads: Workloads,
        kind: Kind[Any],
        to_keys: ToKeysIn,
        of_cluster: Callable[[Key], Iterable[Key]],
    ) -> "Controller":
        """Enqueue the keys that ``to_keys`` finds in a change of a ``kind`` in any connected cluster.

        ``of_cluster`` names the keys that need a cluster: they are enqueued when its session begins or ends,
        and so need not ask in between.
        """

        def enqueue_all(cluster: Key, why: str) -> None:
            for key in in_order(of_cluster(cluster)):
                self._queue.add(key, why, low_priority=True)

        def gained(session: Session) -> None:
            cluster, mapped, known = session.cluster, partial(to_keys, session.cluster), False

            def changed(change: Change[Any]) -> None:
                self._changed(kind, change, mapped, low_priority=not known)

            session.informer(kind).subscribe(changed)  # which tells of all that there is, before it returns
            known = True
            enqueue_all(cluster, f"cluster {cluster} is connected")

        def lost(session: Session, because: str) -> None:
            enqueue_all(session.cluster, f"cluster {session.cluster} is not connected: {because}")

        workloads.cache(kind)
        workloads.subscribe(Listener(gained, lost))
        return self

    def admits(self, informer: Informer[Any], ours: Callable[[Header], bool]) -> "Controller":
        """Of the objects of this informer, the controller's own kind, reconcile only those that are ``ours``:
        another process works on the others.

        An object that is gone is reconciled once more, to be forgotten; one that becomes ours is enqueued. Of
        one that is ours no more only the record of its last pass is dropped. What else its reconciler keeps
        of it (calls, references) stays until the object or the term ends.
        """

        def admitted(key: Key) -> bool:
            header = informer.header(key)
            return header is None or ours(header)

        def comes(change: Change[Any]) -> bool:
            old, new = change.old, change.new
            return new is not None and ours(new) and not (old is not None and ours(old))

        self._admitted = admitted
        return self.watches(informer, only(comes))

    def enqueue(self, key: Key, why: str = "", *, after: float = 0.0, at_latest: bool = False) -> None:
        """Ask for a pass over ``key``, at once or in ``after`` seconds.

        ``at_latest``: a pass that begins sooner will do as well.
        """
        self._queue.add_after(key, after, why, at_latest=at_latest)

    async def run(self) -> None:
        """Work until ``close``; cancelling it cancels the running passes."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                tasks.create_task(self._work(), name=f"{self.name}-{number}")

    def close(self) -> None:
        """Take no more keys; running passes go on."""
        self._queue.close()

    async def drained(self) -> None:
        """Wait until no pass runs. The caller sets the deadline."""
        await self._queue.drained()

    @property
    def load(self) -> int:
        """Keys that are worked on or wait for it; cheap enough to ask in every pass."""
        return self._queue.load

    def statistics(self) -> QueueStatistics:
        """A picture of the queue at this moment."""
        return self._queue.statistics()

    def _changed(
        self,
        kind: Kind[Any],
        change: Change[Any],
        to_keys: ToKeys,
        *,
        low_priority: bool,
        gather: Gather | None = None,
    ) -> None:
        """Add the keys that a change concerns to the queue."""
        resource = kind.resource.kind
        verb = "added" if change.old is None else "gone" if change.new is None else "changed"
        try:
            keys = in_order(to_keys(change))
            wait = gather(change) if gather is not None and keys else 0.0
        except KubewrightError as error:  # the object has not the form of its kind
            log.warning("change not understood", controller=self.name, kind=resource, error=str(error))
            return
        why = f"{resource} {change.key} {verb}"
        for key in keys:
            if wait > 0:
                self._queue.add_after(key, wait, why, at_latest=True)
            else:
                self._queue.add(key, why, low_priority=low_priority)

    async def _work(self) -> None:
        taken = 0
        bind_contextvars(controller=self.name)
        while (turn := await self._queue.get()) is not None:
            try:
                if self._admitted(turn.key):
                    tokens = bind_contextvars(key=str(turn.key), why=turn.why)
                    try:
                        await self._pass(turn)
                    finally:
                        reset_contextvars(**tokens)
                else:
                    self._queue.forget(turn.key)
                    self.passes.drop(turn.key)
            finally:
                self._queue.done(turn.key)
            taken += 1
            if taken % YIELD_EVERY == 0:
                await self._clock.sleep(0)

    async def _pass(self, turn: Turn) -> None:
        at, began = self._clock.now(), self._clock.monotonic()
        token = CONTESTS.set(self.contests)
        try:
            with noting() as noted:
                outcome = await self._attempt(turn.key, noted)
        finally:
            CONTESTS.reset(token)
        seconds = self._clock.monotonic() - began
        self._metrics.observe(turn.waited, seconds, outcome)
        after, then = self._settle(turn.key, outcome)
        self.passes.keep(turn.key, noted, why=turn.why, at=at, seconds=seconds, after=after, then=then)

    async def _attempt(self, key: Key, noted: Noted) -> Result | Retry:
        """Call the reconciler; how that ended. Lets through only a cancellation meant for this worker."""
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                return await self._reconciler.reconcile(key)
        except asyncio.CancelledError:
            if (worker := asyncio.current_task()) is None or worker.cancelling():
                raise
            noted.error = "the pass was cancelled from inside"
            log.error("reconciliation cancelled from inside", exc_info=True)
        except TimeoutError:
            if deadline.expired():
                noted.error = f"the pass did not end within {self._timeout:g} s"
                log.warning("reconciliation took too long", seconds=self._timeout)
            else:
                noted.error = "something that the pass waited for did not come in time"
                log.warning("something the reconciliation waited for took too long")
        except Exception as error:  # noqa: BLE001  one broken key never stops a worker
            known = _known_errors(error)
            noted.error = _in_words(error, known)
            _log(error, known)
            return _retry_for(error, known)
        return Backoff()

    def _settle(self, key: Key, outcome: Result | Retry) -> tuple[float | None, str]:
        """What follows from the end of a pass: the whole retry policy.

        Returns in how many seconds the next pass comes at the latest, None for on a change; and why.
        """
        queue = self._queue
        match outcome:
            case Result(after):
                queue.went_well(key)
                why = "its plan asked for it"
                if after is None:
                    return None, ""
            case OnChange():
                queue.forget(key)
                return None, ""
            case After(seconds) if seconds >= LOOK_AGAIN_BELOW:
                after, why = seconds, f"retry after {seconds:g} s"
            case After(seconds):
                return queue.retry(key, "look again", at_least=seconds), "look again"
            case Backoff():
                return queue.retry(key, "retry with backoff"), "retry with backoff"
            case _:
                assert_never(outcome)
        queue.add_after(key, after, why, at_latest=True)
        return after, why


def _in_words(error: Exception, known: Sequence[KubewrightError]) -> str:
    """What is wrong, for users; of a defect of ours the name alone, since its text may hold anything."""
    if not known:
        return f"a defect of Kubewright, {type(error).__name__}: see its log"
    return "; ".join(map(str, known))


def _log(error: Exception, known: Sequence[KubewrightError]) -> None:
    """An error of ours is a line, a defect has its traceback."""
    if not known:
        log.error("unexpected error in a reconciliation", error=str(error), exc_info=error)
    for each in known[:LOGGED_ERRORS]:
        say = log.debug if _means_look_again(each.retry) else log.info
        say("reconciliation failed", error=str(each), error_kind=type(each).__name__)


def _retry_for(error: Exception, known: Sequence[KubewrightError]) -> Retry:
    """How the key is tried again: as the error says that comes back first, or after what the pass asked
    for."""
    if not known:
        return Backoff()
    asked = error.after if isinstance(error, PartlyFailed) else None
    retries = (*(each.retry for each in known), *([] if asked is None else [After(asked)]))
    return min(retries, key=precedence)


def _known_errors(error: BaseException) -> list[KubewrightError]:
    """The errors of ours that ``error`` is or consists of; empty when any part of it is another error."""
    if isinstance(error, KubewrightError):
        return [error]
    if not isinstance(error, BaseExceptionGroup):
        return []
    parts = [_known_errors(part) for part in error.exceptions]
    return [known for part in parts for known in part] if all(parts) else []


def _means_look_again(retry: Retry) -> bool:
    """Whether the failure is a usual one: another client wrote first."""
    return isinstance(retry, After) and retry.seconds < LOOK_AGAIN_BELOW
