"""Server-side apply: who manages which fields, conflicts, and refusals of what cannot be applied."""

from typing import Any

import pytest
from tests.conformance.own_kinds import OwnKind

from kubewright.apiserver.fields.paths import decoded, shown
from kubewright.testing.api import Answer, Api, Object
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH

YAML = b"""
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  k: v
"""


def config(name: str = "a", *, metadata: Object | None = None, **data: str) -> Object:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})}}
    return head | ({"data": data} if data else {})


async def apply(api: Api, body: Any, who: str = "one", *, at: str = "", **query: str) -> Answer:
    path = at or api.at("configmaps", "a")
    return await api.patch(path, body, content_type=APPLY_PATCH, fieldManager=who, **query)


def managers(obj: Object) -> dict[str, set[str]]:
    """Manager, operation and subresource to the paths."""
    return {
        " ".join(filter(None, (entry["manager"], entry["operation"], entry.get("subresource")))): {
            shown(path) for path in decoded(entry["fieldsV1"])
        }
        for entry in obj["metadata"].get("managedFields", ())
    }


async def test_an_apply_makes_what_is_not_there(api: Api) -> None:
    made = await apply(api, YAML)
    assert made.code == 201
    assert managers(made.ok()) == {"one Apply": {".data.k"}}
    (entry,) = made.body["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")
    assert entry["time"].endswith("Z")


async def test_the_same_apply_again_writes_nothing(api: Api) -> None:
    first = (await apply(api, config(k="v"))).ok()
    again = await apply(api, config(k="v"))
    assert again.code == 200
    assert again.body == first


async def test_a_dry_run_writes_nothing(api: Api) -> None:
    tried = await apply(api, config(k="v"), dryRun="All")
    assert (tried.code, managers(tried.ok())) == (201, {"one Apply": {".data.k"}})
    assert (await api.get(api.at("configmaps", "a"))).code == 404


async def test_a_conflict_says_who_has_what(api: Api) -> None:
    (await apply(api, config(k="v", l="w"))).ok()
    refused = await apply(api, config(k="x", l="y"), "two")
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.k\n- .data.l'
    assert refused.causes == [
        ("FieldManagerConflict", f".data.{key}", 'conflict with "one"') for key in ("k", "l")
    ]
    assert refused.body["details"].keys() == {"causes"}
    taken = (await apply(api, config(k="x"), "two", force="true")).ok()
    assert managers(taken) == {"one Apply": {".data.l"}, "two Apply": {".data.k"}}


async def test_an_update_by_a_named_manager_is_remembered(api: Api) -> None:
    made = (await api.post(api.at("configmaps"), config(k="v"), fieldManager="creator")).ok()
    assert managers(made) == {"creator Update": {".data", ".data.k"}}
    path = api.at("configmaps", "a")
    patched = (await api.patch(path, {"data": {"l": "w"}}, fieldManager="patcher")).ok()
    assert managers(patched) == {"creator Update": {".data", ".data.k"}, "patcher Update": {".data.l"}}
    refused = await apply(api, config(k="x"))
    assert refused.message == 'Apply failed with 1 conflict: conflict with "creator" using v1: .data.k'


async def test_managers_of_an_object_that_was_never_applied(api: Api) -> None:
    """Here they are not kept unless its creator says its name; upstream that is what its program is called."""
    (await api.post(api.at("configmaps"), config(k="v"))).ok()
    refused = await apply(api, config(k="x"))
    before = '"before-first-apply"' if api.differs("managers of objects never applied") else '"kubewright-conformance"'  # fmt: skip
    assert refused.message == f"Apply failed with 1 conflict: conflict with {before} using v1: .data.k"


async def test_who_writes_without_a_name_is_what_its_program_is_called(api: Api) -> None:
    (await apply(api, config(k="v"))).ok()
    changed = (await api.patch(api.at("configmaps", "a"), {"data": {"k": "w"}})).ok()
    assert managers(changed) == {"kubewright-conformance Update": {".data.k"}}


