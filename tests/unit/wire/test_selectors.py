"""Selectors: what they match, how they print, and the errors of malformed ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.selectors import EVERYTHING, NOTHING, Requirement, Selector

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("missing=x", False),
        ("app", True),
        ("missing", False),
        ("!app", False),
        ("!missing", True),
        ("app in (web, db)", True),
        ("app in (a)", False),
        ("app notin (a,b)", True),
        ("app notin (web)", False),
        ("missing notin (a)", True),
        ("n>4", True),
        ("n>5", False),
        ("n<6", True),
        ("app>1", False),
        ("missing>1", False),
        ("empty=", True),
        ("empty in ()", True),
        ("empty in (a,)", True),
        ("app=web,tier in (front),!x", True),
        ("app=web,tier=back", False),
        ("in=in", False),
        ("app notin (in, notin)", True),
        ("  app = web ,\ttier", True),
        ("example.com/role=x", False),
    ],
)
def test_a_label_selector_matches(text: str, matches: bool) -> None:
    selector = selectors.parse(text)
    assert selector.matches(LABELS) is matches
    assert selectors.parse(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        (
            "a>b",
            'unable to parse requirement: values[0]: Invalid value: "b": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_malformed_label_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        selectors.parse(text)
    assert refused.value.message == message


@given(st.text(alphabet="ab=!<>(),. innotx/-_", max_size=30))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = selectors.parse(text)
    except BadRequest:
        return
    assert selectors.parse(str(selector)) == selector
    selector.matches(LABELS)


@pytest.mark.parametrize(
    ("given_", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
    ],
    ids=str,
)
def test_a_selector_object_matches(given_: dict[str, object] | None, matches: bool) -> None:
    assert selectors.from_object(given_).matches(LABELS) is matches


@pytest.mark.parametrize(
    "given_",
    [
        {"matchExpressions": [{"key": "a", "operator": "Like"}]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
        {"matchLabels": {"bad key!": "x"}},
        {"matchLabels": {"a": "bad value!"}},
    ],
    ids=str,
)
def test_a_malformed_selector_object_is_refused(given_: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        selectors.from_object(given_)


def test_selectors_are_values() -> None:
    assert selectors.parse("b in (y,x),a=1") == selectors.parse("b in (x, y),a==1")
    assert len({selectors.parse("a=1"), selectors.parse("a==1"), EVERYTHING}) == 2
    assert not EVERYTHING
    assert not NOTHING.matches({})
    assert selectors.parse("a=1").value_of("a") == "1"
    assert selectors.parse("a in (1,2)").value_of("a") is None


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=m1", True),
        ("metadata.name!=m1", False),
        ("metadata.name==m1,status.phase!=Failed", True),
        (r"x=a\,b", True),
        (r"x=a\=b", False),
        (",metadata.name=m1,", True),
    ],
)
def test_a_field_selector_matches(text: str, matches: bool) -> None:
    fields = {"metadata.name": "m1", "status.phase": "Running", "x": "a,b"}
    assert selectors.parse_fields(text).matches(fields) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ab", "invalid selector: 'ab'; can't understand 'ab'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
    ],
)
def test_a_malformed_field_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        selectors.parse_fields(text)
    assert refused.value.message == message


WORDS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "x", "y", "3", "4", "5"])
REQUIREMENTS = st.one_of(
    st.builds(Requirement, WORDS, st.sampled_from(["in", "notin"]), st.lists(VALUES, min_size=1).map(tuple)),
    st.builds(Requirement, WORDS, st.sampled_from(["exists", "!"])),
    st.builds(Requirement, WORDS, st.sampled_from([">", "<"]), st.tuples(st.sampled_from(["3", "4"]))),
)


def is_met(wanted: Requirement, value: str | None) -> bool:
    """One requirement, as the documentation of labels says it."""
    if value is None:
        return wanted.operator in ("notin", "!")
    if wanted.operator in (">", "<"):
        low, high = (value, wanted.values[0]) if wanted.operator == "<" else (wanted.values[0], value)
        return value.isdigit() and int(low) < int(high)
    listed = value in wanted.values
    return {"in": listed, "notin": not listed, "exists": True, "!": False}[wanted.operator]


@given(st.lists(REQUIREMENTS).map(tuple), st.dictionaries(WORDS, VALUES))
def test_a_selector_matches_what_meets_each_of_its_requirements(
    requirements: tuple[Requirement, ...], labels: dict[str, str]
) -> None:
    selector = Selector(requirements)
    assert selector.matches(labels) == all(is_met(each, labels.get(each.key)) for each in requirements)
    assert set(selector.keys) == {each.key for each in requirements}


@pytest.mark.parametrize(
    ("piece", "matches"),
    [("!a{}", True), ("a{}", False), ("app!=x{}", True), ("app", True), ("app notin (x{0},y{0})", True)],
)
def test_a_long_selector_is_matched_in_a_time_that_does_not_grow_with_it(piece: str, matches: bool) -> None:
    """A URL has room for 64 KB. With a look at each requirement this would take a minute and more."""
    selector = selectors.parse(",".join(piece.format(number) for number in range(64_000 // len(piece))))
    found = {selector.matches({**LABELS, "number": str(number)}) for number in range(50_000)}
    assert found == {matches}
