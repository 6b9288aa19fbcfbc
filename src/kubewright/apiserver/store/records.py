"""What is stored, and what one write changed.

Theory.      An object is stored as the bytes that go over the wire. A record has beside them only what
             lists and watches filter by, so that they do not decode objects.
Invariants.  Records and changes are immutable and share their bytes: a history of ten thousand
             changes has each state in memory once. They are not tracked by the garbage collector.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

NO_LABELS: Mapping[str, str] = {}


class Record(msgspec.Struct, frozen=True, gc=False):
    """One object as of one version.

    ``resource`` is its collection, e.g. ``machines.machine.sapcloud.io``; all versions of a kind
    share it. ``key`` is ``namespace/name``, or ``name`` for cluster-scoped kinds.
    """

    resource: str
    key: str
    version: int
    uid: str
    labels: Mapping[str, str]
    deleting: bool
    data: bytes


class Change(msgspec.Struct, frozen=True, gc=False):
    """One committed write. ``old`` is None for a creation; ``gone`` says that ``new`` is the last
    state of a deleted object, which carries the version of its deletion."""

    new: Record
    old: Record | None = None
    gone: bool = False

    @property
    def version(self) -> int:
        return self.new.version


def record_of(
    resource: str, key: str, version: int, data: bytes, obj: Mapping[str, Any] | None = None
) -> Record:
    """A record from its bytes; ``obj`` is what they decode to, when the caller has it already."""
    metadata = (orjson.loads(data) if obj is None else obj)["metadata"]
    labels = metadata.get("labels") or NO_LABELS
    return Record(
        resource, key, version, metadata.get("uid", ""), labels, "deletionTimestamp" in metadata, data
    )
