"""Stories of classes that change in place: what a driver can change reaches VMs that run, and nothing rolls.

Theory.      A VM, its interface and its disk have tags, which the simulated cloud changes one object after
             the other. A class may have it fail after the first (fault ``update`` with ``afterObjects``), so
             an update can be half done, and its manager killed besides. A user puts a tag of their own on
             each VM, which no update may take off.
             The two edge cases of a hot update (HOT-04) are one act, ``change_and_revert``: the class is back
             at what was applied last while the VM is not. Without faults it is the first (a partial failure);
             where a manager is killed after any write, or before any step, it is the second.
Invariants.  VMs have the tags of cluster and role, by which they are listed whatever becomes of the others.
Called by    ``stories``.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.machine import names
from kubewright.driver.hot import DISK, RESOURCES, VM, is_mandatory, read
from kubewright.providers.sim.vm import Vm
from simulation.acts import pool
from simulation.ends import unmarked
from simulation.person import Person
from simulation.rules.facts import notes_of
from simulation.story import End, Part

Tags = Mapping[str, Mapping[str, str]]
"""By the resource that they are on; resources without any are left out."""

FOUND_BY = {"kubernetes.io/cluster/sim": "1", "kubernetes.io/role/node": "1"}
PER_RESOURCE = {**dict.fromkeys(FOUND_BY), VM: FOUND_BY}
"""What makes of the flat tags of the class, which are those, tags of VMs."""
OF_A_USER = {"of-a-user": "x"}
CHANGED: Tags = {VM: {"cost": "7"}, DISK: {"owner": "team-a"}}
MARKS = (names.UPDATE_ANNOTATION, names.UPDATE_SPEC_ANNOTATION)
HALF_WAY = {"operation": "update", "afterObjects": 1, "times": 2}


def tagged_pool(**more: Any) -> Part:
    """Two machines of a class that says this besides, with tags of a user on their VMs."""

    async def before(person: Person) -> None:
        await person.change_class("small", {"tags": PER_RESOURCE, **more})
        await pool(2)(person)
        person.victim = " ".join(sorted(vm.name for vm in person.vms))
        for vm in person.vms:
            person.world.cloud.tag(vm.id, VM, OF_A_USER)

    return before


async def change(person: Person) -> None:
    """A user gives the class a tag of VMs, and one of disks."""
    await person.change_class("small", {"tags": CHANGED})


async def change_and_revert(person: Person) -> None:
    """Updates fail half-way; when the first tag is on a VM, a user takes both from the class again."""
    await change(person)
    await person.until(lambda: any("cost" in vm.tags for vm in person.vms), "the first tag")
    await person.change_class("small", {"tags": {VM: {"cost": None}, DISK: None}})


def applied(tags: Tags) -> End:
    """Two machines run, those of the beginning unless nodes had faults; their VMs have these tags and the
    user's, and that is what they say."""

    def end(person: Person) -> bool:
        kept = {vm.name for vm in person.vms} == set(person.victim.split())
        users = not kept or all(OF_A_USER.items() <= vm.tags.items() for vm in person.vms)
        right = all(_has(vm) == tags for vm in person.vms) and all(_says(m, tags) for m in person.machines)
        settled = person.settled(2, "small") and unmarked(person)
        return settled and right and users and (kept or person.node_faults)

    return end


def _has(vm: Vm) -> Tags:
    return _changing({each: vm.resources.tags.of(each) for each in RESOURCES})


def _says(machine: Mapping[str, Any], tags: Tags) -> bool:
    notes = notes_of(machine)
    spec = read(notes.get(names.APPLIED_SPEC_ANNOTATION, ""))
    return spec is not None and _changing(spec["tags"]) == tags and not any(mark in notes for mark in MARKS)


def _changing(found: Tags) -> Tags:
    """Without those by which VMs are found, and a user's."""
    left = {
        each: {key: value for key, value in tags.items() if not is_mandatory(key) and key not in OF_A_USER}
        for each, tags in found.items()
    }
    return {each: tags for each, tags in left.items() if tags}
