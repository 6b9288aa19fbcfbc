"""Objects as deep as the server takes them, and one level deeper: whichever way they come in."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.apiserver.fields.paths import MOST_DEEP
from kubewright.apiserver.server import ApiServer
from kubewright.kube.transport import InProcess
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gojson import MOST_DEPTH
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

FOOS = "/apis/example.com/v1/namespaces/default/foos"
FOO = f"{FOOS}/f"
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(schema: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version],
        },
    }


def deep(levels: int) -> Any:
    """Objects in each other, so many."""
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


def foo(levels: int) -> bytes:
    """An object of so many levels, itself included."""
    named = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}}
    return json.dumps({**named, "spec": deep(levels - 1)}).encode()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    found = Api(InProcess(server.handle), clock, "embedded")
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    (await found.post(crds, definition(ANY))).ok()
    yield found
    await server.close()


async def test_the_deepest_object_is_written_read_applied_and_listed(api: Api) -> None:
    apply = {"fieldManager": "me", "force": "true"}
    applied = await api.call("PATCH", FOO, foo(MOST_DEEP), query=apply, content_type=APPLY_PATCH)
    assert applied.ok()["metadata"]["managedFields"]
    (await api.delete(FOO)).ok()
    (await api.post(FOOS, foo(MOST_DEPTH))).ok()
    (await api.patch(FOO, {"spec": deep(MOST_DEPTH - 1)})).ok()
    assert (await api.get(FOOS)).ok()["items"][0]["spec"] == deep(MOST_DEPTH - 1)
    table = await api.call("GET", FOOS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table.ok()["rows"]


@pytest.mark.parametrize(
    ("method", "path", "body", "media"),
    [
        ("POST", FOOS, foo(MOST_DEPTH + 1), "application/json"),
        ("POST", FOOS, foo(MOST_DEPTH + 1), "application/yaml"),
        ("PUT", FOO, foo(MOST_DEPTH + 1), "application/json"),
        ("PATCH", FOO, foo(MOST_DEPTH + 1), APPLY_PATCH),
        ("PATCH", FOO, json.dumps({"spec": deep(MOST_DEPTH)}).encode(), MERGE_PATCH),
        ("DELETE", FOO, json.dumps({"a": deep(MOST_DEPTH)}).encode(), "application/json"),
        ("POST", "/api/v1/namespaces/default/configmaps", foo(MOST_DEPTH + 1), "application/json"),
    ],
    ids=["a creation", "YAML", "a replacement", "an apply", "a patch", "options", "a built-in kind"],
)
async def test_one_level_more_is_refused(
    api: Api, caplog: Any, method: str, path: str, body: bytes, media: str
) -> None:
    caplog.set_level(logging.INFO)
    (await api.post(FOOS, foo(4))).ok()
    answer = await api.call(method, path, body, query={"fieldManager": "me"}, content_type=media)
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert "exceeded max depth" in answer.message
    assert caplog.records == []
    assert (await api.get(FOO)).ok()["spec"] == deep(3)


async def test_operations_that_nest_an_object_in_itself_are_refused(api: Api) -> None:
    (await api.post(FOOS, foo(150))).ok()
    nested = [{"op": "copy", "from": "/spec", "path": "/spec/a/a/x"}]
    (await api.patch(FOO, nested, content_type=JSON_PATCH)).ok()
    for path in ("/spec/a/a/x/a/a/y", "/spec" + "/a" * 100 + "/z"):
        answer = await api.patch(
            FOO, [{"op": "copy", "from": "/spec", "path": path}], content_type=JSON_PATCH
        )
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert "exceeded max depth" in answer.message


async def test_a_schema_as_deep_as_the_server_takes_it_is_served(api: Api) -> None:
    schema: Any = {"type": "object"}
    for _ in range((MOST_DEPTH - 10) // 2):
        schema = {"type": "object", "properties": {"a": schema}}
    crd = definition(schema)
    crd["metadata"]["name"], crd["spec"]["group"] = "foos.deep.com", "deep.com"
    (await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)).ok()
    made = {
        "apiVersion": "deep.com/v1",
        "kind": "Foo",
        "metadata": {"name": "f"},
        "a": {"a": {"a": {}, "b": 1}},
    }
    assert (await api.post("/apis/deep.com/v1/namespaces/default/foos", made)).ok()["a"] == {"a": {"a": {}}}


async def test_fields_that_nobody_knows_are_told_within_a_bound(api: Api) -> None:
    """Three megabytes of them would come back as a header of a hundred, which no client takes."""
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    sent = json.dumps({**named, **{f"unknown{number}": 1 for number in range(3_000)}}).encode()
    maps = "/api/v1/namespaces/default/configmaps"
    strict = await api.call("POST", maps, sent, query={"fieldValidation": "Strict"})
    assert (strict.code, len(strict.message) < 10_000) == (400, True)
    assert 'unknown field "unknown99", and 2900 more such fields' in strict.message
    warned = await api.call("POST", maps, sent, query={"fieldValidation": "Warn"})
    assert warned.code == 201
    assert 1_000 < len(warned.headers["warning"]) < 5_000
