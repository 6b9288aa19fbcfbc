"""What must be true of numbers: neither too many nor too few, and no status that counts what does not exist.

Theory.      A manager must do what is right in the state that it last received, or in any later one
             (``Past.since``). A deployment's older spec stays in force until its sets' sizes fit the
             newer one, because until then the sets still carry out the older one.
Called by    ``invariants``, whose table these rules stand in.
"""

from collections.abc import Callable, Iterable, Mapping

from kubewright.testing.simulation.invariants.facts import deleting, lets_go, revision, running
from kubewright.testing.simulation.invariants.history import Crew, Fleet, mixed
from kubewright.testing.simulation.invariants.past import Past
from kubewright.testing.simulation.journal import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    ApiStep,
    Object,
    Step,
)

Peak = Callable[[Crew, float], int]


def not_too_many(step: Step, past: Past) -> str:
    """A new machine does not take its deployment above replicas + surge."""
    made = _made(step, past)
    fleet = past.fleet_of(past.crew_of(made)) if made is not None else None
    if fleet is None:
        return ""
    most = max((each.most for each in fleet.in_force(past.since())), default=fleet.alive)
    return f"{fleet.key} has {fleet.alive} machines, more than {most}" if fleet.alive > most else ""


def a_set_keeps_its_size(step: Step, past: Past) -> str:
    """A set makes no machine beyond its own size."""
    made = _made(step, past)
    crew = past.crew_of(made) if made is not None else None
    if crew is None or not crew.sizes:
        return ""
    size = max(crew.sizes.in_force(past.since()))
    return f"set {crew.key} has {crew.alive} machines, and a size of {size}" if crew.alive > size else ""


def a_name_is_for_one_machine(step: Step, past: Past) -> str:
    """No two machines of a set ever have the same name, also when the first is long gone."""
    made = _made(step, past)
    if made is None or not past.again:
        return ""
    return f"machine {made['metadata']['name']} has the name of one that is gone"


def sizes_fit_the_spec(step: Step, past: Past) -> str:
    """No set is created or enlarged beyond what its deployment may have."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_SETS or step.new is None:
        return ""
    crew = past.crews[step.new["metadata"]["uid"]]
    before = int(step.old["spec"].get("replicas", 0)) if step.old is not None else 0
    fleet = past.fleet_of(crew)
    if (
        fleet is None
        or crew.size <= before
        or (step.old is None and past.late_creation(crew.key.partition("/")[2]))
    ):
        return ""
    most = max((each.most for each in fleet.in_force(past.since())), default=fleet.size)
    return f"the sets of {fleet.key} add up to {fleet.size}, more than {most}" if fleet.size > most else ""


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
    crew = past.crew_of(step.old)
    fleet = past.fleet_of(crew)
    if (
        crew is None
        or fleet is None
        or fleet.leaving
        or step.old["metadata"]["name"] in past.deleted_by_users
    ):
        return ""
    told = min(past.since(), crew.told)
    least = min((each.least for each in fleet.in_force(told)), default=0)
    fallen = sum(each.stopped_since(told) for each in fleet.crews.values())
    hidden = sum(each.changed_between(*past.unseen()) for each in fleet.crews.values())
    kept = fleet.available(past.now())
    return f"{fleet.key} keeps {kept} of at least {least} available" if kept + fallen + hidden < least else ""


SET_COUNTS: Mapping[str, Peak] = {
    "replicas": lambda crew, since: mixed(crew.totals, since),
    "fullyLabeledReplicas": lambda crew, since: mixed(crew.totals, since),
    "readyReplicas": lambda crew, since: mixed(crew.runnings, since),
    "availableReplicas": lambda crew, since: mixed(crew.runnings, since),
}
"""What each number in a set's status may be at most."""


def a_true_count(step: Step, past: Past) -> str:
    """A set's status counts no machine that does not exist."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_SETS or step.new is None:
        return ""
    crew, since = past.crews[step.new["metadata"]["uid"]], past.since()
    for name, told in _changed_counts(step, SET_COUNTS):
        if told > (there := SET_COUNTS[name](crew, since)):
            return f"{step.key} reports {told} {name}, and there are {there}"
    return ""


def a_true_total(step: Step, past: Past) -> str:
    """A deployment's status counts no machine that does not exist."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_DEPLOYMENTS or step.new is None:
        return ""
    fleet, since = past.fleets[step.key], past.since()
    for name, told in _changed_counts(step, (*DEPLOYMENT_COUNTS, "updatedReplicas")):
        crews = _current(fleet, since) if name == "updatedReplicas" else fleet.crews_since(since)
        count = SET_COUNTS[DEPLOYMENT_COUNTS.get(name, "replicas")]
        if told > (there := sum(count(crew, since) for crew in crews)):
            return f"{step.key} reports {told} {name}, and there are {there}"
    return ""


DEPLOYMENT_COUNTS = {name: name for name in ("replicas", "readyReplicas", "availableReplicas")}


def a_set_outlives_its_machines(step: Step, past: Past) -> str:
    """Our finalizer is removed from a set when it has no machines, or they were disowned."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_SETS or not lets_go(step):
        return ""
    crew = past.crews.get(step.old["metadata"]["uid"]) if step.old is not None else None
    left = crew.total if crew is not None else 0
    return f"set {step.key} lost our finalizer, and has {left} machines" if left else ""


def a_deployment_outlives_its_sets(step: Step, past: Past) -> str:
    """Our finalizer is removed from a deployment when it has no sets, or they were disowned."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_DEPLOYMENTS or not lets_go(step):
        return ""
    left = [crew.key for crew in past.fleets[step.key].crews.values()]
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
    crew = past.crews[step.new["metadata"]["uid"]]
    fleet = past.fleet_of(crew)
    specs = fleet.in_force(past.since()) if fleet is not None else []
    paused = [each.paused for each in specs if each.machine_class == crew.machine_class]
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


def _current(fleet: Fleet, since: float) -> list[Crew]:
    """The sets that a manager may take for the current set."""
    classes = {each.machine_class for each in fleet.in_force(since)}
    return [crew for crew in fleet.crews_since(since) if crew.machine_class in classes]


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
