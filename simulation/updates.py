"""What users and agents do in the stories about machines that are updated in place, and how these end.

Theory.      An agent runs on each node: it begins when the node is ready for its update, and labels it with
             the result some seconds later. It is played as a part of the story, and sees what is there,
             without delay.
Called by    ``stories``, whose table puts the parts together.
"""

from collections.abc import Callable
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import UpdateReason, UpdateResult
from simulation.acts import pool
from simulation.ends import unmarked
from simulation.journal import NODES, Object
from simulation.person import Person, of_class
from simulation.story import End, Part

AUTO = {"maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto"}
MARKS = (names.CANDIDATE_LABEL, names.SELECTED_LABEL, names.UPDATE_RESULT_LABEL)
WORK_SECONDS = 4.0
"""How long an agent works on a node."""
PATIENCE_SECONDS = 1800.0
"""How long agents are there after the last change."""

Says = Callable[[int], str]
"""What the agents say of the n-th update, counted from 0: a value of the label, or nothing."""


def successful(_number: int) -> str:
    return UpdateResult.SUCCESSFUL


def failed_once(number: int) -> str:
    return UpdateResult.FAILED if number == 0 else UpdateResult.SUCCESSFUL


def silent_once(number: int) -> str:
    return "" if number == 0 else UpdateResult.SUCCESSFUL


def noted_pool(count: int, **strategy: Any) -> Part:
    """A pool that is updated in place, and the names of its VMs."""

    async def before(person: Person) -> None:
        changed = {"type": "InPlaceUpdate", "inPlaceUpdate": {**AUTO, **strategy}}
        hurried = {"healthTimeout": "1m", "inPlaceUpdateTimeout": "1m"}
        await pool(count, strategy=changed)(person)
        await person.change("pool", template={"spec": hurried})
        await person.wait(3.0)
        person.victim = " ".join(sorted(vm.name for vm in person.vms))

    return before


def update(says: Says = successful) -> Part:
    """A user wants another class, and the agents update the nodes."""

    async def act(person: Person) -> None:
        await person.roll("pool", "large")
        await _agents(person, says, lambda: all_of(person, "large"))

    return act


async def update_and_call_off(person: Person) -> None:
    """A user goes back to the old class when the first machine has the new one."""
    await person.roll("pool", "large")
    await _agents(person, successful, lambda: any(of_class(m) == "large" for m in person.machines))
    await person.roll("pool", "small")
    await _agents(person, successful, lambda: all_of(person, "small"))


async def update_and_scale(person: Person) -> None:
    """A user wants one machine more while the others are updated."""
    await person.roll("pool", "large")
    await _agents(person, successful, lambda: any(of_class(m) == "large" for m in person.machines))
    await person.change("pool", replicas=3)
    await _agents(person, successful, lambda: all_of(person, "large"))


def updated(count: int, machine_class: str = "large", replaced: int = 0) -> End:
    """So many machines run, of that class, and no mark of an update is left. All but ``replaced`` of them are
    those of the beginning, unless VMs or nodes had faults, or a manager began with stale lists
    (``rules.Rule.fresh``)."""

    def end(person: Person) -> bool:
        kept = {vm.name for vm in person.vms} & set(person.victim.split())
        excused = person.node_faults or person.world.plot.stale > 0
        same = excused or len(kept) >= min(count, len(person.victim.split())) - replaced
        return person.settled(count, machine_class) and unmarked(person) and released(person) and same

    return end


def all_of(person: Person, machine_class: str) -> bool:
    """Whether all machines are of the class, and released."""
    return all(of_class(m) == machine_class for m in person.machines) and released(person)


def released(person: Person) -> bool:
    """Whether no machine and no node has a mark of an update, and every node takes pods."""
    nodes = person.world.journal.objects[NODES].values()
    held = [found["metadata"].get("labels", {}) for found in (*nodes, *person.machines)]
    cordoned = any(node["spec"].get("unschedulable") for node in nodes)
    return not cordoned and not any(mark in labels for labels in held for mark in MARKS)


async def _agents(person: Person, says: Says, done: Callable[[], bool]) -> None:
    """Agents on all nodes, until ``done``; in a world with faults it may become true without them."""
    since, begun = dict[str, float](), list[str]()
    waited = 0.0
    while not done() and waited < PATIENCE_SECONDS:
        ready = {key for key, node in person.world.journal.objects[NODES].items() if _is_ready(node)}
        since = {key: since.get(key, waited) for key in sorted(ready)}
        for key in [key for key, began in since.items() if waited - began >= WORK_SECONDS]:
            if key not in begun:
                begun.append(key)
            if result := says(begun.index(key)):
                await person.label_node(key, {names.UPDATE_RESULT_LABEL: result})
        await person.wait(1.0)
        waited += 1.0


def _is_ready(node: Object) -> bool:
    """Whether the node waits for its agent."""
    labels, told = node["metadata"].get("labels", {}), node.get("status", {}).get("conditions", ())
    ready = any((c["type"], c["reason"]) == ("InPlaceUpdate", UpdateReason.READY) for c in told)
    return ready and names.CANDIDATE_LABEL in labels and names.UPDATE_RESULT_LABEL not in labels
