"""What the simulated cloud has: VMs by id, name and class, and volumes; and the observer of VM changes.

Theory.      VMs are values; this is the only place that replaces them. Every change goes into the store and
             to the observer in one step, so no caller can know more than the file has.
             Where the simulated cloud keeps its VMs and volumes: one SQLite file, or nowhere. The cloud works
             in memory; this is its journal. Changes of one turn of the event loop become one transaction
             (``saved``), so five hundred creations cost a handful of commits. Specs are kept once and
             referred to by number, as in memory.
Invariants.  At most one VM per namespace and name. A serial number is never given twice, not even across
             restarts. A VM whose deletion was accepted is powered off, and is removed at ``gone_at``.
             What ``saved`` has returned for survives kill -9 (write-ahead log, synchronous=NORMAL). A power
             loss may take the last moments with it: to the controllers that is a VM that vanished, which they
             heal. One process at a time writes: ``cloud.lock`` beside the file is held while it is open.
             Others may read it meanwhile (``sqlite3``); only its owner may. A file that was there and is
             missing or empty is told: with it all VMs would vanish at once.
Called by    ``cloud``.
"""

import asyncio
import heapq
import os
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.base.locks import FileLock, Held
from kubewright.driver.errors import Code, DriverError, NotFound
from kubewright.providers.sim.spec import SimSpec, read_spec, write_spec
from kubewright.providers.sim.vm import Bootstrap, Vm, Volume, carries

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


REMEMBERED = 10_000
"""Gone VMs that are kept; older ones are beyond any lag of lists that is worth simulating."""


@dataclass(frozen=True, slots=True)
class VmRequest:
    """Which VM a call is about, and what its class says. Empty strings mean "not known"."""

    name: str
    namespace: str
    owner_uid: str
    class_name: str
    spec: SimSpec
    provider_id: str = ""
    bootstrap: Bootstrap | None = None

    @property
    def machine(self) -> str:
        """The machine, for messages and counts."""
        return f"{self.namespace}/{self.name}"

    @property
    def account(self) -> str:
        """Quotas and rates count per class."""
        return f"{self.namespace}/{self.class_name}"

    def means(self, vm: Vm) -> bool:
        """Whether a VM of this name is the one: by its id or its owner; or neither is known."""
        if self.provider_id and self.provider_id == vm.provider_id:
            return True
        return self.owner_uid == vm.owner_uid if self.owner_uid else not self.provider_id


class VmObserver(Protocol):
    """What runs on the VMs, and is called with their changes."""

    def changed(self, vm_id: str) -> None:
        """A VM came, went or changed; look again."""

    async def wait_idle(self, vm_id: str) -> None:
        """Return when nothing that runs on the VM has a request in flight."""


class VmSource(Protocol):
    """Where kubelets find their VMs: all of a cloud, or those of one cluster (``boot.membership``)."""

    clock: Clock

    @property
    def vms(self) -> Mapping[str, Vm]: ...

    def get(self, vm_id: str) -> Vm | None: ...

    def obey(self, vm_id: str, note: str) -> frozenset[str]: ...

    def observe(self, observer: VmObserver | None) -> None: ...


class Disks:
    """All volumes of one cloud. One is attached to at most one VM; a deleted VM holds none."""

    def __init__(self, store: Store, volumes: Iterable[Volume]) -> None:
        self._store = store
        self._volumes = {volume.id: volume for volume in volumes}

    @property
    def all(self) -> Mapping[str, Volume]:
        """Every volume by id; a snapshot."""
        return dict(self._volumes)

    def create(self, volume: Volume) -> Volume:
        """Make a volume, or answer the one of this id."""
        return self._volumes.get(volume.id) or self._put(volume)

    def attach(self, volume_id: str, vm_id: str) -> None:
        """Attach a volume. Raises NotFound, or FailedPrecondition when another VM has it."""
        volume = self._existing(volume_id)
        if volume.vm_id not in ("", vm_id):
            raise DriverError.of(Code.FailedPrecondition, f"{volume_id} is attached to {volume.vm_id}")
        self._put(replace(volume, vm_id=vm_id))

    def delete(self, volume_id: str) -> None:
        """Delete a volume; a missing one is fine. Raises FailedPrecondition while a VM has it."""
        if (volume := self._volumes.get(volume_id)) is None:
            return
        if volume.vm_id:
            raise DriverError.of(Code.FailedPrecondition, f"{volume_id} is attached to {volume.vm_id}")
        del self._volumes[volume_id]
        self._store.drop_volume(volume)

    def release(self, vm_id: str) -> None:
        """Detach whatever a VM has."""
        for volume in [volume for volume in self._volumes.values() if volume.vm_id == vm_id]:
            self._put(replace(volume, vm_id=""))

    def _existing(self, volume_id: str) -> Volume:
        if (volume := self._volumes.get(volume_id)) is None:
            raise NotFound(f"there is no volume {volume_id}")
        return volume

    def _put(self, volume: Volume) -> Volume:
        self._volumes[volume.id] = volume
        self._store.save_volume(volume)
        return volume


