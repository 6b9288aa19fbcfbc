"""The sample provisioner of `examples/etcd-provisioner` as a process, in place of our controller of NestedEtcds.

With the programs of `make kube` a whole control plane runs on its etcd; without them a script plays etcd, and what the
provisioner writes is looked at.
"""

import ast
import asyncio
import os
import shutil
import signal
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.nested_planes import FourObjects, until

from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_ETCD,
)
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.base.clock import SystemClock
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.testing.left_programs import nothing_left
from kubewright.testing.real_kubernetes.binaries import cache_folder
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.looptime(False), pytest.mark.timeout(180)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "etcd-provisioner"
PYTHONPATH = str(Path(__file__).parents[2] / "src")
OBJECTS = EXAMPLE / "control-plane.yaml"
ETCD, SERVER = Key("default", "demo-etcd"), Key("default", "demo-apiserver")
PLAYED = f"""#!{sys.executable}
import http.server, ssl, sys
if sys.argv[1:] == ["--version"]:
    print("etcd Version: 3.6.0"); sys.exit()
flags = dict(each[2:].split("=", 1) for each in sys.argv[1:])
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'{{"health": "true"}}')
host, port = flags["listen-client-urls"].removeprefix("https://").split(":")
server = http.server.HTTPServer((host, int(port)), Health)
tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=flags["trusted-ca-file"])
tls.load_cert_chain(flags["cert-file"], flags["key-file"])
tls.verify_mode = ssl.CERT_REQUIRED
server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@asynccontextmanager
async def management(folder, *without):
    """What ``kubewright up`` serves, without these controllers."""
    controllers = (*every_word(Options()), *(f"-{each}" for each in without))
    async with Embedded(
        ServerConfig(folder), replace(Options(), controllers=controllers), SystemClock()
    ) as embedded:
        stop = asyncio.Event()
        task = asyncio.create_task(embedded.serve(stop))
        try:
            yield embedded
        finally:
            stop.set()
            await task


@asynccontextmanager
async def provisioner(embedded, folder, etcd, *flags, **environ):
    """The sample as a process; its etcds, which go on without it, are killed in the end.

    ``etcd``: its program; None: the sample has to find one.
    """
    named = () if etcd is None else ("--etcd", etcd)
    arguments = ("--kubeconfig", embedded.kubeconfig, "--folder", folder, *named, *flags)
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, **environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLE / "provisioner.py", *arguments, env=environment
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        for pid in etcds(folder):
            os.kill(pid, signal.SIGKILL)


def etcds(folder):
    """The processes whose data is in the folder."""
    found = []
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and f"--data-dir={folder}".encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


@pytest.fixture
def played(tmp_path):
    path = tmp_path / "played-etcd"
    path.write_text(PLAYED)
    path.chmod(0o755)
    return path


async def secret_names(client):
    return {each.name for each in await client.list(SECRET, "default")}


async def etcd_of(client):
    return await client.get(NESTED_ETCD, ETCD)


async def etcd_is_ready(client):
    return (await etcd_of(client)).status.ready


async def is_told(client, kind, key, told):
    ready = [each.message for each in (await client.get(kind, key)).status.conditions if each.type == "Ready"]
    return any(told in each for each in ready)


def test_the_sample_uses_the_client_and_the_values_that_its_methods_take():
    parsed = [ast.parse(path.read_text()) for path in EXAMPLE.glob("*.py")]
    used = {
        node.module or "" for tree in parsed for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    ours = {each for each in used if each.startswith("kubewright")}
    values = {
        "kubewright.api.kinds",
        "kubewright.base.clock",
        "kubewright.wire.errors",
        "kubewright.wire.gvk",
    }
    assert {each for each in ours if not each.startswith("kubewright.kube.")} == values


async def test_it_fulfils_the_contract_and_our_controller_leaves_the_object_alone(tmp_path, played):
    folder = tmp_path / "etcds"
    async with management(tmp_path / "up") as embedded, provisioner(embedded, folder, played):
        client, four = embedded.client, FourObjects(embedded.client, "default", "embedded", OBJECTS)
        await four.create()
        await until(lambda: etcd_is_ready(client), SystemClock())
        etcd, (pid,) = await etcd_of(client), etcds(folder)
        (address,) = etcd.status.addresses
        assert (address.ip, etcd.status.version, etcd.status.phase) == ("127.0.0.1", "3.6.0", "Ready")
        assert (etcd.metadata.finalizers, etcd.status.conditions) == (("example.com/etcd-provisioner",), ())
        authority = await client.get(SECRET, Key("default", "demo-etcd"))
        assert (authority.type, set(authority.data)) == ("cluster.x-k8s.io/secret", {"tls.crt"})
        # Our API server went on, up to the store: version embedded has one of its own, and no other.
        told = "no NestedEtcd of its control plane runs inside this process"
        await until(lambda: is_told(client, NESTED_API_SERVER, SERVER, told), SystemClock())
        assert {"demo-apiserver-etcd-client", "demo-apiserver"} <= await secret_names(client)
        assert "demo-etcd-server" not in await secret_names(client)

        os.kill(pid, signal.SIGKILL)
        await until(lambda: restarted(client, folder, pid), SystemClock())
        assert (await etcd_of(client)).status.addresses == (address,)

        await four.delete()
        await until(four.gone, SystemClock())
        assert (etcds(folder), list(folder.iterdir())) == ([], [])


async def restarted(client, folder, pid):
    return etcds(folder) not in ([], [pid]) and await etcd_is_ready(client)


async def test_it_finds_the_etcd_in_the_cache_where_up_finds_it_too(tmp_path, played):
    cached = tmp_path / "cache/kubewright/kube/v1.36.3/etcd"
    cached.parent.mkdir(parents=True)
    shutil.copy(played, cached)
    found = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/nowhere", "KUBEWRIGHT_ASSETS": ""}
    folder = tmp_path / "etcds"
    async with management(tmp_path / "up") as embedded, provisioner(embedded, folder, None, **found):
        four = FourObjects(embedded.client, "default", "embedded", OBJECTS)
        await four.create()
        await until(lambda: etcd_is_ready(embedded.client), SystemClock())
        await four.delete()
        await until(four.gone, SystemClock())


async def test_with_our_controller_switched_off_it_takes_objects_that_name_no_manager(tmp_path, played):
    folder = tmp_path / "etcds"
    async with (
        management(tmp_path / "up", "nestedetcd") as embedded,
        provisioner(embedded, folder, played, "--every"),
    ):
        client = embedded.client
        for kind, spec in ((NESTED_CONTROL_PLANE, {"etcd": {"name": "demo-etcd"}}), (NESTED_ETCD, {})):
            name = "demo" if kind is NESTED_CONTROL_PLANE else "demo-etcd"
            await client.create(kind, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        await until(lambda: etcd_is_ready(client), SystemClock())
        assert (await etcd_of(client)).metadata.finalizers == ("example.com/etcd-provisioner",)


async def test_what_it_cannot_do_it_says_and_mending_the_spec_is_enough(tmp_path, played):
    async with (
        management(tmp_path / "up") as embedded,
        provisioner(embedded, tmp_path / "etcds", played),
    ):
        client, four = embedded.client, FourObjects(embedded.client, "default", "embedded", OBJECTS)
        await four.create()
        await client.patch(NESTED_ETCD, ETCD, {"spec": {"replicas": 3}})

        async def refused():
            errors = ("spec.replicas is 3: this provisioner runs one member",)
            return (await etcd_of(client)).status.errors == errors

        await until(refused, SystemClock())
        await client.patch(NESTED_ETCD, ETCD, {"spec": {"replicas": None}})
        await until(lambda: etcd_is_ready(client), SystemClock())


@pytest.mark.kube
async def test_a_control_plane_of_real_programs_runs_on_its_etcd(tmp_path):
    """E-09."""
    program, folder = cache_folder() / "etcd", tmp_path / "etcds"
    with nothing_left(tmp_path / "up" / "components"):
        async with management(tmp_path / "up") as embedded, provisioner(embedded, folder, program):
            client, four = embedded.client, FourObjects(embedded.client, "default", example=OBJECTS)
            await four.create()
            await until(four.ready, SystemClock())
            (address,) = (await etcd_of(client)).status.addresses
            plane = await client.get(NESTED_CONTROL_PLANE, Key("default", "demo"))
            assert plane.status.etcd.addresses == (address,)
            secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            inside = Client(from_secret(secret.data["value"]), SystemClock())
            mine = {"metadata": {"name": "mine", "namespace": "default"}, "data": {"a": "b"}}
            await inside.create(CONFIG_MAP, mine)
            assert b"/registry/configmaps/default/mine" in stored(folder)
            await inside.close()
            programs = {path.parent.name for path in (tmp_path / "up").rglob("process.json")}
            assert programs == {"apiserver-0", "apiserver-balancer", "controller-manager-0"}
            await four.delete()
            await until(four.gone, SystemClock())
            assert etcds(folder) == []


def stored(folder):
    """What the etcd below this folder has written."""
    return b"".join(path.read_bytes() for path in folder.rglob("*.wal"))
