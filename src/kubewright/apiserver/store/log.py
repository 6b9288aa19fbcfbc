"""Where writes are kept: an SQLite file that survives ``kill -9`` and power loss, or nowhere.

Theory.      The file holds the current objects and the version counter, nothing else; history
             lives in memory, so after a restart resumed watches get 410 and clients list again. A batch of
             writes is one transaction, and ``commit`` returns after it is on the disk.
             SQLite takes a write-ahead log that was cut or changed for one that ends earlier, and an empty
             file for a new database. So the version that was committed last is kept beside it, written
             after each commit and never before; a start that finds less in the database refuses. The database
             in turn says which files belong to it, so that none of them goes without notice.
Invariants.  One process, one connection that writes, on the event loop's thread once it is open: a thread
             hop costs more than the write, and SQLite's WAL-reset defect needs two connections that write
             or checkpoint. A log may be opened in another thread. The folder is locked for as long as the
             log is open; others may read the file meanwhile (``sqlite3``, ``peek``), and a reader never
             makes a commit wait. The format is numbered; an unknown number is refused. Versions never go
             back: where commits are lost, they go on ``GAP`` above all that was ever committed.
Called by    ``store``; ``peek`` by commands that read a data folder without serving it.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol
from zlib import crc32

import structlog

from kubewright.apiserver.store.history import Change
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import LOG_PAGES
from kubewright.base.locks import FileLock, Held

_log = structlog.get_logger("kubewright.apiserver.store")

DATA_FILE = "objects.db"
LOCK_FILE = "lock"
TOKEN_KEY_FILE = "token.key"
COMMITTED_FILE = "committed"
"""Names in the folder."""

BUSY_SECONDS = 1.0
"""How long a commit waits for another writer of the file; there should be none."""

LOG_PAGES_LOST = 128
"""After how many pages a log that may lose its last commits is moved into the database, by SQLite itself."""

GAP = 1_000_000
"""How far versions jump, for writes that no file knows of any more: the data that was there may be lost."""

FORMAT = 1
"""Number of the data format that this code writes, and the only one it reads."""

_BELONGS = "belongs "
"""Before the name of a file, as a name in ``meta``: the file was there, so without it something is lost."""

LOSSES = {
    DATA_FILE: "all objects in it are lost",
    COMMITTED_FILE: f"without it nothing tells whether {DATA_FILE} has all that was written",
    TOKEN_KEY_FILE: "with another key every token of a service account that was issued ends",
}
"""What it means that a file is missing."""

RELIED_ON = "what is in it cannot be told from the objects"

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
_SET_VERSION = "UPDATE meta SET value = ? WHERE name = 'version'"
_DROP = "DELETE FROM objects WHERE resource = ? AND key = ?"

Row = tuple[str, str, int, bytes]


class Log(Protocol):
    """Synchronous calls; after any exception from ``commit`` the log must not be used again."""

    def load(self) -> tuple[int, Iterable[Row]]:
        """The version counter, and every object as (resource, key, version, data)."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Keep a batch, all or nothing; returns when it is durable."""

    def checkpoint(self) -> None:
        """When idle: move committed writes from the write-ahead log into the database."""

    def claim(self, name: str) -> None:
        """A file, by its path from the folder, belongs to the data: the next start without it is refused."""

    def disclaim(self, name: str) -> None:
        """The file is about to be deleted."""

    def close(self) -> None: ...


class NoLog:
    """Keeps nothing: for tests and throw-away servers."""

    def load(self) -> tuple[int, Iterable[Row]]:
        return 0, ()

    def commit(self, changes: Sequence[Change]) -> None:
        pass

    def checkpoint(self) -> None:
        pass

    def claim(self, name: str) -> None:
        pass

    def disclaim(self, name: str) -> None:
        pass

    def close(self) -> None:
        pass


