"""What must be true of numbers: of machines, in rollouts, in updates in place, and in statuses.

Theory.      A manager must do what is right in the state that it last received, or in any later one
             (``Past.since``). A deployment's older spec stays in force until its sets' sizes fit the
             newer one, because until then the sets still carry out the older one.
             cluster-autoscaler, dashboards and users see in one condition whether a rollout is complete or
             stuck. It is complete once all machines had the template of the spec, all ran, and there were as
             many as desired and no others, at some moment since the spec was written. What happens to a
             machine later is no rollout, and neither is another size.
Called by    ``invariants``, whose table these rules stand in.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import SELECTED_LABEL, UPDATE_RESULT_LABEL, ConditionReason, Phase
from simulation.invariants.facts import (
    controller_of,
    deleting,
    is_kept_free,
    loses_finalizer,
    phase,
    progress_of,
    revision,
    running,
    selects,
)
from simulation.invariants.history import DeploymentRecord, Desired, SetRecord, most_seen
from simulation.invariants.past import Past
from simulation.journal import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    NODES,
    ApiStep,
    Object,
    Step,
)


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


Peak = Callable[[SetRecord, float], int]


def not_too_many(step: Step, past: Past) -> str:
    """A new machine does not take its deployment above replicas + surge."""
    made = _made(step, past)
    deployment = past.deployment_of(past.set_of(made)) if made is not None else None
    if deployment is None:
        return ""
    most = max((each.most for each in deployment.in_force(past.since())), default=deployment.alive)
    return (
        f"{deployment.key} has {deployment.alive} machines, more than {most}"
        if deployment.alive > most
        else ""
    )


def a_set_keeps_its_size(step: Step, past: Past) -> str:
    """A set makes no machine beyond its own size, but for those that were moved to it: a manager that does
    not see a move yet makes the machine that the set has lacked before."""
    made = _made(step, past)
    record = past.set_of(made) if made is not None else None
    if record is None or not record.sizes:
        return ""
    size = max(record.sizes.in_force(past.since()))
    if record.alive <= size or record.alive - _moved(record, past) <= size:
        return ""
    return f"set {record.key} has {record.alive} machines, and a size of {size}"


def a_frozen_set_makes_no_machine(step: Step, past: Past) -> str:
    """A set makes no machine while its label ``freeze`` says that it has too many."""
    made = _made(step, past)
    record = past.set_of(made) if made is not None else None
    if record is None or not record.stopped or not all(record.stopped.in_force(past.since())):
        return ""
    return f"set {record.key} is frozen, and makes a machine"


def a_name_is_for_one_machine(step: Step, past: Past) -> str:
    """No two machines of a set ever have the same name, also when the first is long gone.

    But for one creation that the server executes twice: late, and when its sender sent it again.
    """
    made = _made(step, past)
    if made is None or not past.name_repeated or past.executes_late(made["metadata"]["name"]):
        return ""
    return f"machine {made['metadata']['name']} has the name of one that is gone"


def sizes_fit_the_spec(step: Step, past: Past) -> str:
    """No set is created or enlarged beyond what its deployment may have."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_SETS or step.new is None:
        return ""
    record = past.sets[step.new["metadata"]["uid"]]
    before = int(step.old["spec"].get("replicas", 0)) if step.old is not None else 0
    deployment = past.deployment_of(record)
    if (
        deployment is None
        or record.size <= before
        or (step.old is None and past.late_creation(record.key.partition("/")[2]))
    ):
        return ""
    most = max((each.most for each in deployment.in_force(past.since())), default=deployment.size)
    return (
        f"the sets of {deployment.key} add up to {deployment.size}, more than {most}"
        if deployment.size > most
        else ""
    )


