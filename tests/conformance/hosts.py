"""The hosts that one suite judges, and what they run: a program that says how it was started.

A site is one host with a component of its own. Its programs are real processes, so time is real too; waiting
is for what the host says of itself, by its listeners alone, with a deadline.
"""

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.api.core import CONFIG_MAP, NAMESPACE, SECRET, Namespace, Secret
from kubewright.api.kinds import Kind
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.clock import SystemClock
from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.hosting.contract import Contents, Hosting, Running, Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.pods.host import PodHosting
from kubewright.controlplanes.hosting.processes.binaries import Places
from kubewright.controlplanes.hosting.processes.host import ProcessHosting
from kubewright.controlplanes.hosting.processes.options import Settings
from kubewright.controlplanes.templates.render import Rendered
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.testing.kubelets import stub
from kubewright.testing.kubelets.kubelet import Kubelet
from kubewright.testing.kubelets.statefulsets import StatefulSets
from kubewright.testing.world import running
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key

SECONDS = 30.0
"""Longest wait for anything."""
PAUSE = 0.2
PKI = "demo-pki"
KEY = b"a key that is hunter2"
CONTENTS: Mapping[str, Contents] = {PKI: {"tls.crt": b"a certificate", "tls.key": KEY}}
PORT = 18080
_numbers = itertools.count(1)

Put = Callable[[str, str, Contents], Any]
Open = Callable[[], Any]


