"""The driver port on VMs of this machine: requests in, folders and processes of QEMU out.

Theory.      The machine's uid is the owner of its VM, and name and owner find it again. A creation goes on
             when its caller gives up, and who asks again, or deletes, waits for that same creation: so no
             call that was cancelled leaves half a VM, and two calls make one. A VM whose QEMU has ended is
             off and still there, as at any cloud: its node falls silent, and the machine's owner decides. An
             id alone reaches no VM of another namespace: who may write a Machine may write any provider id.
             A VM whose record cannot be read may be that of any machine of its name: it is neither shown,
             deleted nor made a second time, but the error says so (``DataLoss``), and no list of its
             namespace is complete, or none at all where not even that can be read: nodes whose VMs are not
             listed are deleted.
             A VM that was booted beforehand (``warm``) is woken for a machine of its shape; where that fails
             in any way, a VM is made as if there were none.
Invariants.  Memory that was promised to a VM under way counts as taken. ``delete`` returns when the process
             is gone.
Called by    the machine controllers through ``driver.guard``; ``compose`` for ``run`` and ``close``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import structs

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput
from kubewright.driver import hot
from kubewright.driver.answers import LARGEST_CONSOLE, OFF
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, Size, VolumeSpec, stub
from kubewright.driver.errors import Code, DriverError, Exhausted, InvalidArgument, NotFound, Unimplemented
from kubewright.driver.hot import Tags
from kubewright.driver.registry import Settings
from kubewright.processes import record
from kubewright.providers.qemu import command
from kubewright.providers.qemu.command import Guest, Host
from kubewright.providers.qemu.endpoints import PORT, Balancers, Bridge, Known
from kubewright.providers.qemu.host import Machine, Shared, free_memory
from kubewright.providers.qemu.images import Images, forget_parts
from kubewright.providers.qemu.spec import MIB, MOST_TAGS, SCHEME, Options, QemuSpec, parse_spec
from kubewright.providers.qemu.vms import (
    RECORD,
    STARTS,
    Running,
    Vm,
    Vms,
    Wanted,
    in_words,
    may_be_of,
    new_id,
    provider_id,
)
from kubewright.providers.qemu.warm import Pool, read_file, shape_of, wake
from kubewright.wire.naming import machine_name_problem

HOT_FIELDS = (hot.FIELD,)
TEND_SECONDS, WARM_SECONDS, SETTLED_SECONDS, QUIET_SECONDS = 10.0, 1.0, 5.0, 300.0
"""How often VMs are looked after; those that come to wait, and where all of them do; and since when no VM was
made for a machine when a further one boots that is to wait."""
CONSOLE_LINES = 200
"""What a public image writes of keys and addresses after cloud-init has failed is less."""
LARGEST_WOKEN = command.SEED_BYTES // 2
"""Bytes of user data; the names and the structure of a seed need room beside them."""
WOKEN = "on: it had been booted before its machine was made, and was woken for it"
SHARE = 0.9
"""Of this machine's memory, what VMs may have unless the administrator says it."""

log = structlog.get_logger(__name__)

Owner = tuple[str, str, str]
"""Namespace, name and owner's uid."""


