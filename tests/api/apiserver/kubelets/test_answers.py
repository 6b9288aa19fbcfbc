"""Whole answers of kubelets: logs, ``nodes/NAME/proxy`` and what metrics.k8s.io makes of their summaries."""

import asyncio
import json

import pytest
from tests.api.apiserver.kubelets.conftest import Cluster
from tests.api.apiserver.kubelets.fake import plain, summary

from kubewright.apiserver.http import usage
from kubewright.wire.http import Request

pytestmark = pytest.mark.looptime(False)

LOG = "/api/v1/namespaces/default/pods/p/log"
PROXY = "/api/v1/nodes/n/proxy"
METRICS = "/apis/metrics.k8s.io/v1beta1"
JSON = "content-type: application/json"


async def whole(cluster: Cluster, request: Request) -> tuple[int, bytes]:
    response = await cluster.server.handle(request)
    if response.stream is None:
        return response.status, response.body
    return response.status, b"".join([piece async for piece in response.stream])


async def test_a_log_is_asked_for_as_the_client_said(cluster: Cluster) -> None:
    asked = {
        "container": "c", "follow": "false", "timestamps": "true", "sinceSeconds": "60", "tailLines": "2",
        "limitBytes": "1000", "unknown": "x",
    }  # fmt: skip
    assert await whole(cluster, Request("GET", LOG, tuple(asked.items()))) == (200, b"c 2\nc 3\n")
    (one,) = cluster.kubelet.asked
    assert one.path == "/containerLogs/default/p/c"
    assert dict(one.query) == {
        "timestamps": "true", "sinceSeconds": "60", "tailLines": "2", "limitBytes": "1000",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({"tailLines": "-1"}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ({"stream": "All"}, 422, "stream: Forbidden: may not be specified"),
        (
            {"sinceSeconds": "1", "sinceTime": "2026-11-27T12:00:00Z"},
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ({"tailLines": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"tailLines": "9" * 30}, 400, "value out of range"),
        ({"sinceTime": "yesterday"}, 400, 'parsing time "yesterday"'),
        ({"container": "../../pods"}, 400, "container ../../pods is not valid for pod p"),
        ({"previous": "true"}, 400, 'previous terminated container "c" in pod "p" not found'),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
async def test_what_makes_no_sense_is_refused(
    cluster: Cluster, asked: dict[str, str], code: int, said: str
) -> None:
    answer = await cluster.api.get(LOG, **asked)
    assert answer.code == code
    assert said in answer.message
    assert bool(cluster.kubelet.asked) == ("previous" in asked)


@pytest.mark.parametrize(
    ("code", "body", "expected", "said"),
    [
        (500, b"disk is gone", (500, "InternalError"), "Internal error occurred: disk is gone"),
        (404, b"no", (404, "NotFound"), "the server could not find the requested resource ( pods/log p)"),
        (403, b"Forbidden (user=x)", (403, "Forbidden"), "Forbidden (user=x) ( pods/log p)"),
        (401, b"Unauthorized", (401, "Unauthorized"), "the server has asked for the client to provide credentials ( pods/log p)"),
        (502, b"bad", (502, "InternalError"), 'an error on the server ("bad") has prevented the request from succeeding ( pods/log p)'),
        (302, b"", (500, ""), "redirects forbidden"),
    ],
)  # fmt: skip
async def test_what_a_kubelet_says_instead_of_a_log(
    cluster: Cluster, code: int, body: bytes, expected: tuple[int, str], said: str
) -> None:
    cluster.kubelet.answers["/containerLogs/default/p/c"] = plain(code, body, "location: https://10.0.0.1/")
    answer = await cluster.api.get(LOG)
    assert (answer.code, answer.reason, answer.message) == (*expected, said)
    assert cluster.server.kubelets.streams.under_way == 0


async def test_the_log_of_a_pod_that_waits_is_empty(cluster: Cluster) -> None:
    await cluster.pod("waiting", node="")
    assert await whole(cluster, Request("GET", "/api/v1/namespaces/default/pods/waiting/log")) == (204, b"")


async def test_the_log_of_a_simulated_pod_says_why_it_is_empty(cluster: Cluster) -> None:
    await cluster.node("simulated", port=0)
    await cluster.pod("hollow", node="simulated")
    answer = await cluster.api.get("/api/v1/namespaces/default/pods/hollow/log")
    assert answer.code == 200
    assert answer.body.startswith("kubewright: no containers run behind")


async def test_a_log_that_is_not_read_to_its_end_is_let_go(cluster: Cluster) -> None:
    response = await cluster.server.handle(Request("GET", LOG, (("follow", "true"),)))
    assert response.stream is not None
    assert response.patient
    assert (await anext(response.stream)).startswith(b"c 1")
    await response.stream.aclose()
    cluster.kubelet.lines.put_nowait(b"")
    await cluster.until(lambda: (cluster.kubelet.open, cluster.server.kubelets.streams.under_way) == (0, 0))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_a_node_is_asked_with_method_query_and_body(cluster: Cluster, method: str) -> None:
    body = b"" if method == "GET" else b'{"x": 1}'
    code, answer = await whole(cluster, Request(method, f"{PROXY}/run/a b//c/", (("q", "1 2"),), body=body))
    shown = json.loads(answer)
    assert (code, shown["method"], shown["path"], shown["query"]) == (
        200,
        method,
        "/run/a%20b//c/",
        [["q", "1 2"]],
    )
    assert shown["body"].encode() == body


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("none", 404, 'nodes "none" not found'),
        ("n:22", 400, "this server asks the kubelet of a node and nothing else there"),
        ("http:n:80", 400, 'invalid node request "http:n:80"'),
        ("simulated", 501, 'nodes "simulated" has no proxy'),
    ],
)
async def test_only_kubelets_are_asked(cluster: Cluster, name: str, code: int, said: str) -> None:
    await cluster.node("simulated", port=0)
    answer = await cluster.api.get(f"/api/v1/nodes/{name}/proxy/healthz")
    assert answer.code == code
    assert answer.message.startswith(said)
    assert cluster.kubelet.asked == []


async def test_a_redirect_stays_with_the_node(cluster: Cluster) -> None:
    cluster.kubelet.answers["/logs"] = plain(301, b"", "location: /logs/")
    cluster.kubelet.answers["/away"] = plain(301, b"", "location: https://10.0.0.1/")
    cluster.kubelet.answers["/sideways"] = plain(301, b"", "location: //10.0.0.1/")
    response = await cluster.server.handle(Request("GET", f"{PROXY}/logs"))
    assert (response.status, response.headers["location"]) == (301, f"{PROXY}/logs/")
    for dots in ("/../../secrets", "/a/%2e%2E/b", "/a\\..\\b"):
        cluster.kubelet.answers[f"/{len(dots)}"] = plain(301, b"", f"location: {dots}")
    for path in ("away", "sideways", "14", "11", "7"):
        answer = await cluster.api.get(f"{PROXY}/{path}")
        assert answer.code == 502
        assert "redirect" in answer.message


async def test_headers_of_a_kubelet_are_shown_as_far_as_they_are_text(cluster: Cluster) -> None:
    cluster.kubelet.answers["/x"] = plain(200, b"it", "content-type: a\x01b", "etag: c\x7f")
    raw = await cluster.raw(f"{PROXY}/x", "connection: close", method="GET")
    code, headers = await raw.head()
    assert (code, headers["content-type"], headers["etag"]) == (200, "ab", "c")
    raw.writer.close()


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/default/pods/p/log", f"{PROXY}/containerLogs/default/p/c"]
)
async def test_a_kubelet_that_switches_protocols_unasked_is_refused(cluster: Cluster, path: str) -> None:
    answer = b"HTTP/1.1 101 Switching\r\nupgrade: a\r\nconnection: upgrade\r\n\r\nabc"
    cluster.kubelet.answers["/containerLogs/default/p/c"] = answer
    got = await cluster.api.get(path)
    assert (got.code, got.message) == (500, "the kubelet answers 101 to what is no upgrade")
    assert cluster.server.kubelets.streams.under_way == 0


