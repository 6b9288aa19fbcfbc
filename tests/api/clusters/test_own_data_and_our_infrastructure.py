"""A machine with bootstrap data of the user's own, its VM by our infrastructure, in one embedded process."""

import asyncio
from base64 import b64encode
from typing import Any

from kubewright.api.cluster.v1beta1 import API_VERSION, CLUSTER, MACHINE
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.api.kinds import Kind, dynamic
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options
from kubewright.compose.worlds import every_word
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

NS, DEMO, M = "default", Key("default", "demo"), Key("default", "m")
PLACE = {"host": "10.0.0.1", "port": 6443}
DATA = {"value": b64encode(b"#cloud-config\n{}\n").decode()}


def ref(kind: Kind[Any], name: str) -> dict[str, str]:
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


async def test_core_and_infrastructure_bring_a_machine_up_and_leave_nothing() -> None:
    options = Options(controllers=every_word(Options()))
    async with Embedded(None, options, LoopClock()) as embedded:
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(embedded.serve(stop, ready.set))
        await ready.wait()
        client = embedded.client
        infra, host = dynamic(KUBEWRIGHT_CLUSTER.resource), dynamic(KUBEWRIGHT_MACHINE.resource)
        cluster = {"metadata": {"name": "demo"}, "spec": {"infrastructureRef": ref(infra, "demo")}}
        machine = {
            "clusterName": "demo",
            "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": ref(host, "m"),
        }
        spec = {"controlPlaneEndpoint": PLACE}
        await client.create(infra, {"metadata": {"name": "demo"}, "spec": spec}, namespace=NS)
        await client.create(CLUSTER, cluster, namespace=NS)
        secret = {"metadata": {"name": "data"}, "data": DATA}
        await client.create(dynamic(SECRET.resource), secret, namespace=NS)
        await client.create(host, {"metadata": {"name": "m"}, "spec": {"providerSpec": {}}}, namespace=NS)
        await client.create(MACHINE, {"metadata": {"name": "m"}, "spec": machine}, namespace=NS)
        await asyncio.sleep(30)

        assert (await client.get(CLUSTER, DEMO)).status.phase == "Provisioned"
        found = await client.get(MACHINE, M)
        assert (found.status.phase, found.spec.provider_id) == ("Provisioned", "sim:///sim-1/vm-000001")
        owner = (await client.get(host, M))["metadata"]["ownerReferences"][0]
        assert (owner["apiVersion"], owner["kind"], owner["name"]) == (API_VERSION, "Machine", "m")
        (health,) = [each for each in found.status.conditions if each.type == "NodeHealthy"]
        assert "there is no Secret default/demo-kubeconfig" in health.message

        await client.delete(MACHINE, M)
        await client.delete(CLUSTER, DEMO)
        await asyncio.sleep(60)
        kinds: tuple[Kind[Any], ...] = (MACHINE, CLUSTER, host, infra)
        for kind in kinds:
            assert await client.list(kind, NS) == []
        stop.set()
        await serving
