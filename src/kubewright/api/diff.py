"""The difference of two values as a merge patch: what was changed and nothing else.

Theory.      A controller changes a copy of what it read, admission a copy of what was sent; the difference
             is what is written. What our types do not know is in neither, so it is never touched.
Invariants.  ``wire.patch.apply_merge(before, merge_patch(before, after))`` is ``after``, for JSON
             values without nulls. Equal inputs give ``{}``, which is never sent. A merge patch
             cannot say ``null``, so a member that ``after`` has as null or not at all is removed.
             Lists are replaced whole (RFC 7386).
Called by    every ``act`` that patches (with the conditions of ``kube.patches``), and ``api.admission``.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import FieldInfo, fields

from kubewright.api.meta import Object

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
