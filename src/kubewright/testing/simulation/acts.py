"""What people do in the stories, what was before, and how they know that it is done.

Theory.      A part is an ``async`` function of a ``Person``, an end a question that a ``Person`` can answer.
             Functions here that take a number or a name answer a part or an end.
Called by    ``stories``, whose table puts them together.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.machine import names
from kubewright.testing.simulation.journal import (
    MACHINE_CLASSES,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    NODES,
    Object,
)
from kubewright.testing.simulation.person import NAMESPACE_NAME, Person, going, of_class, phase

Part = Callable[[Person], Awaitable[None]]
End = Callable[[Person], bool]

RECREATE = {"type": "Recreate"}
CAREFUL = {
    "minReadySeconds": 5,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
}
"""Never fewer than wished for, and only a machine that has proved itself counts."""
TIER = "example.com/tier"
"""A label that stories give to templates and nodes."""

# ---------------------------------------------------------------- before


async def nothing(_person: Person) -> None:
    """An empty world."""


def pool(count: int, **spec: Any) -> Part:
    """A deployment, settled."""

    async def before(person: Person) -> None:
        await person.deploy("pool", count, **spec)
        await person.until(lambda: person.settled(count), f"{count} machines")

    return before


async def with_pods(person: Person) -> None:
    """A deployment with a pod on each node that takes its time to end."""
    await pool(2)(person)
    for number, vm in enumerate(person.vms):
        await person.run_pod(f"work-{number}", vm.node_name, seconds=20)
    await person.wait(5.0)


async def with_guarded_pods(person: Person) -> None:
    """A machine with a pod, and a budget that does not let it go."""
    await pool(1)(person)
    await person.run_pod("work", person.vms[0].node_name, seconds=1)
    await person.make_budget("keep")
    await person.wait(5.0)


async def rolled(person: Person) -> None:
    """A deployment that has an old set to go back to."""
    await pool(2)(person)
    await person.roll("pool", "large")
    await person.until(lambda: person.settled(2, "large"), "the roll")


async def two_pools(person: Person) -> None:
    """Two deployments that have nothing to do with each other."""
    await person.deploy("pool", 2)
    await person.deploy("other", 1, "large")
    await person.until(lambda: person.settled(3), "both pools")


async def lonely_set(person: Person) -> None:
    """A set that nobody owns."""
    await person.make_set("lonely", 2)
    await person.until(lambda: person.settled(2), "the set")


async def stray_machine(person: Person) -> None:
    """A machine that nobody owns."""
    await person.make_machine("stray", "lonely")
    await person.until(lambda: person.settled(1), "the stray machine")


async def found_vms(person: Person) -> None:
    """VMs of machines that are lost, as after a disaster of which only a backup is left."""
    for name in ("kept", "dropped"):
        await person.make_vm(name)
    await person.until(lambda: len(person.world.journal.objects[NODES]) == 2, "two nodes")


# ---------------------------------------------------------------- acts


async def create(person: Person) -> None:
    await person.deploy("pool", 3)


def scale(count: int) -> Part:
    """Another number of replicas."""
    return lambda person: person.change("pool", replicas=count)


async def scale_to_zero_and_back(person: Person) -> None:
    await person.change("pool", replicas=0)
    await person.wait(0.1)
    await person.change("pool", replicas=2)


async def roll(person: Person) -> None:
    await person.roll("pool", "large")


async def roll_twice(person: Person) -> None:
    await person.roll("pool", "large")
    await person.wait(0.6)
    await person.roll("pool", "huge")


async def roll_and_scale(person: Person) -> None:
    await person.roll("pool", "large")
    await person.wait(0.3)
    await person.change("pool", replicas=3)


async def roll_back(person: Person) -> None:
    await person.change("pool", rollbackTo={"revision": 0})


async def roll_one_of_two(person: Person) -> None:
    await person.roll("pool", "huge")
    await person.change("other", replicas=2)


async def pause_and_resume(person: Person) -> None:
    await person.change("pool", paused=True)
    await person.roll("pool", "large")
    await person.wait(3.0)
    await person.change("pool", replicas=4)
    await person.wait(3.0)
    await person.change("pool", paused=False)


async def relabel(person: Person) -> None:
    """Machines with another label are other machines."""
    await person.change("pool", template={"metadata": {"labels": {TIER: "two"}}})


async def relabel_nodes(person: Person) -> None:
    """Nodes with another label are the same nodes."""
    person.victim = person.vms[0].name
    node = {"metadata": {"labels": {TIER: "two"}}}
    await person.change("pool", template={"spec": {"nodeTemplate": node}})


async def choose_victim(person: Person) -> None:
    """What cluster-autoscaler does: fewer replicas, and whom it wants to go."""
    person.victim = person.vms[-1].name
    notes = {
        names.TRIGGER_DELETION_ANNOTATION: f"{person.victim}~{person.date()}",
        names.LAST_SCALER_CHANGE_ANNOTATION: person.date(),
    }
    await person.amend("pool", {"metadata": {"annotations": notes}, "spec": {"replicas": 2}})


async def kill_vm(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.kill(person.vms[0].id)


async def take_vm_away(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.vanish(person.vms[0].id)


async def delete(person: Person) -> None:
    await person.delete("pool")


async def delete_while_creating(person: Person) -> None:
    await person.deploy("pool", 3)
    await person.wait(0.08)
    await person.delete("pool")


async def delete_while_draining(person: Person) -> None:
    await person.change("pool", replicas=1)
    await person.wait(4.0)
    await person.delete("pool")


async def delete_one(person: Person) -> None:
    person.victim = str(person.machines[0]["metadata"]["name"])
    await person.delete_machine(person.victim)


async def delete_against_a_budget(person: Person) -> None:
    """The drain can do nothing until the budget is mended, long before force begins."""
    person.held = 30.0
    await person.delete("pool")
    await person.wait(8.0)
    await person.delete_budget("keep")


async def trigger_deletion(person: Person) -> None:
    """A person who reaches nodes and no machines wants one replaced."""
    person.victim = person.vms[0].name
    person.deleted.add(person.victim)
    await person.note_node(person.vms[0].node_name, {names.TRIGGER_DELETION_ANNOTATION: "true"})


async def delete_but_keep_sets(person: Person) -> None:
    await person.delete("pool", propagation="Orphan")


async def delete_set_but_keep_machines(person: Person) -> None:
    await person.delete_set("lonely", propagation="Orphan")


async def make_set(person: Person) -> None:
    await person.make_set("lonely", 2)


async def restore(person: Person) -> None:
    """Machines are made anew from a backup: they know their VMs, and their uids are others."""
    for vm in person.vms:
        await person.make_machine(vm.name, "lonely", providerID=vm.provider_id)
    await person.until(lambda: all(map(is_held, person.machines)), "somebody looks after the machines")
    await person.delete_machine("dropped")


async def class_comes_late(person: Person) -> None:
    await person.deploy("pool", 1, "late")
    await person.wait(3.0)
    await person.make_class("late")


async def class_goes_first(person: Person) -> None:
    """A class that is still used is deleted, and then the machines that use it."""
    await person.delete_class("small")
    await person.wait(3.0)
    await person.delete("pool")


async def secret_comes_late(person: Person) -> None:
    await person.make_class("locked", secret="late")
    await person.deploy("pool", 1, "locked")
    await person.wait(3.0)
    await person.make_secret("late")


# ---------------------------------------------------------------- ends


def is_held(machine: Object) -> bool:
    """Whether it will not go before its VM has."""
    return names.FINALIZER in machine["metadata"].get("finalizers", ())


def settled(count: int, machine_class: str = "") -> End:
    """So many machines run, and nothing else."""
    return lambda person: person.settled(count, machine_class)


def healed(count: int) -> End:
    """So many machines run, and the victim is not among them."""
    return lambda person: person.settled(count) and person.victim not in {vm.name for vm in person.vms}


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
    """Machines that no set would replace: they run, or somebody harmed one and it has failed for good."""
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