async def test_managers_are_reset_by_one_empty_entry(api: Api) -> None:
    (await apply(api, config(k="v"))).ok()
    reset = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    path = api.at("configmaps", "a")
    left = (await api.patch(path, reset, content_type=JSON_PATCH, fieldManager="two")).ok()
    assert managers(left) == {}


async def test_a_client_can_write_the_managers_itself(api: Api) -> None:
    """As kubectl does when it takes its own client-side applies over."""
    made = (await apply(api, config(k="v"))).ok()
    entry = made["metadata"]["managedFields"][0] | {"manager": "other"}
    change = [{"op": "replace", "path": "/metadata/managedFields", "value": [entry]}]
    path = api.at("configmaps", "a")
    left = (await api.patch(path, change, content_type=JSON_PATCH, fieldManager="two")).ok()
    assert managers(left) == {"other Apply": {".data.k"}}


async def test_a_write_that_does_not_say_the_managers_keeps_them(api: Api) -> None:
    (await apply(api, config(k="v"))).ok()
    left = (await api.put(api.at("configmaps", "a"), config(k="v"), fieldManager="two")).ok()
    assert managers(left) == {"one Apply": {".data.k"}}


async def test_a_status_is_applied_by_its_endpoint_alone(api: Api) -> None:
    name = f"{api.namespace}-n"
    (await api.post("/api/v1/nodes", {"metadata": {"name": name}}, fieldManager="creator")).ok()
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"conditions": [{"type": "Odd", "status": "True"}]},
    }
    done = (await apply(api, body, at=f"/api/v1/nodes/{name}/status")).ok()
    odd = '.status.conditions[type="Odd"]'
    assert managers(done)["one Apply status"] == {odd, f"{odd}.status", f"{odd}.type"}
    assert "podCIDR" not in done.get("spec", {})
    absent = await apply(api, body | {"metadata": {"name": "zz"}}, at="/api/v1/nodes/zz/status")
    assert (absent.code, absent.message) == (404, 'nodes "zz" not found')


async def test_a_deployment_merges_by_the_keys_of_its_lists(api: Api) -> None:
    def body(**container: Any) -> Object:
        labels = {"app": "a"}
        pod = {"containers": [{"name": "c", **container}]}
        spec = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"paused": True, **spec}}  # fmt: skip

    path = api.at("deployments", "a", group="apps")
    (await apply(api, body(image="i", env=[{"name": "A", "value": "1"}]), at=path)).ok()
    done = (
        await apply(
            api, body(env=[{"name": "B", "value": "2"}], ports=[{"containerPort": 80}]), "two", at=path
        )
    ).ok()
    (container,) = done["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "i"
    assert [each["name"] for each in container["env"]] == ["A", "B"]
    there = '.spec.template.spec.containers[name="c"]'
    port = f'{there}.ports[containerPort=80,protocol="TCP"]'
    env = f'{there}.env[name="B"]'
    own = {p for p in managers(done)["two Apply"] if p.startswith(there)}
    assert own == {there, f"{there}.name", env, f"{env}.name", f"{env}.value", port, f"{port}.containerPort"}


REFUSALS: list[tuple[str, Any, dict[str, str], int, str]] = [
    (
        "no manager",
        config(),
        {"fieldManager": ""},
        422,
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    ),
    (
        "a manager with a long name",
        config(),
        {"fieldManager": "m" * 129},
        422,
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
    ),
    ("no kind", {"apiVersion": "v1"}, {}, 400, "invalid object type: /v1, Kind="),
    ("another kind", config() | {"kind": "Secret"}, {}, 400, "invalid object type: /v1, Kind=Secret"),
    (
        "managers",
        config(metadata={"managedFields": []}),
        {},
        400,
        "metadata.managedFields must be nil",
    ),
    (
        "another name",
        config("b"),
        {},
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    ),
    (
        "a uid of what is not there",
        config(metadata={"uid": "u"}),
        {},
        409,
        'Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid u, '
        "and no existing object was found",
    ),
]


@pytest.mark.parametrize(
    ("body", "query", "code", "message"), [c[1:] for c in REFUSALS], ids=[c[0] for c in REFUSALS]
)
async def test_what_cannot_be_applied(
    api: Api, body: Any, query: dict[str, str], code: int, message: str
) -> None:
    refused = await api.patch(
        api.at("configmaps", "a"), body, content_type=APPLY_PATCH, **{"fieldManager": "one", **query}
    )
    assert (refused.code, refused.message) == (code, message)


UNTYPED: list[tuple[str, Any, str]] = [
    ("an unknown field", config() | {"dat": {}}, ".dat: field not declared in schema"),
    (
        "equal keys twice",
        config(metadata={"finalizers": ["x.io/a", "x.io/a"]}),
        '.metadata.finalizers: duplicate entries for key [="x.io/a"]',
    ),
]


@pytest.mark.parametrize(("body", "said"), [c[1:] for c in UNTYPED], ids=[c[0] for c in UNTYPED])
async def test_what_is_no_such_object_is_refused_with_where(api: Api, body: Any, said: str) -> None:
    refused = await apply(api, body)
    assert refused.code == (400 if api.differs("refusals that are 500 upstream") else 500)
    assert refused.message == f"failed to create typed patch object (/a; /v1, Kind=ConfigMap): {said}"


async def test_what_is_no_yaml_is_a_bad_request(api: Api) -> None:
    refused = await apply(api, b"{a: [")
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith("error decoding YAML: ")


async def test_another_patch_cannot_be_forced(api: Api) -> None:
    refused = await api.patch(api.at("configmaps", "a"), {}, force="true")
    assert (refused.code, refused.message) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    )


