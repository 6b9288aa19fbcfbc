"""A default role or binding, and what is stored under its name."""

import copy
from typing import Any

import pytest

from kubewright.apiserver.authorization.defaults import AUTOUPDATE, objects, reconciled
from kubewright.apiserver.registry.builtin import builtin_catalog

DEFAULTS = {(each["kind"], each["metadata"]["name"]): each for each in objects()}
BASIC = DEFAULTS["ClusterRole", "system:basic-user"]
ADMIN = DEFAULTS["ClusterRole", "admin"]
MINE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def stored(obj: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**copy.deepcopy(obj), **changed}


def annotated(obj: dict[str, Any], value: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {AUTOUPDATE: value}}}


@pytest.mark.parametrize(
    "wanted", DEFAULTS.values(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}"
)
def test_a_default_is_valid_and_is_not_completed_again(wanted: dict[str, Any]) -> None:
    kind = builtin_catalog().find("rbac.authorization.k8s.io", "v1", f"{wanted['kind'].lower()}s")
    assert kind is not None
    assert kind.schema.validate(wanted) + kind.check(wanted, None) == []
    assert kind.schema.prune(wanted) == wanted
    assert kind.prepare(wanted, None) == wanted
    assert reconciled(wanted, stored(wanted)) is None


@pytest.mark.parametrize(
    ("wanted", "there", "after"),
    [
        pytest.param(
            BASIC,
            stored(BASIC, rules=BASIC["rules"][:1]),
            {"rules": BASIC["rules"]},
            id="a rule that was taken away",
        ),
        pytest.param(
            BASIC, stored(BASIC, rules=[*BASIC["rules"], MINE]), None, id="a rule that was added stays"
        ),
        pytest.param(
            BASIC,
            annotated(stored(BASIC, rules=[]), "false"),
            None,
            id="what a user added stays as it is",
        ),
        pytest.param(ADMIN, stored(ADMIN, rules=[MINE]), None, id="aggregated rules are the controller's"),
        pytest.param(
            DEFAULTS["ClusterRoleBinding", "system:monitoring"],
            stored(DEFAULTS["ClusterRoleBinding", "system:monitoring"], subjects=[]),
            {"subjects": DEFAULTS["ClusterRoleBinding", "system:monitoring"]["subjects"]},
            id="a subject that was taken away",
        ),
        pytest.param(
            DEFAULTS["ClusterRoleBinding", "cluster-admin"],
            stored(DEFAULTS["ClusterRoleBinding", "cluster-admin"], roleRef={"name": "view"}),
            {"roleRef": DEFAULTS["ClusterRoleBinding", "cluster-admin"]["roleRef"]},
            id="a binding to another role",
        ),
    ],
)
def test_a_stored_default_is_completed(wanted: Any, there: Any, after: Any) -> None:
    found = reconciled(wanted, there)
    if after is None:
        assert found is None
    else:
        assert found is not None
        assert found.items() >= after.items()
        assert reconciled(wanted, found) is None


def test_missing_labels_and_annotations_come_back_and_others_stay() -> None:
    there = stored(BASIC, metadata={"name": "system:basic-user", "labels": {"mine": "1"}})
    found = reconciled(BASIC, there)
    assert found is not None
    assert found["metadata"]["labels"] == {"mine": "1", **BASIC["metadata"]["labels"]}
    assert found["metadata"]["annotations"] == {AUTOUPDATE: "true"}
