"""What ``taking`` and ``restoring`` need of a store; which one a spec names; and the store that is a folder.

Theory.      A file is written under another name and renamed, so under its own name it is complete. Its name
             follows from the object, so a second attempt replaces what an earlier one, that was cut short,
             has left. A bucket is reached with the credentials of a Secret in the user's namespace, never
             with those of this program: else a user could read and write whatever this program can.
Invariants.  No path leaves the folder of the program, and no message has a path that no user wrote. Files
             have mode 0600, because a snapshot contains every Secret of its control plane.
Called by    ``taking`` and ``restoring``.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from kubewright.api.controlplane.v1alpha4 import SnapshotLocation
from kubewright.api.core import SECRET
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.snapshots.buckets import bucket_store
from kubewright.controlplanes.snapshots.files import StoreFailed
from kubewright.kube.client import Client
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

NO_FOLDER = (
    "this program has no folder for snapshots: name a bucket in the location, or start the program with "
    "--snapshot-folder"
)
FOLDER = "the folder for snapshots of this program"


class Store(Protocol):
    """Where files are kept. All methods may raise ``StoreFailed``, and can be repeated."""

    async def put(self, name: str, source: Path) -> None:
        """Keep a copy of this file."""
        ...

    async def fetch(self, name: str, target: Path) -> None:
        """Copy a file that is kept here."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        ...


class FolderStore:
    """A folder; the first ``put`` creates it. ``told``: how a message names it."""

    def __init__(self, folder: Path, told: str = FOLDER) -> None:
        self._folder = folder
        self._told = told

    async def put(self, name: str, source: Path) -> None:
        """As ``Store.put``."""
        await self._call("written to", name, self._put, source)

    async def fetch(self, name: str, target: Path) -> None:
        """As ``Store.fetch``."""
        await self._call("read from", name, shutil.copyfile, target)

    async def delete(self, name: str) -> None:
        """As ``Store.delete``; folders that it leaves empty go too."""
        await self._call("deleted from", name, self._delete)

    async def _call(self, what: str, name: str, work: Callable[..., object], *others: Path) -> None:
        try:
            await asyncio.to_thread(work, self._folder / name, *others)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StoreFailed(f"file {name} cannot be {what} {self._told}: {reason}") from None

    def _put(self, path: Path, source: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(source, "rb") as whole, os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(whole, file)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)

    def _delete(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty
            while path.parent != self._folder:
                path = path.parent
                path.rmdir()


def folder_store(location: SnapshotLocation, folder: Path | None) -> Store:
    """The store of a spec that names no bucket; ``folder`` is that of this program.

    Raises:
        InvalidInput: this program has none; the message says what would help.
    """
    if folder is None:
        raise InvalidInput(NO_FOLDER)
    told = f"folder {location.folder}, which is location.folder" if location.folder else FOLDER
    return FolderStore(folder / location.folder, told)


class Stores:
    """Finds the store that a spec names. ``folder``: of this program, for snapshots; None: it has none."""

    def __init__(self, client: Client, folder: Path | None) -> None:
        self._client = client
        self._folder = folder

    async def of(self, location: SnapshotLocation, namespace: str) -> Store:
        """The store for an object of a namespace.

        Raises:
            InvalidInput: this program has no such store; the message says what would help.
            StoreFailed: the Secret with the credentials is not there, or lacks something.
            ApiError, TransportError: the server could not be asked for it.
        """
        bucket = location.bucket
        if bucket is None:
            return folder_store(location, self._folder)
        try:
            secret = await self._client.get(SECRET, Key(namespace, bucket.secret_name))
        except NotFound:
            raise StoreFailed(f"there is no Secret {bucket.secret_name} for bucket {bucket.bucket}") from None
        return bucket_store(bucket, secret.data)
