"""What must be true of machines and their VMs: one each, none left behind, none deleted too early.

Called by    ``invariants``, whose table these rules stand in.
"""

from simulation.invariants.drains import may_force
from simulation.invariants.facts import (
    asks_for_deletion,
    deleting,
    loses_finalizer,
    node_name,
    phase,
    provider_id,
    recorded_by,
)
from simulation.invariants.past import NODE_DELETED, SINCE_UP, Past
from simulation.journal import MACHINES, NODES, ApiStep, Object, Step, VmStep

CONFIRM_SECONDS = 30.0
"""How long a VM may live without a machine: its creation was under way when the machine went."""
ORPHAN_SECONDS = 300.0
"""The same for a VM whose creation the cloud carried out after it was given up: until the class is listed
(60 s at most), the VM is confirmed (40 s), and for a list that is never answered (120 s)."""


def one_vm_for_a_machine(step: Step, past: Past) -> str:
    """At most one VM lives for one machine."""
    if not isinstance(step, VmStep) or step.old is not None or step.new is None:
        return ""
    vms = past.living_vms(step.new.owner_uid)
    return f"machine {step.new.name} has {len(vms)} VMs: {vms}" if len(vms) > 1 else ""


def no_vm_without_a_machine(_step: Step, past: Past) -> str:
    """A VM has a machine, the one it was made for or one that has it on record, or does not live for long.

    One whose creation came too late is found in a list, and is not deleted while its node cannot be seen.
    """
    for vm_id, began in past.unowned.items():
        since, longest = began, CONFIRM_SECONDS
        if past.late_vms and vm_id in past.made_unowned:
            since, longest = max(began, past.answering_since()), ORPHAN_SECONDS
        if past.now() - since > longest and past.journal.vms[vm_id].provider_id not in past.recorded:
            return f"{vm_id} has lived for {past.now() - since:.0f} s without a machine"
    return ""


def a_living_machine_keeps_its_vm(step: Step, past: Past) -> str:
    """No VM is deleted while its machine should live."""
    if not isinstance(step, VmStep) or not asks_for_deletion(step) or step.new is None:
        return ""
    uid = step.new.owner_uid
    if uid not in past.uids or uid in past.leaving:
        return ""
    return f"{step.new.id} is deleted, and machine {past.uids[uid]} is not"


def the_finalizer_goes_last(step: Step, past: Past) -> str:
    """Our finalizer is removed from a machine when no VM of it is left."""
    if (
        not isinstance(step, ApiStep)
        or step.resource != MACHINES
        or not loses_finalizer(step)
        or step.old is None
    ):
        return ""
    left = past.living_vms(step.old["metadata"]["uid"])
    return f"machine {step.key} lost our finalizer, and {left} still live" if left else ""


def a_vm_is_drained_first(step: Step, past: Past) -> str:
    """A VM with pods on it is deleted only when waiting for them cannot help any more.

    That is: the VM is dead, or a user deleted its Node; a user forces the deletion; the drain timeout is
    over; or its kubelet has been silent for so long that it will not end them.
    """
    if not isinstance(step, VmStep) or not asks_for_deletion(step) or step.new is None:
        return ""
    vm = step.new
    pods, node = past.drained.on.get(vm.node_name), vm.node_name
    if not pods or node in past.dead or node in past.lost or may_force(vm.owner_uid, node, past):
        return ""
    return f"{vm.id} is deleted under {list(pods)}"


def a_node_goes_after_its_vm(step: Step, past: Past) -> str:
    """A Node is deleted when its VM is gone, or by a user."""
    if not isinstance(step, ApiStep) or step.resource != NODES or step.new is not None or step.old is None:
        return ""
    if NODE_DELETED + step.key in past.deleted_by_users:
        return ""
    vm_id = str(step.old["spec"].get("providerID", "")).rpartition("/")[2]
    vm = past.journal.vms.get(vm_id)
    return f"Node {step.key} is deleted, and {vm_id} lives" if vm is not None and vm.gone_at is None else ""


def a_vm_on_record_stays(step: Step, past: Past) -> str:
    """A machine never changes the VM that it has on record, nor shares it or its node with another.

    One that is being deleted may find a second VM after the first is gone, from a creation that came late.
    """
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.new is None:
        return ""
    before = provider_id(step.old) if step.old is not None else ""
    after = provider_id(step.new)
    late = deleting(step.new) and before.rpartition("/")[2] not in past.journal.vms
    if before not in ("", after) and not late:
        return f"machine {step.key} was {before} and is {after or 'nothing'}"
    return _shared(step.new, past)


def _shared(machine: Object, past: Past) -> str:
    for found in recorded_by(machine):
        if len(past.recorded[found]) > 1:
            return f"{list(past.recorded[found])} all have {found}"
    return ""


BEFORE_UP = ("", "Pending", "CrashLoopBackOff")
"""Phases of a machine that has not been up yet."""


def no_phase_goes_back(step: Step, _past: Past) -> str:
    """A machine that was up never returns to a phase before that, and one that is Terminating stays so."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None or step.new is None:
        return ""
    before, after = phase(step.old), phase(step.new)
    if not (before in SINCE_UP and after in BEFORE_UP) and not before == "Terminating" != after:
        return ""
    return f"machine {step.key} was {before} and is {after or 'new'}"


def a_healthy_machine_is_not_failed(step: Step, past: Past) -> str:
    """No machine is called Failed while its node is Ready, and was for longer than the manager is stale; but
    for one whose node could not be updated in place."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.new is None:
        return ""
    if phase(step.new) != "Failed" or (step.old and phase(step.old) in ("Failed", "InPlaceUpdateFailed")):
        return ""
    ready = past.ready.get(node_name(step.new))
    if ready is None or ready >= past.since():
        return ""
    return f"machine {step.key} is Failed, and its node has been Ready for {past.now() - ready:.0f} s"
