"""From a validator's error to a cause with kube-apiserver's message.

Theory.      Users, and some programs, read ``spec.replicas: Invalid value: "string": spec.replicas
             in body must be of type integer: "string"``. One function per kind of error writes the
             message; the path has Kubernetes' form: ``spec.a[0].b``.
Called by    ``compiled.Compiled.validate``; ``structure`` and the rules in ``registry`` use the functions
             for single sentences.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

from kubewright.apiserver.schema.formats import PREFIX


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why an object is refused, as it stands in ``Status.details.causes``.

    ``reason`` is one of ``FieldValueRequired``, ``FieldValueInvalid``, ``FieldValueTypeInvalid``,
    ``FieldValueNotSupported``, ``FieldValueForbidden``, ``FieldValueDuplicate``, ``FieldValueTooLong``.
    ``field`` is a path such as ``spec.template.spec.class.name``; ``message`` is what follows
    ``<field>: `` in kube-apiserver's message, e.g. ``Required value: name is required``.
    """

    reason: str
    field: str
    message: str


MOST_CAUSES, MOST_CAUSES_CHARS = 100, 256 * 1024
"""Of one refusal: who mends a hundred fields sends the object again, and learns of the next."""


MOST_COUNTED = 1_000
"""Of the errors that are not told: the server stops looking for more."""


TOO_MANY = "TooManyCauses"
"""The reason of the cause that stands for those which are not told."""


def bounded(causes: Iterable[Cause], rest: Iterator[object] | None = None) -> list[Cause]:
    """The first causes, and one that says how many more there are. ``rest`` is what ``causes`` are made of,
    where counting that is cheaper than making them."""
    kept, chars = list[Cause](), 0
    left = iter(causes)
    for cause in left:
        kept.append(cause)
        chars += len(cause.field) + len(cause.message)
        if len(kept) == MOST_CAUSES or chars > MOST_CAUSES_CHARS:
            break
    more = sum(1 for _ in islice(left if rest is None else rest, MOST_COUNTED + 1))
    shown = str(more) if more <= MOST_COUNTED else f"more than {MOST_COUNTED}"
    return [*kept, Cause(TOO_MANY, "<nil>", f"and {shown} more errors")] if more else kept


def some(causes: Iterable[Cause]) -> list[Cause]:
    """As many causes as ``bounded`` looks at: what is not asked for is not made."""
    return list(islice(causes, MOST_CAUSES + MOST_COUNTED + 1))


Kind = Any
"""One of jsonschema_rs.ValidationErrorKind's classes: they share no base that types could name."""
Words = Callable[[str, Any, Kind], Cause]


