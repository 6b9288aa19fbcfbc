"""A checked CEL expression as a Python function: compiled once, called for each object.

Theory.      Every part becomes a closure that takes the variables. Where the checker knows the overload, the
             closure calls its function directly; where an argument is ``dyn``, it asks the values for it.
             Macros run as Python loops, and end where cel-go's end. ``&&`` and ``||`` are true to CEL: an
             error on one side does not count if the other side decides. Costs are counted by blocks: an
             expression, and each turn of a loop, costs what its parts cost together, and a function whose
             work grows with its arguments what these are long. So the sum is that of cel-go, or more where a
             short circuit skips a part; a budget ends what would take too long. What looks at all that is in
             a value pays for each part, where cel-go counts the value as one: nothing else runs meanwhile.
Invariants.  Pure. A function of linear time for everything but loops within loops, which the budget bounds.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from kubewright.apiserver.cel import functions
from kubewright.apiserver.cel.calls import BUDGET, BudgetSpent, Slots, Step, called, pay, pay_for_parts
from kubewright.apiserver.cel.costs import LIST, MAP
from kubewright.apiserver.cel.syntax import Loop, Node
from kubewright.apiserver.cel.types import DYN, Optional, Type, field_of
from kubewright.apiserver.cel.values import EvalError, NoOverload, type_of

CALL_LIMIT = 1_000_000
"""What one call of a rule may cost."""

COPIED = 50
"""Items of a list that are copied for a cost of one."""


class Program:
    """A compiled expression. ``names`` are its variables, in the order of ``run``'s arguments."""

    def __init__(self, tree: Node, names: Sequence[str]) -> None:
        compiler = _Compiler(names)
        self._step, self._cost = compiler.block(tree)
        self._slots = compiler.slots

    def run(self, *args: Any, limit: int = CALL_LIMIT) -> tuple[Any, int]:
        """The value for these variables, and what it cost.

        Raises:
            EvalError: there is none.
            BudgetSpent: it costs too much.
        """
        slots = [limit - self._cost, *args, *([None] * (self._slots - len(args) - 1))]
        try:
            value = self._step(slots)
        except RecursionError:
            raise EvalError("the expression nests too deeply") from None
        if slots[BUDGET] < 0:
            raise BudgetSpent
        return value, limit - slots[BUDGET]


