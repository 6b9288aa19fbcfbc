"""``x-kubernetes-validations``: what a definition may say, and whether an object keeps to it.

Theory.      A schema's rules are compiled once, into a tree of the places that have some (``Ruled``); a place
             without a rule below it is not in the tree, so an object of a kind without rules costs nothing. A
             definition is refused if a rule cannot be read, has a wrong type, or could cost too much on the
             largest object that the schema allows (``violations``); its cost is that of one call, times how
             often the place can be there. An object is walked along the tree (``judged``). A rule that uses
             ``oldSelf`` holds for updates only, or always where ``optionalOldSelf`` says so, and is never
             excused. Any other that fails is excused if its place did not change, and told as a warning.
Invariants.  Pure. All rules of one object share a budget, so none runs for long. Messages are
             kube-apiserver's.
Source       kube-apiserver 1.36, observed in tests/conformance/test_api_rules.py.
Called by    ``schema.structural``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import orjson

from kubewright.apiserver.cel import costs
from kubewright.apiserver.cel.calls import BudgetSpent
from kubewright.apiserver.cel.check import checked
from kubewright.apiserver.cel.declared import NoPath, declared, field_path, names_of
from kubewright.apiserver.cel.evaluate import Program
from kubewright.apiserver.cel.syntax import CelError, Node
from kubewright.apiserver.cel.types import MOST_BYTES, NONE, Optional, Type, optional_of
from kubewright.apiserver.cel.values import EvalError, NoOverload
from kubewright.apiserver.schema import causes
from kubewright.apiserver.schema.causes import Cause, cut, forbidden, invalid, quoted, required, unsupported

RULES = "x-kubernetes-validations"
RULE_LIMIT, DEFINITION_LIMIT, OBJECT_BUDGET = 10_000_000, 100_000_000, 10_000_000
"""Costs: of one rule and of all rules of a schema, as they are estimated; of all rules on one object."""
MOST_MESSAGE = 5 * 1024
MOST_RULES, MOST_LETTERS = 10_000, 256 * 1024
"""Of one schema: to read and check them takes half a second, in which the server answers no other client."""
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_KEPT = 64
_BLOCKING = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
        "TooManyCauses",
    )
)
NOT_CHECKED = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)

_FAILED = "validation failed "
OUT_OF_BUDGET = f"{_FAILED}due to running out of cost budget, no further validation rules will be run"

OpenApi = Mapping[str, Any]


class Same(Protocol):
    """A place of a new and an old object, as far as they have it both."""

    @property
    def is_same(self) -> bool: ...

    def below(self, part: str | int) -> "Same | None": ...


@dataclass(slots=True)
class Rule:
    """A compiled rule. ``error`` and ``message_error`` say why it, or its message, is none."""

    given: OpenApi
    program: Program | None = None
    message: Program | None = None
    error: str = ""
    message_error: str = ""
    cost: int = 0
    message_cost: int = 0
    uses_old: bool = False
    path: str = ""

    @property
    def optional_old(self) -> bool:
        return bool(self.given.get("optionalOldSelf"))

    @property
    def said(self) -> str:
        """What messages call the rule."""
        return str(self.given.get("message") or self.given.get("rule") or "").strip()

    @property
    def default_message(self) -> str:
        return self.said if self.given.get("message") else f"failed rule: {self.said}"


@dataclass(slots=True)
class Ruled:
    """A place with rules, or with some below it."""

    kind: str
    rules: list[Rule] = field(default_factory=list)
    fields: dict[str, "Ruled"] = field(default_factory=dict)
    items: "Ruled | None" = None
    values: "Ruled | None" = None
    keys: tuple[str, ...] = ()


def has_rules(schema: Any) -> bool:
    return bool(schema.get(RULES)) or any(has_rules(inner) for _, inner in names_of(schema))


@lru_cache(maxsize=_KEPT)
def compiled(source: bytes, *, root: bool) -> Ruled | None:
    """The rules of a schema, given as JSON; None if it has none."""
    schema = orjson.loads(source)
    return _ruled(schema, declared(schema, root=root)) if has_rules(schema) else None


def _ruled(schema: OpenApi, kind: Type | None) -> Ruled | None:
    if not has_rules(schema):
        return None
    made = Ruled(str(schema.get("type", "")), list(_rules(schema, kind)))
    for where, inner in names_of(schema):
        below = _ruled(inner, _type_below(kind, where, inner))
        if below is None:
            continue
        if where == "items":
            made.items = below
            if schema.get("x-kubernetes-list-type") == "map":
                made.keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        elif where == "additionalProperties":
            made.values = below
        else:
            made.fields[where[len("properties[") : -1]] = below
    return made


def _type_below(kind: Type | None, where: str, schema: OpenApi) -> Type | None:
    """The type of a part of a schema: that which the whole has there, if it has."""
    if kind is not None and where in ("items", "additionalProperties"):
        return kind.params[-1] if kind.params else None
    name = where[len("properties[") : -1]
    for known, inner in kind.fields.values() if kind is not None else ():
        if known == name:
            return inner
    return declared(schema, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _rules(schema: OpenApi, kind: Type | None) -> Iterator[Rule]:
    for given in schema.get(RULES) or ():
        yield _rule(given, schema, kind)


def _rule(given: OpenApi, schema: OpenApi, kind: Type | None) -> Rule:
    rule = Rule(given)
    if not str(given.get("rule") or "").strip():
        return rule
    if kind is None:
        rule.error = "failed to convert to declType for CEL validation rules"
        return rule
    old = optional_of(kind) if rule.optional_old else kind
    variables = {"self": kind, "oldSelf": old}
    tree, rule.error = _checked(given["rule"], variables, "bool", "compilation failed: ", "cel expression")
    if tree is None:
        return rule
    rule.uses_old = any(node.kind == "ident" and node.name == "oldSelf" for node in nodes(tree))
    rule.program, rule.cost = Program(tree, tuple(variables)), costs.estimate(tree, kind).most
    if text := given.get("messageExpression"):
        words = "messageExpression compilation failed: "
        message, rule.message_error = _checked(text, variables, "string", words, "messageExpression")
        if message is not None:
            rule.message = Program(message, tuple(variables))
            rule.message_cost = costs.estimate(message, kind).most
    if path := given.get("fieldPath"):
        try:
            rule.path = field_path(path, schema)
        except NoPath:
            rule.path = ""
    return rule


def _checked(
    text: str, variables: Mapping[str, Type], wanted: str, failed: str, what: str
) -> tuple[Node | None, str]:
    """The tree of an expression, or what is wrong with it."""
    try:
        tree = checked(text, variables)
    except CelError as error:
        return None, f"{failed}{error}"
    except RecursionError:
        return None, f"{failed}ERROR: <input>:1:1: expression recursion limit exceeded"
    if tree.type is None or tree.type.kind != wanted:
        return None, f"{what} must evaluate to a {wanted}"
    return tree, ""


def nodes(tree: Node) -> Iterator[Node]:
    """All parts of a tree."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        todo += node.args
        if node.target is not None:
            todo.append(node.target)
        if (loop := node.loop) is not None:
            todo += (loop.over, loop.start, loop.condition, loop.step, loop.result)


