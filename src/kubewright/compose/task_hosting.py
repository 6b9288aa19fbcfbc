"""Nested control planes inside this process: the host of components of version ``embedded``.

Theory.      The etcd of such a control plane is a folder, its API server one of ``api_servers``, its
             controller manager those controllers of ``builtin`` that kube-controller-manager has. They are
             tasks of this process, so after a restart nothing runs, and the controllers of components apply
             all of it again. What must outlive a restart is in a file: which address belongs to which control
             plane, since kubeconfigs and certificates name it, and whether its data is wanted.
Invariants.  The API server runs only while its etcd does, the controllers only while the API server does.
             Data is deleted when the etcd is removed, and at no other time; a restore puts it aside. One
             control plane changes one step at a time.
Source       S3-03.
Called by    the controllers of components (``controlplanes.hosting.contract``); ``embedded`` makes it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog

from kubewright.api.controlplane.names import Component
from kubewright.apiserver.store import copies
from kubewright.apiserver.store.log import DATA_FILE
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.compose.api_servers import Plane, Planes
from kubewright.compose.folder import Claims
from kubewright.compose.kept_planes import KeptPlanes
from kubewright.compose.nested_plane import NestedPlane, Part, instance_of, keys_of
from kubewright.compose.plane_controllers import RunControllers
from kubewright.controlplanes.hosting import contract
from kubewright.controlplanes.hosting.contract import Running, Workload, WorkloadAddresses, WorkloadIdentity
from kubewright.wire.gvk import Key

ONE_INSTANCE = "version embedded runs one instance of each component, and spec.replicas is {}"
NO_FLAGS = "version embedded takes no flags: remove spec.extraArgs"

log = structlog.get_logger("kubewright.compose")


class TaskHosting:
    """Runs components as tasks of this process: implements ``Hosting``.

    ``folder``       None: there is no file
    ``controllers``  runs those of a control plane, for as long as its controller manager is wanted
    """

    def __init__(
        self,
        planes: Planes,
        clock: Clock,
        folder: Path | None,
        controllers: RunControllers,
        claims: Claims | None = None,
    ) -> None:
        self._planes = planes
        self._clock = clock
        self._folder = folder
        self._run_controllers = controllers
        self._nested: dict[Key, NestedPlane] = {}
        self._listeners: list[Callable[[Key], None]] = []
        self._kept = KeptPlanes(folder, claims or Claims())
        for key, address in self._kept.addresses().items():
            planes.restore(_owner(key), address)

    def addresses(self, identity: WorkloadIdentity, replicas: int) -> WorkloadAddresses:
        """As ``Hosting.addresses``: an API server is at its address, and nothing dials the others."""
        del replicas
        if identity.component is not Component.API_SERVER:
            return WorkloadAddresses()
        host, _, port = self._address(identity).rpartition(":")
        return WorkloadAddresses((host,), (host, int(port)))

    def problem_of(self, workload: Workload) -> str:
        """As ``Hosting.problem_of``."""
        if workload.replicas > 1:
            return ONE_INSTANCE.format(workload.replicas)
        container = workload.rendered.workload["spec"]["template"]["spec"]["containers"][0]
        return NO_FLAGS if container.get("args") else ""

    def status(self, identity: WorkloadIdentity) -> Running:
        """As ``Hosting.status``."""
        nested = self._nested.get(_plane_key(identity))
        part = nested.parts.get(identity.component) if nested is not None else None
        if nested is None or part is None:
            kept = self._kept.get(str(_plane_key(identity)))
            exists = identity.component is Component.ETCD and kept is not None and kept.data
            return Running(exists=exists, data=self._with_data(identity))
        instances = (instance_of(identity, part, nested),) if part.workload.replicas else ()
        applied, replicas = part.workload.fingerprint, part.workload.replicas
        data = None if replicas else self._with_data(identity)
        return Running(instances, applied, replicas, exists=True, data=data)

    def _with_data(self, identity: WorkloadIdentity) -> frozenset[int] | None:
        """As ``Running.data``, of an etcd that does not run; None also where none was ever written."""
        kept = self._kept.get(str(_plane_key(identity)))
        if identity.component is not Component.ETCD or kept is None or not kept.written:
            return None
        return frozenset({0} if self._has_database(identity) else ())

    async def apply(self, workload: Workload) -> None:
        """As ``Hosting.apply``."""
        identity, now = workload.identity, self._clock.now().timestamp()
        async with self._changing(identity) as nested:
            if identity.component is Component.ETCD:
                await self._keep(identity, data=True)
                if (
                    self._with_data(identity) == frozenset()
                ):  # a user gives up the data, or it is a new etcd's
                    await self._keep(identity, written=False)
            part = nested.parts.get(identity.component)
            if part is None or not part.workload.replicas:
                part = nested.parts[identity.component] = Part(workload, workload.fingerprint, now)
            part.workload = workload
            await self._settle(identity, nested)

    async def replace(self, identity: WorkloadIdentity, ordinal: int) -> None:
        """As ``Hosting.replace``: the API server or the controllers end and begin again.

        An etcd is a folder: of it only the settings are noted.
        """
        async with self._changing(identity) as nested:
            part = nested.parts.get(identity.component)
            if part is None or ordinal:
                return
            part.fingerprint, part.since = part.workload.fingerprint, self._clock.now().timestamp()
            if identity.component is not Component.ETCD:
                await self._stop_controllers(nested)
            if identity.component is Component.API_SERVER:
                await self._stop_server(nested)
            await self._settle(identity, nested)

    async def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        """As ``Hosting.remove``. The address stays reserved while there is data."""
        async with self._changing(identity) as nested:
            nested.parts.pop(identity.component, None)
            await self._settle(identity, nested)
            if identity.component is Component.ETCD:
                await self._let_data_go(identity, keep_data=keep_data)
            self._release(identity, nested)
        self._tell(identity)

    async def save_data(self, identity: WorkloadIdentity, target: Path) -> None:
        """As ``SavesData.save_data``."""
        await asyncio.to_thread(copies.take, self._data_folder(identity), target)

    def lacks_to_replace(self) -> str:
        """As ``ReplacesData.lacks_to_replace``: nothing."""
        return ""

    async def replace_data(self, identity: WorkloadIdentity, by: contract.Replacement) -> contract.Replaced:
        """As ``ReplacesData.replace_data``."""
        folder = self._data_folder(identity)
        async with self._changing(identity):
            if not copies.is_put_back(folder, by.mark):
                async with by.fetch() as source:
                    await asyncio.to_thread(copies.put_back, folder, source, by.mark)
            former = copies.former_of(folder, by.mark)
        ours = folder.parent.parent  # the data folder of this program
        return contract.Replaced("" if former is None else str(former.relative_to(ours)))

    def listen(self, changed: Callable[[Key], None]) -> None:
        """As ``Hosting.listen``."""
        self._listeners.append(changed)

    async def close(self) -> None:
        """End all controllers; ``planes`` ends the API servers."""
        for nested in list(self._nested.values()):
            async with nested.lock:
                await self._stop_retry(nested)
                await self._stop_controllers(nested)

    @asynccontextmanager
    async def _changing(self, identity: WorkloadIdentity) -> AsyncIterator[NestedPlane]:
        """What runs of a control plane, for one change at a time; forgotten when nothing of it is left."""
        nested = self._nested.setdefault(_plane_key(identity), NestedPlane())
        nested.changes += 1
        try:
            async with nested.lock:
                yield nested
        finally:
            nested.changes -= 1
            if nested.idle:
                self._nested.pop(_plane_key(identity), None)

    async def _settle(self, identity: WorkloadIdentity, nested: NestedPlane) -> None:
        """Start and stop what the components that are there ask for, and call the listeners."""
        serves = nested.wants(Component.ETCD) and nested.wants(Component.API_SERVER)
        controls = serves and nested.wants(Component.CONTROLLER_MANAGER)
        await self._stop_retry(nested)  # what it would try is tried now
        if not controls:
            await self._stop_controllers(nested)
        if not serves:
            await self._stop_server(nested)
        if serves and nested.plane is None:
            await self._start_server(identity, nested)
        if controls and nested.plane is not None and nested.controllers is None:
            self._start_controllers(identity, nested, nested.plane)
        for part in nested.parts.values():
            self._tell(part.workload.identity)

    async def _start_server(self, identity: WorkloadIdentity, nested: NestedPlane) -> None:
        part = nested.parts[Component.API_SERVER]
        try:
            nested.plane = await self._planes.begin_hosted(self._address(identity), keys_of(part.workload))
            part.message = ""
            await self._keep(identity, written=self._has_database(identity))
        except KubewrightError as error:
            part.message = str(error).replace(f"{self._folder}{os.sep}", "")
            log.warning(
                "an API server cannot start", control_plane=str(_plane_key(identity)), problem=str(error)
            )
            if nested.plane is None:  # it may have opened its data, which a restore has to replace meanwhile
                await self._planes.unload(self._address(identity))
            self._retry(identity, nested)

    def _retry(self, identity: WorkloadIdentity, nested: NestedPlane) -> None:
        if nested.retry is None:
            nested.retry = asyncio.create_task(self._settle_later(identity, nested))

    async def _settle_later(self, identity: WorkloadIdentity, nested: NestedPlane) -> None:
        await self._clock.sleep(delays.POLL.total_seconds())
        async with nested.lock:
            nested.retry = None
            await self._settle(identity, nested)

    async def _stop_retry(self, nested: NestedPlane) -> None:
        retry, nested.retry = nested.retry, None
        if retry is not None:
            retry.cancel()
            await asyncio.wait([retry])

    async def _stop_server(self, nested: NestedPlane) -> None:
        if (part := nested.parts.get(Component.API_SERVER)) is not None:
            part.message = ""  # why it could not start: it is not asked to any more
        plane, nested.plane = nested.plane, None
        if plane is not None:
            await self._planes.unload(plane.address)

    def _start_controllers(self, identity: WorkloadIdentity, nested: NestedPlane, plane: Plane) -> None:
        nested.parts[Component.CONTROLLER_MANAGER].message = ""
        nested.ending = asyncio.Event()
        running = self._run_controllers(plane, nested.ending)
        task = asyncio.ensure_future(running)
        task.add_done_callback(partial(self._controllers_ended, identity, nested))
        nested.controllers = task

    def _controllers_ended(
        self, identity: WorkloadIdentity, nested: NestedPlane, task: asyncio.Future[None]
    ) -> None:
        """Say why, and begin them again soon, unless they were stopped."""
        error = None if task.cancelled() else task.exception()
        if nested.controllers is not task:
            return
        nested.controllers = None
        log.error("the controllers ended", control_plane=str(_plane_key(identity)), exc_info=error)
        if (part := nested.parts.get(Component.CONTROLLER_MANAGER)) is not None:
            why = f" by a defect, {type(error).__name__}" if error is not None else ""
            part.message = f"its controllers ended{why}; they begin again in some seconds"
            self._retry(identity, nested)
            self._tell(part.workload.identity)

    async def _stop_controllers(self, nested: NestedPlane) -> None:
        task, nested.controllers = nested.controllers, None
        if task is not None:
            nested.ending.set()
            await asyncio.wait([task])

    def _address(self, identity: WorkloadIdentity) -> str:
        """The address of its API server; reserved, and written down, when it is first asked for."""
        known = self._kept.get(str(_plane_key(identity)))
        if known is not None:
            return known.address
        key = str(_plane_key(identity))
        address = self._planes.reserve(_owner(key), hosted=True)
        self._kept.add(key, address)
        return address

    def _data_folder(self, identity: WorkloadIdentity) -> Path:
        """Where its data is.

        Raises:
            InvalidInput: it is in memory.
        """
        if (path := self._planes.data_folder(self._address(identity))) is None:
            raise InvalidInput("the data of this control plane is in memory: there is nothing to copy")
        return path

    def _has_database(self, identity: WorkloadIdentity) -> bool:
        path = self._planes.data_folder(self._address(identity))
        return path is not None and (path / DATA_FILE).exists()

    async def _keep(self, identity: WorkloadIdentity, **changes: bool) -> None:
        """Write what has changed of ``Kept``; its address is reserved if it has none."""
        self._address(identity)
        await self._kept.change(str(_plane_key(identity)), **changes)

    async def _let_data_go(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        """Delete the data of an etcd that is removed; or only forget that it is wanted."""
        if keep_data:
            await self._keep(identity, data=False)
            return
        await self._planes.end(self._address(identity))
        await self._keep(identity, data=False, written=False)

    def _release(self, identity: WorkloadIdentity, nested: NestedPlane) -> None:
        """Forget a control plane of which nothing is left; kept data keeps its address taken."""
        key = str(_plane_key(identity))
        kept = self._kept.get(key)
        if nested.parts or kept is None or kept.data or self._planes.has_data(kept.address):
            return
        self._kept.forget(key)
        self._planes.release(_owner(key))

    def _tell(self, identity: WorkloadIdentity) -> None:
        for changed in self._listeners:
            changed(identity.key)


def _plane_key(identity: WorkloadIdentity) -> Key:
    return Key(identity.namespace, identity.cluster)


def _owner(key: str) -> str:
    return f"nested control plane {key}"
