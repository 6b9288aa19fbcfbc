"""The Helm chart in ``deploy/chart``: it installs the same objects as the kustomize files, with a real helm."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.pages import Shell, blocks

from kubewright.testing.kubectl import Kubectl, find_kubectl
from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.testing.real_kubernetes.helm import HELM, Helm

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

ROOT = Path(__file__).parents[2]
CHART = str(ROOT / "deploy" / "chart")
NAMESPACE = "kubewright-system"
DRIVER = ("--set", "driver.name=name-of-your-driver")
SAME: Mapping[str, tuple[list[str], tuple[str, ...]]] = {
    "one cluster": ([], DRIVER),
    "two clusters": (["two-clusters"], (*DRIVER, "--set", "targetKubeconfig.secret=target")),
    "beside MCM, the half with sets": (["beside-mcm/sets"], ("--set", "half=sets")),
    "beside MCM, the half with machines": (["beside-mcm/machines"], (*DRIVER, "--set", "half=machines")),
    "clusters as well": (["clusters"], (*DRIVER, "--set", "clusters.enabled=true")),
    "reserves": (["reserves"], (*DRIVER, "--set", "reserves.enabled=true")),
    "reserves beside clusters": (
        ["clusters", "reserves"],
        (*DRIVER, "--set", "clusters.enabled=true,reserves.enabled=true"),
    ),
    "a network policy": (["network-policy"], (*DRIVER, "--set", "networkPolicy.enabled=true")),
    "flow control": (["flow-control"], (*DRIVER, "--set", "flowControl.enabled=true")),
    "monitoring": (
        ["monitoring"],
        (
            *DRIVER,
            *("--set", "monitoring.podMonitor.enabled=true,monitoring.rules.enabled=true"),
            *("--set", "monitoring.dashboard.enabled=true"),
        ),
    ),
}
"""The components of an overlay, and the values that choose the same."""
REFUSED = {
    "no driver": ((), "driver.name is missing: the driver for your cloud"),
    "a half that is none": ((*DRIVER, "--set", "half=left"), "at '/half': value must be one of"),
    "a misspelt key": ((*DRIVER, "--set", "replica=3"), "additional properties 'replica' not allowed"),
    "a misspelt key inside": (
        (*DRIVER, "--set", "image.name=x"),
        "at '/image': additional properties 'name'",
    ),
    "replicas that are no number": ((*DRIVER, "--set-string", "replicas=two"), "at '/replicas': got string"),
    "a namespace that can be none": ((*DRIVER, "--set", "namespace=My_Own"), "at '/namespace':"),
    "a switch without dashes": ((*DRIVER, "--set", "args={driver=x}"), "at '/args/0':"),
    "clusters beside MCM": (
        (*DRIVER, "--set", "half=machines,clusters.enabled=true"),
        "clusters.enabled and half=sets or half=machines exclude each other",
    ),
}
CHOSEN = """
image: {repository: registry.test/kubewright, tag: "1", pullPolicy: Always, pullSecrets: [mine]}
driver: {name: hetzner, options: {region: eu-1, attempts: 3}}
namespace: shoot--a
args: ["--machine-drain-timeout=1h"]
replicas: 1
serviceAccount: {annotations: {cloud.test/role: machines}}
nodeSelector: {pool: system}
tolerations: [{key: system, operator: Exists}]
priorityClassName: system-cluster-critical
podDisruptionBudget: {enabled: false}
"""


@pytest.fixture
def made(tmp_path: Path) -> Helm:
    """A helm that asks no server."""
    return Helm(HELM.find(), tmp_path)


def rendered(made: Helm, *words: str) -> list[dict[str, Any]]:
    text = made("template", "kubewright", CHART, "--namespace", NAMESPACE, *words)
    return [each for each in yaml.safe_load_all(text) if each]


def kustomized(folder: Path, components: list[str]) -> list[dict[str, Any]]:
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    (folder / "mine").mkdir()
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../deploy"],
        "components": [f"../deploy/{each}" for each in components],
    }
    (folder / "mine" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    kubectl = Kubectl(find_kubectl(), folder / "none", folder, "none", "")
    return list(yaml.safe_load_all(kubectl("kustomize", str(folder / "mine"))))


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The objects without helm's own annotation. The namespace of a release is made by helm or the user."""
    found = {}
    for each in objects:
        annotations = each["metadata"].get("annotations", {})
        if annotations.pop("helm.sh/resource-policy", "") and not annotations:
            del each["metadata"]["annotations"]
        found[each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]] = each
    found.pop(("Namespace", "", NAMESPACE), None)
    return found


@pytest.mark.parametrize(("components", "values"), SAME.values(), ids=list(SAME))
def test_the_chart_makes_what_kustomize_makes(
    made: Helm, tmp_path: Path, components: list[str], values: tuple[str, ...]
) -> None:
    assert by_name(rendered(made, *values)) == by_name(kustomized(tmp_path, components))


def test_helm_finds_nothing_to_complain_about(made: Helm) -> None:
    assert "0 chart(s) failed" in made("lint", "--strict", CHART, *DRIVER)


@pytest.mark.parametrize(("values", "why"), REFUSED.values(), ids=list(REFUSED))
def test_wrong_values_are_refused_with_a_reason(made: Helm, values: tuple[str, ...], why: str) -> None:
    assert why in made.refused("template", "kubewright", CHART, *values)


def test_every_value_has_its_place(made: Helm, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(CHOSEN)
    objects = {each["kind"]: each for each in rendered(made, "--values", str(tmp_path / "values.yaml"))}
    assert "PodDisruptionBudget" not in objects
    account, spec = objects["ServiceAccount"], objects["Deployment"]["spec"]
    assert account["metadata"]["annotations"] == {"cloud.test/role": "machines"}
    assert account["imagePullSecrets"] == [{"name": "mine"}]
    pod = spec["template"]["spec"]
    assert (spec["replicas"], pod["nodeSelector"]) == (1, {"pool": "system"})
    assert pod["tolerations"] == [{"key": "system", "operator": "Exists"}]
    assert pod["priorityClassName"] == "system-cluster-critical"
    (container,) = pod["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("registry.test/kubewright:1", "Always")
    assert container["args"] == [
        "run",
        "--driver=hetzner",
        "--health-port=8080",
        "--driver-option=attempts=3",
        "--driver-option=region=eu-1",
        "--namespace=shoot--a",
        "--machine-drain-timeout=1h",
    ]


def test_a_release_is_installed_upgraded_and_uninstalled_and_no_machine_goes(
    real_kubernetes: RealKubernetes, tmp_path: Path
) -> None:
    helm_there = Helm(HELM.find(), tmp_path, real_kubernetes.kubeconfig)
    user = Kubectl(real_kubernetes.binaries.kubectl, real_kubernetes.kubeconfig, tmp_path, "real", NAMESPACE)
    release = ("kubewright", CHART, "--namespace", NAMESPACE, *DRIVER)
    helm_there("install", *release, "--create-namespace", "--take-ownership")
    try:
        assert deployed(user)["replicas"] == 2
        assert (
            user("auth", "can-i", "patch", "machines.machine.sapcloud.io", "--as", ACCOUNT).strip() == "yes"
        )
        helm_there("upgrade", *release, "--set", "replicas=1,half=machines")
        assert deployed(user)["replicas"] == 1
        assert "--controllers=*,-machinedeployment,-machineset" in deployed(user)["args"]
        user("apply", "-f", "-", stdin=MACHINE)
    finally:
        helm_there("uninstall", "kubewright", "--namespace", NAMESPACE, "--wait=hookOnly")
    assert "NotFound" in user.refused("get", "deployment", "kubewright")
    assert user("get", "machines.machine.sapcloud.io", "stays", "-o", "jsonpath={.metadata.name}") == "stays"
    user("delete", "machines.machine.sapcloud.io", "stays")


ACCOUNT = f"system:serviceaccount:{NAMESPACE}:kubewright"
MACHINE = """
apiVersion: machine.sapcloud.io/v1alpha1
kind: Machine
metadata: {name: stays}
spec: {class: {kind: MachineClass, name: none}}
"""


def deployed(user: Kubectl) -> dict[str, Any]:
    """How many replicas the Deployment asks for, and the arguments of its container."""
    spec = json.loads(user("get", "deployment", "kubewright", "-o", "json"))["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    return {"replicas": spec["replicas"], "args": container["args"]}


async def test_every_line_of_the_page(real_kubernetes: RealKubernetes, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "install-with-helm.md").read_text()
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "my-values.yaml").write_text(blocks(page, "yaml")[0])
    # The kinds of machines are on the server of these tests already, so this user says what the page says of that.
    typed = page.replace("--create-namespace ", "--create-namespace --take-ownership ")
    shell = Shell(tmp_path, real_kubernetes.binaries.kubectl, real_kubernetes.kubeconfig, typed)
    (tmp_path / "bin" / "helm").symlink_to(HELM.find())
    for block in blocks(page, "console"):
        await shell.types_the_next_block()
        assert block.startswith("$ helm ")
    assert shell.is_at_the_end()
