"""Rules of a schema: what is refused before it is read, and what an object is told."""

from typing import Any

import orjson

from kubewright.apiserver.cel import rules
from kubewright.apiserver.cel.rules import RULES, compiled, judged, violations
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
