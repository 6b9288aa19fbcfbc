"""A snapshot as a file: its hash, and what must be true of it before it takes the place of any data.

Theory.      The SHA-256 of the whole file is in the status of the object, which a store cannot change. What
             etcd streams ends with a hash of its own besides, so a stream that was cut short is seen at once.
Invariants.  Files are read in blocks: a snapshot may be larger than our memory.
Called by    ``taking`` and ``restoring``.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import KubewrightError

BLOCK = 1024 * 1024
SCRATCH = "kubewright-"
"""What the folders begin with in which a file is for a moment, on its way to or from a store."""
ETCD, EMBEDDED = "etcd", "embedded"
"""What a snapshot is a copy of."""


class Damaged(KubewrightError):
    """A file is not what it should be; the message says in what."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that was taken: of what, of which version of it, how large, and its hash."""

    format: str
    version: str
    size: int
    sha256: str


def described(path: Path, form: str, version: str) -> Taken:
    """What there is to say of a new file.

    Raises:
        Damaged: it is of an etcd, and incomplete.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if form == ETCD:
        _check_etcd(path, size)
    return Taken(form, version, size, _hash(path, size))


def verify(path: Path, sha256: str) -> None:
    """Refuse a file with another hash.

    Raises:
        Damaged: it has one.
        OSError: it cannot be read.
    """
    found = _hash(path, path.stat().st_size)
    if found != sha256:
        raise Damaged(f"the file has SHA-256 {found}, and the snapshot was taken with {sha256}")


def _check_etcd(path: Path, size: int) -> None:
    """The last bytes of what etcd streams are the hash of those before."""
    length = hashlib.sha256().digest_size
    with open(path, "rb") as file:
        file.seek(max(0, size - length))
        told = file.read().hex()
    if size <= length or _hash(path, size - length) != told:
        raise Damaged(f"etcd has sent {size} bytes, and the hash at their end is not theirs")


def _hash(path: Path, size: int) -> str:
    """The SHA-256 of the first bytes of a file."""
    digest, left = hashlib.sha256(), size
    with open(path, "rb") as file:
        while left and (block := file.read(min(BLOCK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()