# ---------------------------------------------------------------- of a definition


def violations(schema: OpenApi, path: str) -> list[Cause]:
    """What is wrong with the rules of a root schema that is otherwise good."""
    if not has_rules(schema):
        return []
    count, letters = _size(schema)
    if count > MOST_RULES or letters > MOST_LETTERS:
        most = f"this server takes {MOST_RULES} of {MOST_LETTERS} letters in one schema"
        return [forbidden(path, f"it has {count} rules of {letters} letters; {most}")]
    walk = _Walk()
    shapes, found = walk.visit(schema, compiled(orjson.dumps(schema), root=True), _Place(path))
    found = shapes + found
    if walk.total > DEFINITION_LIMIT:
        dear = sorted(walk.dear, key=lambda each: -each[1])[:4]
        words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        found += [forbidden(where, words) for where, _ in dear]
        what = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        found.append(forbidden(path, _too_dear(what, walk.total, DEFINITION_LIMIT)))
    return found


def _size(schema: OpenApi) -> tuple[int, int]:
    """How many rules a schema has, and the letters of their expressions."""
    own = schema.get(RULES) or ()
    letters = sum(len(str(rule.get(name) or "")) for rule in own for name in ("rule", "messageExpression"))
    inside = [_size(inner) for _, inner in names_of(schema)]
    return len(own) + sum(count for count, _ in inside), letters + sum(each for _, each in inside)


