"""Where the simulated cloud keeps its VMs and volumes: one SQLite file, or nowhere.

Theory.      The cloud works in memory; this is its journal. Changes of one turn of the event loop
             become one transaction (``saved``), so five hundred creations cost a handful of
             commits. Specs are kept once and referred to by number, as in memory.
Invariants.  What ``saved`` has returned for survives kill -9 (write-ahead log, synchronous=NORMAL).
             A power loss may take the last moments with it: to the controllers that is a VM that
             vanished, which they heal. One process at a time writes: ``cloud.lock`` beside the file is
             held while it is open. Others may read it meanwhile (``sqlite3``); only its owner may. A file
             that was there and is missing or empty is told: with it all VMs would vanish at once.
Called by    ``cloud``.
"""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kubewright.base.errors import InvalidInput
from kubewright.base.locks import FileLock, Held
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.sim.spec import SimSpec, read_spec, write_spec
from kubewright.providers.sim.vm import Vm, Volume

FORMAT = 3
"""Version of the file's layout; a file of a later version is refused."""
BUSY_SECONDS = 1.0
"""How long a commit waits for another writer of the file; there should be none."""

LOSS = "without it the simulated cloud has no VM any more, and every machine would be replaced"
"""What it means that the file is missing."""
WAY_OUT = "Put the file back; or start `kubewright up` with --accept-data-loss, to go on without it"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS specs (id INTEGER PRIMARY KEY, spec BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS vms (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, spec INTEGER NOT NULL, vm BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS volumes (id TEXT PRIMARY KEY, volume BLOB NOT NULL);
"""

_FROM_1 = """
UPDATE specs SET spec = CAST(replace(CAST(spec AS TEXT), '"fate":{', '"lifecycle":{') AS BLOB);
"""
"""Specs of format 1 had ``fate`` where they have ``lifecycle`` now."""

_FROM_2 = """
UPDATE specs SET spec = CAST(json_set(
    CAST(spec AS TEXT), '$.tags', json_object('vm', json_extract(CAST(spec AS TEXT), '$.tags'))
) AS BLOB) WHERE json_type(CAST(spec AS TEXT), '$.tags') IS NOT NULL;
"""
"""Specs of format 2 had tags of VMs alone."""

_CHANGES = (_FROM_1, _FROM_2)
"""What makes the next format of each, the first one's first."""


class Store:
    """The journal of one cloud; ``path`` None keeps nothing.

    ``used``: the folder was served before. If a simulated cloud had it then, and no other driver, which its
    lock tells, the file was there, and must be.
    """

    def __init__(self, path: Path | None, *, used: bool = False) -> None:
        self._path, self._used = path, used and path is not None and _lock_of(path).exists()
        self._lock = None if path is None else _locked(path)
        self._file: sqlite3.Connection | None = None
        if path is not None:
            self._file = self._opened(path)
        self._specs: dict[bytes, int] = {}
        self._pending: list[tuple[str, tuple[Any, ...]]] = []
        self._flush: asyncio.Future[None] | None = None

    def load(self) -> tuple[list[Vm], list[Volume], int]:
        """Everything that was saved, and the highest serial number that was ever given."""
        if self._file is None:
            return [], [], 0
        specs = dict(self._read_specs(self._file))
        rows = self._file.execute("SELECT spec, vm FROM vms ORDER BY serial")
        vms = [msgspec.convert({**msgspec.json.decode(vm), "spec": specs[spec]}, Vm) for spec, vm in rows]
        volumes = [
            msgspec.json.decode(row[0], type=Volume)
            for row in self._file.execute("SELECT volume FROM volumes")
        ]
        last = self._file.execute("SELECT seq FROM sqlite_sequence WHERE name = 'vms'").fetchone()
        return vms, volumes, last[0] if last else 0

    def save_vm(self, vm: Vm) -> None:
        """Write a VM, new or changed, with the next commit."""
        if self._file is None:
            return
        fields = {name: getattr(vm, name) for name in vm.__struct_fields__ if name != "spec"}
        self._later(
            "INSERT INTO vms VALUES (?, ?, ?) ON CONFLICT (serial) DO UPDATE SET vm = excluded.vm",
            (vm.serial, self._spec_id(vm.spec), msgspec.json.encode(fields)),
        )

    def drop_vm(self, vm: Vm) -> None:
        """Forget a VM with the next commit."""
        self._later("DELETE FROM vms WHERE serial = ?", (vm.serial,))

    def save_volume(self, volume: Volume) -> None:
        """Write a volume, new or changed, with the next commit."""
        if self._file is not None:
            self._later(
                "INSERT OR REPLACE INTO volumes VALUES (?, ?)", (volume.id, msgspec.json.encode(volume))
            )

    def drop_volume(self, volume: Volume) -> None:
        """Forget a volume with the next commit."""
        self._later("DELETE FROM volumes WHERE id = ?", (volume.id,))

    async def saved(self) -> None:
        """Wait until everything that was changed before this call is in the file."""
        if self._pending:
            if self._flush is None:
                loop = asyncio.get_running_loop()
                self._flush = loop.create_future()
                loop.call_soon(self._commit)
            await asyncio.shield(self._flush)

    def close(self) -> None:
        """Commit what is pending, close the file and release its lock."""
        if self._file is not None:
            self._commit()
            self._file.close()
            self._file = None
        if self._lock is not None:
            self._lock.close()

    def _opened(self, path: Path) -> sqlite3.Connection:
        try:
            return _open(path, used=self._used)
        except BaseException:
            self.close()
            raise

    def _later(self, statement: str, values: tuple[Any, ...]) -> None:
        if self._file is not None:
            self._pending.append((statement, values))

    def _commit(self) -> None:
        pending, self._pending = self._pending, []
        waiting, self._flush = self._flush, None
        assert self._file is not None
        try:
            self._file.execute("BEGIN")
            for statement, values in pending:
                self._file.execute(statement, values)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            self._file.rollback()
            self._pending = pending + self._pending
            if waiting is not None:
                waiting.set_exception(DriverError.of(Code.Unavailable, f"cannot write {self._path}: {error}"))
                waiting.exception()
        else:
            if waiting is not None:
                waiting.set_result(None)

    def _spec_id(self, spec: SimSpec) -> int:
        assert self._file is not None
        data = write_spec(spec)
        if (known := self._specs.get(data)) is None:
            known = self._specs[data] = len(self._specs) + 1
            self._later("INSERT OR IGNORE INTO specs VALUES (?, ?)", (known, data))
        return known

    def _read_specs(self, file: sqlite3.Connection) -> Iterator[tuple[int, SimSpec]]:
        for number, data in file.execute("SELECT id, spec FROM specs ORDER BY id"):
            self._specs[bytes(data)] = number
            yield number, read_spec(data)


def _lock_of(path: Path) -> Path:
    """It is never removed."""
    return path.with_suffix(".lock")


def _locked(path: Path) -> FileLock:
    """Hold the file's lock.

    Raises:
        InvalidInput: another process has it, or the folder cannot be used.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(_lock_of(path))
    except Held as held:
        reason = f"database is locked by process {held.pid or 'unknown'}"
    except OSError as error:
        reason = error.strerror or str(error)
    raise InvalidInput(f"the simulated cloud cannot use {path}: {reason}")


def _open(path: Path, *, used: bool) -> sqlite3.Connection:
    """Open the file, which is for its owner only, as all of the data folder.

    Raises:
        InvalidInput: it is not a cloud's file, or it is of another version, or it is lost.
    """
    lost = InvalidInput(f"{path} is missing or empty: {LOSS}. {WAY_OUT}")
    if used and not path.exists():
        raise lost
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)  # SQLite gives its other files the same mode
        file = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = NORMAL")
        version = file.execute("PRAGMA user_version").fetchone()[0]
        if version not in range(FORMAT + 1):
            raise InvalidInput(
                f"{path} was written by another version (format {version}, this one reads {FORMAT})"
            )
        if used and not version:
            file.close()
            raise lost
        change = "".join(_CHANGES[version - 1 :] if version else ())
        file.executescript(f"BEGIN EXCLUSIVE; {_SCHEMA} {change} PRAGMA user_version = {FORMAT}; COMMIT;")
        if not version:  # no loss of power makes an empty file of it
            file.execute("PRAGMA wal_checkpoint(PASSIVE)")
    except (OSError, sqlite3.Error) as error:
        raise InvalidInput(f"the simulated cloud cannot use {path}: {error}") from None
    return file
