"""What a user does in the story about a set that is frozen: machines cling, and too many are made for them.

Called by    ``stories``, whose table puts the parts together.
"""

from kubewright.api.machine import names
from simulation.invariants.facts import running
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, Object
from simulation.person import Person, going

GRACE = 60
"""Seconds that the pods take to end."""
DELETED = 4
"""Machines that a user deletes: with two replicas, a surge of 1 and 2 for safety the set is frozen at 5."""


async def delete_too_many(person: Person) -> None:
    """A user deletes one machine after the other, and the pods on them do not end. In a world with faults the
    set may be spared: a VM that dies lets its machine go, and without capacity none is made."""
    person.held = float(GRACE * DELETED)
    for number in range(DELETED):
        well = [m for m in person.machines if running(m) and not going(m)]
        if is_frozen(person) or not well:
            break
        name = str(well[0]["metadata"]["name"])
        await person.run_pod(f"slow-{number}", name, seconds=GRACE)
        await person.delete_machine(name)
        await person.until(
            lambda: is_frozen(person) or _whole(person), "it is replaced, or the set is frozen"
        )
    await person.wait(10.0)


def thawed(person: Person) -> bool:
    """Two machines run, and neither the set nor the deployment says that it is frozen."""
    journal = person.world.journal.objects
    found = [*journal[MACHINE_SETS].values(), *journal[MACHINE_DEPLOYMENTS].values()]
    return person.settled(2) and not any(map(_says_frozen, found))


def is_frozen(person: Person) -> bool:
    """Whether a set may make no machine."""
    sets = person.world.journal.objects[MACHINE_SETS].values()
    return any(names.FREEZE_LABEL in each["metadata"].get("labels", {}) for each in sets)


def _whole(person: Person) -> bool:
    return sum(running(m) and not going(m) for m in person.machines) == 2


def _says_frozen(found: Object) -> bool:
    """By its label, or by its condition."""
    status = found.get("status", {})
    conditions = status.get("conditions") or status.get("machineSetCondition") or ()
    says = any(each["type"] == "Frozen" for each in conditions)
    return says or names.FREEZE_LABEL in found["metadata"].get("labels", {})
