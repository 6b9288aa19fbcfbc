"""The pages for authors of drivers, line by line: from a name to machines that come and go."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml
from tests.conformance.pages import blocks, terminals

from kubewright.testing.kubectl import NoKubectl, find_kubectl

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
AN_HOUR = (PAGES / "write-a-driver-in-an-hour.md").read_text()
LOCALLY = (PAGES / "develop-a-driver-locally.md").read_text()
ORIGINAL = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: machine-controller-manager, namespace: garden}
spec:
  replicas: 1
  selector: {matchLabels: {role: machine-controller-manager}}
  template:
    metadata: {labels: {role: machine-controller-manager}}
    spec: {containers: [{name: mcm, image: "mcm:0.62.0"}]}
"""
IGNORED = r"{.metadata.annotations.dependency-watchdog\.gardener\.cloud/ignore-scaling}"
pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False)]


@pytest.fixture
def kubectl() -> Path:
    try:
        return find_kubectl()
    except NoKubectl as error:
        pytest.skip(str(error))


@pytest.mark.timeout(240)
async def test_every_line_of_the_page_for_authors_works(tmp_path: Path, kubectl: Path) -> None:
    printed: dict[str, str] = {}
    async with asyncio.timeout(200), terminals(tmp_path, kubectl) as here:
        for block in blocks(AN_HOUR, "console"):
            for line in block.splitlines():
                printed[line] = await here.types(line.removeprefix("$ "))
    assert "3 skipped" in printed["$ make -C my-cloud test PYTHON=$PWD/.venv/bin/python"]
    made = next(text for line, text in printed.items() if " vm create " in line)
    assert re.fullmatch(r"Machine id: my-cloud:///here/i-\w+\nName: test\n", made)
    assert len(printed["$ ls dev/cloud/servers"].split()) == 1


@pytest.mark.timeout(120)
async def test_the_overlay_of_a_new_driver_puts_it_into_our_deployment(tmp_path: Path, kubectl: Path) -> None:
    async with asyncio.timeout(100), terminals(tmp_path, kubectl) as here:
        await here.types(".venv/bin/kubewright driver new my-cloud")
        await here.types(f"make -C my-cloud link KUBEWRIGHT={ROOT}")
        rendered = await here.types("kubectl kustomize my-cloud/deploy")
    found = [each for each in yaml.safe_load_all(rendered) if each["kind"] == "Deployment"]
    sample = yaml.safe_load((tmp_path / "my-cloud" / "kubernetes" / "deployment.yaml").read_text())
    keys = ("image", "args", "securityContext", "env", "ports")
    ours, theirs = ([each["spec"]["template"]["spec"]["containers"][0]] for each in (found[0], sample))
    assert {key: ours[0][key] for key in keys} == {key: theirs[0][key] for key in keys}
    assert sample["metadata"] == found[0]["metadata"]


@pytest.mark.timeout(240)
async def test_a_manager_on_this_machine_takes_machines_over_and_gives_them_back(
    tmp_path: Path, kubectl: Path
) -> None:
    first, manager, last = (block.removeprefix("$ ").strip() for block in blocks(LOCALLY, "console"))
    show = "kubectl -n garden get deployment machine-controller-manager -o jsonpath="
    async with asyncio.timeout(200), terminals(tmp_path, kubectl) as here:
        await here.types(".venv/bin/kubewright driver new my-cloud")
        await here.types(".venv/bin/pip install --editable ./my-cloud")
        await here.types(".venv/bin/kubewright up --data-dir dev --worlds clusters")
        (tmp_path / "mcm.yaml").write_text(ORIGINAL)
        await here.types("kubectl create namespace garden && kubectl apply -f mcm.yaml")
        await here.types(".venv/bin/kubewright crds machines | kubectl apply -f -")
        for name in ("control", "target"):
            (tmp_path / f"{name}.kubeconfig").write_bytes((tmp_path / "dev" / "kubeconfig").read_bytes())
        await here.types(first)
        assert await here.types(f"{show}'{{.spec.replicas}}{IGNORED}'") == "0true"
        await here.types(manager)
        await here.types("kubectl -n garden wait --for=create lease/machine-controller --timeout=60s")
        await here.types(last)
        assert await here.types(f"{show}'{{.spec.replicas}}{IGNORED}'") == "1"
    assert not (tmp_path / "dev" / "kube-configs").exists()
    assert not (tmp_path / ".env").exists()


@pytest.mark.kube  # for its minute, not for a real API server
@pytest.mark.timeout(300)
async def test_a_new_project_passes_the_integration_test_at_once(tmp_path: Path, kubectl: Path) -> None:
    async with asyncio.timeout(280), terminals(tmp_path, kubectl) as here:
        await here.types(".venv/bin/kubewright driver new my-cloud")
        await here.types(".venv/bin/pip install --editable ./my-cloud")
        await here.types(".venv/bin/kubewright up --data-dir dev --worlds clusters")
        await here.types("mkdir my-cloud/dev && cp dev/kubeconfig my-cloud/dev/target-kubeconfig.yaml")
        told = await here.types(
            "PATH=$PWD/.venv/bin:$PATH make -C my-cloud test-integration ARGS='--timeout 60s'"
        )
    assert "10 passed" in told
