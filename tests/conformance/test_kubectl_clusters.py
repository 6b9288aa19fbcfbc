"""The examples of clusters by kubectl in ``kubewright up``: applied, looked into with their own kubeconfig, deleted."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kubewright.base.clock import SystemClock
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.testing.kubectl import Kubectl, NoKubectl, find_kubectl
from kubewright.testing.world import SHORT_TIMEOUTS, running

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False), pytest.mark.timeout(180)]

EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = "cluster,machine,ncp,netcd,nkas,nkcm,nc,kubewrightcluster,kubewrightmachine"
SECONDS = 90


@asynccontextmanager
async def user(folder: Path) -> AsyncIterator[Kubectl]:
    """The kubectl of a user, with the kubeconfig that ``kubewright up`` has written."""
    try:
        program = find_kubectl()
    except NoKubectl as missing:
        pytest.skip(str(missing))
    options = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS))
    async with Embedded(ServerConfig(folder), options, SystemClock()) as up, running(up.serve):
        yield Kubectl(program, up.kubeconfig, folder, "embedded", "default")


async def until(true: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(SECONDS * 2):
        if await true():
            return
        await asyncio.sleep(0.5)
    pytest.fail(f"not within {SECONDS} s: {what}")


async def ready_nodes(kubectl: Kubectl) -> list[str]:
    """The status column of ``kubectl get nodes``; none while the cluster does not answer."""
    done = await asyncio.to_thread(kubectl.run, "get", "nodes", "--no-headers")
    return [line.split()[1] for line in done.stdout.splitlines()] if done.returncode == 0 else []


@pytest.mark.parametrize(
    ("file", "cluster", "nodes"),
    [("cluster.yaml", "blue", 4), ("cluster-nested.yaml", "nested", 3)],
    ids=["its control plane is a machine", "its control plane is objects"],
)
async def test_a_cluster_is_applied_its_nodes_are_ready_and_it_is_deleted(tmp_path, file, cluster, nodes):
    async with user(tmp_path / "data") as kubectl:

        async def call(*words: str) -> str:
            return await asyncio.to_thread(kubectl, *words)

        async def has_kubeconfig() -> bool:
            return "kubeconfig" in await call("get", "secrets", "-o", "name")

        async def nodes_ready() -> bool:
            return await ready_nodes(inner) == ["Ready"] * nodes

        async def gone() -> bool:
            return not (await call("get", KINDS, "-o", "name")).strip()

        await call("apply", "-f", str(EXAMPLES / file))
        await until(has_kubeconfig, "its kubeconfig")
        secret = await call("get", "secret", f"{cluster}-kubeconfig", "-o", "jsonpath={.data.value}")
        path = tmp_path / "its-kubeconfig"
        path.write_bytes(b64decode(secret))
        inner = Kubectl(kubectl.program, path, tmp_path, "embedded", "default")
        await until(nodes_ready, "all nodes are Ready")
        assert "True" in await call(
            "get", "cluster", cluster, "-o", "jsonpath={.status.conditions[*].status}"
        )

        await call("delete", "cluster", cluster, "--wait=false")
        await until(gone, "everything is gone")
