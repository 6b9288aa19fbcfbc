"""Whatever a client sends, it is the client's answer that comes back: never a 500, never an exception,
and never a refusal without ``details``, into which clients look without asking whether they are there."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.server import ApiServer
from kubewright.testing.clocks import LoopClock
from kubewright.wire.http import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request

BASE = "/api/v1/namespaces/default"
PATHS = st.sampled_from(
    [
        "/",
        "/api",
        "/apis",
        "/version",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openapi/v2",
        "/api/v1",
        "/api/v1/nodes",
        "/api/v1/nodes/a",
        "/api/v1/nodes/a/status",
        "/api/v1/namespaces/a/finalize",
        f"{BASE}/configmaps",
        f"{BASE}/configmaps/a",
        f"{BASE}/secrets/a",
        f"{BASE}/pods",
        f"{BASE}/pods/a",
        f"{BASE}/pods/a/status",
        f"{BASE}/pods/a/eviction",
        f"{BASE}/pods/a/binding",
        f"{BASE}/pods/a/log",
        f"{BASE}/pods/a/ephemeralcontainers",
        f"{BASE}/pods/a/nothing",
        f"{BASE}/serviceaccounts/default/token",
        f"{BASE}/events",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/a",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets/a",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases/a",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/as.b.c",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
    ]
) | st.text(max_size=30).map(lambda text: "/" + text)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            "",
            "a",
            "v1",
            "x.io/y",
            "1",
            "100m",
            "5s",
            "2030-01-01T00:00:00Z",
            "ä\x00",
            "$patch",
            "\ud83d\ude00",
        ]
    )
)
FIELDS = st.sampled_from(
    """metadata name namespace labels annotations finalizers ownerReferences uid resourceVersion
    generateName spec status data stringData containers image replicas selector matchLabels
    matchExpressions key operator values template taints conditions type group names plural kind versions
    schema openAPIV3Schema properties items additionalProperties scope served storage default enum pattern
    x-kubernetes-preserve-unknown-fields minAvailable maxUnavailable op path value from $patch
    $deleteFromPrimitiveList $setElementOrder/containers deleteOptions preconditions dryRun
    gracePeriodSeconds propagationPolicy involvedObject apiVersion target nodeName priority
    creationTimestamp deletionTimestamp managedFields renewTime holderIdentity leaseDurationSeconds""".split()  # noqa: SIM905 - a list would be a page long
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)
NAMED = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("a")}, optional={"labels": VALUES, "finalizers": VALUES}
        )
    },
    optional={"spec": VALUES, "status": VALUES, "data": VALUES, "apiVersion": SCALARS, "kind": SCALARS},
)
QUERIES = st.lists(
    st.tuples(
        st.sampled_from(
            """watch limit continue labelSelector fieldSelector resourceVersion resourceVersionMatch
            timeoutSeconds dryRun fieldValidation sendInitialEvents allowWatchBookmarks includeObject
            propagationPolicy force gracePeriodSeconds fieldManager pretty""".split()  # noqa: SIM905 - as above
        ),
        st.sampled_from(
            [
                "",
                "0",
                "1",
                "-1",
                "true",
                "a=b",
                "a in (b",
                "metadata.name=a",
                "All",
                "Strict",
                "e30",
                "9" * 30,
                "\x00",
            ]
        )
        | st.text(max_size=8),
    ),
    max_size=3,
).map(tuple)
ACCEPTS = st.sampled_from(
    [
        "",
        JSON,
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "a;b=;;=,",
    ]
)
TYPES = st.sampled_from(
    [
        "",
        JSON,
        "application/yaml",
        MERGE_PATCH,
        JSON_PATCH,
        STRATEGIC_PATCH,
        APPLY_PATCH,
        "application/vnd.kubernetes.protobuf",
    ]
)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


BODIES = NAMED.map(encoded) | VALUES.map(encoded) | st.binary(max_size=40) | st.just(b"")
REQUESTS = st.builds(
    lambda method, path, query, body, accept, kind: Request(
        method, path, query, {"accept": accept, "content-type": kind}, body
    ),
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "NONSENSE"]),
    PATHS,
    QUERIES,
    BODIES,
    ACCEPTS,
    TYPES,
)


@given(st.lists(REQUESTS, min_size=1, max_size=12))
async def test_no_request_makes_an_internal_error(requests: list[Request]) -> None:
    server = ApiServer(LoopClock())
    await server.start()
    try:
        for request in requests:
            answer = await server.handle(request)
            assert answer.status != 500, f"{request}: {answer.body[:300]!r}"
            if answer.status >= 400 and answer.content_type == JSON:
                assert "details" in json.loads(answer.body), f"{request}: {answer.body[:300]!r}"
            if answer.stream is not None:
                await answer.stream.aclose()
    finally:
        await server.close()


HEADS = {
    "/api/v1/namespaces/default/configmaps/a": ("v1", "ConfigMap"),
    "/api/v1/namespaces/default/pods/a": ("v1", "Pod"),
    "/api/v1/nodes/a/status": ("v1", "Node"),
    "/apis/apps/v1/namespaces/default/deployments/a": ("apps/v1", "Deployment"),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a": (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
}
PARTS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.just("a")}, optional={"labels": VALUES, "managedFields": VALUES})},
    optional={"spec": VALUES, "status": VALUES, "data": VALUES},
)  # fmt: skip


def managed_write(path: str, media: str, body: Any, manager: str) -> Request:
    version, kind = HEADS[path]
    query = (("fieldManager", manager), *((("force", "true"),) if media == APPLY_PATCH else ()))
    sent = encoded({"apiVersion": version, "kind": kind, **body})
    return Request("PATCH", path, query, {"content-type": media}, sent)


MANAGED = st.builds(
    managed_write,
    st.sampled_from(list(HEADS)),
    st.sampled_from([APPLY_PATCH, APPLY_PATCH, MERGE_PATCH]),
    PARTS,
    st.sampled_from(["one", "two", "kubectl"]),
)


@given(st.lists(MANAGED, min_size=1, max_size=12))
async def test_no_managed_write_makes_an_internal_error(requests: list[Request]) -> None:
    server = ApiServer(LoopClock())
    await server.start()
    try:
        for request in (
            managed_write(path, APPLY_PATCH, {"metadata": {"name": "a"}}, "first") for path in HEADS
        ):
            await server.handle(request)
        for request in requests:
            answer = await server.handle(request)
            assert answer.status != 500, f"{request}: {answer.body[:300]!r}"
    finally:
        await server.close()


async def test_the_message_of_a_patch_to_a_wrong_type_does_not_have_the_object() -> None:
    """Who may change a Secret may not always read it; and copies may have made megabytes of it."""
    server = ApiServer(LoopClock())
    await server.start()
    secret = {"metadata": {"name": "s"}, "data": {"key": "d29yZHdvcmQ="}}
    made = await server.handle(Request("POST", f"{BASE}/secrets", body=json.dumps(secret).encode()))
    assert made.status == 201
    for patch in ({"type": 5}, {"metadata": {"annotations": {"a": 5}}}):
        sent = Request(
            "PATCH", f"{BASE}/secrets/s", (), {"content-type": MERGE_PATCH}, json.dumps(patch).encode()
        )
        answer = await server.handle(sent)
        assert answer.status == 422
        assert b"cannot unmarshal number into Go struct field" in answer.body
        assert b"d29yZ" not in answer.body
    await server.close()


HUGE = ("1e30", "1e300", "1" * 100, "-1e30", "1e1000", "1e-1000", "1.5e30")


@pytest.mark.parametrize("amount", HUGE)
async def test_an_amount_of_any_size_is_stored_or_refused(bare: Any, amount: str) -> None:
    node = {"metadata": {"name": "n"}}
    (await bare.post("/api/v1/nodes", node)).ok()
    limits = {"cpu": amount, "memory": amount, "example.org/toy": amount}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    spec = {"limits": [{"type": "Container", "min": limits, "max": limits}]}
    capacity = {"storageClassName": "s", "capacity": amount}
    answers = [
        await bare.patch("/api/v1/nodes/n/status", {"status": {"capacity": {"pods": amount}}}),
        await bare.post(bare.at("pods"), {"metadata": {"name": "p"}, "spec": {"containers": [container]}}),
        await bare.post(bare.at("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": limits}}),
        await bare.post(bare.at("limitranges"), {"metadata": {"name": "l"}, "spec": spec}),
        await bare.post(
            bare.at("csistoragecapacities", group="storage.k8s.io"), {"metadata": {"name": "c"}, **capacity}
        ),
    ]
    assert {answer.code for answer in answers} <= {200, 201, 422}


async def test_a_limit_defaults_requests_from_what_is_the_default_and_else_from_the_least(bare: Any) -> None:
    item = {"type": "Container", "min": {"cpu": "1", "memory": "1Gi"}, "default": {"cpu": "2"}}
    made = await bare.post(bare.at("limitranges"), {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    assert made.ok()["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


async def test_a_quota_counts_huge_pages(bare: Any) -> None:
    hard = {"requests.hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}
    made = await bare.post(bare.at("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert made.ok()["spec"]["hard"] == hard


async def test_an_address_of_a_node_that_is_there_twice_is_refused(bare: Any) -> None:
    (await bare.post("/api/v1/nodes", {"metadata": {"name": "n"}})).ok()
    once = {"type": "InternalIP", "address": "10.0.0.1"}
    twice = {"status": {"addresses": [once, {**once, "address": "10.0.0.2"}, dict(reversed(once.items()))]}}
    refused = await bare.patch("/api/v1/nodes/n/status", twice)
    assert refused.code == 422
    assert "status.addresses[2]" in refused.message
