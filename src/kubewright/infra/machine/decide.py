"""Decide what to do with one KubewrightMachine: the plan of the first decider that has one.

Called by    ``reconciler.InfraMachines``. Continues in ``creation`` and ``deletion``.
"""

from collections.abc import Callable

from kubewright.api.infra.names import MACHINE_FINALIZER
from kubewright.base.plan import in_order
from kubewright.infra.machine.creation import (
    add_finalizer,
    await_node,
    ensure_vm,
    record_vm,
    refuse_invalid,
    report_complete,
    respect_failure,
    wait_for_cluster,
    wait_for_data,
    wait_for_infrastructure,
    wait_for_owner,
)
from kubewright.infra.machine.deletion import delete_vm, leave_to_original, remove_finalizer
from kubewright.infra.machine.seen import Seen
from kubewright.infra.machine.steps import Plan

Decider = Callable[[Seen], Plan | None]
LIVING: tuple[Decider, ...] = (
    wait_for_owner, respect_failure, wait_for_cluster, add_finalizer, record_vm, wait_for_infrastructure,
    wait_for_data, refuse_invalid, ensure_vm, await_node, report_complete,
)  # fmt: skip
DELETING: tuple[Decider, ...] = (leave_to_original, delete_vm, remove_finalizer)


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. Pure: an equal ``Seen`` gives an equal plan."""
    if seen.paused:
        return Plan(because="it, or its cluster, is paused")
    if not seen.machine.metadata.deleting:
        return in_order(LIVING, seen, Plan())
    if MACHINE_FINALIZER not in seen.machine.metadata.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours")
    return in_order(DELETING, seen, Plan())
