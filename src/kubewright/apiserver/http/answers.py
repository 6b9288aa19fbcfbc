"""Answers written: objects, lists, Tables and events in the form that the client takes.

Theory.      As JSON, stored bytes go out untouched: a list is its objects' bytes between commas.
             The other forms (Table, metadata only, YAML) are views made from decoded objects. A list is
             written in pieces, between which a caller may let others work: ten thousand objects in YAML take
             seconds.
             A Table (meta.k8s.io/v1) has column definitions and rows of cells; kubectl only aligns
             them. Ages are strings, computed for ``now``. Each row contains the object's metadata,
             so that kubectl knows which object it prints.
             The cells of built-in kinds are functions (``registry.builtin.columns``), those of custom
             resources are found by JSON paths. A value that does not fit the column's type gives an
             empty cell, never an error: validation is the schema's task.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from kubewright.apiserver.http.requests import YAML, YAMLS
from kubewright.apiserver.registry.builtin.cells import Cell, age, field, since
from kubewright.apiserver.registry.custom import Path, first, parse
from kubewright.apiserver.registry.kind import Column, ServedKind
from kubewright.apiserver.registry.reading import Expired, Page
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import remembered
from kubewright.wire import watch
from kubewright.wire.errors import ApiError, BadRequest, NotAcceptable, to_status
from kubewright.wire.goyaml import dumped
from kubewright.wire.http import JSON, Response

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
    return row | {"object": _included_object(obj, include)}


def _conditions(obj: Object) -> list[dict[str, str]] | None:
    """A row of a finished Pod has the condition Completed, so that clients may hide it."""
    status = obj.get("status")
    phase = status.get("phase") if obj.get("kind") == "Pod" and isinstance(status, dict) else None
    if phase not in ("Succeeded", "Failed"):
        return None
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def _included_object(obj: Object, include: str) -> Object | None:
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


PLAIN, TABLE, PARTIAL = "", "Table", "PartialObjectMetadata"
_ANY = (JSON, "application/*", "*/*", "")
_SHAPES = {"Table": TABLE, "PartialObjectMetadata": PARTIAL, "PartialObjectMetadataList": PARTIAL}


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: its media type, and for JSON its shape."""

    media: str = JSON
    shape: str = PLAIN
    include: str = METADATA


def form(accept: str, include: str = "") -> Form:
    """The media type of an Accept header that the server supports and the client prefers, or names first.

    Raises:
        NotAcceptable: it supports none of them.
    """
    if not accept or accept in (JSON, "*/*"):
        return Form()
    shape_known = True
    for media, given in _choices(accept):
        if media in YAMLS:
            return Form(YAML)
        if media not in _ANY or given.get("g", "meta.k8s.io") != "meta.k8s.io":
            continue
        if "as" not in given:
            return Form()
        if given["as"] in _SHAPES and given.get("v", "v1") == "v1":
            return Form(JSON, _SHAPES[given["as"]], _included(given["as"], include))
        shape_known = False
    if not shape_known:
        raise NotAcceptable(
            f"only the following media types are accepted: {JSON}, {YAML}, {JSON};stream=watch"
        )
    raise NotAcceptable(
        f"406: Not Acceptable\n\nAvailable representations: {JSON}, {YAML}, {JSON};stream=watch"
    )


