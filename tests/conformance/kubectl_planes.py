"""A control plane by kubectl: the example's objects in ``kubewright up``, and kubectl with its kubeconfigs."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conformance.nested_planes import EXAMPLE
from tests.conformance.test_kubectl_clusters import user

from kubewright.testing.kubectl import Kubectl
from kubewright.testing.left_programs import nothing_left

CHANNELS = [
    pytest.param("embedded", id="inside of up"),
    pytest.param("1.36", id="programs of Kubernetes", marks=pytest.mark.kube),
]
READY = "--for=jsonpath={.status.ready}=true"
LONG, TRIES = "--timeout=35s", 4
"""A call of kubectl may last 40 seconds in these tests."""


class Shell:
    """kubectl beside the event loop; ``text``: what it printed, ``refused``: what it complained about."""

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        self.kubectl, self.folder = kubectl, folder

    async def __call__(self, *words: str, stdin: str = "") -> str:
        return await asyncio.to_thread(self.kubectl, *words, stdin=stdin)

    async def refused(self, *words: str, stdin: str = "") -> str:
        return await asyncio.to_thread(self.kubectl.refused, *words, stdin=stdin)

    async def wait(self, what: str, *words: str) -> None:
        """``kubectl wait``, as often as a person would type it again on a busy machine."""
        for _ in range(TRIES - 1):
            done = await asyncio.to_thread(self.kubectl.run, "wait", *words, what, LONG)
            if done.returncode == 0:
                return
        await self("wait", *words, what, LONG)

    async def table(self, *words: str) -> list[list[str]]:
        """The cells of what ``get`` prints, its header first."""
        return [line.split() for line in (await self("get", *words)).splitlines()]

    async def of_secret(self, secret: str, copy: str = "") -> "Shell":
        """kubectl with the kubeconfig that is in a Secret now; ``copy`` names the file."""
        value = await self("get", "secret", secret, "-o", "jsonpath={.data.value}")
        path = self.folder / f"{copy or secret}.kubeconfig"
        path.touch(mode=0o600)
        path.write_bytes(b64decode(value))
        known = self.kubectl
        return Shell(Kubectl(known.program, path, self.folder, known.flavour, "default"), self.folder)


@asynccontextmanager
async def control_plane(folder: Path, channel: str) -> AsyncIterator[Shell]:
    """The kubectl of the user of ``kubewright up``, with the control plane of the example, which is ready."""
    with nothing_left(folder / "data" / "components"):
        async with user(folder / "data") as kubectl:
            shell = Shell(kubectl, folder)
            await shell("apply", "-f", "-", stdin=example(channel))
            await shell.wait("ncp/demo", READY)
            yield shell
            await shell("delete", "ncp", "demo", "--ignore-not-found", LONG)


def example(channel: str) -> str:
    """The example as a user applies it; its components with this channel, unless they run inside of ``up``."""
    text = EXAMPLE.read_text()
    return text if channel == "embedded" else text.replace("  replicas: 1", f'  channel: "{channel}"')
