"""The host of this process, asked as a controller asks it: what outlives a restart, and who gets in."""

import asyncio
import shutil
import socket
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from kubewright import builtin
from kubewright.api.controlplane.names import Component
from kubewright.api.core import CONFIG_MAP, NAMESPACE
from kubewright.api.meta import OwnerReference
from kubewright.apiserver.http.kubeconfig import render
from kubewright.base import delays
from kubewright.base.clock import SystemClock
from kubewright.base.errors import Backoff, InvalidInput
from kubewright.compose.api_servers import Planes
from kubewright.compose.plane_controllers import controllers_of
from kubewright.compose.task_hosting import TaskHosting
from kubewright.controlplanes.hosting.contract import Replacement, Running, Workload, WorkloadIdentity
from kubewright.controlplanes.templates.render import Rendered
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.kube.errors import TransportError
from kubewright.pki.certificates import new_authority, new_client, new_server
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

pytestmark = pytest.mark.looptime(False)
CLOCK = SystemClock()
YEAR = timedelta(days=365)
AUTHORITY = new_authority("kubernetes", CLOCK.now(), YEAR)
SERVER = new_server(AUTHORITY, ("127.0.0.1",), CLOCK.now(), YEAR)
MINE = {"metadata": {"name": "mine", "namespace": "default"}, "data": {"a": "b"}}
ETCD, API_SERVER, MANAGER = Component.ETCD, Component.API_SERVER, Component.CONTROLLER_MANAGER

NO_ETCD = "no NestedEtcd of its control plane runs inside this process; it needs one of version embedded too"


def identity(component, cluster="demo"):
    owner = OwnerReference(kind="Nested", name=f"{cluster}-{component}", uid="u")
    return WorkloadIdentity("team", cluster, component, owner)


def workload(component, *, server=SERVER, replicas=1, cluster="demo"):
    """What the templates of version embedded come to."""
    names = {"ca": "demo-ca", "apiserver": "demo-apiserver"}
    volumes = [{"name": name, "secret": {"secretName": secret}} for name, secret in names.items()]
    pod = {"spec": {"containers": [{"name": component}], "volumes": volumes}}
    contents = {
        "demo-ca": {"tls.crt": AUTHORITY.certificate},
        "demo-apiserver": {"tls.crt": server.certificate, "tls.key": server.key},
    }
    rendered = Rendered([{"kind": "StatefulSet", "spec": {"template": pod}}])
    return Workload(identity(component, cluster), "embedded", rendered, replicas, contents)


class Process:
    """What a process that runs nested control planes has, in a folder."""

    def __init__(self, folder, controllers=None):
        self.planes = Planes(CLOCK, folder=folder / "clusters", listens=True)
        controllers = controllers or controllers_of(builtin.Settings(run_apps=True), CLOCK)
        self.host = TaskHosting(self.planes, CLOCK, folder, controllers)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        await self.host.close()
        await self.planes.close()

    async def start(self):
        for component in (ETCD, API_SERVER):
            await self.host.apply(workload(component))

    def endpoint(self):
        return self.host.addresses(identity(API_SERVER), 1).endpoint

    def running(self, component):
        return self.host.status(identity(component))

    def client(self, signer=AUTHORITY):
        host, port = self.endpoint()
        admin = new_client(signer, User("admin", ("system:masters",)), CLOCK.now(), YEAR)
        content = render(f"https://{host}:{port}", AUTHORITY.certificate, admin)
        return Client(from_secret(content, clock=CLOCK), CLOCK)


@contextmanager
def taken(host, port):
    """Another program listens there."""
    with socket.socket() as other:
        other.bind((host, port))
        other.listen()
        yield


async def test_users_with_a_certificate_of_the_clusters_authority_get_in_and_others_do_not(tmp_path):
    other = new_authority("kubernetes", CLOCK.now(), YEAR)
    async with Process(tmp_path) as process:
        await process.start()
        ours, stranger = process.client(), process.client(other)
        try:
            assert await ours.list(NAMESPACE)
            with pytest.raises(TransportError):
                await stranger.list(NAMESPACE)
        finally:
            await ours.transport.close()
            await stranger.transport.close()


async def test_after_a_restart_the_address_and_the_data_are_the_same_and_nothing_runs_by_itself(tmp_path):
    async with Process(tmp_path) as first:
        await first.start()
        endpoint = first.endpoint()
        client = first.client()
        await client.create(CONFIG_MAP, MINE)
        await client.transport.close()
    async with Process(tmp_path) as second:
        assert (second.running(ETCD).exists, second.running(ETCD).instances) == (True, ())
        assert second.running(API_SERVER).exists is False
        await second.start()
        client = second.client()
        found = await client.get(CONFIG_MAP, Key("default", "mine"))
        await client.transport.close()
        assert (second.endpoint(), found.data) == (endpoint, {"a": "b"})


