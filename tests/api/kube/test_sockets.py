"""The transport over real sockets, on virtual time: every fault of the matrix, TLS, logins."""

import asyncio
import json
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubewright.api.kinds import dynamic
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.kube.access import Access, Plugin, Token, TokenFile
from kubewright.kube.client import Client
from kubewright.kube.config import connect
from kubewright.kube.errors import ConnectFailed, Disconnected, LoginFailed, TimedOut
from kubewright.kube.informer import Informers
from kubewright.kube.sockets import CONNECTIONS
from kubewright.testing import faults
from kubewright.testing.faults import (
    Cut,
    Delay,
    FaultServer,
    Lose,
    LoseAnswer,
    Say,
    Script,
    Silence,
    fault_server,
)
from kubewright.wire.errors import Conflict, Forbidden, NotFound, Unauthorized, Unavailable
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import Request, Response

THING = dynamic(Resource("example.io", "v1", "things", "Thing"))
PATH = "/apis/example.io/v1/namespaces/n/things"
A = Key("n", "a")


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n"}, "spec": spec}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def server(toy, clock, script) -> AsyncIterator[FaultServer]:
    async with fault_server(toy.handle, clock, script) as running:
        yield running


@asynccontextmanager
async def client_of(server: FaultServer, clock: Any) -> AsyncIterator[Client]:
    client = Client(connect(Access(server.url), clock=clock), clock)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def client(server, clock) -> AsyncIterator[Client]:
    async with client_of(server, clock) as made:
        yield made


