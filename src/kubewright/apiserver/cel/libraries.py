"""Kubernetes' libraries for CEL, and the extensions that it switches on: those of kube-apiserver 1.36.

Theory.      Lists and patterns by Kubernetes; texts, sets, and more of lists by cel-go's extensions. There is
             no base64 and no ``cel.bind``: kube-apiserver 1.36 has none in the rules of definitions.
Invariants.  Pure. Patterns are matched in linear time (RE2, as Go does); no result is longer than a few
             megabytes.
Continues    in ``objects``, for what Kubernetes has types of its own.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from kubewright.apiserver.cel import values
from kubewright.apiserver.cel.functions import declare, pattern
from kubewright.apiserver.cel.types import Duration, Type, Uint
from kubewright.apiserver.cel.values import EvalError, checked, compared, equal

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: Mapping[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
MOST_FORMATTED = 1_000_000
"""Letters of a text that ``format`` or ``replace`` makes."""


def _is_sorted(items: list[Any]) -> bool:
    return all(compared(one, other) <= 0 for one, other in itertools.pairwise(items))


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def add(items: list[Any]) -> Any:
        if isinstance(zero, Duration):
            return values.span(sum(item.nanos for item in items))
        if isinstance(zero, Uint):
            return values.checked_uint(sum(items))
        return sum(items, zero) if isinstance(zero, float) else checked(sum(items))

    return add


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def extreme(items: list[Any]) -> Any:
        if not items:
            raise EvalError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if compared(item, best) == sign:
                best = item
        return best

    return extreme


def _index(items: list[Any], item: Any) -> int:
    return next((index for index, each in enumerate(items) if equal(each, item)), -1)


def _last_index(items: list[Any], item: Any) -> int:
    return next((index for index in reversed(range(len(items))) if equal(items[index], item)), -1)


def _lists() -> None:
    for kind in _COMPARABLE:
        declare("isSorted", f"list_{kind}_is_sorted_bool", f".(list({kind})) bool", _is_sorted)
        declare("max", f"list_{kind}_max_{kind}", f".(list({kind})) {kind}", _extreme("max", 1))
        declare("min", f"list_{kind}_min_{kind}", f".(list({kind})) {kind}", _extreme("min", -1))
        declare(
            "sort", f"list_{kind}_sort", f".(list({kind})) list({kind})", lambda items: _sorted(items, items)
        )
        declare(
            "@sortByAssociatedKeys",
            f"list_{kind}_sortByAssociatedKeys",
            f".(list(T), list({kind})) list(T)",
            _sorted,
        )
        if kind in _ZEROS:
            declare("sum", f"list_{kind}_sum_{kind}", f".(list({kind})) {kind}", _sum(_ZEROS[kind]))
    declare("indexOf", "list_a_index_of_int", ".(list(T), T) int", _index)
    declare("lastIndexOf", "list_a_last_index_of_int", ".(list(T), T) int", _last_index)
    declare("slice", "list_slice", ".(list(T), int, int) list(T)", _slice)
    declare("flatten", "list_flatten", ".(list(list(T))) list(T)", lambda items: _flat(items, 1))
    declare("flatten", "list_flatten_int", ".(list(dyn), int) list(dyn)", _flat)
    declare("lists.range", "lists_range", "(int) list(int)", _range)
    declare("reverse", "list_reverse", ".(list(T)) list(T)", lambda items: items[::-1])
    declare("distinct", "list_distinct", ".(list(T)) list(T)", _distinct)


class _Key:
    """What sorts by CEL's order."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: "_Key") -> bool:
        return compared(self.value, other.value) < 0


def _sorted(items: list[Any], keys: list[Any]) -> list[Any]:
    if len({values.type_name(values.type_of(key)) for key in keys}) > 1:
        raise EvalError("list elements must have the same type")
    order = sorted(range(len(items)), key=lambda index: _Key(keys[index]))
    return [items[index] for index in order]


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    said = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvalError(f"{said}, negative indexes not supported")
    if start > end:
        raise EvalError(f"{said}, start index must be less than or equal to end index")
    if len(items) < end:
        raise EvalError(f"{said}, list is length {len(items)}")
    return items[start:end]


def _flat(items: list[Any], depth: int) -> list[Any]:
    if depth < 0:
        raise EvalError("level must be non-negative")
    if depth == 0 or not any(isinstance(item, list) for item in items):
        return items
    once = [inner for item in items for inner in (item if isinstance(item, list) else [item])]
    return _flat(once, depth - 1) if depth < 60 else _flat(once, 59)


def _range(count: int) -> list[int]:
    if count > 1_000_000:
        raise EvalError("operation cancelled: actual cost limit exceeded")
    return list(range(max(count, 0)))


def _distinct(items: list[Any]) -> list[Any]:
    kept = list[Any]()
    for item in items:
        if not values.contains(kept, item):
            kept.append(item)
    return kept


# ---------------------------------------------------------------- texts


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvalError(f"index out of range: {at}")
    return text[at : at + 1]


def _find(text: str, part: str, at: int = 0) -> int:
    if at < 0:
        raise EvalError(f"index out of range: {at}")
    return text.find(part, at) if at <= len(text) else -1


def _rfind(text: str, part: str, at: int | None = None) -> int:
    if at is None:
        return text.rfind(part)
    if at < 0:
        raise EvalError(f"index out of range: {at}")
    return text.rfind(part, 0, at + len(part)) if at <= len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + times * (len(new) - len(old)) > MOST_FORMATTED * 4:
        raise EvalError("operation cancelled: actual cost limit exceeded")
    return text.replace(old, new, count)