class QemuDriver:
    """A ``driver.contract.Driver`` whose VMs run on this machine."""

    def __init__(self, settings: Settings, options: Options) -> None:
        if settings.data_dir is None:
            raise InvalidInput(
                "driver qemu keeps VMs in a folder: name one (up: --data-dir DIR; run: --driver-option "
                "dataDir=DIR)"
            )
        folder = settings.data_dir.absolute() / SCHEME  # QEMU runs in another one than we do
        self._clock, self._options = settings.clock, options
        self._machine = Machine(options)
        self._bridge = Bridge(options, folder) if options.network == "bridge" else None
        self._vms = Vms(folder / "vms", settings.clock, self._bridge)
        own, kept = options.folders(folder), folder / "fetched"
        warm = Vms(folder / "warm", settings.clock, self._bridge, lasting=False)
        self._images = Images(
            own, kept, options.prefixes, settings.clock, in_use=lambda: self._vms.overlaid() | warm.overlaid()
        )
        wanted = read_file(options.warm)
        self._pool = Pool(warm, wanted, self._clock, self._shape, self._make_warm, self._has_room)
        self._balancers = self._of_endpoints(folder / "endpoints", self._bridge)
        self._kept = folder / "fetched"
        self._opening = Shared(self._opened)
        self._making: dict[Owner, tuple[int, asyncio.Task[Running]]] = {}
        """Creations under way, and the memory that each was promised."""
        self._promised: set[str] = set()
        """Addresses of VMs that are being made, and their MAC addresses."""
        self._starts = asyncio.Semaphore(STARTS)
        self._closing = False

    def _of_endpoints(self, folder: Path, bridge: Bridge | None) -> Balancers | None:
        if bridge is None:
            return None
        return Balancers(folder, self._clock, bridge, Known(self._addresses, self._control_plane))

    async def create(self, request: MachineRequest) -> Instance:
        await self._open()
        spec = _spec(request)
        if problem := machine_name_problem(request.name):
            raise InvalidArgument(f"machine {request.name}: its name {problem}")
        owner = _owner(request)
        found = self._of(owner)
        if found is not None and found.removal is not None:
            await self._remove(found)  # a VM that goes is none that a machine may have
            found = self._of(owner)
        if found is not None:
            return _instance(found)
        self._refuse_unreadable(request)
        if owner not in self._making:
            self._refuse_too_many(spec)
            task = asyncio.create_task(self._make(request, spec))
            self._making[owner] = (_most_memory(spec), task)
            task.add_done_callback(lambda _: self._making.pop(owner, None))
        return _instance(await asyncio.shield(self._making[owner][1]))

    async def initialize(self, request: MachineRequest) -> Instance:
        raise Unimplemented("a VM of qemu needs nothing after its creation")

    async def delete(self, request: MachineRequest) -> None:
        await self._open()
        await self._remove(await self._found(request))

    async def status(self, request: MachineRequest) -> Instance:
        await self._open()
        return _instance(await self._found(request))

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        await self._open()
        meta, found_by = request.machine_class.metadata, _tags_of(request)
        for broken in self._vms.unreadable.values():
            if broken.may_be_in(meta.namespace):
                raise broken.error()
        return [
            _instance(each)
            for each in self._vms.all.values()
            if each.vm.namespace == meta.namespace and _carries(each.vm, found_by, meta.name)
        ]

    def hot_fields(self, _machine_class: MachineClass) -> Sequence[str]:
        """What ``update`` applies (``contract.Updates``)."""
        return HOT_FIELDS

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        """The tags on record of a VM (``contract.Updates``)."""
        await self._open()
        spec, found = _spec(request), await self._found(request)
        wanted = Tags(vm=spec.tags.vm, network=spec.tags.network, disk=spec.tags.disk)
        last = hot.last_applied_tags(last_applied, ())
        # A record is written to its end when the caller gives up: what is in memory is what is in the file.
        await asyncio.shield(asyncio.create_task(_retagged(found, last, wanted)))

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        raise Unimplemented("no persistent volumes are attached to VMs of qemu")

    async def size(self, request: ClassRequest) -> Size:
        """What a node of this class will offer (``contract.Sizes``); pods: a kubelet's default."""
        spec = _spec_of(request)
        capacity = {"cpu": str(spec.cpus), "memory": str(spec.memory_bytes), "pods": "110"}
        return Size({**capacity, "ephemeral-storage": str(spec.disk_bytes)}, spec.runs_on, "linux")

    async def validate(self, request: ClassRequest) -> None:
        """Refuse a class by which no VM can be made here (``contract.Validates``)."""
        spec = _spec_of(request)
        if spec.url and not self._images.allowed(spec.url):
            raise InvalidArgument(
                f"providerSpec: image: the administrator does not let {spec.url} be fetched "
                "(driver option imageUrls)"
            )

    @property
    def waiting(self) -> int:
        """How many VMs stand still until a machine wants them."""
        return self._pool.waiting

    async def console(self, request: MachineRequest) -> str:
        """The end of what the guest wrote to its first serial port (``contract.Consoles``)."""
        await self._open()
        found = await self._found(request)
        lines = await asyncio.to_thread(record.last_lines, found.folder, CONSOLE_LINES, LARGEST_CONSOLE)
        return "\n".join([*lines, *([f"{OFF}{found.ended}"] if found.ended else [])])

    async def host_address(self) -> str:
        """The first address of the bridge (``contract.Local``)."""
        if self._bridge is None:
            return ""
        await self._bridge.open()
        return str(self._bridge.gateway)

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        """An address on the bridge for the API server of a cluster (``contract.Endpoints``)."""
        await self._open()
        if self._balancers is None:
            raise DriverError.of(
                Code.FailedPrecondition,
                f"VMs are on no bridge here (driver option network={self._options.network}), so no address "
                "is reached by them and by this machine: start Kubewright with network=bridge, or name a "
                "load balancer of yours in spec.controlPlaneEndpoint",
            )
        return await self._balancers.reserve(request), PORT

    async def release(self, request: ClassRequest) -> None:
        """The cluster is gone (``contract.Endpoints``)."""
        await self._open()
        if self._balancers is not None:
            await self._balancers.release(request)

    async def run(self, _cluster: object) -> None:
        """Keep the VMs' consoles bounded and the VMs going, until cancelled (``contract.Background``)."""
        await self._open()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_warm())
            while True:
                await self._vms.tend()
                if self._balancers is not None:
                    await self._balancers.tend()
                await self._clock.sleep(TEND_SECONDS)

    async def _keep_warm(self) -> None:
        """Also without a file: what an earlier one asked for is removed."""
        while self._pool.kept or self._pool.vms.all:
            await self._pool.tend()
            await self._clock.sleep(SETTLED_SECONDS if self._pool.settled else WARM_SECONDS)

    async def close(self) -> None:
        """Stop working on VMs, which run on (``contract.Closing``). No creation is begun any more."""
        self._closing = True
        under_way: list[asyncio.Task[Any]] = [task for _, task in self._making.values()]
        under_way += [self._opening.task] if self._opening.task is not None else []
        try:
            if under_way:
                await asyncio.wait(under_way)  # who has no time for that leaves them as they are
            await self._images.close()
            if self._balancers is not None:
                await self._balancers.close()
        finally:
            await self._pool.close()
            await self._vms.close()

    async def _open(self) -> None:
        """Once, for all callers; who comes first finds what earlier processes have left."""
        await self._opening.done()

    async def _opened(self) -> None:
        await self._vms.open()
        try:
            await asyncio.to_thread(forget_parts, self._kept)  # now no other process fetches them
            await self._pool.vms.open()
            if self._balancers is not None:
                await self._balancers.open()
        except BaseException:
            await self._pool.close()
            await self._vms.close()
            raise

    async def _make(self, request: MachineRequest, spec: QemuSpec) -> Running:
        async with self._starts:
            if self._closing:
                raise DriverError.of(Code.Unavailable, "this process ends; the next one makes the VM")
            host, variables = await self._machine.host_for(spec)
            image = await self._images.of(spec)
            made = await self._woken(request, spec)
            if made is None:
                await self._pool.give_way(partial(self._fits_beside, _most_memory(spec)))
                guest = await self._guest(request, self._new_id(request.name))
                try:
                    vm = self._vm(request, spec, host, guest)
                    qemu_img = self._machine.path_of("qemu-img")
                    made = await self._vms.make(Wanted(vm, spec, image, guest, qemu_img, variables))
                finally:
                    self._promised -= {guest.address.partition("/")[0], command.mac_of(guest.id)}
        await self._follow(made)
        return made

    async def _woken(self, request: MachineRequest, spec: QemuSpec) -> Running | None:
        """A VM that has waited for such a machine; None where there is none, or it does not become one."""
        data = request.secret.data.get("userData", b"")
        if command.is_ignition(data, request.data_format) or len(data) > LARGEST_WOKEN:
            return None
        if not self._pool.vms.all or (taken := self._pool.take(await self._shape(spec))) is None:
            return None
        address = ""
        try:
            guest = await self._guest(request, taken.vm.id)
            address = guest.address.partition("/")[0]
            host, _ = await self._machine.host_for(spec)
            vm = structs.replace(self._vm(request, spec, host, guest), argv=taken.vm.argv, woken=True)
            return await wake(taken, vm, guest, self._vms)
        except (DriverError, OSError) as error:
            log.warning("a VM that waited is not woken", vm=taken.vm.id, why=in_words(error))
            await self._vms.remove(taken)
            return None
        finally:
            self._promised -= {address, command.mac_of(taken.vm.id)}

    async def _shape(self, spec: QemuSpec) -> str:
        """What a VM that waits has to be to do for this class."""
        host, _ = await self._machine.host_for(spec)
        image = await self._images.of(spec)
        boot = [self._images.named(each) for each in (spec.kernel, spec.initrd) if each]
        argv = command.argv(spec, host, Guest("", command.WARM, "", waits=True), [*map(str, boot)])
        try:
            return await asyncio.to_thread(shape_of, spec, argv, (image.path, *boot))
        except OSError as error:
            raise DriverError.of(Code.FailedPrecondition, f"{error.filename}: {error.strerror}") from None

    async def _make_warm(self, spec: QemuSpec, shape: str) -> Running:
        """One more VM that is to wait."""
        host, variables = await self._machine.host_for(spec)
        image = await self._images.of(spec)
        if self._bridge is not None:
            await self._bridge.open()
        vm_id = self._new_id(command.WARM)
        guest = Guest(vm_id, command.WARM, provider_id(self._options.site, vm_id), waits=True)
        self._promised.add(command.mac_of(vm_id))
        try:
            request = ClassRequest(MachineClass(metadata=ObjectMeta(name=shape))).of(stub("", "", ""))
            vm = self._vm(request, spec, host, guest)
            qemu_img = self._machine.path_of("qemu-img")
            return await self._pool.vms.make(Wanted(vm, spec, image, guest, qemu_img, variables))
        finally:
            self._promised.discard(command.mac_of(vm_id))

    def _has_room(self, spec: QemuSpec) -> bool:
        """Whether one more VM may wait: machines come first, also while they boot."""
        wanted, count = _most_memory(spec), len(self._vms.all) + len(self._pool.vms.all)
        newest = max((each.vm.made for each in self._vms.all.values()), default=0.0)
        quiet = not self._making and self._clock.now().timestamp() - newest > QUIET_SECONDS
        if not quiet or self._closing or count >= self._options.vms:
            return False
        return not self._short_of(self._taken(), wanted, self._pool.memory)

    def _fits_beside(self, promised: int) -> bool:
        """Whether there is room for what a VM was promised that is being made, beside those that wait."""
        return not self._short_of(self._taken() - promised, promised, self._pool.memory)

    async def _remove(self, running: Running) -> None:
        """Nothing connects to it any more before it goes."""
        await self._follow(running, going=True)
        await self._vms.remove(running)

    async def _follow(self, running: Running, *, going: bool = False) -> None:
        """Tell the balancer of the control plane that a VM is a part of, if it is."""
        running.going = going
        if self._balancers is not None:
            await self._balancers.follow(running.vm.control_plane_of)

    def _control_plane(self, owner: str) -> Sequence[str]:
        """The addresses of the VMs of this control plane."""
        found = [each for each in self._vms.all.values() if each.vm.control_plane_of == owner]
        aside = [each.address for each in self._vms.unreadable.values() if each.control_plane_of == owner]
        return [each for each in (*aside, *(one.vm.address for one in found if not one.going)) if each]

    def _addresses(self) -> Sequence[str]:
        """Those that VMs have, or are promised."""
        aside = (each.address for each in self._vms.unreadable.values())
        return [*self._promised, *aside, *(each.vm.address for each in self._vms.all.values())]

    def _vm(self, request: MachineRequest, spec: QemuSpec, host: Host, guest: Guest) -> Vm:
        boot = [str(self._images.named(each)) for each in (spec.kernel, spec.initrd) if each]
        return Vm(
            id=guest.id,
            provider_id=guest.provider_id,
            name=request.name,
            namespace=request.namespace,
            owner_uid=request.owner_uid,
            class_name=request.machine_class.metadata.name,
            memory=spec.memory_bytes,
            tags=spec.tags.vm,
            network_tags=spec.tags.network,
            disk_tags=spec.tags.disk,
            made=self._clock.now().timestamp(),
            argv=command.argv(spec, host, guest, boot),
            accelerator=host.accelerator,
            address=guest.address.partition("/")[0],
            control_plane_of=request.machine_class.metadata.uid if request.control_plane else "",
        )

    def _new_id(self, name: str) -> str:
        """That of a further VM, whose card is no other one's."""
        known = (*self._vms.all, *self._vms.unreadable, *self._pool.vms.all)
        return new_id(name, {*self._promised, *map(command.mac_of, known)})

    async def _guest(self, request: MachineRequest, vm_id: str) -> Guest:
        """What the guest is told; its addresses are promised to it from here on."""
        self._promised.add(command.mac_of(vm_id))
        if self._bridge is not None:
            await self._bridge.open()
        data = request.secret.data.get("userData", b"")
        ignition = command.is_ignition(data, request.data_format)
        own = provider_id(self._options.site, vm_id)
        guest = Guest(vm_id, request.name, own, data, ignition, request.version)
        if self._bridge is None:
            return guest
        endpoints = self._balancers.addresses if self._balancers is not None else ()
        address = self._bridge.free((*self._addresses(), *endpoints))
        self._promised.add(address)
        return replace(
            guest,
            address=f"{address}/{self._options.addresses.prefixlen}",
            gateway=str(self._bridge.gateway),
            name_servers=tuple(self._options.name_servers.split()),
        )

    async def _made(self, owner: Owner) -> None:
        """Wait for the creation of this VM, if one is under way, however it ends."""
        if owner in self._making:
            await asyncio.wait([self._making[owner][1]])

    def _refuse_too_many(self, spec: QemuSpec) -> None:
        count = len(self._vms.all) + len(self._vms.unreadable) + len(self._making)
        if count >= self._options.vms:
            raise Exhausted(
                f"this machine has {count} VMs, and may have {self._options.vms} (driver option vms)"
            )
        wanted = _most_memory(spec)
        if short := self._short_of(self._taken(), wanted):  # those that wait give way
            raise Exhausted(f"a VM with {spec.memory} needs {wanted // MIB} MiB of memory; {short}")

    def _taken(self) -> int:
        """Bytes that VMs of machines have, or are promised."""
        running = [each.vm for each in self._vms.all.values() if not each.ended]
        taken = sum(vm.memory + command.OVERHEAD[vm.accelerator] for vm in running)
        taken += sum(memory for memory, _ in self._making.values())
        return taken + sum(each.memory for each in self._vms.unreadable.values())

    def _short_of(self, taken: int, wanted: int, waiting: int = 0) -> str:
        """Why there is no room for so many bytes beside those that are taken; empty: there is. Bytes of VMs
        that wait are free, but for ``waiting``."""
        total, available = free_memory()
        most = self._options.memory_bytes or int(total * SHARE)
        available += self._pool.memory - waiting
        if taken + waiting + wanted <= most and wanted <= available:
            return ""
        return (
            f"VMs have {taken // MIB} MiB of the {most // MIB} MiB that they may have here (driver option "
            f"memory), and {available // MIB} MiB are free"
        )

    async def _found(self, request: MachineRequest) -> Running:
        """The VM that is asked for, once its creation has ended, if one is under way.

        Raises:
            NotFound: there is none.
            DriverError: there may be one, whose record cannot be read (``DataLoss``).
        """
        await self._made(_owner(request))
        if (found := self._asked_for(request)) is None:
            self._refuse_unreadable(request)
            raise NotFound(f"there is no VM of machine {request.name}")
        return found

    def _refuse_unreadable(self, request: MachineRequest) -> None:
        there = [
            (vm_id, each) for vm_id, each in self._vms.unreadable.items() if each.may_be_in(request.namespace)
        ]
        for vm_id, each in there:
            own = provider_id(self._options.site, vm_id)
            if request.provider_id == own if request.provider_id else may_be_of(vm_id, request.name):
                raise each.error()

    def _of(self, owner: Owner) -> Running | None:
        for each in self._vms.all.values():
            if (each.vm.namespace, each.vm.name, each.vm.owner_uid) == owner:
                return each
        return None

    def _asked_for(self, request: MachineRequest) -> Running | None:
        if not request.provider_id:
            return self._of(_owner(request))
        for each in self._vms.all.values():
            if each.vm.provider_id == request.provider_id and each.vm.namespace == request.namespace:
                return each
        return None