class Inventory:
    """All VMs and disks of one cloud."""

    def __init__(self, clock: Clock, store: Store) -> None:
        vms, volumes, self._serial = store.load()
        self.observer: VmObserver | None = None
        self.store = store
        self.disks = Disks(store, volumes)
        self._clock = clock
        self._vms = {vm.id: vm for vm in vms}
        self._ids = {(vm.namespace, vm.name): vm.id for vm in vms}
        self._classes: dict[str, set[str]] = {}
        for vm in vms:
            self._classes.setdefault(vm.account, set()).add(vm.id)
        self._deleting = [(vm.gone_at, vm.id) for vm in vms if vm.gone_at is not None]
        heapq.heapify(self._deleting)
        self._specs = {write_spec(vm.spec): vm.spec for vm in vms}
        self._gone_vms = GoneVms()

    def now(self) -> float:
        """Seconds since the epoch: the time of all moments of VMs."""
        return self._clock.now().timestamp()

    def all(self) -> Mapping[str, Vm]:
        """Every VM by id; a snapshot."""
        self.forget_gone()
        return dict(self._vms)

    def get(self, vm_id: str) -> Vm | None:
        """One VM by id."""
        self.forget_gone()
        return self._vms.get(vm_id)

    def named(self, namespace: str, name: str) -> Vm | None:
        """One VM by the machine that it was made for."""
        self.forget_gone()
        return self._vms.get(self._ids.get((namespace, name), ""))

    def count(self, account: str) -> int:
        """How many VMs a class has."""
        return len(self._classes.get(account, ()))

    def add(self, request: VmRequest, spec: SimSpec) -> Vm:
        """A new VM, which begins to boot when the cloud answers its creation."""
        self._serial += 1
        now = self.now()
        vm = Vm(
            serial=self._serial,
            name=request.name,
            namespace=request.namespace,
            owner_uid=request.owner_uid,
            class_name=request.class_name,
            spec=self._specs.setdefault(write_spec(spec), spec),
            created_at=now,
            up_at=now + spec.create_seconds + spec.boot_seconds,
            bootstrap=request.bootstrap,
        )
        self._ids[vm.namespace, vm.name] = vm.id
        self._classes.setdefault(vm.account, set()).add(vm.id)
        return self.put(vm)

    def put(self, vm: Vm) -> Vm:
        """Store a VM, new or changed."""
        self._vms[vm.id] = vm
        self.store.save_vm(vm)
        self._tell(vm.id)
        return vm

    def end(self, vm: Vm, seconds: float) -> Vm:
        """Begin to delete: power off now, gone in ``seconds``; a second call changes nothing."""
        if vm.gone_at is not None:
            return vm
        gone_at = self.now() + seconds
        heapq.heappush(self._deleting, (gone_at, vm.id))
        return self.put(replace(vm, gone_at=gone_at))

    def forget(self, vm_id: str) -> None:
        """Remove a VM, and detach its volumes; an unknown one is fine."""
        if self._drop(vm_id):
            self._tell(vm_id)

    def forget_gone(self) -> None:
        """Remove the VMs whose deletion is complete by now, whether or not a call still waits for it.

        All are removed before the observer is told of the first: it asks for others in turn.
        """
        now, due = self.now(), list[str]()
        while self._deleting and self._deleting[0][0] <= now:
            due.append(heapq.heappop(self._deleting)[1])
        for vm_id in [each for each in due if self._drop(each)]:
            self._tell(vm_id)

    def _drop(self, vm_id: str) -> bool:
        """Remove a VM without a word; whether there was one."""
        if (vm := self._vms.pop(vm_id, None)) is None:
            return False
        del self._ids[vm.namespace, vm.name]
        self._classes[vm.account].discard(vm_id)
        self._gone_vms.add(self.now(), vm)
        self.store.drop_vm(vm)
        self.disks.release(vm_id)
        return True

    def of(self, account: str, tags: Mapping[str, str], *, lag: float = 0) -> Sequence[Vm]:
        """VMs of the class's namespace that carry all the tags, or without tags those of the class; as it
        was ``lag`` seconds ago."""
        if tags:
            vms = [vm for vm in self._vms.values() if carries(vm, account, tags)]
        else:
            vms = [self._vms[vm_id] for vm_id in self._classes.get(account, ())]
        if lag:
            then = self.now() - lag
            alive = [vm for vm in vms if vm.created_at <= then]
            vms = [*alive, *self._gone_vms.alive_at(then, account, tags)]
        return sorted(vms, key=lambda vm: vm.serial)

    def _tell(self, vm_id: str) -> None:
        if self.observer is not None:
            self.observer.changed(vm_id)


class GoneVms:
    """Gone VMs: only for lists that lag, as those of real clouds do."""

    def __init__(self) -> None:
        self._gone: deque[tuple[float, Vm]] = deque(maxlen=REMEMBERED)

    def add(self, gone_at: float, vm: Vm) -> None:
        """Remember a VM that ended at that moment (epoch seconds)."""
        self._gone.append((gone_at, vm))

    def alive_at(self, then: float, account: str, tags: Mapping[str, str]) -> list[Vm]:
        """VMs that are gone by now and were there ``then``, of the same class or tags."""
        return [
            vm
            for gone_at, vm in self._gone
            if vm.created_at <= then < gone_at
            and (carries(vm, account, tags) if tags else vm.account == account)
        ]