class _Compiler:
    def __init__(self, names: Sequence[str]) -> None:
        self._places: dict[str, list[int]] = {name: [at] for at, name in enumerate(names, 1)}
        self.slots = len(names) + 1
        self._cost = 0

    def block(self, node: Node) -> tuple[Step, int]:
        """A part that runs together, and what it costs."""
        before, self._cost = self._cost, 0
        step = self.step(node)
        cost, self._cost = self._cost, before
        return step, cost

    def step(self, node: Node) -> Step:
        match node.kind:
            case "const":
                value = node.value
                return lambda _slots: value
            case "ident":
                self._cost += 1
                return operator.itemgetter(self._places[node.name.removeprefix(".")][-1])
            case "select":
                return self._select(node)
            case "call":
                return self._call(node)
            case "list":
                return self._list(node)
            case "map":
                return self._map(node)
        assert node.loop is not None
        return self._loop(node.loop)

    # ------------------------------------------------------------ fields

    def _select(self, node: Node) -> Step:
        operand = self.step(node.args[0])
        given = node.args[0].type or DYN
        self._cost += not node.tests
        if given.kind == "struct":
            return _field(operand, given, node)
        if given.kind == "opaque":
            return _through(operand, given.params[0], node)
        name, tests = node.name, node.tests

        def select(slots: Slots) -> Any:
            value = operand(slots)
            if isinstance(value, Optional):
                found = functions.optional_field(value, name)
                return found.has if tests else found
            if not isinstance(value, dict):
                raise NoOverload
            if tests:
                return name in value
            if name not in value:
                raise EvalError(f"no such key: {name}")
            return value[name]

        return select

    def _optional_select(self, node: Node) -> Step:
        operand, name = self.step(node.args[0]), str(node.args[1].value)
        given = node.args[0].type or DYN
        inner = given.params[0] if given.kind == "opaque" and given.params else given
        if inner.kind != "struct":
            call = node.overloads[0].call
            return lambda slots: call(operand(slots), name)
        key, kind = field_of(inner, name) or (name, DYN)

        def select(slots: Slots) -> Optional:
            value = operand(slots)
            if isinstance(value, Optional):
                value = value.value if value.has else {}
            found = value.get(key) if isinstance(value, dict) else None
            return Optional(False) if found is None else Optional(True, _made(kind, found))

        return select

    # ------------------------------------------------------------ aggregates

    def _list(self, node: Node) -> Step:
        self._cost += LIST
        steps, optional = [self.step(each) for each in node.args], node.optional
        if all(each.kind == "const" for each in node.args) and not optional:
            known = [each.value for each in node.args]
            return lambda _slots: known
        if not optional:
            return lambda slots: [step(slots) for step in steps]

        def made(slots: Slots) -> list[Any]:
            out = list[Any]()
            for index, step in enumerate(steps):
                value = step(slots)
                if index not in optional:
                    out.append(value)
                elif value.has:
                    out.append(value.value)
            return out

        return made

    def _map(self, node: Node) -> Step:
        self._cost += MAP
        keys = [self.step(each) for each in node.args[::2]]
        items, optional = [self.step(each) for each in node.args[1::2]], node.optional

        def made(slots: Slots) -> dict[Any, Any]:
            out = dict[Any, Any]()
            for index, (key, item) in enumerate(zip(keys, items, strict=True)):
                name, value = key(slots), item(slots)
                if not isinstance(name, str | int | bool):
                    raise EvalError(f"unsupported key type: {type_of(name)}")
                if index not in optional:
                    out[name] = value
                elif value.has:
                    out[name] = value.value
            return out

        return made

    # ------------------------------------------------------------ calls

    def _call(self, node: Node) -> Step:
        match node.name:
            case "_&&_" | "_||_":
                return _logical([self.step(arg) for arg in node.args], decides=node.name == "_||_")
            case "_?_:_":
                return self._conditional(node)
            case "@not_strictly_false":
                return _not_false(self.step(node.args[0]))
            case "_?._":
                return self._optional_select(node)
            case "or" | "orValue" if node.target is not None:
                return _otherwise(node.name, self.step(node.target), self.step(node.args[0]))
        given = ([node.target] if node.target is not None else []) + node.args
        steps = [self._whole(each) for each in given]
        step, cost = called(node, given, steps)
        self._cost += cost
        return step

    def _whole(self, node: Node) -> Step:
        """An argument, with all that is in it as values of CEL."""
        step, kind = self.step(node), node.type or DYN
        return step if kind.deep is None else _then(step, kind, kind.deep)

    def _conditional(self, node: Node) -> Step:
        test, yes, no = (self.step(arg) for arg in node.args)

        def conditional(slots: Slots) -> Any:
            found = test(slots)
            if found is True:
                return yes(slots)
            if found is False:
                return no(slots)
            raise NoOverload("_?_:_")

        return conditional

    # ------------------------------------------------------------ loops

    def _loop(self, loop: Loop) -> Step:
        if loop.macro == "bind":
            return self._bind(loop)
        over = self.step(loop.over)
        self._cost += 2
        places = [self._new(name) for name in loop.variables]
        compiled = [self.block(part) for part in loop.body]
        for name in loop.variables:
            self._places[name].pop()
        steps, cost = [step for step, _ in compiled], sum(cost for _, cost in compiled)
        make = _MACROS[loop.macro]
        return make(_Turns(over, places, cost + _OVERHEAD[loop.macro]), steps)

    def _new(self, name: str) -> int:
        place = self.slots
        self.slots += 1
        self._places.setdefault(name, []).append(place)
        return place

    def _bind(self, loop: Loop) -> Step:
        self._cost += LIST
        start = self.step(loop.start)
        place = self._new(loop.accumulator)
        result = self.step(loop.result)
        self._places[loop.accumulator].pop()

        def bind(slots: Slots) -> Any:
            slots[place] = start(slots)
            return result(slots)

        return bind


def _made(kind: Type, value: Any) -> Any:
    return value if kind.convert is None else kind.convert(value)


def _field(operand: Step, given: Type, node: Node) -> Step:
    """A field of an object whose schema is known."""
    key, kind = field_of(given, node.name) or (node.name, DYN)
    name, convert = node.name, kind.convert
    if node.tests:
        return lambda slots: operand(slots).get(key) is not None

    def select(slots: Slots) -> Any:
        found = operand(slots).get(key)
        if found is None:  # null, where the schema allows it, is as good as absent
            raise EvalError(f"no such key: {name}")
        return found

    return select if convert is None else _then(select, kind, convert)


def _through(operand: Step, inner: Type, node: Node) -> Step:
    """A field of what an optional holds."""
    key, kind = field_of(inner, node.name) or (node.name, DYN)
    tests = node.tests

    def select(slots: Slots) -> Any:
        given = operand(slots)
        found = given.value.get(key) if given.has and isinstance(given.value, dict) else None
        if tests:
            return found is not None
        return Optional(False) if found is None else Optional(True, _made(kind, found))

    return select


