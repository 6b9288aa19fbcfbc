"""The types of CEL that a structural schema declares, and how values of JSON become values of CEL.

Theory.      An object has the fields of its schema under names that CEL can read (``__namespace__``); a place
             whose type is not known, or whose name cannot be written, is not there. Of metadata a rule sees
             the name and ``generateName``. int-or-string is ``dyn``. How large a value can be follows from
             maxLength, maxItems and maxProperties; without them, from how many of the shortest would fit in a
             request. Most values of JSON are those of CEL. A text with a format (date, duration, byte), a
             number without a fraction, a list that is a set or a map are made into them: on the outside when
             a rule selects them (``convert``), with all that is inside when it compares them (``deep``).
Invariants.  Pure. A schema that ``structural.violations`` accepts is declared without an error.
Called by    ``rules``.
"""

import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubewright.apiserver.cel import values
from kubewright.apiserver.cel.types import (
    BOOL,
    BYTES,
    DURATION,
    INT,
    MOST_BYTES,
    RESERVED,
    TIMESTAMP,
    Convert,
    Type,
)
from kubewright.apiserver.cel.values import EvalError, MapList, SetList

OpenApi = Mapping[str, Any]
_MOST_TEXT = MOST_BYTES - 2
_KEY = Type("string", most=0, least=2)
_ANY_TEXT = {"type": "string"}
META: OpenApi = {"type": "object", "properties": {"name": _ANY_TEXT, "generateName": _ANY_TEXT}}
"""What rules see of metadata."""

_EXPAND = re.compile(r"__|[-./]|[^a-zA-Z0-9\-./_]")
_SIGNS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escaped(name: str) -> str:
    """The name of a field in CEL; empty if it has none."""
    if not name or name[0].isdigit():
        return ""
    if name in RESERVED:
        return f"__{name}__"
    odd = [part for part in _EXPAND.findall(name) if part not in _SIGNS]
    return "" if odd or not name.isascii() else _EXPAND.sub(lambda found: _SIGNS[found[0]], name)


def with_metadata(schema: OpenApi) -> OpenApi:
    """The schema of a whole API object, with what rules see of it."""
    known = {"apiVersion": _ANY_TEXT, "kind": _ANY_TEXT, "metadata": META}
    return {**schema, "properties": {**(schema.get("properties") or {}), **known}}


def declared(schema: OpenApi, *, root: bool = False, name: str = "selfType") -> Type | None:
    """The type of a place; None if rules cannot see it. ``root``: it is a whole API object."""
    if schema.get("x-kubernetes-int-or-string"):
        letters = schema.get("maxLength")
        return Type("dyn", most=_MOST_TEXT if letters is None else max(letters, 0) * 4)
    if root:
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _list(schema, name)
        case "object":
            return _object(schema, name)
        case "string":
            return _text(schema)
        case "boolean":
            return _simple(BOOL, 4)
        case "number":
            return Type("double", most=0, convert=_as_double, deep=_as_double)
        case "integer":
            return _simple(INT, 1)
    return None


def _simple(kind: Type, least: int) -> Type:
    return Type(kind.kind, kind.name, most=0, least=least)


def _inside(schema: OpenApi, name: str) -> Type | None:
    return declared(schema, root=bool(schema.get("x-kubernetes-embedded-resource")), name=name)


def _list(schema: OpenApi, name: str) -> Type | None:
    given = schema.get("items")
    items = _inside(given, f"{name}.@idx") if isinstance(given, Mapping) else None
    if items is None:
        return None
    most = schema.get("maxItems")
    bound = (MOST_BYTES - 2) // (items.least + 1) if most is None else max(most, 0)
    wrap = _wrap(schema)
    return Type(
        "list",
        params=(items,),
        most=bound,
        least=2,
        convert=_each(items.convert, wrap),
        deep=_each(items.deep, wrap),
    )


def _wrap(schema: OpenApi) -> Callable[[list[Any]], list[Any]] | None:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return SetList
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            return lambda items: MapList(items, keys)
    return None


