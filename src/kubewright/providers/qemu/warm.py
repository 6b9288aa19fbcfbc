"""VMs that were booted before a machine asks for one, and stand still until then.

Theory.      Much of the time from nothing to a node is the same for every machine of a class: firmware,
             kernel, the start of services. So the administrator says in a file how many VMs of which classes
             are to be ready. Each has booted by itself: nothing of it was copied from another one. Its seed
             tells its guest to wait before cloud-init's first stage; the guest says on its console that it
             does, and QEMU is told to stand still: from then on it costs memory and nothing else. When a
             machine of such a class is to be made, the seed is written anew with what that machine is told,
             the folder is moved to those of machines, and the VM goes on.
             Only an image whose guest knows how to wait can be used so (``tools/node_image/guest/warm``).
             VMs here were promised to no machine: they give way as soon as one needs their memory, and are
             removed when the file, the image or QEMU's command line is another one, when they have ended, and
             when they do not come to wait. ``Vm.class_name`` is their shape: a digest of all that they are.
Invariants.  A VM goes to one machine: taking it is one step of the event loop, and the folder is moved before
             it goes on. One that was told of a machine and not moved is removed, never given to another one.
             One at a time is made, and none while VMs of machines are made or boot.
Layout       ``warm/<id>`` as ``vms/<id>``.
Called by    ``driver``.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta, structs

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.driver.errors import DriverError
from kubewright.processes import record
from kubewright.providers.qemu import command
from kubewright.providers.qemu.command import Guest
from kubewright.providers.qemu.qmp import QmpError, ask
from kubewright.providers.qemu.spec import QemuSpec, Tags, parse_spec
from kubewright.providers.qemu.vms import RECORD, STILL, Running, Vm, Vms, seed
from kubewright.wire import goyaml

SAID = "kubewright: waiting for a seed"
"""What a guest that waits says on its console."""
COME_SECONDS = 600.0
"""How long a boot may take until the guest waits; on a busy machine without KVM it takes minutes."""
AGAIN_SECONDS = 600.0
"""After so long a class is tried again whose VM did not come to wait, or could not be made."""
MOST = 50
"""VMs in all, that a file may ask for."""

log = structlog.get_logger(__name__)


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An entry of the administrator's file: so many VMs of what this ``providerSpec`` says."""

    count: Annotated[int, Meta(ge=1, le=MOST)]
    provider_spec: Mapping[str, Any]

    @property
    def spec(self) -> QemuSpec:
        return bare(parse_spec(self.provider_spec))


def read_file(path: str) -> tuple[Kept, ...]:
    """What the administrator's file says; nothing without one.

    Raises:
        InvalidInput: it cannot be read, or names what no VM can be made by.
    """
    if not path:
        return ()
    try:
        found = msgspec.convert(goyaml.loads(Path(path).read_bytes()), tuple[Kept, ...])
        for each in found:
            if not each.spec.image:
                raise InvalidInput("an image is needed")
    except (OSError, ValueError, msgspec.ValidationError, DriverError, InvalidInput) as error:
        raise InvalidInput(f"driver qemu: warm: {path}: {error}") from None
    if sum(each.count for each in found) > MOST:
        raise InvalidInput(f"driver qemu: warm: {path}: more than {MOST} VMs")
    return found


def bare(spec: QemuSpec) -> QemuSpec:
    """A spec without what a VM is not made of: tags are on record only."""
    return structs.replace(spec, tags=Tags())


def shape_of(spec: QemuSpec, argv: Sequence[str], image: Path) -> str:
    """All that a VM that waits is: one of the same shape does for a machine. ``argv``: for any one guest."""
    state = image.stat()
    about = (msgspec.json.encode(bare(spec)).decode(), *argv, str(image), str(state.st_mtime_ns))
    return hashlib.sha256("\0".join(about).encode()).hexdigest()[:32]


