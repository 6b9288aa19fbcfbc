"""When the VMs of a class are listed: at the start, every period, and soon after something doubtful.

Theory.      The end of a machine that has had its provider id recorded for long enough is no reason for a
             list: no VM of it is left. The end of a young machine, or of one without a provider id, is a
             reason, and so is a machine whose cloud said that it has several VMs. A reason enqueues the class
             some time later; further reasons until then change nothing. How old a machine was is all that is
             known of it then: if another process called for a second VM minutes after the machine was
             created, and the VM on record is the first, the list of the next period finds it.
Called by    ``machines.world``.
"""

from contextlib import suppress
from datetime import datetime

from kubewright.api.core import Node, Secret
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine, MachineClass
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.driver.errors import Code
from kubewright.driver.life.orphans import OrphanSettings, may_leave_a_vm
from kubewright.kube.informer import Change
from kubewright.machines.caches import Shared, class_key
from kubewright.machines.orphans.cleanup import NodeCleanup
from kubewright.machines.orphans.nodes import ALL, NOT_MANAGED, OrphanNodes
from kubewright.machines.orphans.vms import COLLECTED_BY, Busy, OrphanVms
from kubewright.orphans import controller
from kubewright.runtime.controller import Controller, spec_or_existence
from kubewright.wire.gvk import Key

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
