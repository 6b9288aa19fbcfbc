"""What must be true of numbers: of machines, in rollouts, in updates in place, and in statuses.

Theory.      A manager must do what is right in the state that it last received, or in any later one
             (``Past.since``). A deployment's older spec stays in force until its sets' sizes fit the
             newer one, because until then the sets still carry out the older one.
             cluster-autoscaler, dashboards and users see in one condition whether a rollout is complete or
             stuck. It is complete once all machines had the template of the spec, all ran, and there were as
             many as desired and no others, at some moment since the spec was written. What happens to a
             machine later is no rollout, and neither is another size.
             Of the workers of a cluster (``memories``) what counts is the largest and the smallest number
             that was wanted within ``memories.WINDOW_SECONDS``; stories change numbers far less often.
Called by    ``table``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kubewright.api.cluster.names import DEPLOYMENT_NAME_LABEL
from kubewright.api.machine import names
from kubewright.api.machine.names import SELECTED_LABEL, UPDATE_RESULT_LABEL, ConditionReason, Phase
from kubewright.rollout.model import resolve
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINES, NODES, Object, Write
from simulation.resources import CLUSTER_DEPLOYMENTS, CLUSTER_MACHINES
from simulation.rules.facts import (
    conditions_of,
    controller_of,
    deleting,
    is_kept_free,
    labels_of,
    name_of,
    notes_of,
    phase,
    progress_of,
    revision,
    running,
    runs,
    status_of,
)
from simulation.rules.history import DeploymentRecord, Desired, SetRecord, most_seen
from simulation.rules.memories import ClusterPast, cluster_is_deleted
from simulation.rules.past import Past

if TYPE_CHECKING:
    from simulation.rules import Rule

Peak = Callable[[SetRecord, float], int]
SET_COUNTS: Mapping[str, Peak] = {
    "replicas": lambda record, since: most_seen(record.totals, since),
    "fullyLabeledReplicas": lambda record, since: most_seen(record.totals, since),
    "readyReplicas": lambda record, since: most_seen(record.runnings, since),
    "availableReplicas": lambda record, since: most_seen(record.runnings, since),
}
"""What each number in a set's status may be at most."""
DEPLOYMENT_COUNTS = {name: name for name in ("replicas", "readyReplicas", "availableReplicas")}
GRACE_SECONDS = 300.0
"""How late a report may be: outages of the server, lists that are never answered, pauses between tries."""
AWAKE_SECONDS = 60.0
"""A manager that has received nothing for longer is not expected to report anything."""

# ---------------------------------------------------------------- at most


def surge(write: Write, past: Past, _row: "Rule") -> str:
    deployment = past.deployment_of(past.set_of(write.after))
    if deployment is None or past.late_creation(write.name):
        return ""
    most = max((each.most for each in deployment.in_force(past.since())), default=deployment.alive)
    return _more(f"{deployment.key} has machines", deployment.alive, most)


def size(write: Write, past: Past, _row: "Rule") -> str:
    record = past.set_of(write.after)
    if record is None or not record.sizes or past.late_creation(write.name):
        return ""
    most = max(record.sizes.in_force(past.since()))
    return _more(f"set {record.key} has machines", record.alive, most) and _more(
        f"set {record.key} has machines", record.alive - _moved(record, past), most
    )


def freeze(write: Write, past: Past, _row: "Rule") -> str:
    record = past.set_of(write.after)
    if record is None or not record.stopped or past.late_creation(write.name):
        return ""
    frozen = all(record.stopped.in_force(past.since()))
    return f"set {record.key} is frozen, and makes a machine" if frozen else ""


def same_name(write: Write, past: Past, _row: "Rule") -> str:
    known = past.name_repeated and not past.late_creation(write.name) and not past.executes_late(write.name)
    return f"machine {write.name} has the name of one that is gone" if known else ""


def sizes(write: Write, past: Past, _row: "Rule") -> str:
    record = past.sets[write.after["metadata"]["uid"]]
    before = int(write.before["spec"].get("replicas", 0)) if write.before is not None else 0
    deployment = past.deployment_of(record)
    late = write.before is None and past.late_creation(write.name)
    if deployment is None or record.size <= before or late:
        return ""
    most = max((each.most for each in deployment.in_force(past.since())), default=deployment.size)
    return _more(f"the sets of {deployment.key} add up to", deployment.size, most)


def surge_of_workers(write: Write, past: Past, _row: "Rule") -> str:
    """One that is deleted still counts."""
    deployment = _deployment(write.after, past)
    if deployment is None or past.late_creation(write.name):
        return ""
    wanted = max(past.memory(ClusterPast).recently(name_of(deployment), past))
    most = wanted + _bound(deployment, "maxSurge", wanted)
    return _more(f"machines of {name_of(deployment)}:", len(_members(past, deployment)), most)


def paused_class(write: Write, past: Past, _row: "Rule") -> str:
    record = past.sets[write.after["metadata"]["uid"]]
    deployment = past.deployment_of(record)
    specs = deployment.in_force(past.since()) if deployment is not None else []
    paused = [each.paused for each in specs if each.machine_class == record.machine_class]
    return f"set {write.key} is made, and its deployment is paused" if paused and all(paused) else ""


