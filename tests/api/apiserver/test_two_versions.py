"""Cluster API's kinds on a server that serves v1beta2 beside v1beta1, which it stores, and converts in process."""

import json

import pytest

from kubewright.api import catalog
from kubewright.api.bootstrap import manifests as bootstrap
from kubewright.api.cluster import manifests as cluster
from kubewright.api.conversion import ANNOTATION
from kubewright.apiserver.server import ApiServer
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Invalid

MACHINES = "/apis/cluster.x-k8s.io/{}/namespaces/default/machines"
INFRASTRUCTURE = {"apiVersion": "toys.io/v1", "kind": "Toy", "name": "t", "namespace": "default"}


class Server:
    """Requests to a server with both versions of all kinds."""

    def __init__(self):
        clock = LoopClock()
        conversions = catalog.conversions(lambda group, _kind: f"{group}/v1")
        self._server = ApiServer(clock, conversions=conversions)
        self._client = Client(InProcess(self._server.handle), clock)

    async def start(self):
        await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        for crd in (*cluster.crds_of_today(), *bootstrap.crds_of_today()):
            await self.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        return self

    async def send(self, method, path, body=None):
        request = self._client.request(method, path, json.dumps(body).encode() if body is not None else b"")
        return json.loads((await self._client.send(request)).body)


def machine(version, **spec):
    return {
        "apiVersion": f"cluster.x-k8s.io/{version}",
        "kind": "Machine",
        "metadata": {"name": "m", "namespace": "default"},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, **spec},
    }


async def test_each_client_finds_what_the_other_wrote_in_its_own_version():
    server = await Server().start()
    old = machine("v1beta1", nodeDrainTimeout="1m30s", infrastructureRef=INFRASTRUCTURE)
    await server.send("POST", MACHINES.format("v1beta1"), old)
    new = await server.send("GET", MACHINES.format("v1beta2") + "/m")
    assert new["spec"] == {
        "clusterName": "c",
        "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "toys.io", "kind": "Toy", "name": "t"},
        "deletion": {"nodeDrainTimeoutSeconds": 90},
    }
    new["spec"] |= {"minReadySeconds": 7}
    await server.send("PUT", MACHINES.format("v1beta2") + "/m", new)
    seen = await server.send("GET", MACHINES.format("v1beta1") + "/m")
    assert seen["spec"]["nodeDrainTimeout"] == "1m30s"
    assert json.loads(seen["metadata"]["annotations"][ANNOTATION])["spec"]["minReadySeconds"] == 7
    seen["spec"]["nodeDrainTimeout"] = "5m0s"
    await server.send("PUT", MACHINES.format("v1beta1") + "/m", seen)
    [found] = (await server.send("GET", MACHINES.format("v1beta2")))["items"]
    assert found["spec"]["minReadySeconds"] == 7
    assert found["spec"]["deletion"] == {"nodeDrainTimeoutSeconds": 300}


async def test_the_rules_of_v1beta2_are_asked_of_what_is_written_in_it():
    server = await Server().start()
    reference = {"apiGroup": "toys.io", "kind": "Toy", "name": "t"}
    with pytest.raises(Invalid, match=r"spec.readinessGates\[0\].polarity"):
        await server.send(
            "POST",
            MACHINES.format("v1beta2"),
            machine(
                "v1beta2",
                infrastructureRef=reference,
                readinessGates=[{"conditionType": "Good", "polarity": "Sideways"}],
            ),
        )
