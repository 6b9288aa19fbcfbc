"""Stories of classes that change in place: what a driver can change reaches VMs that run, and nothing rolls.

Theory.      VMs have tags that a driver changes one after the other (``cloud.TaggingDriver``), and it may be
             told to fail in the middle: so an update can be half done in any way, by an error, by a killed
             manager, by both. A user puts a tag of their own on each VM, which no update may take off.
             The two edge cases of seed 004 are one act, ``change_and_revert``: the class is back at what
             was applied last while the VM is not. Without faults it is the first (a partial failure); where
             a manager is killed after any write, or before any step, it is the second.
Called by    ``stories``.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.machine import names
from kubewright.driver.hot import read
from kubewright.testing.simulation.acts import pool
from kubewright.testing.simulation.cloud import TaggingDriver, labels_of
from kubewright.testing.simulation.ends import End, notes_of, unmarked
from kubewright.testing.simulation.person import Person

OF_A_USER = {"of-a-user": "x"}
CHANGED = {"cost": "7", "owner": "team-a"}
MARKS = (names.UPDATE_ANNOTATION, names.UPDATE_SPEC_ANNOTATION)


async def tagged_pool(person: Person) -> None:
    """Two machines, with tags of a user on their VMs."""
    await pool(2)(person)
    person.victim = " ".join(sorted(vm.name for vm in person.vms))
    for vm in person.vms:
        driver(person).tags[vm.provider_id].update(OF_A_USER)


async def change(person: Person) -> None:
    """A user gives the class two tags."""
    await person.change_class("small", {"labels": CHANGED})


async def change_and_revert(person: Person) -> None:
    """Updates fail in their middle; when the first tag is on a VM, a user takes both from the class again."""
    driver(person).fails = 3
    await change(person)
    await person.until(lambda: any(map(_begun, tags_of(person))), "the first tag")
    await person.change_class("small", {"labels": None})


def _begun(tags: Mapping[str, str]) -> bool:
    return "cost" in tags


def driver(person: Person) -> TaggingDriver:
    found = person.world.driver
    assert isinstance(found, TaggingDriver)
    return found


def tags_of(person: Person) -> list[Mapping[str, str]]:
    """The tags of all VMs, without those of a user."""
    known = driver(person).tags
    return [
        {key: value for key, value in known.get(vm.provider_id, {}).items() if key not in OF_A_USER}
        for vm in person.vms
    ]


def applied(tags: Mapping[str, str]) -> End:
    """Two machines run, those of the beginning unless nodes had faults; their VMs have these tags and the
    user's, and that is what they say."""

    def end(person: Person) -> bool:
        kept = {vm.name for vm in person.vms} == set(person.victim.split())
        known = driver(person).tags
        users = all(OF_A_USER.items() <= known[vm.provider_id].items() for vm in person.vms) if kept else True
        right = all(each == tags for each in tags_of(person)) and all(_says(m, tags) for m in person.machines)
        return (
            person.settled(2, "small")
            and unmarked(person)
            and right
            and users
            and (kept or person.node_faults)
        )

    return end


def _says(machine: Mapping[str, Any], tags: Mapping[str, str]) -> bool:
    notes = notes_of(machine)
    spec = read(notes.get(names.APPLIED_SPEC_ANNOTATION, ""))
    return spec is not None and labels_of(spec) == tags and not any(mark in notes for mark in MARKS)
