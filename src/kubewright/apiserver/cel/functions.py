"""The functions of CEL's standard: their overloads, by which the checker finds them, and what they do.

Theory.      An overload is a name, the types of its arguments and of its result, and a Python function. The
             first argument of a member function is its target. Signatures are written as texts and read once:
             ``.(list(T), T) int`` is a member function.
Invariants.  Pure. The ids are cel-go's: costs are looked up by them.
Continues    in ``libraries``, which adds those of Kubernetes.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubewright.apiserver.cel import values
from kubewright.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Duration,
    Optional,
    Timestamp,
    Type,
    list_of,
    map_of,
    opaque,
    optional_of,
    param,
)
from kubewright.apiserver.cel.values import EvalError, NoOverload, checked, compared, equal

Impl = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One way to call a function."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    call: Impl


FUNCTIONS: dict[str, list[Overload]] = {}
"""All functions by their names."""

_NAMED = {
    "bool": BOOL,
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "dyn": DYN,
    "null": NULL,
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    "type": TYPE,
    "T": param("T"),
    "K": param("K"),
    "V": param("V"),
    "U": param("U"),
}
_WORDS = re.compile(r"[A-Za-z_.0-9]+|[(),?]")


def declare(name: str, overload_id: str, signature: str, call: Impl) -> None:
    """Add an overload, e.g. ``declare("size", "size_string", "(string) int", len)``."""
    words = _WORDS.findall(signature.removeprefix("."))
    args: tuple[Type, ...] = ()
    at = 1
    while words[at] != ")":
        given, at = _read(words, at)
        args = (*args, given)
        at += words[at] == ","
    result, _ = _read(words, at + 1)
    made = Overload(overload_id, signature.startswith("."), args, result, call)
    FUNCTIONS.setdefault(name, []).append(made)


def _read(words: list[str], at: int) -> tuple[Type, int]:
    """The type that stands in a signature, and where the rest begins."""
    name = words[at]
    if name not in ("list", "map", "optional"):
        return _NAMED.get(name) or opaque(name), at + 1
    inner, at = _read(words, at + 2)
    if name == "map":
        second, at = _read(words, at + 1)
        return map_of(inner, second), at + 1
    return (list_of(inner) if name == "list" else optional_of(inner)), at + 1


# ---------------------------------------------------------------- operators


def _overflow(function: Callable[[Any, Any], int]) -> Impl:
    return lambda one, other: checked(function(one, other))


def _uints(function: Callable[[Any, Any], int]) -> Impl:
    return lambda one, other: values.checked_uint(function(int(one), int(other)))


def _negated(number: int) -> int:
    return checked(-number)


def _arithmetic() -> None:
    for sign, name, whole, real in (
        ("_+_", "add", operator.add, operator.add),
        ("_-_", "subtract", operator.sub, operator.sub),
        ("_*_", "multiply", operator.mul, operator.mul),
        ("_/_", "divide", values.divided, values.float_divided),
    ):
        declare(sign, f"{name}_int64", "(int, int) int", _overflow(whole))
        declare(sign, f"{name}_uint64", "(uint, uint) uint", _uints(whole))
        declare(sign, f"{name}_double", "(double, double) double", real)
    declare("_%_", "modulo_int64", "(int, int) int", values.remainder)
    declare("_%_", "modulo_uint64", "(uint, uint) uint", _uints(values.remainder))
    declare("-_", "negate_int64", "(int) int", _negated)
    declare("-_", "negate_double", "(double) double", operator.neg)
    declare("_+_", "add_string", "(string, string) string", operator.add)
    declare("_+_", "add_bytes", "(bytes, bytes) bytes", operator.add)
    declare("_+_", "add_list", "(list(T), list(T)) list(T)", values.joined)


def _time_arithmetic() -> None:
    declare("_+_", "add_timestamp_duration", "(timestamp, duration) timestamp", _later)
    declare("_+_", "add_duration_timestamp", "(duration, timestamp) timestamp", lambda d, t: _later(t, d))
    declare(
        "_+_",
        "add_duration_duration",
        "(duration, duration) duration",
        lambda a, b: values.span(a.nanos + b.nanos),
    )
    declare(
        "_-_",
        "subtract_timestamp_timestamp",
        "(timestamp, timestamp) duration",
        lambda a, b: values.span(a.nanos - b.nanos),
    )
    declare(
        "_-_",
        "subtract_timestamp_duration",
        "(timestamp, duration) timestamp",
        lambda t, d: values.moment(t.nanos - d.nanos),
    )
    declare(
        "_-_",
        "subtract_duration_duration",
        "(duration, duration) duration",
        lambda a, b: values.span(a.nanos - b.nanos),
    )


def _later(when: Timestamp, past: Duration) -> Timestamp:
    return values.moment(when.nanos + past.nanos)


ORDERED = ("bool", "int64", "uint64", "double", "string", "bytes", "timestamp", "duration")
_CEL_NAMES = {"int64": "int", "uint64": "uint"}


def _comparisons() -> None:
    for sign, word, holds in (
        ("_<_", "less", lambda one, other: compared(one, other) < 0),
        ("_<=_", "less_equals", lambda one, other: compared(one, other) <= 0),
        ("_>_", "greater", lambda one, other: compared(one, other) > 0),
        ("_>=_", "greater_equals", lambda one, other: compared(one, other) >= 0),
    ):
        for name in ORDERED:
            kind = _CEL_NAMES.get(name, name)
            declare(sign, f"{word}_{name}", f"({kind}, {kind}) bool", _ordered(holds))
        for one in ("int64", "uint64", "double"):
            for other in ("int64", "uint64", "double"):
                if one != other:
                    kinds = ", ".join(_CEL_NAMES.get(each, each) for each in (one, other))
                    declare(sign, f"{word}_{one}_{other}", f"({kinds}) bool", _ordered(holds))
    declare("_==_", "equals", "(T, T) bool", equal)
    declare("_!=_", "not_equals", "(T, T) bool", lambda one, other: not equal(one, other))
    declare("@in", "in_list", "(T, list(T)) bool", lambda item, items: values.contains(items, item))
    declare("@in", "in_map", "(K, map(K, V)) bool", lambda key, entries: values.in_map(entries, key))
    declare("!_", "logical_not", "(bool) bool", operator.not_)
    declare("_&&_", "logical_and", "(bool, bool) bool", operator.and_)
    declare("_||_", "logical_or", "(bool, bool) bool", operator.or_)
    declare("_?_:_", "conditional", "(bool, T, T) T", lambda test, yes, no: yes if test else no)
    declare("@not_strictly_false", "not_strictly_false", "(bool) bool", lambda value: value is not False)


def _ordered(holds: Callable[[Any, Any], bool]) -> Impl:
    def ordered(one: Any, other: Any) -> bool:
        try:
            return holds(one, other)
        except EvalError as error:
            if "NaN" in str(error):
                return False
            raise

    return ordered


# ---------------------------------------------------------------- access


def item_of(items: list[Any], index: Any) -> Any:
    if isinstance(index, float):
        if not index.is_integer():
            raise EvalError(f"unsupported index value: {index}")
        index = int(index)
    if isinstance(index, bool) or not isinstance(index, int):
        raise EvalError(f"unsupported index type '{values.type_of(index)}' in list")
    if not 0 <= index < len(items):
        raise EvalError(f"index out of bounds: {int(index)}")
    return items[index]


def entry_of(entries: dict[Any, Any], key: Any) -> Any:
    if values.in_map(entries, key):
        return entries[key]
    raise EvalError(f"no such key: {values.to_string(key) if not isinstance(key, list | dict) else key}")


def optional_item(items: list[Any], index: Any) -> Optional:
    try:
        return Optional(True, item_of(items, index))
    except EvalError:
        return Optional(False)


def optional_entry(entries: dict[Any, Any], key: Any) -> Optional:
    return Optional(True, entries[key]) if values.in_map(entries, key) else Optional(False)


def _present(given: Optional) -> Any:
    if not given.has:
        raise EvalError("optional.none() dereference")
    return given.value


def optional_field(given: Any, name: Any) -> Optional:
    """A field of a value that may be absent, as one that may be absent."""
    if isinstance(given, Optional):
        return optional_entry(given.value, name) if isinstance(given.value, dict) else Optional(False)
    if not isinstance(given, dict):
        raise EvalError(f"no such key: {name}")
    return optional_entry(given, name)


def within(function: Callable[[Any, Any], Optional]) -> Impl:
    """An access to what an optional holds."""
    return lambda given, key: function(given.value, key) if given.has else given


def is_zero(value: Any) -> bool:
    if isinstance(value, Duration | Timestamp):
        return value.nanos == 0
    return value is None or (not value and isinstance(value, bool | int | float | str | bytes | list | dict))


def _access() -> None:
    declare("_[_]", "index_list", "(list(T), int) T", item_of)
    declare("_[_]", "index_map", "(map(K, V), K) V", entry_of)
    declare("_[_]", "optional_list_index_int", "(optional(list(V)), int) optional(V)", within(optional_item))
    declare(
        "_[_]", "optional_map_index_value", "(optional(map(K, V)), K) optional(V)", within(optional_entry)
    )
    declare("_[?_]", "list_optindex_optional_int", "(list(V), int) optional(V)", optional_item)
    declare(
        "_[?_]",
        "optional_list_optindex_optional_int",
        "(optional(list(V)), int) optional(V)",
        within(optional_item),
    )
    declare("_[?_]", "map_optindex_optional_value", "(map(K, V), K) optional(V)", optional_entry)
    declare(
        "_[?_]",
        "optional_map_optindex_optional_value",
        "(optional(map(K, V)), K) optional(V)",
        within(optional_entry),
    )


def _optionals() -> None:
    declare("_?._", "select_optional_field", "(dyn, string) optional(dyn)", optional_field)
    declare("optional.of", "optional_of", "(V) optional(V)", lambda value: Optional(True, value))
    declare("optional.none", "optional_none", "() optional(V)", lambda: Optional(False))
    declare(
        "optional.ofNonZeroValue",
        "optional_ofNonZeroValue",
        "(V) optional(V)",
        lambda value: Optional(False) if is_zero(value) else Optional(True, value),
    )
    declare("value", "optional_value", ".(optional(V)) V", _present)
    declare("hasValue", "optional_hasValue", ".(optional(V)) bool", lambda given: given.has)
    declare(
        "or",
        "optional_or_optional",
        ".(optional(V), optional(V)) optional(V)",
        lambda given, other: given if given.has else other,
    )
    declare(
        "orValue",
        "optional_orValue_value",
        ".(optional(V), V) V",
        lambda given, other: given.value if given.has else other,
    )
    declare("first", "list_first", ".(list(V)) optional(V)", lambda items: optional_item(items, 0))
    declare("last", "list_last", ".(list(V)) optional(V)", lambda items: optional_item(items, len(items) - 1))
    declare("optional.unwrap", "optional_unwrap", "(list(optional(V))) list(V)", _unwrapped)
    declare("unwrapOpt", "optional_unwrapOpt", ".(list(optional(V))) list(V)", _unwrapped)


def _insertions() -> None:
    declare("@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) map(K, V)", inserted)
    declare("@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) map(K, V)", _merged)


def _unwrapped(items: list[Optional]) -> list[Any]:
    return [item.value for item in items if item.has]


def inserted(entries: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if values.in_map(entries, key):
        raise EvalError(f"insert failed: key {values.to_string(key)} already exists")
    return {**entries, key: value}


def _merged(entries: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in more.items():
        entries = inserted(entries, key, value)
    return entries


# ---------------------------------------------------------------- conversions, texts, times


@lru_cache(maxsize=512)
def pattern(text: str) -> Any:
    """A pattern that is matched in linear time.

    Raises:
        EvalError: it is none.
    """
    import re2

    try:
        return re2.compile(text, _quiet())
    except re2.error as error:
        said = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise EvalError(f"error parsing regexp: {said}: `{text}`") from None


@lru_cache(maxsize=1)
def _quiet() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


def matches(text: str, expression: str) -> bool:
    return pattern(expression).search(text) is not None


def _conversions() -> None:
    for name, convert, kinds in (
        ("int", values.to_int, "int uint double string timestamp duration"),
        ("uint", values.to_uint, "uint int double string"),
        ("double", values.to_double, "double int uint string"),
        ("string", values.to_string, "string bool int uint double bytes timestamp duration"),
        ("bytes", values.to_bytes, "bytes string"),
        ("bool", values.to_bool, "bool string"),
        ("duration", values.to_span, "duration string"),
        ("timestamp", values.to_moment, "timestamp string int"),
    ):
        for kind in kinds.split():
            declare(name, f"{kind}_to_{name}", f"({kind}) {name}", convert)
    declare("dyn", "to_dyn", "(T) dyn", lambda value: value)
    declare("type", "type", "(T) type", values.type_of)
    for kind in ("string", "bytes", "list(T)", "map(K, V)"):
        name = kind.partition("(")[0]
        declare("size", f"size_{name}", f"({kind}) int", len)
        declare("size", f"{name}_size", f".({kind}) int", len)
    declare("contains", "contains_string", ".(string, string) bool", operator.contains)
    declare("startsWith", "starts_with_string", ".(string, string) bool", str.startswith)
    declare("endsWith", "ends_with_string", ".(string, string) bool", str.endswith)
    declare("matches", "matches", "(string, string) bool", matches)
    declare("matches", "matches_string", ".(string, string) bool", matches)


_PARTS: tuple[tuple[str, Callable[[Any], int]], ...] = (
    ("getFullYear", lambda when: when.year),
    ("getMonth", lambda when: when.month - 1),
    ("getDayOfYear", lambda when: when.timetuple().tm_yday - 1),
    ("getDayOfMonth", lambda when: when.day - 1),
    ("getDate", lambda when: when.day),
    ("getDayOfWeek", lambda when: when.isoweekday() % 7),
    ("getHours", lambda when: when.hour),
    ("getMinutes", lambda when: when.minute),
    ("getSeconds", lambda when: when.second),
    ("getMilliseconds", lambda when: when.microsecond // 1000),
)
_SPANS = {"getHours": 3600 * 10**9, "getMinutes": 60 * 10**9, "getSeconds": 10**9, "getMilliseconds": 10**6}


def _times() -> None:
    for name, part in _PARTS:
        declare(name, f"timestamp_{name}", ".(timestamp) int", _part(part))
        declare(name, f"timestamp_{name}_tz", ".(timestamp, string) int", _part(part))
    for name, unit in _SPANS.items():
        declare(name, f"duration_{name}", ".(duration) int", _in_units(unit, name == "getMilliseconds"))


def _part(part: Callable[[Any], int]) -> Impl:
    return lambda when, zone="UTC": part(values.as_datetime(when, zone))


def _in_units(unit: int, _rest: bool) -> Impl:
    return lambda span: values.divided(span.nanos, unit)


def dispatched(name: str, overloads: tuple[Overload, ...]) -> Impl:
    """The call of a function whose overload is known only from its arguments' values."""

    def call(*args: Any) -> Any:
        for each in overloads:
            if len(each.args) == len(args) and all(map(values.fits, each.args, args)):
                return each.call(*args)
        if name in ("_[_]", "_[?_]") and isinstance(args[0], list):  # an index of another type of number
            return (item_of if name == "_[_]" else optional_item)(*args)
        raise NoOverload(name)

    return call


_arithmetic()
_time_arithmetic()
_comparisons()
_access()
_optionals()
_insertions()
_conversions()
_times()
