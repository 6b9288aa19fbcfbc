"""A data folder seen from another process: which process serves it, where, what is in it; how to end that.

Theory.      The folder's lock says whether a process serves it, and which. Its objects are
             read from the database file, whether or not a server runs. Only the server knows whether it
             is ready, so ``folder_status`` sends it a request.
Invariants.  Nothing in the folder is changed, and only the process that holds its lock is ever
             signalled: its id is read from the lock, and read again just before the signal.
Called by    ``cli.serving``.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubewright.api.core import NODE, Node
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.apiserver.http.kubeconfig import NAME
from kubewright.apiserver.store.log import DATA_FILE, LOCK_FILE, peek
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.base.locks import holder
from kubewright.compose.folder import COMPONENTS_FOLDER, SERVER_FOLDER, Address, recall
from kubewright.controlplanes.hosting.processes.store import PROGRAMS
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.processes import linux, record

ANSWER_SECONDS = 5.0
"""How long a server on this machine may take to answer ``/readyz``."""

POLL_SECONDS = 0.05
"""Between two looks at the folder's lock, while waiting for a process to end."""


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """What is known of a folder. ``pid``: None while no process serves it, 0 for one that we cannot see.

    ``trouble`` is why the server is not ready; empty when it is, and when none runs.
    """

    data_dir: Path
    pid: int | None
    address: Address | None
    machines: Sequence[Machine]
    nodes: Sequence[Node]
    trouble: str = ""


async def folder_status(data_dir: Path, clock: Clock) -> FolderStatus:
    """Look at a folder.

    Raises:
        InvalidInput: there is no such data folder, or a file in it cannot be read.
    """
    pid, address = serving(data_dir), recall(data_dir)
    machines: list[Machine] = []
    nodes: list[Node] = []
    server = data_dir / SERVER_FOLDER
    if (server / DATA_FILE).exists():
        for resource, _, _, data in peek(server, [str(MACHINE.resource), str(NODE.resource)]):
            if resource == str(NODE.resource):
                nodes.append(NODE.decode(data))
            else:
                machines.append(MACHINE.decode(data))
    trouble = "" if pid is None else await _trouble(address, clock)
    return FolderStatus(data_dir, pid, address, machines, nodes, trouble)


def serving(data_dir: Path) -> int | None:
    """The process that serves a folder: None for none, 0 for one that cannot be seen from here.

    Raises:
        InvalidInput: there is no such data folder, or it cannot be looked into.
    """
    if not data_dir.is_dir():
        raise InvalidInput(f"there is no data folder {data_dir}; name another with --data-dir")
    try:
        return holder(_lock(data_dir))
    except OSError as error:
        raise InvalidInput(f"cannot look into {data_dir}: {error.strerror or error}") from None


def left_running(data_dir: Path) -> dict[str, int]:
    """The ids of the processes of nested control planes that run now, by the names of their programs."""
    root, found = data_dir / COMPONENTS_FOLDER / PROGRAMS, {}
    for name in record.recorded(root) if linux.SUPPORTED else ():
        with suppress(OSError):
            if (there := linux.find(root / name)) is not None:
                found[name] = there[0].process.pid
                there[0].close()
    return found


async def end(data_dir: Path, pid: int, clock: Clock, seconds: float) -> bool:
    """Ask the process that serves a folder to end; whether it released the folder within ``seconds``.

    Raises:
        InvalidInput: the process belongs to another user.
    """
    _terminate(data_dir, pid)
    deadline = clock.monotonic() + seconds
    while serving(data_dir) == pid:
        if clock.monotonic() >= deadline:
            return False
        await clock.sleep(POLL_SECONDS)
    return True


def _terminate(data_dir: Path, pid: int) -> None:
    """SIGTERM to the holder of the lock. Where the system has pidfds, the id cannot have passed to
    another process between the look and the signal."""
    with suppress(ProcessLookupError):
        try:
            process = _handle(pid)
            if process is None:
                if serving(data_dir) == pid:
                    os.kill(pid, signal.SIGTERM)
                return
            try:
                if serving(data_dir) == pid:
                    signal.pidfd_send_signal(process, signal.SIGTERM)
            finally:
                os.close(process)
        except PermissionError:
            raise InvalidInput(
                f"process {pid}, which serves {data_dir}, belongs to another user; only that user can end it"
            ) from None


def _handle(pid: int) -> int | None:
    """A pidfd of a process; None where the system has no pidfds, or a sandbox forbids them.

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


async def _trouble(address: Address | None, clock: Clock) -> str:
    """Why a running server is not ready, from its answer or from our error; empty when it is."""
    if address is None:
        return "it is still starting"
    try:
        transport = config.load(address.kubeconfig, NAME, clock=clock)
    except InvalidInput as error:
        return str(error)
    client = Client(transport, clock, name="status")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await client.send(client.request("GET", "/readyz"))
    except TimeoutError:
        return f"{address.url} did not answer within {ANSWER_SECONDS:g} s"
    except KubewrightError as error:
        return str(error)
    finally:
        await client.close()
    return "" if answer.status == 200 else answer.body.decode(errors="replace").strip()


def _lock(data_dir: Path) -> Path:
    return data_dir / SERVER_FOLDER / LOCK_FILE
