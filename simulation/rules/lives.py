"""What must be true of the lives of machines and VMs: one each, no phase goes back, and each has its time.

Theory.      A machine of ``machine.sapcloud.io`` has its VM by its uid, one of a cluster by that of its
             KubewrightMachine. A VM may be without its owner for as long as its creation was under way when
             that went, or for the time in which one that was given up is found in a list and confirmed.
Called by    ``table``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubewright.rollout.model import resolve
from simulation.journal import Object, Write
from simulation.resources import FOO_CLUSTERS
from simulation.rules.drains import DATE_SLACK_SECONDS
from simulation.rules.facts import (
    conditions_of,
    deleting,
    node_name,
    phase,
    provider_id,
    recorded_by,
    status_of,
    uid_of,
)
from simulation.rules.memories import ClusterPast
from simulation.rules.past import SINCE_UP, Limits, Past

if TYPE_CHECKING:
    from simulation.rules import Rule

ORPHAN_SECONDS = 300.0
"""How long a VM may live whose creation the cloud carried out after it was given up: until the class is
listed (60 s at most), the VM is confirmed (40 s), and for a list that is never answered (120 s)."""
BEFORE_UP = ("", "Pending", "CrashLoopBackOff")
"""Phases of a machine that has not been up yet."""

# ---------------------------------------------------------------- VMs


def two_vms(write: Write, past: Past, row: "Rule") -> str:
    vms = past.living_vms(write.after.owner_uid)
    return f"machine {write.after.name} has {len(vms)} VMs: {vms}" if len(vms) > row.bound else ""


def two_vms_of_cluster(write: Write, past: Past, row: "Rule") -> str:
    same = [vm.id for vm in past.journal.vms.values() if vm.owner_uid == write.after.owner_uid]
    return f"{write.after.name} has {len(same)} VMs: {same}" if len(same) > row.bound else ""


def orphan(_write: Write, past: Past, row: "Rule") -> str:
    """One whose creation came too late is found in a list, and is not deleted while its node cannot be
    seen."""
    for vm_id, began in past.unowned.items():
        since, longest = began, row.bound
        if past.late_vms and vm_id in past.made_unowned:
            since, longest = max(began, past.answering_since()), ORPHAN_SECONDS
        if past.now() - since > longest and past.journal.vms[vm_id].provider_id not in past.recorded:
            return f"{vm_id} has lived for {past.now() - since:.0f} s without a machine"
    return ""


def orphan_of_cluster(_write: Write, past: Past, row: "Rule") -> str:
    unowned = past.memory(ClusterPast).unowned
    late = [vm_id for vm_id, since in unowned.items() if past.now() - since > row.bound]
    return f"{late} have had no KubewrightMachine for {row.bound:g} s" if late else ""


def vm_of_the_living(write: Write, past: Past, _row: "Rule") -> str:
    uid = write.after.owner_uid
    if uid not in past.uids or uid in past.leaving:
        return ""
    return f"{write.key} is deleted, and machine {past.uids[uid]} is not"


def second_init(_write: Write, past: Past, row: "Rule") -> str:
    begun = past.memory(ClusterPast).initialized
    return f"{list(begun.values())} all run kubeadm init" if len(begun) > row.bound else ""


# ---------------------------------------------------------------- machines


def other_vm(write: Write, past: Past, _row: "Rule") -> str:
    """One that is being deleted may find a second VM after the first is gone, from a creation that came
    late."""
    before = provider_id(write.before) if write.before is not None else ""
    after = provider_id(write.after)
    late = deleting(write.after) and before.rpartition("/")[2] not in past.journal.vms
    if before not in ("", after) and not late:
        return f"machine {write.key} was {before} and is {after or 'nothing'}"
    shared = (each for each in recorded_by(write.after) if len(past.recorded[each]) > 1)
    return next((f"{list(past.recorded[each])} all have {each}" for each in shared), "")


def phase_back(write: Write, _past: Past, _row: "Rule") -> str:
    before, after = phase(write.before), phase(write.after)
    if not (before in SINCE_UP and after in BEFORE_UP) and not before == "Terminating" != after:
        return ""
    return f"machine {write.key} was {before} and is {after or 'new'}"


def failed_though_ready(write: Write, past: Past, _row: "Rule") -> str:
    before = phase(write.before) if write.before else ""
    ready = past.ready.get(node_name(write.after))
    fails = phase(write.after) == "Failed" and before not in ("Failed", "InPlaceUpdateFailed")
    if not fails or ready is None or ready >= past.since():
        return ""
    return f"machine {write.key} is Failed, and its node has been Ready for {past.now() - ready:.0f} s"


# ---------------------------------------------------------------- clusters


def other_endpoint(write: Write, _past: Past, _row: "Rule") -> str:
    before, after = (each["spec"].get("controlPlaneEndpoint") for each in (write.before, write.after))
    return f"the endpoint {before} becomes {after}" if before not in (None, after) else ""


def uninitialized(write: Write, _past: Past, _row: "Rule") -> str:
    before, after = (
        conditions_of(each).get("ControlPlaneInitialized") for each in (write.before, write.after)
    )
    return "the control plane is initialized no more" if before == "True" != after else ""


def ready_alone(write: Write, past: Past, _row: "Rule") -> str:
    before, after = (bool(status_of(each).get("infrastructureReady")) for each in (write.before, write.after))
    ready = any(status_of(each).get("ready") for each in past.all(FOO_CLUSTERS))
    return "infrastructureReady, and nothing is" if after and not before and not ready else ""


# ---------------------------------------------------------------- time-outs

RECOVERY_SECONDS = 40.0
"""From the end of a fault until every watch has been tried again: the pauses between attempts grow."""
NAME_TAKEN = "VM using old node obj"
"""Why a machine fails at once: another VM's node has the name of its own."""