def not_too_few(step: Step, past: Past) -> str:
    """No running machine is deleted that takes its deployment below what must be available.

    What counts is what a manager could know when this set got its size. Machines that stopped running since
    then count as available, and a size that was raised since then came too late. Machines of which the stale
    lists of a new manager did not show that they run, or are being deleted, count too (``Plot.stale``).
    """
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None:
        return ""
    began = step.new is None or deleting(step.new)
    if deleting(step.old) or not began or not running(step.old):
        return ""
    record = past.set_of(step.old)
    deployment = past.deployment_of(record)
    if (
        record is None
        or deployment is None
        or deployment.leaving
        or step.old["metadata"]["name"] in past.deleted_by_users
    ):
        return ""
    told = min(past.since(), record.size_since)
    least = min((each.least for each in deployment.in_force(told)), default=0)
    fallen = sum(each.stopped_since(told) for each in deployment.sets.values())
    hidden = sum(each.changed_between(*past.unseen()) for each in deployment.sets.values())
    kept = deployment.available(past.now())
    return (
        f"{deployment.key} keeps {kept} of at least {least} available"
        if kept + fallen + hidden < least
        else ""
    )


def enough_take_workload(step: Step, past: Past) -> str:
    """No machine is kept free that is needed for replicas: as many others are left as there are to be, those
    included that a manager may still believe to run."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.new is None:
        return ""
    deployment = past.deployment_of(past.set_of(step.new))
    if deployment is None or not is_kept_free(step.new) or is_kept_free(step.old):
        return ""
    since = past.since()
    mine = [m for m in past.journal.objects[MACHINES].values() if past.set_of(m) in deployment.sets.values()]
    serve = sum(not (is_kept_free(m) or deleting(m) or phase(m) in _BROKEN) for m in mine)
    lost = sum(max(0, most_seen(each.runnings, since) - each.running) for each in deployment.sets.values())
    least = min((each.workload for each in deployment.in_force(since)), default=0)
    return (
        f"{step.key} is kept free, and {serve} others take workload, of {least}"
        if serve + lost < least
        else ""
    )


def the_free_go_first(step: Step, past: Past) -> str:
    """No set deletes a running machine with workload, by no one's choice but its own, while it has more
    running ones that are kept free than its deployment asks for."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None:
        return ""
    began = not deleting(step.old) and (step.new is None or deleting(step.new))
    if not began or not running(step.old) or is_kept_free(step.old) or _chosen(step.old, past):
        return ""
    record = past.set_of(step.old)
    deployment = past.deployment_of(record)
    if deployment is None or deployment.leaving:
        return ""
    mine = [m for m in past.journal.objects[MACHINES].values() if past.set_of(m) is record]
    free = sum(is_kept_free(m) and running(m) and not deleting(m) for m in mine)
    most = max((each.replicas - each.workload for each in deployment.in_force(past.since())), default=free)
    return f"{step.key} goes before {free} that are kept free, of {most}" if free > most else ""


def _chosen(machine: Object, past: Past) -> bool:
    """Whether a user or the autoscaler chose the machine for deletion."""
    notes = machine["metadata"].get("annotations", {})
    by_user = machine["metadata"]["name"] in past.deleted_by_users
    return by_user or names.priority(notes) != names.DEFAULT_PRIORITY


_BROKEN = (Phase.FAILED, Phase.IN_PLACE_UPDATE_FAILED)

SET_COUNTS: Mapping[str, Peak] = {
    "replicas": lambda record, since: most_seen(record.totals, since),
    "fullyLabeledReplicas": lambda record, since: most_seen(record.totals, since),
    "readyReplicas": lambda record, since: most_seen(record.runnings, since),
    "availableReplicas": lambda record, since: most_seen(record.runnings, since),
}
"""What each number in a set's status may be at most."""


