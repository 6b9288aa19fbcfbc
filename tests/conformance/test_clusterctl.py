"""clusterctl v1.7.1 on a cluster that is all ours: it shows the cluster, and moves it to another server.

Two real API servers with our controllers, which work all the time, and one simulated cloud. The move touches
no VM and makes no certificate anew; afterwards the cluster is scaled, rolled and deleted where it is now.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.clusters import (
    BOOTSTRAP,
    CORE,
    INFRA,
    INSTALLED,
    at,
    core,
    example,
    install,
    it_is_deleted,
    it_is_rolled,
    it_is_scaled,
    listed,
    our_part,
    path_of,
    simulated_cloud,
    until,
    workers,
    workload,
)

from kubewright.api.catalog import crds
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.api.infra.v1beta1 import GROUP as INFRASTRUCTURE
from kubewright.base.clock import SystemClock
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.driver.contract import Driver
from kubewright.kube.transport import InProcess
from kubewright.pki.keys import Algorithm
from kubewright.providers.sim.cloud import Cloud
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import Options as ServerOptions
from kubewright.testing.real_kubernetes import RealKubernetes, capi, find
from kubewright.testing.servers import real_api

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

INVENTORY = Path(__file__).parents[2] / "deploy" / "clusters" / "providers.yaml"
CREDENTIALS = {
    "metadata": {"name": "cloud", "labels": {"clusterctl.cluster.x-k8s.io/move": ""}},
    "stringData": {"token": "sesame"},
}
"""The label is the user's: clusterctl moves what belongs to a cluster, and a Secret may serve several."""
SECONDS = 60.0
READY = 16
"""Objects that say so: a cluster, a deployment, a set; and of each of the four machines the Machine, its
KubeadmConfig and its KubewrightMachine; and the KubewrightCluster."""
AGE = re.compile(r"\d+[smhd](\d+[smhd])?")
SERVERS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""What of the metadata a server writes."""


class Lent:
    """A driver's verbs for a second manager: the loops and the end of the driver are the first one's."""

    def __init__(self, driver: Driver) -> None:
        verbs = ("create", "initialize", "delete", "status", "list", "volume_ids")
        for verb in (*verbs, "endpoint", "release", "size"):
            setattr(self, verb, getattr(driver, verb))


@dataclass(frozen=True)
class Management:
    """A management cluster, and how clusterctl reaches it."""

    api: Api
    kubeconfig: Path

    @property
    def flag(self) -> str:
        return f"--kubeconfig={self.kubeconfig}"


@asynccontextmanager
async def management(driver: Driver) -> AsyncIterator[Management]:
    """A real server with all our CRDs, controllers and the inventory that ``deploy`` has."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            RealKubernetes(find(), SystemClock(), ServerOptions(fsync=False))
        )
        api = await stack.enter_async_context(real_api(server))
        await install(api, list(crds("clusters", "bootstrap", "infrastructure", "clusterctl")))
        for provider in yaml.safe_load_all(INVENTORY.read_text()):
            path = api.at("providers", group="clusterctl.cluster.x-k8s.io", version="v1alpha3")
            provider["metadata"]["namespace"] = api.namespace
            (await api.post(path, provider)).ok()
        await stack.enter_async_context(our_part(server.kubeconfig, (*CORE, *BOOTSTRAP, *INFRA), driver))
        yield Management(api, server.kubeconfig)