async def test_who_may_patch_may_not_create_by_an_apply(api: Api) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]}
    roles = api.at("roles", group="rbac.authorization.k8s.io")
    (await api.post(roles, {"metadata": {"name": "r"}, "rules": [rule]})).ok()
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subject = {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    (await api.post(api.at("rolebindings", group="rbac.authorization.k8s.io"), binding)).ok()
    ann = api.as_user("ann")

    async def known() -> bool:
        return (await ann.get(api.at("configmaps", "zz"))).code == 404

    await api.eventually(known, "the binding holds")
    refused = await apply(ann, config(k="v"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert 'User "ann" cannot create resource "configmaps"' in refused.message
    (await apply(api, config(k="v"))).ok()
    assert (await apply(ann, config(k="v"), "ann")).code == 200


NULLS = {
    "a field": ({"x": None}, ["spec.x"]),
    "a field with a default": ({"d": None}, []),
    "a field that may be null": ({"nn": None}, []),
    "a map": ({"m": None}, ["spec.m"]),
    "a field of a map": ({"m": {"a": None}}, ["spec.m.a"]),
    "a value of a map": ({"map": {"a": None}}, ["spec.map.a"]),
    "a list": ({"l": None}, ["spec.l"]),
    "what has no type": ({"any": None}, []),
    "what is inside of it": ({"any": {"a": None}}, []),
    "the whole spec": (None, ["spec"]),
}


@pytest.fixture
async def things(api: Api) -> OwnKind:
    """A kind with a field of each sort, which the tests of one server share."""
    found = OwnKind(api, group="nulls.example.io")
    if (await api.get(found.path)).code == 404:
        text = {"type": "string"}
        await found.define({
            "x": text,
            "d": {"type": "string", "default": "D"},
            "nn": {"type": "string", "nullable": True},
            "m": {"type": "object", "properties": {"a": text}},
            "map": {"type": "object", "additionalProperties": text},
            "l": {"type": "array", "items": text},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
        })  # fmt: skip
    return found


@pytest.mark.parametrize(("spec", "fields"), NULLS.values(), ids=NULLS)
async def test_a_null_is_applied_only_where_it_may_stand(
    things: OwnKind, spec: Any, fields: list[str]
) -> None:
    body = things.thing("new") | {"spec": spec}
    answer = await things.api.patch(f"{things.path}/new", body, content_type=APPLY_PATCH, fieldManager="m")
    assert [field for _, field, _ in answer.causes] == fields
    assert answer.code == (422 if fields else 201)
    posted = await things.api.post(things.path, things.thing("sent") | {"spec": spec})
    assert posted.code == 201, "any other write leaves such a null out"
