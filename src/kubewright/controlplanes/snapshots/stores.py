"""Where files of snapshots are kept: a folder of this program.

Theory.      A file is written under another name and renamed, so under its own name it is complete. Its name
             follows from the object, so a snapshot that is taken again takes the place of what an earlier,
             unfinished call has left.
Invariants.  No path leaves the folder of the program. Files have mode 0600: they hold every Secret of a
             control plane.
Called by    ``taking`` and ``restoring``.
"""

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from kubewright.api.controlplane.v1alpha4 import SnapshotLocation
from kubewright.base.errors import InvalidInput, KubewrightError

NO_FOLDER = "this program has no folder for snapshots: name a bucket in spec.location"


class StoreFailed(KubewrightError):
    """A store could not do it this time; the message says why."""


class Store(Protocol):
    """One place for files. All methods raise ``StoreFailed`` or ``InvalidInput``, and can be repeated."""

    async def put(self, name: str, source: Path) -> None:
        """Keep a copy of this file."""
        ...

    async def fetch(self, name: str, target: Path) -> None:
        """Copy a file that is kept here."""
        ...

    async def delete(self, name: str) -> None:
        """Let a file go, if it is here."""
        ...


class FolderStore:
    """A folder, which is made when something is put into it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, name: str, source: Path) -> None:
        """As ``Store.put``."""
        await _tried(self._put, self._folder / name, source)

    async def fetch(self, name: str, target: Path) -> None:
        """As ``Store.fetch``."""
        await _tried(shutil.copyfile, self._folder / name, target)

    async def delete(self, name: str) -> None:
        """As ``Store.delete``; folders that it leaves empty go too."""
        await _tried(self._delete, self._folder / name)

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


def store_of(location: SnapshotLocation, folder: Path | None) -> Store:
    """The store that a spec names; ``folder`` is that of this program.

    Raises:
        InvalidInput: this program has no such store; the message says what would help.
    """
    if location.bucket is not None:
        raise InvalidInput("spec.location.bucket: this program cannot reach buckets")
    if folder is None:
        raise InvalidInput(NO_FOLDER)
    return FolderStore(folder / location.folder)


async def _tried(what: object, *arguments: object) -> None:
    try:
        await asyncio.to_thread(what, *arguments)  # type: ignore[arg-type]
    except OSError as error:
        raise StoreFailed(
            f"{error.filename or 'the folder of snapshots'}: {error.strerror or error}"
        ) from None
