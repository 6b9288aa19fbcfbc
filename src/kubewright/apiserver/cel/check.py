"""The type check of a CEL expression: every part gets its type, every call its overloads.

Theory.      As in cel-go: types are inferred from the leaves up; the parameters of a function's signature,
             and the items of an empty list, are unknowns that are bound where they meet a type. A call keeps
             each overload that agrees with its arguments; if there is more than one, some argument is
             ``dyn``, and which one is meant is known only when the expression runs. Aggregates have items of
             one type. Literals of durations, timestamps and patterns are tried here.
Invariants.  Pure but for the tree, whose types and overloads are set. The first mistake is raised, with its
             place.
Continues    in ``costs`` and ``evaluate``.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import NoReturn

from kubewright.apiserver.cel import functions, libraries, objects, values
from kubewright.apiserver.cel.functions import FUNCTIONS, Overload
from kubewright.apiserver.cel.syntax import Loop, Node, fail, parse
from kubewright.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Bound,
    Type,
    Uint,
    assignable,
    bare,
    field_of,
    free_is_dyn,
    list_of,
    map_of,
    opaque,
    optional_of,
    param,
    same,
)
from kubewright.apiserver.cel.values import EvalError

Variables = Mapping[str, Type]

TYPES: Mapping[str, Type] = {
    **{each.kind: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TYPE)},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "optional_type": optional_of(DYN),
    **{
        name: opaque(name)
        for name in (
            "kubernetes.Semver",
            "kubernetes.NamedFormat",
            "net.IP",
            "net.CIDR",
        )
    },
}
"""The types that expressions may name."""

_CONSTANTS: Mapping[type, Type] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}
_LITERALS = {"duration": values.to_span, "timestamp": values.to_moment}


LIBRARIES = (libraries, objects)
"""What declares functions beside the standard ones."""


def checked(text: str, variables: Variables) -> Node:
    """The tree of an expression with its types.

    Raises:
        CelError: it cannot be read, or its types do not agree.
    """
    tree = parse(text)
    _Checker(text, variables).whole(tree)
    return tree


class _Checker:
    def __init__(self, text: str, variables: Variables) -> None:
        self._text = text
        self._scopes: list[dict[str, Type]] = [dict(variables)]
        self._bound: Bound = {}
        self._fresh = 0
        self._seen: list[Node] = []
        self._formatted: set[Node] = set()
        """What is inside of an argument of ``format``, which takes items of several types."""
        self._formats = 0

    def whole(self, tree: Node) -> None:
        self._check(tree)
        for node in self._seen:
            node.type = free_is_dyn(bare(node.type or DYN, self._bound))
        for node in self._seen:
            if node.kind in ("list", "map") and node not in self._formatted:
                self._alike(node)
            elif node.name == "format" and node.target is not None:
                self._format(node)

    def _alike(self, node: Node) -> None:
        """Items, keys and values of an aggregate have one type each; dyn is one of its own."""
        for step in range(1 if node.kind == "list" else 2):
            first: Type | None = None
            for index, item in enumerate(node.args[step :: 2 if node.kind == "map" else 1]):
                found = item.type or DYN
                if index in node.optional and (node.kind == "list" or step):
                    found = found.params[0] if found.params else DYN
                if first is not None and not same(first, found):
                    self._fail(item, f"expected type '{first}' but found '{found}'")
                first = first or found

    def _format(self, node: Node) -> None:
        """Try what ``format`` is told to do, where that is written out."""
        target, args = node.target, node.args[0] if node.args else None
        if target is None or args is None or not isinstance(target.value, str) or args.kind != "list":
            return
        kinds = [(item.type or DYN).kind for item in args.args]
        if words := libraries.unformattable(target.value, kinds):
            self._fail(args, words)

    def _fail(self, node: Node, words: str) -> NoReturn:
        fail(self._text, node.at, words)

    def _unknown(self) -> Type:
        self._fresh += 1
        return param(f"_{self._fresh}")

    def _check(self, node: Node) -> Type:
        match node.kind:
            case "const":
                found = _CONSTANTS[type(node.value)]
            case "ident":
                found = self._ident(node)
            case "select":
                found = self._select(node)
            case "call":
                found = self._call(node)
            case "list":
                found = list_of(self._joined(node.args, node.optional, self._unknown()))
            case "map":
                keys = self._joined(node.args[::2], frozenset(), self._unknown())
                found = map_of(keys, self._joined(node.args[1::2], node.optional, self._unknown()))
            case _:
                found = self._loop(node)
        node.type = found
        self._seen.append(node)
        if self._formats:
            self._formatted.add(node)
        return found

    def _ident(self, node: Node) -> Type:
        name = node.name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._named_type(node, name)

    def _named_type(self, node: Node, name: str) -> Type:
        """The type that a name stands for, as a value."""
        known = TYPES.get(name)
        if known is None:
            self._fail(node, f"undeclared reference to '{name}' (in container '')")
        node.kind, node.value = "const", known
        return Type("type", params=(known,))

    def _select(self, node: Node) -> Type:
        name = _qualified(node)
        if name in TYPES and not node.tests and not self._is_variable(name.partition(".")[0]):
            return self._named_type(node, name)
        found = self._field(node, self._check(node.args[0]), node.name)
        return BOOL if node.tests else found

    def _is_variable(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _field(self, node: Node, operand: Type, name: str) -> Type:
        operand = bare(operand, self._bound)
        match operand.kind:
            case "dyn" | "error":
                return DYN
            case "map":
                return operand.params[1]
            case "param":
                self._bound[operand.name] = DYN
                return DYN
            case "struct":
                if (found := field_of(operand, name)) is None:
                    self._fail(node, f"undefined field '{name}'")
                return found[1]
            case "opaque" if operand.name == "optional_type":
                inner = self._field(node, operand.params[0], name)
                return inner if node.tests else optional_of(inner)
        return self._fail(node, f"type '{operand}' does not support field selection")

    def _joined(self, items: list[Node], optional: frozenset[int], items_type: Type) -> Type:
        """The one type of all items."""
        for index, item in enumerate(items):
            found = self._check(item)
            if index in optional:
                inner = self._unknown()
                if not assignable(optional_of(inner), found, self._bound):
                    self._fail(
                        item, f"expected type 'optional_type({inner})' but found '{self._shown(found)}'"
                    )
                found = inner
            if not assignable(items_type, found, self._bound) or bare(found, self._bound).kind == "dyn":
                items_type = DYN
        return items_type

    def _shown(self, given: Type) -> str:
        return str(free_is_dyn(bare(given, self._bound)))

    def _call(self, node: Node) -> Type:
        name = "" if node.target is None else _qualified(node.target)
        if f"{name}.{node.name}" in FUNCTIONS and not self._is_variable(name.partition(".")[0]):
            node.name, node.target = f"{name}.{node.name}", None
        self._formats += node.name == "format"
        for each in ([node.target] if node.target is not None else []) + node.args:
            self._check(each)
        self._formats -= node.name == "format"
        if node.name == "_?._":
            return self._optional_select(node)
        self._literal(node)
        if node.name in ("_&&_", "_||_"):
            return self._logical(node)
        return self._resolved(node)

    def _optional_select(self, node: Node) -> Type:
        operand, name = bare(node.args[0].type or DYN, self._bound), str(node.args[1].value)
        node.overloads = tuple(FUNCTIONS["_?._"])
        found = self._field(node, operand, name)
        is_optional = operand.kind == "opaque" and operand.name == "optional_type"
        return found if is_optional else optional_of(found)

    def _logical(self, node: Node) -> Type:
        for arg in node.args:
            if not assignable(BOOL, arg.type or DYN, self._bound):
                self._no_overload(
                    node, [BOOL if each is not arg else arg.type or DYN for each in node.args[:2]]
                )
        node.overloads = tuple(FUNCTIONS[node.name])
        return BOOL

    def _resolved(self, node: Node) -> Type:
        given = [each.type or DYN for each in ([node.target] if node.target else []) + node.args]
        if node.name not in FUNCTIONS:
            self._fail(node, f"undeclared reference to '{node.name}' (in container '')")
        kept, result = list[Overload](), ERROR
        for overload in FUNCTIONS[node.name]:
            if overload.member != (node.target is not None) or len(overload.args) != len(given):
                continue
            self._fresh += 1
            names: dict[str, Type] = {}
            trial = ChainMap[str, Type]({}, self._bound)
            if all(
                assignable(self._instance(want, names), have, trial)
                for want, have in zip(overload.args, given, strict=True)
            ):
                kept.append(overload)
                found = bare(self._instance(overload.result, names), trial)
                self._bound.update(trial.maps[0])
                result = found if len(kept) == 1 or _equal(result, found) else DYN
        if not kept:
            self._no_overload(node, given)
        node.overloads = tuple(kept)
        return result

    def _instance(self, given: Type, names: dict[str, Type]) -> Type:
        """A type of a signature with unknowns of this call for its parameters."""
        if given.kind == "param":
            return names.setdefault(given.name, param(f"{given.name}{self._fresh}"))
        if not given.params:
            return given
        return Type(given.kind, given.name, tuple(self._instance(each, names) for each in given.params))

    def _no_overload(self, node: Node, given: list[Type]) -> NoReturn:
        shown = [self._shown(each) for each in given]
        applied = (
            f"{shown[0]}.({', '.join(shown[1:])})" if node.target is not None else f"({', '.join(shown)})"
        )
        self._fail(node, f"found no matching overload for '{node.name}' applied to '{applied}'")

    def _literal(self, node: Node) -> None:
        """Try the literals that cannot be right or wrong depending on anything."""
        literal = node.args[-1] if node.args else None
        if literal is None or literal.kind != "const" or not isinstance(literal.value, str):
            return
        try:
            if node.name == "matches":
                functions.pattern(literal.value)
            elif node.name in _LITERALS:
                _LITERALS[node.name](literal.value)
        except EvalError as error:
            self._fail(literal, f"invalid {node.name} argument: {error}")

    def _loop(self, node: Node) -> Type:
        loop = node.loop
        assert loop is not None
        kinds = list(self._ranged(loop, self._check(loop.over)))
        start = self._check(loop.start)
        self._scopes.append({loop.accumulator: start})
        self._scopes.append(dict(zip(loop.variables, kinds, strict=False)))
        if not assignable(BOOL, self._check(loop.condition), self._bound):
            self._fail(
                loop.condition, f"expected type 'bool' but found '{self._shown(loop.condition.type or DYN)}'"
            )
        step = self._check(loop.step)
        if loop.macro != "bind" and not assignable(start, step, self._bound):
            self._fail(loop.step, f"expected type '{self._shown(start)}' but found '{self._shown(step)}'")
        self._scopes.pop()
        result = self._check(loop.result)
        self._scopes.pop()
        return result

    def _ranged(self, loop: Loop, over: Type) -> Iterator[Type]:
        """The types of the variables of a loop."""
        over, two = bare(over, self._bound), len(loop.variables) == 2
        match over.kind:
            case "list":
                yield from (INT, over.params[0]) if two else (over.params[0],)
            case "map":
                yield from over.params if two else over.params[:1]
            case "dyn" | "error" | "param":
                yield from (DYN, DYN)
            case _:
                words = "cannot be range of a comprehension (must be list, map, or dynamic)"
                self._fail(loop.over, f"expression of type '{over}' {words}")


def _equal(one: Type, other: Type) -> bool:
    return str(one) == str(other)


def _qualified(node: Node) -> str:
    """The dotted name that a chain of selects is; empty if it is none."""
    if node.kind == "ident":
        return node.name.removeprefix(".")
    if node.kind == "select" and not node.tests and (inner := _qualified(node.args[0])):
        return f"{inner}.{node.name}"
    return ""
