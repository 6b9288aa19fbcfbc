"""Good objects, bent: what is almost right reaches deeper than nonsense does. Still never a 500."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.server import ApiServer
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock
from kubewright.wire.http import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/example.com/v1/namespaces/default/foos"
ITEMS = {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}
SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "default": "fast", "enum": ["fast", "slow"]},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "list": {
            "type": "array",
            "items": ITEMS,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        "map": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^a"}},
    },
}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [{"name": "S", "type": "integer", "jsonPath": ".spec.any"}],
            }
        ],
    },
}
FOO = {
    "apiVersion": "example.com/v1",
    "kind": "Foo",
    "metadata": {"name": "a"},
    "spec": {"size": 1, "mode": "fast", "any": {"x": [1]}, "list": [{"k": "v"}], "map": {"b": "a"}},
}
CONTAINER = {
    "name": "c",
    "image": "i",
    "ports": [{"containerPort": 80}],
    "env": [{"name": "A", "value": "1"}],
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
EXISTS = {"key": "a", "operator": "Exists"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}
GOOD: dict[str, Any] = {
    CRDS: CRD,
    FOOS: FOO,
    "/api/v1/namespaces/default/pods": {
        "metadata": {"name": "a", "labels": {"a": "b"}, "ownerReferences": [OWNER], "finalizers": ["x/y"]},
        "spec": {"nodeName": "n", "containers": [CONTAINER], "tolerations": [{"key": "a"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "/api/v1/nodes": {
        "metadata": {"name": "a", "annotations": {"x": "y"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "providerID": "x"},
        "status": {"addresses": [{"type": "InternalIP", "address": "1"}], "capacity": {"cpu": "1"}},
    },
    "/apis/apps/v1/namespaces/default/deployments": {
        "metadata": {"name": "a"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "metadata": {"name": "a"},
        "spec": {
            "minAvailable": "50%",
            "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        },
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
    },
}
ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**62, 2**70, "", "a", "A B", "50%", [], [None], ["x"], {}, {"a": None}, [{}]]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def bent(good: Any, place: tuple[Any, ...], odd: Any) -> Any:
    result = copy.deepcopy(good)
    at = result
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = odd
    return result


WRITES = st.sampled_from(
    [
        ("POST", JSON),
        ("PUT", JSON),
        ("PATCH", MERGE_PATCH),
        ("PATCH", STRATEGIC_PATCH),
        ("PATCH", JSON_PATCH),
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    path, good = draw(st.sampled_from(list(GOOD.items())))
    body = bent(good, draw(st.sampled_from(list(places(good)))), draw(ODD))
    method, kind = draw(WRITES)
    if kind == JSON_PATCH:
        place = draw(st.sampled_from(list(places(good))))
        body = [{"op": "add", "path": "/" + "/".join(str(key) for key in place), "value": draw(ODD)}]
    part = draw(st.sampled_from(["", "", "/status", "/scale", "/eviction"])) if method != "POST" else ""
    where = path if method == "POST" else f"{path}/{good['metadata']['name']}{part}"
    return Request(method, where, (), {"content-type": kind}, json.dumps(body).encode())


TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@given(st.lists(requests(), min_size=1, max_size=10))
async def test_a_bent_object_is_stored_or_refused_and_all_can_still_be_read(bending: list[Request]) -> None:
    server = ApiServer(LoopClock())
    await server.start()
    for path, good in GOOD.items():
        made = await server.handle(Request("POST", path, body=json.dumps(good).encode()))
        assert made.status == 201, made.body
    for request in bending:
        answer = await server.handle(request)
        assert answer.status < 500, (request, answer.body)
    for path in (*GOOD, "/openapi/v3/apis/example.com/v1"):
        for headers in ({}, TABLE):
            answer = await server.handle(Request("GET", path, headers=headers))
            assert answer.status < 500, (path, answer.body)
    await server.close()


@pytest.mark.parametrize(
    ("place", "odd"),
    [
        (("list", "items"), "x"),
        (("list", "items"), True),
        (("list", "items", "properties"), "x"),
        (("list", "items", "properties", "k"), None),
        (("list", "items", "required"), [None]),
        (("list", "items", "required"), 5),
        (("map", "additionalProperties", "type"), ["x"]),
        (("map", "additionalProperties", "pattern"), "("),
    ],
    ids=str,
)
async def test_a_schema_that_cannot_be_used_is_refused(bare: Api, place: tuple[str, ...], odd: Any) -> None:
    schema = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "properties")
    answer = await bare.post(CRDS, bent(CRD, (*schema, *place), odd))
    assert answer.code in (400, 422), answer.message


async def test_grace_beyond_all_time_is_cut(bare: Api) -> None:
    pods = "/api/v1/namespaces/default/pods"
    (await bare.post(pods, GOOD[pods])).ok()
    ending = (await bare.delete(f"{pods}/a", {"gracePeriodSeconds": 2**62})).ok()
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 2**31 - 1


async def test_a_long_value_is_refused_and_not_written_into_the_message(bare: Api) -> None:
    (await bare.post(CRDS, CRD)).ok()
    long = bent(bent(FOO, ("spec", "mode"), "x" * 500_000), ("spec", "map", "b"), "x" * 500_000)
    answer = await bare.post(FOOS, long)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert "spec.mode" in answer.message
    assert "spec.map.b" in answer.message
    assert len(answer.message) < 5_000


async def test_defaults_that_multiply_refuse_an_object_and_leave_a_list_readable(bare: Api) -> None:
    """A kind's defaults are its author's; how often they are taken is the namespace's user's."""
    crd = copy.deepcopy(CRD)
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["list"] = {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}
    (await bare.post(CRDS, crd)).ok()
    many = {**FOO, "spec": {"list": [{} for _ in range(400)]}}
    (await bare.post(FOOS, many)).ok()
    fields["list"]["items"]["properties"]["k"]["default"] = "d" * 10_000
    (await bare.patch(f"{CRDS}/foos.example.com", {"spec": {"versions": crd["spec"]["versions"]}})).ok()
    refused = await bare.post(FOOS, {**many, "metadata": {"name": "b"}})
    assert (refused.code, refused.message) == (413, "etcdserver: request is too large")
    assert [len(each["spec"]["list"]) for each in (await bare.get(FOOS)).ok()["items"]] == [400]
    few = await bare.post(FOOS, {**FOO, "metadata": {"name": "c"}, "spec": {"list": [{}]}})
    assert few.ok()["spec"]["list"] == [{"k": "d" * 10_000}]
