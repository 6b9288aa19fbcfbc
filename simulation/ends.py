"""How the world must look at the end of a story.

Theory.      An end is a predicate of a ``Person``; functions here that take a number or a name return one.
Called by    ``stories``, whose table names them, and ``acts``, which waits for some of them.
"""

from kubewright.api.machine import names
from simulation.journal import (
    MACHINE_CLASSES,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    NAMESPACE_NAME,
    NODES,
    Object,
)
from simulation.person import Person, going, of_class, phase
from simulation.rules.facts import notes_of, progress_of
from simulation.story import End

TIER = "example.com/tier"
"""A label that stories give to templates and nodes."""
COMPLETE, LATE = "NewMachineSetAvailable", "ProgressDeadlineExceeded"


def settled(count: int, machine_class: str = "") -> End:
    """So many machines run, and nothing else; no node has a mark of a rollout."""
    return lambda person: person.settled(count, machine_class) and unmarked(person)


def unmarked(person: Person) -> bool:
    """Whether no node has a mark that rollouts put on; an annotation that a user gave is none."""
    nodes = person.world.journal.objects[NODES].values()
    ours = any(names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION in notes_of(node) for node in nodes)
    taints = [taint["key"] for node in nodes for taint in node["spec"].get("taints", ())]
    return not ours and names.PREFER_NO_SCHEDULE not in taints


def as_noted(count: int) -> End:
    """So many machines run, unmarked; those that a user keeps from the autoscaler, and no others, say so
    (a node that was lost and registers again is a new one)."""

    def end(person: Person) -> bool:
        nodes = person.world.journal.objects[NODES].items()
        says = {key for key, node in nodes if names.SCALE_DOWN_DISABLED_ANNOTATION in notes_of(node)}
        asked = {key for key, _ in nodes if key.rpartition("/")[2] in person.victim.split()}
        return settled(count)(person) and (person.node_faults or says == asked)

    return end


def says(person: Person, reason: str) -> bool:
    """Whether the deployment ``pool`` reports this reason about its rollout."""
    found = person.world.journal.objects[MACHINE_DEPLOYMENTS].get(f"{NAMESPACE_NAME}/pool")
    return found is not None and progress_of(found)[1] == reason


def reported(count: int, machine_class: str = "") -> End:
    """So many machines run, and their deployment reports a complete rollout."""
    return lambda person: person.settled(count, machine_class) and says(person, COMPLETE)


def healed(count: int) -> End:
    """So many machines run, no victim is among them, and the person saw nothing wrong."""

    def end(person: Person) -> bool:
        gone = not {vm.name for vm in person.vms} & set(person.victim.split())
        return person.settled(count) and gone and not person.broken

    return end


def has_failed(person: Person) -> bool:
    """Whether the victim exists, and is Failed."""
    found = (m for m in person.machines if m["metadata"]["name"] == person.victim and not going(m))
    return any(phase(machine) == "Failed" for machine in found)


def as_before(count: int) -> End:
    """So many machines run, and no node has a mark of a preservation."""

    def end(person: Person) -> bool:
        nodes = person.world.journal.objects[NODES].values()
        notes = [node["metadata"].get("annotations", {}) for node in nodes]
        taints = [taint["key"] for node in nodes for taint in node["spec"].get("taints", ())]
        left = any(names.SCALE_DOWN_DISABLED_ANNOTATION in note for note in notes)
        return person.settled(count) and not left and names.PRESERVED_TAINT not in taints

    return end


def nothing_left(person: Person) -> bool:
    return person.settled(0) and person.empty(MACHINE_SETS) and person.empty(MACHINE_DEPLOYMENTS)


def no_class_left(person: Person) -> bool:
    classes = person.world.journal.objects[MACHINE_CLASSES]
    return nothing_left(person) and f"{NAMESPACE_NAME}/small" not in classes


def kept_by_its_set(person: Person) -> bool:
    sets = person.world.journal.objects[MACHINE_SETS].values()
    owners = [each["metadata"].get("ownerReferences") for each in sets]
    return person.settled(2) and person.empty(MACHINE_DEPLOYMENTS) and owners == [None]


def machines_without_a_set(person: Person) -> bool:
    owners = [machine["metadata"].get("ownerReferences") for machine in person.machines]
    return _on_their_own(person, 2) and person.empty(MACHINE_SETS) and owners == [None, None]


def adopted(person: Person) -> bool:
    owned = [m for m in person.machines if m["metadata"].get("ownerReferences")]
    named = person.node_faults or any(m["metadata"]["name"] == "stray" for m in owned)
    return person.settled(2) and len(owned) == 2 and named


def restored(person: Person) -> bool:
    return _on_their_own(person, 1) and (person.node_faults or [vm.serial for vm in person.vms] == [1])


def _on_their_own(person: Person, count: int) -> bool:
    """Machines without a set, which are not replaced: they run, or one has Failed because of a fault."""
    phases = [phase(machine) for machine in person.machines if not going(machine)]
    failed = person.node_faults and len(phases) == count and set(phases) <= {"Running", "Failed"}
    return person.settled(count) or failed


def relabelled(person: Person) -> bool:
    return person.settled(2) and all(TIER in m["metadata"]["labels"] for m in person.machines)


def nodes_relabelled(person: Person) -> bool:
    nodes = person.world.journal.objects[NODES].values()
    same = person.node_faults or person.victim in {vm.name for vm in person.vms}
    return person.settled(2) and same and all(TIER in node["metadata"]["labels"] for node in nodes)


def both_pools(person: Person) -> bool:
    classes = sorted(map(of_class, person.machines))
    return person.settled(4) and classes == ["huge", "huge", "large", "large"]


def is_refused(machine: Object) -> bool:
    """Whether its status says that a write is refused."""
    return "The API server refused to " in machine.get("status", {}).get("lastOperation", {}).get(
        "description", ""
    )