def a_set_counts_what_exists(step: Step, past: Past) -> str:
    """A set's status counts no machine that does not exist."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_SETS or step.new is None:
        return ""
    record, since = past.sets[step.new["metadata"]["uid"]], past.since()
    for name, told in _changed_counts(step, SET_COUNTS):
        if told > (there := SET_COUNTS[name](record, since)):
            return f"{step.key} reports {told} {name}, and there are {there}"
    return ""


def a_deployment_counts_what_exists(step: Step, past: Past) -> str:
    """A deployment's status counts no machine that does not exist."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_DEPLOYMENTS or step.new is None:
        return ""
    deployment, since = past.deployments[step.key], past.since()
    for name, told in _changed_counts(step, (*DEPLOYMENT_COUNTS, "updatedReplicas")):
        sets = _current(deployment, since) if name == "updatedReplicas" else deployment.sets_since(since)
        count = SET_COUNTS[DEPLOYMENT_COUNTS.get(name, "replicas")]
        if told > (there := sum(count(record, since) for record in sets)):
            return f"{step.key} reports {told} {name}, and there are {there}"
    return ""


DEPLOYMENT_COUNTS = {name: name for name in ("replicas", "readyReplicas", "availableReplicas")}


def a_set_outlives_its_machines(step: Step, past: Past) -> str:
    """Our finalizer is removed from a set when it has no machines, or they were disowned."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_SETS or not loses_finalizer(step):
        return ""
    record = past.sets.get(step.old["metadata"]["uid"]) if step.old is not None else None
    left = record.total if record is not None else 0
    return f"set {step.key} lost our finalizer, and has {left} machines" if left else ""


def a_deployment_outlives_its_sets(step: Step, past: Past) -> str:
    """Our finalizer is removed from a deployment when it has no sets, or they were disowned."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_DEPLOYMENTS or not loses_finalizer(step):
        return ""
    left = [record.key for record in past.deployments[step.key].sets.values()]
    return f"deployment {step.key} lost our finalizer, and has {left}" if left else ""


def no_roll_while_paused(step: Step, past: Past) -> str:
    """A deployment gets no set of a class that users have asked for only while it was paused."""
    if (
        not isinstance(step, ApiStep)
        or step.resource != MACHINE_SETS
        or step.old is not None
        or step.new is None
    ):
        return ""
    record = past.sets[step.new["metadata"]["uid"]]
    deployment = past.deployment_of(record)
    specs = deployment.in_force(past.since()) if deployment is not None else []
    paused = [each.paused for each in specs if each.machine_class == record.machine_class]
    return f"set {step.key} is made, and its deployment is paused" if paused and all(paused) else ""


def revisions_grow(step: Step, past: Past) -> str:
    """The revision of a set or deployment never falls."""
    if not isinstance(step, ApiStep) or step.resource not in (MACHINE_SETS, MACHINE_DEPLOYMENTS):
        return ""
    before, after = revision(step.old), revision(step.new)
    if step.new is None or after >= before:
        return ""
    return f"{step.key} had revision {before} and has {after or 'none'}"


def _made(step: Step, past: Past) -> Object | None:
    """The machine that a manager which lives has created in this step."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is not None or step.new is None:
        return None
    return None if past.late_creation(step.new["metadata"]["name"]) else step.new


def _moved(record: SetRecord, past: Past) -> int:
    """How many machines of a set carry the mark of a move."""
    found = (m for m in past.journal.objects[MACHINES].values() if past.set_of(m) is record)
    return sum(UPDATE_RESULT_LABEL in m["metadata"].get("labels", {}) for m in found)


def _current(deployment: DeploymentRecord, since: float) -> list[SetRecord]:
    """The sets that a manager may take for the current set."""
    classes = {each.machine_class for each in deployment.in_force(since)}
    return [record for record in deployment.sets_since(since) if record.machine_class in classes]


def _changed_counts(step: ApiStep, known: Iterable[str]) -> list[tuple[str, int]]:
    """The numbers in a status that this step has changed."""
    before, after = _status(step.old), _status(step.new)
    return [
        (name, int(after.get(name, 0)))
        for name in known
        if int(after.get(name, 0)) != int(before.get(name, 0))
    ]


def _status(found: Object | None) -> Mapping[str, int]:
    status: Mapping[str, int] = found.get("status", {}) if found is not None else {}
    return status
