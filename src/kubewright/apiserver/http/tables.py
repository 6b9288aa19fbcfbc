"""Tables: what ``kubectl get`` prints is made here, by the server.

Theory.      A Table (meta.k8s.io/v1) has column definitions and rows of cells; kubectl only aligns
             them. Ages are strings, computed for ``now``. Each row contains the object's metadata,
             so that kubectl knows which object it prints.
             The cells of built-in kinds are functions (``registry.builtin.columns``), those of custom
             resources are found by JSON paths. A value that does not fit the column's type gives an
             empty cell, never an error: validation is the schema's task.
Called by    ``http.answers`` when a request accepts ``application/json;as=Table;v=v1;g=meta.k8s.io``.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from kubewright.apiserver.registry.builtin.cells import Cell, age, field, since
from kubewright.apiserver.registry.custom.jsonpath import Path, first, parse
from kubewright.apiserver.registry.kind import Column, Object, ServedKind
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import remembered

META = "meta.k8s.io/v1"
NONE, METADATA, OBJECT = "None", "Metadata", "Object"
"""The values of the query parameter ``includeObject``; Metadata is what it means when absent."""

_NAME = Column(
    "Name", format="name", description="The name of the object: unique among its kind in its namespace.",
    cell=field("metadata.name"),
)  # fmt: skip
_AGE = Column("Age", description="How long ago the object was created.", cell=age())
_ONLY_AGE = (Column("Age", "date", description=_AGE.description, json_path=".metadata.creationTimestamp"),)


def render(
    kind: ServedKind,
    objects: Iterable[Object],
    *,
    now: datetime,
    include: str = METADATA,
    list_meta: Mapping[str, Any] | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """A Table of ``objects``.

    ``list_meta`` is the metadata of the list (resourceVersion, continue, remainingItemCount).
    ``headers`` is false for the second and later events of a watch, which repeat no columns.
    """
    columns = columns_of(kind)
    definitions = [_definition(column) for column in columns] if headers else None
    return table(list_meta or {}, definitions, [_row(columns, obj, now, include) for obj in objects])


def table(metadata: Mapping[str, Any], definitions: list[Object] | None, rows: list[Object]) -> Object:
    return {
        "kind": "Table",
        "apiVersion": META,
        "metadata": dict(metadata),
        "columnDefinitions": definitions,
        "rows": rows,
    }


def columns_of(kind: ServedKind) -> tuple[Column, ...]:
    """All columns, with ``Name`` in front where the kind does not place it itself."""
    columns = kind.columns or (_ONLY_AGE if kind.custom else (_AGE,))
    return columns if any(column.name == "Name" for column in columns) else (_NAME, *columns)


def _definition(column: Column) -> dict[str, Any]:
    path = (
        f"Custom resource definition column (in JSONPath format): {column.json_path}"
        if column.json_path
        else ""
    )
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or path or column.name,
        "priority": column.priority,
    }


def _row(columns: tuple[Column, ...], obj: Object, now: datetime, include: str) -> dict[str, Any]:
    cells = [column.cell(obj, now) if column.cell else _custom_cell(column, obj, now) for column in columns]
    row: dict[str, Any] = {"cells": cells}
    if (conditions := _conditions(obj)) is not None:
        row["conditions"] = conditions
    return row | {"object": _included(obj, include)}


def _conditions(obj: Object) -> list[dict[str, str]] | None:
    """A row of a finished Pod has the condition Completed, so that clients may hide it."""
    status = obj.get("status")
    phase = status.get("phase") if obj.get("kind") == "Pod" and isinstance(status, dict) else None
    if phase not in ("Succeeded", "Failed"):
        return None
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def _included(obj: Object, include: str) -> Object | None:
    if include == NONE:
        return None
    return obj if include == OBJECT else metadata_of(obj)


def metadata_of(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": obj.get("metadata", {})}


_NUMERIC = (int, float)


def _custom_cell(column: Column, obj: Object, now: datetime) -> Any:
    """The cell of a column that is defined by ``json_path``."""
    value = first(_path(column.json_path), obj)
    cell: Cell = _CELLS.get(column.type, _text)
    return None if value is None else cell(value, now)


_TOO_LARGE = 2**63
"""Integers from here on do not fit into a cell, as in Go."""


@remembered(1024)
def _path(text: str) -> Path:
    """The steps of a JSON path; a path that cannot be parsed gives empty cells."""
    try:
        return parse(text)
    except InvalidInput:
        return (_nothing,)


def _nothing(_value: Any) -> Iterator[Any]:
    return iter(())


def _text(value: Any, _now: datetime) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _integer(value: Any, _now: datetime) -> int | None:
    whole = isinstance(value, _NUMERIC) and not isinstance(value, bool) and abs(value) < _TOO_LARGE
    return int(value) if whole else None


def _number(value: Any, _now: datetime) -> float | None:
    return value if isinstance(value, _NUMERIC) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> str | None:
    return since(value, now) if isinstance(value, str) else None


_CELLS: Mapping[str, Cell] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
