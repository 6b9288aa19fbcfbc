"""What must be true of time-outs: a machine is Failed when its own is over, and few are replaced at a time.

Called by    ``invariants``, whose table these rules stand in.
"""

from kubewright.rollout.model import resolve
from simulation.invariants.drains import DATE_SLACK_SECONDS
from simulation.invariants.facts import deleting, phase
from simulation.invariants.past import Limits, Past
from simulation.journal import MACHINES, ApiStep, Object, Step

RECOVERY_SECONDS = 40.0
"""From the end of a fault until every watch has been tried again: the pauses between attempts grow."""
LATE_SECONDS = 20.0
"""How much later than its time an undisturbed manager may call a machine Failed."""
NAME_TAKEN = "VM using old node obj"
"""Why a machine fails at once: another VM's node has the name of its own."""


def replacements_are_limited(step: Step, past: Past) -> str:
    """No machine is Failed for its health while others of its group are, as many as may be."""
    machine = _given_up(step)
    if machine is None or _fails_to_join(machine):
        return ""
    since, most = past.since(), resolve(past.settings.replacement_limits.replacements, 1, up=True)
    known = [past.uids[uid] for uid, at in past.waits.others_replacing(machine) if at < since]
    return (
        f"machine {machine['metadata']['name']} is Failed, and {known} are replaced"
        if len(known) >= most
        else ""
    )


def a_machine_has_its_time(step: Step, past: Past) -> str:
    """No machine is Failed before its own creation or health time-out is over."""
    machine = _given_up(step)
    if machine is None or machine["status"]["lastOperation"].get("description") == NAME_TAKEN:
        return ""
    uid = str(machine["metadata"]["uid"])
    changed, before = past.waits.before.get(uid, (0.0, None))
    limits = [past.waits.limits(machine)]
    if before is not None and changed >= past.since():
        limits.append(before)
    least = min(_limit(machine, each) for each in limits)
    waited = past.now() - past.waits.since[uid]
    name = machine["metadata"]["name"]
    return (
        f"machine {name} is Failed after {waited:.1f} of {least:g} s"
        if waited < least - DATE_SLACK_SECONDS
        else ""
    )


def a_machine_is_given_up_in_time(step: Step, past: Past) -> str:
    """A machine is Failed soon after its time-out: counted from the last disturbance of its manager, from the
    last change of the time-out, and from the end of the replacement that it had to wait for."""
    machine = _given_up(step)
    if machine is None:
        return ""
    uid = str(machine["metadata"]["uid"])
    changed, _ = past.waits.before.get(uid, (0.0, None))
    calm, since = past.undisturbed_since(), past.waits.since[uid]
    begun = max(since, changed, calm + RECOVERY_SECONDS if calm > since else 0.0)
    due = begun + _limit(machine, past.waits.limits(machine))
    if not _fails_to_join(machine):
        if any(past.waits.others_replacing(machine)):
            return ""
        due = max(due, past.waits.last_replaced.get(past.waits.group(machine), 0.0))
    late = past.now() - due
    return f"machine {machine['metadata']['name']} is Failed {late:.1f} s late" if late > LATE_SECONDS else ""


def _given_up(step: Step) -> Object | None:
    """The machine that is Failed from this step on. A toy has no operation, and fails at a user's word."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None or step.new is None:
        return None
    fails = phase(step.new) == "Failed" != phase(step.old) and not deleting(step.new)
    return step.new if fails and "lastOperation" in step.new["status"] else None


def _fails_to_join(machine: Object) -> bool:
    return bool(machine["status"]["lastOperation"].get("type") == "Create")


def _limit(machine: Object, limits: Limits) -> float:
    return limits.creation if _fails_to_join(machine) else limits.health
