"""VMs without a machine, class by class: when they are listed, and how those that are confirmed are deleted.

Theory.      The VMs of a class are listed at the start, every period, and soon after something doubtful. The
             end of a machine that has had its provider id recorded for long enough is no reason for a
             list: no VM of it is left. The end of a young machine, or of one without a provider id, is a
             reason, and so is a machine whose cloud said that it has several VMs. A reason enqueues the class
             some time later; further reasons until then change nothing. How old a machine was is all that is
             known of it then: if another process called for a second VM minutes after the machine was
             created, and the VM on record is the first, the list of the next period finds it.
             A list that lags, is partial or is answered for another account lacks VMs that run. So that a
             list lacks the VM of a node that is being drained ends nothing: the node is deleted when a second
             list lacks it too, ``confirmation`` later, which is the rule for suspects the other way round. A
             VM of which the driver itself has said that it is gone needs no list.
Invariants.  No pass begins a deletion while a cluster is not watched: the node could be missing in our cache,
             and its pods would not be drained. That is asked once in a pass; a deletion that has begun goes
             on. What is remembered of a drain stays while its VM is suspect or missing.
Called by    ``machines.world`` for ``wire``; ``runtime.controller``, with the key of a MachineClass.
             Continues in ``decide`` and ``nodes``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import structlog

from kubewright.api.core import Node, Secret
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MACHINE, Machine, MachineClass
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import soonest
from kubewright.driver.contract import ClassRequest, Instance
from kubewright.driver.errors import Code, Unimplemented
from kubewright.driver.life.orphans import NotListed, OrphanSettings, may_leave_a_vm
from kubewright.kube.informer import Change
from kubewright.machines.caches import Shared, class_key
from kubewright.machines.orphans.decide import (
    ListedVm,
    is_second,
    scheme,
    why_kept_by_cache,
    why_kept_by_server,
)
from kubewright.machines.orphans.nodes import ALL, NOT_MANAGED, NodeCleanup, OrphanNodes
from kubewright.orphans import Collector, Deletion, Noted, Suspects, controller, from_server, listed
from kubewright.runtime.controller import Controller, spec_or_existence
from kubewright.runtime.result import Result
from kubewright.wire.gvk import Key

Busy = Callable[[str], bool]
"""Whether a cloud call for the machine with this uid is under way in this process."""

COLLECTED_BY = "orphan-of"
"""The index of nodes by the class that is collecting their VM."""

log = structlog.get_logger(__name__)


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
        self._policy = ClassPolicy(shared, cleanup)
        self._suspects = Suspects(settings, shared.clock)
        self._collector = Collector(self._policy, shared.driver, self._suspects)
        self._missing = Suspects(settings, shared.clock)
        """VMs that the last list lacks although their nodes are marked; confirmed as suspects are."""
        self._cannot_list = False
        shared.metrics.gauge(
            "machine_orphan_vms",
            "VMs that no machine wants, as last seen",
            ("namespace", "machineclass"),
            self._counts,
        )

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            NotListed: the cloud did not answer with a list.
        """
        if problem := self._caches.classes.problem(key):
            log.info("the VMs of a class are not listed", machine_class=str(key), because=problem)
            return Result.later(self._settings.period)  # told a part, a driver could list another account
        found = self._caches.classes.get(key)
        if found is None or self._cannot_list:
            self._forget(self._suspects.forget(key) | self._missing.forget(key))
            return Result.done()
        seen = self._caches.with_secrets(found)
        if not seen.can_call:
            self._not_listed(found, seen.problem)
            return Result.later(self._settings.period)
        request = ClassRequest(found, seen.secret)
        began = self._shared.clock.monotonic()
        vms = await self._listed(request)
        if vms is None:
            return Result.done()
        noted, missing = self._note(key, vms, began)
        if lost := self._lost():
            log.info("no VM is deleted while a cluster is not visible", machine_class=str(key), cluster=lost)
            waits = noted.confirmed or self._caches.nodes.keys_by(COLLECTED_BY, str(key))
            return self._next(noted.wake, hurry=bool(waits))
        settled = await self._settle_marked_nodes(key, _ids(missing.confirmed))
        target = Target(request, _ids(vms))
        wake = soonest(missing.wake, await self._collector.collect(key, noted, lambda _vm: target))
        return self._next(wake, hurry=not settled)

    def _next(self, wake: float | None, *, hurry: bool) -> Result:
        """When to list again: at the next wake-up, soon when work is left, else in a period."""
        soon = Result.later(self._settings.soon if hurry else None)
        return Result.later(self._settings.period).sooner(soon).sooner(Result.later(wake))

    def _counts(self) -> Iterable[tuple[tuple[str, str], float]]:
        """How many VMs of each class are suspect now; for a gauge."""
        return [((key.namespace, key.name), number) for key, number in self._suspects.counts()]

    async def _listed(self, request: ClassRequest) -> Sequence[Instance] | None:
        """The VMs of a class; None when this driver cannot tell, which it is asked once."""
        machine_class = request.machine_class
        try:
            whose = f"class {machine_class.namespace}/{machine_class.name}"
            return await listed(self._shared.driver, request, whose)
        except Unimplemented:
            if not self._cannot_list:
                self._not_listed(machine_class, "this driver cannot list VMs")
            self._cannot_list = True
            return None
        except NotListed as error:
            self._not_listed(machine_class, str(error.__cause__))
            raise

    def _not_listed(self, machine_class: MachineClass, why: str) -> None:
        log.info("the VMs of a class are not listed", machine_class=machine_class.name, because=why)
        message = f"VMs without a machine are not looked for: {why}"
        self._shared.recorder.event(machine_class, EventReason.FAILED_LIST_VMS, message, warning=True)

    def _lost(self) -> str:
        """Which cluster our caches do not see now, however short; empty if none. No deletion is urgent."""
        return self._caches.unreachable(self._shared.clock.monotonic(), 0.0)

    def _note(self, key: Key, listed: Sequence[Instance], began: float) -> tuple[Noted, Noted]:
        """What a list changes: of the VMs that no machine wants, and of those that it lacks."""
        unwanted = [each.vm for each in self._listed_vms(key, listed) if not why_kept_by_cache(each)]
        noted = self._suspects.note(key, unwanted, began=began)
        missing = self._missing.note(key, self._lacking(key, _ids(listed)), began=began)
        self.schemes.update(found for vm in listed if (found := scheme(vm.provider_id)))
        self._forget(noted.cleared | missing.cleared)
        if noted.new:
            wait = self._settings.confirmation.total_seconds()
            log.info("VMs without a machine", machine_class=str(key), vms=noted.new, confirmed_in=wait)
        return noted, missing

    def _lacking(self, key: Key, listed: AbstractSet[str]) -> Iterable[Instance]:
        """The VMs that this list lacks, and no other class's either, of nodes that this class has marked."""
        nodes = self._caches.nodes.by(COLLECTED_BY, str(key))
        found = [node for node in nodes if not self._cleanup.owners(node)]
        unlisted = self._suspects.unsuspected({node.spec.provider_id for node in found}) - listed
        return [Instance(vm_id, "") for vm_id in unlisted]

    def _forget(self, vm_ids: Iterable[str]) -> None:
        """Drop what is remembered of these VMs, except of those that are suspect or missing."""
        for vm_id in self._missing.unsuspected(self._suspects.unsuspected(vm_ids)):
            self._cleanup.forget(vm_id)

    def _listed_vms(self, key: Key, listed: Sequence[Instance]) -> list[ListedVm]:
        """The list, matched with machines: by owner uid or, without one, by machine name in any namespace."""
        there = list(self._caches.machines.headers())
        owners = {header.uid for header in there} | {header.key.name for header in there}
        ids, counted = _ids(listed), Counter(vm.machine_name for vm in listed)
        found: list[ListedVm] = []
        for vm in listed:
            exists = (vm.owner_uid or vm.machine_name) in owners
            alone = exists and counted[vm.machine_name] == 1
            found.append(ListedVm(vm, owner_exists=True) if alone else self._read(key, vm, exists, ids))
        return found

    def _read(self, key: Key, vm: Instance, owner_exists: bool, ids: AbstractSet[str]) -> ListedVm:
        """All that is known of a VM without a machine, or with others of its machine: these are few."""
        machines = self._caches.machines
        return ListedVm(
            vm,
            owner_exists=owner_exists,
            listed=ids,
            recorded=bool(machines.keys_by("provider-id", vm.provider_id)),
            busy=self._busy(vm.owner_uid),
            same_name=machines.part(Key(key.namespace, vm.machine_name)) if vm.machine_name else None,
        )

    async def _settle_marked_nodes(self, key: Key, gone: AbstractSet[str]) -> bool:
        """End what an earlier pass or process began on nodes whose VMs this class was deleting. A node whose
        VM is ``gone`` is deleted; one that has a machine again loses the marks. Whether all that was done.
        """
        done = []
        for node in self._caches.nodes.by(COLLECTED_BY, str(key)):
            if self._cleanup.owners(node):
                done.append(await self._policy.release_node(node))
            elif node.spec.provider_id in gone:
                done.append(await self._policy.delete_node(node.metadata.name, node.spec.provider_id))
        return all(done)


