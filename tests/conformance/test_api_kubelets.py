"""What both servers say of logs, streams and node proxies where a kubelet refuses, is not there, or is not meant: the same
kubelet, which is a few lines in this process, behind a Node of each."""

from collections.abc import AsyncIterator

import pytest
from tests.api.apiserver.kubelets.conftest import cluster_of, put_node, put_pod
from tests.api.apiserver.kubelets.fake import FakeKubelet, plain

from kubewright.base.clock import SystemClock
from kubewright.testing import keys
from kubewright.testing.api import Answer, Api
from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.testing.servers import real_api

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]


@pytest.fixture
async def both(real_kubernetes: RealKubernetes) -> AsyncIterator[tuple[Api, Api, FakeKubelet]]:
    """Embedded, real, and the kubelet of both; of the same nodes and pods."""
    async with (
        cluster_of(keys.in_memory(SystemClock()), certificate=False) as cluster,
        real_api(real_kubernetes) as real,
    ):
        for api in (cluster.api, real):
            await put_node(api, "n", cluster.kubelet.port)
            await put_node(api, "down", 1)
            await put_pod(api, "p", "c", node="n")
            await put_pod(api, "two", "a", "b", node="n", initContainers=[{"name": "first", "image": "i"}])
            await put_pod(api, "waiting", "c", nodeSelector={"no": "such"})
            await put_pod(api, "lost", "c", node="gone")
            await put_pod(api, "q", "c", node="down")
        try:
            yield cluster.api, real, cluster.kubelet
        finally:
            for name in ("p", "two", "waiting", "lost", "q"):
                await real.delete(f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
            for name in ("n", "down"):
                await real.delete(f"/api/v1/nodes/{name}")


QUESTIONS: list[tuple[str, dict[str, str]]] = [
    *((f"none/{each}", {}) for each in ("log", "exec", "attach", "portforward")),
    *((f"two/{each}", {}) for each in ("log", "exec", "attach")),
    *((f"p/{each}", {"container": "x"}) for each in ("log", "exec", "attach")),
    *((f"waiting/{each}", {}) for each in ("log", "exec", "attach", "portforward")),
    *((f"p/{each}", {}) for each in ("exec", "attach", "portforward")),
    ("p/portforward", {"ports": "x"}),
    ("q/log", {}),
    ("p/log", {"tailLines": "-1"}),
    ("p/log", {"tailLines": "x"}),
    ("p/log", {"limitBytes": "0"}),
    ("p/log", {"sinceSeconds": "0"}),
    ("p/log", {"sinceSeconds": "-1", "tailLines": "-1"}),
    ("p/log", {"sinceSeconds": "1", "sinceTime": "2026-11-27T12:00:00Z"}),
    ("p/log", {"stream": "x"}),
    ("p/log", {"previous": "true"}),
]


@pytest.mark.parametrize(("path", "query"), QUESTIONS, ids=lambda each: str(each).replace("/", " "))
async def test_pods_are_refused_in_the_same_words(
    both: tuple[Api, Api, FakeKubelet], path: str, query: dict[str, str]
) -> None:
    ours, theirs = [await api.get(f"/api/v1/namespaces/default/pods/{path}", **query) for api in both[:2]]
    assert said(ours) == said(theirs)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 418, 422, 429, 500, 502, 503, 504])
async def test_a_kubelets_refusal_of_a_log_is_told_in_the_same_words(
    both: tuple[Api, Api, FakeKubelet], code: int
) -> None:
    both[2].answers["/containerLogs/default/p/c"] = plain(code, b'no "log" today')
    ours, theirs = [await api.get("/api/v1/namespaces/default/pods/p/log") for api in both[:2]]
    assert said(ours) == said(theirs)


@pytest.mark.parametrize("path", ["none/proxy/healthz", "a:b:c:d/proxy/healthz", "ftp:n:1/proxy"])
async def test_nodes_are_refused_in_the_same_words(both: tuple[Api, Api, FakeKubelet], path: str) -> None:
    ours, theirs = [await api.get(f"/api/v1/nodes/{path}") for api in both[:2]]
    assert said(ours) == said(theirs)


async def test_a_missing_node_is_called_a_node_here(both: tuple[Api, Api, FakeKubelet]) -> None:
    ours, theirs = [await api.get("/api/v1/namespaces/default/pods/lost/log") for api in both[:2]]
    assert both[0].differs("the Node of a pod is missing")
    assert (said(ours), said(theirs)) == (
        (404, "NotFound", 'nodes "gone" not found'),
        (404, "NotFound", 'pods "gone" not found'),
    )


async def test_no_address_of_the_machine_itself_is_asked_by_a_node_proxy(
    both: tuple[Api, Api, FakeKubelet],
) -> None:
    theirs = await both[1].get("/api/v1/nodes/n/proxy/healthz")
    assert (theirs.code, theirs.message) == (400, "address not allowed")


def said(answer: Answer) -> tuple[int, str, str]:
    return answer.code, answer.reason, answer.message
