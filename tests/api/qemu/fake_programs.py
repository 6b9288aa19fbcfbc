"""Programs that behave as QEMU's do, as far as a driver sees: where QEMU is not installed the tests run with these.

``qemu-img create`` makes a file. ``qemu-system-x86_64`` says that it is QEMU, or runs until a signal: it writes
a line to its console (what a guest says that waits for a seed, where its seed says to), answers on its QMP socket, makes its end of a bridge, and refuses what QEMU refuses of the
tests' command lines. In the folder of a VM a test puts ``says``, which it answers whatever it is asked, or ``hangs``,
and it does not answer while that is there (``hung``: it was asked); beside the folders ``ends``: it ends once it was asked.
"""

import fcntl
import json
import os
import re
import socket
import struct
import sys
import time
from pathlib import Path

CONSOLE, WAITS = "kubewright boots", "kubewright: waiting for a seed"


def install(folder: Path) -> None:
    """Put them into a folder."""
    for name in ("qemu-img", "qemu-system-x86_64"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {__file__} {name} "$@"\n')
        path.chmod(0o755)


def image(arguments: list[str]) -> None:
    """``qemu-img create -q -f qcow2 [-F FORMAT -b PATH] DISK SIZE``."""
    disk = Path(arguments[-2])
    disk.write_bytes(b"QFI\xfb" + bytes(100))


def answer(asked: str) -> object:
    """What QEMU says; a test stops it by a file of this name, with why."""
    stopped = Path("stopped")
    if asked == "stop":
        stopped.write_text("paused")
    if asked == "cont":
        stopped.unlink(missing_ok=True)
    return (
        {"status": stopped.read_text() if stopped.exists() else "running"} if asked == "query-status" else {}
    )


def label() -> bytes:
    """What the volume of the seed is called."""
    seed = Path("seed.iso")
    return seed.read_bytes()[32808:32840].strip() if seed.exists() else b""


def tap(netdev: str) -> int | None:
    """The end of a bridge that ``-netdev`` names; it goes with this process."""
    if (found := re.search("^tap,.*ifname=([^,]+)", netdev)) is None:
        return None
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    set_interface, tap_without_header = 0x400454CA, 0x1002
    fcntl.ioctl(descriptor, set_interface, struct.pack("16sH22x", found[1].encode(), tap_without_header))
    return descriptor


def serve(listener: socket.socket) -> None:
    """QMP, one client at a time."""
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            try:
                _say(stream, {"QMP": {"version": {}, "capabilities": []}})
                for line in stream:
                    while Path("hangs").exists():
                        Path("hung").touch()
                        time.sleep(0.01)
                    if (says := Path("says")).exists():
                        stream.write(says.read_bytes())
                        stream.flush()
                    else:
                        _say(stream, {"return": answer(json.loads(line)["execute"])})
                if Path("../ends").exists():
                    return
            except OSError:
                continue  # the client has left


def _say(stream, what: object) -> None:
    stream.write(json.dumps(what).encode() + b"\n")
    stream.flush()


def main() -> None:
    name, arguments = sys.argv[1], sys.argv[2:]
    if name == "qemu-img":
        image(arguments)
    elif "--version" in arguments:
        sys.stdout.write("QEMU emulator version 7.2.0 (fake)\n")
    else:
        if "-kernel" in arguments:
            sys.exit("qemu: could not load kernel: no fake does that")
        tap(arguments[arguments.index("-netdev") + 1])
        sys.stdout.write(f"{WAITS if label() == b'kwwait' else CONSOLE}\n")
        sys.stdout.flush()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(arguments[arguments.index("-qmp") + 1].split(":")[1].split(",")[0])
            listener.listen(5)
            serve(listener)


if __name__ == "__main__":
    os.umask(0o077)
    main()
