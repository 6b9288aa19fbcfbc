"""Rules of a schema: what is refused before it is read, and what an object is told."""

import time
from typing import Any

import orjson
import pytest

from kubewright.apiserver.cel import rules
from kubewright.apiserver.cel.rules import RULES, compiled, judged, violations
from kubewright.apiserver.schema.causes import MOST_CAUSES, MOST_COUNTED
from kubewright.apiserver.schema.structural import Structural

TEXT: dict[str, Any] = {"type": "string", "maxLength": 10}


def ruled(*texts: str) -> dict[str, Any]:
    field = {**TEXT, RULES: [{"rule": text} for text in texts]}
    return {"type": "object", "properties": {"f": field}}


def said(schema: dict[str, Any], value: Any) -> list[str]:
    tree = compiled(orjson.dumps(schema), root=False)
    assert tree is not None
    return [f"{cause.field}: {cause.message}" for cause in judged(tree, value).causes]


def test_more_rules_than_the_server_can_read_in_a_moment_are_refused_unread() -> None:
    many = violations(ruled(*["("] * (rules.MOST_RULES + 1)), "s")
    long = violations(ruled(*["true && " * 10_000 + "true"] * 4), "s")
    assert [[cause.field for cause in each] for each in (many, long)] == [["s"], ["s"]]
    assert "letters in one schema" in long[0].message
    assert violations(ruled(*["self != 'a'"] * 500), "s") == []


def test_each_rule_that_fails_is_told_and_the_others_are_asked() -> None:
    schema = ruled("self == 'a'", "self.size() > 0", "self.startsWith('b')")
    assert said(schema, {"f": "c"}) == [
        "f: Invalid value: \"c\": failed rule: self == 'a'",
        "f: Invalid value: \"c\": failed rule: self.startsWith('b')",
    ]


def test_a_schema_without_rules_has_no_tree() -> None:
    assert compiled(orjson.dumps({"type": "object", "properties": {"f": TEXT}}), root=True) is None
    assert Structural({"type": "object", "properties": {"f": TEXT}}).rules is None


def test_a_default_that_its_rule_refuses_is_no_default() -> None:
    value = Structural.of_value({**TEXT, RULES: [{"rule": "self != 'x'"}, {"rule": "self == oldSelf"}]})
    assert [cause.message for cause in value.validate("x")] == [
        "Invalid value: \"x\": failed rule: self != 'x'"
    ]
    assert value.validate("y") == []


def spec(rule: str, **fields: Any) -> Structural:
    inner = {"type": "object", "properties": fields, RULES: [{"rule": rule}]}
    return Structural({"type": "object", "properties": {"spec": inner}})


def listed(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": 100_000, **more}


WHOLE = {"type": "integer"}
TURNS = listed(WHOLE, maxItems=500)
DATES = listed({"type": "string", "format": "date-time"})
DEEP = {"type": "object", "properties": {"l": listed(WHOLE)}}
SPENT = "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    ("rule", "field", "value"),
    [
        ("self.n.all(i, size(self.f) > 0)", DATES, ["2024-01-01T00:00:00Z"] * 5_000),
        ("self.n.all(i, self.f == oldSelf.f)", DEEP, {"l": [1] * 5_000}),
        ("self.n.all(i, '%s'.format([self.f.l]) != '')", DEEP, {"l": [1] * 5_000}),
    ],
)
def test_a_look_at_all_that_is_in_a_value_costs_as_much_in_each_turn(
    rule: str, field: dict[str, Any], value: Any
) -> None:
    schema = spec(rule, n=TURNS, f=field)
    assert violations(schema.source, "s") == []
    few, many = ({"spec": {"n": [0] * turns, "f": value}} for turns in (5, 500))
    assert schema.validate(few, few) == []
    assert [SPENT in cause.message for cause in schema.validate(many, many)] == [True]


@pytest.mark.parametrize("rule", ["self.a == self.b", "(self.a + self.b).size() == self.a.size()"])
def test_large_sets_are_compared_and_joined_in_linear_time(rule: str) -> None:
    whole = listed({"type": "string", "maxLength": 9}, **{"x-kubernetes-list-type": "set"})
    names = [f"n{number}" for number in range(20_000)]
    started = time.process_time()
    assert spec(rule, a=whole, b=whole).validate({"spec": {"a": names, "b": names[::-1]}}) == []
    assert time.process_time() - started < 3, "the pairs of all would take eight"


def test_rules_are_not_asked_for_more_mistakes_than_are_told_and_counted() -> None:
    schema = listed({"type": "integer", RULES: [{"rule": "self > 0"}]})
    assert len(judged_causes(schema, [0] * 5_000)) == MOST_CAUSES + MOST_COUNTED + 1


def judged_causes(schema: dict[str, Any], value: Any) -> list[Any]:
    tree = compiled(orjson.dumps(schema), root=False)
    assert tree is not None
    return judged(tree, value).causes


def test_an_error_that_quotes_a_long_value_is_cut() -> None:
    schema = spec("duration(self.f) > duration('1s')", f={"type": "string", "maxLength": 200_000})
    (cause,) = schema.validate({"spec": {"f": "1" * 100_000}})
    assert len(cause.message) < 2_000
