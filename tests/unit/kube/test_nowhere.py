"""What a client hears that has no cluster to ask."""

import asyncio

import pytest

from kubewright.api.core import NODE, SECRET
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import Nowhere
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import MethodNotAllowed, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request


@pytest.fixture
def client() -> Client:
    clock = LoopClock()
    return Client(Nowhere(clock), clock, name="nowhere")


async def test_lists_are_empty_and_objects_are_not_there(client: Client) -> None:
    assert await client.list(NODE) == []
    assert await client.list(SECRET, "kube-system") == []
    assert await client.list(SECRET) == []
    for key, kind in ((Key("", "n"), NODE), (Key("kube-system", "s"), SECRET)):
        body = {"metadata": {"labels": {"a": "b"}}}
        for asked in (
            client.get(kind, key),
            client.patch(kind, key, body),
            client.patch(kind, key, body, subresource="status"),
            client.delete(kind, key),
        ):
            with pytest.raises(NotFound) as refused:
                await asked
            assert refused.value.names(key.name), "it is certain that there is none"
    with pytest.raises(MethodNotAllowed):
        await client.create(NODE, {"metadata": {"name": "n"}})


@pytest.mark.parametrize(
    "path", ["/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/readyz"]
)
async def test_it_serves_no_discovery(path: str) -> None:
    answer = await Nowhere(LoopClock()).request(Request("GET", path), timeout=1.0)
    assert answer.status == 404


async def test_a_cache_is_complete_and_stays_in_sight_for_an_hour(client: Client) -> None:
    informers = Informers(client)
    nodes = informers.get(NODE)
    watching = asyncio.create_task(informers.run())
    await client.clock.sleep(3600)
    assert nodes.synced
    assert nodes.visibility.lost_for(client.clock.monotonic()) == 0
    watching.cancel()
    await asyncio.wait([watching])
