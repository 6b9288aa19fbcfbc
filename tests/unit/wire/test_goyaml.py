"""YAML for and from programs in Go. tests/conformance/test_go_yaml.py asks Go's own libraries the same."""

from pathlib import Path

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubewright.wire import goyaml

AMBIGUOUS = [
    *("1e3", "08", "0o17", "017", "0x1F", "0b11", "1_000", "1.", ".5", "+1", "-08", "1__", "12e03", "0.1e-5"),
    *("12:30", "1:20:30", "190:20:30.15", "2001-01-01", "2001-1-1T1:1:1Z", "2001-12-14 21:59:43.10 -5"),
    *("y", "Y", "n", "N", "yes", "No", "on", "OFF", "true", "FALSE", "null", "Null", "~", "", "=", "<<"),
    *(".inf", "-.INF", "+.inf", ".nan", ".NaN", "99999999999999999999", "0x_", "-0o7", "685_230.15"),
]
PLAIN = ["demo", "v1.36.0", "10.0.0.1", "10.96.0.0/16", "a=b,c=d", "e3", "x1", "1.2.3", "nope", "-x", "a:b"]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_a_text_that_some_reader_takes_for_another_type_is_quoted_as_a_value_and_as_a_key(text: str) -> None:
    assert goyaml.dumped({text: text}) == f"'{text}': '{text}'\n"
    assert goyaml.dumped([text]) == f"- '{text}'\n"


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_stays_plain(text: str) -> None:
    assert goyaml.dumped({"a": text}) == f"a: {text}\n"


def test_values_of_other_types_stay_what_they_are() -> None:
    value = {"a": 1, "b": True, "c": None, "d": [1.5], "e": {}}
    assert goyaml.loads(goyaml.dumped(value)) == value


def test_nothing_is_folded_and_what_occurs_twice_is_written_twice() -> None:
    twice = ["word " * 100]
    assert goyaml.dumped({"b": twice, "a": twice}) == f"b:\n- '{twice[0]}'\na:\n- '{twice[0]}'\n"


TEXTS = st.one_of(
    st.text(),
    st.text("0123456789+-._eExXbBoOyYnNtT:~= "),
    st.text("a#-?:,[]{}&*!|>'\"%@`\\ \t\n\r\x85\u2028\ufeff\xa0\x00\x1b"),
)


@given(st.dictionaries(TEXTS, st.one_of(TEXTS, st.lists(TEXTS))))
def test_python_and_our_reader_read_what_was_written(value: dict[str, object]) -> None:
    text = goyaml.dumped(value)
    assert yaml.safe_load(text) == value
    assert goyaml.loads(text) == value


READ = {
    "12:30": "12:30",
    "1e3": 1000,
    "08": 8,
    "0o17": 15,
    "017": 15,
    "1_000": 1000,
    "0x1F": 31,
    "-0b11": -3,
    "y": True,
    "off": False,
    "tRUE": "tRUE",
    "2001-01-01": "2001-01-01",
    "=": "=",
    "<<": "<<",
    "~": None,
    "1e400": "1e400",
    ".5": 0.5,
    ".5_": ".5_",
    "0x": "0x",
    "18446744073709551615": 2**64 - 1,
    "!!str 1": "1",
    "!!int '3'": 3,
    "!!binary aGk=": "hi",
    "!other x": "x",
    "'1'": "1",
}


@pytest.mark.parametrize(("word", "value"), READ.items(), ids=READ)
def test_a_word_is_read_as_kubernetes_reads_it(word: str, value: object) -> None:
    found = goyaml.loads(f"a: {word}\n")["a"]
    assert (found, type(found)) == (value, type(value))


KEYS = {"y": "true", "1e3": "1000", "08": "8", "12:30": "12:30", "1e6": "1e+06", ".inf": ".inf"}


@pytest.mark.parametrize(("word", "key"), KEYS.items(), ids=KEYS)
def test_a_key_is_what_json_makes_of_it(word: str, key: str) -> None:
    assert goyaml.loads(f"{word}: 1\n") == {key: 1}


REFUSED = {
    ".inf": ("a: 1\nb: .inf\n", "yaml: line 2: unsupported value: +Inf"),
    "a key that is null": ("~: 1\n", "yaml: line 1: unsupported map key: it is null"),
    "a key that is a list": ("? [a]\n: 1\n", "yaml: line 1: unsupported map key: it is a map or a list"),
    "no YAML": ("a: b: c\n", "yaml: line 1: mapping values are not allowed in this context"),
    "itself": ("a: &a [*a]\n", "yaml: line 1: an anchor's value contains itself"),
    "a wrong tag": ("a: !!int x\n", "yaml: line 1: cannot decode the value as a !!int"),
    "a control character": ("a: \x07\n", "yaml: control characters are not allowed"),
    "too deep": ("[" * 300 + "]" * 300, "yaml: exceeded max depth of 240"),
    "much too deep": ("[" * 100_000, "yaml: exceeded max depth of 240"),
    "no UTF-8": (b"a: \xff\n", "yaml: invalid leading UTF-8 octet"),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_what_kubernetes_does_not_read_is_refused_with_the_line(text: str | bytes, words: str) -> None:
    with pytest.raises(goyaml.Unreadable) as refused:
        goyaml.loads(text)
    assert str(refused.value) == words


def test_aliases_and_merges_are_read_as_far_as_they_are_bounded() -> None:
    text = "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n"
    assert goyaml.loads(text) == {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}
    bomb = "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}' if n else 'x'] * 9)}]\n" for n in range(9))
    with pytest.raises(goyaml.Unreadable, match="excessive aliasing"):
        goyaml.loads(bomb)
    with pytest.raises(goyaml.Unreadable, match="aliases are not accepted"):
        goyaml.loads(text, aliases=False)


def test_of_two_equal_keys_the_last_counts_unless_keys_are_to_be_unique() -> None:
    assert goyaml.loads("a: 1\na: 2\n") == {"a": 2}
    with pytest.raises(goyaml.Unreadable, match="line 2: key 'a' already set in map"):
        goyaml.loads("a: 1\na: 2\n", unique=True)


def test_all_documents_are_read() -> None:
    assert goyaml.load_all("---\na: 1\n---\n- y\n") == [{"a": 1}, [True]]
    assert goyaml.load_all("") == []
    assert goyaml.loads("") is None


JUDGED = [
    orjson.loads(line) for line in (Path(__file__).parent / "judged_yaml.jsonl").read_bytes().splitlines()
]
"""Texts, each with what ``sigs.k8s.io/yaml`` v1.6.0 made of it; none, where that refused it."""


def typed(value: object) -> object:
    """A value whose numbers tell their types; of what no int64 holds, a float is as good."""
    match value:
        case dict():
            return {name: typed(inner) for name, inner in value.items()}
        case list():
            return [typed(item) for item in value]
        case int() if not isinstance(value, bool):
            return ("int", value) if -(2**63) <= value < 2**63 else ("float", float(value))
        case float():
            return ("float", value)
    return value if value is None or isinstance(value, str) else ("bool", value)


def test_whole_texts_are_read_as_kubernetes_reads_them() -> None:
    said, wanted = {}, {}
    for text, *value in JUDGED:
        wanted[text] = typed(value)
        try:
            said[text] = typed([goyaml.loads(text)])
        except goyaml.Unreadable:
            said[text] = typed([])
    assert said == wanted
