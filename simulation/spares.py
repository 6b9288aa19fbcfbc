"""Stories about machines that are kept free (``spec.excessReplicas``): what users do, and how these end.

Theory.      Which machines are kept free is known by the taints on the machines. In the end these are the
             newest ones, as many as the deployment asks for; the nodes of these and of no others have the
             taints and cluster-autoscaler's annotation, and no rollout has left a mark of its own.
Called by    ``stories``, whose table puts the parts together.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.machine import excess, names
from simulation.ends import unmarked
from simulation.journal import NODES, Object
from simulation.person import Person
from simulation.rules.facts import is_kept_free, node_name, notes_of
from simulation.story import End, Part

ONE_MORE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""A rollout in which machines with workload go after the excess has ended."""


def pool(replicas: int, more: int, **spec: Any) -> Part:
    """A deployment with machines in excess, at rest; ``victim`` names those with workload."""

    async def before(person: Person) -> None:
        await person.deploy("pool", replicas, excessReplicas=more, **spec)
        whole = free(replicas + more, more)
        await person.until(lambda: whole(person), f"{replicas} machines, and {more} that are kept free")
        person.victim = " ".join(_name(each) for each in person.machines if not is_kept_free(each))

    return before


async def lose_one(person: Person) -> None:
    """The VM of a machine with workload stops."""
    person.victim = person.victim.split()[0]
    vm = next((each for each in person.vms if each.name == person.victim), None)
    if vm is not None:
        person.world.cloud.kill(vm.id)


def free(total: int, count: int, machine_class: str = "") -> End:
    """So many machines run; the newest of them, so many, are kept free, and their nodes say so."""

    def end(person: Person) -> bool:
        if not person.settled(total, machine_class) or not unmarked(person):
            return False
        spare = [each for each in person.machines if is_kept_free(each)]
        others = [each for each in person.machines if not is_kept_free(each)]
        newest = not spare or max(map(_made, others), default="") <= min(map(_made, spare))
        return len(spare) == count and newest and _nodes_say_so(person, spare)

    return end


def still_there(total: int, count: int) -> End:
    """The same, and all machines that had workload in the beginning are still there, if no VM or node had a
    fault."""

    def end(person: Person) -> bool:
        kept = {_name(each) for each in person.machines} >= set(person.victim.split())
        return free(total, count)(person) and (kept or person.node_faults)

    return end


def replaced(total: int, count: int) -> End:
    """The same, and the machine that was lost is gone."""
    return lambda person: (
        free(total, count)(person) and person.victim not in map(_name, person.machines) and not person.broken
    )


def _nodes_say_so(person: Person, spare: Iterable[Object]) -> bool:
    nodes: Mapping[str, Object] = person.world.journal.objects[NODES]
    tainted = {key for key, node in nodes.items() if _effects(node) == set(excess.EFFECTS)}
    half = {key for key, node in nodes.items() if _effects(node)} - tainted
    said = {key for key, node in nodes.items() if names.SCALE_DOWN_DISABLED_ANNOTATION in notes_of(node)}
    proved = {key for key, node in nodes.items() if excess.PROOF_ANNOTATION in notes_of(node)}
    wanted = {key for key in nodes if key.rpartition("/")[2] in set(map(node_name, spare))}
    return not half and tainted == said == proved == wanted


def _effects(node: Object) -> set[str]:
    return {taint["effect"] for taint in node["spec"].get("taints", ()) if taint["key"] == excess.TAINT}


def begun(person: Person) -> bool:
    """Whether a new machine is kept free."""
    return any(m["spec"]["class"]["name"] == "large" and is_kept_free(m) for m in person.machines)


def _name(machine: Object) -> str:
    return str(machine["metadata"]["name"])


def _made(machine: Object) -> str:
    return str(machine["metadata"]["creationTimestamp"])
