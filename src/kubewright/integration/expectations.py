"""What a case waits for: given what is seen, whether it is so, and what is missing if it is not. Pure.

Theory.      A case changes something, and then looks every two seconds until an expectation is met. An
             expectation answers with a clause that says what is still missing, which is what a person at the
             terminal reads, and what the report says when the time is over. One that can never be met any
             more says so, and the case ends at once.
Source       ITS-02.
Called by    ``cases``; ``bench`` waits by them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kubewright.api.conditions import is_condition_true
from kubewright.api.core import NODE_READY, Event, Node
from kubewright.api.machine.names import ConditionReason, ConditionType, Phase
from kubewright.api.machine.v1alpha1 import Machine, MachineDeployment, MachineSet

AVAILABLE = {
    ("Available", "True", "MinimumReplicasAvailable"),
    ("Progressing", "True", "NewMachineSetAvailable"),
}
"""The conditions of a deployment that is well: these, and no others."""

SHOWN = 4
"""At most so many objects are named in a clause."""


@dataclass(frozen=True, slots=True)
class View:
    """What is there at one moment.

    ``nodes``       of the target cluster, all of them
    ``machines``    of the namespace, all of them; ``of_test``: those that the test made
    ``pool``        of these, those of its deployment; ``sets``: its sets; ``deployment``: itself, if there
    ``freezes``     how many events tell of a set that was frozen or unfrozen
    """

    nodes: tuple[Node, ...] = ()
    machines: tuple[Machine, ...] = ()
    of_test: tuple[Machine, ...] = ()
    pool: tuple[Machine, ...] = ()
    sets: tuple[MachineSet, ...] = ()
    deployment: MachineDeployment | None = None
    freezes: int = 0

    @property
    def node_names(self) -> frozenset[str]:
        return frozenset(node.metadata.name for node in self.nodes)

    @property
    def unready(self) -> tuple[str, ...]:
        """The nodes that are not Ready."""
        return tuple(node.metadata.name for node in self.nodes if not _ready(node))


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether an expectation is met. ``missing`` says what is not yet so; ``hopeless``: it never will be."""

    missing: str = ""
    hopeless: bool = False

    @property
    def met(self) -> bool:
        return not self.missing


MET = Answer()
Expectation = Callable[[View], Answer]


def all_of(*expectations: Expectation) -> Expectation:
    """All of them at the same moment; the first that is not met answers."""

    def answer(view: View) -> Answer:
        return next((each for wanted in expectations if not (each := wanted(view)).met), MET)

    return answer


def nodes(count: int) -> Expectation:
    """So many nodes in the target cluster, and each of them Ready."""

    def answer(view: View) -> Answer:
        there, unready = len(view.nodes), view.unready
        if there == count and not unready:
            return MET
        silent = f"; not Ready: {named(unready)}" if unready else ""
        if there > count:
            return Answer(f"there are {there} nodes, not {count}{silent}")
        return Answer(f"{there - len(unready)} of {count} nodes are Ready{silent}")

    return answer


def all_ready(view: View) -> Answer:
    """Every node is Ready."""
    return Answer(f"nodes are not Ready: {named(view.unready)}") if view.unready else MET


def same_nodes(before: frozenset[str]) -> Expectation:
    """The nodes are still those, which is over once they are not."""

    def answer(view: View) -> Answer:
        if view.node_names == before:
            return MET
        gone, came = sorted(before - view.node_names), sorted(view.node_names - before)
        told = [f"{word}: {named(each)}" for word, each in (("gone", gone), ("new", came)) if each]
        return Answer(f"the nodes have changed; {'; '.join(told)}", hopeless=True)

    return answer


def machine_gone(name: str) -> Expectation:
    """There is no machine of this name."""

    def answer(view: View) -> Answer:
        found = next((each for each in view.machines if each.metadata.name == name), None)
        return MET if found is None else Answer(f"machine {name} is {phase(found)}")

    return answer


def one_set(view: View) -> Answer:
    """The deployment has made its set."""
    return MET if len(view.sets) == 1 else Answer(f"the deployment has {len(view.sets)} sets, not 1")


def available(replicas: int) -> Expectation:
    """So many machines are available, and the conditions say exactly that."""

    def answer(view: View) -> Answer:
        if view.deployment is None:
            return Answer("the deployment is gone", hopeless=True)
        status = view.deployment.status
        if status.available_replicas != replicas:
            return Answer(f"availableReplicas is {status.available_replicas}, not {replicas}")
        found = {(each.type, each.status, each.reason) for each in status.conditions}
        return MET if found == AVAILABLE else Answer(f"its conditions are {_conditions(found)}")

    return answer


