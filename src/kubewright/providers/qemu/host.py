"""The machine on which VMs run: QEMU's programs, whether KVM works, firmware, how much memory there is.

Theory.      A ``/dev/kvm`` that can be opened proves nothing: in a VM whose own hypervisor emulates the
             guest's kernel mode it opens, runs a few instructions, and then takes minutes to boot. So the
             processor has to have the instructions (on x86: ``vmx`` or ``svm`` among its flags), and a disk
             of 512 bytes has to say its line within seconds. What is found is kept for the life of the
             process.
             How QEMU is asked: QMP, on a socket in the folder of its VM. A JSON line for each command and
             each answer, one client at a time. QEMU greets first, and does so only when every device of the
             VM was made. Between answers it tells of events, which are no concern of ours.
Invariants.  Every program that is started has a deadline. Nothing of a class is among its arguments.
             Each exchange has a deadline, and each line a bound. The socket is reached through its folder's
             descriptor: a socket's path may have 107 bytes, and folders' names are longer.
Called by    ``driver``; ``endpoints`` and ``vms`` for ``said_by``.
"""

import asyncio
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from kubewright.driver.errors import Code, DriverError
from kubewright.providers.qemu.command import Host, program
from kubewright.providers.qemu.spec import Architecture, Options, QemuSpec, own_architecture

T = TypeVar("T")

OLDEST = (6, 0)
"""The oldest release of QEMU whose command line is as ``command`` writes it."""
PROGRAM_SECONDS = 30.0
KVM_SECONDS = 5.0
LINE = "kubewright boots"
FIRMWARE = {
    "amd64": (
        ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
        ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
        ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
        ("/usr/share/qemu/edk2-x86_64-code.fd", "/usr/share/qemu/edk2-i386-vars.fd"),
    ),
    "arm64": (
        ("/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"),
        ("/usr/share/edk2/aarch64/QEMU_EFI-pflash.raw", "/usr/share/edk2/aarch64/vars-template-pflash.raw"),
        ("/usr/share/qemu/edk2-aarch64-code.fd", "/usr/share/qemu/edk2-arm-vars.fd"),
    ),
}
"""Code and variables of UEFI, where distributions keep them."""


@dataclass
class Shared(Generic[T]):
    """Work that is done once for all callers, and anew after a failure. A caller that is cancelled does not
    end it."""

    work: Callable[[], Coroutine[Any, Any, T]]
    task: asyncio.Task[T] | None = None

    @property
    def ended(self) -> bool:
        return self.task is not None and self.task.done()

    async def done(self) -> T:
        """What came of it, or the error that it raised."""
        failed = self.task is not None and self.task.done() and _failed(self.task)
        if self.task is None or failed:
            self.task = asyncio.create_task(self.work())
        return await asyncio.shield(self.task)


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


@dataclass
class Machine:
    """This machine, as the administrator gives it to VMs."""

    options: Options
    _versions: dict[str, str] = field(default_factory=dict)
    _kvm: Shared[bool] | None = None

    def path_of(self, name: str) -> str:
        """Where a program is.

        Raises:
            DriverError: it is not installed (``FailedPrecondition``).
        """
        first = [str(Path(self.options.programs).absolute())] if self.options.programs else []
        folders = [*first, *os.get_exec_path()]
        if (found := shutil.which(name, path=os.pathsep.join(folders))) is None:
            package = "qemu-utils" if name == "qemu-img" else "qemu-system"
            raise DriverError.of(
                Code.FailedPrecondition, f"{name} is not installed on this machine (Debian: {package})"
            )
        return found

    async def host_for(self, spec: QemuSpec) -> tuple[Host, str]:
        """What the command line of such a VM needs, and the file with UEFI's variables, if it has any.

        Raises:
            DriverError: something that it needs is not there (``FailedPrecondition``).
        """
        path = self.path_of(program(spec.runs_on))
        await self._refuse_old(path)
        code, variables = self._firmware(spec)
        accelerator = await self._accelerator(spec, path)
        options = self.options
        host = Host(path, accelerator, code, options.network, options.bridge, options.helper)
        return replace(host, sandbox=options.sandbox == "on"), variables

    async def _refuse_old(self, path: str) -> None:
        if path not in self._versions:
            self._versions[path] = await said_by(path, "--version")
        found = re.search(r"version (\d+)\.(\d+)", self._versions[path])
        if found is None or (int(found[1]), int(found[2])) < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            said = (self._versions[path].splitlines() or ["nothing"])[0]
            raise DriverError.of(
                Code.FailedPrecondition, f"{path} has to be QEMU {wanted} or newer; it says: {said[:200]}"
            )

    def _firmware(self, spec: QemuSpec) -> tuple[str, str]:
        wanted = spec.firmware or ("bios" if spec.runs_on == "amd64" else "uefi")
        if wanted == "bios" or spec.kernel:
            return "", ""
        for pair in FIRMWARE[spec.runs_on]:
            if all(Path(each).is_file() for each in pair):
                return pair
        package = "ovmf" if spec.runs_on == "amd64" else "qemu-efi-aarch64"
        raise DriverError.of(
            Code.FailedPrecondition, f"no UEFI for {spec.runs_on} is installed (Debian: {package})"
        )

    async def _accelerator(self, spec: QemuSpec, path: str) -> str:
        if spec.accelerator == "tcg":
            return "tcg"
        if self._kvm is None and spec.runs_on == own_architecture():
            self._kvm = Shared(partial(kvm_boots, path))
        works = self._kvm is not None and spec.runs_on == own_architecture() and await self._kvm.done()
        if not works and spec.accelerator == "kvm":
            raise DriverError.of(
                Code.FailedPrecondition,
                f"KVM does not work for {spec.runs_on} on this machine; use tcg or auto",
            )
        return "kvm" if works else "tcg"


