"""The webhooks of ``machine.sapcloud.io`` with a real kube-apiserver: when it asks, what it refuses, what it spares."""

from typing import Any

import pytest
from tests.conformance.clusters import install, our_part, simulated_cloud
from tests.conformance.test_webhooks import at_a_free_port

from kubewright.api.catalog import crds
from kubewright.base.clock import SystemClock
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.servers import real_api

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

HOME = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default"
LABELS = {"pool": "a"}
INCOMPLETE = {"instanceType": "t", "region": "r", "zone": "z", "capacity": {"cpu": "1", "gpu": "0"}}


def made(kind: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind, "metadata": {"name": "o"}, **more}


def deployment(class_kind: str, **labels: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": labels or LABELS},
        "spec": {"class": {"kind": class_kind, "name": "old"}},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": LABELS}, "paused": True, "template": template}
    return made("MachineDeployment", spec=spec)


async def test_a_real_server_refuses_what_is_broken_anew_and_spares_what_was_stored() -> None:
    options = Options(fsync=False)
    async with RealKubernetes(find(), SystemClock(), options) as real, real_api(real) as api:
        await install(api, list(crds("machines")))
        (await api.post(f"{HOME}/machinedeployments", deployment("GCPMachineClass"))).ok()
        fine = made("MachineClass", providerSpec={"a": 1})
        (await api.post(f"{HOME}/machineclasses", fine)).ok()
        async with (
            simulated_cloud() as (cloud, _),
            our_part(real.kubeconfig, ("machines",), cloud, webhooks=at_a_free_port()),
        ):

            async def refused() -> bool:
                body = deployment("MachineClass", other="label")
                body["metadata"] = {"name": "another"}
                return (await api.post(f"{HOME}/machinedeployments", body, dryRun="All")).code == 422

            await api.eventually(refused, "the webhooks are asked", seconds=30)
            stored = f"{HOME}/machinedeployments/o"
            (await api.patch(stored, {"spec": {"minReadySeconds": 5}})).ok()
            (await api.patch(f"{stored}/scale", {"spec": {"replicas": 1}})).ok()
            (await api.patch(stored, {"spec": {"replicas": 0}})).ok()
            anew = {"spec": {"template": {"spec": {"class": {"name": "other"}}}}}
            told = await api.patch(stored, anew)
            assert told.code == 422
            assert "no driver here migrates others" in told.message
            to_sim = {"spec": {"template": {"spec": {"class": {"kind": "SimMachineClass"}}}}}
            (await api.patch(stored, to_sim)).ok()
            of_class = f"{HOME}/machineclasses/o"
            wrong = await api.patch(of_class, {"nodeTemplate": INCOMPLETE})
            assert (wrong.code, [path for _, path, _ in wrong.causes]) == (422, ["nodeTemplate.capacity"])
            (await api.patch(of_class, {"providerSpec": {"a": 2}})).ok()
            (await api.delete(stored)).ok()