# ---------------------------------------------------------------- what goes with a VM, and when it may go


@dataclass(frozen=True, slots=True)
class Target:
    """A class whose orphans are deleted.

    ``request``  what its driver was asked
    ``listed``   the provider ids of all VMs on the list
    """

    request: ClassRequest
    listed: AbstractSet[str]

    @property
    def key(self) -> Key:
        """That of the class."""
        return Key(self.request.machine_class.namespace, self.request.machine_class.name)


class ClassPolicy:
    """The policy of ``orphans.Collector`` for the VMs of a class: their nodes are drained, and go with them.

    The order is that of a machine's deletion: cordon and drain the node, wait for its volumes, delete the VM,
    delete the node. What is not done yet ends the pass. Before anything is touched, and again after the
    drain, the server has said that there is no such machine, or that it is Running on another VM.
    """

    tells_of_gone = False

    def __init__(self, shared: Shared, cleanup: NodeCleanup) -> None:
        self._shared = shared
        self._cleanup = cleanup
        self._collected = shared.metrics.counter(
            "machine_orphan_vms_collected",
            "VMs that were deleted because no machine wanted them",
            ("namespace", "machineclass"),
        )

    async def may_go(self, target: Target, vm: Instance) -> Deletion | str:
        """As ``Policy.may_go``."""
        machine = await self._machine(target, vm)
        if why := why_kept_by_server(vm, machine, target.listed):
            return why
        nodes = self._cleanup.unowned_nodes(vm.provider_id)
        for node in nodes:
            if not await self._cleanup.empty(node, target.key):
                return ""
        if nodes:
            machine = await self._machine(target, vm)
            if why := why_kept_by_server(vm, machine, target.listed):
                return why
        known = {node.metadata.name for node in nodes} | ({vm.node_name} if vm.node_name else set())
        namespace = target.key.namespace
        if is_second(vm, machine, target.listed):  # by owner the driver could find the other one
            return Deletion(target.request, namespace, "", "its machine has another VM", known)
        return Deletion(target.request, namespace, vm.owner_uid, nodes=known)

    async def is_cleared(self, vm: Instance, deletion: Deletion) -> bool:
        """As ``Policy.is_cleared``: whether its nodes are deleted."""
        return all([await self.delete_node(name, vm.provider_id) for name in sorted(deletion.nodes)])

    def deleted(self, target: Target, message: str) -> None:
        """As ``Policy.deleted``."""
        self._shared.recorder.event(target.request.machine_class, EventReason.ORPHAN_DELETED, message)
        self._collected.labels(target.key.namespace, target.key.name).inc()

    def failed(self, target: Target, message: str) -> None:
        """As ``Policy.failed``."""
        about, reason = target.request.machine_class, EventReason.FAILED_ORPHAN_DELETE
        self._shared.recorder.event(about, reason, message, warning=True)

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

    async def _machine(self, target: Target, vm: Instance) -> Machine | None:
        """The machine with the name that the VM was made for, from the server and not from the cache."""
        return await from_server(self._shared.control, MACHINE, Key(target.key.namespace, vm.machine_name))


