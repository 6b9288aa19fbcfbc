"""What can be done with the values of CEL: equality, order, arithmetic, conversions, times.

Theory.      CEL's numbers have 64 bits, and an overflow is an error; Python's have as many as they need, so
             each result is looked at. Numbers of different types are equal when they are the same number.
             ``true`` is equal to nothing but ``true``.
Invariants.  Pure. What cannot be done raises ``EvalError`` with cel-go's words.
Called by    ``functions``, ``libraries``, ``evaluate``.
"""

import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
    Uint,
    list_of,
    map_of,
    opaque,
    optional_of,
)

LEAST, MOST, MOST_UINT = -(2**63), 2**63 - 1, 2**64 - 1
SECOND = 10**9
_EARLIEST, _LATEST = -62135596800 * SECOND, 253402300799 * SECOND + SECOND - 1


class EvalError(Exception):
    """An expression has no value: what cel-go says of it."""


class NoOverload(EvalError):
    """A function does not take the types of these values."""

    def __init__(self, _name: str = "") -> None:
        super().__init__("no such overload")


class SetList(list[Any]):
    """A list of a schema that is a set: its order does not count."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of a schema that is a map: its items are told apart by ``keys``."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(name) for name in self.keys) if isinstance(item, dict) else (repr(item),)


# ---------------------------------------------------------------- equality and order


def equal(one: Any, other: Any) -> bool:
    """CEL's ``==`` for values of any types."""
    kind = type(one)
    if kind is type(other):
        if kind in _PLAIN:
            return bool(one == other)
        if kind is dict:
            return one is other or _equal_maps(one, other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        one, other = _alike(one, other)
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return _equal_lists(one, other)
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.has == other.has and equal(one.value, other.value)
    if isinstance(one, Type) and isinstance(other, Type):
        return type_name(one) == type_name(other)
    return type(one) is type(other) and bool(one == other)


def _alike(one: float, other: float) -> tuple[float, float]:
    """Two numbers to compare: a whole one beside a float becomes a float, as in Go."""
    if isinstance(one, float) != isinstance(other, float) and not (math.isinf(one) or math.isinf(other)):
        return float(one), float(other)
    return one, other


_PLAIN = frozenset((str, int, bool, bytes, float, Uint))


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return len(one) == len(other) and all(
        name in other and equal(value, other[name]) for name, value in one.items()
    )


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    kept = one if isinstance(one, SetList | MapList) else other
    if isinstance(kept, SetList):
        if are_plain(one, other):
            return set(one) == set(other)
        return all(contains(other, item) for item in one) and all(contains(one, item) for item in other)
    if isinstance(kept, MapList):
        known = {kept.key(item): item for item in other}
        return all((key := kept.key(item)) in known and equal(item, known[key]) for item in one)
    return all(map(equal, one, other))


def are_plain(items: list[Any], other: list[Any]) -> bool:
    """Whether the items of two lists are plain values of one type, which Python compares as CEL does: as sets
    they take linear time."""
    kinds = set(map(type, items)) | set(map(type, other))
    return len(kinds) <= 1 and kinds <= _PLAIN


def contains(items: Any, item: Any) -> bool:
    """CEL's ``in`` for a list."""
    if type(item) is str:
        return any(each == item for each in items)
    return any(equal(each, item) for each in items)


def in_map(entries: dict[Any, Any], key: Any) -> bool:
    try:
        return key in entries and (not isinstance(key, bool) or any(each is key for each in entries))
    except TypeError:
        return False


def compared(one: Any, other: Any) -> int:
    """-1, 0 or 1; NaN is not comparable.

    Raises:
        NoOverload: values of these types have no order.
    """
    if isinstance(one, bool) != isinstance(other, bool) or type(one) in (list, dict, type(None)):
        raise NoOverload
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if not numbers and type(one) is not type(other):
        raise NoOverload
    if (isinstance(one, float) and math.isnan(one)) or (isinstance(other, float) and math.isnan(other)):
        raise EvalError("NaN values cannot be ordered")
    if numbers:
        one, other = _alike(one, other)
    if isinstance(one, str):
        one, other = one.encode("utf-32-be", "surrogatepass"), other.encode("utf-32-be", "surrogatepass")
    try:
        return int(one > other) - int(one < other)
    except TypeError:
        raise NoOverload from None


# ---------------------------------------------------------------- arithmetic


def checked(number: int, words: str = "integer overflow") -> int:
    if LEAST <= number <= MOST:
        return number
    raise EvalError(words)


def checked_uint(number: int) -> Uint:
    if 0 <= number <= MOST_UINT:
        return Uint(number)
    raise EvalError("unsigned integer overflow")


def divided(one: int, other: int) -> int:
    if other == 0:
        raise EvalError("division by zero")
    quotient = abs(one) // abs(other)
    return checked(quotient if (one < 0) == (other < 0) else -quotient)


def remainder(one: int, other: int) -> int:
    if other == 0:
        raise EvalError("modulus by zero")
    if one == LEAST and other == -1:
        raise EvalError("integer overflow")
    return int(math.copysign(1, one)) * (abs(one) % abs(other)) if one else 0


def float_divided(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def float_multiplied(one: float, other: float) -> float:
    return one * other


def moment(nanos: int) -> Timestamp:
    if _EARLIEST <= nanos <= _LATEST:
        return Timestamp(nanos)
    raise EvalError("timestamp overflow")


def span(nanos: int) -> Duration:
    if LEAST <= nanos <= MOST:
        return Duration(nanos)
    raise EvalError("integer overflow")


def joined(one: list[Any], other: list[Any]) -> list[Any]:
    """Lists after each other; of sets and maps, as Kubernetes merges them."""
    if isinstance(one, SetList):
        if are_plain(one, other):
            known = set(one)
            return SetList([*one, *(item for item in other if item not in known)])
        return SetList([*one, *(item for item in other if not contains(one, item))])
    if isinstance(one, MapList):
        merged = {one.key(item): item for item in one}
        merged.update({one.key(item): item for item in other})
        return MapList(list(merged.values()), one.keys)
    return [*one, *other]


# ---------------------------------------------------------------- conversions


def to_int(value: Any) -> int:
    match value:
        case Uint():
            return checked(int(value))
        case bool():
            raise NoOverload("int")
        case int():
            return value
        case float():
            if not -(2.0**63) < value < 2.0**63:
                raise EvalError("integer overflow")
            return int(value)
        case str() if re.fullmatch(r"[+-]?[0-9]{1,30}", value):
            return checked(int(value))
        case Timestamp():
            return value.nanos // SECOND
        case Duration():
            return value.nanos
        case str():
            raise EvalError(f'strconv.ParseInt: parsing "{value}": invalid syntax')
    raise NoOverload("int")


def to_uint(value: Any) -> Uint:
    match value:
        case bool():
            raise NoOverload("uint")
        case int():
            return checked_uint(value)
        case float():
            if not 0 <= value < 2.0**64:
                raise EvalError("unsigned integer overflow")
            return Uint(value)
        case str() if re.fullmatch(r"[0-9]{1,30}", value):
            return checked_uint(int(value))
        case str():
            raise EvalError(f'strconv.ParseUint: parsing "{value}": invalid syntax')
    raise NoOverload("uint")


_FLOAT = re.compile(r"(?i)[+-]?(inf(inity)?|nan|[0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?)")


def to_double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NoOverload("double")
    if isinstance(value, str) and _FLOAT.fullmatch(value) is None:
        raise EvalError(f'strconv.ParseFloat: parsing "{value}": invalid syntax')
    return float(value)


def shown_float(value: float) -> str:
    """A float as Go writes it where it chooses the form itself."""
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    lead = len(digits) + int(exponent) - 1 if value else 0
    minus = "-" if sign else ""
    if lead < -4 or lead >= max(len(text), 21):
        rest = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{rest}e{'-' if lead < 0 else '+'}{abs(lead):02d}"
    plain = format(Decimal(repr(value)), "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def to_string(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return shown_float(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from None
        case Timestamp():
            return shown_moment(value)
        case Duration():
            return shown_span(value)
    if isinstance(value, list | dict | type(None) | Type | Optional):
        raise NoOverload("string")
    return str(value)


def to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    raise NoOverload("bytes")


def to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("1", "t", "T", "true", "TRUE", "True"):
            return True
        if value in ("0", "f", "F", "false", "FALSE", "False"):
            return False
        raise EvalError(f'strconv.ParseBool: parsing "{value}": invalid syntax')
    raise NoOverload("bool")


# ---------------------------------------------------------------- times

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile(r"([0-9]*(?:\.[0-9]*)?)(ns|us|µs|μs|ms|s|m|h)")


def to_span(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if not isinstance(value, str):
        raise NoOverload("duration")
    body, nanos, at = value.lstrip("+-") if value[:1] in "+-" else value, Decimal(0), 0
    if len(value) - len(body) > 1 or not body or len(body) > 200:
        raise EvalError(f'time: invalid duration "{value}"')
    while body != "0" and at < len(body):
        found = _PART.match(body, at)
        if found is None or found[1] in ("", "."):
            raise EvalError(f'time: invalid duration "{value}"')
        nanos += Decimal(found[1]) * _UNITS[found[2]]
        at = found.end()
    return span(-int(nanos) if value[0] == "-" else int(nanos))


def shown_span(value: Duration) -> str:
    whole, rest = divmod(abs(value.nanos), SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if value.nanos < 0 else ''}{whole}{fraction}s"


_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,30}))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_moment(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int) and not isinstance(value, bool | Uint):
        return moment(value * SECOND)
    if not isinstance(value, str):
        raise NoOverload("timestamp")
    found = _MOMENT.fullmatch(value)
    try:
        if found is None:
            raise ValueError(value)
        zone = found[8].upper().replace("Z", "+00:00")
        when = datetime.fromisoformat(
            f"{found[1]}-{found[2]}-{found[3]}T{found[4]}:{found[5]}:{found[6]}{zone}"
        )
        past = when - _EPOCH
    except (ValueError, OverflowError):
        raise EvalError(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00"') from None
    fraction = int((found[7] or "")[:9].ljust(9, "0"))
    return moment((past.days * 86400 + past.seconds) * SECOND + fraction)


def to_date(value: Any) -> Timestamp:
    """A date of a schema (``format: date``)."""
    return to_moment(f"{value}T00:00:00Z")


def as_datetime(value: Timestamp, zone: str = "UTC") -> datetime:
    past = timedelta(seconds=value.nanos // SECOND, microseconds=value.nanos % SECOND // 1000)
    try:
        return (_EPOCH + past).astimezone(_zone(zone))
    except OverflowError:
        raise EvalError("timestamp overflow") from None


def _zone(name: str) -> tzinfo:
    if found := re.fullmatch(r"([+-]?)([0-9]{2}):([0-9]{2})", name):
        away = timedelta(hours=int(found[2]), minutes=int(found[3]))
        try:
            return timezone(-away if found[1] == "-" else away)
        except ValueError:
            raise EvalError(f"unknown time zone {name}") from None
    try:
        return ZoneInfo(name) if name not in ("", "UTC") else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvalError(f"unknown time zone {name}") from None


def shown_moment(value: Timestamp) -> str:
    when, rest = as_datetime(value), value.nanos % SECOND
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{when:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{fraction}Z"


# ---------------------------------------------------------------- types of values

_TYPES: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
    Timestamp: TIMESTAMP,
    Duration: DURATION,
    Type: TYPE,
    list: list_of(DYN),
    SetList: list_of(DYN),
    MapList: list_of(DYN),
    dict: map_of(DYN, DYN),
    Optional: optional_of(DYN),
}


def type_of(value: Any) -> Type:
    """The type of a value, as ``type()`` gives it."""
    known = _TYPES.get(type(value))
    return opaque(getattr(type(value), "cel_name", "dyn")) if known is None else known


def type_name(given: Type) -> str:
    return given.name or given.kind


def fits(wanted: Type, value: Any) -> bool:
    """Whether a value is of a type, as far as that is seen from outside."""
    if wanted.kind in ("dyn", "param"):
        return True
    found = type_of(value)
    if wanted.kind == "struct":
        return isinstance(value, dict)
    return found.kind == wanted.kind and (wanted.kind != "opaque" or found.name == wanted.name)
