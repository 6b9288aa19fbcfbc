"""Decide what to do with one machine: of its list of deciders, the first one with a plan counts.

Called by    ``reconciler.Machines``. Continues in ``creation``, ``health``, ``hot_update``,
             ``in_place`` and ``deletion``.
"""

from collections.abc import Callable
from dataclasses import replace

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.base.clock import rfc3339
from kubewright.machines.machine.creation import (
    add_finalizer,
    await_no_node,
    ensure_vm,
    prolong_token,
    record_vm,
    refuse_invalid,
    refuse_name_conflict,
)
from kubewright.machines.machine.deletion import (
    await_call_in_flight,
    cordon,
    delete_first_node,
    delete_node,
    delete_vm,
    detach_volumes,
    drain,
    identify_vm,
    look_for_vm,
    move_volumes,
    remove_finalizer,
    wait_until_readable,
)
from kubewright.machines.machine.health import delete_when_triggered, follow_node, wait_while_unreachable
from kubewright.machines.machine.hot_update import update_vm
from kubewright.machines.machine.in_place import update_in_place
from kubewright.machines.machine.preservation import invalid_annotation, new_expiry, next_look, preserve
from kubewright.machines.machine.refusals import allowed, paced
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.steps import Plan
from kubewright.machines.machine.waiting import awaited

Decider = Callable[[Seen], Plan | None]
LIVING: tuple[Decider, ...] = (
    add_finalizer, record_vm, wait_while_unreachable, delete_when_triggered, preserve, refuse_invalid,
    ensure_vm, prolong_token, update_vm, await_no_node, refuse_name_conflict, update_in_place, follow_node,
)  # fmt: skip
DELETING: tuple[Decider, ...] = (
    await_call_in_flight, delete_first_node, record_vm, identify_vm, wait_until_readable, cordon, look_for_vm,
    drain, detach_volumes, move_volumes, delete_vm, delete_node, remove_finalizer,
)  # fmt: skip


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. Pure: an equal ``Seen`` gives an equal plan."""
    if seen.machine.metadata.deleting:
        if names.FINALIZER not in seen.machine.metadata.finalizers:
            return Plan(because="it is being deleted and has no finalizer of ours")
        plan = plan_of(DELETING, seen)
    else:
        plan = _with_preservation(plan_of(LIVING, seen), seen)
    return replace(plan, awaits=awaited(seen, plan))


def _with_preservation(plan: Plan, seen: Seen) -> Plan:
    """The plan, with the wake-up of a preservation and a warning about an annotation's unknown value."""
    plan = plan.sooner(next_look(seen))
    if until := new_expiry(seen, seen.phase_after(plan.report)):
        plan = replace(plan, because=f"{plan.because}; it is preserved until {rfc3339(until)}")
    wrong = invalid_annotation(seen)
    if not wrong or plan.report is not None or plan.warning is not None:
        return plan
    return replace(plan, warning=(EventReason.INVALID_PRESERVE, wrong), topics=frozenset((wrong,)))


def plan_of(deciders: tuple[Decider, ...], seen: Seen) -> Plan:
    """The plan of the first decider that has one, without the steps that an API server refuses."""
    plans = (_possible(decider, seen) for decider in deciders)
    found = next((plan for plan in plans if plan is not None), Plan(because="nothing is left to do"))
    return paced(found, seen)


def _possible(decider: Decider, seen: Seen) -> Plan | None:
    plan = decider(seen)
    return allowed(plan, seen) if plan is not None else None
