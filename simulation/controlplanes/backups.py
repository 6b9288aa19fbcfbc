"""Stories of snapshots and restores.

Called by    ``stories``, which adds them to its table.
"""

from collections.abc import Sequence
from typing import Any

from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
)
from simulation import resources
from simulation.controlplanes import acts, parts
from simulation.controlplanes.acts import plane, serving
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD
from simulation.controlplanes.setup import story
from simulation.journal import NAMESPACE_NAME, Object
from simulation.person import Person
from simulation.story import End, Part, Story, make, then, wait

NAME = (NAMESPACE_NAME, parts.name_of_part(ETCD))
OF_THREE: dict[str, Any] = {"etcd": {"replicas": 3}}


async def write(person: Person, entry: str) -> None:
    """A user of the control plane writes something, when it answers."""
    machine = person.world.part(HostMachine)
    await person.until(lambda: machine.content(*NAME) is not None, "etcd answers", seconds=acts.PATIENCE)
    machine.write(*NAME, entry)


async def take(person: Person) -> None:
    """A snapshot of what was written first."""
    await write(person, "one")
    await person.make(CONTROL_PLANE_SNAPSHOT, "first", spec={"controlPlaneName": parts.CLUSTER})


async def taken(person: Person) -> None:
    """The same, and it is complete, and more was written since."""
    await take(person)
    await person.until(lambda: complete(person) == 1, "a snapshot", seconds=acts.PATIENCE)
    await write(person, "two")


take_and_kill = then(take, wait(0.02), acts.kill(ETCD))
"""And etcd dies at once."""


restore = then(taken, make(CONTROL_PLANE_RESTORE, "back", spec={"snapshotName": "first"}))
"""What was written first comes back."""


async def restore_and_write(person: Person) -> None:
    """And users go on to write."""
    await restore(person)
    await person.until(lambda: is_restored(person), "it is restored", seconds=acts.PATIENCE)
    await write(person, "three")


def restore_and_delete(*, in_pods: bool = False) -> Part:
    """The restore is deleted as soon as the first member has its data."""

    async def act(person: Person) -> None:
        machine = person.world.part(HostMachine)
        machine.in_pods = in_pods
        await restore(person)
        before = clusters(machine)
        await person.until(lambda: clusters(machine) != before, "one has new data", seconds=acts.PATIENCE)
        await person.remove(CONTROL_PLANE_RESTORE, "back")
        await person.until(lambda: not restores(person), "the restore is gone", seconds=acts.PATIENCE)

    return act


async def restore_and_delete_etcd(person: Person) -> None:
    """Etcd, which is to leave its data, and the restore are deleted when one member has new data."""
    machine = person.world.part(HostMachine)
    machine.in_pods = True
    await acts.annotate(ETCD, KEEP_DATA_ANNOTATION)(person)
    await restore(person)
    before = clusters(machine)
    await person.until(lambda: clusters(machine) != before, "one has new data", seconds=acts.PATIENCE)
    await acts.delete([ETCD])(person)
    await person.remove(CONTROL_PLANE_RESTORE, "back")
    journal = person.world.journal
    await person.until(lambda: parts.find(journal, ETCD) is None, "etcd is gone", seconds=acts.PATIENCE)
    await acts.make(ETCD, **OF_THREE["etcd"])(person)


def clusters(machine: HostMachine) -> set[str]:
    """The clusters of which the members of the etcd have data."""
    found = machine.etcd_of(NAME)
    return {each.cluster for each in found[0].data.values() if each.member} if found is not None else set()


def restores(person: Person) -> list[Object]:
    """All restores that there are."""
    return list(person.world.journal.objects[resources.RESTORES].values())


async def schedule(person: Person) -> None:
    """A snapshot is taken each minute, and two are kept."""
    await write(person, "one")
    spec = {"schedule": "* * * * *", "controlPlaneName": parts.CLUSTER, "keep": 2}
    await person.make(CONTROL_PLANE_SNAPSHOT_SCHEDULE, "each-minute", spec=spec)
    await person.wait(200)
    await write(person, "two")
    await person.wait(65)
    await person.remove(CONTROL_PLANE_SNAPSHOT_SCHEDULE, "each-minute")


def snapshots(person: Person) -> list[Object]:
    """All that there are."""
    found = person.world.journal.objects[resources.SNAPSHOTS]
    return [found[each] for each in sorted(found)]


def complete(person: Person) -> int:
    """How many are complete."""
    return sum(bool(each.get("status", {}).get("ready")) for each in snapshots(person))


def is_restored(person: Person) -> bool:
    """Whether the restore says that it is done."""
    found = restores(person)
    return bool(found) and all(each.get("status", {}).get("ready") for each in found)


def kept(number: int) -> End:
    """So many snapshots, all complete, of a control plane that serves."""
    return lambda person: complete(person) == len(snapshots(person)) == number and serving()(person)


def has(*entries: str, etcds: int = 1, deleted: bool = False) -> End:
    """All serves with the restored data, and what was written since. ``deleted``: the restore is gone."""

    def end(person: Person) -> bool:
        content = person.world.part(HostMachine).content(*NAME)
        done = not restores(person) if deleted else is_restored(person)
        return done and content == entries and serving(etcds=etcds)(person)

    return end


def _story(name: str, act: Part, end: End, **specs: Any) -> Story:
    return story(name, act, end, plane(**specs))


STORIES: Sequence[Story] = (
    _story("copied", take, kept(1)),
    _story("copied-and-killed", take_and_kill, kept(1)),
    _story("copied-by-the-clock", schedule, kept(2)),
    _story("restored", restore, has("one")),
    _story("restored-of-three", restore_and_write, has("one", "three", etcds=3), **OF_THREE),
    _story("restored-and-let-go", restore_and_delete(), has("one", etcds=3, deleted=True), **OF_THREE),
    _story(
        "restored-in-pods-and-let-go",
        restore_and_delete(in_pods=True),
        has("one", etcds=3, deleted=True),
        **OF_THREE,
    ),
    _story(
        "restored-and-etcd-made-again", restore_and_delete_etcd, has("one", etcds=3, deleted=True), **OF_THREE
    ),
)
