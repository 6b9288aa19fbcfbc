"""What is measured at the boundary, and read from caches at a scrape."""

from contextlib import suppress

import pytest

from kubewright.kube.client import Client
from kubewright.kube.errors import Disconnected
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.metrics import Metered, Metrics, resource_of
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import ApiError
from kubewright.wire.http import Request, Response


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/nodes", "nodes"),
        ("/api/v1/nodes/n1/status", "nodes/status"),
        ("/api/v1/namespaces/ns/pods/p/eviction", "pods/eviction"),
        ("/api/v1/namespaces/ns", "namespaces"),
        ("/api/v1/namespaces/ns/finalize", "namespaces/finalize"),
        ("/apis/machine.sapcloud.io/v1alpha1/machines", "machines"),
        ("/apis/machine.sapcloud.io/v1alpha1/namespaces/ns/machines/m", "machines"),
        ("/apis", "/apis"),
    ],
)
def test_resource_of(path, resource):
    assert resource_of(path) == resource


async def test_requests_are_counted_by_answer():
    async def handle(request):
        if request.method == "DELETE":
            raise Disconnected("cut")
        return Response(404 if request.param("watch") else 200)

    metrics = Metrics()
    metered = Metered(InProcess(handle), metrics, "control")
    await metered.request(Request("GET", "/api/v1/nodes"), timeout=1)
    with suppress(Disconnected):
        await metered.request(Request("DELETE", "/api/v1/nodes/n"), timeout=1)
    with suppress(ApiError):
        async with metered.stream(Request("GET", "/api/v1/nodes", (("watch", "true"),))):
            pass
    found = {
        line.split("{")[1].split("}")[0]
        for line in metrics.render().decode().splitlines()
        if line.startswith("rest_client_requests_total{")
    }
    assert found == {
        'client="control",code="200",method="GET",resource="nodes"',
        'client="control",code="0",method="DELETE",resource="nodes"',
        'client="control",code="404",method="WATCH",resource="nodes"',
    }


async def test_caches_of_several_clusters_are_read_at_the_scrape():
    metrics = Metrics()
    for name in ("control", "target"):
        client = Client(InProcess(lambda _request: None), LoopClock(), name=name)
        metrics.informers(Informers(client))
    metrics.gauge("extra", "More", ("a",), lambda: [(("x",), 3)])
    page = metrics.render().decode()
    assert 'extra{a="x"} 3.0' in page
    assert "informer_objects" in page
