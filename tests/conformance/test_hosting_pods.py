"""Real programs in pods: a control plane from our own templates, by the host alone and by our controllers.

Without controllers the test makes the certificates and applies the three workloads in order. The programs run
as a kubelet's double starts them, and find each other by the names that pods and Services have.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.clusters import install
from tests.conformance.hosts import Cluster, cluster
from tests.conformance.nested_planes import ETCD, MANAGER, SERVER, FourObjects, Plane, until

from kubewright.api.apps import STATEFUL_SET
from kubewright.api.cluster.manifests import crds as cluster_crds
from kubewright.api.controlplane.manifests import crds
from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NESTED_CONTROL_PLANE
from kubewright.api.core import CONFIG_MAP, POD, SECRET
from kubewright.api.kinds import dynamic
from kubewright.base.clock import SystemClock
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.controlplanes.hosting.pods.objects import SERVICE
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.kube.scope import Namespaces
from kubewright.testing.api import Api
from kubewright.testing.kubelets.hosts import may_mount
from kubewright.testing.real_kubernetes import RealKubernetes, find
from kubewright.testing.servers import embedded_api, real_api
from kubewright.testing.world import running
from kubewright.wire.gvk import Key

pytestmark = [
    pytest.mark.kube,
    pytest.mark.looptime(False),
    pytest.mark.timeout(180),
    pytest.mark.skipif(not may_mount(), reason="names of pods need a mount namespace, and that needs root"),
]
READY_SECONDS = 90.0


def programs() -> dict[str, str]:
    """The real programs, by the names that templates give them."""
    found = find()
    paths = {
        "etcd": found.etcd,
        "kube-apiserver": found.apiserver,
        "kube-controller-manager": found.controller_manager,
    }
    return {name: str(path) for name, path in paths.items()}


async def address_of(on: Cluster, name: str) -> str:
    pod = await on.client.get(dynamic(POD.resource), Key(on.namespace, name))
    return str(pod["status"]["podIP"])


@asynccontextmanager
async def controllers(on: Cluster, api: Api, **changes: Any) -> AsyncIterator[None]:
    """Those of control planes, in the namespace of a double of a kubelet. ``changes``: of their options."""
    await install(api, [*cluster_crds(), *crds()])
    within = Namespaces.parsed(on.namespace)
    options = replace(Options(), controllers=("controlplanes",), namespaces=within, **changes)

    async def serve(stop: asyncio.Event) -> None:
        await run_with(on.client, on.client, None, options, election=Election(enabled=False), stop=stop)

    async with running(serve):
        yield


async def test_a_control_plane_starts_in_order_works_and_stops_in_order(tmp_path: Path) -> None:
    async with (
        embedded_api() as api,
        cluster(
            partial(Client, api.transport, api.clock), tmp_path, manager=True, names=True, programs=programs()
        ) as on,
        on.open() as hosting,
    ):
        places = {each: await on.identity(CONFIG_MAP, f"my-{each}", each) for each in (ETCD, SERVER, MANAGER)}
        plane, told = Plane(hosting, SystemClock(), places.__getitem__), asyncio.Event()
        hosting.listen(lambda _key: told.set())
        for name, contents in plane.contents.items():
            await on.put(on.namespace, name, contents)

        async def status(component, says):
            async with asyncio.timeout(READY_SECONDS):
                while not says(found := hosting.status(places[component])):
                    told.clear()
                    await told.wait()
            return found

        for component in (ETCD, SERVER, MANAGER):
            workload = plane.workload(component)
            assert hosting.problem_of(workload) == ""
            await hosting.apply(workload)
            found = await status(component, lambda each: each.instances and each.instances[0].ready)
            assert found.instances[0].restarts == 0

        async with plane.api(await address_of(on, "demo-apiserver-0")) as inside:

            async def account():
                answer = await inside.get("/api/v1/namespaces/default/serviceaccounts/default")
                return answer.code == 200

            await inside.eventually(account, "the controller manager works", seconds=60)

        for component in (MANAGER, SERVER, ETCD):
            await hosting.remove(places[component], keep_data=False)
            await status(component, lambda each: not each.exists)


async def test_four_objects_become_a_control_plane_in_pods_and_go_with_it(
    tmp_path: Path, real_kubernetes: RealKubernetes
) -> None:
    async with (
        real_api(real_kubernetes) as api,
        cluster(
            partial(Client, api.transport, api.clock),
            tmp_path,
            manager=False,
            names=True,
            programs=programs(),
        ) as on,
    ):
        four = FourObjects(on.client, on.namespace, "1.36")
        async with controllers(on, api):
            await four.create()
            await until(four.ready, api.clock)
            for each in await on.client.list(dynamic(STATEFUL_SET.resource), on.namespace):
                assert each["metadata"]["generation"] == 1, f"{each['metadata']['name']} was changed"
            secret = await on.client.get(SECRET, Key(on.namespace, "demo-kubeconfig"))
            found = yaml.safe_load(secret.data["value"])
            server, name = found["clusters"][0]["cluster"], f"demo-apiserver.{on.namespace}.svc"
            assert server["server"] == f"https://{name}:6443"
            server["server"] = f"https://{await address_of(on, 'demo-apiserver-0')}:6443"
            server["tls-server-name"] = name
            transport = from_secret(yaml.safe_dump(found).encode())
            (await Api(transport, api.clock, "real").get("/api/v1/namespaces/default")).ok()
            await transport.close()
            await moves_behind_a_load_balancer(on, api)
            await on.client.delete(NESTED_CONTROL_PLANE, Key(on.namespace, "demo"))
            await until(four.gone, api.clock)


async def moves_behind_a_load_balancer(on: Cluster, api: Api) -> None:
    """A user gives the Service a load balancer; kubeconfig and control plane follow once that has an address."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "demo-apiserver"}}
    patches = [{**service, "spec": {"type": "LoadBalancer"}}]
    await on.client.patch(
        NESTED_API_SERVER, Key(on.namespace, "demo-apiserver"), {"spec": {"patches": patches}}
    )
    key = Key(on.namespace, "demo-apiserver")

    async def has_one() -> bool:
        return (await on.client.get(SERVICE, key))["spec"]["type"] == "LoadBalancer"

    await until(has_one, api.clock)
    answer = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}
    await on.client.patch(SERVICE, key, answer, subresource="status")

    async def followed() -> bool:
        secret = await on.client.get(SECRET, Key(on.namespace, "demo-kubeconfig"))
        plane = await on.client.get(NESTED_CONTROL_PLANE, Key(on.namespace, "demo"))
        there = "192.0.2.7:6443"
        return f"https://{there}".encode() in secret.data["value"] and there == str(
            plane.spec.control_plane_endpoint
        )

    await until(followed, api.clock)
