"""The client's verbs as values, its retries as decisions."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubewright.api.core import LEASE, NODE, POD, SECRET, Lease, LeaseSpec, Secret
from kubewright.api.kinds import dynamic
from kubewright.api.meta import ObjectMeta
from kubewright.kube.client import Client, Written
from kubewright.kube.errors import BadAnswer, ConnectFailed, Disconnected, LoginFailed, Silent, TimedOut
from kubewright.kube.health import TRIES, pause
from kubewright.kube.patches import with_uid
from kubewright.kube.transport import InProcess
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Delay, Faulty, Script
from kubewright.wire import errors
from kubewright.wire.errors import (
    Conflict,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unavailable,
)
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import JSON_PATCH, Request, Response

THING = dynamic(Resource("example.io", "v1", "things", "Thing"))
A = Key("n", "a")
OBJECT = {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}}


@dataclass
class Server:
    """Answers what the test says, in order (the last one for ever); remembers what it was asked."""

    answers: list[Response] = field(default_factory=lambda: [ok(OBJECT)])
    asked: list[Request] = field(default_factory=list)

    async def handle(self, request: Request) -> Response:
        self.asked.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def body(self) -> Any:
        return json.loads(self.asked[-1].body)


def ok(body: Any) -> Response:
    return Response(200, json.dumps(body).encode())


def busy(code: int, retry_after: str = "") -> Response:
    return Response(code, b"", headers={"retry-after": retry_after} if retry_after else {})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server) -> Client:
    return Client(InProcess(server.handle), LoopClock())


async def test_create_takes_structs_and_mappings_and_names_their_kind(client, server) -> None:
    await client.create(LEASE, Lease(metadata=ObjectMeta(name="l", namespace="n"), spec=LeaseSpec()))
    assert (server.asked[-1].path, server.body["kind"]) == (
        "/apis/coordination.k8s.io/v1/namespaces/n/leases",
        "Lease",
    )
    await client.create(THING, {"metadata": {"generateName": "a-"}}, namespace="m")
    assert server.asked[-1].path == "/apis/example.io/v1/namespaces/m/things"
    assert server.body == {"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"generateName": "a-"}}
    with pytest.raises(ValueError, match="a Thing needs a namespace"):
        await client.create(THING, {"metadata": {"name": "a"}})


async def test_cluster_scoped_objects_have_no_namespace_in_their_path(client, server) -> None:
    await client.get(NODE, Key("", "w"))
    assert server.asked[-1].path == "/api/v1/nodes/w"


async def test_an_empty_patch_is_a_read(client, server) -> None:
    assert await client.patch(THING, A, {}) == OBJECT
    assert [request.method for request in server.asked] == ["GET"]


UID, REPLICAS = ({"field": each, "message": "m"} for each in ("metadata.uid", "spec.replicas"))


@pytest.mark.parametrize(
    ("causes", "body", "error"),
    [
        ([UID], with_uid({"spec": {}}, "u"), Conflict),
        ([REPLICAS, UID], with_uid({"spec": {}}, "u"), Conflict),
        ([REPLICAS], with_uid({"spec": {}}, "u"), Invalid),
        ([], with_uid({"spec": {}}, "u"), Invalid),
        ([UID], {"spec": {}}, Invalid),
        ([UID], [{"op": "replace", "path": "/metadata/uid", "value": "v"}], Invalid),
    ],
    ids=[
        "the name belongs to another object",
        "and a value breaks a rule",
        "a value breaks a rule",
        "a webhook refuses it without a cause",
        "it carried no uid",
        "it was to change the uid",
    ],
)
async def test_a_patch_for_an_object_whose_name_another_one_has_meets_a_conflict(
    client, server, causes, body, error
) -> None:
    refusal = Invalid("the object is invalid", details={"causes": causes})
    server.answers = [Response(422, json.dumps(errors.to_status(refusal)).encode())]
    with pytest.raises(errors.ApiError, match="the object is invalid") as raised:
        await client.patch(THING, A, body)
    assert type(raised.value) is error
    assert raised.value.causes == causes
    assert len(server.asked) == 1, "it is not sent again"


async def test_a_patch_says_what_kind_of_patch_it_is(client, server) -> None:
    await client.patch(THING, A, [{"op": "add", "path": "/spec", "value": 1}], content_type=JSON_PATCH)
    assert server.asked[-1].headers["content-type"] == JSON_PATCH


async def test_a_bare_delete_has_no_body_and_a_full_one_has_all(client, server) -> None:
    server.answers = [ok({"kind": "Status", "status": "Success"})]
    await client.delete(THING, A)
    assert server.asked[-1].body == b""
    await client.delete(THING, A, uid="u", resource_version="7", grace=0, propagation="Foreground")
    assert server.body == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


async def test_an_eviction_asks_for_this_very_pod(client, server) -> None:
    await client.evict(A, uid="u", grace=5)
    assert server.asked[-1].path == "/api/v1/namespaces/n/pods/a/eviction"
    assert server.body["deleteOptions"] == {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 5}
    assert server.body["metadata"] == {"name": "a", "namespace": "n"}


async def test_a_refused_eviction_is_an_answer_and_is_not_repeated(client, server) -> None:
    server.answers = [busy(429, "10")]
    with pytest.raises(TooManyRequests) as refused:
        await client.evict(A)
    assert (len(server.asked), refused.value.retry_after) == (1, 10)


async def test_lists_are_read_page_by_page(client, server) -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [OBJECT]}
    server.answers = [ok(first), ok({"metadata": {"resourceVersion": "9"}, "items": [OBJECT]})]
    assert len(await client.list(POD, "n", labels="x=y")) == 2
    assert [request.param("continue") for request in server.asked] == ["", "t"]
    assert {request.param("labelSelector") for request in server.asked} == {"x=y"}
    assert {request.param("limit") for request in server.asked} == {"500"}


async def test_a_list_forgotten_between_pages_is_read_whole(client, server) -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [OBJECT]}
    server.answers = [ok(first), busy(410), ok({"metadata": {"resourceVersion": "9"}, "items": None})]
    assert await client.list(THING) == []
    assert server.asked[-1].param("limit") == ""


async def test_each_refusal_has_its_class(client, server) -> None:
    server.answers = [busy(404)]
    with pytest.raises(NotFound):
        await client.get(THING, A)
    server.answers = [Response(200, b"<html>")]
    with pytest.raises(BadAnswer):
        await client.list(THING)


async def test_listeners_hear_of_writes_before_the_writer_goes_on(client, server) -> None:
    heard: list[Written] = []
    client.on_write(heard.append)
    data = json.dumps(OBJECT).encode()
    await client.get(THING, A)
    await client.create(THING, OBJECT)
    await client.patch(THING, A, {"status": {}}, subresource="status")
    await client.patch(THING, A, {"spec": {"replicas": 3}}, subresource="scale")  # answers a Scale
    await client.delete(THING, A)
    server.answers = [ok({"kind": "Status", "status": "Success", "details": {"uid": "u"}})]
    await client.delete(THING, A)
    server.answers = [ok({"kind": "Status", "status": "Success"})]
    await client.delete(THING, A, uid="v")
    resource = THING.resource
    assert heard == [
        Written(resource, A, data),
        Written(resource, A, data),
        Written(resource, A, data, deleted=True),
        Written(resource, A, uid="u", deleted=True),
        Written(resource, A, uid="v", deleted=True),
    ]


async def test_waiting_for_a_busy_server_ends_at_the_deadline(client, server) -> None:
    server.answers = [busy(503, "14")]
    with pytest.raises(Unavailable):
        await client.get(THING, A)
    assert len(server.asked) == 3
    assert client.clock.monotonic() < 30


async def test_a_delete_that_finds_nothing_notifies_that_this_object_is_gone(client, server) -> None:
    heard: list[Written] = []
    client.on_write(heard.append)
    gone = json.dumps(errors.to_status(NotFound("gone", details={"name": "a"}))).encode()
    for answer in (busy(404), Response(404, gone)):  # a proxy's 404 says nothing of the object
        server.answers = [answer]
        for uid in ("", "u"):
            assert heard == []
            with pytest.raises(NotFound):
                await client.delete(THING, A, uid=uid)
    assert heard == [Written(THING.resource, A, uid="u", deleted=True)]


async def test_a_server_that_does_not_answer_is_soon_not_waited_for(client, server) -> None:
    dead = Faulty(InProcess(server.handle), client.clock, Script().on(Delay(900), times=None))
    client.transport = dead
    for _ in range(3):
        with pytest.raises(TimedOut):
            await client.create(THING, OBJECT)
    waited, told = 0.0, set()
    for _ in range(600):
        began = client.clock.monotonic()
        with pytest.raises((TimedOut, Silent)) as found:
            await client.create(THING, OBJECT)
        told |= {str(found.value)} if found.type is Silent else set()
        waited += client.clock.monotonic() - began
        await client.clock.sleep(0.1)
    assert waited < 100  # instead of 18,000
    assert len(told) == 1, "conditions that repeat it do not change with each pass"
    dead.choose = lambda request: None
    await client.clock.sleep(4)
    assert await client.create(THING, OBJECT) == OBJECT
    assert client.health.silences == 0


async def test_a_cancelled_probe_does_not_block_the_next(client, server) -> None:
    client.health.silences = 3
    client.transport = Faulty(InProcess(server.handle), client.clock, Script().on(Delay(900)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.get(THING, A)
    with pytest.raises(Silent):
        await client.get(THING, A)
    await client.clock.sleep(1)
    assert await client.get(THING, A) == OBJECT


RETRIES = [
    ("503 with a time is repeated whatever it was", Unavailable("", retry_after=3), 1, False, 3.05),
    ("429 with a time too", TooManyRequests("", retry_after=3), 1, False, 3.05),
    ("503 without a time is not", Unavailable(""), 1, True, None),
    ("500 with a time is not: something may have happened", ServerError("", retry_after=3), 1, False, None),
    ("410 is not", Gone(""), 1, True, None),
    ("a connection that was never made is repeated", ConnectFailed(""), 1, False, 0.1),
    ("the pause grows", ConnectFailed(""), 3, False, 0.4),
    ("credentials that fail are not fetched in a loop", LoginFailed(""), 1, True, None),
    ("a lost answer to a safe request is repeated", Disconnected(""), 1, True, 0.1),
    ("a lost answer to a bare write is not", Disconnected(""), 1, False, None),
    ("a slow answer to a bare write is not", TimedOut(""), 1, False, None),
    ("after the last try it is over", ConnectFailed(""), TRIES, True, None),
]


@pytest.mark.parametrize("case", RETRIES, ids=[case[0] for case in RETRIES])
def test_what_is_sent_again_and_after_which_pause(case) -> None:
    _, failure, attempt, safe, expected = case
    found = pause(failure, attempt, safe=safe, draw=0.5)
    assert found == (None if expected is None else pytest.approx(expected))


QUOTING = errors.Forbidden(
    "a webhook denied {password: hunter2}",
    details={"name": "s", "causes": [{"field": "data[password]", "message": "hunter2"}]},
    retry_after=7,
)
HERE = Secret(metadata=ObjectMeta(name="s", namespace="n"), data={"password": b"hunter2"})
WRITES = {
    "a creation": lambda client: client.create(SECRET, HERE),
    "one of a kind known at run time": lambda client: client.create(dynamic(SECRET.resource), SECRET.to_plain(HERE)),
    "a patch": lambda client: client.patch(SECRET, A, {"data": {"password": "x"}}),
    "a replacement": lambda client: client.replace(SECRET, A, HERE),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_what_a_server_says_of_a_secret_is_not_repeated(client, server, write) -> None:
    server.answers = [Response(403, json.dumps(errors.to_status(QUOTING)).encode())]
    with pytest.raises(errors.Forbidden) as found:
        await write(client)
    error = found.value
    assert (str(error), error.details) == (
        "the server answered 403 Forbidden",
        {"name": "s", "retryAfterSeconds": 7, "causes": [{"field": "data[password]"}]},
    )
    assert (error.code, error.reason, error.retry_after) == (403, "Forbidden", 7)


async def test_what_a_server_says_of_anything_else_is(client, server) -> None:
    server.answers = [Response(403, json.dumps(errors.to_status(QUOTING)).encode())]
    for write in (client.create(LEASE, Lease(metadata=HERE.metadata)), client.get(SECRET, A)):
        with pytest.raises(errors.Forbidden, match="a webhook denied"):
            await write
