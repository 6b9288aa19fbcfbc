"""Objects to the bytes that are stored, and back.

Theory.      Bytes are stored in the version in which they were written, and most are read in the
             same. Those that are older than the schema of their kind are read by that schema. A client
             that asks for another version, or for another shape of the same objects (events.k8s.io), gets
             them decoded and converted.
Invariants.  Stored bytes begin with ``apiVersion``, then ``kind``, so the prefix tells the version.
             Only the code that decoded an object changes it in place.
"""

from typing import Any

import orjson

from kubewright.apiserver.registry.kind import ServedKind, read_by
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record, record_of

_NEVER_STORED = "selfLink"


def encode(kind: ServedKind, obj: Object, version: int | None) -> bytes:
    """The bytes of an object at a version; None leaves the version out (dry run)."""
    return orjson.dumps(stamped(kind, obj, version))


def stored(kind: ServedKind, obj: Object, version: int) -> bytes:
    """The bytes as they are kept: the same as ``encode`` but for kinds stored as another."""
    return _exact(orjson.dumps(kind.to_stored(stamped(kind, obj, version))))


def stamped(kind: ServedKind, obj: Object, version: int | None) -> Object:
    """The object with its version, and with its fields in the order in which they are stored.

    Empty fields of metadata are left out, as every Go server leaves them out.
    """
    given = obj["metadata"].items()
    metadata = {name: each for name, each in given if (each or each == 0) and name != _NEVER_STORED}
    if version is None:
        metadata.pop("resourceVersion", None)
    else:
        metadata["resourceVersion"] = str(version)
    resource = kind.resource
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return {**head, **{name: value for name, value in obj.items() if name not in head}}


def same(kind: ServedKind, new: Object, old: Object) -> bool:
    """Whether storing ``new`` would change nothing. ``old`` is the decoded stored object.

    The comparison of Python values is fast where both share parts. But Python holds ``1`` and ``true``
    for equal, so the JSON is compared as well.
    """
    stamp = stamped(kind, new, int(old["metadata"]["resourceVersion"]))
    return stamp == old and _sorted(stamp) == _sorted(old)


def _sorted(obj: Object) -> bytes:
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)


def decode(kind: ServedKind, record: Record) -> Object:
    """The object in the version of ``kind``; a new one that the caller may change."""
    obj: Object = orjson.loads(_data(kind, record))
    if obj["apiVersion"] == kind.resource.api_version:
        return obj
    if kind.stored_as is not None:
        return kind.from_stored(obj)
    obj["apiVersion"] = kind.resource.api_version
    return read_by(kind.schema, obj)


def _data(kind: ServedKind, record: Record) -> bytes:
    return record.data if kind.older is None else kind.older.data(record)


def field_of(kind: ServedKind, name: str, record: Record) -> str:
    """The value of one field that field selectors may ask for; empty where it is missing."""
    return kind.fields(decode(kind, record)).get(name, "")


def in_version(kind: ServedKind, record: Record) -> bytes:
    """The bytes of a record in the version of ``kind``; the stored bytes where that is their version."""
    data = _data(kind, record)
    if data.startswith(b'{"apiVersion":"%b",' % kind.resource.api_version.encode()):
        return data
    return orjson.dumps(decode(kind, record))


def restamped(kind: ServedKind, record: Record, version: int) -> Record:
    """The same state under another version: the last state of an object that was deleted."""
    obj: dict[str, Any] = orjson.loads(_data(kind, record))
    obj["metadata"]["resourceVersion"] = str(version)
    return record_of(record.resource, record.key, version, _exact(orjson.dumps(obj)), obj)


def _exact(data: bytes) -> bytes:
    """A copy of exact size: bytes from orjson keep the buffer in which they were built, up to four times
    their length."""
    return bytes(memoryview(data))
