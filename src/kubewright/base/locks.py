"""A lock file that one process holds for as long as it lives; the file contains its process id.

Theory.      Two advisory locks on one file. ``flock`` decides who has it: it belongs to the open
             file, so a second holder is refused even within one process, and the kernel releases it
             when the holder dies, however that happens. ``lockf`` is for ``holder``: it can be tested
             without being taken, so testing never makes a starting process fail. It is taken
             after the id was written, so an id that is read while it is taken is the holder's.
Invariants.  The file is never removed; only its locks are taken and released.
Called by    the stores of the embedded server and of the simulated cloud; ``compose``, to find out
             which process has a data folder.
"""

import errno
import fcntl
import os
from pathlib import Path

_UNKNOWN = 0


class Held(Exception):
    """Another holder has the file. ``pid`` is its process, 0 if that is not known."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"held by process {pid or 'unknown'}")
        self.pid = pid


class FileLock:
    """The file ``path``, made with mode 0600 if it is missing, held until ``close``.

    Raises:
        Held: another holder has it.
        OSError: the file cannot be opened or made.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _written(self._descriptor)
            self.close()
            if error.errno != errno.EWOULDBLOCK:
                raise
            raise Held(pid) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        os.lockf(self._descriptor, os.F_TLOCK, 0)

    def close(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def holder(path: Path) -> int | None:
    """The id of the process that holds ``path``; None when no other process does; 0 when it cannot be found.

    A process in another container, for example, has an id that means nothing here.

    Raises:
        OSError: the file is there and cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        os.lockf(descriptor, os.F_TEST, 0)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EAGAIN}:
            raise
        pid = _written(descriptor)
        return pid if _has_open(pid, os.fstat(descriptor)) else _UNKNOWN
    else:
        return None
    finally:
        os.close(descriptor)


def _written(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isascii() and text.isdigit() else _UNKNOWN


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Whether a process has the file open, by ``/proc``; on other systems the id in the file is trusted."""
    if not Path("/proc/self/fd").is_dir():
        return True
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:
        return True  # another user's process, which we cannot signal either
    except OSError:
        return False
    return any(_same(entry, file) for entry in entries)


def _same(entry: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(), file)
    except OSError:
        return False
