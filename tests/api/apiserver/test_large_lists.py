"""Large lists are written in pieces: what they say, and that others are answered between."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from kubewright.apiserver.http import resources
from kubewright.apiserver.server import ApiServer
from kubewright.testing.clocks import LoopClock
from kubewright.wire.goyaml import dumped
from kubewright.wire.http import AUTHENTICATED, Request, Response, User

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
ANN, BOB = User("ann", (AUTHENTICATED,)), User("bob", (AUTHENTICATED,))
COUNT = 1_600


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """With more objects than one piece has, which everybody may read."""
    server = ApiServer(LoopClock())
    await server.start()
    for number in range(COUNT):
        body = {"metadata": {"name": f"c{number:05}"}, "data": {"text": f"line\n{number}"}}
        assert (await server.handle(Request("POST", MAPS, body=orjson.dumps(body)))).status == 201
    rbac, api = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    role = {"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "Group", "name": AUTHENTICATED, "apiGroup": api}],
    }
    for plural, made in (("clusterroles", role), ("clusterrolebindings", binding)):
        await server.handle(Request("POST", f"{rbac}/{plural}", body=orjson.dumps(made)))
    yield server
    await server.close()


async def listed(server: ApiServer, accept: str = TABLE, user: User = ANN, **query: str) -> Response:
    answer = await server.handle(Request("GET", MAPS, tuple(query.items()), {"accept": accept}, user=user))
    assert answer.status == 200
    return answer


async def test_a_list_in_pieces_says_what_its_objects_are(server: ApiServer) -> None:
    whole = orjson.loads((await listed(server, "application/json")).body)
    names = [item["metadata"]["name"] for item in whole["items"]]
    assert names == [f"c{number:05}" for number in range(COUNT)]
    table = orjson.loads((await listed(server, TABLE)).body)
    assert list(table) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    assert [row["cells"][0] for row in table["rows"]] == names
    partial = orjson.loads((await listed(server, PARTIAL)).body)
    assert partial["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"] for item in partial["items"]] == [item["metadata"] for item in whole["items"]]
    written = (await listed(server, "application/yaml")).body.decode()
    assert written == dumped(whole, in_order=True)
    assert {each["metadata"]["resourceVersion"] for each in (whole, table, partial)} == {
        whole["metadata"]["resourceVersion"]
    }


@pytest.mark.parametrize("accept", ["application/json", TABLE, PARTIAL, "application/yaml"])
async def test_a_list_of_nothing_is_one_too(server: ApiServer, accept: str) -> None:
    answer = await listed(server, accept, labelSelector="a=b")
    if accept == "application/yaml":
        assert b"\nitems: []\nkind: ConfigMapList\n" in answer.body
    else:
        found = orjson.loads(answer.body)
        assert found["rows" if accept == TABLE else "items"] == []


async def test_a_small_request_is_answered_before_large_lists_that_came_first(server: ApiServer) -> None:
    """Side by side they took a second of the loop, in which nobody else was answered."""
    lists = [asyncio.create_task(listed(server)) for _ in range(20)]
    small = asyncio.create_task(server.handle(Request("GET", f"{MAPS}/c00001", user=BOB)))
    assert (await small).status == 200
    assert not any(each.done() for each in lists)
    await asyncio.gather(*lists)


@pytest.mark.parametrize(
    ("path", "selector", "found"),
    [
        pytest.param(MAPS, "metadata.name=c00001", 1, id="of one name"),
        pytest.param("/api/v1/namespaces/other/configmaps", "metadata.name!=x", 0, id="in a small namespace"),
        pytest.param("/api/v1/pods", "spec.nodeName=n", 1, id="of the pods of one node"),
    ],
)
async def test_a_list_that_looks_at_few_objects_waits_for_no_large_list(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, path: str, selector: str, found: int
) -> None:
    """Every kubelet sends such a list when it begins to watch its pods, or a Secret of one of them."""
    monkeypatch.setattr(resources, "MOST_FILTERED", 1)
    for number in range(3):
        spec = {"nodeName": "m" if number else "n", "containers": [{"name": "a", "image": "b"}]}
        body = {"metadata": {"name": f"p{number}"}, "spec": spec}
        made = await server.handle(
            Request("POST", "/api/v1/namespaces/default/pods", body=orjson.dumps(body))
        )
        assert made.status == 201
    lists = [asyncio.create_task(listed(server)) for _ in range(20)]
    await asyncio.sleep(0)
    answer = await server.handle(Request("GET", path, (("fieldSelector", selector),), user=BOB))
    assert len(orjson.loads(answer.body)["items"]) == found
    assert not any(each.done() for each in lists)
    await asyncio.gather(*lists)


async def test_users_have_their_large_lists_in_turn(server: ApiServer) -> None:
    many = [asyncio.create_task(listed(server, user=ANN)) for _ in range(20)]
    await asyncio.sleep(0)
    await listed(server, user=BOB)
    assert sum(each.done() for each in many) <= 2
    await asyncio.gather(*many)


async def test_a_list_whose_client_leaves_makes_room_for_the_next(server: ApiServer) -> None:
    for left_at in range(6):
        many = [asyncio.create_task(listed(server)) for _ in range(4)]
        for _ in range(left_at):
            await asyncio.sleep(0)
        for each in many[:3]:
            each.cancel()
        assert (await many[3]).status == 200
        await asyncio.gather(*many, return_exceptions=True)
