"""The parts of stories: what exists before one begins, and what users do in it.

Theory.      A part is an ``async`` function of a ``Person``; functions here that take a number or a name
             return one. How a story ends is in ``ends``.
Called by    ``stories``, whose table puts them together.
"""

from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.driver.errors import Code
from kubewright.wire.http import Request
from simulation.ends import LATE, TIER, is_refused, says
from simulation.journal import (
    NODES,
)
from simulation.network import READS
from simulation.person import Person, of_class, phase
from simulation.rules.facts import finalizers_of
from simulation.story import Part, then, until

RECREATE = {"type": "Recreate"}
FORBIDDEN_SECONDS = 30.0
"""How long a role is wrong: shorter than the pause after a refused write."""

CAREFUL = {
    "minReadySeconds": 5,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
}
"""Never fewer available machines than desired, and a machine is available after five seconds."""

HURRIED = {"progressDeadlineSeconds": 10}
"""A rollout that stands still for so long is stuck."""
NO_CLASS = "missing"

# ---------------------------------------------------------------- before


def deploy(count: int, machine_class: str = "small", name: str = "pool", **spec: Any) -> Part:
    """Make a deployment."""
    return lambda person: person.deploy(name, count, machine_class, **spec)


def change(name: str = "pool", **spec: Any) -> Part:
    """Patch the spec of a deployment."""
    return lambda person: person.change(name, **spec)


def roll(machine_class: str = "large", name: str = "pool") -> Part:
    """Change a deployment to another class."""
    return lambda person: person.roll(name, machine_class)


def delete(name: str = "pool", propagation: str = "") -> Part:
    """Delete a deployment."""
    return lambda person: person.delete(name, propagation)


def make_class(name: str, **how: Any) -> Part:
    """Make a class of machines."""
    return lambda person: person.make_class(name, **how)


def make_secret(name: str) -> Part:
    """Make a Secret such as classes need."""
    return lambda person: person.make_secret(name)


def make_set(count: int) -> Part:
    """Make a set without an owner."""
    return lambda person: person.make_set("lonely", count)


def settle(count: int, what: str, machine_class: str = "") -> Part:
    """Wait until so many machines run, and nothing else."""
    return until(lambda person: person.settled(count, machine_class), what)


def pool(count: int, **spec: Any) -> Part:
    """A deployment, settled."""
    return then(deploy(count, **spec), settle(count, f"{count} machines"))


def correct(machine_class: str) -> Part:
    """A rollout is late, and is corrected when that is reported."""
    late = until(lambda person: says(person, LATE), "the deployment says that it is stuck")
    return then(late, roll(machine_class))


def held(seconds: float) -> Part:
    """Say for how long pods stay on their nodes."""

    async def part(person: Person) -> None:
        person.held = seconds

    return part


def creation_timeout(value: str) -> Part:
    """Change how long machines may take to join."""
    return change(template={"spec": {"creationTimeout": value}})


def delete_class(name: str) -> Part:
    """Delete a class of machines."""
    return lambda person: person.delete_class(name)


def force_secret_away(name: str) -> Part:
    """Delete a Secret in spite of its finalizers."""
    return lambda person: person.force_secret_away(name)


async def make_stray(person: Person) -> None:
    """A machine without an owner."""
    await person.make_machine("stray", "lonely")


async def delete_set_but_keep_machines(person: Person) -> None:
    await person.delete_set("lonely", propagation="Orphan")


async def with_pods(person: Person) -> None:
    """A deployment with a pod on each node that takes its time to end."""
    await pool(2)(person)
    for number, vm in enumerate(person.vms):
        await person.run_pod(f"work-{number}", vm.node_name, seconds=20)
    await person.wait(5.0)


async def with_guarded_pods(person: Person) -> None:
    """A machine with a pod, and a disruption budget that never allows its eviction."""
    await pool(1)(person)
    await person.run_pod("work", person.vms[0].node_name, seconds=1)
    await person.make_budget("keep")
    await person.wait(5.0)


async def noted_pool(person: Person) -> None:
    """A user keeps cluster-autoscaler away from every node that there is."""
    await pool(3)(person)
    person.victim = " ".join(sorted(vm.node_name for vm in person.vms))
    for name in person.victim.split():
        await person.note_node(name, {names.SCALE_DOWN_DISABLED_ANNOTATION: "true"})


async def found_vms(person: Person) -> None:
    """VMs whose machines are lost, as after a restore from a backup."""
    for name in ("kept", "dropped"):
        await person.make_vm(name)
    await person.until(lambda: len(person.world.journal.objects[NODES]) == 2, "two nodes")


# ---------------------------------------------------------------- acts


