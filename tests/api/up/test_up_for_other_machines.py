"""``up`` where other machines reach it: its certificate, what strangers may read, and how a kubelet joins by a token."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubewright.api.core import CONFIG_MAP, NODE, SECRET
from kubewright.apiserver.http.reach import Reach, reach
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.kube.access import Access, Token
from kubewright.kube.client import Client
from kubewright.kube.config import connect
from kubewright.pki.facts import facts_of, is_signed_by, public_key_hashes
from kubewright.providers.sim.kubeadm import Join, NodeSetup
from kubewright.providers.sim.tls_bootstrap import NotYet, access, request_credentials
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Forbidden, Unauthorized
from kubewright.wire.gvk import Key

OTHERS = Reach("127.0.0.2", ("box.example", "127.0.0.2"))
INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
TOKEN = "abcdef.0123456789abcdef"


@asynccontextmanager
async def up(folder: Path, where: Reach = OTHERS, clock=None):
    """A server that works, without machines' own controllers being waited for."""
    stop = asyncio.Event()
    async with Embedded(ServerConfig(folder, reach=where), Options(), clock or SystemClock()) as world:
        serving = asyncio.create_task(world.serve(stop))
        try:
            yield world
        finally:
            stop.set()
            await serving


def authority(folder: Path) -> bytes:
    pem = (folder / "pki" / "ca.pem").read_bytes()
    return pem[: pem.index(b"-----BEGIN PRIVATE")]


async def seen_by(world, name: str, folder: Path) -> frozenset[str]:
    """The names in the certificate that a client gets who looks for this name and trusts the authority alone."""
    trusting = ssl.create_default_context(cadata=authority(folder).decode())
    host, port = world.url.removeprefix("https://").rsplit(":", 1)
    _, writer = await asyncio.open_connection(host, int(port), ssl=trusting, server_hostname=name)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return facts_of(ssl.DER_cert_to_PEM_cert(der).encode()).names


@pytest.mark.looptime(False)
async def test_the_certificate_names_it_and_the_kubeconfig_has_an_address_that_works_here(tmp_path):
    async with up(tmp_path) as world:
        assert world.url.startswith("https://127.0.0.2:")
        assert {"box.example", "127.0.0.2", "127.0.0.1"} <= await seen_by(world, "box.example", tmp_path)
        assert world.url in world.kubeconfig.read_text()
        with pytest.raises(ssl.SSLCertVerificationError):
            await seen_by(world, "other.example", tmp_path)


async def test_other_names_make_another_certificate_under_the_same_authority(tmp_path):
    found = []
    for names in (("a.example",), ("a.example",), ("b.example",), ()):
        config = ServerConfig(tmp_path, reach=reach("127.0.0.1", names))
        async with Embedded(config, Options(), LoopClock()):
            found.append((authority(tmp_path), (tmp_path / "pki" / "server.pem").read_bytes()))
    first, same, other, none = found
    assert len({ca for ca, _ in found}) == 1
    assert first == same != other
    assert "b.example" in facts_of(other[1]).names
    assert not {"a.example", "b.example"} & facts_of(none[1]).names
    assert all(is_signed_by(server, ca) for ca, server in found)


async def test_an_address_of_another_machine_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"--address 192\.0\.2\.1 is no address of this machine"):
        async with Embedded(ServerConfig(tmp_path, reach=Reach("192.0.2.1")), Options(), LoopClock()):
            pass


@pytest.mark.looptime(False)
async def test_a_stranger_reads_cluster_info_and_nothing_else(tmp_path):
    async with up(tmp_path) as world:
        stranger = Client(connect(Access(world.url, ca=authority(tmp_path)), clock=world.clock), world.clock)
        info = await stranger.get(CONFIG_MAP, Key("kube-public", "cluster-info"))
        assert f"https://box.example:{world.url.rpartition(':')[2]}" in info.data["kubeconfig"]
        for kind, key in (
            (CONFIG_MAP, Key("kube-public", "kube-root-ca.crt")),
            (CONFIG_MAP, Key("kube-system", "kubeadm-config")),
            (SECRET, Key("kube-system", "bootstrap-token-abcdef")),
            (NODE, Key("", "a")),
        ):
            with pytest.raises(Unauthorized):
                await stranger.get(kind, key)
        with pytest.raises(Unauthorized):
            await stranger.patch(CONFIG_MAP, Key("kube-public", "cluster-info"), {"data": {"a": "b"}})
        with pytest.raises(Unauthorized):
            await stranger.list(CONFIG_MAP, "kube-public")
        await stranger.close()


async def test_on_loopback_nothing_is_made_for_machines_that_join(tmp_path):
    async with Embedded(ServerConfig(tmp_path), Options(), LoopClock()) as world:
        names = {each.name for each in await world.client.list(CONFIG_MAP)}
    assert names.isdisjoint({"cluster-info", "kubeadm-config", "kubelet-config"})


def token_secret(token: str):
    token_id, _, secret = token.partition(".")
    data = {
        "token-id": token_id,
        "token-secret": secret,
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
    }
    meta = {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"}
    return {"metadata": meta, "type": "bootstrap.kubernetes.io/token", "stringData": data}


@pytest.mark.looptime(False)
async def test_a_kubelet_joins_by_a_token_that_a_user_made(tmp_path):
    """What kubeadm join and a kubelet do, over TLS: discovery, the request, the certificate, and work with it."""
    async with up(tmp_path, Reach("127.0.0.2", ("127.0.0.2",))) as world:
        await world.client.create(SECRET, token_secret(TOKEN))
        address = world.url.removeprefix("https://")
        hashes = tuple(public_key_hashes(authority(tmp_path)))
        join = Join(address, NodeSetup(), token=TOKEN, hashes=hashes)
        async with asyncio.timeout(20):
            credentials = await joined(join, world.clock)
        assert facts_of(credentials.certificate.encode()).user.name == "system:node:worker"
        kubelet = Client(connect(access(address, credentials), clock=world.clock), world.clock)
        config = await kubelet.get(CONFIG_MAP, Key("kube-system", "kubelet-config"))
        assert "rotateCertificates: true" in config.data["kubelet"]
        with pytest.raises(Forbidden):
            await kubelet.list(SECRET, "kube-system")
        await kubelet.close()


async def joined(join: Join, clock: SystemClock):
    """The credentials; cluster-info is signed a moment after the token was made."""
    while True:
        try:
            return await request_credentials(join, "worker", clock)
        except NotYet:
            await clock.sleep(0.05)


@pytest.mark.looptime(False)
async def test_a_token_that_is_not_there_does_not_authenticate(tmp_path):
    async with up(tmp_path) as world:
        found = Access(world.url, Token(TOKEN), ca=authority(tmp_path))
        client = Client(connect(found, clock=world.clock), world.clock)
        with pytest.raises(Unauthorized):
            await client.list(NODE)
        await client.close()
