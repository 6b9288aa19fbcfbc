"""Control planes of simulated clusters at real sockets: who gets in, and what outlives a process."""

import asyncio
import socket
import threading

import pytest

from kubewright.api.core import NAMESPACE, NODE
from kubewright.apiserver.http.kubeconfig import render
from kubewright.apiserver.http.listener import HOST
from kubewright.apiserver.server import opened
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.compose import api_servers
from kubewright.compose.api_servers import LIFETIME, Planes
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.kube.errors import ConnectFailed, TransportError
from kubewright.pki.certificates import Identity, new_client
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.keys import Algorithm
from kubewright.providers.sim.tls_bootstrap import PlaneRequest
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

pytestmark = pytest.mark.looptime(False)
CLOCK = SystemClock()
ADMIN = User("kubernetes-admin", ("system:masters",))
TOKEN = "abcdef.0123456789abcdef"


def authority():
    """As a bootstrap provider makes it."""
    return new_cluster_authority(CLOCK.now(), Algorithm.EC)


def kubeconfig(address, trusted, signer):
    """What the core would write into the cluster's Secret, with a client signed by ``signer``."""
    signing = Identity.from_pem(signer.certificate + signer.key)
    admin = new_client(signing, ADMIN, CLOCK.now(), LIFETIME)
    return render(f"https://{address}", trusted.certificate, admin)


def client(address, trusted, signer):
    return Client(from_secret(kubeconfig(address, trusted, signer), clock=CLOCK), CLOCK)


def request(address, ca):
    return PlaneRequest(address, ca.certificate, ca.key, tokens=(TOKEN,))


async def test_only_the_clusters_own_authority_lets_in(tmp_path):
    planes, ours, other = Planes(CLOCK, folder=tmp_path, listens=True), authority(), authority()
    address = planes.reserve("demo")
    await planes.begin(request(address, ours))
    right, wrong, misled = (client(address, *by) for by in ((ours, ours), (ours, other), (other, ours)))
    try:
        assert await right.list(NODE) == []
        for stranger in (wrong, misled):
            with pytest.raises(TransportError):
                await stranger.list(NODE)
    finally:
        for each in (right, wrong, misled):
            await each.transport.close()
        await planes.close()


async def test_objects_outlive_a_pause_and_a_process_and_end_with_the_cluster(tmp_path):
    ca = authority()
    planes = Planes(CLOCK, folder=tmp_path, listens=True)
    address = planes.reserve("demo")
    plane = await planes.begin(request(address, ca))
    await plane.client.create(NAMESPACE, {"metadata": {"name": "mine"}})
    await planes.pause(address)
    assert planes.find(address) is None
    away = client(address, ca, ca)
    with pytest.raises(ConnectFailed):
        await away.list(NODE)
    await away.transport.close()
    await planes.begin(request(address, ca))
    await planes.close()

    later = Planes(CLOCK, folder=tmp_path, listens=True)
    again = await later.begin(request(address, ca))
    assert (await again.client.get(NAMESPACE, Key("", "mine"))).name == "mine"
    assert again.accepts(TOKEN)
    await later.end(address)
    assert list(tmp_path.iterdir()) == []


async def test_an_address_whose_machines_have_not_booted_yet_is_not_given_away(tmp_path):
    planes, ca = Planes(CLOCK, folder=tmp_path, listens=True), authority()
    address = planes.reserve("demo")
    await planes.begin(request(address, ca))
    await planes.close()
    later = Planes(CLOCK, folder=tmp_path, listens=True)

    assert address not in {later.reserve(str(number)) for number in range(20)}
    await later.close()


async def test_addresses_are_kept_for_their_owner():
    planes = Planes(CLOCK, listens=True)

    assert planes.reserve("a") == planes.reserve("a") != planes.reserve("b")
    await planes.close()


def is_free(address):
    with socket.socket() as other:
        try:
            other.bind((HOST, int(address.rpartition(":")[2])))
        except OSError:
            return False
        return True


