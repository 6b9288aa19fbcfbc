"""Connections that are upgraded, byte by byte: what passes, who may, how many, and that nothing stays behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.api.apiserver.kubelets.conftest import Cluster, cluster_of
from tests.api.apiserver.kubelets.fake import MUCH

from kubewright.apiserver.http.dialing import Streams
from kubewright.apiserver.http.kubelet_requests import may_be_dialled
from kubewright.testing import keys
from kubewright.wire.errors import TooManyRequests

pytestmark = pytest.mark.looptime(False)

POD = "/api/v1/namespaces/default/pods/p"
SPDY = (
    "connection: Upgrade",
    "upgrade: SPDY/3.1",
    "x-stream-protocol-version: v4.channel.k8s.io, v3.channel.k8s.io",
)
WEBSOCKET = (
    "connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13",
    "sec-websocket-key: x3JJHMbDL1EzLkh9GBhXDw==", "sec-websocket-protocol: v2.portforward.k8s.io",
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "headers", "wanted"),
    [
        (f"{POD}/exec?command=a%20b&command=c&stdin=true&stdout=1&stderr=false", SPDY,
         ("/exec/default/p/c", [("input", "1"), ("output", "1"), ("command", "a b"), ("command", "c")])),
        (f"{POD}/attach?container=c&tty=true&other=1", SPDY, ("/attach/default/p/c", [("tty", "1")])),
        (f"{POD}/portforward", WEBSOCKET, ("/portForward/default/p", [])),
        (f"{POD}/portforward?ports=80&ports=81", SPDY, ("/portForward/default/p", [("port", "80,81")])),
    ],
    ids=["exec", "attach", "portforward by websocket", "portforward of ports"],
)  # fmt: skip
async def test_bytes_pass_both_ways_whatever_the_protocol(
    cluster: Cluster, asked: str, headers: tuple[str, ...], wanted: tuple[str, list[tuple[str, str]]]
) -> None:
    raw = await cluster.raw(asked, *headers)
    code, answered = await raw.head()
    assert (code, answered["upgrade"], answered["connection"]) == (
        101,
        headers[1].partition(": ")[2],
        "Upgrade",
    )
    assert "set-cookie" not in answered
    sent = b"abcdefgh" * 100_000
    raw.writer.write(sent)
    assert await raw.reader.readexactly(len(sent)) == sent.upper()
    raw.writer.close()
    (one,) = cluster.kubelet.asked
    assert (one.path, one.query) == wanted
    assert one.user == "kube-apiserver-kubelet-client"


async def test_names_that_are_looked_up_for_long_hold_no_address_up(cluster: Cluster) -> None:
    """Each occupies a thread until DNS has answered."""
    answered, few = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(few)
    few.submit(answered.wait)
    try:
        async with asyncio.timeout(5):
            raw = await cluster.raw(f"{POD}/exec?command=ls", *SPDY)
            assert (await raw.head())[0] == 101
            raw.writer.close()
            assert (await cluster.api.get(f"{POD}/log")).code == 200
    finally:
        answered.set()


async def test_each_protocol_of_a_client_is_a_line_for_the_kubelet(cluster: Cluster) -> None:
    raw = await cluster.raw(f"{POD}/exec?command=ls", *SPDY)
    await raw.head()
    raw.writer.close()
    assert cluster.kubelet.asked[0].header("x-stream-protocol-version") == [
        "v4.channel.k8s.io",
        "v3.channel.k8s.io",
    ]


async def test_no_credential_of_a_client_reaches_a_kubelet(cluster: Cluster) -> None:
    raw = await cluster.raw(
        f"{POD}/exec?command=ls", *SPDY, "cookie: a=b", "authorization: Bearer x", "x-other: y"
    )
    await raw.head()
    raw.writer.close()
    names = {name for name, _ in cluster.kubelet.asked[0].headers}
    assert names == {"host", "content-length", "connection", "upgrade", "x-stream-protocol-version"}


@pytest.mark.parametrize("who", ["client", "kubelet"])
async def test_when_one_side_ends_the_other_does_and_the_place_is_free(cluster: Cluster, who: str) -> None:
    raw = await cluster.raw(f"{POD}/exec?command=ls", *SPDY)
    await raw.head()
    streams = cluster.server.kubelets.streams
    assert (cluster.kubelet.open, streams.under_way) == (1, 1)
    if who == "client":
        raw.writer.transport.abort()
    else:
        cluster.kubelet.end()
        assert await raw.reader.read() == b""
    await cluster.until(lambda: (cluster.kubelet.open, streams.under_way) == (0, 0))


async def test_a_kubelet_that_reads_nothing_holds_its_client_up(cluster: Cluster) -> None:
    """Memory stays bounded: what the client may send is what buffers hold, not all that it has."""
    cluster.kubelet.reads = False
    raw = await cluster.raw(f"{POD}/exec?command=ls", *SPDY)
    await raw.head()
    sent = 0

    async def send() -> None:
        nonlocal sent
        while sent < MUCH:
            raw.writer.write(b"x" * 65536)
            async with asyncio.timeout(1):
                await raw.writer.drain()
            sent += 65536

    with pytest.raises(TimeoutError):
        await send()
    raw.writer.transport.abort()


async def test_a_client_that_reads_nothing_holds_its_kubelet_up(cluster: Cluster) -> None:
    raw = await cluster.raw(f"{POD}/exec?command=ls", *SPDY)
    await raw.head()
    cluster.kubelet.pours = True
    raw.writer.write(b"x")
    transport = raw.writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await cluster.kubelet.poured_much.wait()
    raw.writer.transport.abort()


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("pods/none/exec?command=ls", 404, 'pods "none" not found'),
        ("pods/two/exec?command=ls", 400, "a container name must be specified for pod two, choose one of: [first a b]"),
        ("pods/p/exec?command=ls&container=x", 400, "container x is not valid for pod p"),
        ("pods/waiting/exec?command=ls", 400, "pod waiting does not have a host assigned"),
        ("pods/lost/exec?command=ls", 404, 'nodes "gone" not found'),
        ("pods/p/portforward?ports=x", 400, 'cannot convert to []int32: strconv.ParseUint: parsing "x": invalid'),
        ("pods/hollow/exec?command=ls", 501,
         'pods "hollow" has no exec: no containers run behind the pods of this node, as it has no kubelet that could be '
         "asked"),
        ("pods", 501, "this server does not upgrade such a connection (to SPDY/3.1)"),
    ],
)  # fmt: skip
async def test_what_cannot_be_entered_says_why(cluster: Cluster, path: str, code: int, said: str) -> None:
    await cluster.node("simulated", port=0)
    await cluster.pod("two", "a", "b", initContainers=[{"name": "first", "image": "i"}])
    await cluster.pod("waiting", node="")
    await cluster.pod("lost", node="gone")
    await cluster.pod("hollow", node="simulated")
    got, message = await (await cluster.raw(f"/api/v1/namespaces/default/{path}", *SPDY)).refusal()
    assert (got, message[: len(said)]) == (code, said)
    assert cluster.kubelet.asked == []


async def test_a_request_without_an_upgrade_is_told_so(cluster: Cluster) -> None:
    answer = await cluster.api.post(f"{POD}/exec", {}, command="ls")
    assert (answer.code, answer.message) == (400, "Upgrade request required")


async def test_who_may_only_read_does_not_get_in_by_a_websocket(cluster: Cluster) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]
    await cluster.allow("ann", rules)
    code, message = await (
        await cluster.raw(f"{POD}/exec?command=ls", *WEBSOCKET, method="GET", user="ann")
    ).refusal()
    what = 'User "ann" cannot create resource "pods/exec" in API group "" in the namespace "default"'
    assert (code, message) == (403, f'pods "p" is forbidden: {what}')
    assert cluster.kubelet.asked == []


async def test_who_may_create_gets_in(cluster: Cluster) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]
    await cluster.allow("ann", rules)
    raw = await cluster.raw(f"{POD}/exec?command=ls", *SPDY, user="ann")
    assert (await raw.head())[0] == 101
    raw.writer.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0", "localhost"]
)
async def test_no_address_of_this_machine_or_its_link_is_dialled(authority: keys.Keys, host: str) -> None:
    """The writer of a Node's status chooses it."""
    async with cluster_of(authority, allowed=may_be_dialled) as cluster:
        await cluster.node(host=host)
        await cluster.pod()
        code, message = await (await cluster.raw(f"{POD}/exec?command=ls", *SPDY)).refusal()
        assert code == 400
        assert message.startswith("address not allowed: Node")
        for path in (f"{POD}/log", "/api/v1/nodes/n/proxy/healthz"):
            answer = await cluster.api.get(path)
            assert (answer.code, answer.message[:19]) == (400, "address not allowed")
        assert cluster.kubelet.asked == []


