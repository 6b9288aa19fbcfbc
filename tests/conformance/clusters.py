"""What the tests of clusters on a real kube-apiserver share: kinds that are served, objects that are waited for,
the cluster of the example, and our controllers on the simulated cloud."""

import base64
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from kubewright.api.admission import Rules, defaulted
from kubewright.api.catalog import DEFINITIONS, RULES
from kubewright.base.clock import SystemClock
from kubewright.bootstrap import world as bootstrap
from kubewright.clusters import world as clusters
from kubewright.compose.api_servers import Planes
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.driver import registry
from kubewright.driver.contract import Driver
from kubewright.infra import world as infra
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret, load
from kubewright.providers import sim
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes.capi import answers
from kubewright.testing.real_kubernetes.cluster import Program, free_ports
from kubewright.testing.world import running
from kubewright.wire.gvk import Resource

GROUP = "cluster.x-k8s.io"
CORE = tuple(each.name for each in clusters.CONTROLLERS)
BOOTSTRAP = tuple(each.name for each in bootstrap.CONTROLLERS)
INFRA = tuple(each.name for each in infra.CONTROLLERS)
EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster.yaml"
APIS = ("clusters", "bootstrap", "infrastructure")
"""The APIs of ours whose CRDs these suites install."""
INSTALLED = [each for each in RULES if any(each.kind == it.kind for api in APIS for it in DEFINITIONS[api])]
"""The rules of their kinds."""
START_SECONDS = 60.0
WAIT_SECONDS = 120.0
"""The Go programs wait for 30 s and for 60 s where no event wakes them."""


async def install(api: Api, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Create CRDs that are not there, and wait until discovery names their kinds.

    A Go manager asks it once, when it starts.
    """
    wanted = {each["metadata"]["name"] for each in definitions}
    served_as = {(each["spec"]["group"], each["spec"]["versions"][0]["name"]) for each in definitions}
    for each in definitions:
        made = await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        assert made.code in (201, 409), made.message

    async def served() -> bool:
        found = set()
        for group, version in served_as:
            answer = await api.get(f"/apis/{group}/{version}")
            resources = answer.body["resources"] if answer.code == 200 else []
            found |= {f"{each['name']}.{group}" for each in resources}
        return wanted <= found

    await api.eventually(served, "the kinds are served")


async def until(api: Api, path: str, met: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The object at ``path``, once it is as it should be."""

    async def look() -> Any:
        answer = await api.get(path)
        return answer.body if answer.code == 200 and met(answer.body) else None

    return dict(await api.eventually(look, f"{path} is as it should be", seconds=WAIT_SECONDS))


async def listed(
    api: Api, path: str, met: Callable[[list[dict[str, Any]]], bool], *, labels: str = ""
) -> list[dict[str, Any]]:
    """The objects at ``path`` with these labels, once they are as they should be."""
    found: list[dict[str, Any]] = []

    async def look() -> bool:
        nonlocal found
        answer = await api.get(path, labelSelector=labels)
        if answer.code == 429:  # a kind that was never read yet
            return False
        found = answer.ok()["items"]
        return met(found)

    await api.eventually(look, f"the objects at {path} are as they should be", seconds=WAIT_SECONDS)
    return found


@asynccontextmanager
async def simulated_cloud() -> AsyncIterator[tuple[SimDriver, Planes]]:
    """A cloud whose VMs boot from their data, in this process, and the control planes that they start: for
    tests that look into them. All others start ``the_command``."""
    clock = SystemClock()
    planes = Planes(clock, listens=True)
    try:
        yield sim.driver(registry.Settings(clock, None, {})).hosting(planes), planes
    finally:
        await planes.close()


@asynccontextmanager
async def the_command(kubeconfig: Path, folder: Path, controllers: str, *more: str) -> AsyncIterator[Program]:
    """``kubewright run`` as a user starts it, with the simulated cloud; its log is in ``folder``."""
    (health,) = free_ports(1)
    switches = ("--driver=sim", "--allow-simulated-nodes", f"--health-port={health}", *more)
    words = ("run", f"--kubeconfig={kubeconfig}", f"--controllers={controllers}", *switches)
    program = Program(
        [sys.executable, "-m", "kubewright", *words], folder / "kubewright-run.log", SystemClock()
    )
    try:
        await program.wait_until(lambda: answers(f"http://127.0.0.1:{health}/readyz"), START_SECONDS)
        yield program
    finally:
        await program.stop()


@asynccontextmanager
async def our_part(
    kubeconfig: Path, controllers: tuple[str, ...], driver: Driver, **choices: Any
) -> AsyncIterator[None]:
    """These controllers of ours, in this process; the end of them closes the driver. ``choices`` of Options."""
    clock = SystemClock()
    options = Options(controllers=controllers, simulate=True, **choices)
    client = Client(load(kubeconfig, clock=clock), clock, name="real")
    election = Election(enabled=False)
    try:
        async with running(
            lambda stop: run_with(client, client, driver, options, election=election, stop=stop)
        ):
            yield
    finally:
        await client.close()


async def it_is_scaled(api: Api, cluster: Api) -> None:
    """From three workers to four."""
    (
        await api.patch(core(api, "machinedeployments", "blue-workers") + "/scale", {"spec": {"replicas": 4}})
    ).ok()
    machines = await workers(api, 4)
    await nodes(cluster, machines)


async def it_is_rolled(api: Api, cluster: Api) -> None:
    """All four workers are replaced."""
    old = {each["metadata"]["uid"] for each in await workers(api, 4)}
    template = {"spec": {"template": {"spec": {"version": "v1.35.0"}}}}
    (await api.patch(core(api, "machinedeployments", "blue-workers"), template)).ok()
    machines = await workers(api, 4, lambda each: each["metadata"]["uid"] not in old)
    assert {each["spec"]["version"] for each in machines} == {"v1.35.0"}
    await nodes(cluster, machines)


async def it_is_deleted(api: Api) -> None:
    """Nothing of ours is left."""
    (await api.delete(core(api, "clusters", "blue"))).ok()
    await api.gone(core(api, "clusters", "blue"), seconds=90)
    for each in INSTALLED:
        await listed(api, at(api, each.kind.resource), lambda items: not items)


async def workers(
    api: Api, count: int, right: Callable[[dict[str, Any]], bool] = lambda _each: True
) -> list[dict[str, Any]]:
    """The machines of the deployment, once there are so many, all of them right and running."""
    deployment = core(api, "machinedeployments", "blue-workers")
    await until(api, deployment, lambda it: it.get("status", {}).get("readyReplicas") == count)
    return await listed(
        api,
        core(api, "machines"),
        lambda items: len(items) == count and all(phase(each) == "Running" and right(each) for each in items),
        labels=f"{GROUP}/deployment-name=blue-workers",
    )


async def nodes(cluster: Api, machines: list[dict[str, Any]]) -> None:
    """Wait until the cluster has the nodes of these machines and of its control plane, and no others."""
    wanted = {"blue-control-plane", *(each["metadata"]["name"] for each in machines)}
    await listed(
        cluster, "/api/v1/nodes", lambda items: {each["metadata"]["name"] for each in items} == wanted
    )


@asynccontextmanager
async def workload(api: Api) -> AsyncIterator[Api]:
    """The cluster itself, by the kubeconfig that its users get."""
    secret = (await api.get(api.at("secrets", "blue-kubeconfig"))).ok()
    transport = from_secret(base64.b64decode(secret["data"]["value"]))
    try:
        yield Api(transport, SystemClock(), "embedded")
    finally:
        await transport.close()


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
