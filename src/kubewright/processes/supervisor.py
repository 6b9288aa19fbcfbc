"""The programs below one folder: which are wanted, and the status of each.

Theory.      Callers say which programs are to run (``want``, ``drop``) and read the ``status`` of each; these
             calls do not wait. A worker for each program does the rest. Listeners are called with the name of
             a program whose status may have changed. When ``run`` ends, processes go on; the next supervisor
             finds them.
             Keeps one program running: a task that looks, decides and acts. The task finds the process of
             which the folder has a record, asks ``program.decide`` what is next, does it, and waits for the
             first of four events: another program is wanted, the process ends, a probe is due, a pause is
             over.
Invariants.  At most ``starts`` programs are starting at one time, because a start takes seconds of processor
             time. A program has a worker from ``want`` until it is dropped and its process has ended.
             Only this task starts and signals the process of its folder. A fault of the folder (no space, no
             rights) is a failed start, with a pause, and shown in the status; it ends no other program.
Called by    the hosting of control planes in processes, and the kubelet of the test kit.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.processes import linux, probes, record
from kubewright.processes.linux import Handle
from kubewright.processes.probes import Answers
from kubewright.processes.program import (
    GRACE,
    STARTS,
    Exit,
    Failures,
    Forget,
    Health,
    Kill,
    NextPlan,
    Phase,
    Program,
    Seen,
    Start,
    Status,
    Step,
    Terminate,
    decide,
    folder_of,
    safe_name,
)

STARTING = 30.0
"""Seconds after which a program that has not started yet gives its slot to the next one."""

LOOKING = "Kubewright looks whether its process still runs"
"""The message of a program until its worker has looked."""


class Worker:
    """One program.

    ``slots``     how many programs of the supervisor may be starting at one time
    ``told``      is called when the status may have changed
    ``because``   the message of the status until the task has looked
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        clock: Clock,
        slots: asyncio.Semaphore,
        told: Callable[[], None],
        *,
        because: str = LOOKING,
    ) -> None:
        self._name = name
        self._folder = folder
        self._clock = clock
        self._slots = slots
        self._told = told
        self._wanted: Program | None = None
        self._changed = asyncio.Event()
        self._handle: Handle | None = None
        self._ended: asyncio.Task[Exit] | None = None
        self._running: Program | None = None
        """What the process was started for; None while that is not known: it is found by its record alone."""
        self._since = 0.0
        """When the process started, in seconds since the epoch; ``_began``: when we knew of it, monotonic."""
        self._began = 0.0
        self._grace = GRACE
        self._longest_grace: float | None = None
        self._asked_to_end: float | None = None
        self._counts_as_failure = True
        self._failures = Failures()
        self._answers = Answers()
        self._next_probe = 0.0
        self._holds_slot = False
        self._plan = NextPlan(because=because)
        self._forgotten = False

    @property
    def wanted(self) -> Program | None:
        """What is to run; None: nothing."""
        return self._wanted

    def want(self, program: Program | None, *, grace: float | None = None) -> None:
        """From now on this program is to run; None: nothing. ``grace``: the longest that the end may take."""
        if grace != self._longest_grace:
            self._longest_grace = grace
            self._changed.set()
        if program == self._wanted:
            return
        if self._wanted is None or program is None or program.fingerprint != self._wanted.fingerprint:
            self._failures = Failures()  # as a pod that replaces another: no pause, and it counts anew
        self._wanted = program
        self._changed.set()

    def kill(self) -> None:
        """From now on nothing is to run, and the process ends at once, without a grace period."""
        self.want(None)
        if self._handle is not None:
            self._handle.signal(signal.SIGKILL)

    async def run(self) -> None:
        """Keep it running until nothing is wanted and nothing runs. When cancelled, the process goes on."""
        try:
            self._adopt()
            while not self._forgotten:
                self._changed.clear()
                self._take_over_settings()
                self._plan = decide(self._seen())
                for step in self._plan.steps:
                    await self._perform(step)
                self._told()
                if not self._forgotten:
                    await self._wait()
        finally:
            self._release_slot()
            if self._ended is not None:
                self._ended.cancel()
            if self._handle is not None:
                self._handle.close()

    def status(self) -> Status:
        """What can be seen of the program."""
        if self._handle is None:
            phase = Phase.BACK_OFF if self._failures.consecutive else Phase.WAITING
            return Status(self._name, phase, restarts=self._failures.count, message=self._plan.because)
        usage, answers = self._handle.usage(), self._answers
        message = self._plan.because if self._asked_to_end is not None else answers.message
        return Status(
            self._name,
            self._phase(),
            ready=answers.ready and self._asked_to_end is None,
            pid=self._handle.process.pid,
            fingerprint=self._handle.process.fingerprint,
            since=self._since,
            restarts=self._failures.count,
            message=message,
            memory=usage.memory,
            cpu=usage.cpu,
        )

    def _phase(self) -> Phase:
        if self._asked_to_end is not None:
            return Phase.TERMINATING
        return Phase.RUNNING if self._answers.started else Phase.STARTING

    # ------------------------------------------------------------------ look
    def _adopt(self) -> None:
        if (found := linux.find(self._folder)) is not None:
            handle, started = found
            self._grace = started.grace
            log.info("found the process of a program", program=self._name, pid=handle.process.pid)
            self._follow(handle, started.since)

    def _take_over_settings(self) -> None:
        """A process with the fingerprint that is wanted goes on, with the probes and the grace now wanted."""
        wanted, handle = self._wanted, self._handle
        fits = wanted is not None and handle is not None and wanted.fingerprint == handle.process.fingerprint
        if fits and wanted != self._running:
            self._running, self._next_probe = wanted, self._clock.monotonic()

    def _seen(self) -> Seen:
        running = self._running or self._wanted
        grace = self._grace if running is None else running.grace
        return Seen(
            now=self._clock.monotonic(),
            wanted=self._wanted,
            process=None if self._handle is None else self._handle.process,
            health=Health() if running is None else self._answers.health(running),
            asked=self._asked_to_end,
            grace=grace if self._longest_grace is None else min(grace, self._longest_grace),
            failures=self._failures,
            memory=0 if self._handle is None else self._handle.usage().memory,
        )

    # ------------------------------------------------------------------ act
    async def _perform(self, step: Step) -> None:
        match step:
            case Start():
                await self._start()
            case Terminate(failed, at_once):
                self._asked_to_end, self._counts_as_failure = self._clock.monotonic(), failed
                self._signal(signal.SIGKILL if at_once else signal.SIGTERM)
            case Kill():
                self._signal(signal.SIGKILL)
            case Forget():
                with suppress(OSError):  # else the next supervisor sees that the process has ended
                    record.forget(self._folder)
                self._forgotten = True

    async def _start(self) -> None:
        """Start it once a slot is free, if it is still wanted then."""
        await self._slots.acquire()
        self._holds_slot = True
        if (program := self._wanted) is None:
            return self._release_slot()
        mark, now = f"{self._clock.random.getrandbits(64):016x}", self._clock.now().timestamp()
        try:
            handle = await asyncio.to_thread(linux.start, program, self._folder, mark, now)
        except (OSError, ValueError) as error:
            self._release_slot()
            self._failures = self._failures.with_end(
                f"it cannot be started: {error}", self._clock.monotonic(), 0
            )
            self._plan = decide(self._seen())
            return None
        log.info("started a program", program=self._name, pid=handle.process.pid)
        self._running = program
        return self._follow(handle, now)

    def _follow(self, handle: Handle, since: float) -> None:
        self._handle, self._since, self._began = handle, since, self._clock.monotonic()
        self._ended = asyncio.create_task(handle.ended(), name=f"end of {self._name}")
        self._asked_to_end, self._counts_as_failure, self._answers = None, True, Answers()
        self._next_probe = self._began
        if self._running is not None:
            self._next_probe += self._answers.next_in(self._running, None)

    def _signal(self, number: signal.Signals) -> None:
        if self._handle is not None:
            log.info("sent a signal", program=self._name, signal=number.name, because=self._plan.because)
            self._handle.signal(number)

    # ------------------------------------------------------------------ wait
    async def _wait(self) -> None:
        """Until another program is wanted, the process ends, a probe is due, or the plan says to look."""
        changed = asyncio.create_task(self._changed.wait())
        try:
            waits = {changed} if self._ended is None else {changed, self._ended}
            await asyncio.wait(waits, timeout=self._timeout(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        if self._ended is not None and self._ended.done():
            self._process_ended(self._ended.result())
        elif self._handle is not None and self._clock.monotonic() >= self._next_probe:
            await self._probe()
        if self._holds_slot and (self._answers.started or self._clock.monotonic() >= self._began + STARTING):
            self._release_slot()

    def _timeout(self) -> float | None:
        """Seconds until something is due without an event; None for never."""
        now, due = self._clock.monotonic(), []
        if self._plan.wake is not None:
            due.append(self._plan.wake.total_seconds())
        if self._handle is not None:
            due.append(max(self._next_probe - now, 0.0))
        return min(due, default=None)

    def _process_ended(self, end: Exit) -> None:
        """Take in that the process has ended."""
        now = self._clock.monotonic()
        told = str(end) if self._asked_to_end is None else self._plan.because
        log.info("a program ended", program=self._name, how=str(end))
        if self._counts_as_failure:
            self._failures = self._failures.with_end(told, now, now - self._began)
        if self._handle is not None:
            self._handle.close()
        self._handle, self._ended, self._running, self._asked_to_end = None, None, None, None
        self._release_slot()

    async def _probe(self) -> None:
        """Run the probes that are due, and rotate the output; a process that is to end is not probed."""
        program = self._running or self._wanted
        if program is None or self._asked_to_end is not None:
            self._next_probe = self._clock.monotonic() + GRACE
            return
        with suppress(OSError):  # a disk that is full holds no second file of output; the program goes on
            record.rotate_output(self._folder)
        before = self._answers
        startup, readiness, liveness = [
            None if probe is None else await probes.ask(probe, self._folder, program)
            for probe in before.to_ask(program)
        ]
        self._answers = before.after(program, startup, readiness, liveness)
        self._next_probe = self._clock.monotonic() + self._answers.next_in(program, before)

    def _release_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self._slots.release()


Listener = Callable[[str], None]

log = structlog.get_logger("kubewright.processes")


class Supervisor:
    """The programs below ``root``. One supervisor at a time works there: the caller holds a lock."""

    def __init__(self, root: Path, clock: Clock, *, starts: int = STARTS) -> None:
        self._root = root
        self._clock = clock
        self._slots = asyncio.Semaphore(starts)
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[Listener] = []
        self._runs = False

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with the name of each program whose status may have changed."""
        self._listeners.append(listener)

    def want(self, program: Program) -> None:
        """Keep this program running; a process of the same name and other settings is replaced.

        Raises:
            InvalidInput: the name cannot be that of a folder.
        """
        self._worker(program.name).want(program)

    def drop(self, name: str, *, grace: float | None = None) -> None:
        """End the program of this name, also one that an earlier supervisor started; its folder stays.

        ``grace``: the longest that the end may take, in seconds; None: the grace period of the program
        """
        if name in self._workers or (folder_of(self._root, name) / record.RECORD).exists():
            self._worker(name).want(None, grace=grace)

    def kill(self) -> None:
        """End all programs at once: their folder is gone, and no other supervisor would find them."""
        for worker in self._workers.values():
            worker.kill()

    def status(self, name: str) -> Status | None:
        """The status of a program; None if it has no worker."""
        worker = self._workers.get(name)
        return None if worker is None else worker.status()

    def folder(self, name: str) -> Path:
        """Where a program keeps its files and its output."""
        return folder_of(self._root, name)

    def recorded(self) -> list[str]:
        """The names of all programs that have a record, whether they are wanted or not, sorted."""
        return record.recorded(self._root)

    async def run(self, stop: asyncio.Event) -> None:
        """Keep them running until ``stop``; then leave their processes alone."""
        self._runs = True
        for name in self._workers:
            self._begin(name)
        try:
            await stop.wait()
        finally:
            self._runs = False
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _worker(self, name: str) -> Worker:
        if not safe_name(name):
            raise InvalidInput(f"{name!r} cannot be the name of a program: it names a folder")
        if name not in self._workers:
            self._workers[name] = self._new_worker(name)
            self._begin(name)
        return self._workers[name]

    def _begin(self, name: str) -> None:
        if self._runs and name not in self._tasks:
            task = asyncio.create_task(self._keep(name), name=f"program {name}")
            self._tasks[name] = task
            task.add_done_callback(partial(self._done, name))

    async def _keep(self, name: str) -> None:
        """Run the worker of a program. If it raises, which is a bug of ours, make another after a pause."""
        failures = Failures()
        while True:
            began = self._clock.monotonic()
            try:
                return await self._workers[name].run()
            except Exception as error:
                log.exception("a program could not be kept running", program=name)
                now = self._clock.monotonic()
                told = f"it could not be kept running: {type(error).__name__}: {error}"
                failures = failures.with_end(told, now, now - began)
            wanted = self._workers[name].wanted
            self._workers[name] = self._new_worker(name, failures.last)
            self._workers[name].want(wanted)
            await self._clock.sleep(failures.pause)

    def _new_worker(self, name: str, because: str = LOOKING) -> Worker:
        told = partial(self._tell, name)
        return Worker(name, self.folder(name), self._clock, self._slots, told, because=because)

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        """Its worker has ended: nothing of the program runs, or the supervisor ends."""
        self._tasks.pop(name, None)
        worker = self._workers.pop(name)
        if self._runs and worker.wanted is not None:  # wanted again while the last process ended
            self.want(worker.wanted)
        self._tell(name)

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)