def _too_dear(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


class _Walk:
    """A walk over a schema; adds up the costs."""

    def __init__(self) -> None:
        self.total = 0
        self.dear: list[tuple[str, int]] = []

    def visit(self, schema: OpenApi, tree: Ruled | None, spot: "_Place") -> tuple[list[Cause], list[Cause]]:
        """Rules that are written wrongly, and rules that cannot be compiled or cost too much.

        Where some are written wrongly, no rule there or above is compiled.
        """
        if tree is None:
            return [], []
        shapes, found = list[Cause](), list[Cause]()
        for where, inner in names_of(schema):
            below = self.visit(inner, _part(tree, where), spot.below(schema, where))
            shapes += below[0]
            found += below[1]
        for index, rule in enumerate(tree.rules):
            shapes += _shape(rule, schema, _at(spot.path, index))
        least = _least(schema, spot.path) if tree.rules and not shapes else 0
        for index, rule in enumerate(tree.rules if not shapes else ()):
            found += self._rule(rule, _at(spot.path, index), spot, least)
        return shapes, found

    def _rule(self, rule: Rule, path: str, spot: "_Place", least: int) -> Iterator[Cause]:
        times = MOST_BYTES // (least + 1) if spot.cardinality is None else spot.cardinality
        cost = min(rule.cost * times, costs.END)
        if cost > RULE_LIMIT:
            yield forbidden(f"{path}.rule", _too_dear("estimated rule cost", cost, RULE_LIMIT))
        self._observe(f"{path}.rule", cost)
        if rule.error:
            yield invalid(f"{path}.rule", _shown(rule.given), rule.error)
        if rule.message_error:
            yield invalid(f"{path}.messageExpression", _shown(rule.given), rule.message_error)
        elif rule.message is not None:
            if rule.message_cost > RULE_LIMIT:
                words = _too_dear("estimated messageExpression cost", rule.message_cost, RULE_LIMIT)
                yield forbidden(f"{path}.messageExpression", words)
            self._observe(f"{path}.messageExpression", rule.message_cost)
        if rule.uses_old:
            if spot.unrelated:
                part = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                words = f"{part} {spot.unrelated}"
                yield invalid(f"{path}.rule", rule.given["rule"], words)
        elif rule.given.get("optionalOldSelf") is not None and not rule.error:
            words = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{path}.optionalOldSelf", rule.given["optionalOldSelf"], words)

    def _observe(self, path: str, cost: int) -> None:
        self.total += cost
        if cost >= DEFINITION_LIMIT // 100:
            self.dear.append((path, cost))


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of a schema.

    ``cardinality``  how often it can be there; None: its schema has no bound
    ``unrelated``    the list above it whose items have no counterparts in an old object
    """

    path: str
    cardinality: int | None = 1
    unrelated: str = ""

    def below(self, schema: OpenApi, where: str) -> "_Place":
        lost = where == "items" and schema.get("x-kubernetes-list-type") != "map"
        unrelated = self.path if lost else self.unrelated
        return _Place(f"{self.path}.{where}", _times(self.cardinality, _most(schema)), unrelated)


def _at(path: str, index: int) -> str:
    return f"{path}.{RULES}[{index}]"


def _part(tree: Ruled, where: str) -> Ruled | None:
    if where == "items":
        return tree.items
    return tree.values if where == "additionalProperties" else tree.fields.get(where[len("properties[") : -1])


def _most(schema: OpenApi) -> int | None:
    """How many parts of one kind a value can have; None: its schema has no bound."""
    match schema.get("type"):
        case "object" if schema.get("additionalProperties") is not None:
            most = schema.get("maxProperties")
        case "array":
            most = schema.get("maxItems")
        case _:
            return 1
    return None if most is None else max(int(most), 0)


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one * other, costs.END)


def _least(schema: OpenApi, path: str) -> int:
    """Bytes of the shortest value of a schema."""
    kind = declared(schema, root=path.endswith("openAPIV3Schema"))
    return 1 if kind is None else kind.least


_FIELDS = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")


def _shown(given: OpenApi) -> dict[str, Any]:
    """A rule as kube-apiserver shows it, which has no JSON names for it."""
    empty = {"reason": None, "optionalOldSelf": None}
    return {name[0].upper() + name[1:]: given.get(name, empty.get(name, "")) for name in _FIELDS}


def _shape(rule: Rule, schema: OpenApi, path: str) -> Iterator[Cause]:
    """What is wrong with a rule before it is compiled."""
    given = rule.given
    message, text = str(given.get("message") or ""), str(given.get("rule") or "").strip()
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _has_lines(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _has_lines(text) and not message.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if (expression := given.get("messageExpression")) and not str(expression).strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if (reason := given.get("reason")) is not None and reason not in _REASONS:
        yield unsupported(f"{path}.reason", reason, _REASONS)
    yield from _path_shape(str(given.get("fieldPath") or ""), schema, path)


def _path_shape(text: str, schema: OpenApi, path: str) -> Iterator[Cause]:
    if not text:
        return
    if not text.strip():
        yield invalid(f"{path}.fieldPath", text, "must be non-empty if specified")
    if _has_lines(text):
        yield invalid(f"{path}.fieldPath", text, "must not contain line breaks")
    try:
        field_path(text, schema)
    except NoPath:
        yield invalid(f"{path}.fieldPath", text, "must be a valid path")


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


# ---------------------------------------------------------------- of an object


@dataclass(slots=True)
class Judged:
    """What the rules say of an object: why it is refused; and what is excused, as warnings."""

    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def blocked(found: list[Cause]) -> bool:
    """Whether an object has mistakes with which its rules cannot be asked."""
    return any(cause.reason in _BLOCKING for cause in found)


def judged(tree: Ruled, new: Any, old: Any = None, place: Same | None = None) -> Judged:
    """Ask all rules about an object; ``place``: what did not change, in an update."""
    judge = _Judge()
    judge.visit(tree, new, old, _Spot("", place, None))
    return judge.found


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place of an object: ``same`` as far as the old one has it; ``above``: the nearest that it has."""

    path: str
    same: Same | None
    above: Same | None

    @property
    def where(self) -> str:
        return self.path or "<nil>"

    @property
    def is_excused(self) -> bool:
        near = self.above if self.same is None else self.same
        return near is not None and near.is_same

    def below(self, path: str, part: str | int) -> "_Spot":
        if self.same is None:
            return _Spot(path, None, self.above)
        if self.above is None and part in ("apiVersion", "kind"):
            return _Spot(path, None, None)
        return _Spot(path, self.same.below(part), self.same)


class _Judge:
    def __init__(self) -> None:
        self.found = Judged()
        self._budget = OBJECT_BUDGET

    def visit(self, tree: Ruled, new: Any, old: Any, spot: _Spot) -> bool:
        """Ask the rules of a place and of all below it; False: the budget is spent."""
        if new is None:
            return True
        if tree.rules and not self._ask(tree, new, old, spot):
            return False
        if isinstance(new, dict):
            return self._fields(tree, new, old if isinstance(old, dict) else {}, spot)
        if isinstance(new, list) and tree.items is not None:
            return self._items(tree, new, old if isinstance(old, list) else [], spot)
        return True

    def _fields(self, tree: Ruled, new: dict[str, Any], old: dict[str, Any], spot: _Spot) -> bool:
        if (values := tree.values) is not None:
            return all(
                self.visit(values, new[name], old.get(name), spot.below(f"{spot.path}[{name}]", name))
                for name in new
            )
        return all(
            self.visit(
                part, new[name], old.get(name), spot.below(f"{spot.path}.{name}" if spot.path else name, name)
            )
            for name, part in tree.fields.items()
            if name in new
        )

    def _items(self, tree: Ruled, new: list[Any], old: list[Any], spot: _Spot) -> bool:
        assert tree.items is not None
        keys, part = tree.keys, tree.items
        known = {_key(keys, item): item for item in reversed(old)} if keys else {}
        return all(
            self.visit(
                part,
                item,
                known.get(_key(keys, item)) if keys else None,
                spot.below(f"{spot.path}[{index}]", index),
            )
            for index, item in enumerate(new)
        )

    def _ask(self, tree: Ruled, new: Any, old: Any, spot: _Spot) -> bool:
        if len(self.found.causes) > causes.MOST_CAUSES + causes.MOST_COUNTED:  # no more are told or counted
            return False
        if self._budget <= 0:
            return self._ended(spot.where, tree, OUT_OF_BUDGET)
        for rule in tree.rules:
            if rule.error:
                self.found.causes.append(invalid(spot.where, tree.kind, f"rule compile error: {rule.error}"))
                continue
            if rule.program is None or (rule.uses_old and old is None and not rule.optional_old):
                continue
            before: Any = (NONE if old is None else Optional(True, old)) if rule.optional_old else old
            outcome = self._run(rule, tree, (new, before), spot.where)
            if outcome is None or (outcome is False and not self._failed(rule, tree, (new, before), spot)):
                return False
        return True

    def _run(self, rule: Rule, tree: Ruled, values: tuple[Any, Any], where: str) -> bool | None:
        """Whether a rule holds, or says an error of its own; None: the budget is spent."""
        assert rule.program is not None
        try:
            value, cost = rule.program.run(*values)
        except BudgetSpent:
            words = (
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run "
                f"due to call cost exceeds limit for rule: {rule.said}"
            )
            self._ended(where, tree, words)
            return None
        except NoOverload as error:
            words = "call arguments did not match a supported operator, function or macro signature for rule"
            self.found.causes.append(invalid(where, tree.kind, f"'{error}': {words}: {rule.said}"))
            return True
        except EvalError as error:
            said = f"{cut(str(error))} evaluating rule: {rule.said}"
            self.found.causes.append(invalid(where, tree.kind, said))
            return True
        self._budget -= cost
        if self._budget < 0:
            self._ended(where, tree, OUT_OF_BUDGET)
            return None
        return value is True

    def _ended(self, where: str, tree: Ruled, words: str) -> bool:
        self.found.causes.append(invalid(where, tree.kind, words))
        return False

    def _failed(self, rule: Rule, tree: Ruled, values: tuple[Any, Any], spot: _Spot) -> bool:
        at = ".".join(filter(None, (spot.path, rule.path))) or "<nil>"
        said = self._message(rule, values)
        if said is None:
            return self._ended(
                at, tree, f"messageExpression evaluation failed {OUT_OF_BUDGET[len(_FAILED) :]}"
            )
        cause = _cause(rule, tree, values[0], at, said)
        if not rule.uses_old and spot.is_excused:
            if len(self.found.warnings) <= causes.MOST_CAUSES:
                self.found.warnings.append(f"{cause.field}: {cause.message}")
        else:
            self.found.causes.append(cause)
        return True

    def _message(self, rule: Rule, values: tuple[Any, Any]) -> str | None:
        """What is said of a rule that fails; None: the budget is spent."""
        if rule.message is None:
            return rule.default_message
        try:
            value, cost = rule.message.run(*values, limit=min(self._budget, 1_000_000))
        except BudgetSpent:
            return None
        except EvalError:
            return rule.default_message
        self._budget -= cost
        text = value.strip() if isinstance(value, str) else ""
        odd = not text or "\n" in text or len(text.encode()) > MOST_MESSAGE
        return rule.default_message if odd else text


def _cause(rule: Rule, tree: Ruled, new: Any, where: str, said: str) -> Cause:
    reason = rule.given.get("reason") or "FieldValueInvalid"
    shown = "" if tree.kind in ("object", "array") else f": {quoted(new)}"
    said = cut(said)
    match reason:
        case "FieldValueForbidden":
            return forbidden(where, said)
        case "FieldValueRequired":
            return required(where, said)
        case "FieldValueDuplicate":
            return Cause(reason, where, f"Duplicate value{shown}")
    return Cause("FieldValueInvalid", where, f"Invalid value{shown}: {said}")


def _key(keys: tuple[str, ...], item: Any) -> Any:
    """What tells an item of a list that is a map from the others."""
    return orjson.dumps([item.get(name) for name in keys]) if isinstance(item, dict) else None
