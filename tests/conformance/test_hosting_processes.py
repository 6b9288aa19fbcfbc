"""Real programs as processes of this machine: a control plane from our own templates, in the host alone.

No controller takes part: the test makes the certificates and applies the three workloads in order.
"""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_ETCD
from kubewright.api.meta import OwnerReference
from kubewright.apiserver.http.kubeconfig import render as kubeconfig
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.hosting.contract import Place, Running, Workload
from kubewright.controlplanes.hosting.processes.binaries import Places
from kubewright.controlplanes.hosting.processes.host import ProcessHosting, Settings
from kubewright.controlplanes.rendering.render import render
from kubewright.controlplanes.templates import catalog
from kubewright.controlplanes.templates.choice import Choice, choose
from kubewright.kube.config import from_secret
from kubewright.pki.certificates import new_authority, new_client, new_server
from kubewright.pki.clusters import new_service_account_keys
from kubewright.pki.keys import Algorithm
from kubewright.processes import record
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes.binaries import cache_folder
from kubewright.wire.http import User

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

ETCD, SERVER, MANAGER = Component.ETCD, Component.API_SERVER, Component.CONTROLLER_MANAGER
DAY = timedelta(days=1)
READY_SECONDS = 90.0
SETS = catalog.read(files("kubewright.controlplanes.templates") / "sets")


def place(component):
    owner = OwnerReference(
        api_version="controlplane.cluster.x-k8s.io/v1alpha4", kind="X", name=component, uid="u"
    )
    return Place("default", "demo", component, owner)


class Plane:
    """The certificates of a control plane, and its workloads."""

    def __init__(self, hosting, clock):
        self.etcd, self.server = (hosting.place(place(each), 1).hosts[0] for each in (ETCD, SERVER))
        now = clock.now()
        self.clock = clock
        self.authority, etcd, proxy = (
            new_authority(name, now, DAY) for name in ("kubernetes", "etcd", "proxy")
        )
        names = [self.etcd, self.server, "127.0.0.1", "localhost", "10.96.0.1"]
        accounts = new_service_account_keys(Algorithm.EC)

        def pair(identity):
            return {"tls.crt": identity.certificate, "tls.key": identity.key}

        def client(authority, name, *groups):
            return new_client(authority, User(name, groups), now, DAY)

        manager = client(self.authority, "system:kube-controller-manager")
        self.admin = client(self.authority, "kubernetes-admin", "system:masters")
        self.contents = {
            "demo-ca": pair(self.authority),
            "demo-etcd": pair(etcd),
            "demo-proxy": pair(proxy),
            "demo-sa": {"tls.crt": accounts.certificate, "tls.key": accounts.key},
            "demo-apiserver": pair(new_server(self.authority, names, now, DAY)),
            "demo-etcd-server": pair(new_server(etcd, names, now, DAY)),
            "demo-etcd-peer": pair(new_server(etcd, names, now, DAY)),
            "demo-apiserver-etcd-client": pair(client(etcd, "kube-apiserver-etcd-client")),
            "demo-kubelet-client": pair(
                client(self.authority, "kube-apiserver-kubelet-client", "system:masters")
            ),
            "demo-proxy-client": pair(client(proxy, "front-proxy-client")),
            "demo-controller-manager-kubeconfig": {"value": self.kubeconfig(manager)},
        }

    def kubeconfig(self, identity):
        return kubeconfig(f"https://{self.server}:6443", self.authority.certificate, identity)

    def workload(self, component, **spec):
        asked = NESTED_ETCD.from_plain({"spec": {"channel": "1.36", **spec}}).spec
        choice = choose(component, asked, SETS, default="stable")
        assert isinstance(choice, Choice)
        values = {
            "cluster": "demo",
            "component": component,
            "repository": "none",
            "secrets": "demo",
            "etcd_servers": f"https://{self.etcd}:2379",
            "service_domain": "cluster.local",
            "service_cidr": "10.96.0.0/12",
            "leader_elect": "false",
        }
        environment = {
            "INITIAL_CLUSTER": f"demo-etcd-0=https://{self.etcd}:2380",
            "INITIAL_CLUSTER_STATE": "new",
        }
        rendered = render(asked, choice, values, namespace="default", replicas=1)
        return Workload(place(component), choice.version, rendered, 1, self.contents, environment)

    @asynccontextmanager
    async def api(self):
        transport = from_secret(self.kubeconfig(self.admin))
        try:
            yield Api(transport, self.clock, "real")
        finally:
            await transport.close()


class Hosted:
    """A host with what it says."""

    def __init__(self, hosting, folder):
        self.hosting, self.folder = hosting, folder
        self._told = asyncio.Event()
        hosting.listen(lambda _key: self._told.set())

    async def until(self, component, says):
        async with asyncio.timeout(READY_SECONDS):
            while not says(status := self.hosting.status(place(component))):
                self._told.clear()
                await self._told.wait()
        return status

    async def up(self, plane, *components):
        for component in components or (ETCD, SERVER, MANAGER):
            workload = plane.workload(component)
            assert self.hosting.problem_of(workload) == ""
            await self.hosting.apply(workload)
            await self.until(component, ready)

    async def down(self):
        for component in (MANAGER, SERVER, ETCD):
            await self.hosting.remove(place(component), keep_data=False)
            await self.until(component, lambda status: status == Running())

    def pid(self, component):
        return record.read(self.folder / f"programs/default/demo/{component}-0").pid

    def pids(self):
        return [self.pid(component) for component in (ETCD, SERVER, MANAGER)]


