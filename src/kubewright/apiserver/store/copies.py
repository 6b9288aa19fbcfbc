"""Copies of a data folder, and a copy in the place of the data.

Theory.      A copy is made by SQLite's own backup, so a server may write meanwhile, and what is copied is one
             moment. A copy takes the place of the data by two renames: the folder becomes the former one, the
             new one gets its name. A mark in the new folder says which copy it is, so the whole can be
             repeated after it was cut short at any point, and is never done twice. The key of ServiceAccount
             tokens is no part of a copy, as it is no part of an etcd: the new folder gets the one that was
             there, so a token stays good if the copy has its account.
Invariants.  Nothing is deleted but what an earlier, unfinished call has made. No server has the folder
             meanwhile (its lock). The version counter goes on far above both, so that no version that a
             client has seen comes again with another content. Files have mode 0600.
Called by    ``compose.nested``.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kubewright.apiserver.store.log import (
    BUSY_SECONDS,
    DATA_FILE,
    LOCK_FILE,
    TOKEN_KEY_FILE,
    check_format,
)
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.base.locks import FileLock, Held

MARK_FILE = "restored"
"""In a folder that was made from a copy: which one."""


GAP = 1_000_000
"""How far versions jump, for writes that no file knows of any more: the data that was there may be lost."""


MOST_FORMER = 100
"""Folders of former data of one call that was cut short again and again."""


class StillServed(KubewrightError):
    """A server has the folder."""


def take(folder: Path, target: Path) -> None:
    """Write a copy of the data, as last committed, into a new file.

    Raises:
        InvalidInput: there is no data, or it is damaged, or the file cannot be written.
    """
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _read_only(folder / DATA_FILE) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, and none beside it
    except (OSError, sqlite3.Error) as error:
        raise InvalidInput(f"cannot copy the data of {folder}: {error}") from None


def put_back(folder: Path, source: Path, mark: str) -> str:
    """Put a copy in the place of the data of a folder; answers where the former data is, empty: nowhere.

    Raises:
        InvalidInput: the copy is none, or is damaged, or the disk or our rights do not let us.
        StillServed: a server has the folder.
    """
    former, new = (folder.with_name(f"{folder.name}.{each}") for each in (f"before-{mark}", "restoring"))
    try:
        with _unserved(folder):
            if _mark(folder) != mark:
                _check(source)
                _prepare(new, source, mark, max(map(_version, (folder, former, source))))
                _keep_key(new, (folder, former))
                if folder.exists():
                    folder.rename(_unused(former))
                new.rename(folder)
                _synced(folder.parent)
    except (OSError, sqlite3.Error) as error:
        raise InvalidInput(f"cannot replace the data of {folder}: {error}") from None
    return str(former) if former.exists() else ""


def _prepare(new: Path, source: Path, mark: str, version: int) -> None:
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    data = new / DATA_FILE
    os.close(os.open(data, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    shutil.copyfile(source, data)
    with closing(sqlite3.connect(data)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE name = 'version'", (version + GAP,))
    for path, content in ((new / MARK_FILE, mark), (data, None)):
        with open(path, "r+b" if content is None else "wb") as file:
            if content is not None:
                file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
    _synced(new)


def _keep_key(new: Path, before: Iterable[Path]) -> None:
    """Copy the key of tokens from the first of these folders that has one."""
    key = next((each / TOKEN_KEY_FILE for each in before if (each / TOKEN_KEY_FILE).exists()), None)
    if key is not None:
        shutil.copy(key, new / TOKEN_KEY_FILE)
        _synced(new / TOKEN_KEY_FILE)
        _synced(new)


def _check(source: Path) -> None:
    with _read_only(source) as db:
        if (told := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise InvalidInput(f"the copy is damaged: {told}")


def _version(path: Path) -> int:
    """The version counter of a data file, or of that in a folder; 0 where there is none."""
    data = path / DATA_FILE if path.is_dir() else path
    if not data.exists():
        return 0
    with _read_only(data) as db:
        version: int = db.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()[0]
        return version


def _unused(former: Path) -> Path:
    """The path, or one like it: what an earlier call has put there stays."""
    names = (former, *(former.with_name(f"{former.name}-{number}") for number in range(2, MOST_FORMER)))
    return next((each for each in names if not each.exists()), former)


def _mark(folder: Path) -> str:
    try:
        return (folder / MARK_FILE).read_text()
    except OSError:
        return ""


@contextmanager
def _read_only(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", BUSY_SECONDS, uri=True)) as db:
        check_format(db, path)
        yield db


@contextmanager
def _unserved(folder: Path) -> Iterator[None]:
    if not folder.exists():
        yield
        return
    try:
        lock = FileLock(folder / LOCK_FILE)
    except Held:
        raise StillServed(f"a server has {folder}") from None
    try:
        yield
    finally:
        lock.close()


def _synced(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
