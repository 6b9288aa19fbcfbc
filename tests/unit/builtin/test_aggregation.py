"""What a ClusterRole gathers from others: pure."""

import pytest

from kubewright.builtin.aggregation import gathered

GET, LIST = {"verbs": ["get"]}, {"verbs": ["list"]}


def role(name, *rules, **labels):
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


def gathering(*selectors):
    return {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": list(selectors)}}


A, B = {"matchLabels": {"to": "a"}}, {"matchLabels": {"to": "b"}}


@pytest.mark.parametrize(
    ("selectors", "roles", "rules"),
    [
        pytest.param([A], [], [], id="nothing from no role"),
        pytest.param([A], [role("x", GET, to="b")], [], id="nothing from a role that is not selected"),
        pytest.param(
            [A], [role("y", LIST, to="a"), role("x", GET, to="a")], [GET, LIST], id="in the order of names"
        ),
        pytest.param(
            [B, A], [role("x", GET, to="a"), role("y", LIST, to="b")], [LIST, GET], id="selectors first"
        ),
        pytest.param(
            [A], [role("x", GET, to="a"), role("y", GET, LIST, to="a")], [GET, LIST], id="each once"
        ),
        pytest.param([{}], [role("all", GET), role("x", LIST)], [LIST], id="not from itself"),
        pytest.param(
            [{"matchExpressions": [{"key": "k", "operator": "?"}]}], [role("x", GET)], [], id="malformed"
        ),
    ],
)
def test_which_rules_a_role_aggregates(selectors, roles, rules):
    assert gathered(gathering(*selectors), roles) == rules
