"""Which member of an etcd sends its data for a snapshot, over TLS."""

import asyncio
import base64
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubewright.api.cluster.manifests import crds as cluster_crds
from kubewright.api.controlplane.manifests import crds
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_SNAPSHOT, ControlPlaneSnapshotStatus
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import CRD, SECRET
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.controlplanes.etcd import Members, NoData, stream
from kubewright.controlplanes.members import Access, Credentials, Endpoint
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.pki.certificates import new_authority, new_client, new_leaf
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

pytestmark = pytest.mark.looptime(False)
DAY = timedelta(days=1)


def data_of(number: int) -> bytes:
    """What a member sends: data, and its hash."""
    data = f"data of {number}".encode()
    return data + hashlib.sha256(data).digest()


class Etcd:
    """Members that answer as those of an etcd, and the credentials of a client."""

    def __init__(self, folder: Path) -> None:
        now = SystemClock().now()
        authority = new_authority("etcd", now, DAY)
        server = new_leaf(authority, User("kube-etcd", ()), now, DAY, names=["127.0.0.1"])
        client = new_client(authority, User("us", ()), now, DAY)
        self.own = Credentials(authority.certificate, client.certificate, client.key)
        (folder / "server.pem").write_bytes(server.certificate + b"\n" + server.key)
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(folder / "server.pem")

    @asynccontextmanager
    async def member(
        self, number: int, *, leader: int, applied: int, sends: bool, says: Any = None
    ) -> AsyncIterator[Endpoint]:
        """``says``: its status, in place of that of an etcd."""

        async def status(_request: web.Request) -> web.Response:
            if says is not None:
                return web.json_response(says)
            header = {"member_id": str(number)} if number else {}
            said = {"header": header, "leader": str(leader), "raftAppliedIndex": str(applied)}
            return web.json_response({**said, "raftTerm": "2", "version": f"3.6.{number}"})

        async def snapshot(_request: web.Request) -> web.Response:
            blob = base64.b64encode(data_of(number)).decode()
            part = {"result": {"blob": blob}} if sends else {"error": "its disk is full"}
            return web.Response(text=json.dumps(part) + "\n")

        app = web.Application()
        app.router.add_post("/v3/maintenance/status", status)
        app.router.add_post("/v3/maintenance/snapshot", snapshot)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        try:
            yield Endpoint(f"https://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()


@pytest.mark.parametrize(
    ("members", "sent"),
    [
        ([(1, 3, 500, True), (2, 3, 400, True), (3, 3, 500, True)], 3),
        ([(1, 3, 400, True), (2, 3, 500, True), (3, 3, 500, False)], 2),
        ([(1, 0, 7, True), (2, 0, 9, True)], 2),
    ],
    ids=[
        "the leader, wherever it is in the list",
        "the one that has applied most, if the leader does not send",
        "the one that has applied most, if none leads",
    ],
)
async def test_the_member_that_has_most_sends_its_data(tmp_path, members, sent):
    etcd = Etcd(tmp_path)
    async with AsyncExitStack() as stack:
        there = [
            await stack.enter_async_context(etcd.member(number, leader=leader, applied=applied, sends=sends))
            for number, leader, applied, sends in members
        ]
        gone = Endpoint("https://127.0.0.1:1")
        found = await stream([gone, *there], etcd.own, tmp_path / "file")
    assert (found.version, found.member) == (f"3.6.{sent}", there[[each[0] for each in members].index(sent)])
    assert (tmp_path / "file").read_bytes() == data_of(sent)


async def test_if_none_sends_its_data_it_says_what_the_last_one_answered(tmp_path):
    etcd = Etcd(tmp_path)
    async with etcd.member(1, leader=1, applied=5, sends=False) as only:
        with pytest.raises(NoData, match=f"no member .*: {only.url}: NoData it says its disk is full"):
            await stream([only], etcd.own, tmp_path / "file")


async def test_a_server_that_answers_without_a_members_id_is_no_etcd(tmp_path):
    etcd = Etcd(tmp_path)
    async with (
        etcd.member(0, leader=0, applied=5, sends=False) as other,
        Members(Access([other], etcd.own)) as members,
    ):
        seen = await members.look({"etcd-0": "https://etcd-0:2380"})
    assert seen.members == ()
    assert seen.unasked == f"no member of etcd answers: {other.url} is no etcd: it has no member's id"


@pytest.mark.parametrize(
    "says",
    [["a list"], "a text", 7, {"header": "no object"}, {"header": {"member_id": "1"}, "raftIndex": "x"}],
    ids=["a list", "a text", "a number", "no header", "no index"],
)
async def test_a_server_that_answers_something_else_is_no_etcd_either(tmp_path, says):
    etcd = Etcd(tmp_path)
    async with (
        etcd.member(1, leader=1, applied=5, sends=False, says=says) as other,
        Members(Access([other], etcd.own)) as members,
    ):
        seen = await members.look({"etcd-0": "https://etcd-0:2380"})
    assert seen.members == ()
    assert f"{other.url} is no etcd" in seen.unasked


@asynccontextmanager
async def run(*switches: Any) -> AsyncIterator[Client]:
    """``kubewright run`` with the controller of snapshots."""
    clock, stop = SystemClock(), asyncio.Event()
    server = ApiServer(clock)
    await server.start()
    user = Client(InProcess(server.handle), clock, name="user")
    for crd in (*cluster_crds(), *crds()):
        await user.create(CRD, crd)
    options = replace(Options(), controllers=("controlplanesnapshot",), **dict(switches))
    election = Election(enabled=False)
    work = asyncio.create_task(run_with(user, user, None, options, election=election, stop=stop))
    try:
        yield user
    finally:
        stop.set()
        await work
        await server.close()


async def secret(user: Client, name: str, data: Mapping[str, bytes]) -> None:
    text = {key: value.decode() for key, value in data.items()}
    await user.create(SECRET, {"metadata": {"name": name, "namespace": "default"}, "stringData": text})


async def take(user: Client, etcd: Etcd, *members: Endpoint) -> None:
    """A snapshot of the etcd of another program."""
    meta, own = {"name": "demo", "namespace": "default"}, etcd.own
    await user.create(NESTED_CONTROL_PLANE, {"metadata": meta, "spec": {}})
    ports = [int(each.url.rpartition(":")[2]) for each in members]
    addresses = [{"ip": "127.0.0.1", "port": port} for port in ports]
    status = {"status": {"etcd": {"addresses": addresses}}}
    await user.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), status, subresource="status")
    await secret(user, "demo-etcd", {"tls.crt": own.authority})
    await secret(user, "demo-apiserver-etcd-client", {"tls.crt": own.certificate, "tls.key": own.key})
    body = {"metadata": meta | {"name": "first"}, "spec": {"controlPlaneName": "demo"}}
    await user.create(CONTROL_PLANE_SNAPSHOT, body)


