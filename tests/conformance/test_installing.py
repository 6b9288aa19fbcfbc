"""docs/how-to/install-on-a-cluster.md with two clusters, line by line on a real kube-apiserver, which is both of them."""

import shutil
from pathlib import Path

import pytest
from tests.conformance.pages import Shell, blocks

from kubewright.api.machine import manifests
from kubewright.base.clock import SystemClock
from kubewright.testing.kubectl import Kubectl
from kubewright.testing.permissions import granted
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.real_kubernetes.commands import CONTROLLERS

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "install-on-a-cluster.md").read_text()
TWO = PAGE.partition("## Machines in one cluster, nodes in another")[2].partition("\n## ")[0]
WITH_TOKENS = Options(fsync=False, controllers=(*CONTROLLERS, "serviceaccount-token-controller"))


@pytest.mark.timeout(150)
async def test_with_the_kubeconfig_of_the_page_the_controllers_may_work_on_the_target(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    for name, text in zip(("my-target", "my-kubewright"), blocks(TWO, "yaml"), strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kustomization.yaml").write_text(text)
    async with RealKubernetes(find(), SystemClock(), WITH_TOKENS) as real:
        shell = Shell(tmp_path, find().kubectl, real.kubeconfig, TWO)
        await shell.types_the_next_block()
        await shell.types_the_next_block()
        controllers = Kubectl(find().kubectl, tmp_path / "target.kubeconfig", tmp_path, "real", "default")
        for each in granted(manifests.manifests()["target.yaml"]):
            resource, _, part = each.resource.partition("/")
            words = [each.verb, f"{resource}.{each.group}" if each.group else resource]
            place = ["-n", each.namespace] if each.namespace else ["--all-namespaces"]
            said = controllers("auth", "can-i", *words, *([f"--subresource={part}"] if part else []), *place)
            assert said.strip() == "yes"
        assert controllers.run("auth", "can-i", "list", "machines.machine.sapcloud.io").stdout.strip() == "no"
        await shell.types_the_next_block()
        assert shell.is_at_the_end()
        user = Kubectl(find().kubectl, real.kubeconfig, tmp_path, "real", "kubewright-system")
        where = "jsonpath={.spec.template.spec.volumes[0].secret.secretName}"
        secret = user("get", "deployment", "kubewright", "-o", where)
        kubeconfig = user("get", "secret", secret, "-o", r"go-template={{.data.kubeconfig | base64decode}}")
        assert kubeconfig == (tmp_path / "target.kubeconfig").read_text()
