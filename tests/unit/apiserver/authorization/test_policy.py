"""Decisions from roles and bindings, with and without the caches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.authorization.policy import Attributes, Binding, Decision, Policy, Rule, Subject
from kubewright.wire.http import User

GET_PODS, GET_A = Rule(("get",), ("",), ("pods",)), Rule(("get",), ("",), ("pods",), ("a",))
ROLES = {
    ("", "reader"): (GET_PODS,),
    ("n", "reader"): (GET_PODS,),
    ("n", "of-a"): (GET_A,),
    ("", "paths"): (Rule(("get",), urls=("/x/*",)),),
}
ACCOUNT = Subject("ServiceAccount", "sa", "n")


def bound(kind: str, role: str, subject: Subject, namespace: str = "n", name: str = "b") -> Binding:
    return Binding(namespace, name, kind, role, (subject,))


def asks(user: User, namespace: str = "n", name: str = "", url: str = "") -> Attributes:
    return Attributes(user, "get", resource="pods", namespace=namespace, name=name, url=url)


ANN, DEV, MASTER = User("ann", ()), User("x", ("devs",)), User("x", ("system:masters",))
ROBOT = User("system:serviceaccount:n:sa", ("system:serviceaccounts",))
BY = "RBAC: allowed by"


@pytest.mark.parametrize(
    ("binding", "asked", "decision"),
    [
        pytest.param(
            bound("Role", "reader", Subject("User", "ann")), asks(ANN),
            Decision(True, f'{BY} RoleBinding "b/n" of Role "reader" to User "ann"'), id="a user by a role",
        ),
        pytest.param(
            bound("Role", "reader", Subject("User", "ann")), asks(ANN, "m"),
            Decision(False), id="a role counts in its namespace only",
        ),
        pytest.param(
            bound("ClusterRole", "reader", Subject("Group", "devs")), asks(DEV),
            Decision(True, f'{BY} RoleBinding "b/n" of ClusterRole "reader" to Group "devs"'),
            id="a group by a cluster role in one namespace",
        ),
        pytest.param(
            bound("ClusterRole", "reader", Subject("Group", "devs")), asks(DEV, ""),
            Decision(False), id="and not in the whole cluster",
        ),
        pytest.param(
            bound("ClusterRole", "reader", ACCOUNT, ""), asks(ROBOT, "m"),
            Decision(True, f'{BY} ClusterRoleBinding "b" of ClusterRole "reader" to ServiceAccount "sa/n"'),
            id="a service account everywhere",
        ),
        pytest.param(
            bound("Role", "none", Subject("User", "ann")), asks(ANN),
            Decision(False, 'RBAC: role.rbac.authorization.k8s.io "none" not found'), id="a role that is missing",
        ),
        pytest.param(
            bound("Role", "of-a", Subject("User", "ann")), asks(ANN, name="a"),
            Decision(True, f'{BY} RoleBinding "b/n" of Role "of-a" to User "ann"'), id="one object by its name",
        ),
        pytest.param(
            bound("Role", "of-a", Subject("User", "ann")), asks(ANN, name="b"), Decision(False),
            id="and not another",
        ),
        pytest.param(
            bound("ClusterRole", "paths", Subject("User", "ann"), ""), asks(ANN, url="/x/y"),
            Decision(True, f'{BY} ClusterRoleBinding "b" of ClusterRole "paths" to User "ann"'), id="a path",
        ),
        pytest.param(
            bound("ClusterRole", "paths", Subject("User", "ann")), asks(ANN, "", url="/x/y"),
            Decision(False), id="no path in a namespace",
        ),
        pytest.param(
            bound("Role", "reader", Subject("User", "ann")), asks(MASTER, "m"), Decision(True),
            id="system:masters needs no binding",
        ),
    ],
)  # fmt: skip
def test_a_binding_decides(binding: Binding, asked: Attributes, decision: Decision) -> None:
    policy = Policy(ROLES, [binding])
    assert policy.decide(asked) == decision
    assert policy.decide(asked) == decision, "remembered"


WORDS = st.sampled_from(("a", "b", "*"))
SETS = st.lists(WORDS, min_size=1, max_size=2).map(tuple)
RULES = st.builds(Rule, SETS, SETS, SETS, st.one_of(st.just(()), SETS))
ASKED = st.builds(
    Attributes,
    st.just(ANN),
    WORDS,
    WORDS,
    WORDS,
    namespace=st.just("n"),
    name=st.sampled_from(("", "a", "b")),
)


@given(st.lists(RULES, max_size=4), st.lists(ASKED, min_size=1, max_size=8))
def test_what_is_remembered_changes_no_answer(rules: list[Rule], questions: list[Attributes]) -> None:
    policy = Policy({("n", "r"): rules}, [bound("Role", "r", Subject("User", "ann"))])
    for asked in questions:
        assert policy.decide(asked).allowed is any(rule.allows(asked) for rule in rules)


@given(RULES, RULES, ASKED)
def test_a_rule_that_covers_another_allows_what_the_other_allows(
    own: Rule, other: Rule, asked: Attributes
) -> None:
    if own.covers(other) and other.allows(asked):
        assert own.allows(asked)
