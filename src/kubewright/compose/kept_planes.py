"""What outlives this process of the nested control planes in it: a file, by namespace and cluster name.

Invariants.  A change is remembered once the file has it: a write that fails, or whose caller is cancelled,
             is made again by the next call. A call returns once the file has its change, with what was
             changed since. A file that is damaged is never replaced. A later writer writes all that is
             kept by then.
Called by    ``task_hosting``.
"""

import asyncio
from itertools import count
from pathlib import Path
from threading import Lock

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
        self._changes: dict[str, Kept] = {}
        """What the file is to have next."""
        self._writing = asyncio.Lock()
        self._disk = Lock()
        self._numbered = count(1)
        self._newest = 0
        """The number of the newest content that the file has."""
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

    def forget(self, key: str) -> None:
        """Keep nothing of it any more."""
        self._write({each: its for each, its in self._kept.items() if each != key})
        self._changes.pop(key, None)

    async def change(self, key: str, **changes: bool) -> None:
        """Keep what has changed of one. A thread waits for the disk; changes of many are one write."""
        after = structs.replace(self._changes.get(key, self._kept[key]), **changes)
        if after == self._kept[key] and key not in self._changes:
            return
        if self._file is None:
            self._kept = {**self._kept, key: after}
            return
        self._changes[key] = after
        async with self._writing:
            if key in self._changes:  # else a write that has ended meanwhile had it
                await self._write_changes()

    async def _write_changes(self) -> None:
        kept, number = self._kept, 0
        while kept is not self._kept or not number:  # an address was added, or one forgotten, meanwhile
            changes, kept, number = dict(self._changes), self._kept, next(self._numbered)
            content = {**kept, **{key: each for key, each in changes.items() if key in kept}}
            await asyncio.to_thread(self._put, number, content)
        self._kept = content
        for key, each in changes.items():
            if self._changes.get(key) is each:
                del self._changes[key]

    def _write(self, kept: dict[str, Kept]) -> None:
        if self._file is not None:
            self._put(next(self._numbered), kept)
            self._claims.add(FILE)
        self._kept = kept

    def _put(self, number: int, kept: dict[str, Kept]) -> None:
        """Write this content, unless the file has a newer one."""
        with self._disk:
            if self._file is not None and number > self._newest:
                write_private(self._file, msgspec.json.encode(kept) + b"\n")
                self._newest = number


def _read(file: Path | None) -> dict[str, Kept]:
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Kept])
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidInput(f"{file} is damaged: it is not what `kubewright up` wrote") from None
