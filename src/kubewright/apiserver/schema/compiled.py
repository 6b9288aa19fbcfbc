"""A compiled schema, which ``registry`` uses for each object that a client sends.

Theory.      Almost every object is valid. So each method first runs one strict validator, in a
             microsecond or two: an object that it accepts has no error, no unknown field and nothing
             to prune. Only for others do the tree walks and the loose validator run; for large ones part by
             part, as long as the caller asks for another error.
             The validator's library makes all errors before it returns the first: 300,000 ports without a
             number take half a minute, in which the loop answers no client. So a large value is taken apart
             as its schema says (``Parts``): first what is required of itself, then its fields and items, a
             few hundred at a time. Each part that is small goes to the library as a whole, when its errors
             are asked for. Who needs a hundred errors does not pay for a million.
Invariants.  Validators are built when first needed: a kind that no request names costs nothing. All errors
             come, each once, with the paths that the library would give them; their order is that of the
             schema's fields. What stands below an ``anyOf``, ``oneOf`` or ``not`` is one part.
Called by    ``registry.strategy`` and ``registry.writing``, through the protocol ``registry.kind.Schema``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Protocol

from jsonschema_rs import Draft4Validator, ValidationError

from kubewright.apiserver.schema import walk
from kubewright.apiserver.schema.causes import WORDS, Cause, Words, bounded, causes
from kubewright.apiserver.schema.node import Node, Object

Json = Mapping[str, Any]
Path = tuple[str | int, ...]

SMALL = 2_000
"""Values in a part that the library gets as a whole: its errors take some forty milliseconds at most."""
AT_ONCE = 200
"""Items of a list, or entries of a map, that are one part."""
KEPT = 500
"""Validators of parts of one schema that are kept."""

_BELOW = ("properties", "additionalProperties", "items", "allOf")
"""What a schema says of the parts of a value, and not of itself."""


def is_large(value: Any) -> bool:
    """Whether a value has more than ``SMALL`` values in it."""
    return _count(value) > SMALL


def _count(value: Any) -> int:
    """How many values are in a value, if these are no more than ``SMALL``; else some number above."""
    todo, count = [value], 0
    while todo and count <= SMALL:
        inner = todo.pop()
        if isinstance(inner, dict | list):
            count += len(inner)
            todo.extend(islice(inner.values() if isinstance(inner, dict) else inner, SMALL))
    return count


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


@dataclass(frozen=True, slots=True)
class _Look:
    """What is looked at of a schema: all (``what`` is empty), what it says of the value itself, or what it
    says under one of its words; ``without`` the fields of these names, of which none is in the value."""

    schema: Json
    what: str = ""
    without: frozenset[str] = frozenset()

    def shown(self) -> Json:
        if not self.what:
            return self.schema
        if self.what == "itself":
            return {name: value for name, value in self.schema.items() if name not in _BELOW}
        below = self.schema[self.what]
        if self.without:
            below = {name: inner for name, inner in below.items() if name not in self.without}
        return {self.what: below}


class Parts:
    """The parts of a schema. ``compile_`` makes a validator of one, with the definitions it refers to."""

    def __init__(self, schema: Json, compile_: Callable[[Json], Draft4Validator]) -> None:
        self._schema, self._compile = schema, compile_
        self._defs: Json = schema.get("$defs", {})
        self._validators: dict[tuple[int, str, frozenset[str]], Draft4Validator] = {}
        """By the identity of a part of the schema, what is looked at of it, and the fields that are not."""

    def errors(self, value: Any, is_excused: Callable[[Path], bool] = _never) -> Iterator[ValidationError]:
        """The errors of a value, without those in large parts that are excused as a whole."""
        return self._errors(self._schema, value, At(), is_excused)

    def _errors(
        self, schema: Json, value: Any, at: At, is_excused: Callable[[Path], bool]
    ) -> Iterator[ValidationError]:
        if isinstance(ref := schema.get("$ref"), str):
            schema = self._defs[ref.rpartition("/")[2]]
        if not is_large(value):
            yield from self._found(_Look(schema), value, at)
            return
        if is_excused(at.path):
            return
        yield from self._found(_Look(schema, "itself"), value, at)
        for index, part in enumerate(schema.get("allOf", ())):
            yield from self._errors(part, value, At(at.path, (*at.place, "allOf", index)), _never)
        for what, part, below in _inside(schema, value):
            if what == "properties":
                yield from self._fields(schema, part, at, is_excused)
            elif not is_large(part):
                yield from self._found(_Look(schema, what), part, at, below)
            else:
                inside = part.items() if isinstance(part, dict) else enumerate(part, below)
                yield from self._each(_Look(schema, what), inside, at, is_excused)

    def _fields(
        self, schema: Json, fields: Json, at: At, is_excused: Callable[[Path], bool]
    ) -> Iterator[ValidationError]:
        """Those of fields. Small ones go to the library together, and to one validator: patterns that are the
        same are compiled once in one, and a schema may have thousands of them."""
        sizes = {name: _count(value) for name, value in fields.items()}
        large = frozenset(name for name, size in sizes.items() if size > SMALL)
        look = _Look(schema, "properties", large)
        some, size = dict[str, Any](), 0
        for name, value in fields.items():
            size += 1 + sizes[name]
            if some and size > SMALL:
                yield from self._found(look, some, at)
                some, size = {}, 1 + sizes[name]
            if name in large:
                inside = At((*at.path, name), (*at.place, "properties", name))
                yield from self._errors(schema["properties"][name], value, inside, is_excused)
                size = 0
            else:
                some[name] = value
        if some:
            yield from self._found(look, some, at)

    def _each(
        self,
        look: _Look,
        inside: Iterable[tuple[str | int, Any]],
        at: At,
        is_excused: Callable[[Path], bool],
    ) -> Iterator[ValidationError]:
        """Those of items, or of the entries of a map, of which some are large."""
        for name, value in inside:
            if is_large(value):
                place = At((*at.path, name), (*at.place, look.what))
                yield from self._errors(look.schema[look.what], value, place, is_excused)
            elif isinstance(name, int):
                yield from self._found(look, [value], at, name)
            else:
                yield from self._found(look, {name: value}, at)

    def _found(self, look: _Look, value: Any, at: At, start: int = 0) -> Iterator[ValidationError]:
        """The library's errors; ``start``: the index of the first item of the value."""
        for error in self._validator(look).iter_errors(value):
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

    def _validator(self, look: _Look) -> Draft4Validator:
        place = id(look.schema), look.what, look.without
        if (known := self._validators.get(place)) is None:
            if len(self._validators) >= KEPT:
                self._validators.clear()
            known = self._validators[place] = self._compile(look.shown())
        return known


