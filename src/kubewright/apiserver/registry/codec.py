"""Objects to the bytes that are stored, and back.

Invariants.  Stored bytes begin with ``apiVersion`` and ``kind``, in this order, so a version is
             told from a prefix. Nobody changes a decoded object in place unless he decoded it.
"""

from typing import Any

import orjson

from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.apiserver.store.records import Record, record_of

_NEVER_STORED = ("managedFields", "selfLink")


def encode(kind: ServedKind, obj: Object, version: int | None) -> bytes:
    """The bytes of an object in the given version; None leaves the version out (dry run).

    Empty fields of metadata are left out, as every Go server leaves them out.
    """
    given = obj["metadata"].items()
    metadata = {name: each for name, each in given if (each or each == 0) and name not in _NEVER_STORED}
    if version is None:
        metadata.pop("resourceVersion", None)
    else:
        metadata["resourceVersion"] = str(version)
    resource = kind.resource
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    rest = {name: value for name, value in obj.items() if name not in head}
    return orjson.dumps(head | rest)


def decode(kind: ServedKind, record: Record) -> Object:
    """The object in the version that ``kind`` is; a fresh one that the caller may change."""
    obj: Object = orjson.loads(record.data)
    if obj["apiVersion"] != kind.resource.api_version:
        obj["apiVersion"] = kind.resource.api_version
        obj = kind.schema.default(kind.schema.prune(obj))
    return obj


def in_version(kind: ServedKind, record: Record) -> bytes:
    """The bytes of a record in the version that ``kind`` is; untouched when it is stored so."""
    if record.data.startswith(b'{"apiVersion":"%b",' % kind.resource.api_version.encode()):
        return record.data
    return orjson.dumps(decode(kind, record))


def restamped(record: Record, version: int) -> Record:
    """The same state under another version: the last word on an object that left."""
    obj: dict[str, Any] = orjson.loads(record.data)
    obj["metadata"]["resourceVersion"] = str(version)
    return record_of(record.resource, record.key, version, orjson.dumps(obj), obj)