@dataclass
class Site:
    """A host, and one component on it.

    ``other``  the workload of another component of the same cluster, whose object has the same name
    ``open``   makes the host anew, as after a restart of our program
    ``put``    makes what is in a Secret known to the host, by namespace and name
    ``unfit``  changes a workload into one that this host cannot run
    ``programs``  the stub is a program of the administrator's, which knows its journal by itself
    """

    identity: WorkloadIdentity
    other: WorkloadIdentity
    journal: Path
    open: Open
    put: Put
    unfit: Callable[[Workload], Workload]
    programs: bool = False
    hosting: Hosting = field(init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _opened: Any = None

    async def begin(self) -> None:
        """Begin to be the program that has the host."""
        self._opened = self.open()
        self.hosting = await self._opened.__aenter__()
        self.hosting.listen(lambda _key: self._changed.set())

    async def end(self) -> None:
        """End it; what runs goes on."""
        await self._opened.__aexit__(None, None, None)

    def workload(
        self, replicas: int = 1, *, identity: WorkloadIdentity | None = None, **changes: Any
    ) -> Workload:
        """A workload of the stub. ``flags``: further arguments; the rest are fields of ``Workload``."""
        identity, flags = identity or self.identity, changes.pop("flags", ())
        rendered = Rendered(manifests(identity, self.journal, flags, program=self.programs))
        return replace(Workload(identity, "1.2.3", rendered, replicas, CONTENTS), **changes)

    async def apply(self, workload: Workload) -> Workload:
        """Apply a workload whose Secrets are there."""
        for name, contents in workload.contents.items():
            await self.put(workload.identity.namespace, name, contents)
        await self._at_last(lambda: self.hosting.apply(workload))
        return workload

    async def replace(self, ordinal: int) -> None:
        """Replace an instance."""
        await self._at_last(lambda: self.hosting.replace(self.identity, ordinal))

    async def remove(self, identity: WorkloadIdentity | None = None, *, keep_data: bool) -> None:
        """Remove a workload."""
        await self._at_last(lambda: self.hosting.remove(identity or self.identity, keep_data=keep_data))

    async def _at_last(self, effect: Callable[[], Awaitable[None]]) -> None:
        """Try again what did not work this time, as a controller does: after a change, or soon."""
        async with asyncio.timeout(SECONDS):
            while True:
                self._changed.clear()
                try:
                    return await effect()
                except KubewrightError:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(PAUSE):
                            await self._changed.wait()

    async def until(
        self, so: Callable[[Running], Any], what: str, identity: WorkloadIdentity | None = None
    ) -> Running:
        """The first status that is so; looked at when the host says that it may have changed."""
        identity = identity or self.identity
        try:
            async with asyncio.timeout(SECONDS):
                while not so(found := self.hosting.status(identity)):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(
                f"not within {SECONDS:g} s: {what}; {self.hosting.status(identity)}"
            ) from None
        return found

    async def runs(self, workload: Workload) -> Running:
        """Wait until exactly the instances of this workload run, as it says, and are ready."""

        def so(found: Running) -> bool:
            ordinals = [each.ordinal for each in found.instances]
            good = [each.ready and each.fingerprint == workload.fingerprint for each in found.instances]
            return ordinals == list(range(workload.replicas)) and all(good)

        return await self.until(
            so, f"{workload.replicas} instances of {workload.fingerprint} are ready", workload.identity
        )

    async def started(self, replicas: int = 1, **changes: Any) -> Workload:
        """A workload that was applied and is ready."""
        workload = await self.apply(self.workload(replicas, **changes))
        await self.runs(workload)
        return workload

    async def gone(self, identity: WorkloadIdentity | None = None) -> None:
        """Wait until nothing of a workload is there."""
        await self.until(lambda found: not found.exists, "nothing of it is there", identity)

    async def empty(self) -> None:
        """Leave nothing behind."""
        for identity in (self.identity, self.other):
            await self.remove(identity, keep_data=False)
            await self.gone(identity)

    def starts(self, ordinal: int = 0) -> list[dict[str, Any]]:
        """What the stub noted at each start of an instance."""
        path = self.journal / f"{self.identity.instance(ordinal)}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def last(self, ordinal: int = 0) -> dict[str, Any]:
        """What it noted last."""
        return self.starts(ordinal)[-1]

    def sicken(self, ordinal: int, sick: bool) -> None:
        """Let an instance answer its probes badly, or well again."""
        path = self.journal / f"{self.identity.instance(ordinal)}.sick"
        path.touch() if sick else path.unlink()


def alive(started: Mapping[str, Any]) -> bool:
    """Whether the process of a start still runs."""
    try:
        os.kill(started["pid"], 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{started['pid']}/stat").read_text().rpartition(")")[2].split()[0]


PROGRAMS = {Component.ETCD: "etcd-stub", Component.API_SERVER: "kube-apiserver-stub"}


def make_programs(folder: Path, journal: Path) -> None:
    """The stub as programs that an administrator offers."""
    folder.mkdir()
    for name in PROGRAMS.values():
        path = folder / name
        path.write_text(
            f"#!{sys.executable} -IS\nimport runpy, sys\nsys.argv.insert(1, '--journal={journal}')\n"
            f"runpy.run_path({stub.__file__!r}, run_name='__main__')\n"
        )
        path.chmod(0o755)


def manifests(
    identity: WorkloadIdentity, journal: Path, flags: tuple[str, ...] = (), *, program: bool = False
) -> list[dict[str, Any]]:
    """What a set of templates would say of the stub."""
    up = f"until [ -e '{journal}'/$INSTANCE.up ]; do sleep 0.01; done"
    labels = {"component-name": identity.object.name}
    container = {
        "name": "stub",
        "image": "stub:v1.2.3",
        "command": [sys.executable, "-I", "-S", stub.__file__],
        "args": [f"--journal={journal}", "--data=$(DATA_DIR)", f"--listen=$(ADDRESS):{PORT}", *flags],
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": {
            "exec": {"command": ["/bin/sh", "-c", up]},
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": 30,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/etcd"},
            {"name": "pki", "mountPath": "/etc/kubernetes/pki/demo", "readOnly": True},
        ],
    }
    if program:
        container |= {
            "command": [PROGRAMS[identity.component]],
            "args": container["args"][1:],
            "startupProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 0.1, "failureThreshold": 300},
        }
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            "volumes": [{"name": "pki", "secret": {"secretName": PKI, "defaultMode": 0o400}}],
        },
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": identity.workload, "namespace": identity.namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {
                "serviceName": identity.workload,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": template,
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
            },
        },
    ]


# ---------------------------------------------------------------- pods

OWNERS: Mapping[Kind[Any], Component] = {CONFIG_MAP: Component.ETCD, SECRET: Component.API_SERVER}


def with_another_kind(workload: Workload) -> Workload:
    """One whose templates have an object that is no part of a component in pods."""
    more = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}}
    return replace(workload, rendered=Rendered([*workload.rendered.manifests, more]))


