"""Take a snapshot of a control plane, and delete its file.

Theory.      The data is copied into a temporary folder, checked there, and put into the store; only then the
             status says that the snapshot is complete. After an interruption the snapshot is taken again from
             the start, unless its file is in the store: then that is the snapshot. While the store cannot say
             whether it has one, nothing is taken.
Invariants.  A whole file in the store is never replaced: a write of the status whose answer was lost may have
             said its hash. So a process that does not lead any more keeps none. No content of a file or of a
             Secret is in a log or in a status.
Called by    ``reconciler``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.snapshots import ControlPlaneSnapshot
from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.component.policies import ETCD, etcd_urls
from kubewright.controlplanes.component.seen import identity_of
from kubewright.controlplanes.component.workload import endpoints
from kubewright.controlplanes.etcd import Streamed, credentials_of
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import Hosts, Running, SavesData
from kubewright.controlplanes.members import Credentials, Endpoint
from kubewright.controlplanes.snapshots import files
from kubewright.controlplanes.snapshots.stores import Store, Stores, scratch
from kubewright.kube.client import Client
from kubewright.kube.transport import Entitled

DEADLINE_SECONDS = 1800.0
"""How long one snapshot may take."""

Stream = Callable[[Sequence[Endpoint], Credentials, Path], Awaitable[Streamed]]
"""Copies the data of an etcd into a file: ``streams.stream``."""

log = structlog.get_logger(__name__)


class NotTaken(KubewrightError):
    """A snapshot could not be taken; the message says why."""


def file_of(snapshot: ControlPlaneSnapshot) -> str:
    """The name of the file of a snapshot; it ends with the uid, so no other object ever has the same."""
    spec = snapshot.spec
    return f"{snapshot.namespace}/{spec.control_plane_name}/{snapshot.name}-{snapshot.metadata.uid}"


class Taker:
    """Performs the steps of snapshots, while this process leads."""

    def __init__(self, client: Client, hosts: Hosts, stream: Stream, entitled: Entitled) -> None:
        self._client = client
        self._stream = stream
        self._hosts = hosts
        self._stores = Stores(client, hosts.snapshots, entitled)

    async def take(self, snapshot: ControlPlaneSnapshot, family: Family) -> files.Taken:
        """Copy the data and keep the file.

        Raises:
            NotTaken: it did not work this time.
            KubewrightError: the store, or what is in a Secret, does not let us.
        """
        store = await self._stores.of(snapshot.spec.location, snapshot.namespace)
        with scratch(self._hosts.snapshots) as folder:
            path = folder / "snapshot"
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    if (kept := await self._kept(store, snapshot, family, folder / "kept")) is not None:
                        return kept
                    form, version, member = await self._copy(family, path)
                    taken = await asyncio.to_thread(files.described, path, form, version, member)
                    await store.put(file_of(snapshot), path)
            except TimeoutError:
                raise NotTaken(f"it was not complete within {DEADLINE_SECONDS:g} seconds") from None
            except OSError as error:
                raise NotTaken(f"its file cannot be written: {error.strerror or error}") from None
        log.info("snapshot", snapshot=snapshot.name, bytes=taken.size)
        return taken

    async def _kept(
        self, store: Store, snapshot: ControlPlaneSnapshot, family: Family, path: Path
    ) -> files.Taken | None:
        """What an earlier attempt has put into the store; None: no whole file.

        Raises:
            StoreFailed: it cannot be read now, so a whole one may be there.
        """
        try:
            await store.fetch(file_of(snapshot), path)
            form = await asyncio.to_thread(files.format_of, path)
            etcd = family.components.get(Component.ETCD)
            version = etcd.status.version if etcd is not None else ""
            return await asyncio.to_thread(files.described, path, form, version)
        except (files.NotKept, files.Damaged):
            return None

    async def delete_file(self, snapshot: ControlPlaneSnapshot) -> None:
        """Delete the file of a snapshot.

        Raises:
            KubewrightError: it did not work this time.
        """
        store = await self._stores.of(snapshot.spec.location, snapshot.namespace)
        await store.delete(file_of(snapshot))

    async def _copy(self, family: Family, path: Path) -> tuple[str, str, str]:
        """Copy the data into a file; returns its format, and the version and the name of the member."""
        etcd = family.components.get(Component.ETCD)
        identity = identity_of(etcd, ETCD, family) if etcd is not None else None
        held, running = self._hosts.holding(identity) if identity is not None else (None, Running())
        host: object = held
        if etcd is not None and identity is not None and isinstance(host, SavesData):
            await host.save_data(identity, path)
            return files.EMBEDDED, etcd.status.version, ""
        own = await credentials_of(self._client, family)
        there = endpoints(running) or [Endpoint(each) for each in etcd_urls(family)]
        version, member = await self._stream(there, own, path)
        names = (each.name for each in running.instances if not each.ending)
        known = dict(zip(endpoints(running), names, strict=True))
        return files.ETCD, version, known.get(member, member.url)