def field_path(parts: Iterable[str | int]) -> str:
    """``["spec", "a", 0, "b"]`` to ``spec.a[0].b``."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path if len(path) <= MOST_QUOTED else f"{path[:MOST_QUOTED]}..."


_JSON_TYPES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}


def json_type(value: Any) -> str:
    """The name that OpenAPI has for the type of a value."""
    return _JSON_TYPES.get(type(value), "object")


MOST_QUOTED = 1024
"""Characters of a value that a message shows: the rest of three megabytes helps nobody."""


def quoted(value: Any) -> str:
    """A value as it stands in a message: JSON, cut where it is long."""
    return cut(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())


def cut(text: str) -> str:
    """The part of a text that a message shows."""
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}..."


def invalid(path: str, value: Any, words: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {quoted(value)}: {words}")


def forbidden(path: str, words: str) -> Cause:
    return Cause("FieldValueForbidden", path, f"Forbidden: {words}")


def required(path: str, words: str = "") -> Cause:
    return Cause("FieldValueRequired", path, f"Required value: {words}" if words else "Required value")


def duplicate(path: str, value: Any, words: str = "") -> Cause:
    said = f"Duplicate value: {quoted(value)}"
    return Cause("FieldValueDuplicate", path, f"{said}: {words}" if words else said)


def unsupported(path: str, value: Any, supported: Iterable[Any]) -> Cause:
    known = ", ".join(quoted(each) for each in supported)
    words = f"Unsupported value: {quoted(value)}: supported values: {known}"
    return Cause("FieldValueNotSupported", path, words)


def _invalid(path: str, shown: str, words: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {shown}: {path} in body {words}")


def _typed(path: str, shown: str, wanted: str) -> Cause:
    words = f"Invalid value: {shown}: {path} in body must be of type {wanted}: {shown}"
    return Cause("FieldValueTypeInvalid", path, words)


def _type(path: str, value: Any, kind: Kind) -> Cause:
    wanted = [name for name in kind.types if name != "null"]
    return _typed(path, f'"{json_type(value)}"', ",".join(wanted))


def _required(path: str, _value: Any, kind: Kind) -> Cause:
    return required(f"{path}.{kind.property}" if path else kind.property)


def _enum(path: str, value: Any, kind: Kind) -> Cause:
    return unsupported(
        path, value, (each if isinstance(each, str) else quoted(each) for each in kind.options)
    )


def _format(path: str, value: Any, kind: Kind) -> Cause:
    return _typed(path, quoted(value), kind.format.removeprefix(PREFIX))


def _too_long(path: str, _value: Any, kind: Kind) -> Cause:
    return Cause("FieldValueTooLong", path, f"Too long: may not be more than {kind.limit} bytes")


def _too_many(path: str, value: Any, kind: Kind) -> Cause:
    words = f"Too many: {len(value)}: must have at most {kind.limit} items"
    return Cause("FieldValueTooMany", path, words)


def _count(words: str) -> Words:
    return lambda path, value, kind: _invalid(path, str(len(value)), words.format(kind.limit))


def _bound(words: str) -> Words:
    return lambda path, value, kind: _invalid(path, quoted(value), words.format(kind.limit))


def _whole(words: str) -> Words:
    """Rules about a whole subtree name no field. ``{}`` in ``words``: how many alternatives are valid."""
    return lambda path, _value, kind: Cause(
        "FieldValueInvalid", "<nil>", f'Invalid value: "": "{path}" {words.format(_found(kind))}'
    )


def _found(kind: Kind) -> str:
    valid = sum(not errors for errors in getattr(kind, "context", ()))
    return f"Found {valid} valid alternatives" if valid else "Found none valid"


WORDS: Mapping[str, Words] = {
    "type": _type,
    "required": _required,
    "enum": _enum,
    "format": _format,
    "maxLength": _too_long,
    "maxItems": _too_many,
    "minLength": _bound("should be at least {} chars long"),
    "minItems": _count("should have at least {} items"),
    "minProperties": _count("should have at least {} properties"),
    "maxProperties": _too_many,
    "minimum": _bound("should be greater than or equal to {}"),
    "maximum": _bound("should be less than or equal to {}"),
    "exclusiveMinimum": _bound("should be greater than {}"),
    "exclusiveMaximum": _bound("should be less than {}"),
    "multipleOf": lambda path, value, kind: _invalid(
        path, quoted(value), f"should be a multiple of {kind.multiple_of}"
    ),
    "anyOf": _whole("must validate at least one schema (anyOf)"),
    "oneOf": _whole("must validate one and only one schema (oneOf). {}"),
    "not": _whole("must not validate the schema (not)"),
}


def _empty(path: str, _value: Any, _kind: Kind) -> Cause:
    return required(path)


EMPTY_IS_ABSENT: Mapping[str, Words] = {**WORDS, "minLength": _empty, "minItems": _empty}
"""For kinds whose schemas have no other bounds of this kind."""


def causes(
    errors: Iterable[jsonschema_rs.ValidationError],
    source: Mapping[str, Any] | None = None,
    said: Mapping[str, Words] = WORDS,
) -> Iterator[Cause]:
    """A cause for each error, in the validator's order; unknown fields are not errors here.

    Where no alternative is valid, the causes of the first one follow. ``source`` is the schema as its author
    wrote it, which the causes quote; ``said``: the words for each kind of error.
    """
    for error in errors:
        name = error.kind.name
        if name == "additionalProperties":
            continue
        path = field_path(error.instance_path)
        alternatives = getattr(error.kind, "context", ())
        if name == "pattern":
            yield _invalid(path, quoted(error.instance), f"should match '{_pattern(source, error)}'")
        elif (words := said.get(name)) is not None:
            yield words(path, error.instance, error.kind)
        else:
            yield invalid(path, error.instance, error.message)
        if alternatives and all(alternatives):
            yield from causes(alternatives[0], source, said)


def _pattern(source: Any, error: jsonschema_rs.ValidationError) -> str:
    """The pattern as it stands in the schema; the validator's has another syntax."""
    for part in error.schema_path:
        known = (isinstance(source, Mapping) and part in source) or isinstance(source, list)
        source = source[part] if known else None
    return source if isinstance(source, str) else str(getattr(error.kind, "pattern", ""))