async def test_every_verb_reaches_the_server_as_it_was_said(client, server) -> None:
    made = await client.create(THING, thing("a", size=1))
    assert made["kind"] == "Thing"
    assert await client.get(THING, A) == made
    changed = await client.patch(THING, A, {"spec": {"size": None, "ü": "=&?"}}, subresource="status")
    assert changed["spec"] == {"ü": "=&?"}
    assert await client.list(THING, "n", labels="a in (b, c)", fields="x!=y") == [changed]
    await client.delete(THING, A, uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(THING, A)
    methods = [request.method for _, request in server.asked]
    assert methods == ["POST", "GET", "PATCH", "GET", "DELETE", "GET"]
    patch, listing = server.asked[2][1], server.asked[3][1]
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.headers["user-agent"] == "kubewright"
    assert patch.path == f"{PATH}/a/status"
    assert listing.param("labelSelector") == "a in (b, c)"
    assert listing.param("fieldSelector") == "x!=y"


async def test_a_client_learns_what_time_it_is_on_the_other_side(client) -> None:
    await client.list(THING, "n")
    assert client.skew.anchor is not None
    assert abs(client.skew.anchor[0] - datetime.now(UTC)) < timedelta(
        seconds=30
    )  # the server has a real clock


FAULTS = {
    "410 in the status": faults.GONE,
    "410 in the body": faults.GONE_IN_STREAM,
    "502 with HTML": faults.BAD_GATEWAY,
    "503 with nothing": faults.UNAVAILABLE,
    "403": faults.FORBIDDEN,
    "end at once": Cut(),
    "a break in the middle of a line": faults.Break(),
    "a line that is no JSON": Say(b"<html>\n"),
    "half-open": Silence(),
    "dropped connections": Lose(),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_an_informer_survives_and_misses_nothing(toy, clock, script, server, client, fault) -> None:
    toy.put(f"{PATH}/doomed", thing("doomed"))
    script.on(fault, watch=True, times=None)
    informers = Informers(client)
    things = informers.get(THING)
    running = asyncio.create_task(informers.run())
    await informers.wait_synced(5)
    await clock.sleep(100)
    toy.remove(f"{PATH}/doomed")
    toy.put(f"{PATH}/new", thing("new", text="x" * 1_500_000))
    since = clock.monotonic()
    await clock.sleep(300)
    assert server.count(since=since) <= 150
    script.calm()
    await clock.sleep(140)
    assert {header.key.name for header in things.headers()} == {"new"}
    running.cancel()
    await asyncio.wait([running])


async def test_a_refused_connection_fails_soon_and_proves_that_nothing_was_sent(clock) -> None:
    with socket.socket() as bound:  # it does not listen, so the kernel refuses
        bound.bind(("127.0.0.1", 0))
        nowhere = FaultServer(f"http://127.0.0.1:{bound.getsockname()[1]}")
        async with client_of(nowhere, clock) as client:
            began = clock.monotonic()
            with pytest.raises(ConnectFailed):
                await client.create(THING, thing("a"))
            assert clock.monotonic() - began < 5


async def test_a_lost_answer_to_a_bare_write_is_reported_to_the_caller(toy, client, script, server) -> None:
    script.on(LoseAnswer(), method="POST")
    with pytest.raises(Disconnected):
        await client.create(THING, thing("a"))
    assert f"{PATH}/a" in toy.objects
    assert server.count() == 1


async def test_a_lost_answer_to_a_guarded_write_is_asked_again(toy, client, script) -> None:
    made = await client.create(THING, thing("a"))
    version = made["metadata"]["resourceVersion"]
    script.on(LoseAnswer(), method="PATCH")
    with pytest.raises(Conflict):
        await client.patch(THING, A, {"metadata": {"resourceVersion": version}, "spec": {"size": 2}})
    assert toy.objects[f"{PATH}/a"]["spec"] == {"size": 2}


async def test_reads_survive_lost_requests(toy, client, script) -> None:
    toy.put(f"{PATH}/a", thing("a"))
    script.on(Lose(), times=2)
    assert (await client.get(THING, A))["metadata"]["name"] == "a"


async def test_a_loaded_server_is_asked_again_when_it_said(toy, clock, client, script, server) -> None:
    script.on(faults.Answer(503, retry_after=3), method="POST", times=2)
    began = clock.monotonic()
    await client.create(THING, thing("a"))
    assert 6 <= clock.monotonic() - began < 8
    script.on(faults.Answer(503), method="POST")
    with pytest.raises(Unavailable):
        await client.create(THING, thing("b"))


async def test_an_answer_that_does_not_come_has_a_deadline(clock, client, script) -> None:
    script.on(Delay(1_000), method="POST")
    began = clock.monotonic()
    with pytest.raises(TimedOut):
        await client.create(THING, thing("a"))
    assert clock.monotonic() - began == pytest.approx(30, abs=0.5)


async def test_other_requests_wait_for_no_eviction(clock, toy, client, script) -> None:
    """A webhook may hold evictions for a minute, and meanwhile a leader renews its Lease on the same server."""
    toy.put(f"{PATH}/a", thing("a"))
    script.on(Delay(40), path="/eviction", times=None)
    evictions = [
        asyncio.create_task(client.evict(Key("n", f"p{n}"), uid="u")) for n in range(2 * CONNECTIONS)
    ]
    await clock.sleep(1)
    began = clock.monotonic()
    await client.get(THING, A)
    assert clock.monotonic() - began < 1
    for each in evictions:
        each.cancel()
    await asyncio.wait(evictions)


async def test_a_refusal_over_html_keeps_its_code(client, script) -> None:
    script.on(faults.Answer(403, b"<html>", "text/html"))
    with pytest.raises(Forbidden, match="the server answered 403"):
        await client.get(THING, A)


async def test_after_closing_nothing_is_sent(client, server) -> None:
    await client.close()
    with pytest.raises(ConnectFailed):
        await client.get(THING, A)
    with pytest.raises(ConnectFailed):
        async with client.transport.stream(client.request("GET", PATH)):
            pass
    assert server.count() == 0


# ---------------------------------------------------------------- logins


class Guarded:
    """A server that answers requests with the right token only."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.seen: list[str] = []

    async def handle(self, request: Request) -> Response:
        shown = request.headers.get("authorization", "")
        self.seen.append(shown)
        good = shown == f"Bearer {self.token}"
        return Response(200 if good else 401, json.dumps(thing("a")).encode())


@asynccontextmanager
async def connected(guarded: Guarded, login: Any, clock: Any) -> AsyncIterator[Client]:
    async with fault_server(guarded.handle, clock, Script()) as server:
        client = Client(connect(Access(server.url, login), clock=clock), clock)
        async with aclosing_client(client):
            yield client


@asynccontextmanager
async def aclosing_client(client: Client) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await client.close()


async def test_a_token_is_shown(clock) -> None:
    async with connected(Guarded("t1"), Token("t1"), clock) as client:
        await client.get(THING, A)


async def test_a_wrong_token_is_not_tried_twice(clock) -> None:
    guarded = Guarded("t1")
    async with connected(guarded, Token("t2"), clock) as client:
        with pytest.raises(Unauthorized):
            await client.get(THING, A)
    assert len(guarded.seen) == 1


async def test_a_token_file_is_read_again_after_a_minute_and_after_a_401(clock, tmp_path) -> None:
    path, guarded = tmp_path / "token", Guarded("t1")
    path.write_text("t1\n")
    async with connected(guarded, TokenFile(path), clock) as client:
        await client.get(THING, A)
        path.write_text("t2")
        await client.get(THING, A)
        guarded.token = "t2"
        await client.get(THING, A)
        path.write_text("t3")
        await clock.sleep(61)
        guarded.token = "t3"
        await client.get(THING, A)
    assert guarded.seen == [f"Bearer {token}" for token in ("t1", "t1", "t1", "t2", "t3")]


def plugin(folder: Path, script: str) -> Plugin:
    program = folder / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return Plugin(str(program), (), (("WHO", "me"),), "client.authentication.k8s.io/v1")


def credential(**status: str) -> str:
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(body)}'"


class ManualClock(SystemClock):
    """Real waits, for real programs; the time of day is what the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


@pytest.mark.looptime(False)
async def test_a_plugin_is_run_once_and_again_before_its_token_expires(tmp_path) -> None:
    log, clock = tmp_path / "log", ManualClock()
    good = credential(token="t1", expirationTimestamp="2030-01-01T00:10:00Z")
    login = plugin(tmp_path, f"echo $WHO >> {log}\n{good}")
    async with connected(Guarded("t1"), login, clock) as client:
        await client.get(THING, A)
        clock.time += timedelta(minutes=9)
        await client.get(THING, A)
        assert log.read_text() == "me\n"
        clock.time += timedelta(seconds=31)
        await client.get(THING, A)
        assert log.read_text() == "me\nme\n"


@pytest.mark.looptime(False)
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "failed with status 3"),
        ("echo nonsense", "printed no ExecCredential"),
        (credential(), "gave neither token nor certificate"),
        ('echo \'{"apiVersion": "v0"}\'', "answered in 'v0'"),
    ],
)
async def test_a_failing_plugin_is_an_error_and_nothing_is_sent(tmp_path, script, said) -> None:
    guarded = Guarded("t1")
    async with connected(guarded, plugin(tmp_path, script), ManualClock()) as client:
        with pytest.raises(LoginFailed, match=said):
            await client.get(THING, A)
    assert guarded.seen == []


