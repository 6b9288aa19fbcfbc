"""What users and clouds do in the stories about machines that fall ill: VMs die, and users keep what failed.

Called by    ``stories``, whose table puts them together.
"""

from kubewright.api.machine import names
from simulation.acts import pool
from simulation.ends import has_failed
from simulation.person import Person

# ---------------------------------------------------------------- before


async def short_preservations(person: Person) -> None:
    """Two machines that are preserved for two minutes at most."""
    await pool(2)(person)
    await person.change("pool", template={"spec": {"machinePreserveTimeout": "2m"}})
    await person.wait(3.0)


async def slow_machines(person: Person) -> None:
    """Three machines that take twenty seconds to be made, and may be unwell for a minute and a half."""
    await person.make_class("slow", pace=10.0)
    await person.deploy("pool", 3, "slow")
    await person.until(lambda: person.settled(3), "three machines")
    await person.change("pool", template={"spec": {"healthTimeout": "90s"}})
    await person.wait(3.0)


# ---------------------------------------------------------------- acts


async def kill_vm(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.kill(person.vms[0].id)


async def kill_two(person: Person) -> None:
    """Two machines die, and only one may be replaced at a time."""
    first, second = person.vms[:2]
    person.victim = f"{first.name} {second.name}"
    person.world.cloud.kill(first.id)
    await person.wait(3.0)
    person.world.cloud.kill(second.id)


async def keep_what_fails(person: Person) -> None:
    """A user asks to keep a machine if it fails, and it does; when its time is over it is replaced."""
    person.victim = person.vms[0].name
    await person.note_machine(person.victim, {names.PRESERVE_ANNOTATION: "when-failed"})
    await person.wait(3.0)
    person.world.cloud.kill(person.vms[0].id)
    await person.until(lambda: has_failed(person) or person.node_faults, "it fails")
    await person.wait(60.0)
    if not (has_failed(person) or person.node_faults or person.clock_faults):
        person.broken = "a machine that was to be kept is gone before its time"


async def keep_for_a_while(person: Person) -> None:
    """A user asks to keep a machine, by an annotation on its node, and later takes that back."""
    node = person.vms[0].node_name
    await person.note_node(node, {names.PRESERVE_ANNOTATION: "now"})
    await person.wait(5.0)
    await person.note_node(node, {names.PRESERVE_ANNOTATION: "false"})


async def take_vm_away(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.vanish(person.vms[0].id)
