"""Label and field selectors: read, matched, written.

Theory.      A selector is a conjunction of requirements, each of which looks at one key. Reading
             follows the grammar of kube-apiserver, errors included; ``str`` gives a form that
             reads back to an equal selector, so a selector can be a key of a shared informer.
Invariants.  Selectors are immutable and hashable; what they remember of themselves is no part of them.
             ``EVERYTHING`` has no requirement; ``NOTHING`` has one that no object meets (an absent
             ``LabelSelector``; an empty one matches everything).
Called by    the server (lists, watches, budgets) and the client's informers.
"""

import re
from collections.abc import KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubewright.wire import naming
from kubewright.wire.errors import BadRequest

IN, NOT_IN, EXISTS, ABSENT, GREATER, LESS = "in", "notin", "exists", "!", ">", "<"
_OBJECT_OPERATORS = {
    "In": IN,
    "NotIn": NOT_IN,
    "Exists": EXISTS,
    "DoesNotExist": ABSENT,
}
_NODE_OPERATORS = {**_OBJECT_OPERATORS, "Gt": GREATER, "Lt": LESS}
_COMPARISONS = {"=": IN, "==": IN, "!=": NOT_IN, ">": GREATER, "<": LESS}
_BINARY = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the value at ``key``; ``values`` is sorted and without doubles."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == ABSENT:
            return f"!{self.key}"
        if self.operator in (GREATER, LESS):
            return f"{self.key}{self.operator}{self.values[0]}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == IN else '!='}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