async def clusterctl(folder: Path, *words: str) -> str:
    """What the program says; an assertion that it succeeded. It finds no settings, and asks for no newer release."""
    quiet = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "CLUSTERCTL_DISABLE_VERSIONCHECK": "true"}
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(
        capi.find().clusterctl, *words, env={**os.environ, **quiet}, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(SECONDS):
        said, complained = await program.communicate()
    assert program.returncode == 0, complained.decode()
    return said.decode()


async def test_clusterctl_shows_a_cluster_of_up_and_saves_it(tmp_path: Path) -> None:
    """``kubewright up`` has the kinds that clusterctl looks for."""
    options = Options(controllers=every_word(Options()), bootstrap=BootstrapSettings(algorithm=Algorithm.EC))
    stop, saved = asyncio.Event(), tmp_path / "saved"
    saved.mkdir()
    async with (
        Embedded(ServerConfig(tmp_path / "data"), options, SystemClock()) as up,
        asyncio.TaskGroup() as group,
    ):
        serving = group.create_task(up.serve(stop))
        api = Api(InProcess(up.server.handle), SystemClock(), "embedded")
        for body in example():
            (await api.post(path_of(api, body), body)).ok()
        await listed(
            api, core(api, "machines"), lambda found: [running(each) for each in found].count(True) == 4
        )
        flag = f"--kubeconfig={up.kubeconfig}"
        shown = await clusterctl(tmp_path, "describe", "cluster", "blue", flag)
        assert "MachineDeployment/blue-workers" in shown
        await clusterctl(tmp_path, "move", "--to-directory", str(saved), flag)
        assert any(each.name.startswith("Cluster_") for each in saved.iterdir())
        stop.set()
        await serving


def running(machine: Mapping[str, Any]) -> bool:
    return machine.get("status", {}).get("phase") == "Running"


async def test_clusterctl_shows_a_cluster_and_moves_it(tmp_path: Path) -> None:
    async with (
        simulated_cloud() as (driver, planes),
        management(driver) as source,
        management(Lent(driver)) as target,
    ):
        await it_comes_up(source.api)
        await it_is_described(source, tmp_path)
        await no_pool_is_made(source.api)
        await cluster_api_reads_it(source.api)
        await it_is_moved(source, target, driver.cloud, tmp_path)
        endpoint = (await target.api.get(core(target.api, "clusters", "blue"))).ok()["spec"][
            "controlPlaneEndpoint"
        ]
        async with workload(target.api) as cluster:
            await it_is_scaled(target.api, cluster)
            await it_is_rolled(target.api, cluster)
        await it_is_deleted(target.api)
        (kept,) = await listed(target.api, target.api.at("secrets"), lambda items: len(items) == 1)
        assert (kept["metadata"]["name"], driver.cloud.vms) == ("cloud", {})
        assert not planes.is_ours(f"{endpoint['host']}:{endpoint['port']}")


async def it_comes_up(api: Api) -> None:
    """The example, with credentials."""
    (await api.post(api.at("secrets"), CREDENTIALS)).ok()
    for body in example():
        if body["kind"] == "KubewrightCluster":
            body["spec"]["credentialsRef"] = {"name": "cloud"}
        (await api.post(path_of(api, body), body)).ok()
    await workers(api, 3)
    await until(api, core(api, "machinedeployments", "blue-workers"), is_ready)


def is_ready(found: Mapping[str, Any]) -> bool:
    """The condition that sums up the others, which a deployment writes after its machines' last one."""
    conditions = found.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


async def it_is_described(where: Management, folder: Path) -> None:
    """Well, and with machines that cannot get a VM: each object is in the tree, equals are one line."""
    described = ("describe", "cluster", "blue", where.flag)
    assert shown(await clusterctl(folder, *described)) == [
        "Cluster/blue True",
        "ClusterInfrastructure - KubewrightCluster/blue True",
        "Workers",
        "MachineDeployment/blue-workers True",
        "3 Machines... True",
        "Other",
        "Machine/blue-control-plane True",
    ]
    await odd(where.api)
    tree = shown(await clusterctl(folder, *described))
    assert "2 Machines... False Error InvalidConfiguration" in tree
    assert [each.split()[:3] for each in tree if "MachineDeployment/odd" in each] == [
        ["MachineDeployment/odd", "False", "Error"]
    ]
    everything = shown(
        await clusterctl(folder, *described, "--show-conditions=all", "--echo", "--grouping=false")
    )
    assert sum(each.startswith("BootstrapConfig - KubeadmConfig/") for each in everything) == 6
    assert sum(each.startswith("MachineInfrastructure - KubewrightMachine/") for each in everything) == 6
    assert {"EndpointReady True", "VMReady True", "DataSecretAvailable True"} <= set(everything)
    assert everything.count("VMReady False Error InvalidConfiguration") == 2
    (await where.api.delete(core(where.api, "machinedeployments", "odd"))).ok()
    await listed(where.api, core(where.api, "machines"), lambda items: len(items) == 4)
    await listed(
        where.api, where.api.at("secrets"), lambda items: not any(named(each, "odd") for each in items)
    )


async def odd(api: Api) -> None:
    """Two more machines, of a driver that does not run."""
    for body in example():
        if body["kind"] not in ("MachineDeployment", "KubewrightMachineTemplate"):
            continue
        text = json.dumps(body).replace("blue-workers", "odd")
        again = json.loads(text)
        if body["kind"] == "MachineDeployment":
            again["spec"]["replicas"] = 2
            configs = again["spec"]["template"]["spec"]["bootstrap"]["configRef"]
            configs["name"] = "blue-workers"
        else:
            again["spec"]["template"]["spec"] = {"driver": "nowhere"}
        (await api.post(path_of(api, again), again)).ok()
    await listed(
        api,
        core(api, "machines"),
        lambda items: sum(conditions(each).get("Ready") == "InvalidConfiguration" for each in items) == 2,
    )
    await until(
        api,
        core(api, "machinedeployments", "odd"),
        lambda it: conditions(it).get("Ready", "").startswith("InvalidConfiguration"),
    )


async def no_pool_is_made(api: Api) -> None:
    """The kind is there for clusterctl to list; the server says what to use instead."""
    pool = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachinePool", "metadata": {"name": "pool"}}
    refused = await api.post(core(api, "machinepools"), pool)
    assert (refused.code, "Use a MachineDeployment" in refused.message) == (422, True)


async def cluster_api_reads_it(api: Api) -> None:
    """Its own types read what we have written, and know every field; all but our own kinds of infrastructure."""
    objects = []
    for each in (*(rules.kind.resource for rules in INSTALLED), SECRET.resource, CONFIG_MAP.resource):
        if each.group != INFRASTRUCTURE:
            path = api.at(each.plural, group=each.group, version=each.version)
            named = {"apiVersion": each.api_version, "kind": each.kind}
            objects += [{**named, **found} for found in await listed(api, path, lambda _items: True)]
    assert len(objects) > READY
    assert capi.misread(objects) == ""
    (odd,) = (each for each in objects if each["kind"] == "Cluster")
    assert 'unknown field "spec.colour"' in capi.misread([{**odd, "spec": {**odd["spec"], "colour": "red"}}])


async def it_is_moved(source: Management, target: Management, cloud: Cloud, folder: Path) -> None:
    """Everything goes, as it was, and the status is made again."""
    before, vms = await settled(source.api), dict(cloud.vms)
    await clusterctl(folder, "move", source.flag, f"--to-kubeconfig={target.kubeconfig}")
    assert await everything(source.api) == {}
    assert await settled(target.api) == before
    assert dict(cloud.vms) == vms


async def settled(api: Api) -> Mapping[str, Any]:
    """All objects, once each of them is ready."""
    found: Mapping[str, Any] = {}

    async def look() -> bool:
        nonlocal found
        found = await everything(api)
        ready = [conditions(each)["Ready"] for each in found.values() if "Ready" in conditions(each)]
        told = found.get("kubewrightmachinetemplates/blue-workers", {}).get("status")
        refused = conditions(found.get("kubewrightmachinetemplates/odd", {})).get("Accepted")
        return len(ready) == READY and set(ready) == {"True"} and bool(told) and bool(refused)

    await api.eventually(look, "all of it is ready", seconds=SECONDS)
    return found


async def everything(api: Api) -> Mapping[str, Any]:
    """All objects of clusters by kind and name, with what users and controllers have written into them."""
    paths = [at(api, each.kind.resource) for each in INSTALLED] + [api.at("secrets"), api.at("configmaps")]
    found = {}
    for path in paths:
        for each in await listed(api, path, lambda _items: True):
            if (name := each["metadata"]["name"]) != "kube-root-ca.crt":
                found[f"{path.rpartition('/')[2]}/{name}"] = lasting(each)
    return found


def lasting(found: dict[str, Any]) -> dict[str, Any]:
    """An object without what a server writes, and without times. Where the data is there already no controller
    looks for the certificates that it was made from, ours or Cluster API's."""
    meta = {key: value for key, value in found["metadata"].items() if key not in SERVERS}
    owners = [{**each, "uid": ""} for each in meta.pop("ownerReferences", ())]
    meta["owners"] = sorted(owners, key=lambda each: (each["kind"], each["name"]))
    status = dict(found.get("status", {}))
    for dated in ("observedGeneration", "lastUpdated"):
        status.pop(dated, None)
    given = [{**each, "lastTransitionTime": ""} for each in status.pop("conditions", ())]
    given = [each for each in given if each["type"] != "CertificatesAvailable"]
    if given:
        status["conditions"] = sorted(given, key=lambda each: each["type"])
    return {**found, "metadata": meta, **({"status": status} if status else {})}


def conditions(found: Mapping[str, Any]) -> dict[str, str]:
    """By type: the status of a condition, or why it is False."""
    given = found.get("status", {}).get("conditions", ())
    return {each["type"]: each.get("reason") or each["status"] for each in given}


def named(found: Mapping[str, Any], name: str) -> bool:
    return str(found["metadata"]["name"]).startswith(name)


def shown(text: str) -> list[str]:
    """The lines of a tree: object or condition, and what its first columns say; without ages and messages."""
    return [" ".join(words(line)) for line in text.splitlines()[1:]]


def words(line: str) -> Iterator[str]:
    """Up to the reason."""
    for word in line.strip("│├└─ ").split():
        if AGE.fullmatch(word):
            return
        yield word.removeprefix("├─").removeprefix("└─")
