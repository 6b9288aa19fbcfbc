"""The folder of a program: the record of its process, its files, its data folders and its output.

Theory.      A record is written before a process is started, with a mark drawn for it, and again with its id
             once that is known. A supervisor that dies between the two leaves a record without an id: the
             next one looks for the mark in the environments of all processes, so it finds every process. A
             program that runs as another user may pass through its folder and read its files, and write to
             its data folders only: so it cannot put a link where we write, such as in place of its output.
             Reads and writes below one folder, without following a link that something else has put there.
             Names of files and folders come from objects that users write, and a program may write in a part
             of the tree. So a path is a list of names, none of which leads upwards, and each is opened below
             the descriptor of the one before it: a link in the place of a folder is an error, and not a way
             to another folder, also if it was put there a moment ago. The root itself is the caller's.
Layout       ``process.json`` the record  ``output.log``, ``output.log.1`` what it wrote  ``files/`` its files
             beside them its data folders
Invariants.  Files have mode 0600, and folders above all of them 0700; a file is written under another name
             and renamed, so that no reader sees half of it. Below ``files/`` is what the program names, and
             nothing else. No path of a program leads out of its folder, no link in it is followed, and the
             mode of a folder above ``files/`` or above its data is never changed for it.
             Nothing above the root is opened, made, changed or deleted. No link is followed below it. A file
             is written under another name and renamed, so that no reader sees half of it.
Called by    ``linux``, ``supervisor``, and the hosting of control planes in processes.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from kubewright.base.errors import KubewrightError
from kubewright.processes.program import FILES, GRACE

Owner = tuple[int, int]
"""A uid and a gid."""
ROOT_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_FLAGS = ROOT_FLAGS | os.O_NOFOLLOW
DEEPEST = 64
"""Folders below a root that are looked into."""


class Escapes(KubewrightError, OSError):
    """A path would lead out of its folder."""


def parts_of(path: str) -> tuple[str, ...]:
    """The names of a relative path.

    Raises:
        Escapes: it has none, or one of them is empty, ``.`` or ``..``.
    """
    parts = tuple(path.split("/"))
    if {"", ".", ".."} & set(parts) or "\0" in path or len(parts) > DEEPEST:
        raise Escapes(f"{path[:200]!r} is no path below a folder")
    return parts


@contextmanager
def opened(root: Path, *parts: str, mode: int | None = None, change: bool = True) -> Iterator[int]:
    """The descriptor of the folder ``parts`` below ``root``, which has to be there.

    ``mode``    those of ``parts`` that are missing are made with this mode; None: none is made
    ``change``  the others get it too

    Raises:
        OSError: one of them is missing, or is no folder but a link or a file.
    """
    descriptor = os.open(root, ROOT_FLAGS)
    try:
        for part in parts:
            parts_of(part)
            if mode is not None:
                with suppress(FileExistsError):
                    os.mkdir(part, mode, dir_fd=descriptor)
            inner = os.open(part, FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
            if mode is not None and change and os.fstat(descriptor).st_mode & 0o777 != mode:
                os.fchmod(descriptor, mode)
        yield descriptor
    finally:
        os.close(descriptor)


def replace(folder: int, name: str, fill: Callable[[int], object], owner: Owner | None = None) -> None:
    """Write a file for its owner only, whole or not at all. ``fill`` writes to the descriptor."""
    partial = f".{name}.partial"
    with suppress(FileNotFoundError):
        os.unlink(partial, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(partial, flags, 0o600, dir_fd=folder)
    try:
        fill(descriptor)
        os.fsync(descriptor)
        if owner is not None:
            os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)
    os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)


def write_beneath(folder: int, name: str, content: bytes, owner: Owner | None = None) -> None:
    """As ``replace``, with this content; nothing is written if the file has it, and that owner, already."""
    if _has(folder, name, content, owner):
        return

    def fill(descriptor: int) -> None:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)

    replace(folder, name, fill, owner)


def open_file(folder: int, name: str, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a regular file in a folder.

    Raises:
        OSError: it is missing, or is a link or something else.
    """
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Escapes(f"{name[:200]!r} is no file")
    return descriptor


