"""Validation of a CRD version's printer columns, subresources and selectable fields."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubewright.apiserver.registry.kind import Cause
from kubewright.apiserver.schema.causes import duplicate, invalid, required

Spec = Mapping[str, Any]
Check = Callable[[Spec, str], Iterator[Cause]]

_SIMPLE = "must be a simple json path starting with ."
_TYPES = "must be one of boolean,date,integer,number,string"
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE = (
    "must point to a field of type string, boolean or integer. "
    "Enum string fields and strings with formats are allowed."
)
_PATH = re.compile(r"(\.[a-zA-Z_][a-zA-Z0-9_-]*)+")


def columns(version: Spec, place: str) -> Iterator[Cause]:
    """Printer columns: a name, a known type, a path that begins with a dot."""
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where, path, kind = f"{place}[{index}]", column.get("jsonPath") or "", column.get("type") or ""
        if not column.get("name"):
            yield required(f"{where}.name")
        if not kind:
            yield required(f"{where}.type", _TYPES)
        elif kind not in _TYPES.rpartition(" ")[2].split(","):
            yield invalid(f"{where}.type", kind, _TYPES)
        if column.get("format") and column["format"] not in _FORMATS:
            yield invalid(f"{where}.format", column["format"], f"must be one of {','.join(_FORMATS)}")
        if not path:
            yield required(f"{where}.JSONPath")
        elif not path.startswith("."):
            yield invalid(f"{where}.JSONPath", path, _SIMPLE)


def subresources(version: Spec, place: str) -> Iterator[Cause]:
    """The paths of ``scale``: simple ones, below spec or status."""
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    sides: Mapping[str, tuple[str | tuple[str, ...], str, bool]] = {
        "specReplicasPath": (".spec.", "should be a json path under .spec", True),
        "statusReplicasPath": (".status.", "should be a json path under .status", True),
        "labelSelectorPath": (
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
            False,
        ),
    }
    for field, (prefix, words, needed) in sides.items():
        path, where = scale.get(field) or "", f"{place}.scale.{field}"
        if not path:
            if needed:
                yield required(where)
        elif not path.startswith("."):
            yield invalid(where, path, _SIMPLE)
        elif not path.startswith(prefix):
            yield invalid(where, path, words)


def selectable(version: Spec, place: str) -> Iterator[Cause]:
    """Fields that selectors may ask for: existing ones, of simple types."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    seen: set[str] = set()
    for index, entry in enumerate(version.get("selectableFields") or ()):
        path, where = entry.get("jsonPath") or "", f"{place}[{index}].jsonPath"
        if not path:
            yield required(where)
        elif not _PATH.fullmatch(path):
            yield invalid(where, path, "is an invalid path: must be a simple json path starting with .")
        elif path in seen:
            yield duplicate(where, path)
        else:
            yield from _selected(schema, path, where)
        seen.add(path)


def _selected(schema: Spec, path: str, where: str) -> Iterator[Cause]:
    if path.startswith(".metadata."):
        yield invalid(where, path, "must not point to fields in metadata")
        return
    for name in path[1:].split("."):
        schema = (schema.get("properties") or {}).get(name) or {}
    if not schema:
        yield invalid(where, path, "is an invalid path: does not refer to a valid field")
    elif schema.get("type") not in ("string", "boolean", "integer"):
        yield invalid(where, path, _SELECTABLE)


VIEWS: Mapping[str, Check] = {
    "additionalPrinterColumns": columns,
    "subresources": subresources,
    "selectableFields": selectable,
}
"""The checks, by the field of a version that they look at."""
