"""Delete one VM without a machine, and its node.

Theory.      The order is that of a machine's deletion: cordon and drain the node, wait for its volumes,
             delete the VM, delete the node. What is not done yet ends the pass; the next one over the class
             goes on.
Invariants.  Before anything is touched, and again after the drain, before the driver is asked to delete the
             VM, the *server* has said that there is no such machine, or that it is Running on another VM. The
             driver's call may then wait minutes for its slot (``driver.guard``), and is not called off.
             "There is no such machine" is an answer that names it: while the kind is not served every path of
             it answers 404.
             Nothing here raises for one VM: a later pass tries again, after the pause of a cloud's error.
Called by    ``vms``, by way of ``driver.life.suspects``.
"""

from collections.abc import Set as AbstractSet
from datetime import timedelta

import structlog

from kubewright.api.core import Node
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.base.errors import KubewrightError
from kubewright.driver import errors as cloud
from kubewright.driver.contract import ClassRequest, Instance, stub
from kubewright.machines.caches import Shared
from kubewright.machines.orphans.cleanup import NodeCleanup
from kubewright.machines.orphans.decide import is_second, why_kept_by_server
from kubewright.wire.errors import NotFound, is_refusal
from kubewright.wire.gvk import Key

NO_PAUSE = timedelta(0)
"""Nothing failed that a cloud asks to wait for: the next pass may go on."""

log = structlog.get_logger(__name__)


class Collector:
    """Deletes VMs and their nodes, on behalf of a class."""

    def __init__(self, shared: Shared, cleanup: NodeCleanup) -> None:
        self._shared = shared
        self._cleanup = cleanup
        self._under_way: set[str] = set()
        self._collected = shared.metrics.counter(
            "machine_orphan_vms_collected",
            "VMs that were deleted because no machine wanted them",
            ("namespace", "machineclass"),
        )

    async def collect(
        self, request: ClassRequest, vm: Instance, *, listed: AbstractSet[str]
    ) -> timedelta | None:
        """Go on with the deletion of a confirmed orphan. None: the VM and its node are gone; else how long to
        wait at least before it is tried again.

        ``listed`` are the provider ids of all VMs that were listed with it. One that several classes list
        is left to the one that began.
        """
        if vm.provider_id in self._under_way:
            return NO_PAUSE
        self._under_way.add(vm.provider_id)
        try:
            return None if await self._collect(request, vm, listed) else NO_PAUSE
        except KubewrightError as error:
            log.warning("a VM without a machine is not gone", vm=vm.provider_id, error=str(error))
            if is_refusal(error):
                why = f"the API server refused: {error}"
                self._failed(request, vm, why)
            return error.pause(cloud.During.DELETING) if isinstance(error, cloud.DriverError) else NO_PAUSE
        finally:
            self._under_way.discard(vm.provider_id)

    async def delete_node(self, node_name: str, provider_id: str) -> bool:
        """Delete the node of a VM that is gone; whether that could be done."""
        try:
            await self._cleanup.delete_node(node_name, provider_id)
        except KubewrightError as error:
            log.info("the node of a collected VM is still there", node=node_name, error=str(error))
            return False
        return True

    async def release_node(self, node: Node) -> bool:
        """Take the marks of a deletion off a node that has a machine again; whether that could be done."""
        try:
            await self._cleanup.release(node)
        except KubewrightError as error:
            log.info("a node with a machine is still cordoned", node=node.metadata.name, error=str(error))
            return False
        return True

    async def _collect(self, request: ClassRequest, vm: Instance, listed: AbstractSet[str]) -> bool:
        place = request.machine_class.metadata
        machine = await self._machine(place.namespace, vm)
        if _spared(vm, machine, listed):
            return False
        nodes = self._cleanup.unowned_nodes(vm.provider_id)
        for node in nodes:
            if not await self._cleanup.empty(node, Key(place.namespace, place.name)):
                return False
        if nodes:
            machine = await self._machine(place.namespace, vm)
            if _spared(vm, machine, listed):
                return False
        await self._delete(request, vm, second=is_second(vm, machine, listed))
        known = {node.metadata.name for node in nodes} | ({vm.node_name} if vm.node_name else set())
        return all([await self.delete_node(name, vm.provider_id) for name in sorted(known)])

    async def _machine(self, namespace: str, vm: Instance) -> Machine | None:
        """The machine with the name that the VM was made for, from the server and not from the cache.

        Raises:
            ApiError, TransportError: the server did not say whether there is one.
        """
        try:
            return await self._shared.control.get(MACHINE, Key(namespace, vm.machine_name))
        except NotFound as error:
            if not error.names(vm.machine_name):
                raise
            return None

    async def _delete(self, request: ClassRequest, vm: Instance, *, second: bool) -> None:
        """Delete the VM; the ``second`` of a machine by its provider id alone: by owner the driver could find
        the other one."""
        machine_class, place = request.machine_class, request.machine_class.metadata
        known = {"provider_id": vm.provider_id, "node_name": vm.node_name}
        machine = stub(vm.machine_name, place.namespace, "" if second else vm.owner_uid, **known)
        try:
            await self._shared.driver.delete(request.of(machine))
        except cloud.NotFound:
            return
        except cloud.DriverError as error:
            self._failed(request, vm, str(error))
            raise
        log.warning("a VM without a machine is deleted", vm=vm.provider_id, machine=vm.machine_name)
        why = "its machine has another VM" if second else "there is no such machine"
        message = f"Deleted VM {vm.provider_id} of machine {vm.machine_name}: {why}"
        self._shared.recorder.event(machine_class, EventReason.ORPHAN_DELETED, message)
        self._collected.labels(place.namespace, place.name).inc()

    def _failed(self, request: ClassRequest, vm: Instance, why: str) -> None:
        message = f"VM {vm.provider_id} of machine {vm.machine_name} is not deleted: {why}"
        self._shared.recorder.event(
            request.machine_class, EventReason.FAILED_ORPHAN_DELETE, message, warning=True
        )


def _spared(vm: Instance, machine: Machine | None, listed: AbstractSet[str]) -> bool:
    """Whether the machine with the name that the VM was made for needs the VM; logs why."""
    if why := why_kept_by_server(vm, machine, listed):
        log.info("a VM without a machine is spared", vm=vm.provider_id, because=why)
    return bool(why)