def keep_only(folder: int, wanted: Mapping[str, object], depth: int = 0) -> None:
    """Delete what is below a folder and not in ``wanted``: a tree of names, with None for a file."""
    for name in os.listdir(folder):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        inner = wanted.get(name) if name in wanted else ()
        if stat.S_ISDIR(found.st_mode):
            if isinstance(inner, Mapping) and depth < DEEPEST:
                with _below(folder, name) as descriptor:
                    keep_only(descriptor, inner, depth + 1)
            else:
                shutil.rmtree(name, dir_fd=folder)
        elif inner is not None or not stat.S_ISREG(found.st_mode):
            os.unlink(name, dir_fd=folder)


def hand_over(folder: int, before: int, owner: Owner) -> None:
    """Give all that ``before`` owns below a folder, and the folder, to ``owner``.

    What belongs to another one, or has a second name elsewhere, is left as it is: it may be no part of this
    tree, but something that the former owner has put a name of here.
    """
    for _, folders, files, descriptor in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        for name in (*folders, *files):
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if found.st_uid == before and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
                os.chown(name, *owner, dir_fd=descriptor, follow_symlinks=False)
    os.fchown(folder, *owner)


def tree(paths: Iterable[str]) -> dict[str, object]:
    """Paths as a tree of names, with None for a file.

    Raises:
        Escapes: one of them leads out, or is a file and a folder at once.
    """
    root: dict[str, object] = {}
    for path in sorted(paths):
        *folders, name = parts_of(path)
        here = root
        for each in folders:
            inner = here.setdefault(each, {})
            if not isinstance(inner, dict):
                raise Escapes(f"{path[:200]!r} is below a file")
            here = inner
        if here.setdefault(name, None) is not None:
            raise Escapes(f"{path[:200]!r} is a file and a folder")
    return root


@contextmanager
def _below(folder: int, name: str) -> Iterator[int]:
    descriptor = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has(folder: int, name: str, content: bytes, owner: Owner | None) -> bool:
    try:
        descriptor = open_file(folder, name)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        right = found.st_size == len(content) and found.st_nlink == 1 and found.st_mode & 0o777 == 0o600
        owned = owner is None or (found.st_uid, found.st_gid) == owner
        return right and owned and file.read(len(content) + 1) == content


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
    wanted = tree(files)
    with opened(folder, FILES, mode=mode) as root:
        keep_only(root, wanted)
    for path, content in files.items():
        *parts, name = parts_of(path)
        with opened(folder, FILES, *parts, mode=mode) as inside:
            write_beneath(inside, name, content, owner)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file for its owner only, whole or not at all."""
    with opened(path.parent) as folder:
        write_beneath(folder, path.name, content)


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
        *above, last = parts_of(name)
        mode = PRIVATE if owner is None else OPEN
        with opened(folder, *above, mode=mode, change=False) as inside, suppress(FileExistsError):
            os.mkdir(last, PRIVATE, dir_fd=inside)
        with opened(folder, *above, last) as data:
            former = os.fstat(data).st_uid
            if owner is not None and former != owner[0]:
                hand_over(data, former, owner)


def rotate_output(folder: Path) -> None:
    """Copy output that has grown large aside, and empty the file, which the process has opened."""
    try:
        with opened(folder) as inside, _output(inside, os.O_RDWR) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_OUTPUT:
                replace(inside, f"{OUTPUT}.1", lambda target: _copied(file, target))
                os.ftruncate(file.fileno(), 0)
    except FileNotFoundError:
        return


def _output(folder: int, flags: int) -> BinaryIO:
    """The output, opened; a link that has taken its place is not followed."""
    return os.fdopen(open_file(folder, OUTPUT, flags), "r+b" if flags & os.O_RDWR else "rb")


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


def last_lines(folder: Path, count: int = LAST_LINES, most: int = LAST_BYTES) -> list[str]:
    """The end of the output, for a user who asks why a process ended: so many lines, and bytes at most."""
    try:
        with opened(folder) as inside, _output(inside, os.O_RDONLY) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            text = file.read(most).decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-count:]
