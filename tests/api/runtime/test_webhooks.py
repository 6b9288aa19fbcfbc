"""Webhooks of several replicas: one keyring and one pair of configurations for all; and what is served over TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from io import BytesIO

import aiohttp
import pytest
from tests.conformance.admission import CORE, MACHINE, made

from kubewright.api.catalog import RULES
from kubewright.api.core import CRD, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.webhooks.configurations import MUTATING, VALIDATING, Address, Registration, bundles
from kubewright.api.webhooks.review import webhooks
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.pki.certificates import has_signed
from kubewright.pki.keys import pems
from kubewright.runtime.accepting import MOST_CONNECTIONS
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.webhooks.certificates import (
    Keyring,
    Lifetimes,
    Plan,
    Seen,
    Step,
    keyring_after,
)
from kubewright.runtime.webhooks.keeper import Keeper
from kubewright.runtime.webhooks.server import REVIEW_BYTES, WebhookServer
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key
from kubewright.wire.http import Response

HOOKS = webhooks(RULES)
NAME, SECRET_KEY = "kubewright-webhooks", Key("default", "kubewright-webhooks")
QUICK = Lifetimes(*(timedelta(minutes=each) for each in (60, 24, 5, 10)))
TOLD = Registration(NAME, HOOKS, Address(url="https://127.0.0.1:9443"))
CONFIGURATIONS = (MUTATING, VALIDATING)


class Replica:
    """A keeper, and what its server would show."""

    def __init__(self, server, clock, registration=TOLD):
        self.client = Client(InProcess(server.handle), clock, name="replica")
        self.served = None
        self.keeper = Keeper(self.client, registration, SECRET_KEY, self._serve, QUICK)

    async def _serve(self, identity):
        self.served = identity


def crd(kind):
    """The embedded server calls no webhooks; here it keeps their configurations."""
    resource = kind.resource
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


@asynccontextmanager
async def a_server(clock, *, kinds=CONFIGURATIONS) -> AsyncIterator[ApiServer]:
    server = ApiServer(clock)
    await server.start()
    admin = Client(InProcess(server.handle), clock)
    for kind in kinds:
        await admin.create(dynamic(CRD.resource), crd(kind))
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def at_work(*replicas):
    tasks = [asyncio.create_task(each.keeper.run()) for each in replicas]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def known(client):
    """The bundles that an API server has."""
    return [bundle for kind in CONFIGURATIONS for bundle in bundles(await client.get(kind, Key("", NAME)))]


async def test_replicas_that_start_together_share_one_keyring():
    clock = LoopClock()
    async with a_server(clock) as server:
        replicas = [Replica(server, clock) for _ in range(3)]
        async with at_work(*replicas):
            await asyncio.sleep(5)
            assert len({each.served.certificate for each in replicas}) == 1
            assert {each.keeper.not_ready() for each in replicas} == {""}
            secret = await replicas[0].client.get(SECRET, SECRET_KEY)
            assert Keyring.from_secret(secret.data).serving == replicas[0].served
            assert set(await known(replicas[0].client)) == {secret.data["ca.crt"]}
            before = secret.metadata.resource_version
            await asyncio.sleep(300)
            assert (await replicas[0].client.get(SECRET, SECRET_KEY)).metadata.resource_version == before


async def test_through_the_lives_of_authorities_each_replica_is_trusted_by_api_servers_that_are_late():
    clock = LoopClock()
    async with a_server(clock) as server:
        replicas = [Replica(server, clock) for _ in range(2)]
        async with at_work(*replicas):
            await asyncio.sleep(5)
            seen: list[list[bytes]] = []
            authorities, served = set(), set()
            for _ in range(150):
                await asyncio.sleep(60)
                seen = [*seen[-4:], await known(replicas[0].client)]
                served |= {each.served.certificate for each in replicas}
                for each in replicas:
                    assert each.served.expires > clock.now()
                    for bundle in (seen[0][0], *seen[-1]):  # four minutes ago, and now
                        assert any(has_signed(one, each.served) for one in pems(bundle))
                        authorities |= set(pems(bundle))
            assert (len(authorities), len(pems(seen[-1][0]))) == (4, 1)
            assert len(served) >= 7


async def test_what_users_take_away_comes_back():
    clock = LoopClock()
    async with a_server(clock) as server:
        one, two = Replica(server, clock), Replica(server, clock)
        async with at_work(one, two):
            await asyncio.sleep(5)
            first, admin = one.served, one.client
            await admin.delete(VALIDATING, Key("", NAME))
            await admin.patch(MUTATING, Key("", NAME), {"webhooks": []})
            await admin.delete(SECRET, SECRET_KEY)
            await asyncio.sleep(130)
            assert one.served == two.served != first
            for bundle in await known(admin):
                assert any(has_signed(each, one.served) for each in pems(bundle))


async def test_a_server_that_calls_no_webhooks_says_so_and_is_asked_again():
    clock = LoopClock()
    async with a_server(clock, kinds=()) as server:
        one = Replica(server, clock)
        async with at_work(one):
            await asyncio.sleep(1)
            said = "the server does not serve mutatingwebhookconfigurations.admissionregistration.k8s.io"
            assert said in one.keeper.not_ready()
            for kind in CONFIGURATIONS:
                await one.client.create(dynamic(CRD.resource), crd(kind))
            await asyncio.sleep(10)
            assert one.keeper.not_ready() == ""


async def test_an_outage_of_the_api_server_leaves_what_is_served():
    clock = LoopClock()
    async with a_server(clock) as server:
        away = False

        async def handle(request):
            return Response(503) if away else await server.handle(request)

        one = Replica(server, clock)
        one.client.transport = InProcess(handle)
        async with at_work(one):
            await asyncio.sleep(5)
            away, first = True, one.served
            await asyncio.sleep(600)
            assert (one.served, one.keeper.not_ready()) == (first, "")
            await asyncio.sleep(3600)
            assert one.keeper.not_ready() == "the certificate has expired"
            away = False
            await asyncio.sleep(90)
            assert one.served != first
            assert one.keeper.not_ready() == ""


# ---------------------------------------------------------------- over TLS

real_time = pytest.mark.looptime(False)
PATH = "/validate-cluster-x-k8s-io-v1beta1-machine"
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "kind": {"group": "cluster.x-k8s.io", "version": "v1beta1", "kind": "Machine"},
        "operation": "CREATE",
        "object": made(CORE, "Machine", MACHINE | {"bootstrap": {}}, namespace="default"),
    },
}


class Serving:
    """A server on loopback with new keys, and clients that trust them."""

    def __init__(self):
        self.keys = new_keys()
        self.metrics = Metrics()
        self.server = WebhookServer(HOOKS, host="127.0.0.1", port=0, metrics=self.metrics)

    def client(self, keys=None):
        context = ssl.create_default_context(cadata=(keys or self.keys).bundle.decode())
        return aiohttp.ClientSession(
            f"https://127.0.0.1:{self.server.port}",
            connector=aiohttp.TCPConnector(ssl=context, limit=1),
            timeout=aiohttp.ClientTimeout(total=10),
        )


def new_keys():
    return keyring_after(
        Plan(Step.BEGIN, ""), Seen(None, (), ("127.0.0.1",)), SystemClock().now(), Lifetimes()
    )


@asynccontextmanager
async def serving():
    one = Serving()
    task = asyncio.create_task(one.server.run())
    assert not one.server.listening.is_set()
    one.server.present(one.keys.serving)
    async with asyncio.timeout(10):
        await one.server.listening.wait()
    try:
        yield one
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@real_time
async def test_a_review_is_answered_and_counted():
    async with serving() as one, one.client() as http:
        async with http.post(f"{PATH}?timeout=5s", json=REVIEW) as answer:
            assert answer.status == 200
            response = (await answer.json())["response"]
            assert (response["uid"], response["allowed"]) == ("u", False)
        text = one.metrics.render().decode()
        assert (
            'webhook_requests_total{answer="refused",webhook="validation.machine.cluster.x-k8s.io"} 1.0'
            in text
        )


ASKED_WRONGLY = {
    "by GET": ("GET", PATH, b"", {}, 405, "sent by POST"),
    "at no webhook's path": ("POST", "/", b"{}", {}, 404, "no webhook at /"),
    "with nothing": ("POST", PATH, b"", {}, 400, "is no AdmissionReview"),
    "with a body that is compressed": (
        "POST",
        PATH,
        b"\x1f\x8b",
        {"content-encoding": "gzip"},
        400,
        "must not be compressed",
    ),
    "with a body that is too large": (
        "POST",
        PATH,
        b" " * (REVIEW_BYTES + 1),
        {},
        413,
        "may have 7340032 bytes",
    ),
}


@real_time
@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code", "words"), ASKED_WRONGLY.values(), ids=ASKED_WRONGLY
)
async def test_a_question_that_is_none_is_refused_with_a_status(method, path, body, headers, code, words):
    async with serving() as one, one.client() as http:
        async with http.request(method, path, data=BytesIO(body), headers=headers) as answer:
            said = await answer.json()
            assert (answer.status, said["kind"], said["code"]) == (code, "Status", code)
            assert words in said["message"]
        async with http.post(PATH, json=REVIEW) as answer:
            assert answer.status == 200


@real_time
async def test_a_body_that_does_not_come_is_waited_for_as_long_as_the_api_server_waits():
    async with serving() as one, one.client() as http:

        async def never():
            yield b"{"
            await asyncio.sleep(30)

        async with http.post(f"{PATH}?timeout=200ms", data=never()) as answer:
            assert answer.status == 504
            assert (await answer.json())["reason"] == "Timeout"


@real_time
async def test_a_new_certificate_is_shown_in_new_handshakes_and_open_connections_go_on():
    async with serving() as one:
        new = new_keys()
        async with one.client() as before:
            assert await asks(before)
            one.server.present(new.serving)
            assert await asks(before)
        async with one.client(new) as after:
            assert await asks(after)
        async with one.client() as late:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await asks(late)


@real_time
async def test_connections_without_a_handshake_have_a_bound_and_keep_no_review_out():
    async with serving() as one, one.client() as http, asyncio.timeout(10):
        port = one.server.port
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 1)]
        assert await asks(http)
        with suppress(ConnectionError):
            assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.transport.abort()


async def asks(http):
    async with http.post(PATH, json=REVIEW) as answer:
        return answer.status == 200


@real_time
async def test_a_port_that_is_taken_is_one_sentence():
    async with serving() as one:
        other = WebhookServer(HOOKS, host="127.0.0.1", port=one.server.port, metrics=Metrics())
        other.present(one.keys.serving)
        with pytest.raises(InvalidInput, match=f"cannot serve webhooks on 127.0.0.1:{one.server.port}"):
            await other.run()