def _each(convert: Convert | None, wrap: Callable[[list[Any]], list[Any]] | None) -> Convert | None:
    if convert is None and wrap is None:
        return None

    def each(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        items = value if convert is None else [convert(item) for item in value]
        return items if wrap is None else wrap(items)

    return each


def _object(schema: OpenApi, name: str) -> Type | None:
    given = schema.get("additionalProperties")
    if isinstance(given, Mapping):
        values_ = _inside(given, f"{name}.@elem")
        if values_ is None:
            return None
        most = schema.get("maxProperties")
        bound = (MOST_BYTES - 2) // (values_.least + 6) if most is None else max(most, 0)
        return Type(
            "map",
            params=(_KEY, values_),
            most=bound,
            least=2,
            convert=_values(values_.convert),
            deep=_values(values_.deep),
        )
    fields, least, needed = dict[str, tuple[str, Type]](), 2, set(schema.get("required") or ())
    for field, inner in (schema.get("properties") or {}).items():
        kind = _inside(inner, f"{name}.{field}")
        if kind is None:
            continue
        if read := escaped(field):
            fields[read] = (field, kind)
        if field in needed and inner.get("default") is None:
            least += len(field) + kind.least + 4
    return Type("struct", name, fields=fields, most=0, least=least, deep=_fields(fields))


def _values(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: (
        {key: convert(each) for key, each in value.items()} if isinstance(value, dict) else value
    )


def _fields(fields: Mapping[str, tuple[str, Type]]) -> Convert | None:
    """The object with those of its fields converted that need it."""
    deep = {field: kind.deep for field, kind in fields.values() if kind.deep is not None}
    if not deep:
        return None

    def all_fields(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: deep[name](each) if name in deep else each for name, each in value.items()}

    return all_fields


def _text(schema: OpenApi) -> Type:
    most, known = schema.get("maxLength"), schema.get("format")
    if isinstance(known, str) and known in _FORMATS:
        kind, least, longest, convert = _FORMATS[known]
        bound = max(most, 0) if known == "byte" and most is not None else longest
        return Type(kind.kind, kind.name, most=bound, least=least, convert=convert, deep=convert)
    if most is not None:
        return Type("string", most=max(most, 0) * 4, least=2)
    enum = schema.get("enum")
    if enum:
        return Type(
            "string",
            most=max((len(each.encode()) for each in enum if isinstance(each, str)), default=0),
            least=2,
        )
    return Type("string", most=_MOST_TEXT, least=2)


def _as_double(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _of_text(convert: Convert) -> Convert:
    return lambda value: convert(value) if isinstance(value, str) else value


def _decoded(value: str) -> bytes:
    try:
        return binascii.a2b_base64(value)
    except binascii.Error as error:
        raise EvalError(f"illegal base64 data: {error}") from None


def _plain_moment(value: str) -> Any:
    return values.to_moment(value.replace(" ", "T", 1))


_FORMATS: Mapping[str, tuple[Type, int, int, Convert]] = {
    "byte": (BYTES, 2, _MOST_TEXT, _of_text(_decoded)),
    "duration": (DURATION, 3, 32, _of_text(values.to_span)),
    "date": (TIMESTAMP, 12, 12, _of_text(values.to_date)),
    "date-time": (TIMESTAMP, 21, 32, _of_text(_plain_moment)),
}
"""Of texts: the type, the shortest and the longest JSON, and what makes the value."""


# ---------------------------------------------------------------- paths of fields


class NoPath(ValueError):
    """A ``fieldPath`` leads nowhere."""


_PART = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path(path: str, schema: OpenApi) -> str:
    """A ``fieldPath`` as messages show it, e.g. ``spec.labels[app]``.

    Raises:
        NoPath: it cannot be read, or the schema has no such field.
    """
    shown, at = "", 0
    while at < len(path):
        found = _PART.match(path, at)
        if found is None:
            raise NoPath(path)
        at = found.end()
        name = found[1] or re.sub(r"\\(.)", lambda letter: _letter(letter[1]), found[2] or "")
        fields, more = schema.get("properties"), schema.get("additionalProperties")
        if fields is not None:
            if name not in fields:
                raise NoPath(path)
            shown, schema = f"{shown}.{name}" if shown else name, fields[name]
        elif isinstance(more, Mapping):
            shown, schema = f"{shown}[{name}]", more
        else:
            raise NoPath(path)
    if not shown:
        raise NoPath(path)
    return shown


def _letter(letter: str) -> str:
    if letter not in _LETTERS:
        raise NoPath(letter)
    return _LETTERS[letter]


def names_of(schema: OpenApi) -> Iterator[tuple[str, OpenApi]]:
    """The parts of a schema: each with how its path goes on."""
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield "additionalProperties", schema["additionalProperties"]
    for name, inner in (schema.get("properties") or {}).items():
        yield f"properties[{name}]", inner
    if isinstance(schema.get("items"), Mapping):
        yield "items", schema["items"]
