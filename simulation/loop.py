"""An event loop in which time is a number, chance is a seed, and a process can be killed.

Theory.      Nothing here waits for anything real: no sockets, no threads, no clock. When no task can
             run, time jumps to the next timer; when several can, the seed says in which order. So
             a run is a function of its seed, on every machine and under every PYTHONHASHSEED.
             Which *process* a task belongs to is a context variable that its children inherit. A killed
             process never runs again: its pending callbacks are dropped, and no ``except`` or ``finally``
             of it runs, as with ``kill -9``.
             A *step* is what a process does between two awaits. Those of processes that are
             ``counted`` have numbers, and ``before_step`` acts between any two of them.
Invariants.  Callbacks of one turn run in a seeded order; no turn begins before the last one is over.
             Cancelled callbacks and memory addresses change no order.
             Nothing of a dead process runs, ever. Its coroutines are kept, so that the garbage
             collector cannot wake their ``finally`` blocks either, until ``destroy``.
Called by    ``world``. Like every loop, it is used from one thread.
"""

import asyncio
import contextvars
import gc
import heapq
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import count
from random import Random  # noqa: TID251 -- a subclass that draws nothing
from typing import Any, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet

from kubewright.testing.clocks import BEGIN, LoopClock

TURNS_WITHOUT_TIME = 200_000
"""Turns of the loop at one moment after which a task must be in a loop without a wait."""

YOUNGEST, OLDEST = 0, 2
"""Generations of Python's garbage collector."""

A = TypeVarTuple("A")
R = TypeVar("R")

_PROCESS: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Deadlock(Exception):
    """No task can run, and no timer is set: nothing will ever happen again."""


class Livelock(Exception):
    """A task is always ready and time never passes: a loop without a wait."""


