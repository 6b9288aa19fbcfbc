"""What must be true of what a deployment says about its rollout.

Theory.      cluster-autoscaler, dashboards and users see in one condition whether a rollout is complete or
             stuck. The rules compare it with the machines. A rollout is complete once all machines had the
             template of the spec, all ran, and there were as many as desired and no others, at some
             moment since the spec was written. What happens to a machine later is no rollout, and neither
             is another size.
Called by    ``invariants``, whose table these rules stand in.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.machine.names import ConditionReason
from simulation.invariants.facts import progress_of
from simulation.invariants.history import DeploymentRecord, Desired, most_seen
from simulation.invariants.past import Past
from simulation.journal import MACHINE_DEPLOYMENTS, ApiStep, Object, Step

GRACE_SECONDS = 300.0
"""How late a report may be: outages of the server, lists that are never answered, pauses between tries."""
AWAKE_SECONDS = 60.0
"""A manager that has received nothing for longer is not expected to report anything."""


def complete_is_true(step: Step, past: Past) -> str:
    """A deployment whose rollout has not been complete since its spec was written does not say that it is."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_DEPLOYMENTS or step.new is None:
        return ""
    if not _reports(step) or progress_of(step.new)[1] != ConditionReason.NEW_MACHINE_SET_AVAILABLE:
        return ""
    deployment, since = past.deployments[step.key], past.since()
    specs, arrived = deployment.in_force(since), [*deployment.rollout.arrived.in_force(since)]
    if any(each.template in arrived or _may_seem_reached(each, deployment, since) for each in specs):
        return ""
    return f"{step.key} says that its rollout is complete, and wants {specs[-1].template}"


def a_rollout_is_reported(_step: Step, past: Past) -> str:
    """A rollout is not reported as complete for long after it began, and is reported as late in time.

    Both count from when all servers answer: in the simulator the half with the sets also runs loops of
    kube-controller-manager for the nodes' cluster, and begins to work only when that answers.
    """
    for deployment in past.deployments.values():
        if (
            deployment.rollout.over
            or deployment.leaving
            or not deployment.desired
            or deployment.desired[-1].paused
        ):
            continue
        if (wrong := _wrong_report(deployment, past)) and past.now() - past.since() < AWAKE_SECONDS:
            return f"{deployment.key} {wrong}"
    return ""


def _wrong_report(deployment: DeploymentRecord, past: Past) -> str:
    found = past.journal.objects[MACHINE_DEPLOYMENTS].get(deployment.key)
    if found is None:
        return ""
    status, reason = progress_of(found)
    answering, deadline = past.answering_since(), deployment.desired[-1].deadline
    on_its_way = past.now() - max(deployment.rollout.began, answering)
    if reason == ConditionReason.NEW_MACHINE_SET_AVAILABLE and on_its_way > GRACE_SECONDS:
        return f"rolls for {on_its_way:.0f} s, and says that it is complete"
    still = past.now() - max(deployment.rollout.moved, answering)
    if deadline is not None and still > deadline + GRACE_SECONDS and status != "False":
        return f"stands still for {still:.0f} s, and says {status} {reason}"
    return ""


def _may_seem_reached(desired: Desired, deployment: DeploymentRecord, since: float) -> bool:
    """Whether a manager, which sees its own writes at once and those of others late, may see it reached."""
    sets = deployment.sets_since(since)
    new = sum(most_seen(record.runnings, since) for record in sets if record.template == desired.template)
    old = sum(
        min(record.totals.in_force(since), default=0)
        for record in sets
        if record.template != desired.template
    )
    return new >= desired.replicas and not old


def _reports(step: ApiStep) -> bool:
    """Whether the step changes the status in more than the collision count."""
    return _report(step.old) != _report(step.new)


def _report(found: Object | None) -> Mapping[str, Any]:
    status: Mapping[str, Any] = found.get("status", {}) if found is not None else {}
    return {name: value for name, value in status.items() if name != "collisionCount"}