@dataclass
class Pool:
    """All VMs that wait, or come to. What it needs of the driver:

    ``shape``  that of a class now; a DriverError where no VM can be made by it
    ``make``   one more of a class, with this shape
    ``room``   whether one more of a class has room, and none is being made for a machine
    """

    vms: Vms
    kept: tuple[Kept, ...]
    clock: Clock
    shape: Callable[[QemuSpec], Awaitable[str]]
    make: Callable[[QemuSpec, str], Awaitable[Running]]
    room: Callable[[QemuSpec], bool]
    _still: set[str] = field(default_factory=set)
    """The ids of those that stand still."""
    _failed: dict[str, float] = field(default_factory=dict)
    """From when on a shape is tried again whose last VM failed."""
    _told: str = ""

    @property
    def memory(self) -> int:
        """Bytes that they take of this machine."""
        taken = (each.vm.memory + command.OVERHEAD[each.vm.accelerator] for each in self.vms.all.values())
        return sum(taken)

    @property
    def waiting(self) -> int:
        """How many stand still."""
        return len(self._still)

    @property
    def settled(self) -> bool:
        """Whether none is on its way."""
        return len(self._still) == len(self.vms.all)

    def take(self, shape: str) -> Running | None:
        """A VM that stands still, which is the caller's from here on."""
        for running in self.vms.all.values():
            if running.vm.id in self._still and running.vm.class_name == shape and _usable(running):
                self.vms.give_up(running)
                self._still.discard(running.vm.id)
                return running
        return None

    async def give_way(self, fits: Callable[[], bool]) -> None:
        """Remove one after another until it fits, or none is left."""
        while not fits() and (there := [each for each in self.vms.all.values() if each.removal is None]):
            log.info("a VM that waits gives way to a machine", vm=there[0].vm.id)
            await self._remove(there[0])

    async def tend(self) -> None:
        """One round: away with those that are of no use, to sleep with those that wait, and one more."""
        wanted = await self._wanted()
        left = {shape: each.count for shape, each in wanted.items()}
        for running in list(self.vms.all.values()):
            shape = running.vm.class_name
            left[shape] = left.get(shape, 0) - 1
            if left[shape] < 0 or not _usable(running):
                await self._remove(running)
            elif running.vm.id not in self._still:
                await self._look(running)
        now = self.clock.monotonic()
        for shape, count in left.items():
            if count > 0 and now >= self._failed.get(shape, 0.0) and self.room(wanted[shape].spec):
                await self._one_more(shape, wanted[shape])
                return

    async def close(self) -> None:
        await self.vms.close()

    async def _wanted(self) -> dict[str, Kept]:
        found = {}
        for each in self.kept:
            try:
                found[await self.shape(each.spec)] = each
            except (DriverError, OSError) as error:
                self._tell(str(error))
        return found

    async def _one_more(self, shape: str, kept: Kept) -> None:
        try:
            made = await self.make(kept.spec, shape)
            log.info("a VM boots that is to wait for a machine", vm=made.vm.id, image=kept.spec.image)
        except (DriverError, OSError) as error:
            self._failed[shape] = self.clock.monotonic() + AGAIN_SECONDS
            self._tell(str(error))

    async def _look(self, running: Running) -> None:
        """Let it stand still, once its guest waits."""
        path, vm = running.folder / command.QMP, running.vm
        try:
            if (await ask(path, "query-status"))[0].get("status") == STILL:
                self._still.add(vm.id)
            elif SAID in await asyncio.to_thread(record.last_lines, running.folder):
                await ask(path, "stop")
                self._still.add(vm.id)
                log.info("a VM waits for a machine", vm=vm.id)
            elif self.clock.now().timestamp() > vm.made + COME_SECONDS:
                self._failed[vm.class_name] = self.clock.monotonic() + AGAIN_SECONDS
                self._tell(f"{vm.id} has not come to wait in {COME_SECONDS:g} s: its image may not know how")
                await self._remove(running)
        except QmpError as error:
            self._tell(f"{vm.id}: {error}")

    async def _remove(self, running: Running) -> None:
        self._still.discard(running.vm.id)
        try:
            await self.vms.remove(running)
        except DriverError as error:
            self._tell(f"{running.vm.id} cannot be removed: {error.message}")

    def _tell(self, why: str) -> None:
        """Once: the same thing is found each second."""
        if why != self._told:
            log.warning("no VM waits for a machine, or fewer than there should be", why=why)
        self._told = why


def _usable(running: Running) -> bool:
    """Not ended, not going, and never told of a machine."""
    return not running.ended and running.removal is None and not running.vm.name


async def wake(running: Running, vm: Vm, guest: Guest, vms: Vms) -> Running:
    """Let a VM that was taken become this machine's, and go on.

    Raises:
        DriverError: it cannot (``Internal``); it is among the machines' VMs then, and is to be removed.
        OSError: its folder cannot be written or moved.
    """
    content = seed(guest).ljust(command.SEED_BYTES, b"\0")
    folder = vms.root / vm.id
    await asyncio.to_thread(_become, running.folder, folder, vm, content)
    running.vm, running.folder = vm, folder
    await vms.take_over(running)
    log.info("a VM that waited is a machine's now", vm=vm.id, machine=vm.name)
    return running


def _become(waits: Path, folder: Path, vm: Vm, content: bytes) -> None:
    """The record first: what has one with a machine's name is never given to another machine."""
    record.replace_file(waits / RECORD, msgspec.json.encode(vm))
    with (waits / command.SEED).open("r+b") as disk:  # QEMU has this very file open
        disk.write(content)
    waits.rename(folder)
