"""A workload cluster behind TLS, reached by the kubeconfig in a Secret, in real time."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.cluster.manifests import crds
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.core import CRD, NODE, SECRET
from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.clusters.node import BY_PROVIDER_ID, CLUSTER_NODE, INDEXES
from kubewright.clusters.sessions import WorkloadClusters
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.sessions.session import Listener, Session
from kubewright.wire.gvk import Key

pytestmark = pytest.mark.looptime(False)

DEMO = Key("default", "demo")
SECONDS = 20.0
PROVIDER_ID = "foo:///behind-tls"


def secret(kubeconfig: Path) -> dict[str, Any]:
    labels = {"cluster.x-k8s.io/cluster-name": "demo"}
    data = {"value": b64encode(kubeconfig.read_bytes()).decode()}
    return {"metadata": {"name": "demo-kubeconfig", "labels": labels}, "data": data}


async def test_nodes_of_a_cluster_behind_tls_are_seen(door: Path) -> None:
    clock = SystemClock()
    server = ApiServer(clock)
    await server.start()
    client = Client(InProcess(server.handle), clock)
    informers = Informers(client)
    workloads = WorkloadClusters(Session(client, informers))
    workloads.cache(CLUSTER_NODE, INDEXES)
    for each in crds():
        await client.create(CRD, each)
    gained, seen = asyncio.Event(), asyncio.Event()

    def begins(session: Session) -> None:
        gained.set()
        nodes = session.informer(CLUSTER_NODE)
        nodes.subscribe(lambda _change: seen.set() if nodes.by(BY_PROVIDER_ID, PROVIDER_ID) else None)

    workloads.subscribe(Listener(begins, lambda _session, _because: None))
    tasks = [asyncio.create_task(run()) for run in (informers.run, workloads.run)]
    await client.create(CLUSTER, {"metadata": {"name": "demo"}}, namespace=DEMO.namespace)
    await client.create(dynamic(SECRET.resource), secret(door), namespace=DEMO.namespace)
    async with asyncio.timeout(SECONDS):
        await gained.wait()
        assert workloads.get(DEMO).cluster == DEMO
        direct = Client(load(door), clock)
        await direct.create(NODE, {"metadata": {"name": "behind-tls"}, "spec": {"providerID": PROVIDER_ID}})
        await seen.wait()
        await direct.delete(NODE, Key("", "behind-tls"))
        await direct.close()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await server.close()
