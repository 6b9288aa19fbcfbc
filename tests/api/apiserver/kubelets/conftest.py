"""An embedded server that listens, a fake kubelet behind a Node, and pods on it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.api.apiserver.kubelets.fake import FakeKubelet

from kubewright.apiserver.http import kubeconfig
from kubewright.apiserver.http.authn import Authenticator
from kubewright.apiserver.http.connections import Connections
from kubewright.apiserver.http.listener import Listener
from kubewright.apiserver.http.pki import TO_KUBELETS
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.kube.transport import InProcess
from kubewright.testing import keys
from kubewright.testing.api import Api
from kubewright.testing.kubectl import Kubectl, find_kubectl


async def put_node(api: Api, name: str, port: int, host: str = "127.0.0.1", **status: Any) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"of": name}}}
    (await api.post("/api/v1/nodes", node)).ok()
    where = {
        "addresses": [{"type": "InternalIP", "address": host}, {"type": "Hostname", "address": host}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "allocatable": {"cpu": "4", "memory": "4Gi"},
        **status,
    }
    (await api.patch(f"/api/v1/nodes/{name}/status", {"status": where})).ok()


async def put_pod(api: Api, name: str, *containers: str, node: str = "", **spec: Any) -> None:
    """A pod that runs on a node; without one it waits."""
    made = [{"name": each, "image": "i"} for each in containers]
    spec = {"containers": made, **({"nodeName": node} if node else {}), **spec}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    }
    (await api.post("/api/v1/namespaces/default/pods", pod)).ok()
    running = {"phase": "Running", "containerStatuses": [_running(each["name"]) for each in made]}
    if node:
        (await api.patch(f"/api/v1/namespaces/default/pods/{name}/status", {"status": running})).ok()


@dataclass
class Cluster:
    """``host`` is what the node says of where its kubelet is."""

    server: ApiServer
    api: Api
    authority: keys.Keys
    listener: Listener
    kubelet: FakeKubelet

    async def node(
        self, name: str = "n", host: str = "127.0.0.1", port: int | None = None, **status: Any
    ) -> None:
        await put_node(self.api, name, self.kubelet.port if port is None else port, host=host, **status)

    async def pod(self, name: str = "p", *containers: str, node: str = "n", **spec: Any) -> None:
        await put_pod(self.api, name, *(containers or ("c",)), node=node, **spec)

    async def allow(self, user: str, rules: list[dict[str, Any]]) -> None:
        group, v1 = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
        role = {"apiVersion": v1, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
        (await self.api.post(f"/apis/{v1}/clusterroles", role)).ok()
        subject, ref = ({"kind": kind, "apiGroup": group, "name": user} for kind in ("User", "ClusterRole"))
        bound = {
            "apiVersion": v1,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "subjects": [subject],
            "roleRef": ref,
        }
        (await self.api.post(f"/apis/{v1}/clusterrolebindings", bound)).ok()

    async def until(self, holds: Callable[[], bool]) -> None:
        async def asked() -> bool:
            return holds()

        await self.api.eventually(asked, "it holds", seconds=5)

    async def raw(self, path: str, *headers: str, method: str = "POST", user: str = "") -> "Raw":
        """A request of the administrator, or another user, byte by byte."""
        shown = self.authority.issue(user) if user else self.authority.admin
        context = self.authority.client_context(shown)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, ssl=context)
        head = [f"{method} {path} HTTP/1.1", "host: x", "content-length: 0", *headers, "", ""]
        writer.write("\r\n".join(head).encode())
        return Raw(reader, writer)


def _running(name: str) -> dict[str, Any]:
    about = {"image": "i", "imageID": "", "ready": True, "restartCount": 0}
    return {"name": name, **about, "state": {"running": {"startedAt": "2026-11-27T12:00:00Z"}}}


@dataclass
class Raw:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            key.lower(): value.strip() for key, _, value in (each.partition(":") for each in lines[1:-2])
        }
        return int(lines[0].split(" ")[1]), headers

    async def refusal(self) -> tuple[int, str]:
        """Code and message; the server ends the connection after it."""
        code, headers = await self.head()
        body = await self.reader.read()
        self.writer.close()
        if headers["content-type"] != "application/json":
            return code, body.decode()
        status = json.loads(body)
        assert status["code"] == code
        return code, status["message"]


@asynccontextmanager
async def cluster_of(
    authority: keys.Keys, *, certificate: bool = True, **settings: Any
) -> AsyncIterator[Cluster]:
    """``certificate``: whether the kubelet wants one."""
    clock = SystemClock()
    server = ApiServer(clock, **{"allowed": lambda _address: True, **settings})
    await server.start()
    server.reach_kubelets(authority.issue(TO_KUBELETS.name))
    authenticator = Authenticator(clock, server.user_of_token)
    listener = Listener(server.handle, authenticator, authority, connections=Connections(clock))
    await listener.start()
    try:
        async with FakeKubelet().serving(authority.authority, certificate) as kubelet:
            api = Api(InProcess(server.handle), clock, "embedded")
            yield Cluster(server, api, authority, listener, kubelet)
            await listener.close()
            await server.close()
            await asyncio.sleep(0.05)  # both ends of TLS say goodbye
    finally:
        await listener.close()
        await server.close()


@pytest.fixture(scope="session")
def authority() -> keys.Keys:
    return keys.in_memory(SystemClock())


@pytest.fixture
async def cluster(authority: keys.Keys) -> AsyncIterator[Cluster]:
    """With node ``n`` and pod ``p`` of one container ``c``."""
    async with cluster_of(authority) as made:
        await made.node()
        await made.pod()
        yield made


@dataclass
class Person:
    """kubectl, beside the server in this process."""

    kubectl: Kubectl

    async def __call__(self, *words: str, stdin: bytes | None = None, **environ: str) -> tuple[int, str, str]:
        source = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(
            *self.kubectl.command(*words), stdin=source, stdout=pipe, stderr=pipe,
            env=self.kubectl.environment(**environ),
        )  # fmt: skip
        async with asyncio.timeout(40):
            out, err = await running.communicate(stdin)
        assert running.returncode is not None
        return running.returncode, out.decode(), err.decode()


@pytest.fixture
def person(cluster: Cluster, tmp_path: Path) -> Person:
    path = tmp_path / "kubeconfig"
    path.write_bytes(
        kubeconfig.render(cluster.listener.url, cluster.authority.authority, cluster.authority.admin)
    )
    return Person(Kubectl(find_kubectl(), path, tmp_path, "embedded", "default"))
