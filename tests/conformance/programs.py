"""A control plane of real programs in a host of processes, for tests that play its controllers.

The templates are ours, the programs those of `make kube`; certificates are made here.
"""

import asyncio
import os
import signal
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

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
from kubewright.pki.certificates import new_authority, new_client, new_leaf, new_server
from kubewright.pki.clusters import new_service_account_keys
from kubewright.pki.keys import Algorithm
from kubewright.processes import record
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes.binaries import cache_folder
from kubewright.wire.http import User

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

    def __init__(self, hosting, clock, *, members=1):
        etcds, (self.server,) = (
            hosting.place(place(ETCD), members).hosts,
            hosting.place(place(SERVER), 1).hosts,
        )
        self.etcd = etcds[0]
        now = clock.now()
        self.clock = clock
        self.authority, etcd, proxy = (
            new_authority(name, now, DAY) for name in ("kubernetes", "etcd", "proxy")
        )
        names = [*etcds, self.server, "127.0.0.1", "localhost", "10.96.0.1"]
        accounts = new_service_account_keys(Algorithm.EC)

        def pair(identity):
            return {"tls.crt": identity.certificate, "tls.key": identity.key}

        def client(authority, name, *groups):
            return new_client(authority, User(name, groups), now, DAY)

        manager = client(self.authority, "system:kube-controller-manager")
        self.admin = client(self.authority, "kubernetes-admin", "system:masters")
        self.etcd_client = client(etcd, "kube-apiserver-etcd-client")
        self.contents = {
            "demo-ca": pair(self.authority),
            "demo-etcd": pair(etcd),
            "demo-proxy": pair(proxy),
            "demo-sa": {"tls.crt": accounts.certificate, "tls.key": accounts.key},
            "demo-apiserver": pair(new_server(self.authority, names, now, DAY)),
            "demo-etcd-server": pair(new_leaf(etcd, User("kube-etcd", ()), now, DAY, names=names)),
            "demo-etcd-peer": pair(new_leaf(etcd, User("kube-etcd-peer", ()), now, DAY, names=names)),
            "demo-apiserver-etcd-client": pair(self.etcd_client),
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


def environment_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


@contextmanager
def nothing_left(folder):
    """Whatever still runs from the folder of a host afterwards is killed."""
    yield folder
    for name in record.recorded(folder / "programs"):
        found = record.read(folder / "programs" / name)
        if (
            found is not None
            and found.pid
            and b"KUBEWRIGHT_PROCESS=" + found.mark.encode() in environment_of(found.pid)
        ):
            os.kill(found.pid, signal.SIGKILL)
