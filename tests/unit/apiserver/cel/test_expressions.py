"""Expressions in CEL: what they are, which have no type, what they cost."""

import re
from typing import Any

import pytest

from kubewright.apiserver.cel.calls import BudgetSpent
from kubewright.apiserver.cel.check import checked
from kubewright.apiserver.cel.costs import END, estimate
from kubewright.apiserver.cel.evaluate import Program
from kubewright.apiserver.cel.syntax import MOST_DEPTH, CelError, parse
from kubewright.apiserver.cel.types import DYN, STRING, Duration, Type, Uint, list_of
from kubewright.apiserver.cel.values import EvalError, shown_float


def value(text: str, **variables: Any) -> Any:
    tree = checked(text, dict.fromkeys(variables, DYN))
    return Program(tree, tuple(variables)).run(*variables.values())[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 + 2 * 3 - -4", 11),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("1u + 2u", Uint(3)),
        ("0x1F", 31),
        ("'a' + \"b\" + '''c'd'''", "abc'd"),
        (r"'\u00e4\x41\101\n' + r'\n'", "\u00e4AA\n\\n"),
        ("b'\\xff' + b'a'", b"\xffa"),
        ("!!true && !(1 > 2)", True),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * x)", [4, 9]),
        ("[1, 2, 3].map(x, x > 1, x * x)", [4, 9]),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 2)", {"b": 4}),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})", {1: "a"}),
        ("['a', 'b'].transformList(i, v, v + string(i))", ["a0", "b1"]),
        ("[[1], [2, 3]].flatten()", [1, 2, 3]),
        ("{'a': {'b': 1}}.?a.?b.orValue(2)", 1),
        ("{'a': 1}[?'b'].or(optional.of(3)).value()", 3),
        ("[1, ?optional.none(), 2]", [1, 2]),
        ("optional.of(1).optMap(x, x + 1).value()", 2),
        ("duration('1h30m') - duration('30m')", Duration(3_600 * 10**9)),
        ("timestamp('2024-02-29T12:00:00Z').getDayOfYear('+01:00')", 59),
        ("string(duration('1.5s')) + string(timestamp('2024-01-01T00:00:00.5Z'))", "1.5s2024-01-01T00:00:00.5Z"),
        ("1 / 0 == 1 || true", True),
        ("false && 1 / 0 == 1", False),
        ("dyn(1) == 1.0 && dyn(1u) == 1", True),
        ("dyn(true) == dyn(1)", False),
        ("type(1) == int && type([1]) == list", True),
        ("true ? 1 : 2", 1),
        ("'%s is %d'.format(['a', 1])", "a is 1"),
        ("[1, 2].first().value() + [1, 2].last().value()", 3),
        ("[optional.of(1), optional.none()].unwrapOpt()", [1]),
        ("--1 - ---1", 2),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_the_specification_says(text: str, wanted: Any) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 +", "1:4: Syntax error"),
        ("'a", "1:1: Syntax error: token recognition"),
        ("(1", "1:3: Syntax error"),
        ("1 + 'a'", "1:3: found no matching overload for '_+_' applied to '(int, string)'"),
        ("x", "1:1: undeclared reference to 'x'"),
        ("\n  [1, 'a']", "2:7: expected type 'int' but found 'string'"),
        ("1.all(x, true)", "cannot be range of a comprehension"),
        ("has(1)", "invalid argument to has() macro"),
        ("[1].all(1, true)", "argument must be a simple name"),
        ("for + 1", "reserved identifier: for"),
        ("9223372036854775808", "invalid int literal"),
        ("timestamp('x')", "invalid timestamp argument"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("Msg{a: 1}", "messages cannot be made"),
        ("[1, dyn(2)]", "expected type 'int' but found 'dyn'"),
        ("'%d'.format(['a'])", "no formatting clause d for type string"),
        ("'%s %s'.format(['a'])", "index 1 out of range"),
        ("size([1],)", "expecting 'an expression'"),
        ("[1].existsOne(x, x == 1)", "undeclared reference to"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_column(text: str, words: str) -> None:
    with pytest.raises(CelError, match=re.escape(words)):
        checked(text, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("1 % 0", "modulus by zero"),
        ("0u - 1u", "unsigned integer overflow"),
        ("{'a': 1}.b", "no such key: b"),
        ("[1][1]", "index out of bounds: 1"),
        ("dyn('a') + 1", "no such overload"),
        ("optional.none().value()", "dereference"),
        ("int('x')", "invalid syntax"),
        ("[1, 2].all(x, x / 0 == 1)", "division by zero"),
    ],
)
def test_what_has_no_value_says_why(text: str, words: str) -> None:
    with pytest.raises(EvalError, match=words):
        value(text)


def test_what_nests_too_deeply_is_refused_and_a_long_chain_is_not() -> None:
    for text in ("(" * 500 + "1" + ")" * 500, "1" + " + 1" * 500, "x" + ".a" * 500, "[" * 500 + "]" * 500):
        with pytest.raises(CelError, match="recursion limit"):
            parse(text)
    assert value("true" + " && true" * 5_000) is True
    assert value("(" * (MOST_DEPTH - 1) + "1" + ")" * (MOST_DEPTH - 1)) == 1
    with pytest.raises(CelError, match="exceeds limit"):
        parse("1" * 200_000)


def test_a_loop_within_a_loop_ends_by_its_budget() -> None:
    many = list(range(2_000))
    with pytest.raises(BudgetSpent):
        value("x.all(a, x.all(b, a + b >= 0))", x=many)
    assert value("x.all(a, a >= 0)", x=many) is True


def test_a_pattern_that_would_go_back_for_ever_is_matched_in_linear_time() -> None:
    assert value("x.matches('^(a+)+$')", x="a" * 50_000 + "b") is False


def test_the_estimate_grows_with_what_the_schema_allows() -> None:
    few = Type("list", params=(Type("string", most=40, least=2),), most=10)
    many = Type("list", params=(Type("string", most=3_000_000, least=2),), most=1_000_000)
    text = "self.all(x, self.exists_one(y, x == y))"
    small, large = (estimate(checked(text, {"self": kind}), kind).most for kind in (few, many))
    assert small < 10_000 < 10**15 < large <= END
    assert estimate(checked("size(self) > 1", {"self": list_of(STRING)}), few).most == 3


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (1.5, "1.5"), (1e21, "1e+21"), (1e-7, "1e-07"), (-0.25, "-0.25"), (0.0, "0")],
)
def test_a_float_is_written_as_go_writes_it(number: float, text: str) -> None:
    assert shown_float(number) == text
