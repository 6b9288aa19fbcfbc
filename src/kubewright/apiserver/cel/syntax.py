"""CEL's syntax: from the text of an expression to its tree, with macros expanded.

Theory.      An expression is read by precedence climbing. What the specification calls macros (``has``,
             ``all``, ``map``, ``optMap`` …) becomes a select that only tests, or a comprehension: a loop over
             a list or a map with an accumulator. So the checker, the estimator of costs and the evaluator
             know one kind of loop. A chain of ``&&`` or of ``||`` is one node with many arguments, as a rule
             may have hundreds.
Invariants.  Pure. Nothing nests deeper than ``MOST_DEPTH``, so no walk over a tree needs a deeper stack than
             Python's. A text that is no expression raises ``SyntaxError_`` with its line and column.
Continues    in ``check``.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from kubewright.apiserver.cel.types import RESERVED, Type, Uint

MOST_DEPTH = 120
"""Nested parts of an expression. cel-go has 250; no rule of a known definition has twenty."""
MOST_CHARS = 100_000
"""Of an expression, as in cel-go."""

ACCUMULATOR = "@result"


class CelError(Exception):
    """An expression cannot be compiled: what is wrong, with the line and the column where it is."""

    def __init__(self, words: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"ERROR: <input>:{line}:{column}: {words}")


@dataclass(slots=True, eq=False)
class Node:
    """A part of an expression.

    ``kind``   const, ident, select, call, list, map, loop; ``name``: the identifier, the field, the function
    ``args``   the operand of a select, arguments of a call, items of a list, keys and values of a map in turn
    ``target`` of a call of a member function
    ``optional``  of a list and a map: the indexes of optional items and entries; of a select: it tests only
    ``type``, ``overloads``  are the checker's
    """

    kind: str
    at: int
    name: str = ""
    args: list["Node"] = field(default_factory=list)
    target: "Node | None" = None
    value: Any = None
    optional: frozenset[int] = frozenset()
    tests: bool = False
    loop: "Loop | None" = None
    type: Type | None = None
    overloads: tuple[Any, ...] = ()


@dataclass(slots=True)
class Loop:
    """A comprehension: for each of ``over``, while ``condition``: accumulator = ``step``; then ``result``.

    ``macro``   the macro it comes from; ``body``: what that evaluates for each item (filter, transform).
    """

    macro: str
    variables: tuple[str, ...]
    over: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node
    body: tuple[Node, ...]


_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f]+|//[^\n]*)+)
    |(?P<float>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
    |(?P<int>0x[0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
    |(?P<text>(?:[bB][rR]?|[rR][bB]?)?(?:\"\"\"|\'\'\'|\"|\'))
    |(?P<word>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 3,
    "<=": 3,
    ">": 3,
    ">=": 3,
    "in": 3,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_CODE = re.compile(r"x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})")


@dataclass(frozen=True, slots=True)
class Token:
    """``kind``: a group of the pattern, ``end``, or the sign itself; ``value``: that of a literal."""

    kind: str
    text: str
    at: int
    value: Any = None


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column of an offset, as cel-go counts them."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def fail(text: str, at: int, words: str) -> NoReturn:
    raise CelError(words, *position(text, at))


def parse(text: str) -> Node:
    """The tree of an expression.

    Raises:
        CelError: it is none, too long, or too deep.
    """
    if len(text) > MOST_CHARS:
        raise CelError(f"expression code point size exceeds limit: size: {len(text)}, limit {MOST_CHARS}")
    parser = _Parser(text)
    tree = parser.expression()
    parser.take("end")
    return tree


class _Reader:
    """Tokens of a text, one ahead."""

    def __init__(self, text: str) -> None:
        self.text, self._at = text, 0
        self.now = self._read()

    def advance(self) -> Token:
        token, self.now = self.now, self._read()
        return token

    def take(self, kind: str) -> Token:
        if self.now.kind != kind:
            what = "<EOF>" if self.now.kind == "end" else f"'{self.now.text}'"
            wanted = "<EOF>" if kind == "end" else f"'{kind}'"
            fail(self.text, self.now.at, f"Syntax error: mismatched input {what} expecting {wanted}")
        return self.advance()

    def given(self, kind: str) -> bool:
        """Whether a token of this kind stands here, which is then taken."""
        if self.now.kind != kind:
            return False
        self.advance()
        return True

    def _read(self) -> Token:
        while True:
            at = self._at
            if at >= len(self.text):
                return Token("end", "", at)
            found = _TOKEN.match(self.text, at)
            if found is None:
                fail(self.text, at, f"Syntax error: token recognition error at: '{self.text[at]}'")
            self._at = found.end()
            if found.lastgroup != "space":
                return self._token(str(found.lastgroup), found[0], at)

    def _token(self, kind: str, text: str, at: int) -> Token:
        match kind:
            case "float":
                return Token("literal", text, at, float(text))
            case "int":
                return Token("int", text, at, _integer(text))
            case "text":
                return Token("literal", text, at, self._quoted(text, at))
            case "word" if text in ("true", "false", "null"):
                return Token("literal", text, at, {"true": True, "false": False, "null": None}[text])
            case "word" if text != "in":
                return Token("word", text, at)
        return Token(text, text, at)

    def _quoted(self, start: str, at: int) -> str | bytes:
        """The value of a text or of bytes, up to its end."""
        prefix = start.rstrip("\"'").lower()
        quote = start[len(prefix) :]
        parts, raw, is_bytes = list[str | bytes](), "r" in prefix, "b" in prefix
        while not self.text.startswith(quote, self._at):
            if self._at >= len(self.text) or (len(quote) == 1 and self.text[self._at] in "\r\n"):
                fail(self.text, at, f"Syntax error: token recognition error at: '{self.text[at : at + 20]}'")
            letter = self.text[self._at]
            self._at += 1
            if letter != "\\":
                parts.append(letter)
            elif raw:
                parts.append(letter + self.text[self._at : self._at + 1])
                self._at += 1
            else:
                parts.append(self._escape(is_bytes))
        self._at += len(quote)
        if is_bytes:
            return b"".join(each if isinstance(each, bytes) else each.encode() for each in parts)
        return "".join(str(each) for each in parts)

    def _escape(self, is_bytes: bool) -> str | bytes:
        letter = self.text[self._at : self._at + 1]
        if letter in _SIMPLE:
            self._at += 1
            return _SIMPLE[letter]
        found = _CODE.match(self.text, self._at)
        if found is None or (is_bytes and letter in "uU"):
            fail(self.text, self._at - 1, "Syntax error: unable to unescape string")
        self._at = found.end()
        number = int(found[5], 8) if found[5] else int(found[1] or found[2] or found[3] or found[4], 16)
        if is_bytes:
            return bytes((number,))
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            fail(self.text, self._at, "Syntax error: invalid unicode code point")
        return chr(number)


def _integer(text: str) -> int:
    """The value of a literal without its sign; ``parse`` looks at its range, where the sign is known."""
    digits, wide = text.rstrip("uU"), text[-1] in "uU"
    number = int(digits, 16) if digits.startswith("0x") else int(digits) if len(digits) < 40 else 1 << 70
    return Uint(number) if wide else number


class _Parser(_Reader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def expression(self) -> Node:
        self._deeper()
        test = self._binary(1)
        if self.now.kind == "?":
            at = self.advance().at
            yes = self._binary(1)
            self.take(":")
            test = Node("call", at, "_?_:_", [test, yes, self.expression()])
        self._depth -= 1
        return test

    def _deeper(self, levels: int = 1) -> None:
        self._depth += levels
        if self._depth > MOST_DEPTH:
            fail(self.text, self.now.at, f"expression recursion limit exceeded: {MOST_DEPTH}")

    def _binary(self, least: int) -> Node:
        left, chained = self._unary(), 0
        while (precedence := _PRECEDENCE.get(self.now.kind, 0)) >= least:
            token = self.advance()
            right = self._binary(precedence + 1)
            name = "@in" if token.kind == "in" else f"_{token.kind}_"
            if precedence <= 2 and left.kind == "call" and left.name == name and not left.value:
                left.args.append(right)
                continue
            left = Node("call", token.at, name, [left, right])
            chained += 1
            self._deeper()
        self._depth -= chained
        return left

    def _unary(self) -> Node:
        at, sign = self.now.at, self.now.kind
        if sign not in ("-", "!"):
            return self._members(self._primary())
        count = 0
        while self.now.kind == sign:
            self.advance()
            count += 1
        if sign == "-" and count == 1 and (self.now.kind == "int" or self._is_float()):
            literal = self.advance()
            value = -literal.value if not isinstance(literal.value, Uint) else literal.value
            return self._members(self._constant(at, value))
        return self._negated(self._members(self._primary()), sign, count, at)

    def _is_float(self) -> bool:
        return self.now.kind == "literal" and isinstance(self.now.value, float)

    def _negated(self, inner: Node, sign: str, count: int, at: int) -> Node:
        """Signs cancel each other out in pairs, as in cel-go."""
        return Node("call", at, f"{sign}_", [inner]) if count % 2 else inner

    def _constant(self, at: int, value: Any) -> Node:
        if type(value) is int and not -(2**63) <= value < 2**63:
            fail(self.text, at, "Syntax error: invalid int literal")
        if isinstance(value, Uint) and value >= 2**64:
            fail(self.text, at, "Syntax error: invalid uint literal")
        return Node("const", at, value=value)

    def _primary(self) -> Node:
        token = self.now
        match token.kind:
            case "literal" | "int":
                self.advance()
                return self._constant(token.at, token.value)
            case "word" | ".":
                return self._name()
            case "(":
                self.advance()
                inner = self.expression()
                self.take(")")
                if inner.kind == "call":
                    inner.value = "closed"  # `(a && b) && c` has its own node
                return inner
            case "[":
                return self._list()
            case "{":
                return self._map()
        what = "<EOF>" if token.kind == "end" else f"'{token.text}'"
        fail(self.text, token.at, f"Syntax error: mismatched input {what} expecting an expression")

    def _name(self) -> Node:
        dot = self.given(".")
        token = self.take("word")
        if token.text in RESERVED:
            fail(self.text, token.at, f"reserved identifier: {token.text}")
        name = f".{token.text}" if dot else token.text
        if self.now.kind != "(":
            return Node("ident", token.at, name)
        return self._call(name, None, token.at)

    def _call(self, name: str, target: Node | None, at: int) -> Node:
        self.take("(")
        args = self._until(")")
        return expanded(self.text, Node("call", at, name, args, target))

    def _until(self, end: str) -> list[Node]:
        items = list[Node]()
        while self.now.kind != end:
            items.append(self.expression())
            if not self.given(","):
                break
            if self.now.kind == end:
                self.take("an expression")
        self.take(end)
        return items

    def _members(self, left: Node) -> Node:
        levels = 0
        while self.now.kind in (".", "[", "{"):
            token = self.advance()
            levels += 1
            self._deeper()
            if token.kind == ".":
                left = self._member(left, token.at)
            elif token.kind == "[":
                name = "_[?_]" if self.given("?") else "_[_]"
                left = Node("call", token.at, name, [left, self.expression()])
                self.take("]")
            else:
                fail(self.text, token.at, "messages cannot be made: there are no message types here")
        self._depth -= levels
        return left

    def _member(self, left: Node, at: int) -> Node:
        optional = self.given("?")
        name = self.take("word" if self.now.kind != "in" else "in")
        if optional:
            return Node("call", at, "_?._", [left, Node("const", name.at, value=name.text)])
        if self.now.kind == "(":
            return self._call(name.text, left, at)
        return Node("select", at, name.text, [left])

    def _list(self) -> Node:
        at, items, optional = self.take("[").at, list[Node](), set[int]()
        while self.now.kind != "]":
            if self.given("?"):
                optional.add(len(items))
            items.append(self.expression())
            if not self.given(","):
                break
        self.take("]")
        return Node("list", at, args=items, optional=frozenset(optional))

    def _map(self) -> Node:
        at, items, optional = self.take("{").at, list[Node](), set[int]()
        while self.now.kind != "}":
            if self.given("?"):
                optional.add(len(items) // 2)
            items.append(self.expression())
            self.take(":")
            items.append(self.expression())
            if not self.given(","):
                break
        self.take("}")
        return Node("map", at, args=items, optional=frozenset(optional))


# ---------------------------------------------------------------- macros

_ONE, _TWO = {2}, {3}
_LOOPS = {
    "all": {2, 3},
    "exists": {2, 3},
    "exists_one": {2, 3},
    "existsOne": {3},
    "map": {2, 3},
    "filter": {2},
    "transformList": {3, 4},
    "transformMap": {3, 4},
    "transformMapEntry": {3, 4},
}
"""The macros that loop, with how many arguments each may have."""


def expanded(text: str, call: Node) -> Node:
    """What a call of a macro stands for; any other call itself.

    Raises:
        CelError: its arguments do not fit the macro.
    """
    target, args = call.target, call.args
    if target is None:
        return _has(text, call) if call.name == "has" and len(args) == 1 else call
    if len(args) in _LOOPS.get(call.name, ()):
        return _looped(text, call, target)
    if call.name in ("optMap", "optFlatMap") and len(args) == 2:
        return _with_value(text, call, target)
    if call.name == "sortBy" and len(args) == 2:
        return _sorted_by(text, call, target)
    return call


def _has(text: str, call: Node) -> Node:
    select = call.args[0]
    if select.kind != "select" or select.tests:
        fail(text, call.at, "invalid argument to has() macro")
    return Node("select", select.at, select.name, select.args, tests=True)


def _variable(text: str, node: Node) -> str:
    if node.kind != "ident" or node.name.startswith("."):
        fail(text, node.at, "argument must be a simple name")
    if node.name == ACCUMULATOR:
        fail(text, node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _const(at: int, value: Any) -> Node:
    return Node("const", at, value=value)


def _looped(text: str, call: Node, target: Node) -> Node:
    name, at, given = call.name, call.at, list(call.args)
    two = name.startswith("transform") or (len(given) == 3 and name not in ("map", "filter"))
    names = tuple(_variable(text, node) for node in (given[:2] if two else given[:1]))
    if len(set(names)) != len(names):
        fail(text, given[1].at, f"duplicate variable name: {names[0]}")
    body = tuple(given[len(names) :])

    def result() -> Node:
        return Node("ident", at, ACCUMULATOR)

    def op(function: str, *args: Node) -> Node:
        return Node("call", at, function, list(args))

    start, condition, step, end = _const(at, True), _const(at, True), body[-1], result()
    match name:
        case "all":
            condition = op("@not_strictly_false", result())
            step = op("_&&_", result(), body[0])
        case "exists":
            start = _const(at, False)
            condition = op("@not_strictly_false", op("!_", result()))
            step = op("_||_", result(), body[0])
        case "exists_one" | "existsOne":
            start, name = _const(at, 0), "exists_one"
            step = op("_?_:_", body[0], op("_+_", result(), _const(at, 1)), result())
            end = op("_==_", result(), _const(at, 1))
        case _:
            start, step = _collected(text, call, names, body)
    loop = Loop(name, names, target, ACCUMULATOR, start, condition, step, end, body)
    return Node("loop", at, loop=loop)


def _collected(text: str, call: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> tuple[Node, Node]:
    """Start and step of the macros that make a list or a map."""
    name, at = call.name, call.at
    result = Node("ident", at, ACCUMULATOR)
    start = Node("list", at)
    if name == "filter":
        step = Node("call", at, "_+_", [result, Node("list", at, args=[call.args[0]])])
    elif name == "transformMap":
        start = Node("map", at)
        step = Node("call", at, "@mapInsert", [result, Node("ident", at, names[0]), body[-1]])
    elif name == "transformMapEntry":
        start = Node("map", at)
        if body[-1].kind != "map":
            fail(text, body[-1].at, "transformMapEntry() must be given a map")
        step = Node("call", at, "@mapInsert", [result, body[-1]])
    else:
        step = Node("call", at, "_+_", [result, Node("list", at, args=[body[-1]])])
    if len(body) == 2 or name == "filter":
        step = Node("call", at, "_?_:_", [body[0], step, Node("ident", at, ACCUMULATOR)])
    return start, step


def bound(at: int, name: str, value: Node, result: Node) -> Node:
    """A name for a value, in a result: a loop over nothing."""
    loop = Loop(
        "bind",
        ("#unused",),
        Node("list", at),
        name,
        value,
        _const(at, False),
        Node("ident", at, name),
        result,
        (),
    )
    return Node("loop", at, loop=loop)


def _with_value(text: str, call: Node, target: Node) -> Node:
    """``optMap`` and ``optFlatMap``: the second argument of the value, if there is one."""
    at, name = call.at, _variable(text, call.args[0])
    value = Node("call", at, "value", target=target)
    inner = bound(at, name, value, call.args[1])
    if call.name == "optMap":
        inner = Node("call", at, "optional.of", [inner])
    test = Node("call", at, "hasValue", target=target)
    return Node("call", at, "_?_:_", [test, inner, Node("call", at, "optional.none")])


def _sorted_by(text: str, call: Node, target: Node) -> Node:
    at, name = call.at, "@__sortBy_input__"

    def given() -> Node:
        return Node("ident", at, name)

    keys = _looped(text, Node("call", at, "map", call.args), given())
    return bound(at, name, target, Node("call", at, "@sortByAssociatedKeys", [keys], given()))
