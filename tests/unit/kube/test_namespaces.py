"""Which namespaces words choose, and how they are watched: ``kube.scope``, ``kube.scope``."""

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.kube.scope import Namespaces, Scope

CHOICES = [
    ("no word chooses all", "", "", {"a", "team-a", "kube-x"}, set()),
    ("a star chooses all", "*", "", {"a", "team-a"}, set()),
    ("a name chooses itself", "a", "", {"a"}, {"ab", "b"}),
    ("a list chooses each", "a, b", "", {"a", "b"}, {"c"}),
    ("a beginning chooses what begins so", "team-*", "", {"team-a", "team-"}, {"team", "a"}),
    ("a name beside a beginning", "team-*,x", "", {"team-a", "x"}, {"y"}),
    ("all but a name", "", "a", {"b"}, {"a"}),
    ("all but a beginning", "", "kube-*,a", {"b"}, {"kube-x", "a"}),
    ("a beginning but a longer one", "team-*", "team-x-*,team-b", {"team-a"}, {"team-x-1", "team-b", "c"}),
]


@pytest.mark.parametrize(
    ("wanted", "excluded", "ours", "others"), [r[1:] for r in CHOICES], ids=[r[0] for r in CHOICES]
)
def test_words_choose(wanted: str, excluded: str, ours: set[str], others: set[str]) -> None:
    found = Namespaces.parsed(wanted, excluded)
    assert {each for each in ours | others if each in found} == ours
    assert "" in found, "objects without a namespace are in every choice"


@pytest.mark.parametrize(
    ("wanted", "excluded", "problem"),
    [
        ("A", "", "namespace 'A': a lowercase RFC 1123 label"),
        ("a.b", "", "namespace 'a.b': must not contain dots"),
        ("a*b", "", "namespace 'a\\*b'"),
        ("-*", "", "namespace '-\\*'"),
        ("a", "a", "no namespace is left of 'a' without 'a'"),
        ("team-*,a", "team*,a", "no namespace is left"),
        ("", "*", "no namespace is left of 'all'"),
    ],
)
def test_what_is_no_choice_is_refused(wanted: str, excluded: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Namespaces.parsed(wanted, excluded)


WATCHES = [
    ("all of them", "", "", [("", "")]),
    ("each that is named", "a,b", "", [("a", ""), ("b", "")]),
    ("each that is named and not excluded", "a,b", "b", [("a", "")]),
    ("all where a word is a beginning, since servers know none", "a,team-*", "", [("", "")]),
    (
        "all but those that the server can leave out",
        "",
        "a,kube-*,b",
        [("", "metadata.namespace!=a,metadata.namespace!=b")],
    ),
]


@pytest.mark.parametrize(
    ("wanted", "excluded", "watches"), [r[1:] for r in WATCHES], ids=[r[0] for r in WATCHES]
)
def test_what_is_watched(wanted: str, excluded: str, watches: list[tuple[str, str]]) -> None:
    parts = Scope(only=Namespaces.parsed(wanted, excluded)).parts
    assert [(each.namespace, dict(each.query).get("fieldSelector", "")) for each in parts] == watches


def test_selectors_are_kept_beside_namespaces() -> None:
    scope = Scope("", "app", "type=x", Namespaces.parsed("", "a"))
    asked = {"labelSelector": "app", "fieldSelector": "type=x,metadata.namespace!=a"}
    assert dict(scope.query) == asked
    assert [dict(each.query) for each in Scope("", "app", "type=x", Namespaces.parsed("b,c")).parts] == [
        {"labelSelector": "app", "fieldSelector": "type=x"}
    ] * 2
