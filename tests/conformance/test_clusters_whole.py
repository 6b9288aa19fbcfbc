"""A whole cluster on a real kube-apiserver, by the programs of Cluster API and by ours, in each mixture.

One control plane machine and three workers come up, are scaled, rolled and healed, and are deleted; nothing is
left. The infrastructure is ours, on the simulated cloud: its VMs boot from the bootstrap data that they get.
"""

import base64
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.clusters import install, listed, until

from kubewright.api.admission import Rules, defaulted
from kubewright.api.catalog import RULES, crds
from kubewright.base.clock import SystemClock
from kubewright.bootstrap import world as bootstrap
from kubewright.clusters import world as clusters
from kubewright.compose.cluster import run_with
from kubewright.compose.options import Election, Options
from kubewright.compose.planes import Planes
from kubewright.driver import registry
from kubewright.infra import world as infra
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret, load
from kubewright.providers import sim
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import Options as ServerOptions
from kubewright.testing.real_kubernetes import RealKubernetes, capi, find
from kubewright.testing.servers import real_api
from kubewright.testing.world import running
from kubewright.wire.gvk import Resource

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

GROUP = "cluster.x-k8s.io"
CORE = tuple(each.name for each in clusters.CONTROLLERS)
BOOTSTRAP = tuple(each.name for each in bootstrap.CONTROLLERS)
INFRA = tuple(each.name for each in infra.CONTROLLERS)
EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster.yaml"
FLAGS = ("--kube-api-qps=200", "--kube-api-burst=400", "--v=0")
GATES = {
    capi.CORE: "--feature-gates=MachinePool=false,ClusterResourceSet=false",
    capi.BOOTSTRAP: "--feature-gates=MachinePool=false",
}
"""Without the kinds that only their CRDs have."""


@dataclass(frozen=True)
class Mixture:
    """Which parts are ours, by the names of their controllers, and which programs do the rest."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]


MIXTURES = {
    "our core, their bootstrap": Mixture((*CORE, *INFRA), (capi.BOOTSTRAP,)),
    "their core, our bootstrap": Mixture((*BOOTSTRAP, *INFRA), (capi.CORE,)),
    "all ours": Mixture((*CORE, *BOOTSTRAP, *INFRA), ()),
}


@asynccontextmanager
async def managed(mixture: Mixture, folder: Path) -> AsyncIterator[Api]:
    """A real server with our CRDs, on which these programs work."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(RealKubernetes(find(), clock, ServerOptions(fsync=False)))
        api = await stack.enter_async_context(real_api(server))
        await install(api, list(crds("clusters", "bootstrap", "infrastructure")))
        await stack.enter_async_context(our_part(server.kubeconfig, mixture.ours))
        logs = []
        for name in mixture.theirs:
            program = capi.cache_folder() / name
            manager = await capi.start(program, server.kubeconfig, folder, clock, *FLAGS, GATES[name])
            stack.push_async_callback(manager.stop)
            logs.append(manager)
        try:
            yield api
        except AssertionError as error:
            for program in logs:
                error.add_note(program.last_lines())
            raise


@asynccontextmanager
async def our_part(kubeconfig: Path, controllers: tuple[str, ...]) -> AsyncIterator[None]:
    """These controllers of ours, with the simulated cloud and its control planes, in this process."""
    clock = SystemClock()
    options = Options(controllers=controllers, simulate=True)
    planes = Planes(clock, listens=True)
    client = Client(load(kubeconfig, clock=clock), clock, name="real")
    driver = sim.driver(registry.Settings(clock, None, {})).hosting(planes)
    election = Election(enabled=False)
    try:
        async with running(
            lambda stop: run_with(client, client, driver, options, election=election, stop=stop)
        ):
            yield
    finally:
        await planes.close()
        await client.close()


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
async def test_a_cluster_lives(mixture: Mixture, tmp_path: Path) -> None:
    async with managed(mixture, tmp_path) as api:
        await it_comes_up(api)
        async with workload(api) as cluster:
            await it_is_scaled(api, cluster)
            await it_is_rolled(api, cluster)
            await it_is_healed(api, cluster)
        await it_is_deleted(api)


async def it_comes_up(api: Api) -> None:
    for body in example():
        (await api.post(path_of(api, body), body)).ok()
    machines = await workers(api, 3)
    (cluster,) = await listed(api, core(api, "clusters"), lambda items: phase(items[0]) == "Provisioned")
    assert {each["type"]: each["status"] for each in cluster["status"]["conditions"]} == {
        "Ready": "True",
        "InfrastructureReady": "True",
        "ControlPlaneInitialized": "True",
    }
    assert all(each["status"]["nodeRef"]["name"] == each["metadata"]["name"] for each in machines)


