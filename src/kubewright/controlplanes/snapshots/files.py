"""A snapshot as a file: its hash, and what is verified before it replaces any data.

Theory.      The SHA-256 of the whole file is in the status of the object, which a store cannot change. What
             etcd streams also ends with a hash of its own, so a stream that was cut short is recognized at
             once.
Invariants.  Files are read in blocks: a snapshot may be larger than our memory.
Called by    ``act``; ``taking`` has its values; stores raise ``StoreFailed``.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import KubewrightError

BLOCK = 1024 * 1024
SCRATCH = "kubewright-"
"""The prefix of temporary folders, for a file on its way to or from a store."""
ETCD, EMBEDDED = "etcd", "embedded"
"""The formats of snapshots: the data of an etcd, or of our own API server."""
SQLITE = b"SQLite format 3\0"
"""How a data file of our own API server begins."""


class StoreFailed(KubewrightError):
    """A call of a store failed; the message says why."""


class NotKept(StoreFailed):
    """A store has no file of this name, or none that its credentials let us read; the message says which."""


class Damaged(KubewrightError):
    """A file is incomplete or has changed; the message says how."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What is known of a file just taken: format, version of the etcd, size in bytes, hash, and member."""

    format: str
    version: str
    size: int
    sha256: str
    member: str = ""


def described(path: Path, form: str, version: str, member: str = "") -> Taken:
    """Describe a new file by its size and hash, and by the format, version and member that the caller knows.

    Raises:
        Damaged: it is that of an etcd, and incomplete.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if form == ETCD and not _ends_with_its_hash(path, size):
        raise Damaged(f"etcd has sent {size} bytes, and the hash at their end is not theirs")
    return Taken(form, version, size, _hash(path, size), member)


def verify(path: Path, sha256: str) -> str:
    """Check that a file has this hash; or, if none is known, the one at its own end. Returns its format.

    Raises:
        Damaged: it has another, or none.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if sha256 and (found := _hash(path, size)) != sha256:
        raise Damaged(f"the file has SHA-256 {found}, and the snapshot was taken with {sha256}")
    form = format_of(path)
    if not sha256 and form == EMBEDDED:
        raise Damaged("the file is of format embedded, which has no hash of its own: set spec.file.sha256")
    if not sha256 and not _ends_with_its_hash(path, size):
        raise Damaged(f"the file has {size} bytes, and does not end with their hash, as what etcd sends does")
    return form


def format_of(path: Path) -> str:
    """The format of a file, by how it begins.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return EMBEDDED if file.read(len(SQLITE)) == SQLITE else ETCD


def _ends_with_its_hash(path: Path, size: int) -> bool:
    """Whether the last 32 bytes are the SHA-256 of all bytes before them, as in what etcd has streamed."""
    length = hashlib.sha256().digest_size
    with open(path, "rb") as file:
        file.seek(max(0, size - length))
        told = file.read().hex()
    return size > length and _hash(path, size - length) == told


def _hash(path: Path, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes of a file."""
    digest, left = hashlib.sha256(), size
    with open(path, "rb") as file:
        while left and (block := file.read(min(BLOCK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()
