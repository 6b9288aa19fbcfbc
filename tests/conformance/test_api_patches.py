"""Patches: three ways to say what shall change, and what happens when it cannot."""

from typing import Any

import pytest

from kubewright.testing.api import Api, Object
from kubewright.wire.http import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

REJECTED = "the server rejected our request due to an error in our request"


DEEP = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
"""Deeper than any server reads."""


@pytest.fixture
async def path(api: Api) -> str:
    """A ConfigMap with two keys and a label."""
    body = {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v", "l": "w"}}
    (await api.post(api.at("configmaps"), body)).ok()
    return api.at("configmaps", "a")


@pytest.fixture
async def pod(api: Api) -> str:
    body = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "one"}, {"name": "d", "image": "two"}],
        },
    }
    (await api.post(api.at("pods"), body)).ok()
    return api.at("pods", "p")


async def test_a_merge_patch_sets_and_null_removes(api: Api, path: str) -> None:
    after = (await api.patch(path, {"data": {"k": None, "m": "1"}, "metadata": {"labels": None}})).ok()
    assert after["data"] == {"l": "w", "m": "1"}
    assert "labels" not in after["metadata"]


async def test_a_json_patch_that_copies_without_end_is_refused_and_not_shown(api: Api, path: str) -> None:
    """Twenty-two copies that each double the object would make half a gigabyte of it."""
    before = (await api.get(path)).ok()
    steps = [{"op": "copy", "from": "/data", "path": f"/data/n{number}"} for number in range(22)]
    steps = [{"op": "add", "path": "/data/long", "value": "x" * 100}, *steps]
    answer = await api.patch(path, steps, content_type=JSON_PATCH)
    assert (answer.code, answer.reason, answer.message) == (422, "Invalid", REJECTED)
    assert (await api.get(path)).ok() == before


async def test_a_merge_patch_replaces_whole_lists(api: Api, pod: str) -> None:
    body = {"spec": {"containers": [{"name": "c", "image": "new"}]}}
    answer = await api.patch(pod, body)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert "pod updates may not add or remove containers" in answer.message


async def test_a_patch_that_changes_nothing_is_no_write(api: Api, path: str) -> None:
    before = (await api.get(path)).ok()
    for body in ({}, {"data": {"k": "v"}}):
        assert (await api.patch(path, body)).ok() == before


async def test_a_patch_of_an_old_version_conflicts(api: Api, path: str) -> None:
    version = (await api.get(path)).ok()["metadata"]["resourceVersion"]
    guarded = {"metadata": {"resourceVersion": version}, "data": {"k": "1"}}
    assert (await api.patch(path, guarded)).code == 200
    answer = await api.patch(path, guarded | {"data": {"k": "2"}})
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message.startswith(
        'Operation cannot be fulfilled on configmaps "a": the object has been mod'
    )
    assert (await api.get(path)).ok()["data"]["k"] == "1"


async def test_a_json_patch_does_its_steps_in_order(api: Api, path: str) -> None:
    steps = [
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "add", "path": "/data/m", "value": "1"},
        {"op": "copy", "from": "/data/m", "path": "/data/n"},
        {"op": "move", "from": "/data/l", "path": "/data/o"},
        {"op": "replace", "path": "/data/m", "value": "2"},
        {"op": "remove", "path": "/data/k"},
    ]
    after = (await api.patch(path, steps, content_type=JSON_PATCH)).ok()
    assert after["data"] == {"m": "2", "n": "1", "o": "w"}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([{"op": "test", "path": "/data/k", "value": "other"}], id="a test fails"),
        pytest.param([{"op": "remove", "path": "/data/nothing"}], id="nothing to remove"),
        pytest.param([{"op": "add", "path": "/x/y/z", "value": "1"}], id="no place to add to"),
        pytest.param([{"op": "foo", "path": "/data/k"}], id="an unknown step"),
        pytest.param(
            [{"op": "remove", "path": "/data/k"}, {"op": "test", "path": "/data/l", "value": "other"}],
            id="the second step fails",
        ),
    ],
)
async def test_a_json_patch_that_fails_changes_nothing(api: Api, path: str, steps: list[Object]) -> None:
    before = (await api.get(path)).ok()
    answer = await api.patch(path, steps, content_type=JSON_PATCH)
    assert (answer.code, answer.reason, answer.message) == (422, "Invalid", REJECTED)
    assert (await api.get(path)).ok() == before