def _more(what: str, count: int, most: int) -> str:
    return f"{what} {count}, more than {most}" if count > most else ""


# ---------------------------------------------------------------- at least


def available(write: Write, past: Past, _row: "Rule") -> str:
    """What counts is what a manager could know when this set got its size. Machines that stopped running
    since then count as available, and a size that was raised since then came too late. Machines of which the
    stale lists of a new manager did not show that they run, or are being deleted, count too
    (``Plot.stale``)."""
    record = past.set_of(write.before) if running(write.before) else None
    deployment = past.deployment_of(record)
    if record is None or deployment is None or deployment.leaving or write.name in past.deleted_by_users:
        return ""
    return _fewer(deployment, past, min(past.since(), record.size_since), 0)


def available_beside(write: Write, past: Past, _row: "Rule") -> str:
    """The same, of nodes that are selected for an update."""
    machine = _machine_of(write.key, past)
    deployment = past.deployment_of(past.set_of(machine)) if machine is not None else None
    if deployment is None:
        return ""
    nodes = past.journal.objects[NODES].items()
    selected = (key for key, node in nodes if SELECTED_LABEL in labels_of(node))
    leaving = sum(_runs_in(deployment, _machine_of(key, past)) for key in selected)
    return _fewer(deployment, past, past.since(), leaving)


def _fewer(deployment: DeploymentRecord, past: Past, told: float, leaving: int) -> str:
    least = min((each.least for each in deployment.in_force(told)), default=0)
    fallen = sum(each.stopped_since(told) for each in deployment.sets.values())
    hidden = sum(each.changed_between(*past.unseen()) for each in deployment.sets.values())
    kept = deployment.available(past.now()) - leaving
    told_of = f"{deployment.key} keeps {kept} of at least {least} available"
    return told_of if kept + fallen + hidden < least else ""


def for_workload(write: Write, past: Past, _row: "Rule") -> str:
    """Those included that a manager may still believe to run."""
    deployment = past.deployment_of(past.set_of(write.after))
    if deployment is None or not is_kept_free(write.after) or is_kept_free(write.before):
        return ""
    since = past.since()
    mine = [m for m in past.all(MACHINES) if past.set_of(m) in deployment.sets.values()]
    serve = sum(not (is_kept_free(m) or deleting(m) or phase(m) in _BROKEN) for m in mine)
    lost = sum(max(0, most_seen(each.runnings, since) - each.running) for each in deployment.sets.values())
    least = min((each.workload for each in deployment.in_force(since)), default=0)
    told = f"{write.key} is kept free, and {serve} others take workload, of {least}"
    return told if serve + lost < least else ""


def free_first(write: Write, past: Past, _row: "Rule") -> str:
    machine = write.before
    if not running(machine) or is_kept_free(machine) or _chosen(machine, past):
        return ""
    record = past.set_of(machine)
    deployment = past.deployment_of(record)
    if deployment is None or deployment.leaving:
        return ""
    mine = [m for m in past.all(MACHINES) if past.set_of(m) is record]
    free = sum(is_kept_free(m) and running(m) and not deleting(m) for m in mine)
    most = max((each.replicas - each.workload for each in deployment.in_force(past.since())), default=free)
    return f"{write.key} goes before {free} that are kept free, of {most}" if free > most else ""


def moved(write: Write, past: Past, _row: "Rule") -> str:
    machine = write.before
    if UPDATE_RESULT_LABEL not in labels_of(machine) or phase(machine) == "Failed":
        return ""
    deployment = past.deployment_of(past.set_of(machine))
    if deployment is None or deployment.leaving or write.name in past.deleted_by_users:
        return ""
    return f"machine {write.key} was updated in place, and is deleted"


def running_workers(write: Write, past: Past, _row: "Rule") -> str:
    """Not so if a user or a check wants it."""
    machine, deployment = write.after, _deployment(write.after, past)
    if deployment is None or deleting(deployment) or not runs(write.before) or _unhealthy(machine):
        return ""
    if name_of(machine) in past.deleted_by_users or cluster_is_deleted(past):
        return ""
    wanted = min(past.memory(ClusterPast).recently(name_of(deployment), past))
    least = wanted - _bound(deployment, "maxUnavailable", wanted)
    count = sum(runs(each) and not deleting(each) for each in _members(past, deployment))
    return f"{count} machines of {name_of(deployment)} run, fewer than {least}" if count < least else ""


# ---------------------------------------------------------------- statuses


def counts_of_set(write: Write, past: Past, _row: "Rule") -> str:
    record, since = past.sets[write.after["metadata"]["uid"]], past.since()
    for name, told in _changed_counts(write, SET_COUNTS):
        if told > (real := SET_COUNTS[name](record, since)):
            return f"{write.key} reports {told} {name}, and there are {real}"
    return ""


