"""The VMs of this machine: a folder and a process each, which outlive the process that made them.

Theory.      A folder ``vms/<id>`` holds all of a VM: ``vm.json``, its record here; its disks; what its guest
             boots from; the record of its process and its output, which is the guest's serial console
             (``processes.record``). Order makes it safe: the disks, the seed, the record, and the process
             last. A folder without a record is what a creation has left that was interrupted: no process ever
             ran in it, and it is removed. A folder that is to be removed gets another name first, so that
             half a VM is never taken for one. A VM whose process has ended stays, as a machine that is off:
             what becomes of it its owner decides. After a reboot of this machine its VMs are switched on.
             A record that cannot be read is one VM's misfortune: its folder and its process stay as they are,
             what asks for a VM that this may be is told so, and it is read again all the time.
             A VM may be made in another folder of VMs, where it stands still until a machine wants one
             (``warm``): then its folder is moved here, and it goes on.
Invariants.  A process of a VM ends before its folder goes. No other user may enter the folders (0700): a seed
             holds keys. One process at a time works on a folder of VMs: it holds a lock.
Called by    ``driver``, ``warm``.
"""

import asyncio
import errno
import fcntl
import io
import os
import re
import secrets
import shutil
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec
import structlog

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import console_end
from kubewright.driver.errors import Code, DriverError, Exhausted
from kubewright.processes import linux, record
from kubewright.processes.program import Program
from kubewright.providers.qemu import command
from kubewright.providers.qemu.command import Guest
from kubewright.providers.qemu.endpoints import Bridge
from kubewright.providers.qemu.host import QmpError, answers, ask, said_by, status
from kubewright.providers.qemu.images import Image, backing_of
from kubewright.providers.qemu.spec import LEAST_FREE, MIB, SCHEME, QemuSpec

RECORD, LOCK, GOING = "vm.json", "lock", ".going-"
START_SECONDS, END_SECONDS = 30.0, 5.0
"""How long QEMU may take until it answers, and to end after SIGTERM."""
STARTS = 4
"""VMs that are made or switched on at one time."""
STOPPED, STILL = "io-error", "paused"
"""What QEMU says of a VM that it has stopped, whose guest would have had an error of its disk; and of one
that was told to stand still."""
OOM_SCORE = 500
"""The kernel ends a VM rather than what serves the cluster."""

TAGS = re.compile(r'"(?:network_|disk_)?tags":\s*\{(?:"(?:[^"\\]|\\.)*"|[^"{}])*(\}|\Z)')
"""The parts of a record whose names are a user's."""

log = structlog.get_logger(__name__)


class Vm(msgspec.Struct, frozen=True, kw_only=True):
    """A VM's record. ``memory``: bytes of the guest; ``made``: seconds since the epoch; ``argv``: QEMU's
    command line; ``address``: its own on the bridge, if there is one; ``control_plane_of``: the owner of the
    endpoint at which its API server is reached, if it is to have one; ``woken``: it had been booted before
    its machine asked for it. No providerSpec: what a class may say changes with versions, and an earlier or
    later one has to read this."""

    id: str
    provider_id: str
    name: str
    namespace: str
    owner_uid: str
    class_name: str
    memory: int
    tags: Mapping[str, str]
    made: float
    argv: tuple[str, ...]
    accelerator: str
    address: str = ""
    control_plane_of: str = ""
    woken: bool = False
    network_tags: Mapping[str, str] = {}
    disk_tags: Mapping[str, str] = {}


