"""What a user may get wrong about a cluster: each mistake is told where the user looks, costs no hot loop, and
when it is mended the cluster comes up by itself."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kubewright.api import catalog
from kubewright.api.cluster.v1beta1 import MACHINE
from kubewright.api.conditions import condition_of
from kubewright.api.core import NAMESPACE, SECRET
from kubewright.api.kinds import Kind, dynamic
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options
from kubewright.compose.worlds import every_word
from kubewright.kube.client import Client
from kubewright.testing.clocks import LoopClock
from kubewright.testing.world import running
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

EXAMPLE = list(yaml.safe_load_all((Path(__file__).parents[3] / "examples" / "cluster.yaml").read_text()))
KINDS: dict[str, Kind[Any]] = {
    each.kind.resource.kind: each.kind for listed in catalog.DEFINITIONS.values() for each in listed
}
CONTROL_PLANE, WORKERS = "blue-control-plane", "blue-workers"
Objects = dict[tuple[str, str], dict[str, Any]]
"""By kind and name."""


class Case(NamedTuple):
    """One mistake. ``told``: kind, name, type of the condition, its reason, and words of its message."""

    mistake: str
    make: Callable[[Objects], Any]
    told: tuple[str, str, str, str, str]
    mend: Callable[[Client, str], Awaitable[Any]]


def secret(name: str, **data: bytes) -> dict[str, Any]:
    coded = {key.replace("_", "."): b64encode(value).decode() for key, value in data.items()}
    labels = {"cluster.x-k8s.io/cluster-name": "blue"}
    return {"kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": coded}


def without(kind: str, name: str) -> Callable[[Objects], Any]:
    return lambda objects: objects.pop((kind, name))


def with_secret(name: str, **data: bytes) -> Callable[[Objects], Any]:
    return lambda objects: objects.update({("Secret", name): secret(name, **data)})


def with_spec(kind: str, name: str, **spec: Any) -> Callable[[Objects], Any]:
    return lambda objects: objects[kind, name]["spec"].update(spec)


def all_of(*changes: Callable[[Objects], Any]) -> Callable[[Objects], Any]:
    return lambda objects: [change(objects) for change in changes]


def with_ref(kind: str, field: str, /, **ref: str) -> Callable[[Objects], Any]:
    """Change a reference of the Cluster, or of the Machine of the control plane."""

    def change(objects: Objects) -> None:
        spec = objects[kind, "blue" if kind == "Cluster" else CONTROL_PLANE]["spec"]
        (spec["bootstrap"] if field == "configRef" else spec)[field].update(ref)

    return change


def wanted(kind: str, name: str) -> dict[str, Any]:
    """The object as the example has it."""
    return deepcopy(
        next(each for each in EXAMPLE if (each["kind"], each["metadata"]["name"]) == (kind, name))
    )


def created(kind: str, name: str) -> Callable[[Client, str], Awaitable[Any]]:
    return lambda client, namespace: client.create(KINDS[kind], wanted(kind, name), namespace=namespace)


def patched(kind: str, name: str, *parts: str) -> Callable[[Client, str], Awaitable[Any]]:
    """Write parts of the spec as the example has them."""
    spec = {part: wanted(kind, name)["spec"].get(part) for part in parts}
    return lambda client, namespace: client.patch(KINDS[kind], Key(namespace, name), {"spec": spec})


def gone(name: str) -> Callable[[Client, str], Awaitable[Any]]:
    """Delete a Secret."""
    return lambda client, namespace: client.delete(dynamic(SECRET.resource), Key(namespace, name))


def filled(name: str, **data: bytes) -> Callable[[Client, str], Awaitable[Any]]:
    """Create a Secret, or write into the one that is there."""

    async def mend(client: Client, namespace: str) -> None:
        body = secret(name, **data)
        try:
            await client.patch(SECRET, Key(namespace, name), {"data": body["data"]})
        except NotFound:
            await client.create(SECRET, body, namespace=namespace)

    return mend


MACHINE_REF = patched("Machine", CONTROL_PLANE, "bootstrap", "infrastructureRef")
CLUSTER_REF = patched("Cluster", "blue", "infrastructureRef")
BOOT, HOST, NODE = (
    ("Machine", CONTROL_PLANE, f"{each}") for each in ("BootstrapReady", "InfrastructureReady", "NodeHealthy")
)
CONFIG = ("KubeadmConfig", CONTROL_PLANE, "DataSecretAvailable")
CA = {"tls_crt": b"no certificate", "tls_key": b"no key"}
UNREADABLE = b"this is: [no kubeconfig"
PROGRAM = yaml.safe_dump({
    "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"exec": {"command": "/bin/true"}}}],
}).encode()  # fmt: skip
USERS_DATA = with_spec("Machine", CONTROL_PLANE, bootstrap={"dataSecretName": "mine"})
CREDENTIALS = with_spec("KubewrightCluster", "blue", credentialsRef={"name": "cloud"})

CASES = [
    Case("the kind of the infrastructure does not exist", with_ref("Cluster", "infrastructureRef", kind="FooCluster"), ("Cluster", "blue", "InfrastructureReady", "WaitingForInfrastructure", "the kind FooCluster.infrastructure.cluster.x-k8s.io is not installed"), CLUSTER_REF),
    Case("the kind of the bootstrap does not exist", with_ref("Machine", "configRef", kind="FooConfig"), (*BOOT, "WaitingForDataSecret", "there is no CustomResourceDefinition fooconfigs.bootstrap.cluster.x-k8s.io"), MACHINE_REF),
    Case("the kind of the host does not exist", with_ref("Machine", "infrastructureRef", kind="FooMachine"), (*HOST, "WaitingForInfrastructure", "the kind FooMachine.infrastructure.cluster.x-k8s.io is not installed"), MACHINE_REF),
    Case("the kind is one of Kubernetes' own", with_ref("Machine", "configRef", apiVersion="v1", kind="ConfigMap"), (*BOOT, "WaitingForDataSecret", "the kind ConfigMap is one of Kubernetes' own, not a provider's"), MACHINE_REF),
    Case("a reference without a kind", with_ref("Machine", "configRef", apiVersion="///", kind=""), (*BOOT, "WaitingForDataSecret", "the reference has no kind"), MACHINE_REF),
    Case("a name that no object can have", with_ref("Machine", "configRef", name="No Name/.."), (*BOOT, "WaitingForDataSecret", "there is no KubeadmConfig"), MACHINE_REF),
    Case("no KubewrightCluster", without("KubewrightCluster", "blue"), ("Cluster", "blue", "InfrastructureReady", "WaitingForInfrastructure", "there is no KubewrightCluster"), created("KubewrightCluster", "blue")),
    Case("a Cluster without infrastructureRef", lambda objects: objects["Cluster", "blue"]["spec"].pop("infrastructureRef"), ("Cluster", "blue", "ControlPlaneInitialized", "MissingNodeRef", "the Cluster has no spec.infrastructureRef"), CLUSTER_REF),
    Case("the same, told to the machine", lambda objects: objects["Cluster", "blue"]["spec"].pop("infrastructureRef"), (*CONFIG, "WaitingForClusterInfrastructure", "Cluster blue has no spec.infrastructureRef"), CLUSTER_REF),
    Case("no KubewrightMachine", without("KubewrightMachine", CONTROL_PLANE), (*HOST, "WaitingForInfrastructure", "there is no KubewrightMachine"), created("KubewrightMachine", CONTROL_PLANE)),
    Case("no KubeadmConfig", without("KubeadmConfig", CONTROL_PLANE), (*BOOT, "WaitingForDataSecret", "there is no KubeadmConfig"), created("KubeadmConfig", CONTROL_PLANE)),
    Case("no Cluster", without("Cluster", "blue"), (*CONFIG, "WaitingForClusterInfrastructure", "there is no Cluster blue"), created("Cluster", "blue")),
    Case("no template of hosts", without("KubewrightMachineTemplate", WORKERS), ("MachineDeployment", WORKERS, "Ready", "InfrastructureTemplateCloningFailed", "there is no KubewrightMachineTemplate"), created("KubewrightMachineTemplate", WORKERS)),
    Case("no template of configurations", without("KubeadmConfigTemplate", WORKERS), ("MachineDeployment", WORKERS, "Ready", "BootstrapTemplateCloningFailed", "there is no KubeadmConfigTemplate"), created("KubeadmConfigTemplate", WORKERS)),
    Case("a configuration that can only join", with_spec("KubeadmConfig", CONTROL_PLANE, initConfiguration=None, joinConfiguration={}), (*CONFIG, "WaitingForControlPlaneAvailable", "spec has no initConfiguration and no clusterConfiguration"), patched("KubeadmConfig", CONTROL_PLANE, "initConfiguration")),
    Case("an authority that is none", with_secret("blue-ca", **CA), (*CONFIG, "CertificatesCorrupted", "Secret blue-ca has a tls.crt that is neither a certificate nor a public key in PEM"), gone("blue-ca")),
    Case("a kubeconfig that is none", with_secret("blue-kubeconfig", value=UNREADABLE), (*NODE, "NodeProvisioning", "blue-kubeconfig: not YAML in line 2"), gone("blue-kubeconfig")),
    Case("a kubeconfig that starts a program", with_secret("blue-kubeconfig", value=PROGRAM), (*NODE, "NodeProvisioning", "exec is a program"), gone("blue-kubeconfig")),
    Case("a kubeconfig without value", with_secret("blue-kubeconfig", other=b"x"), (*NODE, "NodeProvisioning", "blue-kubeconfig has no value"), gone("blue-kubeconfig")),
    Case("no bootstrap data of the user's own", USERS_DATA, (*HOST, "WaitingForBootstrapData", "there is no Secret mine"), filled("mine", value=b"#cloud-config\n{}\n")),
    Case("bootstrap data without value", all_of(USERS_DATA, with_secret("mine", valu=b"x")), (*HOST, "WaitingForBootstrapData", "Secret mine has no key value"), filled("mine", value=b"#cloud-config\n{}\n")),
    Case("no credentials", CREDENTIALS, ("Cluster", "blue", "InfrastructureReady", "InvalidConfiguration", "there is no Secret cloud with credentials"), filled("cloud", key=b"x")),
    Case("credentials that are empty", all_of(CREDENTIALS, with_secret("cloud")), ("Cluster", "blue", "InfrastructureReady", "InvalidConfiguration", "Secret cloud, which should have credentials, is empty"), filled("cloud", key=b"x")),
    Case("a providerSpec that the driver does not know", with_spec("KubewrightMachine", CONTROL_PLANE, providerSpec={"bananas": 3}), (*HOST, "VMCreationFailed", "unknown field `bananas`"), lambda client, namespace: client.patch(KINDS["KubewrightMachine"], Key(namespace, CONTROL_PLANE), {"spec": {"providerSpec": {"bananas": None}}})),
]  # fmt: skip

STARTS_NOTHING = {"no bootstrap data of the user's own", "bootstrap data without value"}
"""What is mended there is data that boots a VM, and no control plane."""


PASSES_A_MINUTE = 20
"""Reconciliations of a cluster that waits, of all its objects and by all controllers; a hot loop has thousands."""


def comes_to(mistake: str) -> list[str]:
    """The phases of the two machines once the mistake is mended."""
    return ["Pending", "Provisioned"] if mistake in STARTS_NOTHING else ["Running", "Running"]


def matches(mistake: str, found: tuple[str, str]) -> bool:
    *_, reason, words = next(each.told for each in CASES if each.mistake == mistake)
    return found[0] == reason and words in found[1]


async def apply(client: Client, namespace: str, case: Case) -> None:
    objects = {(each["kind"], each["metadata"]["name"]): deepcopy(each) for each in EXAMPLE}
    objects["MachineDeployment", WORKERS]["spec"]["replicas"] = 1
    case.make(objects)
    await client.create(NAMESPACE, {"metadata": {"name": namespace}})
    kinds = {**KINDS, "Secret": SECRET}
    for (kind, _), body in objects.items():
        await client.create(kinds[kind], body, namespace=namespace)


async def told(client: Client, namespace: str, case: Case) -> tuple[str, str]:
    """Reason and message of the condition that should tell of the mistake."""
    kind, name, condition, *_ = case.told
    found = condition_of((await client.get(KINDS[kind], Key(namespace, name))).status.conditions, condition)
    return (found.reason, found.message) if found is not None else ("", "")


def reconciliations(embedded: Embedded) -> float:
    """How many there have been, of all controllers."""
    text = embedded.metrics.render().decode()
    return sum(
        float(each) for each in re.findall(r"^controller_reconcile_total\{.*\} (\S+)$", text, re.MULTILINE)
    )


async def versions(client: Client, namespaces: list[str]) -> dict[tuple[str, str, str], str]:
    return {
        (namespace, kind.resource.kind, each.name): each.metadata.resource_version
        for namespace in namespaces
        for kind in (KINDS["Cluster"], MACHINE, KINDS["KubeadmConfig"], KINDS["KubewrightMachine"])
        for each in await client.list(kind, namespace)
    }


async def running_machines(client: Client, namespace: str) -> list[str]:
    return sorted(each.status.phase for each in await client.list(MACHINE, namespace))


GROUPS = [CASES[first : first + 4] for first in range(0, len(CASES), 4)]


@pytest.mark.parametrize("cases", GROUPS, ids=[f"{each[0].mistake}, and so on" for each in GROUPS])
async def test_a_mistake_is_told_costs_no_hot_loop_and_can_be_mended(cases: list[Case]) -> None:
    embedded = Embedded(None, Options(controllers=every_word(Options())), LoopClock())
    async with embedded, running(embedded.serve):
        client, places = embedded.client, {f"c{number}": case for number, case in enumerate(cases)}
        for place, case in places.items():
            await apply(client, place, case)
        await asyncio.sleep(20)
        said = {case.mistake: await told(client, place, case) for place, case in places.items()}
        assert {each: found for each, found in said.items() if not matches(each, found)} == {}

        before, looked = await versions(client, list(places)), reconciliations(embedded)
        await asyncio.sleep(60)
        assert await versions(client, list(places)) == before
        assert reconciliations(embedded) - looked < PASSES_A_MINUTE * len(cases)

        for place, case in places.items():
            await case.mend(client, place)
        wanted = {each.mistake: comes_to(each.mistake) for each in cases}
        for _ in range(60):
            phases = {case.mistake: await running_machines(client, place) for place, case in places.items()}
            if phases == wanted:
                break
            await asyncio.sleep(5)
        assert phases == wanted