def free_memory() -> tuple[int, int]:
    """Bytes: all that this machine has, and what is available now."""
    found = dict(re.findall(r"^(\w+): +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE))
    return int(found["MemTotal"]) * 1024, int(found["MemAvailable"]) * 1024


def could_have_kvm(cpuinfo: str, architecture: Architecture) -> bool:
    """Whether a processor has what KVM needs. ``cpuinfo``: what /proc/cpuinfo says."""
    if architecture != "amd64":
        return True
    return re.search(r"^flags\s*:.*\b(vmx|svm)\b", cpuinfo, re.MULTILINE) is not None


async def kvm_boots(path: str) -> bool:
    """Whether a VM of QEMU at ``path`` boots with KVM: it is tried, for seconds."""
    if not await asyncio.to_thread(_may_have_kvm):
        return False
    if own_architecture() != "amd64":
        return True  # the disk below is for x86; arm64 has no half of KVM
    with TemporaryDirectory() as folder:
        disk = f"{folder}/disk"
        await asyncio.to_thread(Path(disk).write_bytes, boot_sector(LINE))
        drive = ("-drive", f"if=virtio,file={disk},format=raw,readonly=on")
        quiet = ("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio")
        command = (path, "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "64M", *quiet, *drive)
        return await _says(LINE, command)


def _may_have_kvm() -> bool:
    device = Path("/dev/kvm")
    there = device.exists() and stat.S_ISCHR(device.stat().st_mode) and os.access(device, os.R_OK | os.W_OK)
    return there and could_have_kvm(Path("/proc/cpuinfo").read_text(), own_architecture())


async def _says(line: str, command: tuple[str, ...]) -> bool:
    none = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=none, stdout=asyncio.subprocess.PIPE, stderr=none
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(KVM_SECONDS):
            await process.stdout.readuntil(line.encode())
            return True
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def boot_sector(line: str) -> bytes:
    """A disk of 512 bytes whose x86 guest writes a line to its first serial port, and stops."""
    code = bytes.fromhex("31c0 8ed8 fc baf803 be177c ac 84c0 7403 ee ebf8 fa f4 ebfc")
    return (code + f"{line}\r\n\0".encode()).ljust(510, b"\0") + b"\x55\xaa"


async def said_by(*command: str) -> str:
    """What a program writes, both ways.

    Raises:
        DriverError: it fails, or does not end in time (``Internal``).
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    name = Path(command[0]).name
    try:
        async with asyncio.timeout(PROGRAM_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise DriverError.of(Code.Internal, f"{name} did not end within {PROGRAM_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    text = output.decode(errors="replace").strip()
    if process.returncode:
        raise DriverError.of(Code.Internal, f"{name} failed: {text[-500:]}")
    return text


ANSWER_SECONDS = 5.0
LINE_BYTES = 256 * 1024
"""How long QEMU may take to answer, and the longest line of it."""


class QmpError(Exception):
    """QEMU does not answer, or says no; the text says which."""


async def status(path: Path) -> str:
    """What QEMU says that its VM does (``RunState``), such as ``running``.

    Raises:
        QmpError: as ``ask``, or it says no such thing.
    """
    (said,) = await ask(path, "query-status")
    if isinstance(said, dict) and isinstance(found := said.get("status"), str):
        return found
    raise QmpError("what QEMU says of its VM is no state of one")


async def answers(path: Path) -> bool:
    """Whether QEMU greets: then all devices of the VM were made."""
    try:
        await ask(path)
    except QmpError:
        return False
    return True


async def ask(path: Path, *commands: str) -> list[Any]:
    """Send commands, which have no arguments; the answer to each.

    Raises:
        QmpError: it does not listen, does not answer in time, or refuses one.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _exchange(path, commands)
    except TimeoutError:
        raise QmpError(f"QEMU has not answered for {ANSWER_SECONDS:g} s") from None
    except (OSError, ValueError, RecursionError) as error:
        raise QmpError(f"QEMU does not answer: {error}") from None


async def _exchange(path: Path, commands: tuple[str, ...]) -> list[Any]:
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        reader, writer = await asyncio.open_unix_connection(
            f"/proc/self/fd/{folder}/{path.name}", limit=LINE_BYTES
        )
    finally:
        os.close(folder)
    try:
        json.loads(await reader.readline() or "null")["QMP"]  # the greeting
        return [await _answer(reader, writer, each) for each in ("qmp_capabilities", *commands)][1:]
    except (KeyError, TypeError, AttributeError):
        raise QmpError("what listens there is no QEMU") from None
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, command: str) -> Any:
    writer.write(json.dumps({"execute": command}).encode() + b"\n")
    while line := await reader.readline():
        said = json.loads(line)
        if "error" in said:
            raise QmpError(f"QEMU refuses {command}: {said['error'].get('desc', '')}")
        if "return" in said:
            return said["return"]
    raise QmpError(f"QEMU has hung up on {command}")