@dataclass(frozen=True, slots=True)
class Cluster:
    """A namespace of a server whose pods run. ``open``: the host of components there."""

    client: Client
    namespace: str
    open: Callable[[], AbstractAsyncContextManager[PodHosting]]

    async def put(self, namespace: str, name: str, contents: Contents) -> None:
        """Write a Secret."""
        secret = Secret(metadata=ObjectMeta(name=name, namespace=namespace), data=contents)
        try:
            await self.client.create(SECRET, secret)
        except AlreadyExists:
            await self.client.patch(SECRET, Key(namespace, name), {"data": SECRET.to_plain(secret)["data"]})

    async def identity(self, owner: Kind[Any], name: str, component: Component) -> WorkloadIdentity:
        """The identity of a workload; any object can be its owner."""
        made = await self.client.create(owner, {"metadata": {"name": name}}, namespace=self.namespace)
        kind, uid = owner.resource.kind, made.metadata.uid
        reference = OwnerReference(api_version="v1", kind=kind, name=name, uid=uid)
        return WorkloadIdentity(self.namespace, "demo", component, reference)


@asynccontextmanager
async def cluster(
    new_client: Callable[[], Client], folder: Path, *, manager: bool, **kubelet: Any
) -> AsyncIterator[Cluster]:
    """A double of a kubelet on a server; ``manager``: and one of the controller of StatefulSets."""
    client = new_client()
    namespace = f"hosts-{os.getpid()}-{next(_numbers)}"  # as no other process has: see kubelets.hosts
    await client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))

    @asynccontextmanager
    async def opened() -> AsyncIterator[PodHosting]:
        informers = Informers(new_client())
        hosting = PodHosting(informers)
        task = asyncio.create_task(informers.run())
        try:
            await informers.wait_synced(SECONDS)
            yield hosting
        finally:
            task.cancel()
            await asyncio.wait([task])

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(Kubelet(client, folder / "node", namespace, **kubelet).run))
        if manager:
            await stack.enter_async_context(running(StatefulSets(client).run))
        yield Cluster(client, namespace, opened)


@asynccontextmanager
async def pods(new_client: Callable[[], Client], folder: Path, *, manager: bool) -> AsyncIterator[Site]:
    """Pods on a server; ``manager``: one without a controller of StatefulSets."""
    journal = folder / "journal"
    journal.mkdir()
    async with cluster(new_client, folder, manager=manager) as found, AsyncExitStack() as stack:
        identities = [await found.identity(kind, "mine", of) for kind, of in OWNERS.items()]
        site = Site(*identities, journal, found.open, found.put, with_another_kind)
        await site.begin()
        stack.push_async_callback(site.end)
        if not manager:  # the server outlives this test
            stack.push_async_callback(site.empty)
        yield site


# ---------------------------------------------------------------- processes


def with_another_container(workload: Workload) -> Workload:
    """One whose pod has more than a process can stand for."""
    stateful_set = deepcopy(workload.rendered.workload)
    stateful_set["spec"]["template"]["spec"]["containers"].append({"name": "proxy", "image": "proxy:1"})
    return replace(workload, rendered=Rendered([stateful_set]))


@asynccontextmanager
async def processes(folder: Path) -> AsyncIterator[Site]:
    """Processes of this machine."""
    journal = folder / "journal"
    journal.mkdir()
    make_programs(folder / "bin", journal)

    async def put(_within: str, _name: str, _contents: Contents) -> None:
        """A workload brings the contents of its Secrets along."""

    def opened() -> ProcessHosting:
        return ProcessHosting(Settings(folder / "host", Places((folder / "bin",))), SystemClock())

    identities = [
        WorkloadIdentity(
            "hosts", "demo", component, OwnerReference(kind=owner.resource.kind, name="mine", uid=component)
        )
        for owner, component in OWNERS.items()
    ]
    site = Site(*identities, journal, opened, put, with_another_container, programs=True)
    async with AsyncExitStack() as stack:
        await site.begin()
        stack.push_async_callback(site.end)
        stack.push_async_callback(site.empty)
        yield site
