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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta, structs

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import console_end
from kubewright.driver.errors import DriverError
from kubewright.processes import record
from kubewright.providers.qemu import command
from kubewright.providers.qemu.command import Guest
from kubewright.providers.qemu.host import QmpError, ask, status
from kubewright.providers.qemu.spec import QemuSpec, Tags, parse_spec
from kubewright.providers.qemu.vms import RECORD, STILL, Running, Vm, Vms, in_words, seed
from kubewright.wire import goyaml

SAID = "kubewright: waiting for a seed"
"""What a guest that waits says on its console."""
COME_SECONDS = 600.0
"""How long a boot may take until the guest waits; on a busy machine without KVM it takes minutes."""
AGAIN_SECONDS = 600.0
"""After so long a class is tried again whose VM did not come to wait, or could not be made."""
MOST = 50
"""VMs in all, that a file may ask for."""
FILE_BYTES = 1024 * 1024
"""The largest such file."""

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
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES + 1)
        if len(content) > FILE_BYTES:
            raise InvalidInput(f"more than {FILE_BYTES // 1024} KiB")
        found = msgspec.convert(goyaml.loads(content) or (), tuple[Kept, ...])
        for each in found:
            if not each.spec.image:
                raise InvalidInput("an image is needed")
    except (OSError, ValueError, msgspec.ValidationError, DriverError, InvalidInput) as error:
        said = error.message if isinstance(error, DriverError) else getattr(error, "strerror", None) or error
        raise InvalidInput(f"driver qemu: warm: {path}: {said}") from None
    if sum(each.count for each in found) > MOST:
        raise InvalidInput(f"driver qemu: warm: {path}: more than {MOST} VMs")
    return found


def bare(spec: QemuSpec) -> QemuSpec:
    """A spec without what a VM is not made of: tags are on record only."""
    return structs.replace(spec, tags=Tags())


def shape_of(spec: QemuSpec, argv: Sequence[str], files: Sequence[Path]) -> str:
    """All that a VM that waits is: one of the same shape does for a machine. ``argv``: for any one guest;
    ``files``: what it boots from, of which a new state makes another VM."""
    states = [(each, each.stat()) for each in files]
    told = (f"{each} {state.st_size} {state.st_mtime_ns}" for each, state in states)
    about = (msgspec.json.encode(bare(spec)).decode(), *argv, *told)
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
    _shapes: dict[int, str] = field(default_factory=dict)
    """The last that was known of each entry."""
    _told: frozenset[str] = frozenset()
    _telling: set[str] = field(default_factory=set)
    """What was told in the last round, and in this one."""

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
        self._told, self._telling = frozenset(self._telling), set()
        wanted = await self._wanted()
        left = {shape: count for shape, (count, _) in wanted.items()}
        for running in sorted(self.vms.all.values(), key=self._rank):
            if not self._has(running):
                continue  # a machine took it while this round went on
            shape = running.vm.class_name
            left[shape] = left.get(shape, 0) - _usable(running)
            if left[shape] < 0 or not _usable(running):
                await self._remove(running)
            elif running.vm.id not in self._still:
                await self._look(running)
        now = self.clock.monotonic()
        for shape, count in left.items():
            if count > 0 and now >= self._failed.get(shape, 0.0) and self.room(wanted[shape][1]):
                await self._one_more(shape, wanted[shape][1])
                return

    async def close(self) -> None:
        await self.vms.close()

    def _has(self, running: Running) -> bool:
        return self.vms.all.get(running.vm.id) is running

    def _rank(self, running: Running) -> bool:
        """Those that stand still come first, so that others go where there are too many."""
        return running.vm.id not in self._still

    async def _wanted(self) -> dict[str, tuple[int, QemuSpec]]:
        """How many of each shape there are to be. Where an entry's is not known at the moment, its last
        one counts: what has booted is not removed because a file cannot be read for once."""
        found: dict[str, tuple[int, QemuSpec]] = {}
        for number, each in enumerate(self.kept):
            try:
                self._shapes[number] = await self.shape(each.spec)
            except (DriverError, OSError) as error:
                self._tell(in_words(error))
            if (shape := self._shapes.get(number)) is not None:
                found[shape] = (found.get(shape, (0, each.spec))[0] + each.count, each.spec)
        return found

    async def _one_more(self, shape: str, spec: QemuSpec) -> None:
        try:
            made = await self.make(spec, shape)
            log.info("a VM boots that is to wait for a machine", vm=made.vm.id, image=spec.image)
        except (DriverError, OSError) as error:
            self._give_up_for_now(shape, in_words(error))

    async def _look(self, running: Running) -> None:
        """Let it stand still, once its guest waits."""
        path, vm = running.folder / command.QMP, running.vm
        why = "its image may not know how"
        try:
            waits = await status(path) == STILL
            if not waits and SAID in await asyncio.to_thread(record.last_lines, running.folder):
                await ask(path, "stop")
                waits = True
                log.info("a VM waits for a machine", vm=vm.id)
            if waits and self._has(running):
                self._still.add(vm.id)
            if waits:
                return
            with suppress(OSError):
                await asyncio.to_thread(record.rotate_output, running.folder)
        except QmpError as error:
            why = str(error)
            self._tell(f"{vm.id}: {why}")
        if self._has(running) and self.clock.now().timestamp() > vm.made + COME_SECONDS:
            self._give_up_for_now(vm.class_name, f"{vm.id} has not come to wait in {COME_SECONDS:g} s: {why}")
            await self._remove(running)

    def _give_up_for_now(self, shape: str, why: str) -> None:
        self._failed[shape] = self.clock.monotonic() + AGAIN_SECONDS
        self._tell(why)

    async def _remove(self, running: Running) -> None:
        if running.ended and running.handle is not None and running.vm.id not in self._still:
            said = console_end("\n".join(record.last_lines(running.folder)))
            why = f"{running.vm.id} has ended before it came to wait: {running.ended}"
            self._give_up_for_now(running.vm.class_name, f"{why} {' '.join(said.split())[-500:]}".rstrip())
        self._still.discard(running.vm.id)
        try:
            await self.vms.remove(running)
        except DriverError as error:
            self._tell(f"{running.vm.id} cannot be removed: {error.message}")

    def _tell(self, why: str) -> None:
        """Once: the same things are found each second."""
        if why not in self._told | self._telling:
            log.warning("no VM waits for a machine, or fewer than there should be", why=why)
        self._telling.add(why)


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
