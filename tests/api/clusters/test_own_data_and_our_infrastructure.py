"""A machine with bootstrap data of the user's own, its VM by our infrastructure, in one embedded process."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubewright.api.cluster.v1beta1 import API_VERSION, CLUSTER, MACHINE
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.api.kinds import Kind, dynamic
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options
from kubewright.compose.worlds import every_word
from kubewright.kube.client import Client
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

NS, DEMO, M = "default", Key("default", "demo"), Key("default", "m")
PLACE = {"host": "10.0.0.1", "port": 6443}
DATA = {"value": b64encode(b"#cloud-config\n{}\n").decode()}


def ref(kind: Kind[Any], name: str) -> dict[str, str]:
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


INFRA, HOST = dynamic(KUBEWRIGHT_CLUSTER.resource), dynamic(KUBEWRIGHT_MACHINE.resource)


@asynccontextmanager
async def embedded_cluster() -> AsyncIterator[Client]:
    """All controllers, and a Cluster with our infrastructure."""
    async with Embedded(None, Options(controllers=every_word(Options())), LoopClock()) as embedded:
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(embedded.serve(stop, ready.set))
        await ready.wait()
        client = embedded.client
        spec = {"controlPlaneEndpoint": PLACE}
        await client.create(INFRA, {"metadata": {"name": "demo"}, "spec": spec}, namespace=NS)
        cluster = {"metadata": {"name": "demo"}, "spec": {"infrastructureRef": ref(INFRA, "demo")}}
        await client.create(CLUSTER, cluster, namespace=NS)
        yield client
        stop.set()
        await serving


async def create_machine(client: Client, name: str, bootstrap: dict[str, str]) -> None:
    spec = {"clusterName": "demo", "bootstrap": bootstrap, "infrastructureRef": ref(HOST, name)}
    await client.create(HOST, {"metadata": {"name": name}, "spec": {"providerSpec": {}}}, namespace=NS)
    await client.create(MACHINE, {"metadata": {"name": name}, "spec": spec}, namespace=NS)


async def test_core_and_infrastructure_bring_a_machine_up_and_leave_nothing() -> None:
    async with embedded_cluster() as client:
        secret = {"metadata": {"name": "data"}, "data": DATA}
        await client.create(dynamic(SECRET.resource), secret, namespace=NS)
        await create_machine(client, "m", {"dataSecretName": "data"})
        await asyncio.sleep(30)

        assert (await client.get(CLUSTER, DEMO)).status.phase == "Provisioned"
        found = await client.get(MACHINE, M)
        assert (found.status.phase, found.spec.provider_id) == ("Provisioned", "sim:///sim-1/vm-000001")
        owner = (await client.get(HOST, M))["metadata"]["ownerReferences"][0]
        assert (owner["apiVersion"], owner["kind"], owner["name"]) == (API_VERSION, "Machine", "m")
        (health,) = [each for each in found.status.conditions if each.type == "NodeHealthy"]
        assert "there is no Secret default/demo-kubeconfig" in health.message

        await client.delete(MACHINE, M)
        await client.delete(CLUSTER, DEMO)
        await asyncio.sleep(60)
        kinds: tuple[Kind[Any], ...] = (MACHINE, CLUSTER, HOST, INFRA)
        for kind in kinds:
            assert await client.list(kind, NS) == []


async def test_a_machine_with_nothing_to_bootstrap_gets_its_vm_however_that_is_spelled() -> None:
    async with embedded_cluster() as client:
        secret = {"metadata": {"name": "empty"}, "data": {"value": ""}}
        await client.create(dynamic(SECRET.resource), secret, namespace=NS)
        spellings = {
            "by-data": {"data": ""},
            "by-name": {"dataSecretName": ""},
            "by-secret": {"dataSecretName": "empty"},
        }
        for name, bootstrap in spellings.items():
            await create_machine(client, name, bootstrap)
        await asyncio.sleep(30)

        found = await client.list(MACHINE, NS)
        assert {each.name: each.status.phase for each in found} == dict.fromkeys(spellings, "Provisioned")
        named = {each.name: each.spec.bootstrap.data_secret_name for each in found}
        assert named == {
            "by-data": "by-data-bootstrap-data",
            "by-name": "by-name-bootstrap-data",
            "by-secret": "empty",
        }
        for secret_name in named.values():
            assert (await client.get(SECRET, Key(NS, secret_name or ""))).data["value"] == b""