def counts_of_deployment(write: Write, past: Past, _row: "Rule") -> str:
    deployment, since = past.deployments[write.key], past.since()
    for name, told in _changed_counts(write, (*DEPLOYMENT_COUNTS, "updatedReplicas")):
        sets = _current(deployment, since) if name == "updatedReplicas" else deployment.sets_since(since)
        count = SET_COUNTS[DEPLOYMENT_COUNTS.get(name, "replicas")]
        if told > (real := sum(count(record, since) for record in sets)):
            return f"{write.key} reports {told} {name}, and there are {real}"
    return ""


def revisions(write: Write, _past: Past, _row: "Rule") -> str:
    before, after = revision(write.before), revision(write.after)
    return f"{write.key} had revision {before} and has {after or 'none'}" if after < before else ""


def complete(write: Write, past: Past, _row: "Rule") -> str:
    reports = _report(write.before) != _report(write.after)
    if not reports or progress_of(write.after)[1] != ConditionReason.NEW_MACHINE_SET_AVAILABLE:
        return ""
    deployment, since = past.deployments[write.key], past.since()
    specs, arrived = deployment.in_force(since), [*deployment.rollout.arrived.in_force(since)]
    if any(each.template in arrived or _may_seem_reached(each, deployment, since) for each in specs):
        return ""
    return f"{write.key} says that its rollout is complete, and wants {specs[-1].template}"


def late_report(_write: Write, past: Past, _row: "Rule") -> str:
    """Both count from when all servers answer: in the simulator the half with the sets also runs loops of
    kube-controller-manager for the nodes' cluster, and begins to work only when that answers."""
    for deployment in past.deployments.values():
        settled = deployment.rollout.over or deployment.leaving or not deployment.desired
        if settled or deployment.desired[-1].paused:
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
    new, old = 0, 0
    for record in deployment.sets_since(since):
        if record.template == desired.template:
            new += most_seen(record.runnings, since)
        else:
            old += min(record.totals.in_force(since), default=0)
    return new >= desired.replicas and not old


def _report(found: Object | None) -> Mapping[str, Any]:
    """The status but for the collision count."""
    return {name: value for name, value in status_of(found).items() if name != "collisionCount"}


def _changed_counts(write: Write, known: Iterable[str]) -> list[tuple[str, int]]:
    """The numbers in a status that this entry has changed."""
    before, after = status_of(write.before), status_of(write.after)
    pairs = ((name, int(before.get(name, 0)), int(after.get(name, 0))) for name in known)
    return [(name, told) for name, was, told in pairs if told != was]


# ---------------------------------------------------------------- who belongs to what

_BROKEN = (Phase.FAILED, Phase.IN_PLACE_UPDATE_FAILED)


def _machine_of(node: str, past: Past) -> Object | None:
    """The machine that has this node on record."""
    key = next(iter(past.recorded.get(f"node {node}", ())), "")
    return past.journal.objects[MACHINES].get(key)


def _runs_in(deployment: DeploymentRecord, machine: Object | None) -> bool:
    """Whether a machine counts as one that runs, of this deployment."""
    if machine is None or deleting(machine) or not running(machine):
        return False
    return controller_of(machine)["uid"] in deployment.sets


def _chosen(machine: Object, past: Past) -> bool:
    """Whether a user or the autoscaler chose the machine for deletion."""
    by_user = name_of(machine) in past.deleted_by_users
    return by_user or names.priority(notes_of(machine)) != names.DEFAULT_PRIORITY


def _moved(record: SetRecord, past: Past) -> int:
    """How many machines of a set carry the mark of a move."""
    return sum(UPDATE_RESULT_LABEL in labels_of(m) for m in past.all(MACHINES) if past.set_of(m) is record)


def _current(deployment: DeploymentRecord, since: float) -> list[SetRecord]:
    """The sets that a manager may take for the current set."""
    classes = {each.machine_class for each in deployment.in_force(since)}
    return [record for record in deployment.sets_since(since) if record.machine_class in classes]


def _deployment(machine: Object, past: Past) -> Object | None:
    """The deployment of a cluster's machine, if one makes its set."""
    return past.find(CLUSTER_DEPLOYMENTS, labels_of(machine).get(DEPLOYMENT_NAME_LABEL, ""))


def _members(past: Past, deployment: Object) -> list[Object]:
    """All machines of a cluster's deployment."""
    name = name_of(deployment)
    return [each for each in past.all(CLUSTER_MACHINES) if labels_of(each).get(DEPLOYMENT_NAME_LABEL) == name]


def _bound(deployment: Object, which: str, of: int) -> int:
    """A bound of a rolling update; OnDelete makes no machine beyond the number, and deletes none."""
    strategy = deployment["spec"].get("strategy", {})
    if strategy.get("type") == "OnDelete":
        return 0
    given = {"maxSurge": 1, "maxUnavailable": 0, **strategy.get("rollingUpdate", {})}
    bounds = resolve(given["maxSurge"], of, up=True), resolve(given["maxUnavailable"], of, up=False)
    return bounds[which != "maxSurge"] if any(bounds) else int(which != "maxSurge")


def _unhealthy(machine: Object) -> bool:
    conditions = conditions_of(machine)
    return any(conditions.get(each, "True") != "True" for each in ("HealthCheckSucceeded", "OwnerRemediated"))
