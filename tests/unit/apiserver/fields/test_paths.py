"""Sets of paths and their notation."""

from typing import Any

import pytest

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import Malformed, Path

NOTATION: list[tuple[str, set[Path], dict[str, Any]]] = [
    ("nothing", set(), {}),
    ("a field of a field", {("f:data", "f:a")}, {"f:data": {"f:a": {}}}),
    (
        "a map and what is in it",
        {("f:data",), ("f:data", "f:a")},
        {"f:data": {".": {}, "f:a": {}}},
    ),
    (
        "the item of a list, by its keys",
        {("f:l", 'k:{"name":"a"}'), ("f:l", 'k:{"name":"a"}', "f:name")},
        {"f:l": {'k:{"name":"a"}': {".": {}, "f:name": {}}}},
    ),
    ("an item of a set", {("f:l", 'v:"a"'), ("f:l", "v:1")}, {"f:l": {'v:"a"': {}, "v:1": {}}}),
    ("a field that is named like the mark", {("f:.",)}, {"f:.": {}}),
]


@pytest.mark.parametrize(("found", "fields"), [c[1:] for c in NOTATION], ids=[c[0] for c in NOTATION])
def test_a_set_is_written_and_read(found: set[Path], fields: dict[str, Any]) -> None:
    assert paths.encoded(found) == fields
    assert paths.decoded(fields) == found


def test_equal_sets_are_written_alike() -> None:
    one, other = [("f:b",), ("f:a", "f:d"), ("f:a", "f:c")], [("f:a", "f:c"), ("f:b",), ("f:a", "f:d")]
    assert str(paths.encoded(one)) == str(paths.encoded(other))


DEEP: dict[str, Any] = {}
for _ in range(paths.MOST_DEEP + 2):
    DEEP = {"f:a": DEEP}
NO_SETS: list[tuple[str, Any, str]] = [
    ("a list", [], "a set of fields is an object"),
    ("a name without a kind", {"data": {}}, "'data' is no element of a path"),
    ("a value in place of a set", {"f:data": {"f:a": 1}}, ".data: 'f:a' is no element of a path"),
    ("more levels than any object has", DEEP, f".a.a.a.a…: deeper than {paths.MOST_DEEP} levels"),
]


@pytest.mark.parametrize(("fields", "said"), [c[1:] for c in NO_SETS], ids=[c[0] for c in NO_SETS])
def test_what_is_no_set_is_refused_with_where(fields: Any, said: str) -> None:
    with pytest.raises(Malformed) as refused:
        paths.decoded(fields)
    assert said in str(refused.value)


SHOWN: list[tuple[Path, str]] = [
    (("f:spec", "f:replicas"), ".spec.replicas"),
    (("f:l", 'k:{"port":80,"protocol":"TCP"}', "f:name"), '.l[port=80,protocol="TCP"].name'),
    (("f:finalizers", 'v:"a/b"'), '.finalizers[="a/b"]'),
    (("f:l", "k:[]"), ".l[[]]"),
    (("f:l", "i:3"), ".l[3]"),
]


@pytest.mark.parametrize(("path", "said"), SHOWN, ids=[said for _, said in SHOWN])
def test_a_path_is_shown_as_people_read_it(path: Path, said: str) -> None:
    assert paths.shown(path) == said


def test_what_is_below_a_root_is_outside_of_a_set_without_it() -> None:
    found = frozenset({("f:status",), ("f:status", "f:a"), ("f:statusText",), ("f:spec", "f:status")})
    assert paths.outside(found, [("f:status",)]) == {("f:statusText",), ("f:spec", "f:status")}