def _spec(request: MachineRequest) -> QemuSpec:
    return _spec_of(ClassRequest(request.machine_class))


def _spec_of(request: ClassRequest) -> QemuSpec:
    found = request.machine_class
    if found.provider not in ("", SCHEME):
        raise InvalidArgument(
            f"class {found.metadata.name} is for provider {found.provider!r}, not {SCHEME!r}"
        )
    return parse_spec(found.provider_spec)


async def _retagged(running: Running, last: Tags | None, wanted: Tags) -> None:
    """Write into the record of a VM what its class says of tags now, all of it at once.

    Raises:
        DriverError: InvalidArgument for tags that a VM cannot have; its record cannot be written.
    """
    async with running.writing:
        vm = running.vm
        has = {hot.VM: vm.tags, hot.NETWORK: vm.network_tags, hot.DISK: vm.disk_tags}
        what = hot.changes(last, wanted, {each: (each, found) for each, found in has.items()})
        if not what:
            return
        after = {**has, **{each: hot.changed(has[each], done) for each, done in what.items()}}
        for each, found in after.items():
            if len(found) > MOST_TAGS:
                text = f"tags.{each}: VM {vm.id} would have {len(found)}, and it has at most {MOST_TAGS}"
                raise InvalidArgument(f"providerSpec: {text}")
        vm = structs.replace(
            vm, tags=after[hot.VM], network_tags=after[hot.NETWORK], disk_tags=after[hot.DISK]
        )
        content = msgspec.json.encode(vm)
        try:
            await asyncio.to_thread(record.replace_file, running.folder / RECORD, content)
        except FileNotFoundError:
            raise NotFound(f"VM {vm.id} is gone") from None
        except OSError as error:
            text = f"the record of VM {vm.id} cannot be written: {error.strerror}"
            raise DriverError.of(Code.Unavailable, text) from None
        running.vm = vm


