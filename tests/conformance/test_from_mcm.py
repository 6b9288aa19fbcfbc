"""docs/how-to/from-mcm.md, line by line: over from machine-controller-manager, and back, with no machine touched.

A shell runs each block of the page against a real kube-apiserver. Between the blocks the test starts and stops what
pods would be: the controllers, and the original's candidates for its Leases.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from tests.conformance.originals import Scene
from tests.conformance.pages import Shell, blocks

from kubewright.machines.world import Half
from kubewright.testing.kubectl import Kubectl
from kubewright.testing.real_kubernetes import RealKubernetes, find
from kubewright.testing.sites import eventually, real_site

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "from-mcm.md").read_text()
ORIGINAL = "machine-controller-manager"


def overlays(namespace: str) -> list[str]:
    """The overlays of the page: the whole program, and one half."""
    return [text.replace("namespace=garden", f"namespace={namespace}") for text in blocks(PAGE, "yaml")]


def deployment_of_the_original(namespace: str) -> str:
    labels = {"role": ORIGINAL}
    pod = {"containers": [{"name": "mcm", "image": "mcm:0.62.0"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": ORIGINAL, "namespace": namespace}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


@pytest.mark.timeout(240)
async def test_every_line_of_the_page_changes_over_and_back_and_touches_no_machine(
    real_kubernetes: RealKubernetes, tmp_path: Path
) -> None:
    async with real_site(real_kubernetes, two=False) as site, AsyncExitStack() as stack:
        scene, world = Scene(site.world), site.world
        kubectl = Kubectl(find().kubectl, real_kubernetes.kubeconfig, tmp_path, "real", world.namespace)
        stack.callback(clear, kubectl)
        kubectl("apply", "-f", "-", stdin=deployment_of_the_original(world.namespace))
        furnish(tmp_path, world.namespace)
        page = PAGE.replace("ns=garden", f"ns={world.namespace}")
        shell = Shell(tmp_path, kubectl.program, real_kubernetes.kubeconfig, page)
        async with scene.ours():  # machines as the original would have left them
            await world.deploy("workers", 3)
            await world.settled(3)
        before = await seen(scene)
        async with scene.original(Half.SETS) as sets, scene.original(Half.MACHINES) as machines:
            await until(scene, lambda: sets.leads and machines.leads, "the original leads")
            await shell.types_the_next_block()
            await shell.types_the_next_block()
        async with scene.ours() as process:
            await shell.types_the_next_block()
            assert arguments(kubectl)[-2:] == [
                f"--namespace={world.namespace}",
                "--machine-health-timeout=10m",
            ]
            kubectl("apply", "--dry-run=server", "-k", str(tmp_path / "one-half"), "--namespace=")
            await until_ours(scene)
            await world.settled(3)
            leases = (await shell.types_the_next_block()).splitlines()
            assert [line.split()[0] for line in leases[1:]] == sorted(half.value for half in Half)
            assert await seen(scene) == before
            await shell.types_the_next_block()
            await process.end()
        async with scene.original(Half.SETS) as sets, scene.original(Half.MACHINES) as machines:
            await until(scene, lambda: sets.leads and machines.leads, "the original leads again")
            await shell.types_the_next_block()
        assert await seen(scene) == before
        assert shell.is_at_the_end()
        async with scene.ours():
            await world.delete("workers")
            await world.settled(0)


def furnish(folder: Path, namespace: str) -> None:
    """``deploy``, and beside it the overlays of the page, the first under the name that the page types."""
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    for name, text in zip(("my-kubewright", "one-half"), overlays(namespace), strict=True):
        (folder / name).mkdir()
        (folder / name / "kustomization.yaml").write_text(text)


def clear(kubectl: Kubectl) -> None:
    """Take the Deployments away; roles and kinds are of the site and the session."""
    kubectl("delete", "deployment", ORIGINAL, "--ignore-not-found")
    kubectl.namespace = "kubewright-system"
    kubectl("delete", "deployment,poddisruptionbudget", "kubewright", "--ignore-not-found")


def arguments(kubectl: Kubectl) -> list[str]:
    """Those of the installed container."""
    where = ("-n", "kubewright-system", "-o", "jsonpath={.spec.template.spec.containers[0].args}")
    found: list[str] = json.loads(kubectl("get", "deployment", "kubewright", *where))
    return found


async def seen(scene: Scene) -> tuple[set[tuple[str, str, str, int]], set[str], set[str]]:
    """What must stay: each machine with its VM and the number of changes of its spec, the nodes, and the VMs."""
    snapshot = await scene.world.look()
    machines = {
        (each.metadata.name, each.metadata.uid, each.spec.provider_id, each.metadata.generation)
        for each in snapshot.machines
    }
    return machines, {each.metadata.uid for each in snapshot.nodes}, set(scene.world.cloud.vms)


async def until_ours(scene: Scene) -> None:
    await eventually(
        scene.world.clock, scene.holders, lambda found: found == ["ours", "ours"], "we lead both"
    )


async def until(scene: Scene, met: Callable[[], bool], what: str) -> None:
    async def answer() -> bool:
        return met()

    await eventually(scene.world.clock, answer, bool, what)
