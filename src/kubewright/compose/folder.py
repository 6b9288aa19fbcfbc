"""The data folder: private, with the address it is served at; and a watch that notices when it is deleted.

Theory.      A copied kubeconfig, and a client that keeps running, know one port. The first start
             picks it, and later starts use it again.
Files        ``up.json``, mode 0600, and the folders that are named below; docs/reference/data-folder.md has
             all of them, also those that other modules write.
Called by    ``embedded`` and ``on_kubernetes``; ``serving``, which shows the address.
"""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path

import msgspec

from kubewright.apiserver.http.pki import write_private
from kubewright.apiserver.server import ApiServer
from kubewright.apiserver.store.log import (
    COMMITTED_FILE,
    DATA_FILE,
    TOKEN_KEY_FILE,
    WAY_OUT,
    version_in,
)
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput, KubewrightError, OnChange, Retry
from kubewright.controlplanes.snapshots.files import SCRATCH
from kubewright.providers.sim import CLOUD_FILE

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

    def __init__(self, server: ApiServer | None = None) -> None:
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
