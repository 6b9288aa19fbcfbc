"""Control planes of real programs: from our own templates for tests of hosts, and from the example's objects."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.apiserver.http.kubeconfig import render as kubeconfig
from kubewright.base.clock import Clock
from kubewright.controlplanes.hosting.contract import Hosting, Workload, WorkloadIdentity
from kubewright.controlplanes.templates import catalog
from kubewright.controlplanes.templates.choice import Choice, choose
from kubewright.controlplanes.templates.render import render
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.pki.certificates import Identity, new_authority, new_client, new_leaf, new_server
from kubewright.pki.clusters import new_service_account_keys
from kubewright.pki.keys import Algorithm
from kubewright.testing.api import Api
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

ETCD, SERVER, MANAGER = Component.ETCD, Component.API_SERVER, Component.CONTROLLER_MANAGER
DAY = timedelta(days=1)
SETS = catalog.read(files("kubewright.controlplanes.templates") / "sets")

EXAMPLE = Path(__file__).parents[2] / "examples" / "control-plane.yaml"
KINDS = {
    each.resource.kind: each
    for each in (NESTED_CONTROL_PLANE, NESTED_ETCD, NESTED_API_SERVER, NESTED_CONTROLLER_MANAGER)
}
READY_SECONDS = 120.0


class FourObjects:
    """The objects of an example, in a namespace of a server. ``channel``: of those that we manage.

    ``members``  how many etcd has; 0: as the example says
    ``version``  that the control plane names
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        channel: str = "",
        example: Path = EXAMPLE,
        *,
        members: int = 0,
        version: str = "",
    ) -> None:
        self._client, self._namespace = client, namespace
        self._bodies = list(yaml.safe_load_all(example.read_text()))
        for each in self._bodies[1:] if channel else ():
            if MANAGED_BY_ANNOTATION not in each["metadata"].get("annotations", {}):
                each["spec"]["channel"] = channel
            if members and each["kind"] == NESTED_ETCD.resource.kind:
                each["spec"]["replicas"] = members
        if version:
            self._bodies[0]["spec"]["version"] = version

    def reverse(self) -> None:
        """Create them in the reverse order."""
        self._bodies.reverse()

    async def create(self) -> None:
        for body in self._bodies:
            await self._client.create(KINDS[body["kind"]], body, namespace=self._namespace)

    async def delete(self) -> None:
        for body in self._bodies:
            with suppress(NotFound):  # the controller of the first deletes the others too
                await self._client.delete(KINDS[body["kind"]], self._key(body))

    async def there(self) -> list[Any]:
        found = []
        for body in self._bodies:
            try:
                found.append(await self._client.get(KINDS[body["kind"]], self._key(body)))
            except NotFound:
                continue
        return found

    async def ready(self) -> bool:
        found = await self.there()
        return len(found) == len(self._bodies) and all(each.status.ready for each in found)

    async def gone(self) -> bool:
        return not await self.there()

    def _key(self, body: Any) -> Key:
        return Key(self._namespace, body["metadata"]["name"])


async def until(true: Callable[[], Awaitable[bool]], clock: Clock) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while not await true():
            await clock.sleep(0.1)


class Plane:
    """The certificates of a control plane, and its workloads. ``members``: of etcd, that it may have."""

    def __init__(
        self,
        hosting: Hosting,
        clock: Clock,
        identity: Callable[[Component], WorkloadIdentity],
        *,
        members: int = 1,
    ) -> None:
        self.clock, self.identity = clock, identity
        placed = {
            ETCD: hosting.addresses(identity(ETCD), members),
            SERVER: hosting.addresses(identity(SERVER), 1),
        }
        self.etcd, self.server = placed[ETCD].hosts[0], placed[SERVER].endpoint[0]
        now = clock.now()
        self.authority, etcd, proxy = (
            new_authority(name, now, DAY) for name in ("kubernetes", "etcd", "proxy")
        )
        also = [name for each in placed.values() for name in each.also]
        names = [*placed[ETCD].hosts, self.server, *also, "127.0.0.1", "localhost", "10.96.0.1"]
        accounts = new_service_account_keys(Algorithm.EC)

        def pair(identity: Any) -> dict[str, bytes]:
            return {"tls.crt": identity.certificate, "tls.key": identity.key}

        def client(authority: Any, name: str, *groups: str) -> Identity:
            return new_client(authority, User(name, groups), now, DAY)

        manager = client(self.authority, "system:kube-controller-manager")
        self.admin = client(self.authority, "kubernetes-admin", "system:masters")
        self.etcd_client = client(etcd, "kube-apiserver-etcd-client")
        self.contents = {
            "demo-ca": pair(self.authority),
            "demo-etcd": pair(etcd),
            "demo-proxy": pair(proxy),
            "demo-sa": {"tls.crt": accounts.certificate, "tls.key": accounts.key},
            "demo-apiserver": pair(new_server(self.authority, names, now, DAY)),
            "demo-etcd-server": pair(new_leaf(etcd, User("kube-etcd", ()), now, DAY, names=names)),
            "demo-etcd-peer": pair(new_leaf(etcd, User("kube-etcd-peer", ()), now, DAY, names=names)),
            "demo-apiserver-etcd-client": pair(self.etcd_client),
            "demo-kubelet-client": pair(
                client(self.authority, "kube-apiserver-kubelet-client", "system:masters")
            ),
            "demo-proxy-client": pair(client(proxy, "front-proxy-client")),
            "demo-controller-manager-signer": pair(self.authority),
            "demo-controller-manager-kubeconfig": {"value": self.kubeconfig(manager)},
        }

    def kubeconfig(self, identity: Identity) -> bytes:
        return kubeconfig(f"https://{self.server}:6443", self.authority.certificate, identity)

    def workload(self, component: Component, **spec: Any) -> Workload:
        """The workload of a component whose spec has these fields."""
        asked = NESTED_ETCD.from_plain({"spec": {"channel": "1.36", **spec}}).spec
        choice, identity = choose(component, asked, SETS, default="stable"), self.identity(component)
        assert isinstance(choice, Choice)
        values = {
            "cluster": "demo",
            "secrets": "demo",
            "component": identity.object.name,
            "repository": "none",
            "etcd_servers": f"https://{self.etcd}:2379",
            "service_domain": "cluster.local",
            "service_cidr": "10.96.0.0/12",
            "leader_elect": "false",
        }
        environment = {
            "INITIAL_CLUSTER": f"demo-etcd-0=https://{self.etcd}:2380",
            "INITIAL_CLUSTER_STATE": "new",
        }
        rendered = render(asked, choice, values, namespace=identity.namespace, replicas=1)
        return Workload(identity, choice.version, rendered, 1, self.contents, environment)

    @asynccontextmanager
    async def api(self, address: str = "") -> AsyncIterator[Api]:
        """The API server as its admin. ``address``: where it is, if its name cannot be resolved here."""
        found = yaml.safe_load(self.kubeconfig(self.admin))
        if address:
            server = {"server": f"https://{address}:6443", "tls-server-name": self.server}
            found["clusters"][0]["cluster"].update(server)
        transport = from_secret(yaml.safe_dump(found).encode())
        try:
            yield Api(transport, self.clock, "real")
        finally:
            await transport.close()
