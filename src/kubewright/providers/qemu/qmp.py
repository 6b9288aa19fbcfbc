"""How QEMU is asked: QMP, on a socket in the folder of its VM.

Theory.      A JSON line for each command and each answer, one client at a time. QEMU greets first, and does
             so only when every device of the VM was made. Between answers it tells of events, which are no
             concern of ours.
Invariants.  Each exchange has a deadline, and each line a bound. The socket is reached through its folder's
             descriptor: a socket's path may have 107 bytes, and folders' names are longer.
Source       QEMU docs/interop/qmp-spec.
Called by    ``vms``, ``warm``.
"""

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

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
