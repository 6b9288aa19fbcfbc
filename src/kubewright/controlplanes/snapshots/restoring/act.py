"""Verify a snapshot, stop a control plane, replace its data, and let it start.

Invariants.  The file that a host is given was verified after it was fetched, in a temporary folder of ours.
             The annotation is patched onto the version of the control plane that was read, so two restores
             never both stop it. A process that does not lead any more gives no host a file.
Called by    ``reconciler``.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from kubewright.api.controlplane.names import RESTORING_ANNOTATION, Component
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_CONTROL_PLANE,
    NestedControlPlane,
)
from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.component.policies import ETCD, etcd_addresses
from kubewright.controlplanes.component.seen import identity_of
from kubewright.controlplanes.etcd import credentials_of
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import (
    Hosts,
    Replaced,
    Replacement,
    ReplacesData,
    WorkloadIdentity,
)
from kubewright.controlplanes.snapshots import files
from kubewright.controlplanes.snapshots.restoring.decide import Source
from kubewright.controlplanes.snapshots.stores import Stores, scratch
from kubewright.kube.client import Client
from kubewright.kube.errors import Deposed, MayBeGone
from kubewright.kube.patches import onto
from kubewright.kube.transport import NOT_SURE, Entitled
from kubewright.wire.gvk import Key

DEADLINE_SECONDS = 1800.0
"""How long fetching a file, or putting it in place, may take."""
TOO_LONG = f"it did not end within {DEADLINE_SECONDS:g} seconds"

log = structlog.get_logger(__name__)


class NotRestored(KubewrightError):
    """A step of a restore failed; the message says why."""


class Restorer:
    """Performs the steps of restores, while this process leads."""

    def __init__(self, client: Client, hosts: Hosts, entitled: Entitled) -> None:
        self._client = client
        self._hosts = hosts
        self._entitled = entitled
        self._stores = Stores(client, hosts.snapshots, entitled)

    def unable(self, family: Family, form: str) -> str:
        """Why the data of this control plane cannot be replaced by a file of this format; empty: it can.

        A format that is not known yet is no reason.
        """
        identity, host = self._etcd_host(family)
        if identity is None:
            return f"NestedControlPlane {family.plane.name} has no NestedEtcd whose data could be replaced"
        if host is None:
            return f"nothing of NestedEtcd {identity.object.name} runs here, so there is no data to replace"
        has = files.EMBEDDED if host is self._hosts.embedded else files.ETCD
        if form and form != has:
            told = f"a snapshot of format {form} cannot take the place of the data of"
            return f"{told} NestedEtcd {identity.object.name}, which has format {has}"
        if not isinstance(host, ReplacesData):
            return f"the data of NestedEtcd {identity.object.name} cannot be replaced where it runs"
        return host.lacks_to_replace()

    async def verify(self, family: Family, source: Source) -> None:
        """Fetch a file, and compare its hash and its format.

        Raises:
            KubewrightError: it is not there, is not what was taken, or is that of another kind of etcd.
        """
        async with self._fetched(family, source):
            log.info("verified", plane=family.plane.name, source=source.told)

    async def replace(self, family: Family, source: Source, mark: str) -> Replaced:
        """Replace the data by that of a file, as far as that can be done now.

        Raises:
            Deposed: this process does not lead any more.
            KubewrightError: it did not work this time.
        """
        identity, host = self._etcd_host(family)
        assert identity is not None, "without a NestedEtcd there is nothing to replace"
        assert isinstance(host, ReplacesData), "``unable`` reports other hosts"
        by = Replacement(
            mark,
            len(etcd_addresses(family)) or 1,
            lambda: self._given(family, source),
            lambda: credentials_of(self._client, family),
        )
        self._check(family)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                done = await host.replace_data(identity, by)
        except TimeoutError:
            raise NotRestored(TOO_LONG) from None
        except OSError as error:  # of the host's machine: it starts programs, and connects to pods
            raise NotRestored(f"the data cannot be replaced: {error.strerror or error}") from None
        log.info(
            "replaced", plane=family.plane.name, source=source.told, former=done.former, waits=done.waits
        )
        return done

    async def hold(self, plane: NestedControlPlane, restore: str) -> None:
        """Write the annotation by which components stop for this restore; empty: remove it, so they start."""
        body = onto({"metadata": {"annotations": {RESTORING_ANNOTATION: restore or None}}}, plane.metadata)
        with MayBeGone(plane.name):
            await self._client.patch(NESTED_CONTROL_PLANE, Key(plane.namespace, plane.name), body)

    def _etcd_host(self, family: Family) -> tuple[WorkloadIdentity | None, object]:
        etcd = family.components.get(Component.ETCD)
        identity = identity_of(etcd, ETCD, family) if etcd is not None else None
        return identity, self._hosts.holding(identity)[0] if identity is not None else None

    def _check(self, family: Family) -> None:
        """Ask, right before data is replaced, whether another process may lead by now."""
        if not self._entitled():
            raise Deposed(f"the data of {family.plane.name} is not replaced: {NOT_SURE}")

    @asynccontextmanager
    async def _given(self, family: Family, source: Source) -> AsyncIterator[Path]:
        """A file, verified, for a host that is to replace data by it."""
        async with self._fetched(family, source) as path:
            self._check(family)
            yield path

    @asynccontextmanager
    async def _fetched(self, family: Family, source: Source) -> AsyncIterator[Path]:
        """A file, verified, for as long as it is used."""
        store = await self._stores.of(source.location, family.plane.namespace)
        with scratch(self._hosts.snapshots) as folder:
            path = folder / "snapshot"
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await store.fetch(source.file, path)
                    form = await asyncio.to_thread(files.verify, path, source.sha256)
            except TimeoutError:
                raise NotRestored(TOO_LONG) from None
            except OSError as error:
                raise NotRestored(f"the file cannot be read: {error.strerror or error}") from None
            if told := self.unable(family, form):
                raise NotRestored(told)
            yield path
