"""Privilege escalation is prevented; aggregated roles; what a binding may not change."""

from typing import Any

import pytest

from kubewright.testing.api import Answer, Api, Object

RBAC = "rbac.authorization.k8s.io"
ALL_OF_RBAC = {
    "apiGroups": [RBAC],
    "resources": ["roles", "rolebindings"],
    "verbs": ["get", "create", "patch"],
}
GET_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
TWO = {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"]}
GATHERS = "must have cluster-admin privileges to use the aggregationRule"


def user(api: Api) -> str:
    return f"dev-{api.namespace}"


def lacks(api: Api, kind: str, name: str, *rules: str) -> str:
    who = f'user "{user(api)}" (groups=["system:authenticated"])'
    shown = "\n".join(rules)
    return f'{kind}.{RBAC} "{name}" is forbidden: {who} is attempting to grant RBAC permissions not currently held:\n{shown}'


def role(name: str, *rules: Object, **more: Any) -> Object:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(api: Api, name: str, kind: str, ref: str) -> Object:
    subject = {"kind": "User", "name": user(api), "apiGroup": RBAC}
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": ref, "apiGroup": RBAC},
        "subjects": [subject],
    }


def cluster(plural: str, name: str = "") -> str:
    return f"/apis/{RBAC}/v1/{plural}" + (f"/{name}" if name else "")


async def writer(api: Api, *rules: Object) -> Api:
    """A user who may write roles and bindings of the test's namespace, and has ``rules`` besides."""
    (await api.post(api.at("roles", group=RBAC), role("own", ALL_OF_RBAC, *rules))).ok()
    (await api.post(api.at("rolebindings", group=RBAC), binding(api, "own", "Role", "own"))).ok()
    dev = api.as_user(user(api))

    async def in_use() -> bool:
        return (await dev.get(api.at("roles", "own", group=RBAC))).code == 200

    await api.eventually(in_use, "the role is in use")
    return dev


async def test_a_role_gives_no_more_than_its_writer_has(api: Api) -> None:
    dev = await writer(api, GET_PODS)
    answer = await dev.post(api.at("roles", group=RBAC), role("r", TWO))
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == lacks(
        api, "roles", "r",
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["services"], Verbs:["get" "list"]}',
    )  # fmt: skip
    assert answer.body["details"] == {"name": "r", "group": RBAC, "kind": "roles"}
    assert (await dev.post(api.at("roles", group=RBAC), role("r", GET_PODS))).code == 201
    more = await dev.patch(api.at("roles", "r", group=RBAC), {"rules": [TWO]})
    assert more.code == 403
    held = await dev.patch(api.at("roles", "r", group=RBAC), {"metadata": {"labels": {"a": "b"}}})
    assert held.code == 200


async def test_only_owners_of_a_role_may_change_without_its_rights(api: Api) -> None:
    dev = await writer(api)
    (await api.post(api.at("roles", group=RBAC), role("r", TWO))).ok()
    owned = await dev.patch(api.at("roles", "r", group=RBAC), {"metadata": {"finalizers": ["example.io/f"]}})
    assert owned.code == 200
    labelled = await dev.patch(api.at("roles", "r", group=RBAC), {"metadata": {"labels": {"a": "b"}}})
    assert labelled.code == 403
    await api.patch(api.at("roles", "r", group=RBAC), {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("verb", ["escalate", "bind"])
async def test_who_is_trusted_grants_more(api: Api, verb: str) -> None:
    rule = {"apiGroups": [RBAC], "resources": ["roles"], "verbs": [verb]}
    dev = await writer(api, rule)
    (await api.post(api.at("roles", group=RBAC), role("two", TWO))).ok()
    written: Answer = await dev.post(api.at("roles", group=RBAC), role("r", TWO))
    bound = await dev.post(api.at("rolebindings", group=RBAC), binding(api, "b", "Role", "two"))
    assert (written.code, bound.code) == ((201, 403) if verb == "escalate" else (403, 201))


async def test_to_bind_may_be_allowed_for_one_role(api: Api) -> None:
    rule = {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["view"]}
    dev = await writer(api, rule)
    path = api.at("rolebindings", group=RBAC)
    assert (await dev.post(path, binding(api, "v", "ClusterRole", "view"))).code == 201
    answer = await dev.post(path, binding(api, "e", "ClusterRole", "system:aggregate-to-edit"))
    assert answer.code == 403


async def test_a_binding_gives_no_more_than_its_writer_has(api: Api) -> None:
    dev = await writer(api)
    (await api.post(api.at("roles", group=RBAC), role("r", GET_PODS))).ok()
    path = api.at("rolebindings", group=RBAC)
    answer = await dev.post(path, binding(api, "b", "Role", "r"))
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == lacks(
        api, "rolebindings", "b", '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
    )
    missing = await dev.post(path, binding(api, "b", "Role", "none"))
    assert (missing.code, missing.message) == (404, f'rolebindings.{RBAC} "none" not found')
    assert (await api.post(path, binding(api, "b", "Role", "none"))).code == 201  # an admin may be early


async def test_only_a_user_with_all_rights_may_create_an_aggregated_role(api: Api) -> None:
    name = f"gatherers-{api.namespace}"
    rule = {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["create", "get"]}
    (await api.post(cluster("clusterroles"), role(name, rule))).ok()
    (await api.post(cluster("clusterrolebindings"), binding(api, name, "ClusterRole", name))).ok()
    dev = api.as_user(user(api))

    async def in_use() -> bool:
        return (await dev.get(cluster("clusterroles", name))).code == 200

    await api.eventually(in_use, "the role is in use")
    gathers = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    answer = await dev.post(cluster("clusterroles"), role(f"{name}-all", **gathers))
    assert answer.code == 403
    assert answer.message == f'clusterroles.{RBAC} "{name}-all" is forbidden: {GATHERS}'


async def test_an_aggregated_role_has_the_rules_of_the_selected_roles(api: Api) -> None:
    name, label = f"all-{api.namespace}", {f"gather-{api.namespace}": "yes"}
    gathers = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]}}
    path = cluster("clusterroles", name)

    async def has(*rules: Object) -> bool:
        return ((await api.get(path)).ok().get("rules") or []) == list(rules)

    (await api.post(cluster("clusterroles"), role(name, GET_PODS, **gathers))).ok()
    for part, rule in (("b", TWO), ("a", GET_PODS)):
        made = {**role(f"{name}-{part}", rule), "metadata": {"name": f"{name}-{part}", "labels": label}}
        (await api.post(cluster("clusterroles"), made)).ok()
    await api.eventually(lambda: has(GET_PODS, TWO), "the rules of both, by name")
    (await api.patch(cluster("clusterroles", f"{name}-a"), {"metadata": {"labels": None}})).ok()
    await api.eventually(lambda: has(TWO), "the rules of the one that is left")
    (await api.delete(cluster("clusterroles", f"{name}-b"))).ok()
    await api.eventually(has, "nothing")


async def test_a_binding_keeps_its_role(api: Api) -> None:
    (await api.post(api.at("rolebindings", group=RBAC), binding(api, "b", "Role", "r"))).ok()
    path = api.at("rolebindings", "b", group=RBAC)
    answer = await api.patch(path, {"roleRef": {"name": "other"}})
    ref = f'{{"APIGroup":"{RBAC}","Kind":"Role","Name":"other"}}'
    assert (answer.code, answer.causes) == (
        422, [("FieldValueInvalid", "roleRef", f"Invalid value: {ref}: cannot change roleRef")]
    )  # fmt: skip