def ready(status):
    return bool(status.instances) and all(each.ready for each in status.instances)


def restarted(status):
    return ready(status) and status.instances[0].restarts > 0


@asynccontextmanager
async def hosted(folder, **settings):
    where = Places((cache_folder().parent,))
    async with ProcessHosting(Settings(folder, where, **settings), SystemClock()) as hosting:
        yield Hosted(hosting, folder)


@pytest.fixture
def folder(tmp_path):
    """A folder of a host; whatever still runs from it at the end is killed."""
    yield tmp_path
    for name in record.recorded(tmp_path / "programs"):
        found = record.read(tmp_path / "programs" / name)
        if (
            found is not None
            and found.pid
            and b"KUBEWRIGHT_PROCESS=" + found.mark.encode() in environment_of(found.pid)
        ):
            os.kill(found.pid, signal.SIGKILL)


def environment_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def say(measured):
    """For ``pytest -rP``: what a person wants to know beside the result."""
    sys.stdout.write(f"{measured}\n")


async def eventually(check, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not await check():
            await SystemClock().sleep(0.1)


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(None, id="as ourselves"),
        pytest.param(
            (65534, 65534), id="as nobody", marks=pytest.mark.skipif(os.getuid() != 0, reason="needs root")
        ),
    ],
)
async def test_a_control_plane_starts_in_order_works_and_stops_in_order(folder, user):
    clock, began = SystemClock(), asyncio.get_running_loop().time()
    async with hosted(folder, user=user) as found:
        plane = Plane(found.hosting, clock)
        for component in (ETCD, SERVER, MANAGER):
            await found.up(plane, component)
            instance = found.hosting.status(place(component)).instances[0]
            seconds = asyncio.get_running_loop().time() - began
            say(f"{component}: ready after {seconds:.2f} s with {instance.memory >> 20} MiB")
        async with plane.api() as api:

            async def has_account():
                path = "/api/v1/namespaces/default/serviceaccounts/default"
                return (await api.get(path)).code == 200

            await eventually(has_account)  # the controller manager works
        say(f"first account after {asyncio.get_running_loop().time() - began:.2f} s")
        for component in (ETCD, SERVER, MANAGER):
            assert found.hosting.status(place(component)).instances[0].restarts == 0
        stopping = asyncio.get_running_loop().time()
        await found.down()
        say(f"stopped within {asyncio.get_running_loop().time() - stopping:.2f} s")
    assert list((folder / "programs").iterdir()) == []


async def test_a_killed_etcd_comes_back_with_its_data_and_no_other_program_is_restarted(folder):
    async with hosted(folder) as found:
        plane = Plane(found.hosting, SystemClock())
        await found.up(plane)
        pids = found.pids()
        async with plane.api() as api:
            config = {"metadata": {"name": "kept"}, "data": {"a": "b"}}
            (await api.post("/api/v1/namespaces/default/configmaps", config)).ok()
            os.kill(pids[0], signal.SIGKILL)
            await found.until(ETCD, restarted)
            await found.until(SERVER, ready)
            answer = (await api.get("/api/v1/namespaces/default/configmaps/kept")).ok()
            assert answer["data"] == {"a": "b"}
        assert found.pids()[1:] == pids[1:]
        await found.down()


async def test_a_restart_of_the_host_restarts_no_program(folder):
    async with hosted(folder) as found:
        plane = Plane(found.hosting, SystemClock())
        await found.up(plane)
        pids = found.pids()
    async with hosted(folder) as found:
        for component in (ETCD, SERVER, MANAGER):
            status = await found.until(component, ready)
            assert status.instances[0].restarts == 0
            await found.hosting.apply(plane.workload(component))
        assert found.pids() == pids
        async with plane.api() as api:
            (await api.get("/api/v1/namespaces/default")).ok()
        await found.down()


async def test_a_port_that_is_taken_is_told_by_the_program_that_needs_it(folder):
    async with hosted(folder) as found:
        address = found.hosting.place(place(ETCD), 1).hosts[0]
        taker = await asyncio.start_server(lambda _reader, writer: writer.close(), address, 2379)
        async with taker:
            await found.hosting.apply(Plane(found.hosting, SystemClock()).workload(ETCD))
            status = await found.until(
                ETCD, lambda status: bool(status.instances and status.instances[0].restarts)
            )
        told = status.instances[0].message
        assert told.endswith(f"listen tcp {address}:2379: bind: address already in use")
        await found.until(ETCD, restarted)
        await found.down()


async def test_limits_reach_the_programs_and_a_flag_that_is_none_is_told(folder):
    async with hosted(folder) as found:
        plane = Plane(found.hosting, SystemClock())
        limits = {"resources": {"limits": {"memory": "256Mi", "cpu": "1500m"}}}
        await found.hosting.apply(plane.workload(ETCD, **limits))
        await found.until(ETCD, ready)
        environment = environment_of(found.pid(ETCD)).split(b"\0")
        assert {b"GOMEMLIMIT=241591910", b"GOMAXPROCS=2"} <= set(environment)
        await found.hosting.apply(plane.workload(ETCD, **limits, extraArgs={"no-such-flag": "1"}))
        await found.hosting.replace(place(ETCD), 0)
        status = await found.until(
            ETCD, lambda status: bool(status.instances and status.instances[0].restarts)
        )
        assert "flag provided but not defined: -no-such-flag" in status.instances[0].message
        await found.hosting.apply(plane.workload(ETCD, **limits))
        await found.hosting.replace(place(ETCD), 0)
        await found.until(ETCD, ready)
        await found.down()