def _tags_of(request: ClassRequest) -> Mapping[str, str]:
    """The tags by which VMs are listed. What a cluster says of all its machines may have no image."""
    found = request.machine_class
    named = {"image": "any", **found.provider_spec}
    return hot.found_by(_spec_of(ClassRequest(structs.replace(found, provider_spec=named))).tags.vm)


def _owner(request: MachineRequest) -> Owner:
    return request.namespace, request.name, request.owner_uid


def _most_memory(spec: QemuSpec) -> int:
    """Bytes that a VM takes of this machine, at the most."""
    return spec.memory_bytes + command.OVERHEAD["tcg"]


def _carries(vm: Vm, found_by: Mapping[str, str], class_name: str) -> bool:
    """Whether a VM carries the tags by which a class is found; without tags, whether it was made for it."""
    return found_by.items() <= vm.tags.items() if found_by else vm.class_name == class_name


def _instance(running: Running) -> Instance:
    vm = running.vm
    made = Instance(
        provider_id=vm.provider_id,
        node_name=vm.name,
        machine_name=vm.name,
        owner_uid=vm.owner_uid,
        addresses=(*((("InternalIP", vm.address),) if vm.address else ()), ("Hostname", vm.name)),
    )
    state = f"off: {running.ended}" if running.ended else WOKEN if vm.woken else ""
    return replace(made, last_known_state=state) if state else made
