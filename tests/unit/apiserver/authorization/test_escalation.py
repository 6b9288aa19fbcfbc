"""A user cannot grant rights that the user does not have."""

from typing import Any

import pytest

from kubewright.apiserver.authorization.policy import (
    GROUP,
    Attributes,
    Binding,
    MissingRole,
    Policy,
    Rule,
    Subject,
    fault_of_binding,
    fault_of_role,
)
from kubewright.wire.http import User

ANN, MASTER = User("ann", ("devs",)), User("x", ("system:masters",))
GET_PODS = Rule(("get",), ("",), ("pods",))
EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
ESCALATES = Rule(("escalate",), (GROUP,), ("roles",))
BINDS = Rule(("bind",), (GROUP,), ("clusterroles",), ("view",))
LACKS = 'user "ann" (groups=["devs"]) is attempting to grant RBAC permissions not currently held:\n'
SECRETS = f'{LACKS}{{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}}'
GATHERS = "must have cluster-admin privileges to use the aggregationRule"


def policy(*rules: Rule) -> Policy:
    roles = {("", "own"): rules, ("", "view"): (Rule(("get", "list"), ("",), ("secrets",)),)}
    return Policy(roles, [Binding("", "b", "ClusterRole", "own", (Subject("User", "ann"),))])


def role(*rules: Rule, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "rules": [rule.wire() for rule in rules], **more}


def binding(kind: str, name: str) -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": name}}


def writing(user: User = ANN, resource: str = "roles") -> Attributes:
    return Attributes(user, "", GROUP, resource, namespace="n")


TWO = role(Rule(("get", "list"), ("",), ("secrets",)), GET_PODS)
AGGREGATE: dict[str, Any] = {"aggregationRule": {"clusterRoleSelectors": [{}]}}


@pytest.mark.parametrize(
    ("held", "user", "new", "old", "why"),
    [
        pytest.param((GET_PODS,), ANN, role(GET_PODS), None, "", id="what the user has"),
        pytest.param((GET_PODS,), ANN, TWO, None, SECRETS, id="more than the user has"),
        pytest.param((ESCALATES,), ANN, TWO, None, "", id="trusted to escalate"),
        pytest.param((), MASTER, TWO, None, "", id="a member of system:masters"),
        pytest.param((), ANN, TWO, TWO, "", id="nothing but its owners changes"),
        pytest.param((), ANN, role(**AGGREGATE), None, GATHERS, id="a role with an aggregationRule"),
        pytest.param((), ANN, role(), role(**AGGREGATE), GATHERS, id="a role that had an aggregationRule"),
        pytest.param(
            EVERYTHING, ANN, role(**AGGREGATE), None, "", id="a user with every right may aggregate"
        ),
    ],
)
def test_who_may_write_a_role(held: Any, user: User, new: Any, old: Any, why: str) -> None:
    assert fault_of_role(policy(*held), writing(user), new, old) == why


@pytest.mark.parametrize(
    ("held", "user", "new", "why"),
    [
        pytest.param(
            (), ANN, binding("ClusterRole", "view"), SECRETS, id="a role that gives more than the user has"
        ),
        pytest.param((BINDS,), ANN, binding("ClusterRole", "view"), "", id="trusted to bind it"),
        pytest.param(
            (GET_PODS,), ANN, binding("ClusterRole", "own"), "", id="a role that gives what the user has"
        ),
        pytest.param(
            (), MASTER, binding("Role", "none"), "", id="a member of system:masters binds a missing role"
        ),
    ],
)
def test_who_may_write_a_binding(held: Any, user: User, new: Any, why: str) -> None:
    found = policy(*held)
    assert fault_of_binding(found, writing(user, "rolebindings"), new, None) == why


def test_a_binding_to_a_role_that_is_not_there_is_not_found() -> None:
    with pytest.raises(MissingRole, match="none"):
        fault_of_binding(policy(), writing(ANN, "rolebindings"), binding("Role", "none"), None)