class Process:
    """Tasks that are killed together: it fails as an operating system's process does."""

    def __init__(self, loop: "SimLoop", name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.counted = False
        """Whether its steps have numbers."""
        self.parked: list[Any] = []
        """Callbacks that became ready while it was frozen."""
        self._loop = loop
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._context = contextvars.Context()
        self._context.run(_PROCESS.set, self)
        loop.processes.append(self)

    def __repr__(self) -> str:
        return f"<{self.name}{'' if self.alive else ', dead'}>"

    def spawn(self, work: Coroutine[Any, Any, Any], name: str = "") -> asyncio.Task[Any]:
        """Begin a task of this process, also when another process calls. A dead process begins nothing."""
        if not self.alive:
            work.close()
            return self._loop.create_task(_nothing(), name=name)
        return self._loop.create_task(work, name=name or None, context=self._context.copy())

    def kill(self) -> None:
        """End it, between two awaits of its tasks. Must not be called by its own tasks."""
        assert _PROCESS.get() is not self, "a process is killed from outside"
        if self.alive:
            self.alive = False
            self._loop.forget(self, list(self._tasks))

    def freeze(self) -> None:
        """Stop running, as with ``kill -STOP``: timers expire and answers arrive, and their callbacks wait.

        Callbacks of this turn of the loop still run.
        """
        self.frozen = True

    def thaw(self) -> None:
        """Go on with every callback that became ready meanwhile; it cannot know how long that was."""
        self.frozen = False
        self._loop.resume(self)

    @property
    def busy(self) -> bool:
        """Whether a task of it is under way."""
        return any(not task.done() for task in self._tasks)

    def owns(self, task: asyncio.Task[Any]) -> None:
        """The loop reports that this task belongs to the process."""
        self._tasks.add(task)


async def _nothing() -> None:
    """The task that a dead process gets."""


class _Task(asyncio.Task[Any]):
    """A task whose place in a set follows from its number, not from its address in memory: a TaskGroup
    cancels its tasks in the order of a set, and that order must be a function of the seed."""

    def __init__(self, number: int, coro: Any, **how: Any) -> None:
        self._number = number
        super().__init__(coro, **how)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """See the module. ``seed`` decides every order that is not decided otherwise.

    In an ``even`` loop the callback that was ready first runs first, and every delay has its mean length
    (``SimClock``): a change in one part does not change the order in another.
    """

    def __init__(self, seed: int, *, even: bool = False) -> None:
        super().__init__()
        self.set_task_factory(self._task)
        self.even = even
        self._now = 0.0
        self._turns = 0
        self._chance = LoopClock(seed=seed).random
        self._selector = self
        self._others: WeakSet[asyncio.Task[Any]] = WeakSet()
        """Tasks that belong to no process."""
        self._dead: list[asyncio.Task[Any]] = []
        self.processes: list[Process] = []
        self.steps = 0
        """How many steps of counted processes have begun."""
        self._before: list[tuple[int, int, Callable[[], object]]] = []
        self._serial = count()
        self._timers: list[tuple[float, int, Any]] = []
        """A heap of (moment, number, handle). By their numbers, timers of one moment go in the order in which
        they were set: by the moment alone, it would depend on which others the heap ever held."""
        self._ready: Any
        self._stopping: bool
        self.trouble: list[str] = []
        """Exceptions of tasks that no code awaited."""

    # ------------------------------------------------------------ what a loop must have

    def time(self) -> float:
        """Seconds since the world began."""
        return self._now

    def select(self, _timeout: float | None) -> list[Any]:
        """As a selector: there are no events from outside."""
        return []

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an uncaught exception; the run reports it."""
        error = context.get("exception")
        self.trouble.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        """As usual; the task belongs to the process of its context."""
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is not None:
            process.owns(task)
        else:
            self._others.add(task)
        return task

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As usual; timers of one moment go in the order in which they were set."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._serial), timer))
        return timer

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[A]], R], *args: *A) -> asyncio.Future[R]:
        """What other loops do in a thread is a step of its own: there are no threads."""

        async def do() -> R:
            return func(*args)

        return self.create_task(do())

    def _task(self, _loop: Any, coro: Any, **how: Any) -> _Task:
        return _Task(next(self._serial), coro, loop=self, **how)

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # ------------------------------------------------------------ order and time

    def _run_once(self) -> None:
        """One turn, in place of asyncio's: most have one callback, so what a turn costs by itself counts."""
        self._prepare()
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _prepare(self) -> None:
        """Jump in time if no callback is ready; then put the ready ones into the seed's order."""
        ready, timers = self._ready, self._timers
        while timers and (timers[0][2]._cancelled or not _lives(timers[0][2])):
            heapq.heappop(timers)
        if not ready and timers and not self._stopping:
            self._now, self._turns = max(self._now, timers[0][0]), 0
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        living = [handle for handle in ready if not handle._cancelled and _runs(handle)]
        ready.clear()
        if len(living) > 1 and not self.even:
            self._chance.shuffle(living)
        ready.extend(self._numbered(living))
        self._guard()

    def _numbered(self, handles: list[Any]) -> list[Any]:
        """The handles of a turn, with the callbacks of ``before_step`` between them."""
        last = self.steps + sum(map(_counts, handles))
        if not self._before or self._before[0][0] > last:
            self.steps = last
            return handles
        found: list[Any] = []
        for handle in handles:
            self.steps += _counts(handle)
            while self._before and self._before[0][0] <= self.steps:
                found.append(asyncio.Handle(heapq.heappop(self._before)[2], (), self, contextvars.Context()))
            found.append(handle)
        return found

    def _guard(self) -> None:
        if self._stopping:
            return
        self._turns += 1
        if self._turns > TURNS_WITHOUT_TIME:
            raise Livelock(
                f"{self._turns} turns at {self._now:.6f} s: {self._ready[0] if self._ready else ''}"
            )
        if not self._ready and not self._timers:
            raise Deadlock("nothing will ever happen again")

    # ------------------------------------------------------------ death

    def before_step(self, number: int, act: Callable[[], object]) -> None:
        """Call ``act`` before the ``number``-th step, between two steps of the process that makes it.

        If that step is over, ``act`` is called before the next one.
        """
        heapq.heappush(self._before, (number, next(self._serial), act))

    def resume(self, process: Process) -> None:
        """Queue the callbacks that a thawed process has parked."""
        self._ready.extend(process.parked)
        process.parked.clear()

    def forget(self, process: Process, tasks: list[asyncio.Task[Any]]) -> None:
        """Keep a dead process' tasks, and cancel their callbacks of this turn."""
        self._dead += tasks
        for handle in self._ready:
            if not handle._cancelled and handle._context.get(_PROCESS) is process:
                handle.cancel()

    def destroy(self, generation: int = OLDEST) -> None:
        """After the last turn: kill all processes, then close their coroutines, without any effect.

        ``generation``: of the garbage collector, the oldest that may have something of this loop.
        """
        for process in self.processes:
            process.kill()
        self._dead += [task for task in self._others if not task.done()]
        self.close()
        self._timers.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that never ran
            for task in self._dead:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()
            self._dead.clear()
            gc.collect(generation)


def _runs(handle: Any) -> bool:
    """Whether it may run now; the callback of a frozen process is parked."""
    process = handle._context.get(_PROCESS)
    if process is None:
        return True
    if process.alive and process.frozen:
        process.parked.append(handle)
    return bool(process.alive and not process.frozen)


def _counts(handle: Any) -> bool:
    process = handle._context.get(_PROCESS)
    return process is not None and process.counted


def _lives(handle: Any) -> bool:
    process = handle._context.get(_PROCESS)
    return process is None or process.alive


class _Even(Random):
    """Random numbers for an even loop: delays have their mean."""

    def uniform(self, a: float, b: float) -> float:
        """The middle."""
        return (a + b) / 2


class SimClock(LoopClock):
    """The clock of one process; ``ahead`` is by how many seconds its wall clock is wrong."""

    def __init__(self, loop: SimLoop, seed: str) -> None:
        super().__init__(BEGIN, seed=number(seed))
        if loop.even:
            self.random = _Even(number(seed))
        self.ahead = 0.0
        self._loop = loop

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self._loop.time() + self.ahead)

    def monotonic(self) -> float:
        return self._loop.time()


def number(words: str) -> int:
    """A seed from a text: the same in every process, unlike ``hash``."""
    return int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), "big")
