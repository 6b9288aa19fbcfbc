"""The errors of a large object, one after another, so that who needs a hundred does not pay for a million.

Theory.      The validator's library makes all errors before it returns the first: 300,000 ports without a
             number take half a minute, in which the loop answers nobody. So a large value is taken apart as
             its schema says: first what is required of itself, then its fields and items, a few hundred at a
             time. Each part that is small goes to the library as a whole, when its errors are asked for.
Invariants.  All errors come, each once, with the paths that the library would give them; their order is that
             of the schema's fields. What stands below an ``anyOf``, ``oneOf`` or ``not`` is one part.
Called by    ``compiled``, for ``builtin`` and ``structural``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema_rs import Draft4Validator, ValidationError

Json = Mapping[str, Any]
Path = tuple[str | int, ...]

SMALL = 2_000
"""Values in a part that the library gets as a whole: its errors take some forty milliseconds at most."""
AT_ONCE = 200
"""Items of a list, or entries of a map, that are one part."""

_BELOW = ("properties", "additionalProperties", "items", "allOf")
"""What a schema says of the parts of a value, and not of itself."""


def is_large(value: Any) -> bool:
    """Whether a value has more than ``SMALL`` values in it."""
    todo, count = [value], 0
    while todo and count <= SMALL:
        inner = todo.pop()
        if isinstance(inner, dict | list):
            count += len(inner)
            todo.extend(islice(inner.values() if isinstance(inner, dict) else inner, SMALL))
    return count > SMALL


@dataclass(frozen=True, slots=True)
class At:
    """Where a part is: in the object, and in the schema."""

    path: Path = ()
    place: Path = ()


def _never(_path: Path) -> bool:
    return False


def _inside(schema: Json, value: Any) -> Iterator[tuple[str, Any, int]]:
    """What is in a value, by the word of the schema that says how it must be; with the index of the first."""
    if isinstance(value, dict):
        fields: Json = schema.get("properties", {})
        yield "properties", {name: value[name] for name in fields if name in value}, 0
        if isinstance(schema.get("additionalProperties"), Mapping):
            names = [name for name in value if name not in fields]
            for start in range(0, len(names), AT_ONCE):
                some = names[start : start + AT_ONCE]
                yield "additionalProperties", {name: value[name] for name in some}, 0
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for start in range(0, len(value), AT_ONCE):
            yield "items", value[start : start + AT_ONCE], start


def _itself(schema: Json) -> Json:
    return {name: value for name, value in schema.items() if name not in _BELOW}


class Parts:
    """The parts of a schema. ``compile_`` makes a validator of one, with the definitions it refers to."""

    def __init__(self, schema: Json, compile_: Callable[[Json], Draft4Validator]) -> None:
        self._schema, self._compile = schema, compile_
        self._defs: Json = schema.get("$defs", {})
        self._validators: dict[tuple[int, str], Draft4Validator] = {}
        """By the identity of a part of the schema, and by what is looked at of it."""

    def errors(self, value: Any, is_excused: Callable[[Path], bool] = _never) -> Iterator[ValidationError]:
        """The errors of a value, without those in large parts that are excused as a whole."""
        return self._errors(self._schema, value, At(), is_excused)

    def _errors(
        self, schema: Json, value: Any, at: At, is_excused: Callable[[Path], bool]
    ) -> Iterator[ValidationError]:
        if isinstance(ref := schema.get("$ref"), str):
            schema = self._defs[ref.rpartition("/")[2]]
        if not is_large(value):
            yield from self._found(schema, "", value, at)
            return
        if is_excused(at.path):
            return
        yield from self._found(schema, "itself", value, at)
        for index, part in enumerate(schema.get("allOf", ())):
            yield from self._errors(part, value, At(at.path, (*at.place, "allOf", index)), _never)
        for what, part, below in _inside(schema, value):
            if what != "properties" and not is_large(part):
                yield from self._found(schema, what, part, at, below)
                continue
            for name, inner in part.items() if isinstance(part, dict) else enumerate(part, below):
                own = schema[what][name] if what == "properties" else schema[what]
                place = (*at.place, what, name) if what == "properties" else (*at.place, what)
                yield from self._errors(own, inner, At((*at.path, name), place), is_excused)

    def _found(
        self, schema: Json, what: str, value: Any, at: At, start: int = 0
    ) -> Iterator[ValidationError]:
        """The library's errors; ``start``: the index of the first item of the value."""
        for error in self._validator(schema, what).iter_errors(value):
            path = error.instance_path
            if start:
                path = [int(path[0]) + start, *path[1:]]
            yield ValidationError(
                error.message,
                error.verbose_message,
                [*at.place, *error.schema_path],
                [*at.path, *path],
                error.evaluation_path,
                error.kind,
                error.instance,
            )

    def _validator(self, schema: Json, what: str) -> Draft4Validator:
        if (known := self._validators.get((id(schema), what))) is None:
            shown = schema if not what else {what: schema[what]} if what in schema else _itself(schema)
            known = self._validators[id(schema), what] = self._compile(shown)
        return known
