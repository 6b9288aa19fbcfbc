"""An API server accepts everything in ``examples`` and ``deploy``, as it is in the repository.

kubectl applies it strictly (an unknown field is an error) to the embedded server and to a real one. What must
not be left behind on a shared server (roles, a Deployment) is a dry run there, which validates and admits all
the same.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api.catalog import crds
from kubewright.api.machine import manifests
from kubewright.api.machine.manifests import as_yaml
from kubewright.testing.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples" / "step-by-step").glob("*.yaml")])
HOW_TO = ROOT / "docs" / "how-to" / "install-on-a-cluster.md"
SHARDS = ROOT / "docs" / "how-to" / "divide-machines-among-processes.md"
MACHINES = {"kubewright-control", "kubewright-target", "kubewright-bootstrap-tokens"}
CLUSTERS = {
    "kubewright-infrastructure",
    "kubewright-controlplanes",
    "kubewright-clusters",
    "kubewright-clusters-providers",
    "kubewright-bootstrap",
    "kubewright-webhooks",
}
ACCOUNT = {"Namespace", "ServiceAccount"}
TARGET_ROLES = MACHINES - {"kubewright-control"}
ROLES = (MACHINES, MACHINES | CLUSTERS, TARGET_ROLES, {"kubewright-control"})
"""The roles of the overlay for one cluster, with clusters as well, and of the target and the control cluster of two."""
PLACED = re.compile(r"namespace: default\b")


@pytest.fixture(scope="module")
def kinds_of_machines(new_kubectl: Callable[[], Kubectl]) -> Kubectl:
    """The server has the kinds of ``deploy/crds``."""
    kubectl = new_kubectl()
    kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
    kubectl("wait", "--for=condition=Established", "-f", str(ROOT / "deploy" / "crds"), "--timeout=20s")
    return kubectl


@pytest.fixture(scope="module")
def every_kind(kinds_of_machines: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The server has all kinds that ``kubewright crds`` prints."""
    path = tmp_path_factory.mktemp("kinds") / "crds.yaml"
    path.write_text(as_yaml(crds()))
    kinds_of_machines("apply", "--server-side=false", "-f", str(path))
    kinds_of_machines("wait", "--for=condition=Established", "-f", str(path), "--timeout=20s")