async def test_after_a_restart_data_that_was_deleted_is_known_to_be_gone(tmp_path):
    async with Process(tmp_path) as first:
        await first.start()
    (data,) = (tmp_path / "clusters").iterdir()
    async with Process(tmp_path) as second:
        assert second.running(ETCD).data == {0}
    shutil.rmtree(data)
    async with Process(tmp_path) as third:
        assert third.running(ETCD).data == frozenset()
        await third.start()  # it was given up
        assert third.running(API_SERVER).instances[0].ready


async def test_a_data_file_that_is_damaged_is_told_by_its_path_inside_the_data_folder(tmp_path):
    async with Process(tmp_path) as first:
        await first.start()
    (file,) = (tmp_path / "clusters").glob("*/*.db")
    file.write_bytes(b"no data at all" * 1000)
    async with Process(tmp_path) as second:
        await second.start()
        (instance,) = second.running(API_SERVER).instances
    inside = str(file.relative_to(tmp_path))
    assert (inside in instance.message, str(tmp_path) in instance.message) == (True, False)


async def test_data_that_is_to_be_kept_is_there_for_the_next_etcd_of_that_name(tmp_path):
    async with Process(tmp_path) as process:
        await process.start()
        client = process.client()
        await client.create(CONFIG_MAP, MINE)
        await process.host.remove(identity(API_SERVER), keep_data=False)
        await process.host.remove(identity(ETCD), keep_data=True)
        assert process.running(ETCD).exists is False
        await process.start()
        assert (await client.get(CONFIG_MAP, Key("default", "mine"))).data == {"a": "b"}
        await client.transport.close()


async def test_data_goes_with_its_etcd(tmp_path):
    async with Process(tmp_path) as process:
        await process.start()
        client = process.client()
        await client.create(CONFIG_MAP, MINE)
        await client.transport.close()
        for component in (ETCD, API_SERVER):
            await process.host.remove(identity(component), keep_data=False)
        assert list((tmp_path / "clusters").iterdir()) == []
        await process.start()
        client = process.client()
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, Key("default", "mine"))
        await client.transport.close()


async def test_an_api_server_waits_for_its_etcd(tmp_path):
    async with Process(tmp_path) as process:
        await process.host.apply(workload(API_SERVER))
        (waiting,) = process.running(API_SERVER).instances
        assert (waiting.ready, waiting.message) == (False, NO_ETCD)
        await process.host.apply(workload(ETCD))
        assert process.running(API_SERVER).instances[0].ready


async def test_another_certificate_is_taken_when_the_instance_is_replaced(tmp_path):
    renewed = new_server(AUTHORITY, ("127.0.0.1", "demo.example"), CLOCK.now(), YEAR)
    async with Process(tmp_path) as process:
        await process.start()
        wanted = workload(API_SERVER, server=renewed)
        await process.host.apply(wanted)
        before = process.running(API_SERVER)
        await process.host.replace(identity(API_SERVER), 0)
        after = process.running(API_SERVER)
        assert (before.applied, before.instances[0].fingerprint == before.applied) == (
            wanted.fingerprint,
            False,
        )
        assert (after.instances[0].fingerprint, after.instances[0].ready) == (wanted.fingerprint, True)


async def test_a_port_that_another_program_took_while_this_one_did_not_run_is_told(tmp_path):
    async with Process(tmp_path) as process:
        host, port = process.endpoint()
    with taken(host, port):
        async with Process(tmp_path) as process:
            await process.start()
            (instance,) = process.running(API_SERVER).instances
            assert not instance.ready
            assert f"port {port} on {host} is taken" in instance.message
            await process.host.remove(identity(ETCD), keep_data=True)
            (instance,) = process.running(API_SERVER).instances
            assert instance.message == NO_ETCD


async def test_the_data_of_an_api_server_that_cannot_start_can_be_replaced(tmp_path):
    snapshot = tmp_path / "snapshot"

    @asynccontextmanager
    async def fetch():
        yield snapshot

    async with Process(tmp_path) as process:
        host, port = process.endpoint()
        await process.start()
        await process.host.save_data(identity(ETCD), snapshot)
    with taken(host, port):
        async with Process(tmp_path) as process:
            await process.start()
            await process.host.apply(workload(ETCD, replicas=0))
            by = Replacement("mark", 1, fetch, credentials=fetch)
            done = await process.host.replace_data(identity(ETCD), by)
    assert (tmp_path / done.former).is_dir()


