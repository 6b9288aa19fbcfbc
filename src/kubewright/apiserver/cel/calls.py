"""How a call of a function runs, and what it has cost.

Theory.      Where the checker found one overload, its function is called directly; where an argument is
             ``dyn``, the values say which. A function whose work grows with its arguments pays for their
             length before it runs, or for that of its result after it. What most rules do (compare texts,
             look one up, match it) has a closure of its own.
Invariants.  Pure but for the budget, the first of the variables. A call pays what cel-go counts for it.
Called by    ``evaluate``.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from kubewright.apiserver.cel import functions
from kubewright.apiserver.cel.costs import BY_LETTER, BY_PATTERN, LIST
from kubewright.apiserver.cel.functions import Overload, dispatched
from kubewright.apiserver.cel.syntax import Node
from kubewright.apiserver.cel.types import DYN, Type
from kubewright.apiserver.cel.values import SetList

Slots = list[Any]
"""The variables; the first slot is the budget that is left."""
Step = Callable[[Slots], Any]
BUDGET = 0


class BudgetSpent(Exception):  # no EvalError: nothing makes up for it
    """An expression costs more than it may."""


def called(node: Node, given: Sequence[Node], steps: Sequence[Step]) -> tuple[Step, int]:
    """A call with its arguments, and what it costs beside what it pays itself."""
    if (quick := _quick(node, given, steps)) is not None:
        return quick, 0
    call = _implementation(node, given)
    if node.name in _SPENT and not _is_cheap(node, given):
        return _counted(node.name, call, steps), 0
    return _applied(call, steps), 1


def _quick(node: Node, given: Sequence[Node], steps: Sequence[Step]) -> Step | None:
    """What most rules do, without a detour: texts compared, looked up among some, or matched."""
    if len(given) != 2 or (given[0].type or DYN).kind != "string":
        return None
    other, name = given[1], node.name
    if name in ("_==_", "_!=_") and (other.type or DYN).kind == "string":
        return _texts_compared(steps[0], steps[1], wanted=name == "_==_")
    if name == "matches" and other.kind == "const":
        return _matched(steps[0], str(other.value))
    if name == "@in" and other.kind == "list" and all(isinstance(each.value, str) for each in other.args):
        return _among(steps[0], [each.value for each in other.args])
    return None


def _texts_compared(one: Step, other: Step, *, wanted: bool) -> Step:
    def compared(slots: Slots) -> Any:
        first, second = one(slots), other(slots)
        slots[BUDGET] -= (min(len(first), len(second)) + 9) // 10
        return (first == second) is wanted

    return compared


def _matched(text: Step, expression: str) -> Step:
    search, per_letter = functions.pattern(expression).search, _spent("matches", ("", expression), None)

    def matched(slots: Slots) -> Any:
        value = text(slots)
        pay(slots, (len(value) + 10) // 10 * per_letter)
        return search(value) is not None

    return matched


def _among(text: Step, known: list[str]) -> Step:
    some, cost = frozenset(known), len(known)

    def among(slots: Slots) -> Any:
        slots[BUDGET] -= cost
        return text(slots) in some

    return among


def _implementation(node: Node, given: Sequence[Node]) -> Callable[..., Any]:
    """The function to call: the overload that the checker found, or one that is found by the values."""
    overloads: tuple[Overload, ...] = node.overloads
    if len(overloads) == 1 and all(map(_agrees, overloads[0].args, given)):
        return overloads[0].call
    return dispatched(node.name, overloads)


def _agrees(wanted: Type, given: Node) -> bool:
    """Whether the values of an argument are surely of the type that an overload takes."""
    return wanted.kind in ("dyn", "param") or (given.type or DYN).kind != "dyn"


_SCALARS = ("bool", "int", "uint", "double", "timestamp", "duration")


def _is_cheap(node: Node, given: Sequence[Node]) -> bool:
    """Whether a function whose cost may grow has arguments here of one size."""
    return node.name[0] == "_" and any((each.type or DYN).kind in _SCALARS for each in given)


def _applied(call: Callable[..., Any], steps: Sequence[Step]) -> Step:
    match steps:
        case [one]:
            return lambda slots: call(one(slots))
        case [one, other]:
            return lambda slots: call(one(slots), other(slots))
    return lambda slots: call(*(step(slots) for step in steps))


def _counted(name: str, call: Callable[..., Any], steps: Sequence[Step]) -> Step:
    whole, at = name in _WHOLES, _WHOLES.get(name, 0)

    def counted(slots: Slots) -> Any:
        args = [step(slots) for step in steps]
        if whole:
            pay_for_parts(slots, args[at])
        pay(slots, _spent(name, args, None) if name not in _BY_RESULT else _before(name, args))
        made = call(*args)
        if name in _BY_RESULT:
            pay(slots, _spent(name, args, made))
        return made

    return counted


_WHOLES = {
    "_==_": 0,
    "_!=_": 0,
    "_+_": 0,
    "format": 1,
    "sets.contains": 0,
    "sets.intersects": 0,
    "sets.equivalent": 0,
}
"""Functions that look at all that is in an argument, however deep, and which argument that is."""

_BY_RESULT = ("join", "slice", "lists.range", "reverse", "flatten")


def _before(name: str, args: Sequence[Any]) -> int:
    """What is paid before there is a result: for the letters that ``join`` repeats."""
    return len(args[0]) * len(args[1]) // 100 if name == "join" and len(args) > 1 else 0


def pay(slots: Slots, cost: int) -> None:
    slots[BUDGET] -= cost
    if slots[BUDGET] < 0:
        raise BudgetSpent


# ---------------------------------------------------------------- costs


_NESTING = (list, dict)


def parts_of(value: Any, most: int) -> int:
    """How many values are inside of a value; not many more than ``most`` are counted. A set of lists or
    objects counts squared: each is looked up among all."""
    count, todo = 0, [value] if isinstance(value, _NESTING) else []
    while todo and count <= most:
        each = todo.pop()
        inner = [
            part for part in (each.values() if isinstance(each, dict) else each) if isinstance(part, _NESTING)
        ]
        count += len(inner) ** 2 if inner and isinstance(each, SetList) else len(each)
        todo += inner
    return count


def pay_for_parts(slots: Slots, value: Any) -> None:
    """Pay for a look at all that is in a value: cel-go counts what is seen from outside, though that may have
    a million parts, and ends what takes long by the clock."""
    pay(slots, parts_of(value, slots[BUDGET]))


def _spent(name: str, args: Sequence[Any], result: Any) -> int:
    """What a call has cost by the sizes of its values, where that is more than one."""
    how = _SPENT.get(name)
    return 1 if how is None else how(args, result)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | dict) else 1


def _letters(which: int, factor: float = BY_LETTER) -> Callable[[Sequence[Any], Any], int]:
    return lambda args, _result: math.ceil(_length(args[which]) * factor)


def _pattern_spent(args: Sequence[Any], _result: Any) -> int:
    return math.ceil((1 + _length(args[0])) * BY_LETTER) * math.ceil(_length(args[1]) * BY_PATTERN)


def _part_spent(args: Sequence[Any], _result: Any) -> int:
    return math.ceil(_length(args[0]) * BY_LETTER) * math.ceil(_length(args[1]) * BY_LETTER)


def _smaller(args: Sequence[Any], _result: Any) -> int:
    return math.ceil(min(_length(args[0]), _length(args[1])) * BY_LETTER)


def _squared(which: int) -> Callable[[Sequence[Any], Any], int]:
    return lambda args, _result: _length(args[which]) ** 2 * 2 + LIST + 1


def _product(factor: int) -> Callable[[Sequence[Any], Any], int]:
    return lambda args, _result: 1 + _length(args[0]) * _length(args[1]) * factor


def _traversed(args: Sequence[Any], _result: Any) -> int:
    value = args[0]
    if isinstance(value, list):
        return sum(int(len(item) * BY_LETTER) if isinstance(item, str) else 1 for item in value)
    return math.ceil(_length(value) * BY_LETTER)


_SPENT: dict[str, Callable[[Sequence[Any], Any], int]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(
        (
            "url",
            "lowerAscii",
            "upperAscii",
            "substring",
            "trim",
            "cidr",
            "isIP",
            "isCIDR",
            "quantity",
            "isQuantity",
            "semver",
            "isSemver",
            "startsWith",
            "endsWith",
            "bytes",
            "format",
            "strings.quote",
        ),
        _letters(0),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _letters(0, 2 * BY_LETTER)),
    **dict.fromkeys(("find", "findAll", "matches"), _pattern_spent),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _smaller),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _product(1)),
    **dict.fromkeys(
        ("slice", "lists.range", "reverse", "flatten"), lambda _args, made: _length(made) + LIST + 1
    ),
    **dict.fromkeys(("distinct", "sort"), _squared(0)),
    "@sortByAssociatedKeys": _squared(1),
    "sets.equivalent": _product(2),
    "join": lambda _args, made: math.ceil(_length(made) * 2 * BY_LETTER),
    "contains": _part_spent,
    "@in": lambda args, _result: _length(args[1]) if isinstance(args[1], list) else 1,
    "_+_": lambda args, _result: math.ceil((_length(args[0]) + _length(args[1])) * BY_LETTER),
    "validate": lambda args, _result: math.ceil((1 + _length(args[1])) * BY_LETTER) * 25,
}
