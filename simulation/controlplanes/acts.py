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
from simulation.story import End, Part

PATIENCE = 900.0
"""The deadline of a wait within a story, in seconds: a fault may last for minutes."""


# ---------------------------------------------------------------- making


async def make(
    person: Person, which: str, parts: Sequence[Component] = tuple(Component), **spec: Any
) -> None:
    """Make one of the four; ``parts`` are the components that the control plane names."""
    if which == PLANE:
        spec = {**{FIELDS[each]: {"name": name_of_part(each)} for each in parts}, **spec}
    await person.make(kind_of(which), name_of_part(which), spec=spec)


async def create(
    person: Person,
    order: Sequence[str] = ORDER,
    pause: float = 0.0,
    specs: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """All four, in this order; ``specs`` of components, by component."""
    for which in order:
        await make(person, which, **(specs or {}).get(which, {}))
        await person.wait(pause)


def plane(**specs: Mapping[str, Any]) -> Part:
    """What is there before a story begins: a control plane with components of these specs, ready."""

    async def before(person: Person) -> None:
        await create(person, specs=specs)
        servers, etcds = (specs.get(each, {}).get("replicas", 1) for each in (SERVER, ETCD))
        well = serving(servers, etcds=etcds)
        await person.until(lambda: well(person), "a control plane", seconds=PATIENCE)

    return before


# ---------------------------------------------------------------- changing


async def change(person: Person, which: str, **spec: Any) -> None:
    """Change the spec of one of the four."""
    await person.patch(kind_of(which), name_of_part(which), {"spec": spec})


async def annotate(person: Person, which: str, annotation: str, value: str | None = "") -> None:
    """Annotate one of the four; None takes the annotation off."""
    await person.patch(
        kind_of(which), name_of_part(which), {"metadata": {"annotations": {annotation: value}}}
    )


async def hand_over(person: Person, which: str, to: str | None = "another-program") -> None:
    """Say that another program manages one of the four from now on; None: that ours does again."""
    await annotate(person, which, MANAGED_BY_ANNOTATION, to)


async def delete(person: Person, order: Sequence[str], pause: float = 0.0) -> None:
    """Delete some of the four, in this order."""
    for which in order:
        await person.remove(kind_of(which), name_of_part(which))
        await person.wait(pause)


async def make_secret(person: Person, name: str, data: Mapping[str, bytes]) -> None:
    """Make a Secret, as a user's own: without owner."""
    text = {key: value.decode() for key, value in data.items()}
    await person.make(SECRET, name, stringData=text)


async def delete_secret(person: Person, name: str) -> None:
    """Delete a Secret, and remember that a user did."""
    person.deleted.add(secret(name))
    await person.remove(SECRET, name)


def kill(person: Person, component: Component, ordinal: int = 0) -> None:
    """A program dies."""
    person.world.journal.say("person", f"kills {component} {ordinal}")
    person.world.part(HostMachine).kill(NAMESPACE_NAME, name_of_part(component), ordinal)


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


def expect(person: Person, met: bool, what: str) -> None:
    """Unless this is ``met``, the story fails; ``what`` says in the journal what was expected."""
    if not met and not person.broken:
        person.broken = f"it is not so that {what}"
        person.world.journal.say("person", person.broken)
