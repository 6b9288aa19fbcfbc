"""What users do with control planes: make one, and change it; and how one must look in the end.

Called by    ``stories``, and tests.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import Component
from kubewright.api.core import SECRET
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import (
    ETCD,
    FIELDS,
    ORDER,
    PLANE,
    SERVER,
    clients_get_in,
    find,
    kind_of,
    name_of_part,
    ready,
    secret,
)
from simulation.journal import NAMESPACE_NAME, Journal
from simulation.person import Person
from simulation.resources import SECRETS
from simulation.story import End, Part, patch, then, until, wait

PATIENCE = 900.0
"""The deadline of a wait within a story, in seconds: a fault may last for minutes."""


# ---------------------------------------------------------------- making


def make(which: str, parts: Sequence[Component] = tuple(Component), **spec: Any) -> Part:
    """Make one of the four; ``parts`` are the components that the control plane names."""

    names = {FIELDS[each]: {"name": name_of_part(each)} for each in parts} if which == PLANE else {}
    return lambda person: person.make(kind_of(which), name_of_part(which), spec={**names, **spec})


def create(
    order: Sequence[str] = ORDER, pause: float = 0.0, specs: Mapping[str, Mapping[str, Any]] | None = None
) -> Part:
    """All four, in this order; ``specs`` of components, by component."""
    return then(
        *(each for which in order for each in (make(which, **(specs or {}).get(which, {})), wait(pause)))
    )


def plane(**specs: Mapping[str, Any]) -> Part:
    """What is there before a story begins: a control plane with components of these specs, ready."""

    servers, etcds = (specs.get(each, {}).get("replicas", 1) for each in (SERVER, ETCD))
    return then(create(specs=specs), until(serving(servers, etcds=etcds), "a control plane", PATIENCE))


# ---------------------------------------------------------------- changing


def change(which: str, **spec: Any) -> Part:
    """Change the spec of one of the four."""
    return patch(kind_of(which), name_of_part(which), {"spec": spec})


def annotate(which: str, annotation: str, value: str | None = "") -> Part:
    """Annotate one of the four; None takes the annotation off."""
    return patch(kind_of(which), name_of_part(which), {"metadata": {"annotations": {annotation: value}}})


def hand_over(which: str, to: str | None = "another-program") -> Part:
    """Say that another program manages one of the four from now on; None: that ours does again."""
    return annotate(which, MANAGED_BY_ANNOTATION, to)


def remove(which: str) -> Part:
    """Delete one of the four."""
    return lambda person: person.remove(kind_of(which), name_of_part(which))


def delete(order: Sequence[str], pause: float = 0.0) -> Part:
    """Delete some of the four, in this order."""
    return then(*(each for which in order for each in (remove(which), wait(pause))))


def make_secret(name: str, data: Mapping[str, bytes]) -> Part:
    """Make a Secret, as a user's own: without owner."""

    text = {key: value.decode() for key, value in data.items()}
    return lambda person: person.make(SECRET, name, stringData=text)


def delete_secret(name: str) -> Part:
    """Delete a Secret, and remember that a user did."""

    async def part(person: Person) -> None:
        person.deleted.add(secret(name))
        await person.remove(SECRET, name)

    return part


def kill(component: Component, ordinal: int = 0) -> Part:
    """A program dies."""

    async def part(person: Person) -> None:
        person.world.journal.say("person", f"kills {component} {ordinal}")
        person.world.part(HostMachine).kill(NAMESPACE_NAME, name_of_part(component), ordinal)

    return part


# ---------------------------------------------------------------- seeing


def ready_reason(person: Person, which: str) -> str:
    """The reason of the condition Ready of one of the four; empty where there is none."""
    found = find(person.world.journal, which) or {}
    conditions = found.get("status", {}).get("conditions", ())
    return next((each.get("reason", "") for each in conditions if each["type"] == "Ready"), "")


# ---------------------------------------------------------------- ends


def serving(
    servers: int = 1, parts: Sequence[Component] = tuple(Component), etcds: int = 1, **versions: str
) -> End:
    """All components that the control plane names are ready and answer, and nothing else runs.

    ``servers``   how many API servers there are; ``etcds``: how many members of etcd, all with a vote

    ``versions``  of programs, by component
    """
    wanted = {SERVER: servers, ETCD: etcds}

    def end(person: Person) -> bool:
        journal, machine = person.world.journal, person.world.part(HostMachine)
        programs = {each: machine.instances(NAMESPACE_NAME, name_of_part(each)) for each in parts}
        right = all(
            one.workload.version == versions.get(each, one.workload.version)
            for each, found in programs.items()
            for one in found
        )
        well = all(machine.serves(one) for found in programs.values() for one in found)
        numbers = [len(found) for found in programs.values()]
        return (
            not person.broken
            and all(ready(find(journal, each)) for each in (PLANE, *parts))
            and numbers == [wanted.get(each, 1) for each in parts]
            and all(len(each.voters) == len(each.members) == etcds for each in machine.etcds.values())
            and right
            and well
            and len(machine.workloads) == len(parts)
            and clients_get_in(journal, machine)
        )

    return end


def nothing_left(person: Person) -> bool:
    """Neither objects nor Secrets of ours, nor programs, nor data, nor Services."""
    journal, machine = person.world.journal, person.world.part(HostMachine)
    objects = any(find(journal, each) is not None for each in ORDER)
    kept = machine.workloads or machine.retained or machine.services.made
    return not (objects or secrets_of_ours(journal) or kept or person.broken)


def secrets_of_ours(journal: Journal) -> list[str]:
    """The Secrets that controllers made."""
    found = journal.objects[SECRETS]
    return [key for key, each in sorted(found.items()) if each["metadata"].get("ownerReferences")]
