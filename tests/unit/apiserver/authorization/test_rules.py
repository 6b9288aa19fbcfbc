"""What one rule allows, and which rules it covers."""

import pytest

from kubewright.apiserver.authorization.policy import Attributes, Rule, compact, forbidden, rules_in
from kubewright.wire.http import User

ANN = User("ann", ("devs",))
PODS = Rule(("get", "list"), ("",), ("pods",))


def asks(
    verb: str = "get",
    resource: str = "pods",
    subresource: str = "",
    *,
    group: str = "",
    name: str = "",
    url: str = "",
) -> Attributes:
    return Attributes(ANN, verb, group, resource, subresource, "n", name, url)


@pytest.mark.parametrize(
    ("rule", "asked", "allowed"),
    [
        pytest.param(PODS, asks(), True, id="the verb and the resource stand in it"),
        pytest.param(PODS, asks("watch"), False, id="to list is not to watch"),
        pytest.param(PODS, asks(resource="secrets"), False, id="another resource"),
        pytest.param(PODS, asks(group="apps"), False, id="the same resource of another group"),
        pytest.param(PODS, asks(subresource="log"), False, id="a kind is not its subresources"),
        pytest.param(Rule(("*",), ("",), ("pods",)), asks("watch"), True, id="all verbs"),
        pytest.param(Rule(("get",), ("*",), ("pods",)), asks(group="apps"), True, id="all groups"),
        pytest.param(
            Rule(("get",), ("",), ("*",)), asks(subresource="log"), True, id="all resources have subresources"
        ),
        pytest.param(Rule(("get",), ("",), ("pods/log",)), asks(subresource="log"), True, id="a subresource"),
        pytest.param(Rule(("get",), ("",), ("pods/log",)), asks(), False, id="a subresource is not its kind"),
        pytest.param(
            Rule(("get",), ("",), ("*/log",)), asks(subresource="log"), True, id="a subresource of every kind"
        ),
        pytest.param(Rule(("get",), ("",), ("*/log",)), asks(subresource="status"), False, id="but no other"),
        pytest.param(
            Rule(("get",), ("",), ("*/*",)), asks(subresource="log"), False, id="the star has no subresources"
        ),
        pytest.param(Rule(("get",), ("",), ("pods",), ("a",)), asks(name="a"), True, id="its name"),
        pytest.param(Rule(("get",), ("",), ("pods",), ("a",)), asks(name="b"), False, id="another name"),
        pytest.param(
            Rule(("get",), ("",), ("pods",), ("a",)), asks(), False, id="a name, when all are asked for"
        ),
        pytest.param(Rule(("get",), urls=("/x",)), asks(url="/x"), True, id="a path"),
        pytest.param(Rule(("get",), urls=("/x",)), asks(url="/x/y"), False, id="a path below it"),
        pytest.param(Rule(("get",), urls=("/x/*",)), asks(url="/x/y/z"), True, id="all paths below one"),
        pytest.param(Rule(("get",), urls=("*",)), asks(url="/x"), True, id="all paths"),
        pytest.param(Rule(("*",), ("*",), ("*",)), asks(url="/x"), False, id="all resources are no paths"),
        pytest.param(Rule(()), asks(), False, id="a rule that says nothing"),
    ],
)
def test_what_a_rule_allows(rule: Rule, asked: Attributes, allowed: bool) -> None:
    assert rule.allows(asked) is allowed


@pytest.mark.parametrize(
    ("own", "other", "covered"),
    [
        pytest.param(PODS, PODS, True, id="itself"),
        pytest.param(PODS, Rule(("get",), ("",), ("pods",)), True, id="fewer verbs"),
        pytest.param(PODS, Rule(("get", "watch"), ("",), ("pods",)), False, id="one verb more"),
        pytest.param(PODS, Rule(("get",), ("",), ("pods",), ("a",)), True, id="some names of all"),
        pytest.param(Rule(("get",), ("",), ("pods",), ("a",)), PODS, False, id="all names of some"),
        pytest.param(
            Rule(("get",), ("",), ("*/scale",)), Rule(("get",), ("",), ("d/scale",)), True, id="a subresource"
        ),
        pytest.param(
            Rule(("get",), ("",), ("pods",)), Rule(("get",), ("",), ("*",)), False, id="a star of one"
        ),
        pytest.param(
            Rule(("*",), ("*",), ("*",)), Rule(("get",), urls=("/x",)), False, id="paths of resources"
        ),
        pytest.param(
            Rule(("get",), urls=("/x/*",)), Rule(("get",), urls=("/x/y/*",)), True, id="narrower paths"
        ),
    ],
)
def test_which_rules_a_rule_covers(own: Rule, other: Rule, covered: bool) -> None:
    assert own.covers(other) is covered


def test_rules_are_read_from_whatever_stands_in_a_role() -> None:
    assert rules_in({}) == ()
    assert rules_in({"rules": None}) == ()
    assert rules_in({"rules": [{"verbs": "get", "resources": [1, "pods"]}, 7]}) == (Rule((), (), ("pods",)),)


def test_rules_that_differ_in_verbs_are_shown_as_one() -> None:
    parts = Rule(("get", "list"), ("", "apps"), ("pods",), ("a",)).parts()
    assert [str(rule) for rule in compact(parts)] == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}',
        '{APIGroups:["apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}',
    ]
    paths = Rule(("get", "put"), urls=("/x",)).parts()
    assert [str(rule) for rule in compact(paths)] == [
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
        '{NonResourceURLs:["/x"], Verbs:["put"]}',
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            Attributes(ANN, "list", resource="pods", namespace="n"),
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "n"',
        ),
        (
            Attributes(ANN, "patch", "apps", "deployments", "scale", name="d"),
            'deployments.apps "d" is forbidden: User "ann" cannot patch resource "deployments/scale" in API '
            'group "apps" at the cluster scope',
        ),
        (Attributes(ANN, "get", url="/x"), 'forbidden: User "ann" cannot get path "/x"'),
    ],
    ids=["a list", "a part of one object", "a path"],
)
def test_a_refusal_says_what_was_asked_for(asked: Attributes, said: str) -> None:
    assert forbidden(asked).message == said
    assert forbidden(asked, "RBAC: why").message == f"{said}: RBAC: why"