async def test_a_kubelet_that_does_not_listen_says_what_its_node_knows(cluster: Cluster) -> None:
    ready = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }
    await cluster.node("down", port=1, conditions=[ready])
    await cluster.pod("q", node="down")
    known = '(node "down" is not ready: Kubelet stopped posting node status.)'
    code, message = await (
        await cluster.raw("/api/v1/namespaces/default/pods/q/exec?command=ls", *SPDY)
    ).refusal()
    dial = "dial tcp 127.0.0.1:1: connect: connection refused"
    assert (code, message) == (500, f"error dialing backend: {dial} {known}")
    answer = await cluster.api.get("/api/v1/namespaces/default/pods/q/log")
    assert answer.code == 500
    assert answer.message == f'Get "https://127.0.0.1:1/containerLogs/default/q/c": {dial} {known}'


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 18\r\n\r\npod does not exist",
            404,
            "pod does not exist",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 500, "invalid upgrade response: status code 200"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: https://10.0.0.1/\r\n\r\n",
            500,
            "invalid upgrade response: status code 302",
        ),
        (b"rubbish\r\n\r\n", 500, "error dialing backend: malformed HTTP response"),
        (b"", 500, "error dialing backend: EOF"),
        (
            b"HTTP/1.1 101 Switching\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
            500,
            "error dialing backend: malformed HTTP response",
        ),
        (
            b"HTTP/1.1 101 Switching\r\n" + b"a: b\r\n" * 150 + b"\r\n",
            500,
            "error dialing backend: malformed HTTP response",
        ),
        (b"HTTP/1.1 404 No\r\nContent-Type: a\x00b\r\nContent-Length: 2\r\n\r\nno", 404, "no"),
    ],
    ids=[
        "refused",
        "no upgrade",
        "redirect",
        "no HTTP",
        "nothing",
        "an endless head",
        "many headers",
        "no text",
    ],
)
async def test_what_a_kubelet_answers_instead(cluster: Cluster, answer: bytes, code: int, said: str) -> None:
    cluster.kubelet.answers["/exec/default/p/c"] = answer
    assert await (await cluster.raw(f"{POD}/exec?command=ls", *SPDY)).refusal() == (code, said)
    assert cluster.server.kubelets.streams.under_way == 0