def rolled(replicas: int) -> Expectation:
    """So many machines are of the new template, and available."""

    def answer(view: View) -> Answer:
        if view.deployment is None:
            return Answer("the deployment is gone", hopeless=True)
        status = view.deployment.status
        numbers = (
            ("updatedReplicas", status.updated_replicas),
            ("availableReplicas", status.available_replicas),
        )
        wrong = [f"{name} is {number}" for name, number in numbers if number != replicas]
        return Answer(f"{' and '.join(wrong)}, not {replicas}") if wrong else MET

    return answer


def running(replicas: int) -> Expectation:
    """So many machines of the deployment run, beside those that are being deleted."""

    def answer(view: View) -> Answer:
        alive = [each for each in view.pool if not each.metadata.deleting]
        up = [each for each in alive if each.status.current_status.phase == Phase.RUNNING]
        return MET if len(up) == len(alive) == replicas else Answer(f"{len(up)} of {replicas} machines run")

    return answer


def frozen(view: View) -> bool:
    """Whether a set of the deployment says that it is frozen."""
    return any(
        is_condition_true(each.status.machine_set_condition, ConditionType.FROZEN) for each in view.sets
    )


def unfrozen(events_before: int) -> Expectation:
    """No set is frozen, and exactly two more events tell of a freeze and its end."""

    def answer(view: View) -> Answer:
        more = view.freezes - events_before
        if more > 2:
            return Answer(f"{more} more events tell of freezes, not 2", hopeless=True)
        if frozen(view):
            return Answer("the set is still frozen")
        return MET if more == 2 else Answer(f"{more} more events tell of freezes, not 2")

    return answer


def freezes_before(view: View, at_first: int) -> int:
    """How many events had told of freezes before the one that is seen now. A machine that fails on its own,
    and whose replacement is one too many, has its set frozen and unfrozen beforehand: two events, each."""
    return view.freezes - (view.freezes - at_first) % 2


def deployment_gone(view: View) -> Answer:
    """The deployment is gone, with its sets and machines."""
    parts = [
        *(["the deployment"] if view.deployment is not None else []),
        *(f"set {each.metadata.name}" for each in view.sets),
        *(f"machine {each.metadata.name} ({phase(each)})" for each in view.pool),
    ]
    return Answer(f"still there: {named(parts)}") if parts else MET


def freezes(events: Iterable[Event]) -> int:
    """How often events tell that a set was frozen or unfrozen; a repeated event counts as it says."""
    return sum(max(1, each.count) for each in events if "roze" in each.reason or "roze" in each.message)


def phase(machine: Machine) -> str:
    """A machine's phase in a word, also before a controller has written one."""
    if machine.metadata.deleting:
        return Phase.TERMINATING.value
    return machine.status.current_status.phase or Phase.PENDING.value


def reasons(view: View, events: Sequence[Event] = ()) -> list[str]:
    """Why it takes long: machines that do not run, conditions that are not well, the last warnings."""
    return [*_of_machines(view), *_of_deployment(view), *_of_events(events)]


def _of_machines(view: View) -> list[str]:
    slow = [each for each in view.of_test if phase(each) != Phase.RUNNING]
    told = [f"machine {each.metadata.name} is {phase(each)}{_says(each)}" for each in slow[:SHOWN]]
    return [*told, f"{len(slow) - SHOWN} more machines do not run"] if len(slow) > SHOWN else told


def _says(machine: Machine) -> str:
    """What its last operation says, unless that has ended well, so that it says nothing of this wait."""
    last = machine.status.last_operation
    return f": {last.description}" if last.description and last.state != "Successful" else ""


def _of_deployment(view: View) -> Iterator[str]:
    status = view.deployment.status if view.deployment is not None else None
    for each in status.conditions if status is not None else ():
        well = each.status == ("False" if each.type in ("ReplicaFailure", "Frozen") else "True")
        if not well:
            yield f"condition {each.type} is {each.status} ({each.reason}): {each.message}"
    for one in view.sets:
        for condition in one.status.machine_set_condition:
            if condition.status == "True" and condition.reason != ConditionReason.OVERSHOOTING:
                yield f"set {one.metadata.name}: {condition.type} ({condition.reason}): {condition.message}"


def _of_events(events: Sequence[Event]) -> list[str]:
    warned = [each for each in events if each.type == "Warning"]
    latest = sorted(warned, key=lambda each: each.last_timestamp.timestamp() if each.last_timestamp else 0.0)
    return [
        f"event {each.reason} of {each.involved_object.kind} {each.involved_object.name}: {each.message}"
        for each in latest[-SHOWN:]
    ]


def named(names: Sequence[str]) -> str:
    """Names with commas, the first few of many."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def _ready(node: Node) -> bool:
    return is_condition_true(node.status.conditions, NODE_READY)


def _conditions(found: Iterable[tuple[str, str, str]]) -> str:
    return ", ".join(f"{kind}={status}/{reason}" for kind, status, reason in sorted(found)) or "none"