async def test_no_other_program_gets_a_port_before_its_control_plane_listens_and_while_that_pauses():
    planes, ca = Planes(CLOCK, listens=True), authority()
    waiting, address = planes.reserve("waiting"), planes.reserve("demo")
    free = [is_free(waiting), is_free(address)]
    await planes.begin(request(address, ca))
    await planes.pause(address)
    free.append(is_free(address))
    assert free == [False, False, False]
    planes.release("waiting")
    await planes.end(address)
    planes.release("demo")
    assert [is_free(waiting), is_free(address)] == [True, True]
    await planes.close()


async def test_no_machine_begins_a_control_plane_at_the_address_of_one_of_objects():
    planes, ca = Planes(CLOCK), authority()
    address = planes.reserve("of objects", hosted=True)
    with pytest.raises(InvalidInput, match="is that of a NestedControlPlane"):
        await planes.begin(request(address, ca))
    assert planes.find(address) is None
    planes.release("of objects")
    await planes.begin(request(address, ca))
    await planes.close()


class SlowDisk:
    """Stops the thread that opens a data folder, until ``go`` is set; ``opened`` takes the place of ours."""

    def __init__(self):
        self.began, self.go = threading.Event(), threading.Event()

    def opened(self, folder, **settings):
        self.began.set()
        assert self.go.wait(10)
        return opened(folder, **settings)

    async def begins(self, planes, address):
        """The task that begins a control plane, while its thread waits for the disk."""
        task = asyncio.create_task(planes.begin(PlaneRequest(address)))
        assert await asyncio.to_thread(self.began.wait, 10)
        return task


@pytest.fixture
def disk(monkeypatch):
    disk = SlowDisk()
    monkeypatch.setattr(api_servers, "opened", disk.opened)
    yield disk
    disk.go.set()


async def test_one_that_ends_while_its_folder_is_opened_leaves_no_folder_and_no_server(tmp_path, disk):
    planes = Planes(CLOCK, folder=tmp_path)
    address = planes.reserve("demo")
    beginning = await disk.begins(planes, address)
    ending = asyncio.create_task(planes.end(address))
    await asyncio.wait([ending], timeout=0)
    disk.go.set()
    await asyncio.gather(beginning, ending)
    assert planes.find(address) is None
    assert not planes.has_data(address)
    await planes.close()


async def test_one_that_is_cancelled_while_its_folder_is_opened_can_begin_again_at_once(tmp_path, disk):
    planes = Planes(CLOCK, folder=tmp_path)
    address = planes.reserve("demo")
    beginning = await disk.begins(planes, address)
    beginning.cancel()
    again = asyncio.create_task(planes.begin(PlaneRequest(address)))
    await asyncio.wait([again], timeout=0)
    disk.go.set()
    assert (await again).serves
    assert beginning.cancelled()
    await planes.end(address)
    assert not planes.has_data(address)
    await planes.close()


async def test_two_machines_that_begin_one_at_the_same_time_get_the_same(tmp_path, disk):
    planes = Planes(CLOCK, folder=tmp_path)
    address = planes.reserve("demo")
    first = await disk.begins(planes, address)
    second = asyncio.create_task(planes.begin(PlaneRequest(address)))
    await asyncio.wait([second], timeout=0)
    disk.go.set()
    assert await first is await second
    await planes.close()


async def test_the_end_of_the_process_closes_also_a_folder_that_is_just_opened(tmp_path, disk):
    planes = Planes(CLOCK, folder=tmp_path)
    address = planes.reserve("demo")
    beginning = await disk.begins(planes, address)
    closing = asyncio.create_task(planes.close())
    await asyncio.wait([closing], timeout=0)
    disk.go.set()
    await asyncio.gather(beginning, closing)
    assert planes.find(address) is None
    opened(tmp_path / address.replace(":", "-"), power_loss=False).close()  # no process holds it