async def test_a_json_patch_of_many_steps_is_refused(api: Api, path: str) -> None:
    steps = [{"op": "add", "path": "/data/m", "value": "1"}] * 10_001
    answer = await api.patch(path, steps, content_type=JSON_PATCH)
    assert (answer.code, answer.reason) == (413, "RequestEntityTooLarge")
    assert answer.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


async def test_a_strategic_patch_merges_lists_by_their_keys(api: Api, pod: str) -> None:
    body = {"spec": {"containers": [{"name": "c", "image": "new"}]}}
    after = (await api.patch(pod, body, content_type=STRATEGIC_PATCH)).ok()
    assert [c["image"] for c in after["spec"]["containers"]] == ["new", "two"]


async def test_a_strategic_patch_merges_conditions_of_a_node(api: Api) -> None:
    name = f"{api.namespace}-node"
    status = f"/api/v1/nodes/{name}/status"
    (await api.post("/api/v1/nodes", {"metadata": {"name": name}})).ok()
    for type_, value in (("Ready", "True"), ("DiskPressure", "False"), ("Ready", "False")):
        body = {"status": {"conditions": [{"type": type_, "status": value}]}}
        (await api.patch(status, body, content_type=STRATEGIC_PATCH)).ok()
    conditions = (await api.get(f"/api/v1/nodes/{name}")).ok()["status"]["conditions"]
    found = {c["type"]: c["status"] for c in conditions if c["type"] in ("Ready", "DiskPressure")}
    await api.delete(f"/api/v1/nodes/{name}")
    assert found == {"Ready": "False", "DiskPressure": "False"}


async def test_a_strategic_patch_deletes_and_replaces_when_asked_to(api: Api, path: str) -> None:
    body: Object = {"data": {"$patch": "replace", "only": "1"}, "metadata": {"labels": {"x": None}}}
    after = (await api.patch(path, body, content_type=STRATEGIC_PATCH)).ok()
    assert after["data"] == {"only": "1"}
    assert "labels" not in after["metadata"]


async def test_a_strategic_patch_deletes_an_item_by_its_key(api: Api) -> None:
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": n, "image": "i"} for n in ("c", "d")]},
        },
    }
    path = api.at("deployments", "d", group="apps")
    (await api.post(api.at("deployments", group="apps"), {"metadata": {"name": "d"}, "spec": spec})).ok()
    body = {"spec": {"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}}}
    after = (await api.patch(path, body, content_type=STRATEGIC_PATCH)).ok()
    assert [c["name"] for c in after["spec"]["template"]["spec"]["containers"]] == ["d"]


@pytest.mark.parametrize(
    ("body", "content_type", "code", "reason", "message"),
    [
        pytest.param(
            b"[1]",
            MERGE_PATCH,
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            id="a list as merge patch",
        ),
        pytest.param(
            b'{"a"',
            MERGE_PATCH,
            400,
            "BadRequest",
            "error decoding patch: unexpected end of JSON input",
            id="a cut off merge patch",
        ),
        pytest.param(
            b'{"a":1}',
            JSON_PATCH,
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            id="an object as JSON patch",
        ),
        pytest.param(
            b"[{",
            JSON_PATCH,
            400,
            "BadRequest",
            "error decoding patch: unexpected end of JSON input",
            id="a cut off JSON patch",
        ),
        pytest.param(
            b"{",
            STRATEGIC_PATCH,
            400,
            "BadRequest",
            "unexpected end of JSON input",
            id="a cut off strategic patch",
        ),
        *(
            pytest.param(
                body, media, 400, "BadRequest", f"{said}exceeded max depth", id=f"{media}, nested too deep"
            )
            for media, body, said in (
                (MERGE_PATCH, DEEP, "error decoding patch: invalid character '{' "),
                (JSON_PATCH, b"[" * 20_000 + b"]" * 20_000, "error decoding patch: invalid character '[' "),
                (STRATEGIC_PATCH, DEEP, "invalid character '{' "),
            )
        ),
        pytest.param(
            b"{}", JSON, 415, "UnsupportedMediaType", "415: Unsupported Media Type", id="no kind of patch"
        ),
        pytest.param(
            b'{"metadata":{"name":"b"}}',
            MERGE_PATCH,
            400,
            "BadRequest",
            "the name of the object (b) does not match the name on the URL (a)",
            id="another name",
        ),
    ],
)
async def test_a_bad_patch_is_refused(
    api: Api, path: str, body: bytes, content_type: str, code: int, reason: str, message: str
) -> None:
    before = (await api.get(path)).ok()
    answer = await api.patch(path, body, content_type=content_type)
    assert (answer.code, answer.reason, answer.message) == (code, reason, message)
    assert (await api.get(path)).ok() == before


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"data": 5}, id="a number for a map"),
        pytest.param({"data": {"k": 5}}, id="a number for a string"),
        pytest.param({"metadata": {"labels": {"x": 1}}}, id="a number for a label"),
    ],
)
async def test_a_patch_to_a_wrong_type_is_invalid(api: Api, path: str, body: Any) -> None:
    answer = await api.patch(path, body)
    assert (answer.code, answer.reason) == (422, "Invalid")
    ((reason, field, message),) = answer.causes
    assert (reason, field) == ("FieldValueInvalid", "patch")
    assert "json: cannot unmarshal number into Go struct field" in message


