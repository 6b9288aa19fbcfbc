"""A management cluster with the bootstrap provider, a workload cluster, and what the core and users do."""

import asyncio
from contextlib import asynccontextmanager

import yaml

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster import manifests as core
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import CONFIG_MAP, CRD, SECRET
from kubewright.apiserver.server import ApiServer
from kubewright.base.delays import WORDS_SECONDS
from kubewright.bootstrap import world as bootstrap
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.pki.keys import Algorithm
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.registry import Sessions
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

SETTLED = WORDS_SECONDS + 1
"""Until also that is written what a KubeadmConfig only waits for."""

NS, CLUSTER_KEY = "default", Key("default", "c")
SETTINGS = BootstrapSettings(algorithm=Algorithm.EC)
CONTROL_PLANE = {"cluster.x-k8s.io/control-plane": ""}


def key(name):
    return Key(NS, name)


class Workload:
    """The workload cluster, as sessions reach it through ``line``."""

    def __init__(self, clock):
        self.server = ApiServer(clock)
        self.line = Faulty(InProcess(self.server.handle), clock, lambda _request: None)
        self.client = Client(InProcess(self.server.handle), clock)
        self.sessions = Sessions(clock, lambda _cluster, _credentials: Client(self.line, clock))

    def connect(self):
        self.sessions.want(CLUSTER_KEY, "credentials")


class World:
    """Both clusters, and the provider in one of them."""

    def __init__(self):
        self.clock = LoopClock()
        self.server = ApiServer(self.clock)
        self.line = Faulty(InProcess(self.server.handle), self.clock, lambda _request: None)
        self.user = Client(InProcess(self.server.handle), self.clock)
        self.workload = Workload(self.clock)

    @asynccontextmanager
    async def running(self):
        await self.server.start()
        await self.workload.server.start()
        world = bootstrap.world(SETTINGS)
        for each in (*core.crds(), *world.definitions()):
            await self.user.create(CRD, each)
        async with self.provider(world):
            yield self
        await self.workload.server.close()
        await self.server.close()

    @asynccontextmanager
    async def provider(self, world):
        """One term of the provider."""
        client = Client(self.line, self.clock)
        informers = Informers(client)
        recorder = Recorder(client, self.clock, "kubewright", kinds=(KUBEADM_CONFIG,))
        session = Session(client, informers)
        environment = Environment(
            session,
            Fixed(session),
            lambda: True,
            recorder,
            self.clock,
            Metrics(),
            workloads=lambda: self.workload.sessions,
        )
        made = world.wire(environment, ["kubeadmconfig"])
        runs = [
            informers.run,
            recorder.run,
            self.workload.sessions.run,
            *made.background,
            *(each.run for each in made.controllers),
        ]
        tasks = [asyncio.create_task(run()) for run in runs]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def cluster(self, *, infrastructure=True, initialized=False, **spec):
        given = {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}, **spec}
        await self.user.create(CLUSTER, {"metadata": {"name": "c"}, "spec": given}, namespace=NS)
        await self.said_of_cluster(infrastructure=infrastructure, initialized=initialized)

    async def said_of_cluster(self, *, infrastructure=True, initialized=True):
        status = "True" if initialized else "False"
        when = "2030-01-01T00:00:00Z"
        condition = {"type": "ControlPlaneInitialized", "status": status, "lastTransitionTime": when}
        body = {"status": {"infrastructureReady": infrastructure, "conditions": [condition]}}
        await self.user.patch(CLUSTER, CLUSTER_KEY, body, subresource="status")
        await asyncio.sleep(1)

    async def machine(
        self,
        name,
        *,
        control_plane=False,
        spec=None,
        bootstrap=None,
        version="v1.31.0",
        settle=SETTLED,
        **given,
    ):
        """A Machine and its KubeadmConfig, as the core leaves them."""
        labels = {"cluster.x-k8s.io/cluster-name": "c", **(CONTROL_PLANE if control_plane else {})}
        ref = {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "KubeadmConfig", "name": name}
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "clusterName": "c",
                "version": version,
                "bootstrap": {"configRef": ref, **(bootstrap or {})},
                "infrastructureRef": {"kind": "X", "name": name},
                **given,
            },
        }
        owner = await self.user.create(MACHINE, body, namespace=NS)
        reference = {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "name": name,
            "uid": owner.metadata.uid,
            "controller": True,
        }
        config = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [reference]},
            "spec": spec or {},
        }
        await self.user.create(KUBEADM_CONFIG, config, namespace=NS)
        await asyncio.sleep(settle)

    async def first(self, name="cp-0", **given):
        spec = {"clusterConfiguration": {}, "initConfiguration": {}}
        await self.machine(name, control_plane=True, spec=spec, **given)

    async def joined(self, name):
        body = {"status": {"nodeRef": {"kind": "Node", "name": name}}}
        await self.user.patch(MACHINE, key(name), body, subresource="status")
        await asyncio.sleep(1)

    async def has_vm(self, name):
        """The infrastructure provider has made the VM."""
        await self.user.patch(MACHINE, key(name), {"spec": {"providerID": f"x:///{name}"}})
        await asyncio.sleep(1)

    async def change(self, kind, name, body):
        """A user changes an object."""
        await self.user.patch(kind, key(name), body)
        await asyncio.sleep(1)

    async def config(self, name):
        return await self.user.get(KUBEADM_CONFIG, key(name))

    async def said(self, name, kind="DataSecretAvailable"):
        conditions = {each.type: each for each in (await self.config(name)).status.conditions}
        found = conditions.get(kind)
        return (found.status, found.reason, found.message) if found else None

    async def secret(self, name):
        return await self.user.get(SECRET, key(name))

    async def data(self, name):
        """The cloud-config of a machine."""
        return yaml.safe_load((await self.secret(name)).data["value"])

    async def tokens(self):
        found = await self.workload.client.list(SECRET, "kube-system")
        return {each.name: each for each in found if each.name.startswith("bootstrap-token-")}

    async def gone(self, kind, name):
        try:
            await self.user.get(kind, key(name))
        except NotFound:
            return True
        return False

    async def lock(self):
        return (
            None if await self.gone(CONFIG_MAP, "c-lock") else await self.user.get(CONFIG_MAP, key("c-lock"))
        )

    def writes(self):
        return [
            (request.method, request.path.removeprefix("/api/v1/").rpartition("namespaces/default/")[2])
            for _, request in self.line.asked
            if request.method != "GET" and not request.path.endswith("/events")
        ]