@pytest.mark.parametrize(
    "before", ["", "GET /version HTTP/1.1\r\nhost: x\r\n\r\n"], ids=["alone", "pipelined"]
)
@pytest.mark.parametrize("headers", [SPDY, WEBSOCKET], ids=["spdy", "websocket"])
async def test_what_is_sent_before_the_answer_is_refused_and_not_lost(
    cluster: Cluster, headers: tuple[str, ...], before: str
) -> None:
    """A client that waits for the answer to what it has sent would wait for ever."""
    context = cluster.authority.client_context(cluster.authority.admin)
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.listener.port, ssl=context)
    head = [f"POST {POD}/exec?command=ls HTTP/1.1", "host: x", "content-length: 0", *headers, "", "early"]
    writer.write((before + "\r\n".join(head)).encode())
    async with asyncio.timeout(5):
        told = await reader.read()
    assert told.count(b"HTTP/1.1 ") == (2 if before else 1)
    assert b"what follows a request for an upgrade has come before the answer to it" in told
    assert cluster.kubelet.asked == []
    writer.close()


async def test_a_server_that_ends_ends_its_tunnels(cluster: Cluster) -> None:
    raw = await cluster.raw(f"{POD}/exec?command=ls", *SPDY)
    await raw.head()
    async with asyncio.timeout(3):
        await cluster.listener.close()
        assert await raw.reader.read() == b""
    await cluster.until(lambda: (cluster.kubelet.open, cluster.server.kubelets.streams.under_way) == (0, 0))
    raw.writer.transport.abort()


async def test_all_users_of_one_cluster_have_half_of_the_streams_of_a_process(cluster: Cluster) -> None:
    """Also its administrator, who is a user of the server that made the cluster."""
    streams = Streams(most=2)
    cluster.server.reach_kubelets(
        cluster.authority.issue("kube-apiserver-kubelet-client"), streams, "a cluster"
    )
    first = await cluster.raw(f"{POD}/exec?command=ls", *SPDY)
    assert (await first.head())[0] == 101
    code, message = await (await cluster.raw(f"{POD}/exec?command=ls", *SPDY)).refusal()
    assert (code, message) == (429, "Too many requests, please try again later.")
    first.writer.transport.abort()


async def test_streams_are_bounded_and_one_user_has_half_of_them() -> None:
    streams = Streams(most=4)
    ends = [streams.begin("ann"), streams.begin("ann")]
    with pytest.raises(TooManyRequests):
        streams.begin("ann")
    ends += [streams.begin("bob"), streams.begin("")]
    with pytest.raises(TooManyRequests):
        streams.begin("")
    ends[0]()
    ends[0]()  # twice is once
    assert streams.under_way == 3
    streams.begin("ann")()
    ends[1]()
    assert streams.holders == {"bob", ""}