async def taken(user: Client, so: Callable[[ControlPlaneSnapshotStatus], bool]) -> ControlPlaneSnapshotStatus:
    async with asyncio.timeout(30):
        while not so(found := (await user.get(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))).status):
            await user.clock.sleep(0.05)
    return found


async def test_run_keeps_a_snapshot_in_its_folder_and_says_which_member_has_sent_it(tmp_path):
    etcd = Etcd(tmp_path)
    async with (
        etcd.member(1, leader=2, applied=7, sends=True) as one,
        etcd.member(2, leader=2, applied=7, sends=True) as two,
        run(("snapshot_folder", tmp_path / "kept")) as user,
    ):
        await take(user, etcd, one, two)
        status = await taken(user, lambda found: found.ready)
    assert (status.member, status.version) == (two.url, "3.6.2")
    assert (tmp_path / "kept" / status.file).read_bytes() == data_of(2)


async def test_run_without_a_folder_says_what_to_do(tmp_path):
    etcd = Etcd(tmp_path)
    async with etcd.member(1, leader=1, applied=7, sends=True) as one, run() as user:
        await take(user, etcd, one)
        status = await taken(user, lambda found: bool(found.conditions))
    (said,) = status.conditions
    told = "name a bucket in the location, or start the program with --snapshot-folder"
    assert said.message == f"this program has no folder for snapshots: {told}"