def _choices(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, those with the greatest ``q`` first."""
    found = []
    for choice in accept.split(","):
        media, *words = (word.strip() for word in choice.split(";"))
        found.append((media, dict(word.partition("=")[::2] for word in words)))
    return sorted(found, key=lambda choice: -_quality(choice[1].get("q", "1")))


def _quality(text: str) -> float:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?", text) else 1.0


def _included(shape: str, include: str) -> str:
    if shape == "Table" and include not in ("", METADATA, OBJECT, NONE):
        said = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise BadRequest(f"Unable to convert to Table as requested: includeObject: {said}")
    return include or METADATA


def one(kind: ServedKind, data: bytes, wanted: Form, now: datetime, *, code: int = 200) -> Response:
    """One object."""
    if wanted == Form():
        return Response(code, data)
    if wanted.shape:
        data = _shaped(kind, data, wanted, now)
    return _in_media(data, wanted, code)


PIECES: Mapping[str, tuple[int, int]] = {
    "": (5_000, 4 * 1024 * 1024),
    TABLE: (500, 1024 * 1024),
    PARTIAL: (500, 1024 * 1024),
    YAML: (500, 32 * 1024),
}
"""How many objects of a list are written in one go, and how many bytes: what takes some ten milliseconds."""


def pieces(found: Page, wanted: Form) -> list[tuple[Record, ...]]:
    """The objects of a list in parts, of which each is written without a pause."""
    most, most_bytes = PIECES[YAML if wanted.media == YAML else wanted.shape]
    parts, first, size = list[tuple[Record, ...]](), 0, 0
    for at, record in enumerate(found.records):
        if at > first and (at - first >= most or size + len(record.data) > most_bytes):
            parts.append(found.records[first:at])
            first, size = at, 0
        size += len(record.data)
    return [*parts, found.records[first:]]


def page(kind: ServedKind, found: Page, wanted: Form, now: datetime) -> Response:
    """A list, or a page of one."""
    return joined(
        kind, found, [piece(kind, part, wanted, now) for part in pieces(found, wanted)], wanted, now
    )


def piece(kind: ServedKind, records: Sequence[Record], wanted: Form, now: datetime) -> bytes:
    """Some objects as they stand in the list."""
    if wanted.media == YAML:
        objects = [orjson.loads(kind.in_version(record)) for record in records]
        return dumped(objects, in_order=True).encode() if objects else b""
    if not wanted.shape:
        return b",".join([kind.in_version(record) for record in records])
    objects = [kind.decode(record) for record in records]
    if wanted.shape == TABLE:
        return orjson.dumps(render(kind, objects, now=now, include=wanted.include)["rows"])[1:-1]
    return orjson.dumps([metadata_of(obj) for obj in objects])[1:-1]


def joined(kind: ServedKind, found: Page, written: Sequence[bytes], wanted: Form, now: datetime) -> Response:
    """The list of these pieces."""
    metadata: dict[str, Any] = {"resourceVersion": str(found.version)}
    if found.continue_token:
        metadata["continue"] = found.continue_token
    if found.remaining is not None:
        metadata["remainingItemCount"] = found.remaining
    if wanted.media == YAML:
        version, rest = (
            {"apiVersion": kind.resource.api_version},
            {"kind": kind.list_kind, "metadata": metadata},
        )
        items = b"items:\n" + b"".join(written) if found.records else b"items: []\n"
        head, end = (dumped(each, in_order=True).encode() for each in (version, rest))
        return Response(200, head + items + end, YAML)
    what = b"items"
    names: dict[str, Any] = {"kind": kind.list_kind, "apiVersion": kind.resource.api_version}
    if wanted.shape == TABLE:
        names = render(kind, (), now=now, include=wanted.include, list_meta=metadata)
        what, metadata = b"rows", names["metadata"]
        del names["rows"]
    elif wanted.shape == PARTIAL:
        names = {"kind": "PartialObjectMetadataList", "apiVersion": META}
    start = orjson.dumps({**names, "metadata": metadata})[:-1]
    return Response(200, b'%b,"%b":[%b]}' % (start, what, b",".join(written)))


def event(kind: ServedKind, type_: str, data: bytes, wanted: Form, now: datetime, *, first: bool) -> bytes:
    """One line of a watch. ``first`` says that a Table must name its columns."""
    return watch.encode(type_, _shaped(kind, data, wanted, now, headers=first))


def bookmark(kind: ServedKind, version: int, *, ends_initial: bool, wanted: Form) -> bytes:
    """A BOOKMARK line with the version that the watch has reached."""
    marks = {"annotations": {watch.INITIAL_EVENTS_END: "true"}} if ends_initial else {}
    obj: Object = {
        "kind": kind.resource.kind,
        "apiVersion": kind.resource.api_version,
        "metadata": {"resourceVersion": str(version), **marks},
    }
    if wanted.shape == PARTIAL:
        obj = metadata_of(obj)
    elif wanted.shape == TABLE:
        row = {"cells": [None] * len(columns_of(kind)), "object": metadata_of(obj)}
        obj = table({"resourceVersion": str(version)}, None, [row])
    return watch.encode(watch.BOOKMARK, orjson.dumps(obj))


def plain(value: Mapping[str, Any], wanted: Form, *, code: int = 200) -> Response:
    """A value that is not a stored object: a review, a scale, a Status of success."""
    return _in_media(orjson.dumps(value), wanted, code)


MOST_WARNED, MOST_CUT = 4 * 1024, 256


def with_warnings(answer: Response, warnings: Sequence[str]) -> Response:
    """The answer with a Warning header. All warnings are in one header line, separated by commas.

    Beyond ``MOST_WARNED`` characters each is cut short, and what then still is too much is left out, as
    kube-apiserver does: clients bound a header.
    """
    if not warnings:
        return answer
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > MOST_WARNED:
        texts = [text[:MOST_CUT] for text in texts][: MOST_WARNED // MOST_CUT]
    lines = [f"299 - {orjson.dumps(text).decode()}" for text in texts]
    return replace(answer, headers={**answer.headers, "warning": ", ".join(lines)})


def also_warned(answer: Response, text: str) -> Response:
    """The answer with one more warning, before the others."""
    first = f"299 - {orjson.dumps(text).decode()}"
    others = answer.headers.get("warning")
    return replace(answer, headers={**answer.headers, "warning": f"{first}, {others}" if others else first})


def failure(error: ApiError) -> Response:
    """The Status of an error, with the headers that go with it."""
    status = to_status(error)
    if isinstance(error, Expired):
        status["metadata"] = {"continue": error.continue_token}
    headers = {} if error.retry_after is None else {"retry-after": str(max(1, round(error.retry_after)))}
    return Response(error.code, orjson.dumps(status), headers=headers)


def _shaped(kind: ServedKind, data: bytes, wanted: Form, now: datetime, *, headers: bool = True) -> bytes:
    """One object as a Table, or as its metadata."""
    obj: Object = orjson.loads(data)
    if wanted.shape != TABLE:
        return orjson.dumps(metadata_of(obj))
    meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    table = render(kind, [obj], now=now, include=wanted.include, list_meta=meta, headers=headers)
    return orjson.dumps(table)


def _in_media(body: bytes, wanted: Form, code: int) -> Response:
    if wanted.media != YAML:
        return Response(code, body)
    return Response(code, dumped(orjson.loads(body), in_order=True).encode(), YAML)