def _then(step: Step, kind: Type, convert: Callable[[Any], Any]) -> Step:
    """A value of JSON as one of CEL, which costs what is looked at; a list that becomes a set is copied."""
    copied = kind.kind == "list" and kind.params[0].deep is None

    def converted(slots: Slots) -> Any:
        value = step(slots)
        if isinstance(value, list | dict):
            if copied:
                pay(slots, len(value) // COPIED)
            else:
                pay_for_parts(slots, value)
        return convert(value)

    return converted


def _logical(steps: Sequence[Step], *, decides: bool) -> Step:
    """``||`` if true decides, ``&&`` if false does."""
    other = not decides

    def logical(slots: Slots) -> Any:
        failed: EvalError | None = None
        for step in steps:
            try:
                value = step(slots)
            except EvalError as error:
                failed = failed or error
                continue
            if value is decides:
                return decides
            if value is not other:
                failed = failed or NoOverload()
        if failed is not None:
            _again(failed)
        return other

    return logical


def _again(error: EvalError) -> NoReturn:
    raise error


def _not_false(step: Step) -> Step:
    def not_false(slots: Slots) -> Any:
        try:
            return step(slots) is not False
        except EvalError:
            return True

    return not_false


def _otherwise(name: str, given: Step, other: Step) -> Step:
    def otherwise(slots: Slots) -> Any:
        found = given(slots)
        if not isinstance(found, Optional):
            raise NoOverload(name)
        if name == "or":
            return found if found.has else other(slots)
        return found.value if found.has else other(slots)

    return otherwise


# ---------------------------------------------------------------- macros


class _Turns:
    """The turns of a loop: what is looped over, where the variables are, and what a turn costs."""

    __slots__ = ("_cost", "_over", "_places")

    def __init__(self, over: Step, places: Sequence[int], cost: int) -> None:
        self._over, self._places, self._cost = over, tuple(places), cost

    def each(self, slots: Slots) -> Any:
        """Set the variables for each item; yields the key or index where there are two, else the item."""
        given, cost = self._over(slots), self._cost
        if isinstance(given, dict):
            items: Any = given.items() if len(self._places) == 2 else given
        elif isinstance(given, list):
            items = enumerate(given) if len(self._places) == 2 else given
        else:
            raise NoOverload
        first, second = self._places[0], self._places[-1]
        for item in items:
            slots[BUDGET] -= cost
            if slots[BUDGET] < 0:
                raise BudgetSpent
            if first == second:
                slots[first] = item
                yield item
            else:
                slots[first], slots[second] = item
                yield item[0]


def _quantified(decides: bool) -> Callable[[_Turns, Sequence[Step]], Step]:
    """``exists`` if true decides, ``all`` if false does."""
    other = not decides

    def make(turns: _Turns, steps: Sequence[Step]) -> Step:
        test = steps[0]

        def quantified(slots: Slots) -> Any:
            failed: EvalError | None = None
            for _ in turns.each(slots):
                try:
                    value = test(slots)
                except EvalError as error:
                    failed = error
                    continue
                if value is decides:
                    return decides
                if value is not other:
                    failed = NoOverload()
            if failed is not None:
                raise failed
            return other

        return quantified

    return make


def _is(test: Step, slots: Slots) -> bool:
    found = test(slots)
    if found is True or found is False:
        return bool(found)
    raise NoOverload("_?_:_")


def _exists_one(turns: _Turns, steps: Sequence[Step]) -> Step:
    return lambda slots: sum(_is(steps[0], slots) for _ in turns.each(slots)) == 1


def _filtered(turns: _Turns, steps: Sequence[Step]) -> Step:
    return lambda slots: [item for item in turns.each(slots) if _is(steps[0], slots)]


def _mapped(turns: _Turns, steps: Sequence[Step]) -> Step:
    make = steps[-1]
    if len(steps) == 1:
        return lambda slots: [make(slots) for _ in turns.each(slots)]
    return lambda slots: [make(slots) for _ in turns.each(slots) if _is(steps[0], slots)]


def _as_map(turns: _Turns, steps: Sequence[Step]) -> Step:
    make, tests = steps[-1], steps[:-1]
    return lambda slots: {
        key: make(slots) for key in turns.each(slots) if all(_is(test, slots) for test in tests)
    }


def _as_entries(turns: _Turns, steps: Sequence[Step]) -> Step:
    make, tests = steps[-1], steps[:-1]

    def entries(slots: Slots) -> dict[Any, Any]:
        out = dict[Any, Any]()
        for _ in turns.each(slots):
            if all(_is(test, slots) for test in tests):
                for key, value in make(slots).items():
                    if key in out:
                        raise EvalError(f"insert failed: key {key} already exists")
                    out[key] = value
        return out

    return entries


_MACROS: Mapping[str, Callable[[_Turns, Sequence[Step]], Step]] = {
    "all": _quantified(decides=False),
    "exists": _quantified(decides=True),
    "exists_one": _exists_one,
    "filter": _filtered,
    "map": _mapped,
    "transformList": _mapped,
    "transformMap": _as_map,
    "transformMapEntry": _as_entries,
}
_OVERHEAD: Mapping[str, int] = {
    "all": 3,
    "exists": 4,
    "exists_one": 1,
    "filter": 12,
    "map": 12,
    "transformList": 12,
    "transformMap": 2,
    "transformMapEntry": 2,
}
"""What a turn costs beside what is written: the accumulator, and the lists that cel-go joins."""