class SqliteLog:
    """The log in the folder ``folder``, which is made if it is missing.

    Without ``power_loss`` the last commits survive the end of the process, not the loss of power: the file is
    whole then, and up to ``LOG_PAGES_LOST`` pages of commits are gone. No commit waits for the disk, and no
    time of rest is used for it: there may be a thousand such logs in a process.

    ``accept_loss``: go on with what there is, also where commits are lost.

    Raises:
        InvalidInput: another process has the folder, the file is damaged, or its format is unknown; or it has
            less than was committed, or lacks a file that belongs to it.
    """

    def __init__(self, folder: Path, *, power_loss: bool = True, accept_loss: bool = False) -> None:
        self._folder, self._lock = folder, _locked(folder)
        self._checkpoints = power_loss
        settings = ("FULL", LOG_PAGES) if power_loss else ("NORMAL", LOG_PAGES_LOST)
        try:
            go_on_at = _checked(folder, power_loss=power_loss, accept_loss=accept_loss)
            self._db = _opened(folder / DATA_FILE, *settings)
            if go_on_at is not None:
                self._db.execute(_SET_VERSION, (go_on_at,))
            if accept_loss:
                self._forget_missing()
            self._committed = _Committed(folder / COMMITTED_FILE, self.load()[0])
            self.claim(COMMITTED_FILE)
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
            self._db.execute(_SET_VERSION, (changes[-1].version,))
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._committed.write(changes[-1].version)

    def checkpoint(self) -> None:
        if self._checkpoints:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._committed.sync()

    def claim(self, name: str) -> None:
        """As ``Log.claim``, once the name of the file is on the disk."""
        row = (_BELONGS + name,)
        if self._db.execute("SELECT 1 FROM meta WHERE name = ?", row).fetchone() is None:
            synced((self._folder / name).parent)
            self._db.execute("INSERT INTO meta VALUES (?, 1)", row)
            if self.load()[0]:  # objects of an earlier release: they may be in the database already
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def disclaim(self, name: str) -> None:
        self._db.execute("DELETE FROM meta WHERE name = ?", (_BELONGS + name,))

    def _forget_missing(self) -> None:
        for name in _state_in(self._folder / DATA_FILE)[1]:
            if not (self._folder / name).exists():
                self.disclaim(name)

    def close(self) -> None:
        try:
            self._db.close()
            self._committed.close()
        finally:
            self._lock.close()

    def _rows(self) -> Iterator[Row]:
        try:
            yield from self._db.execute("SELECT resource, key, version, data FROM objects")
        except sqlite3.DatabaseError as error:
            raise InvalidInput(f"the data file is damaged: {error}") from None


def peek(folder: Path, resources: Sequence[str]) -> list[Row]:
    """The objects of some collections as last committed, read only; another process may serve it.

    Raises:
        InvalidInput: there is no data file, it is damaged, or its format is unknown.
    """
    path = folder / DATA_FILE
    if not path.is_file():
        raise InvalidInput(f"there is no data file {path}")
    wanted = ", ".join("?" * len(resources))
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=BUSY_SECONDS, uri=True)
        ) as db:
            check_format(db, path)
            select = f"SELECT resource, key, version, data FROM objects WHERE resource IN ({wanted})"
            return db.execute(select, tuple(resources)).fetchall()
    except sqlite3.Error as error:
        raise InvalidInput(f"cannot read {path}: {error}") from None


class _Committed:
    """The version that was committed last, in a file of one line, with the boot of the system then.

    It is made under another name, so that there is never one without a line. What it does not say, because
    the disk takes no more, is lost to the next start only, which then finds more than was said: so that fails
    no commit.
    """

    def __init__(self, path: Path, version: int) -> None:
        self._boot, self._failed, self._descriptor = _boot(), False, -1
        partial = path.with_name(f"{path.name}.partial")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._descriptor = os.open(partial, flags, 0o600)
            os.pwrite(self._descriptor, self._line(version), 0)
            os.fsync(self._descriptor)
            partial.replace(path)
        except OSError as error:
            self.close()
            raise InvalidInput(f"cannot write {path}: {error.strerror}") from None

    def write(self, version: int) -> None:
        try:
            os.pwrite(self._descriptor, self._line(version), 0)
        except OSError as error:
            self._warn(error)

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self._warn(error)

    def _line(self, version: int) -> bytes:
        line = f"{version:020} {self._boot:36}"
        return f"{line} {crc32(line.encode()):08x}\n".encode()

    def _warn(self, error: OSError) -> None:
        if not self._failed:
            _log.warning("the mark of what was committed last cannot be written", why=error.strerror)
        self._failed = True

    def close(self) -> None:
        """A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def committed(folder: Path) -> tuple[int, str] | None:
    """The version that was committed last in a folder, and in which boot; None where no file says so.

    Raises:
        InvalidInput: the file is damaged.
    """
    path = folder / COMMITTED_FILE
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return None
    if not text:  # an earlier release ended between making the file and its first line
        return None
    line, _, check = text.rstrip("\n").rpartition(" ")
    if check != f"{crc32(line.encode()):08x}":
        raise InvalidInput(f"{path} is damaged: it does not say any more what was committed last")
    return int(line[:20]), line[21:].strip()


def _boot() -> str:
    """The id of this boot of the system; empty where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:36]
    except OSError:
        return ""


