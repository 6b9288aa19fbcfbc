"""The files of the process host: the state of each workload, and the folders of its instances.

Theory.      A file is replaced as a whole, before the host acts on its content. Namespaces and clusters
             become folders by their names, which Kubernetes restricts: no part begins with a dot or has a
             slash.
Invariants.  Files have mode 0600, folders 0700, because programs contain the content of Secrets. If a file
             cannot be read the host does not start, because nothing else says which processes belong to it.
Layout       ``workloads/<namespace>/<cluster>/<component>.json``
             ``programs/<namespace>/<cluster>/<component>-<ordinal>/``
Called by    ``host``.
"""

import re
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.base.locks import FileLock, Held
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes.allowed import VOLUMES
from kubewright.controlplanes.hosting.processes.instances import (
    BALANCER,
    BALANCER_NAME,
    instance_of,
    name_of,
    program_name,
)
from kubewright.controlplanes.hosting.processes.kept import Kept
from kubewright.controlplanes.members import former_name
from kubewright.processes import record
from kubewright.processes.program import safe_name

WORKLOADS, PROGRAMS = "workloads", "programs"


LOCK = "lock"


class NotWritten(KubewrightError):
    """A file could not be written or deleted; the message says which, and why."""


def locked(folder: Path) -> FileLock:
    """Lock the folder for this program alone.

    Raises:
        InvalidInput: another program has it, or it cannot be used.
    """
    try:
        record.make_folder(folder)
        return FileLock(folder / LOCK)
    except Held as error:
        raise InvalidInput(f"{folder} is in use by process {error.pid}") from None
    except OSError as error:
        raise InvalidInput(f"cannot use {folder}: {error.strerror or error}") from None


class Store:
    """The files below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workloads = folder / WORKLOADS
        self._programs = folder / PROGRAMS

    def all(self) -> list[Kept]:
        """The state of all workloads.

        Raises:
            InvalidInput: a file is damaged or cannot be read; the message says which.
        """
        found = []
        for path in sorted(self._workloads.glob("*/*/*.json")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Kept))
            except (OSError, msgspec.DecodeError) as error:
                raise InvalidInput(f"cannot read {path}, which says what runs: {error}") from None
        return found

    def write(self, kept: Kept) -> None:
        """Write the state of a workload.

        Raises:
            NotWritten: the disk is full, or we have no right to.
        """
        path = self._file(kept.identity)
        try:
            record.make_folder(path.parent)
            record.replace_file(path, msgspec.json.encode(kept))
        except OSError as error:
            raise NotWritten(f"cannot write {self._inside(path)}: {error.strerror or error}") from None

    def forget(self, identity: WorkloadIdentity) -> None:
        """Delete the state of a workload.

        Raises:
            NotWritten: we have no right to.
        """
        path = self._file(identity)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise NotWritten(f"cannot delete {self._inside(path)}: {error.strerror or error}") from None
        _tidy(path.parent, self._workloads)

    def ordinals(self, identity: WorkloadIdentity) -> list[int]:
        """The instances of a workload, and its balancer, that have a folder."""
        named = re.compile(rf"{re.escape(identity.component)}-(\d+|{BALANCER_NAME})")
        parent = self._programs / identity.namespace / identity.cluster
        found = [each.name for each in parent.iterdir()] if parent.is_dir() else []
        return sorted(instance_of(name)[1] for name in found if named.fullmatch(name))

    def members(self, identity: WorkloadIdentity) -> int:
        """How many instances a workload had, by the folders with data that are kept of it."""
        return max((ordinal + 1 for ordinal in self.ordinals(identity)), default=0)

    def namespaces(self) -> list[str]:
        """The namespaces of which any program has a folder."""
        return [each.name for each in self._programs.iterdir()] if self._programs.is_dir() else []

    def has_plane(self, identity: WorkloadIdentity) -> bool:
        """Whether any program of this control plane has a folder."""
        return (self._programs / identity.namespace / identity.cluster).is_dir()

    def data_of(self, kept: Kept) -> frozenset[int] | None:
        """The ordinals with data of a workload of which no instance is to run; None: one is, or it goes."""
        return None if kept.latest or kept.programs or kept.removing else self.with_data(kept.identity)

    def with_data(self, identity: WorkloadIdentity) -> frozenset[int]:
        """The ordinals of a workload whose data is there."""
        folder, name = self._programs, name_of(identity)
        ordinals = [each for each in self.ordinals(identity) if each != BALANCER]
        volumes = {each: folder / program_name(name, each) / VOLUMES for each in ordinals}
        former = former_name("")
        return frozenset(
            ordinal
            for ordinal, there in volumes.items()
            if any(not path.parent.name.startswith(former) for path in there.glob("*/*"))
        )

    def delete(self, identity: WorkloadIdentity, ordinal: int, *, keep_data: bool) -> None:
        """Delete the folder of an instance, or all of it but its data.

        Raises:
            NotWritten: the disk or our rights do not let us.
        """
        folder = self._programs / program_name(name_of(identity), ordinal)
        try:
            if not keep_data:
                shutil.rmtree(folder)
            else:
                for path in [each for each in folder.iterdir() if each.name != VOLUMES]:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise NotWritten(f"cannot delete {self._inside(folder)}: {error.strerror or error}") from None
        _tidy(folder.parent, self._programs)

    def _inside(self, path: Path) -> Path:
        """A path, as users are told it: inside the data folder."""
        return path.relative_to(self._folder.parent)

    def _file(self, identity: WorkloadIdentity) -> Path:
        if not safe_name(f"{identity.namespace}/{identity.cluster}"):
            raise InvalidInput(f"{identity.namespace}/{identity.cluster} cannot be the name of a folder")
        return self._workloads / identity.namespace / identity.cluster / f"{identity.component}.json"


def _tidy(folder: Path, root: Path) -> None:
    """Remove a folder and those above it, below the root, as long as they are empty."""
    with suppress(OSError):  # it is not empty, or gone
        while folder != root:
            folder.rmdir()
            folder = folder.parent
