"""What outlives this process of the nested control planes in it: a file, by namespace and cluster name.

Invariants.  A change is remembered once the file has it: a write that fails is made again by the next call.
             A file that is damaged is never replaced.
Called by    ``task_hosting``.
"""

from pathlib import Path

import msgspec
from msgspec import structs

from kubewright.apiserver.http.pki import write_private
from kubewright.base.errors import InvalidInput
from kubewright.compose.folder import Claims

FILE = "nested.json"


class Kept(msgspec.Struct, omit_defaults=True):
    """What the file has of a control plane.

    ``data``     it has data, which is deleted with its NestedEtcd
    ``written``  there was a file of this data: if it is not there, the data is lost
    """

    address: str
    data: bool = False
    written: bool = False


class KeptPlanes:
    """The file ``nested.json`` in a folder; None: nothing outlives this process."""

    def __init__(self, folder: Path | None, claims: Claims) -> None:
        self._file, self._claims = None if folder is None else folder / FILE, claims
        self._kept = _read(self._file)
        if self._kept:
            claims.add(FILE)

    def addresses(self) -> dict[str, str]:
        """The address of each control plane."""
        return {key: each.address for key, each in self._kept.items()}

    def get(self, key: str) -> Kept | None:
        """What is kept of a control plane; None: nothing."""
        return self._kept.get(key)

    def add(self, key: str, address: str) -> None:
        """Keep the address of a new one."""
        self._write({**self._kept, key: Kept(address)})

    def change(self, key: str, **changes: bool) -> None:
        """Keep what has changed of one."""
        after = structs.replace(self._kept[key], **changes)
        if after != self._kept[key]:
            self._write({**self._kept, key: after})

    def forget(self, key: str) -> None:
        """Keep nothing of it any more."""
        self._write({each: its for each, its in self._kept.items() if each != key})

    def _write(self, kept: dict[str, Kept]) -> None:
        if self._file is not None:
            write_private(self._file, msgspec.json.encode(kept) + b"\n")
            self._claims.add(FILE)
        self._kept = kept


def _read(file: Path | None) -> dict[str, Kept]:
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Kept])
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidInput(f"{file} is damaged: it is not what `kubewright up` wrote") from None
