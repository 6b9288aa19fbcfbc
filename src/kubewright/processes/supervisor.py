"""The programs below one folder: which are wanted, and the status of each.

Theory.      Callers say which programs are to run (``want``, ``drop``) and read the ``status`` of each; these
             calls do not wait. A worker for each program does the rest (``worker``). Listeners are called
             with the name of a program whose status may have changed. When ``run`` ends, processes go on; the
             next supervisor finds them.
Invariants.  At most ``starts`` programs are starting at one time, because a start takes seconds of processor
             time. A program has a worker from ``want`` until it is dropped and its process has ended.
Called by    the hosting of control planes in processes, and the kubelet of the test kit.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.processes import record
from kubewright.processes.life import Failures
from kubewright.processes.program import Program, Status, folder_of, safe_name
from kubewright.processes.worker import LOOKING, Worker

STARTS = 2
"""Programs that start at one time: on two cores more of them only make each other late (nested.md D3)."""

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