@dataclass
class Running:
    """A VM and its process. ``ended``: why it has none, a clause; empty while it runs; ``going``: it is to be
    removed, so nothing is to connect to it any more; ``writing``: who has it may write its record."""

    vm: Vm
    folder: Path
    handle: linux.Handle | None = None
    ended: str = ""
    going: bool = False
    watch: asyncio.Task[None] | None = None
    removal: asyncio.Task[None] | None = None
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What is left of the record of a VM: its ``address``, which is taken, bytes of ``memory``, its
    ``namespace`` (empty: it may be of any), and whose API server may run on it (``control_plane_of``).
    ``problem``: what is wrong, and what to do."""

    problem: str
    address: str = ""
    memory: int = 0
    namespace: str = ""
    control_plane_of: str = ""

    def may_be_in(self, namespace: str) -> bool:
        """Whether it may be a VM of this namespace."""
        return self.namespace in ("", namespace)

    def error(self) -> DriverError:
        return DriverError.of(Code.DataLoss, self.problem)


def unreadable(content: str, problem: str) -> Unreadable:
    """What can be made out of a record that is none. Pure."""
    content = TAGS.sub("", content)
    address, memory = (
        _only(content, r'"address":\s*"([0-9.]{7,15})"'),
        _only(content, r'"memory":\s*([0-9]{1,15})'),
    )
    namespace = _only(content, r'"namespace":\s*"([a-z0-9-]{1,63})"')
    served = _only(content, r'"control_plane_of":\s*"([A-Za-z0-9.-]{1,63})"')
    return Unreadable(problem, address, int(memory or 0), namespace, served)


def _only(content: str, pattern: str) -> str:
    """What a pattern finds; empty where it finds nothing, or several things."""
    found = set(re.findall(pattern, content))
    return found.pop() if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that a new VM is made of. ``qemu_img``: where that program is; ``variables``: the file with UEFI's,
    or empty."""

    vm: Vm
    spec: QemuSpec
    image: Image
    guest: Guest
    qemu_img: str
    variables: str = ""


