"""Answers written: objects, lists and events in the form that the client takes.

Theory.      As JSON, stored bytes go out untouched: a list is its objects' bytes between commas.
             The other forms (Table, metadata only, YAML) are views made from decoded objects. A list is
             written in pieces, between which a caller may let others work: ten thousand objects in YAML take
             seconds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from kubewright.apiserver.http import tables
from kubewright.apiserver.http.bodies import YAML, YAMLS
from kubewright.apiserver.http.tables import META, metadata_of
from kubewright.apiserver.registry import codec
from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.apiserver.registry.reading import Expired, Page
from kubewright.apiserver.store import Record
from kubewright.wire import watch
from kubewright.wire.errors import ApiError, BadRequest, NotAcceptable, to_status
from kubewright.wire.goyaml import dumped
from kubewright.wire.http import JSON, Response

PLAIN, TABLE, PARTIAL = "", "Table", "PartialObjectMetadata"
_ANY = (JSON, "application/*", "*/*", "")
_SHAPES = {"Table": TABLE, "PartialObjectMetadata": PARTIAL, "PartialObjectMetadataList": PARTIAL}


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: its media type, and for JSON its shape."""

    media: str = JSON
    shape: str = PLAIN
    include: str = tables.METADATA


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
    if shape == "Table" and include not in ("", tables.METADATA, tables.OBJECT, tables.NONE):
        said = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise BadRequest(f"Unable to convert to Table as requested: includeObject: {said}")
    return include or tables.METADATA


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
        objects = [orjson.loads(codec.in_version(kind, record)) for record in records]
        return dumped(objects, in_order=True).encode() if objects else b""
    if not wanted.shape:
        return b",".join([codec.in_version(kind, record) for record in records])
    objects = [codec.decode(kind, record) for record in records]
    if wanted.shape == TABLE:
        return orjson.dumps(tables.render(kind, objects, now=now, include=wanted.include)["rows"])[1:-1]
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
        names = tables.render(kind, (), now=now, include=wanted.include, list_meta=metadata)
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
        row = {"cells": [None] * len(tables.columns_of(kind)), "object": metadata_of(obj)}
        obj = tables.table({"resourceVersion": str(version)}, None, [row])
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
    table = tables.render(kind, [obj], now=now, include=wanted.include, list_meta=meta, headers=headers)
    return orjson.dumps(table)


def _in_media(body: bytes, wanted: Form, code: int) -> Response:
    if wanted.media != YAML:
        return Response(code, body)
    return Response(code, dumped(orjson.loads(body), in_order=True).encode(), YAML)
