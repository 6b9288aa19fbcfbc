"""A whole cluster of real programs from the objects of the example, in ``kubewright up``, with simulated workers."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from tests.conformance.nested_planes import until
from tests.conformance.test_nested_programs import processes, serving

from kubewright.api import catalog
from kubewright.api.bootstrap.names import JOIN_FILE
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import SECRET
from kubewright.base.clock import SystemClock, rfc3339_micro
from kubewright.kube.config import from_secret
from kubewright.providers.sim.kubeadm import read
from kubewright.testing.api import Api
from kubewright.testing.left_programs import nothing_left
from kubewright.testing.real_kubernetes import kubeadm
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(240)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster-nested.yaml"
KINDS = {
    (each.kind.resource.api_version, each.kind.resource.kind): each.kind
    for definitions in catalog.DEFINITIONS.values()
    for each in definitions
}
NESTED = Key("default", "nested")


async def test_workers_join_a_cluster_of_real_programs_by_tokens_and_certificates_of_their_own(tmp_path):
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            await create_cluster(client, "1.36")
            await until(lambda: ready_nodes(client), SystemClock())
            async with inside(client) as api:
                requests = (await api.get("/apis/certificates.k8s.io/v1/certificatesigningrequests")).ok()
            signed = [each for each in requests["items"] if each["status"].get("certificate")]
            assert {each["spec"]["username"][:17] for each in signed} == {"system:bootstrap:"}
            assert len(signed) == 3
            document = await join_document(client, tmp_path)
            assert await asyncio.to_thread(kubeadm.refusal, kubeadm.KUBEADM.find(), document) == ""
        again = rfc3339_micro(SystemClock().now())
        async with serving(tmp_path) as client:
            await until(lambda: reported(client, again), SystemClock())
            await client.delete(CLUSTER, NESTED)
            await until(lambda: cluster_gone(client), SystemClock())
            assert processes(tmp_path) == {}


async def join_document(client, folder):
    """What kubeadm reads on the first of the machines, in a file."""
    machine = min(each.name for each in await client.list(MACHINE, "default"))
    data = (await client.get(SECRET, Key("default", machine))).data["value"]
    found = read(data, "cloud-config", {"ds.meta_data.local_hostname": machine})
    document = folder / "join.yaml"
    document.write_text(found.files[JOIN_FILE])
    return document


async def create_cluster(client, channel="", version=""):
    """The example of a whole cluster, of the programs of this channel, or of a version that all of them follow."""
    for body in yaml.safe_load_all(EXAMPLE.read_text()):
        kind = KINDS[body["apiVersion"], body["kind"]]
        if body["kind"] in ("NestedEtcd", "NestedAPIServer", "NestedControllerManager"):
            body["spec"] |= {"channel": channel} if channel else {}
        if body["kind"] == "NestedControlPlane" and version:
            body["spec"]["version"] = version
        if body["kind"] == "MachineDeployment" and version:  # no worker is newer than the control plane
            body["spec"]["template"]["spec"]["version"] = f"v{version}"
        await client.create(kind, body, namespace="default")


@asynccontextmanager
async def inside(client):
    """The API of the cluster, by its kubeconfig."""
    secret = await client.get(SECRET, Key("default", "nested-kubeconfig"))
    transport = from_secret(secret.data["value"])
    try:
        yield Api(transport, SystemClock(), "real")
    finally:
        await transport.close()


async def ready_nodes(client):
    """Whether the three workers are nodes, and ready."""
    machines = await client.list(MACHINE, "default")
    if [each.status.phase for each in machines] != ["Running"] * 3:
        return False
    async with inside(client) as api:
        nodes = (await api.get("/api/v1/nodes")).ok()["items"]
    said = [
        each["status"] for node in nodes for each in node["status"]["conditions"] if each["type"] == "Ready"
    ]
    return said == ["True"] * 3


async def reported(client, since):
    """Whether each kubelet has renewed its Lease since then."""
    async with inside(client) as api:
        leases = (await api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")).ok()[
            "items"
        ]
    return len(leases) == 3 and min(each["spec"]["renewTime"] for each in leases) > since


async def cluster_gone(client):
    kinds = (CLUSTER, MACHINE, NESTED_CONTROL_PLANE, NESTED_ETCD)
    return not [each for kind in kinds for each in await client.list(kind, "default")]
