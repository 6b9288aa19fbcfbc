"""Merge patches from before and after: a write contains what was changed and nothing else.

Theory.      Third parties own fields of the same objects, so we never send a whole object back
             (design decision D3). A reconciler changes a copy of what it read; the difference is
             the patch, and what our types do not know is never touched.
Invariants.  ``wire.patch.apply_merge(before, merge_patch(before, after))`` is ``after``, for JSON
             values without nulls. Equal inputs give ``{}``, which is never sent. A merge patch
             cannot say ``null``, so a member that ``after`` has as null or not at all is removed.
             Lists are replaced whole (RFC 7386).
Called by    every ``act`` that patches; ``Client.patch`` sends the result.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import FieldInfo, fields

from kubewright.api.meta import Object, ObjectMeta

Patch = dict[str, Any]


Patched = Struct | Object | Mapping[str, Any]


def merge_patch(before: Patched, after: Patched) -> Patch:
    """The RFC 7386 patch that turns ``before`` into ``after``; ``{}`` when nothing differs.

    Two Structs of one type are compared field by field. A field that went back to a plain default
    (``False``, ``0``, ``""``) is sent as that value and not as null: the server's default may differ.
    """
    if isinstance(before, Struct) and type(before) is type(after):
        return _between_structs(before, after)
    return _between_maps(_plain(before), _plain(after))


def exactly(meta: ObjectMeta) -> Patch:
    """The metadata of a patch that applies only to the very object, in the very version, that was read.

    The server answers ``Conflict`` when it has changed: a decision that rests on what was read is not
    written over anything else, however late the request arrives.
    """
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}


def with_version(patch: Mapping[str, Any], resource_version: str) -> Patch:
    """The patch with the condition that the object is still the one that was read.

    The server answers ``Conflict`` when it is not. An empty patch stays empty.
    """
    return _with_metadata(patch, "resourceVersion", resource_version)


def with_uid(patch: Mapping[str, Any], uid: str) -> Patch:
    """The patch with the condition that the name still belongs to this very object.

    The server answers ``Invalid`` (of ``metadata.uid``) when it does not.
    """
    return _with_metadata(patch, "uid", uid)


def guarded(body: Any) -> bool:
    """Whether a patch carries a condition on version or uid, so that sending it twice does no harm."""
    if isinstance(body, Mapping):
        metadata = body.get("metadata")
        return isinstance(metadata, Mapping) and any(
            metadata.get(name) for name in ("resourceVersion", "uid")
        )
    tested = ("/metadata/resourceVersion", "/metadata/uid")
    return any(step.get("op") == "test" and step.get("path") in tested for step in body)


def _with_metadata(patch: Mapping[str, Any], name: str, value: str) -> Patch:
    if not patch:
        return {}
    return {**patch, "metadata": {**patch.get("metadata", {}), name: value}}


def _between_structs(before: Any, after: Any) -> Patch:
    patch: Patch = {}
    kind: type[Struct] = type(before)
    for name, wire_name, empty in _fields(kind):
        old, new = getattr(before, name), getattr(after, name)
        if old is new or old == new:
            continue
        if isinstance(old, Struct) and type(old) is type(new):
            if inner := _between_structs(old, new):
                patch[wire_name] = inner
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := _between_maps(_plain(old), _plain(new)):
                patch[wire_name] = inner
        else:
            patch[wire_name] = None if _absent(new, empty) else _plain(new)
    return patch


def _absent(value: Any, empty: Any) -> bool:
    """Whether a field's value is written by leaving the field out."""
    if value is None or value is UNSET:
        return True
    return isinstance(value, (list, tuple, Mapping)) and not value and value == empty


def _between_maps(before: Mapping[str, Any], after: Mapping[str, Any]) -> Patch:
    patch: Patch = {key: None for key, old in before.items() if old is not None and after.get(key) is None}
    for key, new in after.items():
        old = before.get(key)
        if new is None or (old == new and type(old) is type(new)):
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := _between_maps(old, new):
                patch[key] = inner
        else:
            patch[key] = new
    return patch


def _plain(value: Any) -> Any:
    """As JSON says it: lists for tuples, texts for times."""
    return msgspec.json.decode(msgspec.json.encode(value))


@lru_cache(maxsize=1024)
def _fields(kind: type[Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Name, wire name and default of each field."""
    return tuple((item.name, item.encode_name, _default(item)) for item in fields(kind))


def _default(item: FieldInfo) -> Any:
    if item.default is not NODEFAULT:
        return item.default
    return item.default_factory() if item.default_factory is not NODEFAULT else None