def _ids(listed: Iterable[Instance]) -> frozenset[str]:
    return frozenset(vm.provider_id for vm in listed)


# ---------------------------------------------------------------- when they are listed

SEVERAL = Code.OutOfRange.name.encode()
"""The code by which a driver says that the cloud has several VMs of one machine. It is looked for in the
undecoded machine: where it stands elsewhere, in an annotation, that costs one list."""


def wire(shared: Shared, settings: OrphanSettings, busy: Busy) -> tuple[Controller, Controller]:
    """The two controllers: of classes with their VMs, and of nodes."""
    caches, clock, metrics = shared.caches, shared.clock, shared.metrics

    def wake(key: Key) -> None:
        classes.enqueue(key, "pods of a VM have been asked to leave", after=delays.SOON.total_seconds())

    cleanup = NodeCleanup(shared, wake)
    vms = OrphanVms(shared, settings, busy, cleanup)
    caches.nodes.index(COLLECTED_BY, lambda node: _annotation(node, names.ORPHAN_OF_ANNOTATION))
    caches.nodes.index(NOT_MANAGED, _not_managed)
    classes = controller("orphanvms", vms, clock, metrics)
    looker = OrphanNodes(shared, settings, vms.schemes, cleanup.owners)
    nodes = Controller("orphannodes", looker, clock, workers=1, metrics=metrics)
    soon, steady = settings.soon.total_seconds(), shared.control.steady()

    def class_changed(change: Change[MachineClass]) -> None:
        if spec_or_existence(change):
            classes.enqueue(change.key, "the VMs of a class are listed", after=soon)

    def secret_changed(change: Change[Secret]) -> None:
        if change.old is None:
            for key in caches.classes.keys_by("secret", str(change.key)):
                classes.enqueue(key, f"Secret {change.key} is there", after=soon)

    def machine_changed(change: Change[Machine]) -> None:
        with suppress(KubewrightError):  # an object that does not have the form of its kind
            if (key := class_to_list(change, steady.now())) is not None:
                classes.enqueue(key, f"Machine {change.key} may have left a VM", after=soon)
        if caches.nodes.keys_by(NOT_MANAGED, NOT_MANAGED) and may_have_a_node(change):
            nodes.enqueue(ALL, f"Machine {change.key} may have a node", after=soon)

    caches.classes.subscribe(class_changed)
    caches.secrets.subscribe(secret_changed)
    caches.machines.subscribe(machine_changed)
    nodes.enqueue(ALL, "the first pass", after=2 * soon)  # when lists have told which nodes can be ours
    return classes, nodes