def _split(text: str, by: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not by:
        letters = list(text)
        return (
            letters
            if count < 0 or count >= len(letters)
            else [*letters[: count - 1], "".join(letters[count - 1 :])]
        )
    return text.split(by, count - 1 if count > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise EvalError(f"index out of range: {start}")
    if not 0 <= last <= len(text):
        raise EvalError(f"index out of range: {last}")
    if start > last:
        raise EvalError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _quote(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'


_VERB = re.compile(r"%(?:\.([0-9]{1,6}))?([a-zA-Z%])|%")


def _format(text: str, args: list[Any]) -> str:
    out, at, used = list[str](), 0, 0
    for found in _VERB.finditer(text):
        out.append(text[at : found.start()])
        at = found.end()
        if found[0] == "%":
            raise EvalError("unexpected end of string")
        if found[2] == "%":
            out.append("%")
            continue
        if used >= len(args):
            raise EvalError(f"index {used} out of range")
        out.append(_verb(found[2], args[used], found[1]))
        used += 1
        if sum(map(len, out)) > MOST_FORMATTED:
            raise EvalError("operation cancelled: actual cost limit exceeded")
    return "".join([*out, text[at:]])


def _verb(verb: str, value: Any, precision: str | None) -> str:
    match verb:
        case "s":
            return _said(value)
        case "d" if isinstance(value, int) and not isinstance(value, bool):
            return str(int(value))
        case "e" | "f" if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case "f" | "e" if isinstance(value, float):
            places = min(int(precision), 100) if precision else 6
            return format(Decimal(value), f".{places}{verb}") if verb == "f" else f"{float(value):.{places}e}"
        case "b" if isinstance(value, int):
            return format(int(value), "b")
        case "x" | "X" if isinstance(value, int) and not isinstance(value, bool):
            return format(int(value), verb)
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if verb == "X" else digits
        case "o" if isinstance(value, int) and not isinstance(value, bool):
            return format(int(value), "o")
    if verb not in "sdfebxXo":
        raise EvalError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    kind = values.type_name(values.type_of(value))
    raise EvalError(f"error during formatting: no formatting clause {verb} for type {kind}")


_TAKES = {
    "d": ("int", "uint"),
    "f": ("double",),
    "e": ("double",),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
}


def unformattable(text: str, kinds: list[str]) -> str:
    """Why ``format`` cannot take arguments of these types; empty if it can."""
    used = 0
    for found in _VERB.finditer(text):
        verb = found[2]
        if verb == "%":
            continue
        if verb is None or verb not in "sdfebxXo":
            return f'could not parse formatting clause: unrecognized formatting clause "{verb or ""}"'
        if used >= len(kinds):
            return f"index {used} out of range"
        if verb != "s" and kinds[used] not in (*_TAKES[verb], "dyn"):
            return f"error during formatting: no formatting clause {verb} for type {kinds[used]}"
        used += 1
    return ""


def _said(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_said, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_said(key)}: {_said(each)}" for key, each in value.items())) + "}"
    if value is None:
        return "null"
    if isinstance(value, Type):
        return values.type_name(value)
    return values.to_string(value)


def _texts() -> None:
    declare("charAt", "string_char_at_int", ".(string, int) string", _char_at)
    declare("indexOf", "string_index_of_string", ".(string, string) int", _find)
    declare("indexOf", "string_index_of_string_int", ".(string, string, int) int", _find)
    declare("lastIndexOf", "string_last_index_of_string", ".(string, string) int", _rfind)
    declare("lastIndexOf", "string_last_index_of_string_int", ".(string, string, int) int", _rfind)
    declare("lowerAscii", "string_lower_ascii", ".(string) string", lambda text: text.translate(_LOWER))
    declare("upperAscii", "string_upper_ascii", ".(string) string", lambda text: text.translate(_UPPER))
    declare("replace", "string_replace_string_string", ".(string, string, string) string", _replace)
    declare("replace", "string_replace_string_string_int", ".(string, string, string, int) string", _replace)
    declare("split", "string_split_string", ".(string, string) list(string)", _split)
    declare("split", "string_split_string_int", ".(string, string, int) list(string)", _split)
    declare("substring", "string_substring_int", ".(string, int) string", _substring)
    declare("substring", "string_substring_int_int", ".(string, int, int) string", _substring)
    declare("trim", "string_trim", ".(string) string", lambda text: text.strip(_SPACE))
    declare("format", "string_format", ".(string, list(dyn)) string", _format)
    declare("strings.quote", "strings_quote", "(string) string", _quote)
    declare("join", "list_join", ".(list(string)) string", "".join)
    declare("join", "list_join_string", ".(list(string), string) string", lambda items, by: by.join(items))
    declare("find", "string_find_string", ".(string, string) string", _first_match)
    declare("findAll", "string_find_all_string", ".(string, string) list(string)", _all_matches)
    declare("findAll", "string_find_all_string_int", ".(string, string, int) list(string)", _all_matches)


def _first_match(text: str, expression: str) -> str:
    found = pattern(expression).search(text)
    return "" if found is None else str(found.group(0))


def _all_matches(text: str, expression: str, most: int = -1) -> list[str]:
    found = (each.group(0) for each in pattern(expression).finditer(text))
    return [each for each, _ in zip(found, range(most if most >= 0 else len(text) + 1), strict=False)]


def _sets() -> None:
    for name, holds in (
        ("contains", lambda one, other: all(values.contains(one, item) for item in other)),
        ("equivalent", lambda one, other: _within(one, other) and _within(other, one)),
        ("intersects", lambda one, other: any(values.contains(one, item) for item in other)),
    ):
        declare(f"sets.{name}", f"list_sets_{name}_list", "(list(T), list(T)) bool", holds)


def _within(one: list[Any], other: list[Any]) -> bool:
    return all(values.contains(other, item) for item in one)


_lists()
_texts()
_sets()
