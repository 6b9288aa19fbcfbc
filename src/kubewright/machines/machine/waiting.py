"""What the plan of a machine waits for, and what a user can do about it. Pure.

Theory.      Deciders say in ``because`` what they wait for; for a user who asks why a machine stands still,
             this names it, with a way on: the driver, an object that is missing, a node, pods, volumes.
             What there is to be named follows from the same facts, in the order in which ``decide`` asks for
             them: a stage that is not over hides those after it.
Invariants.  A plan whose steps change what the next pass sees waits for nothing. What is on record (a
             deletion, a phase) dates the wait; of the rest the record of the pass says since when it lasts.
Called by    ``decide``.
"""

from collections.abc import Iterator

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.base.plan import AT_ONCE, Awaited
from kubewright.driver.life.plan import State, Want, remedy
from kubewright.driver.life.seen import Verb
from kubewright.machines.machine.creation import vm_incomplete
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.steps import Call, Plan

WELL = (Phase.RUNNING, Phase.AVAILABLE, Phase.IN_PLACE_UPDATE_SUCCESSFUL)
"""Phases in which a living machine waits for nothing."""
UPDATED = (Phase.IN_PLACE_UPDATING, Phase.IN_PLACE_UPDATE_FAILED)


def awaited(seen: Seen, plan: Plan) -> tuple[Awaited, ...]:
    """What has to come from elsewhere before the machine goes on."""
    calls = any(isinstance(step, Call) for step in plan.steps)
    if plan.steps and plan.wake == AT_ONCE and not calls:
        return ()
    for each in seen.refused:
        if each.problem in plan.because:
            return (Awaited("the API server to take a write", f"mend this: {each.problem}"),)
    phase = seen.phase_after(plan.report)
    found = _of_deletion(seen) if seen.machine.metadata.deleting else _of_life(seen, phase)
    return tuple(found)[:1]


def _of_life(seen: Seen, phase: Phase) -> Iterator[Awaited]:
    """While it is to have a VM and a node; ``phase``: what the plan makes of it."""
    if seen.unreachable:
        remedy = "see whether its API server answers"
        yield Awaited(f"the {seen.unreachable} cluster", remedy)
    wants_vm = not seen.recorded or vm_incomplete(seen.machine)
    if wants_vm and seen.problem and not seen.vm.running:
        yield _correction(seen)
    vm = seen.vm_plan(Want.ENSURED)
    if wants_vm and not seen.has_healthy_node:
        yield from vm.awaits
    yield from _update(seen)
    has_vm = not wants_vm or vm.state is State.DONE
    if has_vm and seen.settings.joins and phase not in WELL:
        yield _node(seen, phase)


def _update(seen: Seen) -> Iterator[Awaited]:
    """What an update of its VM waits for."""
    if seen.vm.running and seen.vm.verb is Verb.UPDATE:
        yield Awaited("the driver to update the VM", "see whether its cloud answers", seen.vm.began)
    if seen.specs is not None and seen.specs.due and (error := seen.vm.failed(Verb.UPDATE)):
        yield Awaited(f"the cloud to take an update of the VM: {error.code.name}", remedy(error.code))


def _node(seen: Seen, phase: Phase) -> Awaited:
    """What is to become of its node."""
    name = names.node_name(seen.machine.metadata.labels) or seen.machine.name
    if phase is Phase.FAILED:
        remedy = "see its set; where it has none, delete it"
        return Awaited(f"Machine {seen.machine.name} to be replaced", remedy, seen.phase_since)
    if phase in UPDATED:
        remedy = "see the agent on the node, which writes the result"
        return Awaited(f"the update of Node {name}", remedy, seen.phase_since)
    if seen.node is None:
        remedy = "see the console of the VM, and whether its kubelet may register under this name"
        return Awaited(f"Node {name}", remedy, seen.phase_since)
    if seen.has_healthy_node:
        return Awaited(f"the critical components of Node {name}", "see its taints", seen.phase_since)
    return Awaited(f"Node {name} to be healthy", "see the conditions of the node", seen.phase_since)


def _of_deletion(seen: Seen) -> Iterator[Awaited]:
    """While it is being deleted: the first stage that is not over."""
    if seen.vm_plan(Want.KNOWN).state is State.RUNNING:
        yield from seen.vm_plan(Want.KNOWN).awaits
    if seen.unread is not None and not seen.drain_timed_out and not seen.vm.running:
        remedy = f"see whether the API server of the nodes answers; {_forced()}"
        yield Awaited("node and pods to be readable", remedy, seen.deleted_at)
    if seen.node is not None and seen.vm.verb is not Verb.DELETE and not seen.vm.absent:
        yield from _of_node(seen, seen.node.metadata.name)
    gone = seen.vm_plan(Want.GONE)
    if gone.state is State.BLOCKED and seen.problem:
        yield _correction(seen)
    yield from gone.awaits
    if seen.node is not None and seen.node.metadata.deleting:
        yield Awaited(f"Node {seen.node.metadata.name} to be deleted", "see the finalizers of the node")


def _of_node(seen: Seen, name: str) -> Iterator[Awaited]:
    """Its node, before the VM goes."""
    if seen.drain is not None and not seen.drain.done:
        remedy = f"see the pods and budgets that status.lastOperation names; {_forced()}"
        yield Awaited(f"the pods of Node {name} to leave", remedy, seen.deleted_at)
    moving = seen.drain is not None and bool(seen.drain.moving)
    if (seen.attachments or moving) and not seen.forced:
        remedy = f"see the driver of the volumes; {_forced()}"
        yield Awaited(f"the volumes of Node {name} to be detached", remedy, seen.drained_since)


def _correction(seen: Seen) -> Awaited:
    """What is missing or wrong, so that the driver cannot be called."""
    needed = "a class and Secrets" if seen.secret_missing else "a class and a spec"
    return Awaited(f"{needed} that the driver can be given", f"mend this: {seen.problem}")


def _forced() -> str:
    return f"label {names.FORCE_DELETION_LABEL}=True ends the wait"