async def test_rules_of_a_node_proxy_are_asked_first(cluster: Cluster) -> None:
    await cluster.allow("ann", [{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}])
    ann = cluster.api.as_user("ann")
    assert (await ann.get(f"{PROXY}/healthz")).code == 200
    assert (await ann.post(f"{PROXY}/run/default/p/c", {})).code == 403
    assert (await cluster.api.as_user("bob").get(f"{PROXY}/healthz")).code == 403
    assert len(cluster.kubelet.asked) == 1


# ---------------------------------------------------------------- metrics.k8s.io


def measures(cluster: Cluster, body: bytes) -> None:
    cluster.kubelet.answers["/stats/summary"] = plain(200, body, JSON)


async def test_nodes_and_pods_are_shown_as_metrics_server_shows_them(cluster: Cluster) -> None:
    measures(cluster, summary(1_500_000_000, {"p": {"c": (250_000_000, 64 * 1024 * 1024)}}))
    listed = (await cluster.api.get(f"{METRICS}/nodes")).ok()
    at = "2026-11-27T12:00:00Z"
    assert (listed["kind"], listed["apiVersion"]) == ("NodeMetricsList", "metrics.k8s.io/v1beta1")
    assert listed["items"] == [
        {
            "metadata": {"name": "n", "labels": {"of": "n"}, "creationTimestamp": at},
            "timestamp": at, "window": "10s", "usage": {"cpu": "1500000000n", "memory": "524288Ki"},
        }
    ]  # fmt: skip
    pod = (await cluster.api.get(f"{METRICS}/namespaces/default/pods/p")).ok()
    assert (pod["kind"], pod["metadata"]["namespace"], pod["metadata"]["labels"]) == (
        "PodMetrics",
        "default",
        {"app": "p"},
    )
    assert pod["containers"] == [{"name": "c", "usage": {"cpu": "250000000n", "memory": "65536Ki"}}]
    assert len(cluster.kubelet.asked) == 1  # what is fresh is not asked for again


