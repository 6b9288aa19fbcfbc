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
Called by    ``compose.task_hosting``.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from kubewright.apiserver.store.log import (
    BUSY_SECONDS,
    DATA_FILE,
    GAP,
    LOCK_FILE,
    TOKEN_KEY_FILE,
    check_format,
    committed,
    disclaim_all,
    synced,
    version_in,
)
from kubewright.base.errors import InvalidInput, KubewrightError, Unwritten
from kubewright.base.locks import FileLock, Held

MARK_FILE = "restored"
"""In a folder that was made from a copy: which one."""


MOST_FORMER = 100
"""Folders of former data of one call that was cut short again and again."""


class StillServed(KubewrightError):
    """A server has the folder."""


def take(folder: Path, target: Path) -> None:
    """Write a copy of the data, as last committed, into a new file.

    Raises:
        InvalidInput: the data is damaged.
        Unwritten: there is no data, or the file cannot be written.
    """
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _read_only(folder / DATA_FILE) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, and none beside it
    except (OSError, sqlite3.Error) as error:
        raise _failure(f"cannot copy the data: {_without_path(error)}", error) from None


def is_put_back(folder: Path, mark: str) -> bool:
    """Whether the data of a folder is that of the copy with this mark."""
    return _mark(folder) == mark


def former_of(folder: Path, mark: str) -> Path | None:
    """Where the data is that the copy with this mark has replaced; None: there was none."""
    former = _former(folder, mark)
    return former if former.exists() else None


def put_back(folder: Path, source: Path, mark: str) -> Path | None:
    """Put a copy in the place of the data of a folder, unless that is done; returns ``former_of`` it.

    Raises:
        InvalidInput: the copy is none, or is damaged.
        Unwritten: the disk or our rights do not let us.
        StillServed: a server has the folder.
    """
    former, new = _former(folder, mark), folder.with_name(f"{folder.name}.restoring")
    try:
        with _unserved(folder):
            if not is_put_back(folder, mark):
                _check(source)
                _prepare(new, source, mark, max(map(_version, (folder, former, source))))
                _keep_key(new, (folder, former))
                if folder.exists():
                    folder.rename(_unused(former))
                new.rename(folder)
                synced(folder.parent)
    except (OSError, sqlite3.Error) as error:
        raise _failure(f"cannot replace the data: {_without_path(error)}", error) from None
    return former_of(folder, mark)


def _former(folder: Path, mark: str) -> Path:
    return folder.with_name(f"{folder.name}.before-{mark}")


def _failure(told: str, error: OSError | sqlite3.Error) -> InvalidInput:
    """SQLite calls operational what is not in the data, as a full disk, and a table that is missing."""
    odd = not isinstance(error, OSError | sqlite3.OperationalError)
    damaged = odd or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
    return InvalidInput(told) if damaged else Unwritten(told)


def _without_path(error: OSError | sqlite3.Error) -> str:
    """What the system or SQLite says. A path of this machine tells a user of an API nothing."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _prepare(new: Path, source: Path, mark: str, version: int) -> None:
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    data = new / DATA_FILE
    os.close(os.open(data, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    shutil.copyfile(source, data)
    with closing(sqlite3.connect(data)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE name = 'version'", (version + GAP,))
        disclaim_all(db)  # what is missing in the new folder is not lost
    for path, content in ((new / MARK_FILE, mark), (data, None)):
        with open(path, "r+b" if content is None else "wb") as file:
            if content is not None:
                file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
    synced(new)


def _keep_key(new: Path, before: Iterable[Path]) -> None:
    """Copy the key of tokens from the first of these folders that has one."""
    key = next((each / TOKEN_KEY_FILE for each in before if (each / TOKEN_KEY_FILE).exists()), None)
    if key is not None:
        shutil.copy(key, new / TOKEN_KEY_FILE)
        synced(new / TOKEN_KEY_FILE)
        synced(new)


def _check(source: Path) -> None:
    with _read_only(source) as db:
        if (told := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise InvalidInput(f"the copy is damaged: {told}")


def _version(path: Path) -> int:
    """The version counter of a data file, or the highest that is known of a folder; 0 where there is none."""
    if not path.is_dir():
        return version_in(path)
    with suppress(InvalidInput):  # a damaged file says nothing, and the data is about to be replaced
        known = committed(path)
        return max(version_in(path / DATA_FILE), 0 if known is None else known[0])
    return version_in(path / DATA_FILE)


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
    with closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=BUSY_SECONDS, uri=True)
    ) as db:
        check_format(db, Path(path.name))
        yield db


@contextmanager
def _unserved(folder: Path) -> Iterator[None]:
    if not folder.exists():
        yield
        return
    try:
        lock = FileLock(folder / LOCK_FILE)
    except Held:
        raise StillServed("a server has the data") from None
    try:
        yield
    finally:
        lock.close()
