"""What must be true of updates in place: enough machines serve meanwhile, and none goes for its update.

Called by    ``invariants``, whose table these rules stand in.
"""

from kubewright.api.machine.names import SELECTED_LABEL, UPDATE_RESULT_LABEL
from simulation.invariants.facts import controller_of, deleting, phase, running, selects
from simulation.invariants.history import DeploymentRecord
from simulation.invariants.past import Past
from simulation.journal import MACHINES, NODES, ApiStep, Object, Step


def updates_leave_enough(step: Step, past: Past) -> str:
    """No node is selected for an update that takes its deployment below what must be available.

    What counts is what a manager could know then: machines that stopped running since count as available.
    """
    if not isinstance(step, ApiStep) or step.resource != NODES or not selects(step):
        return ""
    machine = _machine_of(step.key, past)
    deployment = past.deployment_of(past.set_of(machine)) if machine is not None else None
    if deployment is None or machine is None:
        return ""
    told = past.since()
    least = min((each.least for each in deployment.in_force(told)), default=0)
    fallen = sum(each.stopped_since(told) for each in deployment.sets.values())
    hidden = sum(each.changed_between(*past.unseen()) for each in deployment.sets.values())
    nodes = past.journal.objects[NODES].items()
    selected = (key for key, node in nodes if SELECTED_LABEL in node["metadata"].get("labels", {}))
    leaving = sum(_runs_in(deployment, _machine_of(key, past)) for key in selected)
    kept = deployment.available(past.now()) - leaving
    return (
        f"{deployment.key} keeps {kept} of at least {least} beside those that are updated"
        if kept + fallen + hidden < least
        else ""
    )


def a_moved_machine_stays(step: Step, past: Past) -> str:
    """No machine is deleted between its move to another set and the moment when that set counts it."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None or deleting(step.old):
        return ""
    went = step.new is None or deleting(step.new)
    moved = UPDATE_RESULT_LABEL in step.old["metadata"].get("labels", {})
    if not went or not moved or phase(step.old) == "Failed":
        return ""
    deployment = past.deployment_of(past.set_of(step.old))
    if deployment is None or deployment.leaving or step.old["metadata"]["name"] in past.deleted_by_users:
        return ""
    return f"machine {step.key} was updated in place, and is deleted"


def _machine_of(node: str, past: Past) -> Object | None:
    """The machine that has this node on record."""
    key = next(iter(past.recorded.get(f"node {node}", ())), "")
    return past.journal.objects[MACHINES].get(key)


def _runs_in(deployment: DeploymentRecord, machine: Object | None) -> bool:
    """Whether a machine counts as one that runs, of this deployment."""
    if machine is None or deleting(machine) or not running(machine):
        return False
    return controller_of(machine)["uid"] in deployment.sets
