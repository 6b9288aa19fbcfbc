"""How the world must look at the end of a story.

Theory.      An end is a question that a ``Person`` can answer; functions here that take a number or a name
             answer one.
Called by    ``stories``, whose table names them, and ``acts``, where people wait for something.
"""

from collections.abc import Callable

from kubewright.api.machine import names
from kubewright.testing.simulation.invariants.facts import progress_of
from kubewright.testing.simulation.journal import (
    MACHINE_CLASSES,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    NODES,
    Object,
)
from kubewright.testing.simulation.person import NAMESPACE_NAME, Person, going, of_class, phase

End = Callable[[Person], bool]

TIER = "example.com/tier"
"""A label that stories give to templates and nodes."""
COMPLETE, LATE = "NewMachineSetAvailable", "ProgressDeadlineExceeded"


def is_held(machine: Object) -> bool:
    """Whether it will not go before its VM has."""
    return names.FINALIZER in machine["metadata"].get("finalizers", ())


def settled(count: int, machine_class: str = "") -> End:
    """So many machines run, and nothing else."""
    return lambda person: person.settled(count, machine_class)


def says(person: Person, reason: str) -> bool:
    """Whether that is what the deployment ``pool`` says about its rollout."""
    found = person.world.journal.objects[MACHINE_DEPLOYMENTS].get(f"{NAMESPACE_NAME}/pool")
    return found is not None and progress_of(found)[1] == reason


def told(count: int, machine_class: str = "") -> End:
    """So many machines run, and their deployment says that all is done."""
    return lambda person: person.settled(count, machine_class) and says(person, COMPLETE)


def healed(count: int) -> End:
    """So many machines run, the victim is not among them, and nothing went wrong on the way."""

    def end(person: Person) -> bool:
        gone = person.victim not in {vm.name for vm in person.vms}
        return person.settled(count) and gone and not person.broken

    return end


def has_failed(person: Person) -> bool:
    """Whether the victim is there, and Failed."""
    found = (m for m in person.machines if m["metadata"]["name"] == person.victim and not going(m))
    return any(phase(machine) == "Failed" for machine in found)


def as_before(count: int) -> End:
    """So many machines run, and no node carries a trace of a preservation."""

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


def kept_by_nobody(person: Person) -> bool:
    owners = [machine["metadata"].get("ownerReferences") for machine in person.machines]
    return _on_their_own(person, 2) and person.empty(MACHINE_SETS) and owners == [None, None]


def adopted(person: Person) -> bool:
    owned = [m for m in person.machines if m["metadata"].get("ownerReferences")]
    named = person.hurt or any(m["metadata"]["name"] == "stray" for m in owned)
    return person.settled(2) and len(owned) == 2 and named


def restored(person: Person) -> bool:
    return _on_their_own(person, 1) and (person.hurt or [vm.serial for vm in person.vms] == [1])


def _on_their_own(person: Person, count: int) -> bool:
    """Machines that no set would replace: they run, or a fault harmed one and it has failed for good."""
    phases = [phase(machine) for machine in person.machines if not going(machine)]
    failed = person.hurt and len(phases) == count and set(phases) <= {"Running", "Failed"}
    return person.settled(count) or failed


def relabelled(person: Person) -> bool:
    return person.settled(2) and all(TIER in m["metadata"]["labels"] for m in person.machines)


def nodes_relabelled(person: Person) -> bool:
    nodes = person.world.journal.objects[NODES].values()
    same = person.hurt or person.victim in {vm.name for vm in person.vms}
    return person.settled(2) and same and all(TIER in node["metadata"]["labels"] for node in nodes)


def both_pools(person: Person) -> bool:
    classes = sorted(map(of_class, person.machines))
    return person.settled(4) and classes == ["huge", "huge", "large", "large"]


def is_refused(machine: Object) -> bool:
    """Whether it says that a write is refused."""
    return "The API server refused to " in machine.get("status", {}).get("lastOperation", {}).get(
        "description", ""
    )