async def test_labels_select_what_is_measured(cluster: Cluster) -> None:
    await cluster.pod("q")
    measures(cluster, summary(1, {each: {"c": (1, 1024)} for each in ("p", "q")}))
    listed = (await cluster.api.get(f"{METRICS}/pods", labelSelector="app=q")).ok()
    assert [each["metadata"]["name"] for each in listed["items"]] == ["q"]
    assert (await cluster.api.get(f"{METRICS}/nodes", labelSelector="of=x")).ok()["items"] == []


async def test_what_lacks_a_number_is_left_out(cluster: Cluster) -> None:
    await cluster.pod("young", "a", "b")
    measures(
        cluster,
        summary(
            None, {"p": {"c": (1, 1024)}, "young": {"a": (1, 1024), "b": (None, 0)}, "gone": {"c": (1, 1)}}
        ),
    )
    assert (await cluster.api.get(f"{METRICS}/nodes")).ok()["items"] == []
    names = [each["metadata"]["name"] for each in (await cluster.api.get(f"{METRICS}/pods")).ok()["items"]]
    assert names == ["p"]


async def test_a_kubelet_measures_no_pod_of_another_node(cluster: Cluster) -> None:
    """Nor one that is in another namespace than the request, nor any twice."""
    await cluster.node("other", port=0)
    await cluster.pod("foreign", node="other")
    body = json.loads(summary(1, {"p": {"c": (1, 1024)}, "foreign": {"c": (1, 1024)}}))
    measures(cluster, json.dumps({**body, "pods": body["pods"] * 2}).encode())
    listed = (await cluster.api.get(f"{METRICS}/namespaces/default/pods")).ok()
    assert [each["metadata"]["name"] for each in listed["items"]] == ["p"]
    assert (await cluster.api.get(f"{METRICS}/namespaces/kube-system/pods")).ok()["items"] == []
    assert (await cluster.api.get(f"{METRICS}/namespaces/default/pods/foreign")).code == 404


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(plain(200, b"[1]", JSON), id="another form"),
        pytest.param(plain(200, b'{"node":{"cpu":{"usageNanoCores":"x"}}}', JSON), id="no number"),
        pytest.param(plain(200, b'{"x":' + b"[" * 100_000, JSON), id="a deep one"),
        pytest.param(plain(200, summary(1, {}).replace(b"2026-", b"soon"), JSON), id="no time"),
        pytest.param(plain(500, b"no"), id="an error"),
        pytest.param(b"", id="nothing"),
        pytest.param(plain(200, b" " * (usage.SUMMARY_BYTES + 1), JSON), id="too much"),
        pytest.param(plain(302, b"", "location: https://10.0.0.1/"), id="a redirect"),
    ],
)
async def test_a_kubelet_that_says_nothing_of_use_leaves_its_node_out(
    cluster: Cluster, answer: bytes
) -> None:
    cluster.kubelet.answers["/stats/summary"] = answer
    listed = (await cluster.api.get(f"{METRICS}/nodes")).ok()
    assert listed["items"] == []
    refused = await cluster.api.get(f"{METRICS}/nodes/n")
    assert (refused.code, refused.message) == (404, 'nodemetrics.metrics.k8s.io "n" not found')


