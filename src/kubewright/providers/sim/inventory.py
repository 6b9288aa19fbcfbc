"""What the simulated cloud has: VMs by id, name and class, and volumes; and the observer of VM changes.

Theory.      VMs are values; this is the only place that replaces them. Every change goes into the
             store and to the observer in one step, so no caller can know more than the file has.
Invariants.  At most one VM per namespace and name. A serial number is never given twice, not even
             across restarts. A VM whose deletion was accepted is powered off, and is removed at ``gone_at``.
Called by    ``cloud``.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from kubewright.base.clock import Clock
from kubewright.driver.errors import Code, DriverError, NotFound
from kubewright.providers.sim.spec import SimSpec, write_spec
from kubewright.providers.sim.store import Store
from kubewright.providers.sim.vm import Bootstrap, Vm, Volume, carries

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
