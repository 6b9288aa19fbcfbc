"""The folder of a program: the record of its process, its files, its data folders and its output.

Theory.      A record is written before a process is started, with a mark drawn for it, and again with its id
             once that is known. A supervisor that dies between the two leaves a record without an id: the
             next one looks for the mark in the environments of all processes, so it finds every process.
             A program that runs as another user may pass through its folder and read its files, and write to
             its data folders only: so it cannot put a link where we write, such as in place of its output.
Invariants.  Files have mode 0600, and folders above all of them 0700; a file is written under another name
             and renamed, so that no reader sees half of it. Below ``files/`` is what the program names, and
             nothing else. No path of a program leads out of its folder, no link in it is followed, and the
             mode of a folder above ``files/`` or above its data is never changed for it (``beneath``).
Layout       ``process.json`` the record  ``output.log``, ``output.log.1`` what it wrote  ``files/`` its files
             beside them its data folders
Called by    ``linux``, ``supervisor``, and the hosting of control planes in processes.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from kubewright.processes import beneath
from kubewright.processes.beneath import Owner
from kubewright.processes.program import FILES, GRACE

RECORD = "process.json"
OUTPUT = "output.log"
PRIVATE, OPEN = 0o700, 0o711
"""Modes of folders: for their owner only; for others to pass through, but not to list."""
LARGEST_OUTPUT = 8 * 1024 * 1024
"""Bytes of output before it is moved aside; one older file is kept."""
LAST_LINES = 30
"""More than etcd writes about its usage after a flag that it does not know."""
LAST_BYTES = 8 * 1024


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a process; ``pid`` and ``ticks`` are 0 in the record that is written before the start.

    ``boot``   the ``linux.boot_id`` at that time
    ``since``  when it started, in seconds since the epoch
    ``grace``  seconds between SIGTERM and SIGKILL, for a supervisor to which no program of this name is given
    """

    mark: str
    fingerprint: str
    boot: str
    pid: int = 0
    ticks: int = 0
    since: float = 0.0
    grace: float = GRACE


def read(folder: Path) -> Record | None:
    """The record of a folder; None if there is none that can be read."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None


def write(folder: Path, record: Record) -> None:
    """Write the record.

    Raises:
        OSError: the folder cannot be written to.
    """
    if not folder.exists():
        make_folder(folder)
    replace_file(folder / RECORD, msgspec.json.encode(record))


def forget(folder: Path) -> None:
    """Delete the record: there is no process any more."""
    (folder / RECORD).unlink(missing_ok=True)


def sync_files(folder: Path, files: Mapping[str, bytes], owner: Owner | None = None) -> None:
    """Make ``files/`` hold exactly these files. ``owner``: the uid and gid that may read them.

    Raises:
        OSError: the folder cannot be written to, or a path leads out of it.
    """
    mode = PRIVATE if owner is None else OPEN
    wanted = beneath.tree(files)
    with beneath.opened(folder, FILES, mode=mode) as root:
        beneath.keep_only(root, wanted)
    for path, content in files.items():
        *parts, name = beneath.parts_of(path)
        with beneath.opened(folder, FILES, *parts, mode=mode) as inside:
            beneath.write(inside, name, content, owner)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file for its owner only, whole or not at all."""
    with beneath.opened(path.parent) as folder:
        beneath.write(folder, path.name, content)


def make_folder(path: Path, mode: int = PRIVATE) -> None:
    """Make a folder with this mode, and those above it that are missing, for their owner only."""
    for each in reversed([above for above in path.parents if not above.exists()]):
        each.mkdir(mode=PRIVATE, exist_ok=True)
    path.mkdir(mode=mode, exist_ok=True)
    if path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)


def make_data(folder: Path, names: Iterable[str], owner: Owner | None = None) -> None:
    """Make the data folders of a program, for ``owner`` only. What is in them stays, and becomes its too.

    Raises:
        OSError: the folder cannot be written to, or a name leads out of it.
    """
    for name in names:
        *above, last = beneath.parts_of(name)
        mode = PRIVATE if owner is None else OPEN
        with beneath.opened(folder, *above, mode=mode, change=False) as inside, suppress(FileExistsError):
            os.mkdir(last, PRIVATE, dir_fd=inside)
        with beneath.opened(folder, *above, last) as data:
            former = os.fstat(data).st_uid
            if owner is not None and former != owner[0]:
                beneath.hand_over(data, former, owner)


def rotate_output(folder: Path) -> None:
    """Copy output that has grown large aside, and empty the file, which the process has opened."""
    try:
        with beneath.opened(folder) as inside, _output(inside, os.O_RDWR) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_OUTPUT:
                beneath.replace(inside, f"{OUTPUT}.1", lambda target: _copied(file, target))
                os.ftruncate(file.fileno(), 0)
    except FileNotFoundError:
        return


def _output(folder: int, flags: int) -> BinaryIO:
    """The output, opened; a link that has taken its place is not followed."""
    return os.fdopen(beneath.open_file(folder, OUTPUT, flags), "r+b" if flags & os.O_RDWR else "rb")


def _copied(file: BinaryIO, target: int) -> None:
    with os.fdopen(os.dup(target), "wb") as copy:
        shutil.copyfileobj(file, copy)


def recorded(root: Path) -> list[str]:
    """The names of all programs below ``root`` whose folder has a record, sorted."""
    found = []
    for folder, below, files in os.walk(root):
        if RECORD in files:
            found.append(Path(folder).relative_to(root).as_posix())
        if OUTPUT in files:
            below.clear()  # a program's own folder, which may hold much
    return sorted(found)


def last_lines(folder: Path) -> list[str]:
    """The end of the output, for a user who asks why a process ended."""
    try:
        with beneath.opened(folder) as inside, _output(inside, os.O_RDONLY) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            text = file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-LAST_LINES:]
