"""The reconciler of classes that lists their VMs and deletes, after confirmation, those without a machine.

Called by    ``runtime.controller``, with the key of a MachineClass. Continues in ``decide`` and ``collect``.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import structlog

from kubewright.api.machine.names import EventReason
from kubewright.base.errors import Backoff, KubewrightError, Retry
from kubewright.driver.contract import ClassRequest, Instance
from kubewright.driver.errors import DriverError, Unimplemented
from kubewright.driver.life.orphans import OrphanSettings, SuspectUpdate, update_suspects
from kubewright.machines.machine.caches import Shared
from kubewright.machines.orphans.cleanup import NodeCleanup
from kubewright.machines.orphans.collect import Collector
from kubewright.machines.orphans.decide import ListedVm, scheme, why_kept
from kubewright.runtime.result import Result
from kubewright.wire.gvk import Key

Busy = Callable[[str], bool]
"""Whether a cloud call for the machine with this uid is under way in this process."""

COLLECTED_BY = "orphan-of"
"""The index of nodes by the class that is collecting their VM."""

log = structlog.get_logger(__name__)


class NotListed(KubewrightError):
    """The cloud did not tell which VMs a class has. Asked again less and less often."""

    retry: Retry = Backoff()


class OrphanVms:
    """A key is that of a MachineClass; other controllers do what else classes need."""

    def __init__(self, shared: Shared, settings: OrphanSettings, busy: Busy, cleanup: NodeCleanup) -> None:
        self.schemes: set[str] = set()
        """The schemes of all provider ids that were ever listed: the clouds that our classes use."""
        self._shared = shared
        self._caches = shared.caches
        self._settings = settings
        self._busy = busy
        self._cleanup = cleanup
        self._collector = Collector(shared, cleanup)
        self._since: dict[Key, Mapping[str, float]] = {}
        self._cannot_list = False

    async def reconcile(self, key: Key) -> Result:
        """One look.

        Raises:
            NotListed: the cloud did not answer with a list.
        """
        found = self._caches.classes.get(key)
        if found is None or self._cannot_list:
            self._since.pop(key, None)
            return Result.done()
        seen = self._caches.with_secrets(found)
        if not seen.can_call:
            log.info("the VMs of a class are not listed", machine_class=str(key), because=seen.problem)
            return self._next()
        request = ClassRequest(found, seen.secret)
        began = self._shared.clock.monotonic()
        listed = await self._listed(request)
        if listed is None:
            return Result.done()
        updated = self._update_suspects(key, listed, began)
        cleaned = await self._delete_leftover_nodes(key, _ids(listed))
        gone = await self._collect(request, updated.confirmed, _ids(listed))
        return self._next(updated.wake, hurry=not (cleaned and gone))

    def suspects(self) -> Iterable[tuple[tuple[str, str], float]]:
        """How many VMs of each class are suspect now; for a gauge."""
        return [((key.namespace, key.name), len(since)) for key, since in self._since.items()]

    async def _listed(self, request: ClassRequest) -> Sequence[Instance] | None:
        """The VMs of a class; None when this driver cannot tell, which it is asked once."""
        try:
            return await self._shared.driver.list(request)
        except Unimplemented:
            if not self._cannot_list:
                log.info("this driver cannot list VMs, so those without a machine are not looked for")
            self._cannot_list = True
            return None
        except DriverError as error:
            meta = request.machine_class.metadata
            told = f"the VMs of class {meta.namespace}/{meta.name} were not listed: {error}"
            event = f"VMs without a machine are not looked for: {error}"
            self._shared.recorder.event(
                request.machine_class, EventReason.FAILED_LIST_VMS, event, warning=True
            )
            raise NotListed(told) from error

    def _update_suspects(self, key: Key, listed: Sequence[Instance], began: float) -> SuspectUpdate:
        before = self._since.get(key, {})
        updated = update_suspects(
            [each.vm for each in self._listed_vms(key, listed) if not why_kept(each)],
            before,
            began=began,
            ended=self._shared.clock.monotonic(),
            confirmation=self._settings.confirmation.total_seconds(),
        )
        self._since[key] = updated.suspects
        self.schemes.update(found for vm in listed if (found := scheme(vm.provider_id)))
        for vm_id in before.keys() - updated.suspects.keys():
            self._cleanup.forget(vm_id)
        if new := sorted(updated.suspects.keys() - before.keys()):
            wait = self._settings.confirmation.total_seconds()
            log.info("VMs without a machine", machine_class=str(key), vms=new, confirmed_in=wait)
        return updated

    def _listed_vms(self, key: Key, listed: Sequence[Instance]) -> list[ListedVm]:
        """The list, matched with machines: by owner uid or, without one, by machine name in any namespace."""
        there = list(self._caches.machines.headers())
        owners = {header.uid for header in there} | {header.key.name for header in there}
        ids, counted = _ids(listed), Counter(vm.machine_name for vm in listed)
        return [
            ListedVm(vm, owner_exists=True)
            if (vm.owner_uid or vm.machine_name) in owners and counted[vm.machine_name] == 1
            else self._looked_at(key, vm, (vm.owner_uid or vm.machine_name) in owners, ids)
            for vm in listed
        ]

    def _looked_at(self, key: Key, vm: Instance, owner_exists: bool, ids: AbstractSet[str]) -> ListedVm:
        """All that is known of a VM without a machine, or with others of its machine: these are few."""
        machines = self._caches.machines
        return ListedVm(
            vm,
            owner_exists=owner_exists,
            listed=ids,
            recorded=bool(machines.keys_by("provider-id", vm.provider_id)),
            busy=self._busy(vm.owner_uid),
            same_name=machines.get(Key(key.namespace, vm.machine_name)) if vm.machine_name else None,
        )

    async def _delete_leftover_nodes(self, key: Key, listed: AbstractSet[str]) -> bool:
        """Delete the nodes whose VMs an earlier process was deleting and are gone. Whether none is left."""
        marked = self._caches.nodes.by(COLLECTED_BY, str(key))
        gone = [node for node in marked if node.spec.provider_id not in listed]
        left = [node for node in gone if not self._cleanup.owners(node)]
        done = [await self._collector.delete_node(node.metadata.name, node.spec.provider_id) for node in left]
        return all(done)

    async def _collect(
        self, request: ClassRequest, vms: Sequence[Instance], listed: AbstractSet[str]
    ) -> bool:
        """Delete up to ``at_once`` VMs concurrently. Whether all of them are gone."""
        some = vms[: self._settings.at_once]
        async with asyncio.TaskGroup() as group:
            ends = [group.create_task(self._collector.collect(request, vm, listed)) for vm in some]
        return len(some) == len(vms) and all(end.result() for end in ends)

    def _next(self, wake: float | None = None, *, hurry: bool = False) -> Result:
        """When to look again: when a suspect can be confirmed, soon when work is left, else in a period."""
        soon = Result.later(self._settings.soon if hurry else None)
        return Result.later(self._settings.period).sooner(soon).sooner(Result.later(wake))


def _ids(listed: Iterable[Instance]) -> frozenset[str]:
    return frozenset(vm.provider_id for vm in listed)
