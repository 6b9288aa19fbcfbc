"""The types of CEL, and what the values of types that Python lacks are.

Theory.      A type is a kind with parameters. ``dyn`` stands for what is known only when an expression runs,
             and agrees with every type; a parameter (``T``) of a function is bound by its arguments. What a
             schema says of a place is a type too (``fields``, ``most``): so the checker finds fields, and the
             estimator of costs how large a value can be.
Values.      Python's own, but for uint, timestamp, duration, optional, and what Kubernetes' libraries know.
             bool is no number in CEL, and is one in Python: what compares asks for it first.
Invariants.  Pure. A type does not change once it is made.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

RESERVED = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    )
)
"""Words that no variable has for its name."""
MOST_BYTES = 3 * 1024 * 1024
"""Of a request: what bounds a text, a list and a map whose schema does not."""


class Uint(int):
    """An unsigned integer: another type than int, though an equal number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A time span in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value, or none."""

    has: bool
    value: Any = None


NONE: Final = Optional(False)

Convert = Callable[[Any], Any]


@dataclass(slots=True, eq=False)
class Type:
    """A type, and of a place in a schema what else is known of it.

    ``fields``    of an object: by their names in CEL, their names in JSON and their types
    ``most``      how many letters, bytes, items or entries it has at most; None where that is not known
    ``least``     bytes of its shortest JSON
    ``convert``   makes a value of JSON one of CEL, as far as it is looked at from outside; None: it is one
    ``deep``      the same with all that is in it, for what compares wholes
    """

    kind: str
    name: str = ""
    params: tuple["Type", ...] = ()
    fields: Mapping[str, tuple[str, "Type"]] = field(default_factory=dict)
    most: int | None = None
    least: int = 1
    convert: Convert | None = None
    deep: Convert | None = None

    def __str__(self) -> str:
        if self.kind in ("struct", "opaque", "param"):
            return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name
        return f"{self.kind}({', '.join(map(str, self.params))})" if self.params else self.kind


DYN: Final = Type("dyn")
BOOL: Final = Type("bool", least=4)
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string", least=2)
BYTES: Final = Type("bytes", least=2)
NULL: Final = Type("null_type")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TYPE: Final = Type("type")
ERROR: Final = Type("error")


def list_of(items: Type) -> Type:
    return Type("list", params=(items,))


def map_of(keys: Type, values: Type) -> Type:
    return Type("map", params=(keys, values))


def optional_of(inner: Type) -> Type:
    return Type("opaque", "optional_type", (inner,))


def opaque(name: str) -> Type:
    return Type("opaque", name)


def param(name: str) -> Type:
    return Type("param", name)


Bound = MutableMapping[str, Type]
"""What the parameters of a call stand for."""


def bare(given: Type, bound: Bound) -> Type:
    """A type with what its parameters stand for."""
    if given.kind == "param":
        known = bound.get(given.name)
        return given if known is None else bare(known, bound)
    if given.params:
        inner = tuple(bare(each, bound) for each in given.params)
        if any(new is not old for new, old in zip(inner, given.params, strict=True)):
            return Type(given.kind, given.name, inner, given.fields, given.most, given.least, given.convert)
    return given


def free_is_dyn(given: Type) -> Type:
    """A type whose parameters, which stand for nothing, are dyn."""
    if given.kind == "param":
        return DYN
    if given.params:
        inner = tuple(free_is_dyn(each) for each in given.params)
        if any(new is not old for new, old in zip(inner, given.params, strict=True)):
            return Type(given.kind, given.name, inner, given.fields, given.most, given.least, given.convert)
    return given


def assignable(wanted: Type, given: Type, bound: Bound) -> bool:
    """Whether a value of ``given`` may stand where ``wanted`` is; parameters of both are bound."""
    wanted, given = bare(wanted, bound), bare(given, bound)
    if wanted is given:
        return True
    for one, other in ((wanted, given), (given, wanted)):
        if one.kind == "param":
            if _occurs(one.name, other, bound):
                return False
            bound[one.name] = other
            return True
    if "dyn" in (wanted.kind, given.kind) or "error" in (wanted.kind, given.kind):
        return True
    if given.kind == "null_type":
        return wanted.kind in ("null_type", "struct", "timestamp", "duration", "opaque")
    if wanted.kind != given.kind or len(wanted.params) != len(given.params):
        return wanted.kind == "type" and given.kind == "type"
    if wanted.kind in ("struct", "opaque") and wanted.name != given.name:
        return False
    return all(assignable(one, other, bound) for one, other in zip(wanted.params, given.params, strict=True))


def _occurs(name: str, given: Type, bound: Bound) -> bool:
    given = bare(given, bound)
    return any(
        each.name == name if each.kind == "param" else _occurs(name, each, bound) for each in given.params
    )


def field_of(kind: Type, name: str) -> tuple[str, Type] | None:
    """A field of an object: its name in JSON, and its type. Words of the language need no underscores."""
    return kind.fields.get(name) or (kind.fields.get(f"__{name}__") if name in RESERVED else None)


def same(one: Type, other: Type) -> bool:
    """Whether two types are equal, without anything being bound."""
    return one is other or (
        one.kind == other.kind
        and one.name == other.name
        and len(one.params) == len(other.params)
        and all(map(same, one.params, other.params))
    )