@pytest.mark.usefixtures("every_kind")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_taken_as_it_is(kubectl: Kubectl, path: Path) -> None:
    text = PLACED.sub(f"namespace: {kubectl.namespace}", path.read_text())
    done = kubectl.run("apply", "--validate=strict", "-f", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    objects = [each for each in yaml.safe_load_all(text) if each]
    assert len(done.stdout.splitlines()) == len(objects)
    for each in objects:
        found = json.loads(kubectl("get", kind_of(each), each["metadata"]["name"], "-o", "json"))
        wanted = {name: value for name, value in each.items() if name not in ("metadata", "stringData")}
        assert contains(found, wanted), path.name


def kind_of(body: dict[str, Any]) -> str:
    """``Machine.v1beta1.cluster.x-k8s.io``: two groups have a kind of this name."""
    group, _, version = body["apiVersion"].rpartition("/")
    return f"{body['kind']}.{version}.{group}" if group else body["kind"]


@pytest.mark.usefixtures("kinds_of_machines")
def test_the_installation_is_taken_as_it_is_and_without_a_warning(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", str(ROOT / "deploy" / "namespace.yaml"))
    kubectl.namespace = ""  # each object says its own
    done = kubectl.run("apply", "--validate=strict", "--dry-run=server", "-k", str(ROOT / "deploy"))
    warned = [line for line in done.stderr.splitlines() if "last-applied-configuration" not in line]
    assert done.returncode == 0, done.stderr
    if kubectl.flavour == "real":  # the embedded server says that nothing runs a Deployment there
        assert warned == []
    applied = {line.split()[0].partition("/")[0] for line in done.stdout.splitlines()}
    assert {"namespace", "serviceaccount", "deployment.apps"} <= applied
    assert len(done.stdout.splitlines()) == 4 + 4 + 6


@pytest.mark.usefixtures("every_kind")
def test_every_overlay_of_the_how_to_builds_on_the_installation(kubectl: Kubectl, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    overlays = [text for text in blocks(HOW_TO.read_text(), "yaml") if "kind: Kustomization" in text]
    assert len(overlays) == len(ROLES)
    kubectl.namespace = ""
    for number, text in enumerate(overlays):
        folder = tmp_path / f"mine-{number}"
        folder.mkdir()
        (folder / "kustomization.yaml").write_text(text)
        objects = list(yaml.safe_load_all(kubectl("kustomize", str(folder))))
        assert {each["metadata"]["name"] for each in objects if "Role" in each["kind"]} == ROLES[number]
        for pod in [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]:
            (container,) = pod["containers"]
            assert container["image"] != "kubewright:0.1.0"
            assert "--driver=name-of-your-driver" not in container["args"]
            mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounted == {volume["name"] for volume in pod.get("volumes", ())}
        if kubectl.flavour == "real":
            accepted(kubectl, objects)


@pytest.mark.usefixtures("kinds_of_machines")
def test_the_overlay_of_the_how_to_for_shards_runs_a_pod_for_each(kubectl: Kubectl, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (overlay,) = blocks(SHARDS.read_text(), "yaml")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(overlay)
    kubectl.namespace = ""
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(tmp_path / "mine"))))
    assert "Deployment" not in {each["kind"] for each in objects}
    (workload,) = (each["spec"] for each in objects if each["kind"] == "StatefulSet")
    (container,) = workload["template"]["spec"]["containers"]
    assert f"--shard=$(SHARD)/{workload['replicas']}" in container["args"]
    assert "SHARD" in {each["name"] for each in container["env"]}
    if kubectl.flavour == "real":
        accepted(kubectl, objects)


def accepted(kubectl: Kubectl, objects: list[dict[str, Any]]) -> None:
    """The server takes them in a dry run; the kinds among them it has."""
    kubectl("apply", "-f", str(ROOT / "deploy" / "namespace.yaml"))
    text = yaml.safe_dump_all(each for each in objects if each["kind"] not in (KIND, *OF_OPERATOR))
    kubectl("apply", "--validate=strict", "--dry-run=server", "-f", "-", stdin=text)


@dataclass(frozen=True)
class Built:
    """An installation with one component: its roles, its other kinds, and the arguments of its container."""

    roles: set[str]
    kinds: set[str]
    arguments: tuple[str, ...] = ("--driver=name-of-your-driver", "--health-port=8080")


RUNNING = ACCOUNT | {"Deployment", "PodDisruptionBudget"}
KIND = "CustomResourceDefinition"
OF_OPERATOR = ("PodMonitor", "PrometheusRule")
"""Kinds of the Prometheus operator, which no server of ours has."""
COMPONENTS = {
    "two-clusters": Built(
        {"kubewright-control"},
        RUNNING | {KIND},
        ("--driver=name-of-your-driver", "--health-port=8080", "--target-kubeconfig=/target/kubeconfig"),
    ),
    "target-cluster": Built(TARGET_ROLES, ACCOUNT | {"Secret"}, ()),
    "network-policy": Built(MACHINES, RUNNING | {KIND, "NetworkPolicy"}),
    "monitoring": Built(MACHINES, RUNNING | {KIND, "ConfigMap", *OF_OPERATOR}),
    "beside-mcm/sets": Built(
        MACHINES - {"kubewright-bootstrap-tokens"},
        RUNNING,
        ("--health-port=8080", "--controllers=machinedeployment,machineset"),
    ),
    "beside-mcm/machines": Built(
        MACHINES,
        RUNNING,
        (
            "--driver=name-of-your-driver",
            "--health-port=8080",
            "--controllers=*,-machinedeployment,-machineset",
        ),
    ),
}


@pytest.mark.parametrize(("component", "wanted"), COMPONENTS.items(), ids=list(COMPONENTS))
def test_every_component_builds_on_the_installation(
    kubectl: Kubectl, tmp_path: Path, component: str, wanted: Built
) -> None:
    objects = built(kubectl, tmp_path, {"components": [f"../deploy/{component}"]})
    assert {each["metadata"]["name"] for each in objects if "Role" in each["kind"]} == wanted.roles
    rules = {each["metadata"]["name"]: each["rules"] for each in objects if "rules" in each}
    half = component.removeprefix("beside-mcm/")
    if half in manifests.HALVES:
        files = manifests.manifests(manifests.HALVES[half]).values()
        assert rules == {r["metadata"]["name"]: r["rules"] for file in files for r in file if "rules" in r}
    assert {each["kind"] for each in objects if "Role" not in each["kind"]} == wanted.kinds
    containers = [of_deployment(each) for each in objects if each["kind"] == "Deployment"]
    assert [tuple(each["args"][1:]) for each in containers] == (
        [wanted.arguments] if wanted.arguments else []
    )
    kubectl.namespace = ""
    if kubectl.flavour == "real":  # the embedded server has no NetworkPolicy
        accepted(kubectl, objects)


def built(kubectl: Kubectl, folder: Path, overlay: dict[str, Any]) -> list[dict[str, Any]]:
    """What kustomize makes of an overlay beside ``deploy``."""
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    mine = folder / "mine"
    mine.mkdir()
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    text = yaml.safe_dump({**head, "resources": ["../deploy"], **overlay})
    (mine / "kustomization.yaml").write_text(text)
    return list(yaml.safe_load_all(kubectl("kustomize", str(mine))))


def of_deployment(deployment: dict[str, Any]) -> Any:
    """Its only container."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def contains(found: Any, wanted: Any) -> bool:
    """Whether all of ``wanted`` is in ``found``, which may have defaults beside it."""
    if isinstance(wanted, dict):
        return all(name in found and contains(found[name], value) for name, value in wanted.items())
    return bool(found == wanted)