async def test_a_uid_cannot_be_patched(api: Api, path: str) -> None:
    answer = await api.patch(path, {"metadata": {"uid": "b"}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == (
        'ConfigMap "a" is invalid: metadata.uid: Invalid value: "b": field is immutable'
    )


async def test_an_unknown_field_in_a_strict_patch_is_refused(api: Api, path: str) -> None:
    answer = await api.patch(path, {"dat": {"x": "y"}}, fieldValidation="Strict")
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert 'strict decoding error: unknown field "dat"' in answer.message
    lenient = await api.patch(path, {"dat": {"x": "y"}})
    assert lenient.headers["warning"] == '299 - "unknown field \\"dat\\""'


@pytest.mark.parametrize("content_type", [MERGE_PATCH, JSON_PATCH, STRATEGIC_PATCH])
async def test_what_is_not_there_cannot_be_patched(api: Api, content_type: str) -> None:
    body: Any = [] if content_type == JSON_PATCH else {}
    answer = await api.patch(api.at("configmaps", "zz"), body, content_type=content_type)
    assert (answer.code, answer.reason, answer.message) == (404, "NotFound", 'configmaps "zz" not found')


async def test_the_spec_of_a_pod_is_fixed_once_it_is_there(api: Api, pod: str) -> None:
    answer = await api.patch(pod, {"spec": {"nodeName": "n1"}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    ((reason, field, message),) = answer.causes
    assert (reason, field) == ("FieldValueForbidden", "spec")
    assert message.startswith(
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    )


INDEXES = {
    "the last": ("replace", "-1", ["a", "b", "z"]),
    "the first, from the end": ("replace", "-3", ["z", "b", "c"]),
    "before the first": ("replace", "-4", None),
    "with a zero": ("replace", "01", ["a", "z", "c"]),
    "with a sign": ("replace", "+1", ["a", "z", "c"]),
    "added at the end": ("add", "-1", ["a", "b", "c", "z"]),
    "added before the last": ("add", "-2", ["a", "b", "z", "c"]),
    "added before the first": ("add", "-4", ["z", "a", "b", "c"]),
    "added too far before": ("add", "-5", None),
    "added too far behind": ("add", "4", None),
    "removed": ("remove", "-1", ["a", "b"]),
    "tested": ("test", "-3", None),
    "behind the last": ("replace", "-", None),
}


@pytest.mark.parametrize(("op", "index", "left"), INDEXES.values(), ids=INDEXES)
async def test_an_index_counts_from_the_end_if_it_is_negative(
    api: Api, op: str, index: str, left: list[str] | None
) -> None:
    body = {"metadata": {"name": "f", "finalizers": [f"example.io/{name}" for name in "abc"]}}
    await api.post(api.at("configmaps"), body)
    change = {"op": op, "path": f"/metadata/finalizers/{index}", "value": "example.io/z"}
    path = api.at("configmaps", "f")
    answer = await api.patch(path, [change], content_type=JSON_PATCH, dryRun="All")
    moved = [{"op": "move", "from": "/metadata/finalizers/-1", "path": "/metadata/finalizers/0"}]
    turned = (await api.patch(path, moved, content_type=JSON_PATCH, dryRun="All")).ok()
    assert turned["metadata"]["finalizers"] == [f"example.io/{name}" for name in "cab"]
    if left is None:
        assert (answer.code, answer.message) == (422, REJECTED)
    else:
        assert answer.ok()["metadata"]["finalizers"] == [f"example.io/{name}" for name in left]