async def relabel_nodes(person: Person) -> None:
    """Nodes with another label are the same nodes."""
    person.victim = person.vms[0].name
    node = {"metadata": {"labels": {TIER: "two"}}}
    await person.change("pool", template={"spec": {"nodeTemplate": node}})


async def choose_victim(person: Person) -> None:
    """What cluster-autoscaler does: fewer replicas, and a mark on the machine to delete."""
    person.victim = person.vms[-1].name
    notes = {
        names.TRIGGER_DELETION_ANNOTATION: f"{person.victim}~{person.date()}",
        names.LAST_SCALER_CHANGE_ANNOTATION: person.date(),
    }
    await person.amend("pool", {"metadata": {"annotations": notes}, "spec": {"replicas": 2}})


async def delete_one(person: Person) -> None:
    person.victim = str(person.machines[0]["metadata"]["name"])
    await person.delete_machine(person.victim)


async def delete_against_a_budget(person: Person) -> None:
    """The drain waits until a user deletes the budget, long before force begins."""
    person.held = 30.0
    await person.delete("pool")
    await person.wait(8.0)
    await person.delete_budget("keep")


async def trigger_deletion(person: Person) -> None:
    """A user who may write nodes and not machines wants a machine replaced."""
    person.victim = person.vms[0].name
    person.deleted.add(person.victim)
    await person.note_node(person.vms[0].node_name, {names.TRIGGER_DELETION_ANNOTATION: "true"})


async def restore(person: Person) -> None:
    """Machines are created again from a backup: their VMs are on record, their uids are new."""
    for vm in person.vms:
        await person.make_machine(vm.name, "lonely", providerID=vm.provider_id)
    await person.until(
        lambda: all(names.FINALIZER in finalizers_of(each) for each in person.machines),
        "a controller manages the machines",
    )
    await person.delete_machine("dropped")


TYPO = {"regoin": "here"}
MENDED = {"regoin": None}


async def refused_pool(person: Person) -> None:
    """Machines of a class that the driver does not understand; the driver has said so of each."""
    await person.make_class("wrong")
    await person.change_class("wrong", TYPO)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    await person.deploy("pool", 2, "wrong", strategy=strategy)
    await person.until(lambda: _refused(person) == 2, "the driver refuses both machines")


async def roll_away_from_a_refused_class(person: Person) -> None:
    """New machines come although old ones wait for a driver that will never answer; mended, these go."""
    await person.roll("pool", "small")
    await person.until(lambda: _running(person) == 2, "the new machines run")
    await person.change_class("wrong", MENDED)


async def force_what_a_driver_refuses(person: Person) -> None:
    """Until a user forces their deletion machines wait, of which a manager before may have made VMs."""
    await person.delete("pool")
    await person.wait(30.0)
    undisturbed = not person.world.plot.schedule.faults
    assert person.machines or not undisturbed, "machines wait until they are forced"
    for machine in person.machines:
        await person.force(machine["metadata"]["name"])


async def break_a_class(person: Person) -> None:
    """The driver understands a class no longer while VMs are made by it: none of them is forgotten."""
    await person.deploy("pool", 2)
    await person.wait(0.08)
    await person.until(lambda: bool(person.vms), "a VM is made")
    await person.change_class("small", TYPO)
    await person.delete("pool")
    await person.wait(30.0)
    await person.change_class("small", MENDED)


def _refused(person: Person) -> int:
    """How many machines say that the driver does not understand their class."""
    said = (each.get("status", {}).get("lastOperation", {}) for each in person.machines)
    return sum(each.get("errorCode") == Code.InvalidArgument.name for each in said)


def _running(person: Person) -> int:
    """How many machines of class ``small`` run."""
    return sum(phase(each) == Phase.RUNNING and of_class(each) == "small" for each in person.machines)


async def name_too_long(person: Person) -> None:
    """The name of its node is no label value, so a VM could never be recorded: none is made, its status says
    so, and the machine can be deleted."""
    name = "m" + 74 * "x"
    await person.make_machine(name, "lonely")
    await person.until(lambda: bool(_refused(person)), "the machine says what is wrong")
    await person.delete_machine(name)


async def delete_while_nodes_are_forbidden(person: Person) -> None:
    """A role is wrong for a while: the managers may read nodes, and not write to them.

    In a world with faults the next manager may begin when the role is right again.
    """
    disturbed = bool(person.world.plot.schedule.faults)
    person.world.injector.fail_requests("forbid", FORBIDDEN_SECONDS, share=1.0, aim=_writes_to_nodes)
    await person.delete("pool")
    await person.until(
        lambda: any(map(is_refused, person.machines)) or (disturbed and not person.machines),
        "a machine says what is refused",
    )


def _writes_to_nodes(_client: str, request: Request) -> bool:
    """Whether a request would change a Node."""
    return request.method not in READS and request.path.startswith("/api/v1/nodes/")