def _checked(folder: Path, *, power_loss: bool, accept_loss: bool) -> int | None:
    """The version at which to go on, where commits are lost; None: none are.

    Nothing is changed: what is left of a damaged log can still be looked at afterwards.

    Raises:
        InvalidInput: commits are lost, or files that belong to them, and that is not accepted.
    """
    found, belonging = _state_in(folder / DATA_FILE)
    try:
        known = committed(folder)
    except InvalidInput as error:
        if not accept_loss:
            raise InvalidInput(f"{error}. {WAY_OUT}") from None
        return found + GAP
    if lost := _commits_lost(folder, found, known):
        survives = power_loss or known is None or known[1] == _boot() != ""
    else:
        lost, survives = _files_lost(folder, belonging, known), True
    if lost and survives and not accept_loss:
        raise InvalidInput(f"{lost}. {WAY_OUT}")
    if lost:
        _log.warning("commits are lost", why=lost)
    if known is not None:
        return max(found, known[0]) + GAP if known[0] > found else None
    return found + GAP if lost or (accept_loss and not found) else None


def _commits_lost(folder: Path, found: int, known: tuple[int, str] | None) -> str:
    """Which commits are known and not found; empty: none."""
    if known is not None and known[0] > found:
        lost = f"{folder} has its objects as of version {found}, and version {known[0]} was committed"
    elif known is None and not found and (folder / TOKEN_KEY_FILE).exists():
        lost = f"{folder} was used before, and {DATA_FILE} in it is empty or missing"
    else:
        return ""
    return f"{lost}: {DATA_FILE} or {DATA_FILE}-wal was cut, changed or taken away"


def _files_lost(folder: Path, belonging: Iterable[str], known: tuple[int, str] | None) -> str:
    """Which files that belong to the data are not there; empty: none."""
    gone = [
        f"{os.path.normpath(folder / name)} is missing: {LOSSES.get(Path(name).name, RELIED_ON)}"
        for name in sorted(belonging)
        if not (folder / name).exists() or (name == COMMITTED_FILE and known is None)
    ]
    return "; and ".join(gone)


WAY_OUT = (
    "Put the right files back; or start `kubewright up` with --accept-data-loss, to go on with what is there"
)


def version_in(path: Path) -> int:
    """The version counter of a data file; 0 where there is none, or nothing in it.

    Raises:
        InvalidInput: it is damaged, or no data file.
    """
    return _state_in(path)[0]


def _state_in(path: Path) -> tuple[int, frozenset[str]]:
    """The version counter of a data file, and the names of the files beside it that belong to it."""
    if not path.is_file() or not path.stat().st_size:
        return 0, frozenset()
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=BUSY_SECONDS, uri=True)
        ) as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
                return 0, frozenset()
            check_format(db, path)
            meta: dict[str, int] = dict(db.execute("SELECT name, value FROM meta"))
            names = (name.removeprefix(_BELONGS) for name in meta if name.startswith(_BELONGS))
            return meta["version"], frozenset(names)
    except (sqlite3.Error, TypeError, KeyError) as error:
        raise InvalidInput(f"{path} is not a kubewright data file, or is damaged: {error}") from None


def disclaim_all(db: sqlite3.Connection) -> None:
    """A copy of the data is to stand alone: no file belongs to it."""
    db.execute("DELETE FROM meta WHERE substr(name, 1, ?) = ?", (len(_BELONGS), _BELONGS))


def synced(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _row(change: Change) -> Row:
    new = change.new
    return new.resource, new.key, new.version, new.data


def _locked(folder: Path) -> FileLock:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileLock(folder / LOCK_FILE)
    except Held as held:
        raise InvalidInput(
            f"the data folder {folder} is in use by another kubewright (process {held.pid or 'unknown'})"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot use {folder} as a data folder: {error.strerror}") from None


def _opened(path: Path, synchronous: str, pages: int) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # it contains Secrets
        path.chmod(0o600)  # SQLite gives its other files the same mode
        db = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=16, check_same_thread=False
        )
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot open {path}: {reason}") from None
    try:
        _prepare(db, path, synchronous, pages)
    except sqlite3.DatabaseError as error:
        db.close()
        raise InvalidInput(f"{path} is not a kubewright data file, or is damaged: {error}") from None
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path, synchronous: str, pages: int) -> None:
    for setting in (f"synchronous={synchronous}", "journal_mode=WAL"):
        db.execute(f"PRAGMA {setting}").fetchone()
    db.execute(f"PRAGMA wal_autocheckpoint={pages}")
    db.executescript(_SCHEMA)
    db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?), ('version', 0)", (FORMAT,))
    check_format(db, path)


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a data file of another format.

    Raises:
        InvalidInput: it has one.
    """
    (found,) = db.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
    if found != FORMAT:
        raise InvalidInput(f"{path} has data format {found}; this kubewright reads format {FORMAT} only")