async def test_a_node_that_is_down_or_simulated_is_left_out(cluster: Cluster) -> None:
    await cluster.node("down", port=1)
    await cluster.node("simulated", port=0)
    measures(cluster, summary(1, {}))
    listed = (await cluster.api.get(f"{METRICS}/nodes")).ok()
    assert [each["metadata"]["name"] for each in listed["items"]] == ["n"]


async def test_many_clients_are_one_question(cluster: Cluster) -> None:
    measures(cluster, summary(1, {}))
    await asyncio.gather(*(cluster.api.get(f"{METRICS}/nodes") for _ in range(20)))
    assert len(cluster.kubelet.asked) == 1


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "nodes", 405), ("DELETE", "nodes/n", 405), ("GET", "nodes/n/status", 404), ("GET", "others", 404),
        ("GET", "namespaces/default/nodes", 404), ("GET", "namespaces/default/pods/none", 404),
    ],
)  # fmt: skip
async def test_the_group_is_read_only(cluster: Cluster, method: str, path: str, code: int) -> None:
    assert (await cluster.api.call(method, f"{METRICS}/{path}", body=None)).code == code
    watched = await cluster.api.get(f"{METRICS}/nodes", watch="true")
    assert watched.code == 405


async def test_discovery_shows_the_group_last(cluster: Cluster) -> None:
    groups = (await cluster.api.get("/apis")).ok()["groups"]
    assert groups[-1]["preferredVersion"] == {"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"}
    resources = (await cluster.api.get(METRICS)).ok()["resources"]
    assert [(each["name"], each["kind"], each["verbs"]) for each in resources] == [
        ("nodes", "NodeMetrics", ["get", "list"]), ("pods", "PodMetrics", ["get", "list"]),
    ]  # fmt: skip
    whole = await cluster.server.handle(
        Request(
            "GET",
            "/apis",
            headers={"accept": "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"},
        )
    )
    last = json.loads(whole.body)["items"][-1]
    assert (last["metadata"]["name"], len(last["versions"][0]["resources"])) == ("metrics.k8s.io", 2)


async def test_view_reads_what_is_used(cluster: Cluster) -> None:
    role = (
        await cluster.api.get(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregated-metrics-reader"
        )
    ).ok()
    assert role["rules"] == [
        {"verbs": ["get", "list", "watch"], "apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"]}
    ]
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert (await cluster.api.as_user("ann").get(f"{METRICS}/nodes")).code == 403