class Validator(Protocol):
    """What we use of a validator of jsonschema-rs, of whatever draft."""

    def is_valid(self, instance: Any) -> bool: ...

    def iter_errors(self, instance: Any) -> Iterator[ValidationError]: ...


class Compiled:
    """The part of ``Schema`` that built-in and custom kinds share. Subclasses provide the validators.

    ``words``: what is said of each kind of error.
    """

    words: ClassVar[Mapping[str, Words]] = WORDS

    @cached_property
    def node(self) -> Node:
        """The root of the tree."""
        raise NotImplementedError

    @cached_property
    def strict(self) -> Validator:
        """Accepts an object that is valid and has no unknown field."""
        raise NotImplementedError

    @cached_property
    def loose(self) -> Validator:
        """Lists the errors; accepts unknown fields."""
        raise NotImplementedError

    @cached_property
    def parts(self) -> Parts:
        """The loose validator in parts."""
        raise NotImplementedError

    def errors(
        self, obj: Object, is_excused: Callable[[tuple[str | int, ...]], bool] = lambda _path: False
    ) -> Iterator[ValidationError]:
        """What the loose validator finds; of a large one not all at once, and not what is excused."""
        return self.parts.errors(obj, is_excused) if is_large(obj) else iter(self.loose.iter_errors(obj))

    def ready(self, obj: Object) -> Object | None:
        """The object with its defaults, when nothing else is to be done to it; None otherwise."""
        if not self.strict.is_valid(obj):
            return None
        filled: Object = walk.default(self.node, obj)
        return filled

    def whole(self, obj: Object) -> Object:
        """The object with its numbers as they are stored; a built-in kind has types for its own."""
        return obj

    def validate(self, obj: Object, _old: Object | None = None, _part: str = "") -> list[Cause]:
        if self.strict.is_valid(obj):
            return []
        errors = self.errors(obj)
        return bounded(causes(errors, said=self.words), errors)

    def unknown_fields(self, obj: Object) -> list[str]:
        return [] if self.strict.is_valid(obj) else list(walk.unknown_fields(self.node, obj))

    def prune(self, obj: Object) -> Object:
        if self.strict.is_valid(obj):
            return obj
        pruned: Object = walk.prune(self.node, obj)
        return pruned

    def default(self, obj: Object) -> Object:
        """Nulls where null is not allowed count as absent, so they are dropped first."""
        clean = obj if self.strict.is_valid(obj) else self.without_nulls(obj)
        filled: Object = walk.default(self.node, clean)
        return filled

    def converted(self, obj: Object) -> Object:
        """What another version of the kind has become in this one."""
        return obj if self.strict.is_valid(obj) else self.without_nulls(self.prune(self.whole(obj)))

    def without_nulls(self, obj: Object) -> Object:
        """The object without the nulls that count as absent."""
        clean: Object = walk.drop_nulls(self.node, obj)
        return clean

    def nulls(self, obj: Object) -> list[Cause]:
        """None: null is the zero of each type of Go."""
        return []

    def merge_keys(self, path: tuple[str, ...]) -> tuple[str | None, frozenset[str]]:
        node: Node | None = self.node
        for name in path:
            node = node.items or node if node else None
            node = (node.fields.get(name) or node.values) if node else None
        return (node.merge_key, node.strategies) if node else (None, frozenset())
