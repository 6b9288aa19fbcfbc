"""The data folder: private, with the address it is served at; and a watch that notices when it is deleted.

Theory.      A copied kubeconfig, and a client that keeps running, know one port. The first start
             picks it, and later starts use it again.
Files        ``up.json``, mode 0600, and the folders that are named below; docs/reference/data-folder.md has
             all of them, also those that other modules write.
Called by    ``embedded`` and ``on_kubernetes``; ``serving``, which shows the address.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kubewright.api.core import NODE, Node
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.apiserver.http.kubeconfig import NAME
from kubewright.apiserver.http.pki import write_private
from kubewright.apiserver.store.log import (
    COMMITTED_FILE,
    DATA_FILE,
    LOCK_FILE,
    TOKEN_KEY_FILE,
    WAY_OUT,
    peek,
    version_in,
)
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput, KubewrightError, OnChange, Retry
from kubewright.base.locks import holder
from kubewright.controlplanes.hosting.processes.store import PROGRAMS
from kubewright.controlplanes.snapshots.files import SCRATCH
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.processes import linux, record
from kubewright.providers import CLOUD_FILE

if TYPE_CHECKING:
    from kubewright.apiserver.server import ApiServer

FILE = "up.json"
SERVER_FOLDER, PKI_FOLDER = "server", "pki"
"""The files of the API server; its certificates and their keys."""
CLUSTERS_FOLDER, COMPONENTS_FOLDER = "clusters", "components"
"""Control planes that run in this process; components of control planes that run as processes."""
SNAPSHOTS_FOLDER = "snapshots"
"""Files of ControlPlaneSnapshots."""

MADE_AFTER_OBJECTS = (FILE, f"{PKI_FOLDER}/ca.pem", CLOUD_FILE)
"""Files that the first start makes when there are objects already."""

LOOK_SECONDS = 1.0
"""Between two looks at the files of a running server: acknowledged writes of this time may be lost."""


class FolderGone(KubewrightError):
    """The data folder, or a file in it, was deleted or moved away under a running server."""

    retry: Retry = OnChange()


class DiskFailed(KubewrightError):
    """The data folder cannot be written any more; the message says why, and what to do."""

    retry: Retry = OnChange()


def private_folder(path: Path) -> Path:
    """The folder; made with mode 0700 if it is missing, left as it is if it is there.

    Raises:
        InvalidInput: it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot use {path} as a data folder: {error.strerror}") from None
    return path


def check_server_folder(data_dir: Path) -> None:
    """Refuse a folder that was served before, and whose objects are gone as a whole.

    The first start makes objects before all other files. What is lost of them otherwise, their log says.

    Raises:
        InvalidInput: they are gone.
    """
    server = data_dir / SERVER_FOLDER
    served = next((name for name in MADE_AFTER_OBJECTS if (data_dir / name).exists()), None)
    said_by_log = (server / COMMITTED_FILE).exists() or (server / TOKEN_KEY_FILE).exists()
    if served is not None and not said_by_log and not version_in(server / DATA_FILE):
        lost = f"{server / DATA_FILE} is empty or missing, and with it all objects"
        raise InvalidInput(f"{data_dir} was served before (it has {served}). {lost}. {WAY_OUT}")


def snapshots_folder(path: Path, before: float = inf) -> Path:
    """The folder for files of snapshots; what a process that was killed has left there goes.

    Args:
        before: seconds since the epoch; what is newer may be at work, and stays.

    Raises:
        InvalidInput: it cannot be made.
    """
    folder = private_folder(path)
    for left in folder.glob(f"{SCRATCH}*"):
        with suppress(OSError):  # another process has deleted it
            if left.stat().st_mtime < before:
                shutil.rmtree(left, ignore_errors=True)
    return folder


class Claims:
    """Files of the data folder without which no later start is right: the objects' database says which.

    Of a ``server`` that is None nothing outlives the process, or another program has the objects.
    """

    def __init__(self, server: "ApiServer | None" = None) -> None:
        self._server = server

    def add(self, path: str) -> None:
        """A file is there, and is to be there at each start; ``path`` from the data folder."""
        if self._server is not None:
            self._server.claim(f"../{path}")

    def drop(self, path: str) -> None:
        """The file is about to be deleted."""
        if self._server is not None:
            self._server.disclaim(f"../{path}")


class Presence:
    """Files that must stay in place; a file that is missing at the beginning is not watched."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._seen = {path: path.stat() for path in paths if path.exists()}

    def missing(self) -> Path | None:
        """The first file that was deleted or replaced; None when all are still the same."""
        return next((path for path, seen in self._seen.items() if not _same(path, seen)), None)

    async def watch(self, clock: Clock) -> None:
        """Look every ``LOOK_SECONDS`` until cancelled.

        Raises:
            FolderGone: a file is missing.
        """
        while (missing := self.missing()) is None:
            await clock.sleep(LOOK_SECONDS)
        raise FolderGone(
            f"{missing} was deleted or moved away while it was in use; stopped, because what is written "
            "from now on would be lost. Put the folder back, or start anew without it"
        )


def _same(path: Path, seen: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), seen)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # a file that cannot be looked at just now is not gone


@dataclass(frozen=True, slots=True)
class Address:
    """``url`` is the API server's, ``kubeconfig`` its kubeconfig (absolute), ``since`` the last start."""

    port: int
    url: str
    kubeconfig: str
    since: datetime


def remember(data_dir: Path, address: Address) -> None:
    """Write the address to ``up.json``, for the next start.

    Raises:
        InvalidInput: the folder cannot be written.
    """
    write_private(data_dir / FILE, msgspec.json.encode(address) + b"\n")


def recall(data_dir: Path) -> Address | None:
    """The address of the last start; None when the folder has none.

    Raises:
        InvalidInput: the file is damaged or cannot be read.
    """
    path = data_dir / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Address)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{path} is damaged ({error}); delete it, and `up` picks a new port") from None
    if not 0 < found.port <= 65535:
        raise InvalidInput(f"{path} is damaged (port {found.port}); delete it, and `up` picks a new port")
    return found


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