async def test_a_missing_plugin_is_named(clock) -> None:
    missing = Plugin("no-such-program", (), (), "client.authentication.k8s.io/v1", "get it from example.com")
    async with connected(Guarded("t1"), missing, clock) as client:
        with pytest.raises(LoginFailed, match=r"no-such-program: .* \(get it from example.com\)"):
            await client.get(THING, A)


# ---------------------------------------------------------------- TLS


def issue(name: str, issuer: tuple[x509.Certificate, Any] | None = None) -> tuple[x509.Certificate, Any]:
    """A certificate for ``name`` and its key; without an issuer, an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


def pem(pair: tuple[x509.Certificate, Any]) -> tuple[bytes, bytes]:
    certificate, key = pair
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(*plain)


async def test_both_sides_prove_who_they_are_and_no_key_stays_on_disk(
    toy, clock, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "keys"))
    (tmp_path / "keys").mkdir()
    authority = issue("authority")
    ca, _ = pem(authority)
    (tmp_path / "server").write_bytes(b"".join(pem(issue("kubernetes.local", authority))))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=ca.decode())
    context.load_cert_chain(tmp_path / "server")
    context.verify_mode = ssl.CERT_REQUIRED
    toy.put(f"{PATH}/a", thing("a"))
    async with fault_server(toy.handle, clock, Script(), tls=context) as server:
        certificate, key = pem(issue("me", authority))
        good = Access(server.url, ca=ca, certificate=certificate, key=key, tls_server_name="kubernetes.local")
        for access, fine in [
            (good, True),
            (replace(good, tls_server_name=""), False),
            (replace(good, ca=b""), False),
            (replace(good, ca=b"", tls_server_name="", insecure=True), True),
        ]:
            client = Client(connect(access, clock=clock), clock)
            async with aclosing_client(client):
                if fine:
                    assert (await client.get(THING, A))["metadata"]["name"] == "a"
                else:
                    with pytest.raises(ConnectFailed):
                        await client.get(THING, A)
    assert list((tmp_path / "keys").iterdir()) == []


def test_certificates_that_are_none_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="not valid PEM"):
        connect(Access("https://example.com", certificate=b"x", key=b"y"))