async def it_is_scaled(api: Api, cluster: Api) -> None:
    (
        await api.patch(core(api, "machinedeployments", "demo-workers") + "/scale", {"spec": {"replicas": 4}})
    ).ok()
    machines = await workers(api, 4)
    await nodes(cluster, machines)


async def it_is_rolled(api: Api, cluster: Api) -> None:
    old = {each["metadata"]["uid"] for each in await workers(api, 4)}
    template = {"spec": {"template": {"spec": {"version": "v1.35.0"}}}}
    (await api.patch(core(api, "machinedeployments", "demo-workers"), template)).ok()
    machines = await workers(api, 4, lambda each: each["metadata"]["uid"] not in old)
    assert {each["spec"]["version"] for each in machines} == {"v1.35.0"}
    await nodes(cluster, machines)


async def it_is_healed(api: Api, cluster: Api) -> None:
    (await api.post(core(api, "machinehealthchecks"), HEALTH_CHECK)).ok()
    sick = (await workers(api, 4))[0]["metadata"]
    annotation = {"metadata": {"annotations": {f"{GROUP}/remediate-machine": ""}}}
    (await api.patch(core(api, "machines", sick["name"]), annotation)).ok()
    machines = await workers(api, 4, lambda each: each["metadata"]["uid"] != sick["uid"])
    await nodes(cluster, machines)


async def it_is_deleted(api: Api) -> None:
    (await api.delete(core(api, "clusters", "demo"))).ok()
    await api.gone(core(api, "clusters", "demo"), seconds=90)
    for each in RULES:
        await listed(api, at(api, each.kind.resource), lambda items: not items)


async def workers(
    api: Api, count: int, right: Callable[[dict[str, Any]], bool] = lambda _each: True
) -> list[dict[str, Any]]:
    """The machines of the deployment, once there are so many, all of them right and running."""
    deployment = core(api, "machinedeployments", "demo-workers")
    await until(api, deployment, lambda it: it.get("status", {}).get("readyReplicas") == count)
    return await listed(
        api,
        core(api, "machines"),
        lambda items: len(items) == count and all(phase(each) == "Running" and right(each) for each in items),
        labels=f"{GROUP}/deployment-name=demo-workers",
    )


async def nodes(cluster: Api, machines: list[dict[str, Any]]) -> None:
    """Wait until the cluster has the nodes of these machines and of its control plane, and no others."""
    wanted = {"demo-control-plane", *(each["metadata"]["name"] for each in machines)}
    await listed(
        cluster, "/api/v1/nodes", lambda items: {each["metadata"]["name"] for each in items} == wanted
    )


@asynccontextmanager
async def workload(api: Api) -> AsyncIterator[Api]:
    """The cluster itself, by the kubeconfig that its users get."""
    secret = (await api.get(api.at("secrets", "demo-kubeconfig"))).ok()
    transport = from_secret(base64.b64decode(secret["data"]["value"]))
    try:
        yield Api(transport, SystemClock(), "embedded")
    finally:
        await transport.close()


HEALTH_CHECK = {
    "apiVersion": f"{GROUP}/v1beta1",
    "kind": "MachineHealthCheck",
    "metadata": {"name": "demo-workers"},
    "spec": {
        "clusterName": "demo",
        "maxUnhealthy": "100%",
        "nodeStartupTimeout": "10m0s",
        "selector": {"matchLabels": {f"{GROUP}/deployment-name": "demo-workers"}},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}],
    },
}


def example() -> Iterable[dict[str, Any]]:
    """The objects of the example, with the defaults that admission gives them."""
    for body in filter(None, yaml.safe_load_all(EXAMPLE.read_text())):
        yield defaulted(rules_of(body), body, None)


def path_of(api: Api, body: dict[str, Any]) -> str:
    return at(api, rules_of(body).kind.resource)


def rules_of(body: dict[str, Any]) -> Rules[Any]:
    """The admission of an object's kind."""
    wanted = (body["apiVersion"], body["kind"])
    return next(each for each in RULES if (each.kind.resource.api_version, each.kind.resource.kind) == wanted)


def at(api: Api, resource: Resource) -> str:
    return api.at(resource.plural, group=resource.group, version=resource.version)


def core(api: Api, plural: str, name: str = "") -> str:
    return api.at(plural, name, group=GROUP, version="v1beta1")


def phase(item: dict[str, Any]) -> str:
    return str(item.get("status", {}).get("phase", ""))
