"""Tables: what ``kubectl get`` prints is made here, by the server.

Theory.      A Table (meta.k8s.io/v1) has column definitions and rows of cells; kubectl only aligns
             them. Ages are words, computed for ``now``. With each row goes the object's metadata,
             so that kubectl knows what it has printed.
Called by    ``http.app`` when a request accepts ``application/json;as=Table;v=v1;g=meta.k8s.io``.
Continues    in ``cells``: from a custom resource's JSON paths to cells.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kubewright.apiserver.http.tables.cells import custom_cell
from kubewright.apiserver.registry.builtin.cells import age, field
from kubewright.apiserver.registry.kind import Column, Object, ServedKind

NONE, METADATA, OBJECT = "None", "Metadata", "Object"
"""The values of the query parameter ``includeObject``; Metadata is what it means when absent."""

_NAME = Column(
    "Name", format="name", description="The name of the object: unique among its kind in its namespace.",
    cell=field("metadata.name"),
)  # fmt: skip
_AGE = Column("Age", description="How long ago the object was created.", cell=age())
_JUST_AGE = (Column("Age", "date", description=_AGE.description, json_path=".metadata.creationTimestamp"),)


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
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(list_meta or {}),
        "columnDefinitions": [_definition(column) for column in columns] if headers else None,
        "rows": [_row(columns, obj, now, include) for obj in objects],
    }


def columns_of(kind: ServedKind) -> tuple[Column, ...]:
    """All columns, with ``Name`` in front where the kind does not place it itself."""
    columns = kind.columns or (_JUST_AGE if kind.custom else (_AGE,))
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
    cells = [column.cell(obj, now) if column.cell else custom_cell(column, obj, now) for column in columns]
    row: dict[str, Any] = {"cells": cells}
    if (conditions := _conditions(obj)) is not None:
        row["conditions"] = conditions
    return row | {"object": _included(obj, include)}


def _conditions(obj: Object) -> list[dict[str, str]] | None:
    """A pod that is over is marked, so that clients may hide it."""
    status = obj.get("status")
    phase = status.get("phase") if obj.get("kind") == "Pod" and isinstance(status, dict) else None
    if phase not in ("Succeeded", "Failed"):
        return None
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def _included(obj: Object, include: str) -> Object | None:
    if include == NONE:
        return None
    if include == OBJECT:
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }
