"""``deploy/driver-container``: controllers and driver as two containers of one pod, with one user and one socket."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.pages import blocks

from kubewright.providers.grpc.messages import parse_options
from kubewright.testing.kubectl import Kubectl, NoKubectl, find_kubectl

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "driver-process.md").read_text()


@pytest.fixture
def pod(tmp_path: Path) -> dict[str, Any]:
    """The pod of the page's overlay."""
    try:
        kubectl = Kubectl(find_kubectl(), tmp_path / "none", tmp_path, "none", "")
    except NoKubectl as error:
        pytest.skip(str(error))
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "mine").mkdir()
    (overlay,) = blocks(PAGE, "yaml")
    (tmp_path / "mine" / "kustomization.yaml").write_text(overlay)
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(tmp_path / "mine"))))
    found: dict[str, Any] = next(each for each in objects if each["kind"] == "Deployment")
    pod_spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod_spec


def option(args: list[str], name: str) -> str:
    return next(each.removeprefix(f"{name}=") for each in args if each.startswith(f"{name}="))


@pytest.mark.kubectl
def test_both_containers_meet_at_one_socket_in_memory(pod: dict[str, Any]) -> None:
    controllers, driver = pod["containers"]
    folder = option(controllers["args"], "--driver-option=dataDir")
    listens = parse_options({}, Path(folder)).socket
    assert option(driver["args"], "--manager") == f"unix:{listens}"
    assert driver["args"][:3] == ["driver", "serve", "my-driver"]
    assert {each["image"] for each in pod["containers"]} == {"my-registry.example/kubewright:0.1.0"}
    mounts = {(each["name"], each["mountPath"]) for box in pod["containers"] for each in box["volumeMounts"]}
    assert mounts == {("drivers", folder)}
    assert pod["volumes"] == [{"name": "drivers", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]


@pytest.mark.kubectl
def test_both_containers_have_one_user_and_no_more_rights_than_the_controllers_alone(
    pod: dict[str, Any],
) -> None:
    alone = yaml.safe_load((ROOT / "deploy" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    assert pod["securityContext"] == alone["securityContext"]
    assert [each["securityContext"] for each in pod["containers"]] == [
        alone["containers"][0]["securityContext"]
    ] * 2
    assert not pod.get("hostNetwork")
