"""A control plane of real programs in a host of processes, for tests that play its controllers.

The templates are ours, the programs those of `make kube`; certificates are made here.
"""

import asyncio
from contextlib import asynccontextmanager

from tests.conformance import nested_planes
from tests.conformance.nested_planes import ETCD, MANAGER, SERVER

from kubewright.api.meta import OwnerReference
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes.binaries import Places
from kubewright.controlplanes.hosting.processes.host import ProcessHosting
from kubewright.controlplanes.hosting.processes.options import Settings
from kubewright.processes import record
from kubewright.testing.real_kubernetes.binaries import cache_folder

READY_SECONDS = 90.0


def identity(component):
    owner = OwnerReference(
        api_version="controlplane.cluster.x-k8s.io/v1alpha4", kind="X", name=component, uid="u"
    )
    return WorkloadIdentity("default", "demo", component, owner)


class Plane(nested_planes.Plane):
    """A control plane in the namespace ``default``."""

    def __init__(self, hosting, clock, *, members=1):
        super().__init__(hosting, clock, identity, members=members)


class Hosted:
    """A host with what it says."""

    def __init__(self, hosting, folder):
        self.hosting, self.folder = hosting, folder
        self._told = asyncio.Event()
        hosting.listen(lambda _key: self._told.set())

    async def until(self, component, says):
        async with asyncio.timeout(READY_SECONDS):
            while not says(status := self.hosting.status(identity(component))):
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
            await self.hosting.remove(identity(component), keep_data=False)
            await self.until(component, lambda status: not status.exists)

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
