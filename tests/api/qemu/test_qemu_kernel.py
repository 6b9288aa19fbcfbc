"""A guest with a kernel and an init of its own, the smallest there is: what `make test-vm` does whole, in seconds."""

import asyncio
import platform
import struct
from pathlib import Path

import pytest

from kubewright.processes import record
from kubewright.testing.real_kubernetes.binaries import kubewright_cache

from .bench import opened
from .conftest import REAL

pytestmark = [pytest.mark.looptime(False), REAL]

SAYS = b"init of the test is up\n"
SECONDS = 90
BASE = 0x400000


def kernels() -> list[Path]:
    """Kernels of this machine that may be read: the node image's, then its own."""
    found = [*kubewright_cache().glob("node-image-*/vmlinuz"), *Path("/boot").glob("vmlinuz-*")]
    return [each for each in found if _readable(each)]


def _readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False


def init() -> bytes:
    """A program of 48 bytes of machine code for x86-64: it says a line, and pauses for ever."""
    code = b"\xb8\x01\x00\x00\x00\xbf\x01\x00\x00\x00"  # write to standard output
    code += b"\x48\x8d\x35" + struct.pack("<I", 12) + b"\xba" + struct.pack("<I", len(SAYS)) + b"\x0f\x05"
    code += b"\xb8\x22\x00\x00\x00" + b"\x0f\x05" + b"\xeb\xf7"  # pause, again and again
    code = code.replace(struct.pack("<I", 12), struct.pack("<I", len(code) - 17), 1) + SAYS
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, BASE + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = 120 + len(code)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, size, size, 4096) + code


def archive(name: str, content: bytes) -> bytes:
    """An initramfs of one program: cpio, "new" format."""

    def entry(path: str, mode: int, data: bytes) -> bytes:
        fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % each for each in fields) + path.encode() + b"\0"
        return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)

    return entry(name, 0o100755, content) + entry("TRAILER!!!", 0, b"")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its init is machine code of x86-64")
@pytest.mark.skipif(not kernels(), reason="no kernel here to boot: `make node-image` brings one")
@pytest.mark.timeout(SECONDS + 20)
async def test_a_kernel_and_an_init_of_a_class_are_booted(tmp_path: Path) -> None:
    async with opened(tmp_path, "") as bench:
        (bench.images / "kernel").write_bytes(kernels()[0].read_bytes())
        (bench.images / "initrd").write_bytes(archive("init", init()))
        boot = {"kernel": "kernel", "initrd": "initrd", "commandLine": "console=ttyS0 quiet panic=-1"}
        await bench.made.create(bench.request(of=bench.class_of(memory="128Mi", **boot)))
        async with asyncio.timeout(SECONDS):
            while not any(SAYS.decode().strip() in line for line in record.last_lines(bench.vm_folders[0])):
                await bench.clock.sleep(0.1)