class _Wanted:
    """All that is required of the value at one key; where the key is absent the value is None."""

    __slots__ = ("above", "absent", "allowed", "below", "denied", "present")

    def __init__(self) -> None:
        self.allowed: frozenset[str] | None = None
        self.denied = set[str]()
        self.present = self.absent = False
        self.above: int | None = None
        self.below: int | None = None

    def add(self, requirement: Requirement) -> None:
        """Absence meets ``notin`` and ``!``."""
        operator, values = requirement.operator, requirement.values
        self.absent = self.absent or operator == ABSENT
        self.present = self.present or operator not in (NOT_IN, ABSENT)
        if operator == IN:
            self.allowed = frozenset(values if self.allowed is None else self.allowed.intersection(values))
        elif operator == NOT_IN:
            self.denied.update(values)
        elif operator in (GREATER, LESS):
            self._compare(operator, _number(requirement.values[0]))

    def _compare(self, operator: str, bound: int | None) -> None:
        if bound is None:
            self.allowed = frozenset()
        elif operator == GREATER:
            self.above = bound if self.above is None else max(self.above, bound)
        else:
            self.below = bound if self.below is None else min(self.below, bound)

    def met_by(self, value: str | None) -> bool:
        if value is None:
            return not self.present
        if self.absent or value in self.denied or (self.allowed is not None and value not in self.allowed):
            return False
        if self.above is None and self.below is None:
            return True
        number = _number(value)
        return (
            number is not None
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


class _ByKey(dict[str, _Wanted]):
    """What is required at each key, and the keys that must be present: a selector as it is matched."""

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        super().__init__()
        for requirement in requirements:
            self.setdefault(requirement.key, _Wanted()).add(requirement)
        self.needed = frozenset(key for key, wanted in self.items() if wanted.present)


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must be met. Make one with ``parse``, ``parse_fields`` or ``from_object``.

    What is required is put together by keys at the first match, so that a match takes as long as the labels
    are, or the selector where that is shorter: a user may write 16,000 requirements into one URL.
    """

    requirements: tuple[Requirement, ...] = ()
    _known: _ByKey | None = field(default=None, init=False, repr=False, compare=False)

    def matches(self, values: Mapping[str, str]) -> bool:
        """Whether labels (or the fields of an object) meet every requirement."""
        wanted = self._by_key()
        if len(wanted) <= len(values):
            return all(each.met_by(values.get(key)) for key, each in wanted.items())
        if not wanted.needed <= values.keys():
            return False
        return all(wanted[key].met_by(value) for key, value in values.items() if key in wanted)

    @property
    def keys(self) -> KeysView[str]:
        """The keys that it looks at, each once."""
        return self._by_key().keys()

    def _by_key(self) -> _ByKey:
        if (known := self._known) is None:
            known = _ByKey(self.requirements)
            object.__setattr__(self, "_known", known)
        return known

    def value_of(self, key: str) -> str | None:
        """The one value that ``key`` must have, when a requirement says so."""
        wanted = (
            r.values[0] for r in self.requirements if r.key == key and r.operator == IN and len(r.values) == 1
        )
        return next(wanted, None)

    def __bool__(self) -> bool:
        """False for the selector that matches everything."""
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = Selector()
NOTHING = Selector((Requirement("", IN),))


def parse(text: str) -> Selector:
    """Read a label selector such as ``app=web,tier in (a,b),!old``.

    Raises:
        BadRequest: the text is not a selector; the message is kube-apiserver's.
    """
    return _Reader(text).selector() if text else EVERYTHING


def from_object(selector: Mapping[str, Any] | None) -> Selector:
    """Read a ``LabelSelector`` object. None matches nothing, an empty one everything.

    Raises:
        BadRequest: an operator is unknown, or its values do not fit it.
    """
    if selector is None:
        return NOTHING
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    expressions: Sequence[Mapping[str, Any]] = selector.get("matchExpressions") or ()
    equal = [_required(key, IN, (value,)) for key, value in sorted(labels.items())]
    return Selector((*equal, *(_expression(each, _OBJECT_OPERATORS) for each in expressions)))


def from_node_expressions(expressions: Sequence[Mapping[str, Any]]) -> Selector:
    """Read the ``matchExpressions`` of a node selector's term, which may also compare numbers.

    Raises:
        BadRequest: an operator is unknown, or its values do not fit it.
    """
    return Selector(tuple(_expression(each, _NODE_OPERATORS) for each in expressions))


def parse_fields(text: str) -> Selector:
    """Read a field selector such as ``metadata.name=m1,status.phase!=Running``.

    A comma, equals sign or backslash in a value is escaped
    (``\\,``). A missing field counts as the empty string.

    Raises:
        BadRequest: the text is not a field selector.
    """
    found = []
    for term in _terms(text):
        split = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if split is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        found.append(Requirement(split[1], _COMPARISONS[split[2]], (_unescaped(split[3]),)))
    return Selector(tuple(found))


def _terms(text: str) -> list[str]:
    return [term for term in re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL) if term]


def _unescaped(text: str) -> str:
    if bare := re.search(r"(?:^|[^\\])(?:\\\\)*([,=])", text):
        raise BadRequest(f"invalid field selector: unescaped character in value: {ord(bare[1])}")
    if bad := re.search(r"(?:^|[^\\])(?:\\\\)*(\\(?:[^\\,=]|$))", text):
        raise BadRequest(f"invalid field selector: invalid escape sequence: {bad[1]}")
    return re.sub(r"\\([\\,=])", r"\1", text)


def _expression(expression: Mapping[str, Any], operators: Mapping[str, str]) -> Requirement:
    operator = operators.get(str(expression.get("operator")))
    if operator is None:
        raise BadRequest(f'"{expression.get("operator")}" is not a valid label selector operator')
    return _required(str(expression.get("key", "")), operator, tuple(expression.get("values") or ()))


def _required(key: str, operator: str, values: Sequence[str]) -> Requirement:
    complaints = [f'key: Invalid value: "{key}": {said}' for said in naming.label_key(key)[:1]]
    if operator in (IN, NOT_IN) and not values:
        complaints.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in (EXISTS, ABSENT) and values:
        complaints.append("values: Invalid value: values set must be empty for exists and does not exist")
    if operator in (GREATER, LESS) and not (len(values) == 1 and _is_integer(values[0])):
        shown = f'"{values[0]}"' if values else "[]"
        complaints.append(
            f"values[0]: Invalid value: {shown}: for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for index, value in enumerate(values):
        said = naming.label_value(value)[:1]
        complaints += [f'values[{index}][{key}]: Invalid value: "{value}": {each}' for each in said]
    if complaints:
        raise BadRequest(complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]")
    return Requirement(key, operator, tuple(sorted(set(values))))


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+", text) is not None


_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+|$)")


class _Reader:
    """A recursive descent parser of one label selector; the empty token marks the end."""

    def __init__(self, text: str) -> None:
        self._tokens = [found[1] for found in _TOKEN.finditer(text)]
        self._at = 0

    def selector(self) -> Selector:
        found = []
        while self._peek():
            if not (self._is_word(self._peek()) or self._peek() == "!"):
                raise BadRequest(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            after = self._next()
            if after not in ("", ","):
                raise BadRequest(f"found '{after}', expected: ',' or 'end of string'")
            if after and not (self._is_word(self._peek()) or self._peek() == "!"):
                raise BadRequest(f"found '{self._peek()}', expected: identifier after ','")
        return Selector(tuple(found))

    def _requirement(self) -> Requirement:
        try:
            return self._key_and_rest()
        except BadRequest as error:
            raise BadRequest(f"unable to parse requirement: {error.message}") from None

    def _key_and_rest(self) -> Requirement:
        negated = self._peek() == "!" and bool(self._next())
        key = self._word()
        if complaints := naming.label_key(key):
            raise BadRequest(f'<nil>: Invalid value: "{key}": {complaints[0]}')
        if negated or self._peek() in ("", ","):
            return Requirement(key, ABSENT if negated else EXISTS)
        return self._comparison(key)

    def _comparison(self, key: str) -> Requirement:
        said = self._next()
        if said in (IN, NOT_IN):
            return _required(key, said, self._values())
        operator = _COMPARISONS.get(said)
        if operator is None:
            raise BadRequest(f"found '{said}', expected: {_BINARY}")
        return _required(key, operator, ("" if self._peek() in ("", ",") else self._word(),))

    def _values(self) -> list[str]:
        if (opening := self._next()) != "(":
            raise BadRequest(f"found '{opening}' expected: '('")
        values = [self._optional_word()]
        while (after := self._next()) == ",":
            values.append(self._optional_word())
        if after != ")":
            raise BadRequest(f"found '{after}', expected: ',' or ')'")
        return values

    def _optional_word(self) -> str:
        return self._next() if self._is_word(self._peek()) else ""

    def _word(self) -> str:
        if not self._is_word(token := self._next()):
            raise BadRequest(f"found '{token}', expected: identifier")
        return token

    @staticmethod
    def _is_word(token: str) -> bool:
        return bool(token) and token not in ("==", "!=", "=", "!", "(", ")", ",", "<", ">")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token