async def test_an_api_server_that_cannot_start_leaves_no_task_behind(tmp_path):
    before = asyncio.all_tasks()
    async with Process(tmp_path) as process:
        host, port = process.endpoint()
    with taken(host, port):
        async with Process(tmp_path) as process:
            for _ in range(3):
                await process.start()
            assert len(asyncio.all_tasks() - before) == 1
            await process.host.remove(identity(ETCD), keep_data=True)
            assert asyncio.all_tasks() == before
            await process.start()
    assert asyncio.all_tasks() == before


async def test_a_component_that_is_applied_while_the_last_one_is_removed_is_not_lost(tmp_path):
    async with Process(tmp_path) as process:
        await process.start()
        removals = (process.host.remove(identity(each), keep_data=False) for each in (API_SERVER, ETCD))
        await asyncio.gather(*removals, process.start())
        assert process.running(ETCD).applied == workload(ETCD).fingerprint
        assert process.running(API_SERVER).instances[0].ready


async def test_replacing_while_it_is_removed_does_nothing(tmp_path):
    async with Process(tmp_path) as process:
        await process.start()
        first, late = (process.host.replace(identity(API_SERVER), 0) for _ in range(2))
        await asyncio.gather(first, process.host.remove(identity(API_SERVER), keep_data=False), late)
        assert process.running(API_SERVER).exists is False


async def test_data_that_was_deleted_with_its_etcd_is_not_missed_by_the_next_one(tmp_path):
    async with Process(tmp_path) as process:
        await process.start()
        await process.host.remove(identity(ETCD), keep_data=False)
        assert process.running(ETCD).data is None


REPLACE = "replace them, or delete the Secret if Kubewright made it"


@pytest.mark.parametrize(
    ("own", "told"),
    [
        pytest.param(
            {"tls.crt": b"x", "tls.key": b"y"},
            "tls.crt and tls.key of Secret demo-apiserver are not a certificate in PEM and its key",
            id="what is no certificate",
        ),
        pytest.param(
            {"tls.crt": SERVER.certificate}, "Secret demo-apiserver has no tls.key", id="no key of its own"
        ),
    ],
)
async def test_a_secret_that_is_not_what_it_should_be_is_told(tmp_path, own, told):
    async with Process(tmp_path) as process:
        good = workload(API_SERVER)
        contents = {**good.contents, "demo-apiserver": own}
        await process.host.apply(workload(ETCD))
        await process.host.apply(replace(good, contents=contents))
        (instance,) = process.running(API_SERVER).instances
        assert instance.message == f"{told}; {REPLACE}"


async def test_a_patch_that_takes_the_certificate_from_the_pod_is_told(tmp_path):
    async with Process(tmp_path) as process:
        good = workload(API_SERVER)
        patched = Rendered([{"kind": "StatefulSet", "spec": {"template": {"spec": {"containers": [{}]}}}}])
        await process.host.apply(workload(ETCD))
        await process.host.apply(replace(good, rendered=patched))
        (instance,) = process.running(API_SERVER).instances
        assert instance.message == "the pod template has no volume ca from a Secret; mend spec.patches"


async def test_an_address_that_could_not_be_written_down_is_written_by_the_next_call(tmp_path):
    folder = tmp_path / "data"
    async with Process(folder) as first:
        folder.write_text("in the way")
        with pytest.raises(InvalidInput, match="cannot write") as told:
            await first.host.apply(workload(ETCD))
        assert told.value.retry == Backoff()  # unlike a mistake of a user
        assert first.running(ETCD) == Running()
        folder.unlink()
        endpoint = first.endpoint()
    async with Process(folder) as second:
        assert second.endpoint() == endpoint


async def test_two_control_planes_have_two_addresses(tmp_path):
    async with Process(tmp_path) as process:
        one, other = (
            process.host.addresses(identity(API_SERVER, cluster), 1).endpoint for cluster in ("demo", "other")
        )
        assert one != other


async def test_controllers_that_end_by_a_defect_say_so_and_begin_again(tmp_path, monkeypatch):
    monkeypatch.setattr(delays, "POLL", timedelta(seconds=0.05))
    failed, again = asyncio.Event(), asyncio.Event()
    working = controllers_of(builtin.Settings(run_apps=True), CLOCK)

    async def controllers(plane, ending):
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError
        again.set()
        await working(plane, ending)

    told = []
    async with Process(tmp_path, controllers) as process:
        process.host.listen(lambda _key: told.extend(process.running(MANAGER).instances))
        await process.start()
        await process.host.apply(workload(MANAGER))
        async with asyncio.timeout(10):
            await again.wait()
        ended = "its controllers ended by a defect, ZeroDivisionError; they begin again in some seconds"
        assert (False, ended) in [(each.ready, each.message) for each in told]
        (instance,) = process.running(MANAGER).instances
        assert (instance.ready, instance.message) == (True, "")
        await process.host.remove(identity(MANAGER), keep_data=False)
        assert process.running(MANAGER) == Running()
