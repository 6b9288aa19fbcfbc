"""Many calls on all cores: in order, each under a deadline, and every lost one is reported.

Theory.      A job is any call that can be pickled. Each worker is a process of its own that has one job
             at a time, so the work balances by itself, and the job of a worker that dies is known.
             Answers come in the order of the jobs, not of their ends, so what is printed does not
             depend on the number of workers. ``run`` may be called while another ``run`` is under way:
             what comes back for the other one waits for it.
Why ours.    ``concurrent.futures`` was tried, and needs as many lines. A pool breaks as a whole when one of
             its processes dies, and does not say over which job, so each worker must be a pool. A job has
             no deadline, and an exception that is thrown into it may end in a task of its event loop, where
             nothing looks at it. A process that hangs cannot be ended (before Python 3.14), and workers
             stay when their parent is killed. A job costs the parent four times the CPU.
Invariants.  Every job has an answer: what it returned, or ``Lost`` and why. A run that goes on for
             longer than the deadline ends with its worker. Workers ignore Ctrl-C (each would print
             a traceback); they end with the farm, and at the latest when their parent is gone.
Called by    ``campaign``.
"""

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from kubewright.base.errors import KubewrightError

RUN_SECONDS = 120.0
"""How long one job may take, in real time. A world takes a tenth of a second, the slowest ten seconds."""
GRACE_SECONDS = 60.0
"""When no worker has answered for so much longer, not even their own deadlines end their jobs."""
AHEAD = 256
"""So many answers may wait for an earlier one."""
MOST_LOST = 20
"""With so many jobs lost, something is wrong with the machine or with everything."""
JOIN_SECONDS = 5.0
"""How long a killed process may take to be gone."""

T = TypeVar("T")


class TooManyLost(KubewrightError):
    """So many jobs were lost that there is no sense in going on."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A job without an answer, and why."""

    why: str


def cores() -> int:
    """How many processes this one may run at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(eq=False, slots=True)
class _Worker:
    """A process, the line to it, and the ticket of the job that it has (0: none)."""

    process: SpawnProcess
    line: "Connection[Any, Any]"
    ticket: int = 0


class Farm:
    """``jobs`` workers; use as a context. They are started when there is something to do for them."""

    def __init__(self, jobs: int, *, seconds: float = RUN_SECONDS) -> None:
        self.jobs = max(1, jobs)
        self._seconds = seconds
        self._workers: list[_Worker] = []
        self._done: dict[int, Any] = {}
        self._tickets = 0
        self._lost = 0

    def __enter__(self) -> "Farm":
        return self

    def __exit__(self, *_error: object) -> None:
        for worker in tuple(self._workers):
            self._stop_worker(worker)

    def run(self, jobs: Iterable[Callable[[], T]]) -> Iterator[T | Lost]:
        """The answer of each job, in their order.

        Raises:
            TooManyLost: ``MOST_LOST`` jobs were lost.
        """
        source, waiting = iter(jobs), deque[int]()
        while True:
            while len(waiting) < AHEAD and self._has_room and (job := next(source, None)) is not None:
                waiting.append(self._give(job))
            if waiting and waiting[0] in self._done:
                yield self._done.pop(waiting.popleft())
            elif waiting or not self._has_room:
                self._listen()
            else:
                return

    @property
    def _has_room(self) -> bool:
        return len(self._workers) < self.jobs or any(not worker.ticket for worker in self._workers)

    def _give(self, job: Callable[[], object]) -> int:
        """Give a job to an idle worker. Returns its ticket."""
        worker = next((worker for worker in self._workers if not worker.ticket), None)
        if worker is None:
            worker = _start_worker(self._seconds)
            self._workers.append(worker)
        self._tickets += 1
        worker.ticket = self._tickets
        try:
            worker.line.send(job)
        except OSError:
            self._lose(worker, self._exit_text(worker))
        return self._tickets

    def _listen(self) -> None:
        """Wait until something comes from a worker: an answer, or its end."""
        busy = [worker for worker in self._workers if worker.ticket]
        heard = wait([worker.line for worker in busy], timeout=self._seconds + GRACE_SECONDS)
        for worker in busy:
            if worker.line in heard:
                self._hear(worker)
            elif not heard:
                self._lose(worker, "its process answers no more")

    def _hear(self, worker: _Worker) -> None:
        try:
            answer = worker.line.recv()
        except (EOFError, OSError):
            answer = Lost(self._exit_text(worker))
        if isinstance(answer, Lost):
            self._lose(worker, answer.why)
        else:
            self._done[worker.ticket], worker.ticket = answer, 0

    def _lose(self, worker: _Worker, why: str) -> None:
        """Report the job of a worker as lost, and end the worker."""
        self._done[worker.ticket] = Lost(why)
        self._stop_worker(worker)
        self._lost += 1
        if self._lost >= MOST_LOST:
            raise TooManyLost(f"{self._lost} runs were lost, the last one because {why}")

    def _stop_worker(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.join(JOIN_SECONDS)
        worker.line.close()

    @staticmethod
    def _exit_text(worker: _Worker) -> str:
        worker.process.join(JOIN_SECONDS)
        return f"its process died: {_end(worker.process.exitcode)}"


def _end(status: int | None) -> str:
    if status is None or status >= 0:
        return f"exit status {status}"
    return f"signal {signal.Signals(-status).name}"


def _start_worker(seconds: float) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, seconds), daemon=True)
    with _without_sigint():
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _without_sigint() -> Iterator[None]:
    """A process that is started now ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------- in the worker's process


def _work(line: "Connection[Any, Any]", seconds: float) -> None:
    """Do jobs until the parent is gone."""

    def late(_signal: int, frame: FrameType | None) -> None:
        assert frame is not None, "Python is running"
        where = _place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        line.send(Lost(f"it still ran after {seconds:g} s, {where}"))
        os._exit(1)

    signal.signal(signal.SIGALRM, late)
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            job = line.recv()
            signal.setitimer(signal.ITIMER_REAL, seconds)
            answer = _tried(job)
            signal.setitimer(signal.ITIMER_REAL, 0)
            line.send(answer)


def _tried(job: Callable[[], object]) -> object:
    try:
        return job()
    except Exception as error:  # noqa: BLE001 -- every exception is reported to the parent
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Lost(
            f"it raised {type(error).__name__}: {error}, {_place(last.filename, last.lineno, last.name)}"
        )


def _place(file: str, line: int | None, function: str) -> str:
    """Where a program is, as text."""
    return f"at {'/'.join(Path(file).parts[-2:])}:{line} in {function}"