def class_to_list(change: Change[Machine], now: datetime) -> Key | None:
    """The class whose VMs a change of a machine is a reason to list. ``now`` is of a steady clock."""
    if change.new is None:
        gone = change.before()
        return class_key(gone) if gone is not None and _doubtful(gone, now) else None
    if SEVERAL not in change.new.data or (change.old is not None and SEVERAL in change.old.data):
        return None
    after = change.after()
    return class_key(after) if after is not None else None


def may_have_a_node(change: Change[Machine]) -> bool:
    """Whether a machine came, or says of another node or VM than before that it is its own."""
    if change.new is None:
        return False
    name = names.NODE_LABEL
    return spec_or_existence(change) or (
        change.old is not None and change.old.labels.get(name) != change.new.labels.get(name)
    )


def _doubtful(gone: Machine, now: datetime) -> bool:
    """Whether a creation may have been under way when the machine went."""
    recorded = bool(gone.spec.provider_id and names.node_name(gone.metadata.labels))
    return may_leave_a_vm(gone.metadata.creation_timestamp, now, recorded=recorded)


def _annotation(node: Node, name: str) -> tuple[str, ...]:
    value = node.metadata.annotations.get(name)
    return (value,) if value else ()


def _not_managed(node: Node) -> tuple[str, ...]:
    return (NOT_MANAGED,) if names.NOT_MANAGED_ANNOTATION in node.metadata.annotations else ()
