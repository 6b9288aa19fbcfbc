"""Starts, finds, signals and measures processes of this machine.

Theory.      The number of a process is given to another once it has ended, so a number alone is never
             trusted: ``/proc/<pid>/stat`` says when it started, its environment has our mark, and a file
             descriptor of the process (pidfd) keeps meaning the same one. A process is started in a session
             of its own, with its output in a file, so it does not end with us, nor by a signal to our
             terminal. A process that we started is our child, and we read its exit code; of one that an
             earlier supervisor started we learn only that it has ended.
             A process of another user has its folder as working folder and names what is in it by relative
             paths, because the folders above are closed to that user.
Invariants.  A signal goes only through a descriptor of a process that was compared with the record after the
             descriptor was opened. A process gets nothing of our environment.
Called by    ``supervisor``.
"""

import asyncio
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from kubewright.processes import record
from kubewright.processes.program import Exit, Process, Program
from kubewright.processes.record import Record

MARK = "KUBEWRIGHT_PROCESS"
"""The environment variable that holds the mark of a process."""
PROC = Path("/proc")
SUPPORTED = hasattr(os, "pidfd_open")
"""Whether this system has pidfds, which this module needs; only Linux does."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process uses: resident bytes, and seconds of processor time since its start."""

    memory: int = 0
    cpu: float = 0.0


class Handle:
    """A process that is certainly the one of the record, by its pidfd, until ``close``."""

    def __init__(
        self, process: Process, descriptor: int, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.process = process
        self._descriptor = descriptor
        self._child = child

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    async def ended(self) -> Exit:
        """Wait until it has ended. Has no deadline: a process may run for years; the caller cancels it."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, done.set)
        try:
            await done.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return self._reaped()

    def usage(self) -> Usage:
        """What it uses now; nothing once it has ended."""
        try:
            fields = _stat(self.process.pid)
        except OSError:
            return Usage()
        ticks = os.sysconf("SC_CLK_TCK")
        cpu = (int(fields[11]) + int(fields[12])) / ticks
        return Usage(int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), cpu)

    def close(self) -> None:
        """Give the descriptor back; the process goes on."""
        os.close(self._descriptor)
        if self._child is not None and self._child.returncode is None:
            self._child.returncode = 0  # else the interpreter warns of a child that still runs; it is to run

    def _reaped(self) -> Exit:
        if self._child is None:
            return Exit()
        return Exit(self._child.wait())  # at once: its descriptor says that it has ended


def boot_id() -> str:
    """Differs after each boot of the machine: ticks and pids of a record of an earlier boot mean nothing."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start(program: Program, folder: Path, mark: str, now: float) -> Handle:
    """Write the program's files into its folder, and start a process for it there; one that cannot be put on
    record is ended.

    ``mark``   drawn anew for each start, for the environment of the process
    ``now``    seconds since the epoch, for the record

    Raises:
        OSError: the program is not there, cannot be executed, or the folder cannot be written to.
    """
    record.make_folder(folder, record.OPEN if program.user else record.PRIVATE)
    record.sync_files(folder, program.files, program.user)
    record.make_data(folder, program.data, program.user)
    started = Record(mark=mark, fingerprint=program.fingerprint, boot=boot_id(), grace=program.grace)
    record.write(folder, started)
    child = _child(program, folder, mark)
    with ExitStack() as undo:
        undo.callback(child.wait)
        undo.callback(child.kill)  # before the wait: the last one is undone first
        descriptor = os.pidfd_open(child.pid)
        undo.callback(os.close, descriptor)
        process = Process(child.pid, _ticks(child.pid), mark, program.fingerprint)
        record.write(folder, replace(started, pid=process.pid, ticks=process.ticks, since=now))
        undo.pop_all()
    if program.oom_score:
        with suppress(OSError):  # it has ended already, or this kernel does not let us: it runs all the same
            (PROC / str(child.pid) / "oom_score_adj").write_text(str(program.oom_score))
    return Handle(process, descriptor, child)


def _child(program: Program, folder: Path, mark: str) -> "subprocess.Popen[bytes]":
    uid, gid = program.user or (None, None)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    with ExitStack() as stack:
        output = os.open(folder / record.OUTPUT, flags, 0o600)
        stack.callback(os.close, output)
        opened: tuple[int, ...] = ()
        if uid is not None and not _reached_by_all(Path(program.argv[0])):
            opened = (os.open(program.argv[0], os.O_RDONLY | os.O_CLOEXEC),)
            stack.callback(os.close, *opened)
        return subprocess.Popen(
            program.argv,
            executable=f"/proc/self/fd/{opened[0]}" if opened else None,
            pass_fds=opened,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**program.environment, MARK: mark},
            start_new_session=True,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            umask=0o077,
        )


def _reached_by_all(path: Path) -> bool:
    """Whether every user may follow the path. If not, a process of another user is given the opened file."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in path.resolve().parents)


def find(folder: Path) -> tuple[Handle, Record] | None:
    """The process that the folder's record tells of, and the record; None if it has ended."""
    found = record.read(folder)
    if found is None or found.boot != boot_id():
        return None
    for pid in [found.pid] if found.pid else _pids():
        with suppress(OSError):
            if (handle := _opened(pid, folder, found)) is not None:
                return handle, found
    return None


def _opened(pid: int, folder: Path, found: Record) -> Handle | None:
    """A handle of the process with this id if it is the one of the record.

    A record without ticks was written before the start: then the mark in the environment decides, and the
    process has to lead its session, because a child of it has the same environment.
    """
    descriptor = os.pidfd_open(pid)
    try:
        ticks = _ticks(pid)
        same = ticks == found.ticks if found.ticks else os.getsid(pid) == pid
        fits = same and _runs(pid) and _marked(pid, folder, found)
    except OSError:
        fits, ticks = False, 0
    if not fits:
        os.close(descriptor)
        return None
    return Handle(Process(pid, ticks, found.mark, found.fingerprint), descriptor)


def _marked(pid: int, folder: Path, found: Record) -> bool:
    """Whether the process has the mark of the record, or shows no environment and is in the folder.

    The kernel lets the parent of a process go on before it has laid out the environment of the new program,
    and a program may empty its own: neither makes it another process.
    """
    if (mark := _mark(pid)) is not None:
        return mark == found.mark
    return bool(found.ticks) or (PROC / str(pid) / "cwd").samefile(folder)


def _pids() -> Iterator[int]:
    yield from (int(each.name) for each in PROC.iterdir() if each.name.isdigit())


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/<pid>/stat`` after the name, which may hold spaces: the first is the state."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _ticks(pid: int) -> int:
    return int(_stat(pid)[19])


def _runs(pid: int) -> bool:
    return _stat(pid)[0] not in ("Z", "X")


def _mark(pid: int) -> str | None:
    """The mark in the environment of a process, "" for one without; None while it shows no environment."""
    if not (content := (PROC / str(pid) / "environ").read_bytes()):
        return None
    entries = content.decode(errors="replace").split("\0")
    return dict(entry.partition("=")[::2] for entry in entries).get(MARK, "")
