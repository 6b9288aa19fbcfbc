"""Delete one VM without a machine, and its node.

Theory.      The order is that of a machine's deletion: cordon and drain the node, delete the VM, delete the
             node. A drain that is not done ends the pass; the next look at the class goes on with it.
Invariants.  Before anything is touched, and again directly before the VM is deleted, the *server* has
             said that there is no such machine, or that it is Running on another VM. Nothing here raises for
             one VM: the next look tries again.
Called by    ``vms``.
"""

from collections.abc import Set as AbstractSet
from contextlib import suppress

import structlog

from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.base.errors import KubewrightError
from kubewright.driver import errors as cloud
from kubewright.driver.contract import ClassRequest, Instance, stub
from kubewright.machines.machine.caches import Shared
from kubewright.machines.orphans.cleanup import NodeCleanup
from kubewright.machines.orphans.decide import is_second, why_spared
from kubewright.wire.errors import NotFound, is_refusal
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class Collector:
    """Deletes VMs and their nodes, on behalf of a class."""

    def __init__(self, shared: Shared, cleanup: NodeCleanup) -> None:
        self._shared = shared
        self._cleanup = cleanup
        self._going: set[str] = set()
        self._collected = shared.metrics.counter(
            "machine_orphan_vms_collected",
            "VMs that were deleted because no machine wanted them",
            ("namespace", "machineclass"),
        )

    async def collect(self, of: ClassRequest, vm: Instance, listed: AbstractSet[str]) -> bool:
        """Go on with the deletion of a confirmed orphan; whether the VM and its node are gone.

        ``listed`` are the provider ids of all VMs that were listed with it. One that several classes list
        is left to the one that began.
        """
        if vm.provider_id in self._going:
            return False
        self._going.add(vm.provider_id)
        try:
            return await self._end(of, vm, listed)
        except KubewrightError as error:
            log.warning("a VM without a machine is not gone", vm=vm.provider_id, error=str(error))
            if is_refusal(error):
                told = f"VM {vm.provider_id} is not deleted: the API server refused: {error}"
                self._shared.recorder.event(
                    of.machine_class, EventReason.FAILED_ORPHAN_DELETE, told, warning=True
                )
            return False
        finally:
            self._going.discard(vm.provider_id)

    async def delete_node(self, node_name: str, provider_id: str) -> bool:
        """Delete the node of a VM that is gone; whether that could be done."""
        try:
            await self._cleanup.delete_node(node_name, provider_id)
        except KubewrightError as error:
            log.info("the node of a collected VM is still there", node=node_name, error=str(error))
            return False
        return True

    async def _end(self, of: ClassRequest, vm: Instance, listed: AbstractSet[str]) -> bool:
        place = of.machine_class.metadata
        machine = await self._machine(place.namespace, vm)
        if _spared(vm, machine, listed):
            return False
        nodes = self._cleanup.of(vm.provider_id)
        for node in nodes:
            if not await self._cleanup.empty(node, f"{place.namespace}/{place.name}"):
                return False
        if nodes and _spared(vm, machine := await self._machine(place.namespace, vm), listed):
            return False
        await self._delete(of, vm, second=is_second(vm, machine, listed))
        return await self.delete_node(vm.node_name, vm.provider_id)

    async def _machine(self, namespace: str, vm: Instance) -> Machine | None:
        """The machine with the name that the VM was made for, from the server and not from the cache."""
        with suppress(NotFound):
            return await self._shared.control.get(MACHINE, Key(namespace, vm.machine_name))
        return None

    async def _delete(self, of: ClassRequest, vm: Instance, *, second: bool) -> None:
        """Delete the VM; the ``second`` of a machine by its provider id alone: by owner the driver could find
        the other one."""
        found, place = of.machine_class, of.machine_class.metadata
        tell, what = self._shared.recorder.event, f"{vm.provider_id} of machine {vm.machine_name}"
        known = {"provider_id": vm.provider_id, "node_name": vm.node_name}
        machine = stub(vm.machine_name, place.namespace, "" if second else vm.owner_uid, **known)
        try:
            await self._shared.driver.delete(of.of(machine))
        except cloud.NotFound:
            return
        except cloud.DriverError as error:
            tell(found, EventReason.FAILED_ORPHAN_DELETE, f"VM {what} is not deleted: {error}", warning=True)
            raise
        log.warning("a VM without a machine is deleted", vm=vm.provider_id, machine=vm.machine_name)
        why = "its machine has another VM" if second else "there is no such machine"
        tell(found, EventReason.ORPHAN_DELETED, f"Deleted VM {what}: {why}")
        self._collected.labels(place.namespace, place.name).inc()


def _spared(vm: Instance, machine: Machine | None, listed: AbstractSet[str]) -> bool:
    """Whether the machine with the name that the VM was made for needs the VM; logs why."""
    if why := why_spared(vm, machine, listed):
        log.info("a VM without a machine is spared", vm=vm.provider_id, because=why)
    return bool(why)