class Vms:
    """All VMs of one folder. ``lasting``: they are machines, which are switched on again after a reboot."""

    def __init__(
        self, root: Path, clock: Clock, bridge: Bridge | None = None, *, lasting: bool = True
    ) -> None:
        self.root, self._clock, self._bridge, self._lasting = root, clock, bridge, lasting
        self._all: dict[str, Running] = {}
        self.unreadable: dict[str, Unreadable] = {}
        """VMs of whose record no more is known, by their ids."""
        self._lock: BinaryIO | None = None
        self._starts = asyncio.Semaphore(STARTS)
        self._on_bridge = 0
        """Which bridge the VMs were put on (``Bridge.times_made``)."""

    @property
    def all(self) -> Mapping[str, Running]:
        """Every VM by its id."""
        return self._all

    async def open(self) -> None:
        """Take the folder, find the VMs in it and switch on those that a reboot has switched off.

        Raises:
            InvalidInput: another process works on it.
        """
        try:
            found = await asyncio.to_thread(self._found)
        except BaseException:
            self._give_back()
            raise
        self._all.update((running.vm.id, running) for running, _ in found)
        await asyncio.gather(*(self._resume(*each) for each in found))

    def overlaid(self) -> frozenset[str]:
        """The names of the images that disks of VMs are overlays of."""
        disks = self.root.glob(f"*/{command.DISK}")
        return frozenset(Path(image).name for disk in disks if (image := backing_of(disk)))

    async def close(self) -> None:
        """Leave the VMs running, but for those that are being removed."""
        removals = [each.removal for each in self._all.values() if each.removal is not None]
        await asyncio.gather(*removals, return_exceptions=True)
        for running in self._all.values():
            if running.watch is not None:
                running.watch.cancel()
                with suppress(asyncio.CancelledError):
                    await running.watch
            if running.handle is not None:
                running.handle.close()
        self._all.clear()
        self._give_back()

    async def make(self, wanted: Wanted) -> Running:
        """Make a VM and switch it on; nothing is left of one that cannot be made.

        Raises:
            DriverError: ``ResourceExhausted`` if the disk or the memory is used up, else ``Internal``.
        """
        vm = wanted.vm
        running = Running(vm, self.root / vm.id)
        try:
            await self._disks(wanted, running.folder)
            await asyncio.to_thread(self._rest, wanted, running.folder)
            await self._start(running)
        except BaseException as error:
            await asyncio.shield(self._cleared(running))
            if isinstance(error, OSError):
                raise _told(error) from None
            raise
        self._all[vm.id] = running
        return running

    async def take_over(self, running: Running) -> None:
        """Let a VM go on that has stood still, whose folder was moved here.

        Raises:
            DriverError: it does not (``Internal``).
        """
        self._all[running.vm.id] = running
        if self._bridge is not None:
            await self._bridge.join(running.vm.id)
        try:
            await ask(running.folder / command.QMP, "cont")
        except QmpError as error:
            raise DriverError.of(Code.Internal, f"a VM that stood still does not go on: {error}") from None

    def give_up(self, running: Running) -> None:
        """It is another folder's from here on."""
        del self._all[running.vm.id]

    async def remove(self, running: Running) -> None:
        """End the process, then delete the folder. Returns when both are gone; goes on if it is cancelled.

        Raises:
            DriverError: the process does not end, or the folder cannot be deleted (``Internal``).
        """
        if running.removal is None or running.removal.done():
            running.removal = asyncio.create_task(self._removed(running))
        await asyncio.shield(running.removal)

    async def _removed(self, running: Running) -> None:
        await self._cleared(running)
        self._all.pop(running.vm.id, None)

    async def tend(self) -> None:
        """Bound the output of all VMs, since a guest may write to its console for ever; and let those go on
        that QEMU has stopped because the disk was full, once there is room. Put them on the bridge again
        where that was deleted."""
        await self._tend_bridge()
        for found in await asyncio.to_thread(self._readable_again):
            self._all[found[0].vm.id] = found[0]
            await self._resume(*found)
        for running in [each for each in self._all.values() if not each.ended]:
            with suppress(OSError):
                await asyncio.to_thread(record.rotate_output, running.folder)
            with suppress(QmpError):
                await self._go_on(running)

    async def _go_on(self, running: Running) -> None:
        """Let it go on where it is stopped: for want of room, or since the process ended that woke it."""
        path, vm = running.folder / command.QMP, running.vm
        found = await status(path)
        if found == STILL and vm.woken:
            await ask(path, "cont")
        if found != STOPPED:
            return
        room = shutil.disk_usage(self.root).free >= LEAST_FREE // 2
        why = "goes on" if room else "waits for room on the disk"
        log.warning("a VM could not write", vm=vm.id, machine=vm.name, why=why)
        if room:
            await ask(path, "cont")

    async def _disks(self, wanted: Wanted, folder: Path) -> None:
        if shutil.disk_usage(self.root).free < LEAST_FREE:
            raise Exhausted(f"the disk of {self.root} has less than {LEAST_FREE // MIB} MiB left")
        await asyncio.to_thread(record.make_folder, folder)
        image, spec = wanted.image, wanted.spec
        size = max(spec.disk_bytes, image.size)
        create = (wanted.qemu_img, "create", "-q", "-f", "qcow2")
        backing = ("-F", image.format, "-b", str(image.path))
        try:
            await said_by(*create, *backing, str(folder / command.DISK), str(size))
            for name, extra in zip(command.extra_disks(spec), spec.extra_bytes, strict=True):
                await said_by(*create, str(folder / name), str(extra))
        except DriverError as error:
            raise qemu_failed(error.message) from None

    def _rest(self, wanted: Wanted, folder: Path) -> None:
        guest = wanted.guest
        if guest.ignition:
            record.replace_file(folder / command.IGNITION, guest.data)
        else:
            record.replace_file(folder / command.SEED, seed(guest))
        if wanted.variables:
            shutil.copyfile(wanted.variables, folder / command.VARIABLES)
        record.replace_file(folder / RECORD, msgspec.json.encode(wanted.vm))

    async def _start(self, running: Running) -> None:
        """Start QEMU, and wait until it answers: then every device of the VM is there.

        Raises:
            DriverError: it ended instead.
            OSError: it cannot be started.
        """
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        program = Program(running.vm.id, running.vm.argv, environment, oom_score=OOM_SCORE)
        (running.folder / command.QMP).unlink(missing_ok=True)
        await self._begin(running, program)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not running.ended and not await answers(running.folder / command.QMP):
                    await self._clock.sleep(0.02)
        except TimeoutError:
            raise DriverError.of(Code.Internal, f"QEMU has not answered for {START_SECONDS:g} s") from None
        if running.ended:
            shown = console_end("\n".join(record.last_lines(running.folder)))  # the guest wrote it, too
            said = " ".join(shown.splitlines())[-500:]
            raise qemu_failed(f"{running.ended}: {said}")
        if self._bridge is not None:
            await self._bridge.join(running.vm.id)

    async def _begin(self, running: Running, program: Program) -> None:
        """Start the process. A thread does it, which a cancellation does not end: its process is not lost."""
        now, mark = self._clock.now().timestamp(), secrets.token_hex(16)
        loop = asyncio.get_running_loop()
        starting = loop.run_in_executor(None, linux.start, program, running.folder, mark, now)
        try:
            await asyncio.shield(starting)
        finally:
            running.handle = await starting
            self._watch(running)

    async def _resume(self, running: Running, was_off: bool) -> None:
        """Go on with a VM that an earlier process has left."""
        if running.handle is not None:
            self._watch(running)
            await self._join_again(running)
            with suppress(QmpError):
                await self._go_on(running)
        elif was_off and self._lasting:
            async with self._starts:
                await self._switch_on(running)

    async def _tend_bridge(self) -> None:
        there = [each for each in self._all.values() if each.vm.address and not each.ended]
        if self._bridge is None or not there:
            return
        with suppress(OSError, DriverError):  # told by each of the VMs below
            await self._bridge.open()
        if self._on_bridge != self._bridge.times_made:
            for running in there:
                await self._join_again(running)
            self._on_bridge = self._bridge.times_made

    async def _join_again(self, running: Running) -> None:
        """The process that started its QEMU may have ended before the VM was on the bridge."""
        if self._bridge is None or not running.vm.address:
            return
        try:
            async with self._starts:
                await self._bridge.open()
                await self._bridge.join(running.vm.id)
        except (OSError, DriverError) as error:
            log.warning("a VM may not be on the bridge", vm=running.vm.id, why=in_words(error))

    async def _switch_on(self, running: Running) -> None:
        """After a reboot of the machine; a VM that cannot be switched on is off, and says why."""
        try:
            running.ended = ""
            if self._bridge is not None:
                await self._bridge.open()
            await self._start(running)
        except (OSError, DriverError) as error:
            with suppress(DriverError):
                await self._end(running)
            said = in_words(error)
            running.ended = f"QEMU could not be started again after a reboot of this machine: {said}"
            log.warning("a VM is off", vm=running.vm.id, machine=running.vm.name, why=running.ended)

    def _watch(self, running: Running) -> None:
        running.watch = asyncio.create_task(self._until_ended(running))

    async def _until_ended(self, running: Running) -> None:
        assert running.handle is not None
        how = await running.handle.ended()
        running.ended = re.sub(r"\bit\b", "QEMU", str(how))
        log.info("a VM is off", vm=running.vm.id, machine=running.vm.name, why=running.ended)

    async def _end(self, running: Running) -> None:
        handle, watch = running.handle, running.watch
        if handle is None or watch is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not watch.done():
                handle.signal(number)
                await asyncio.wait([watch], timeout=END_SECONDS)
        if not watch.done():
            raise DriverError.of(Code.Internal, f"QEMU of {running.vm.name} does not end, even when killed")
        handle.close()
        running.handle = running.watch = None

    async def _cleared(self, running: Running) -> None:
        """End what runs there, and delete the folder."""
        await self._end(running)
        try:
            await asyncio.to_thread(_delete, running.folder)
        except OSError as error:
            raise _told(error) from None

    # ------------------------------------------------------------ what an earlier process has left

    def _found(self) -> list[tuple[Running, bool]]:
        """The VMs, and of each whether it is to be switched on: it ran before the last reboot, or never."""
        record.make_folder(self.root)
        self._take()
        found = []
        for folder in sorted(self.root.iterdir()):
            if not folder.is_dir():
                continue
            if folder.name.startswith(GOING) or not (folder / RECORD).exists():
                self._clear(folder)
            elif (read := self._read(folder)) is not None:
                found.append(read)
            elif not self._lasting:
                self._clear(folder)
                del self.unreadable[folder.name]
        return found

    def _readable_again(self) -> list[tuple[Running, bool]]:
        """Those that have been put right, or whose folder is gone."""
        folders = [self.root / each for each in list(self.unreadable)]
        for folder in folders:
            if not folder.exists():
                del self.unreadable[folder.name]
        return [read for each in folders if each.exists() and (read := self._read(each)) is not None]

    def _take(self) -> None:
        self._lock = (self.root / LOCK).open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._give_back()
            raise InvalidInput(f"another process works on the VMs in {self.root}; end it first") from None

    def _give_back(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _read(self, folder: Path) -> tuple[Running, bool] | None:
        content = b""
        try:
            content = (folder / RECORD).read_bytes()
            vm = msgspec.json.decode(content, type=Vm)
            if vm.id != folder.name:
                raise msgspec.DecodeError(f"it is the record of {vm.id}")
        except (OSError, msgspec.DecodeError) as error:
            remedy = "put it right, or end its VM and remove the folder"
            told = f"{folder / RECORD} cannot be read ({error}); {remedy}"
            if folder.name not in self.unreadable:
                log.warning("a VM is set aside", vm=folder.name, why=told)
            self.unreadable[folder.name] = unreadable(content.decode(errors="replace"), told)
            return None
        self.unreadable.pop(folder.name, None)
        known, there = record.read(folder), linux.find(folder)
        if there is not None:
            return Running(vm, folder, there[0]), False
        was_off = known is None or not known.pid or known.boot != linux.boot_id()
        return Running(vm, folder, ended="QEMU ended while Kubewright did not run"), was_off

    def _clear(self, folder: Path) -> None:
        if (there := linux.find(folder)) is not None:
            there[0].signal(signal.SIGKILL)
            there[0].close()
        _delete(folder)


def seed(guest: Guest) -> bytes:
    """The disk from which a guest learns what it is to become. One that waits has it in the size of all that
    it may become, since QEMU asks for the size of a disk once."""
    if not guest.waits:
        return iso(command.seed_files(guest))
    return iso({"waits": b""}, command.WAITING).ljust(command.SEED_BYTES, b"\0")


def iso(files: Mapping[str, bytes], label: str = "cidata") -> bytes:
    """An ISO 9660 image (with Rock Ridge and Joliet names) that holds these files."""
    from pycdlib import PyCdlib  # only who makes VMs needs it

    image = PyCdlib()
    image.new(interchange_level=3, vol_ident=label, joliet=3, rock_ridge="1.09")
    for number, (name, content) in enumerate(sorted(files.items())):
        short, joliet = f"/FILE{number}.;1", f"/{name}"
        image.add_fp(io.BytesIO(content), len(content), short, rr_name=name, joliet_path=joliet)
    made = io.BytesIO()
    image.write_fp(made)
    image.close()
    return made.getvalue()


def new_id(name: str, macs: Collection[str] = ()) -> str:
    """A VM's id, which no other one had before, and whose MAC address is none of these: those have only 24
    bits of their own.

    Raises:
        Exhausted: a hundred tries found none.
    """
    for _ in range(100):
        made = f"{name}-{secrets.token_hex(4)}"
        if command.mac_of(made) not in macs:
            return made
    raise Exhausted("no MAC address is left for a further VM")


def may_be_of(vm_id: str, name: str) -> bool:
    """Whether a VM of this id may be that of a machine of this name; one that has waited, of any."""
    return vm_id.rpartition("-")[0] in (name, command.WARM)


def provider_id(site: str, vm_id: str) -> str:
    return f"{SCHEME}:///{site}/{vm_id}"


def _delete(folder: Path) -> None:
    going = folder if folder.name.startswith(GOING) else folder.with_name(GOING + folder.name)
    if going != folder:
        with suppress(FileNotFoundError):  # it has that name already, or never was there
            folder.rename(going)
    if going.exists():
        shutil.rmtree(going)


def in_words(error: DriverError | OSError) -> str:
    """What an error says, for a log: without its code, which is for MCM."""
    return error.message if isinstance(error, DriverError) else str(error)


def qemu_failed(said: str) -> DriverError:
    """QEMU's own words, under the code that says what is to be done."""
    if any(each in said for each in ("allocate memory", "set up guest memory", "No space left")):
        return Exhausted(said)
    return DriverError.of(Code.Internal, said)


def _told(error: OSError) -> DriverError:
    said = f"{error.filename or 'the folder of VMs'}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN):
        return Exhausted(said)
    return DriverError.of(Code.Internal, said)
