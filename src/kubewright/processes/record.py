"""What the folder of a program says of its process, and the files that are written into it.

Theory.      A record is written before a process is started, with a mark drawn for it, and again with its id
             once that is known. A supervisor that dies between the two leaves a record without an id: the
             next one looks for the mark in the environments of all processes. So no start is forgotten.
Invariants.  Folders have mode 0700 and files 0600; a file is written under another name and renamed, so that
             no reader sees half of it. Below ``files/`` is what the program names, and nothing else.
Layout       ``process.json`` the record  ``output.log``, ``output.log.1`` what it wrote  ``files/`` its files
Called by    ``linux``, ``supervisor``.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

RECORD = "process.json"
OUTPUT = "output.log"
FILES = "files"
LARGEST_OUTPUT = 8 * 1024 * 1024
"""Bytes of output before it is moved aside; one older file is kept."""
LAST_LINES = 15
LAST_BYTES = 8 * 1024


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a process; ``pid`` and ``ticks`` are 0 until it is known to have started."""

    mark: str
    fingerprint: str
    boot: str
    pid: int = 0
    ticks: int = 0
    since: float = 0.0


def read(folder: Path) -> Record | None:
    """The record of a folder; None if there is none that can be read."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None


def write(folder: Path, record: Record) -> None:
    """Keep the record.

    Raises:
        OSError: the folder cannot be written to.
    """
    make_folder(folder)
    replace_file(folder / RECORD, msgspec.json.encode(record))


def forget(folder: Path) -> None:
    """There is no process any more."""
    (folder / RECORD).unlink(missing_ok=True)


def sync_files(folder: Path, files: Mapping[str, bytes], owner: tuple[int, int] | None = None) -> None:
    """Make ``files/`` hold exactly these. ``owner``: uid and gid that may read them.

    Raises:
        OSError: the folder cannot be written to.
    """
    root = folder / FILES
    make_folder(root, owner)
    wanted = {root / path: content for path, content in files.items()}
    for path in [each for each in root.rglob("*") if not each.is_dir()]:
        if path not in wanted:
            path.unlink()
    for path, content in wanted.items():
        make_folder(path.parent, owner, below=root)
        if not path.exists() or path.read_bytes() != content:
            replace_file(path, content, owner)


def replace_file(path: Path, content: bytes, owner: tuple[int, int] | None = None) -> None:
    """Write a file for its owner only, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    if owner is not None:
        os.chown(partial, *owner)
    partial.rename(path)


def make_folder(path: Path, owner: tuple[int, int] | None = None, *, below: Path | None = None) -> None:
    """Make a folder and those above it, for their owner only; given away from below ``below`` on."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        if owner is not None and (each == path or (below is not None and each.is_relative_to(below))):
            os.chown(each, *owner)


def turn_over(folder: Path) -> None:
    """Move output that has grown large aside. The process keeps its file, which begins anew."""
    path = folder / OUTPUT
    try:
        if path.stat().st_size > LARGEST_OUTPUT:
            shutil.copyfile(path, path.with_name(f"{OUTPUT}.1"))
            os.chmod(path.with_name(f"{OUTPUT}.1"), 0o600)
            os.truncate(path, 0)
    except FileNotFoundError:
        return


def recorded(root: Path) -> list[str]:
    """The names of all programs below ``root`` whose folder tells of a process, sorted."""
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
        with (folder / OUTPUT).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            text = file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-LAST_LINES:]
