"""Reads and writes below one folder, without following a link that something else has put there.

Theory.      Names of files and folders come from objects that users write, and a program may write in a part
             of the tree. So a path is a list of names, none of which leads upwards, and each is opened below
             the descriptor of the one before it: a link in the place of a folder is an error, and not a way
             to another folder, also if it was put there a moment ago. The root itself is the caller's.
Invariants.  Nothing above the root is opened, made, changed or deleted. No link is followed below it. A file
             is written under another name and renamed, so that no reader sees half of it.
Called by    ``record``; the folder of snapshots.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kubewright.base.errors import KubewrightError

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


def write(folder: int, name: str, content: bytes, owner: Owner | None = None) -> None:
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