def given_up(write: Write) -> bool:
    """Whether a machine is Failed from this entry on. A toy has no operation, and fails at a user's word."""
    if write.before is None or write.after is None or not write.committed:
        return False
    fails = phase(write.after) == "Failed" != phase(write.before) and not deleting(write.after)
    return fails and "lastOperation" in write.after["status"]


def others_replaced(write: Write, past: Past, _row: "Rule") -> str:
    if _fails_to_join(write.after):
        return ""
    since, most = past.since(), resolve(past.settings.replacement_limits.replacements, 1, up=True)
    known = [past.uids[uid] for uid, at in past.waits.others_replacing(write.after) if at < since]
    return f"machine {write.name} is Failed, and {known} are replaced" if len(known) >= most else ""


def failed_early(write: Write, past: Past, _row: "Rule") -> str:
    machine = write.after
    if machine["status"]["lastOperation"].get("description") == NAME_TAKEN:
        return ""
    changed, before = past.waits.before.get(uid_of(machine), (0.0, None))
    limits = [past.waits.limits(machine)]
    if before is not None and changed >= past.since():
        limits.append(before)
    least = min(_limit(machine, each) for each in limits)
    waited = past.now() - past.waits.since[uid_of(machine)]
    early = waited < least - DATE_SLACK_SECONDS
    return f"machine {write.name} is Failed after {waited:.1f} of {least:g} s" if early else ""


def failed_late(write: Write, past: Past, row: "Rule") -> str:
    """Counted from the last disturbance of its manager, from the last change of the time-out, and from the
    end of the replacement that it had to wait for."""
    machine, uid = write.after, uid_of(write.after)
    changed, _ = past.waits.before.get(uid, (0.0, None))
    calm, since = past.undisturbed_since(), past.waits.since[uid]
    begun = max(since, changed, calm + RECOVERY_SECONDS if calm > since else 0.0)
    due = begun + _limit(machine, past.waits.limits(machine))
    if not _fails_to_join(machine):
        if any(past.waits.others_replacing(machine)):
            return ""
        due = max(due, past.waits.last_replaced.get(past.waits.group(machine), 0.0))
    late = past.now() - due
    return f"machine {write.name} is Failed {late:.1f} s late" if late > row.bound else ""


def _fails_to_join(machine: Object) -> bool:
    operation: Mapping[str, str] = machine["status"]["lastOperation"]
    return operation.get("type") == "Create"


def _limit(machine: Object, limits: Limits) -> float:
    return limits.creation if _fails_to_join(machine) else limits.health
