"""Where writes are kept: an SQLite file that survives ``kill -9`` and power loss, or nowhere.

Theory.      The file holds the current objects and the version counter, nothing else; history
             lives in memory, so after a restart old watches get 410 and list again. A batch of
             writes is one transaction, and ``commit`` returns after it is on the disk.
Invariants.  One process, one connection, on the event loop's thread: a thread hop costs more than
             the write (python-libs.md §5.5), and SQLite's WAL-reset defect needs two connections.
             The folder is locked for as long as the log is open. The format is numbered; a number
             we do not know is refused, never guessed at.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from kubewright.apiserver.store.records import Change
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import LOG_PAGES

FORMAT = 1
"""Number of the data format that this code writes, and the only one it reads."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (resource, key)
);
"""
_PUT = (
    "INSERT INTO objects (resource, key, version, data) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (resource, key) DO UPDATE SET version = excluded.version, data = excluded.data"
)
_DROP = "DELETE FROM objects WHERE resource = ? AND key = ?"

Row = tuple[str, str, int, bytes]


class Log(Protocol):
    """Four calls, all synchronous; any exception from ``commit`` means: not kept, never use again."""

    def load(self) -> tuple[int, Iterable[Row]]:
        """The version counter, and every object as (resource, key, version, data)."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Keep a batch, all or nothing; returns when it is durable."""

    def checkpoint(self) -> None:
        """Idle work: move what was written into its final place."""

    def close(self) -> None: ...


class NoLog:
    """Keeps nothing: for tests and throw-away servers."""

    def load(self) -> tuple[int, Iterable[Row]]:
        return 0, ()

    def commit(self, changes: Sequence[Change]) -> None:
        pass

    def checkpoint(self) -> None:
        pass

    def close(self) -> None:
        pass


class SqliteLog:
    """The log in the folder ``folder``, which is made if it is missing.

    Raises:
        InvalidInput: another process has the folder, the file is damaged, or its format is unknown.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = _locked(folder)
        try:
            self._db = _opened(folder / "objects.db")
        except BaseException:
            self._lock.close()
            raise

    def load(self) -> tuple[int, Iterable[Row]]:
        (version,) = self._db.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
        return version, self._rows()

    def commit(self, changes: Sequence[Change]) -> None:
        latest = {(change.new.resource, change.new.key): change for change in changes}
        puts = [_row(change) for change in latest.values() if not change.gone]
        drops = [place for place, change in latest.items() if change.gone]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if puts:
                self._db.executemany(_PUT, puts)
            if drops:
                self._db.executemany(_DROP, drops)
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'version'", (changes[-1].version,))
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def checkpoint(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        try:
            self._db.close()
        finally:
            self._lock.close()

    def _rows(self) -> Iterator[Row]:
        try:
            yield from self._db.execute("SELECT resource, key, version, data FROM objects")
        except sqlite3.DatabaseError as error:
            raise InvalidInput(f"the data file is damaged: {error}") from None


def _row(change: Change) -> Row:
    new = change.new
    return new.resource, new.key, new.version, new.data


class _Lock:
    """An advisory lock on a file, with the holder's process id in it for the message."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Let go; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _locked(folder: Path) -> _Lock:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidInput(f"cannot use {folder} as a data folder: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise InvalidInput(
            f"the data folder {folder} is in use by another kubewright (process {holder})"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return _Lock(descriptor)


def _opened(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # Secrets live here
        db = sqlite3.connect(path, isolation_level=None, cached_statements=16)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot open {path}: {reason}") from None
    try:
        _prepare(db, path)
    except sqlite3.DatabaseError as error:
        db.close()
        raise InvalidInput(f"{path} is no kubewright data file, or is damaged: {error}") from None
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
        db.execute(f"PRAGMA {setting}").fetchone()
    db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    db.executescript(_SCHEMA)
    db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?), ('version', 0)", (FORMAT,))
    (found,) = db.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
    if found != FORMAT:
        raise InvalidInput(f"{path} has data format {found}; this kubewright reads format {FORMAT} only")
