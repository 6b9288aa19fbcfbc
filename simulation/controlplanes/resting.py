"""Stories of sleep: a control plane sleeps and wakes, by hand and by its schedule.

Called by    ``stories``, which adds them to its table.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from kubewright.api.controlplane.names import LOST_DATA_ANNOTATION
from kubewright.testing.clocks import BEGIN
from simulation.controlplanes import acts, parts
from simulation.controlplanes.acts import nothing_left, plane, serving
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, PLANE, SERVER
from simulation.controlplanes.setup import story
from simulation.journal import NAMESPACE_NAME
from simulation.person import Person
from simulation.story import End, Part, Story

ENTRY = "written before it slept"
NAME = (NAMESPACE_NAME, parts.name_of_part(ETCD))


def asleep(person: Person) -> bool:
    """Nothing runs, the control plane says that it sleeps, and its entry is on the disk of each member."""
    machine = person.world.part(HostMachine)
    found = parts.find(person.world.journal, PLANE) or {}
    runs = any(each.programs for each in machine.workloads.values())
    etcd = machine.workloads.get(NAME)
    disks = [each for each in etcd.data.values() if each.member] if etcd is not None else []
    kept = bool(disks) and all(ENTRY in each.content for each in disks)
    return bool(found.get("status", {}).get("asleep")) and not runs and kept


def awake(etcds: int = 1, servers: int = 1) -> End:
    """All serves again, with what was written before."""

    def end(person: Person) -> bool:
        content = person.world.part(HostMachine).content(*NAME) or ()
        return serving(servers, etcds=etcds)(person) and ENTRY in content

    return end


def written(before: Part) -> Part:
    """What is there before the story, with an entry in etcd."""

    async def part(person: Person) -> None:
        await before(person)
        acts.expect(person, person.world.part(HostMachine).write(*NAME, ENTRY), "etcd answers")

    return part


async def sleep(person: Person) -> None:
    """By hand."""
    await acts.change(person, PLANE, asleep=True)
    await person.until(lambda: asleep(person), "it sleeps", seconds=acts.PATIENCE)


async def sleep_and_wake(person: Person) -> None:
    """By hand, and back."""
    await sleep(person)
    await person.wait(5)
    await acts.change(person, PLANE, asleep=False)


async def change_its_mind(person: Person) -> None:
    """It is woken while it falls asleep, and put to sleep while it wakes, and woken."""
    for asked in (True, False, True, False):
        await acts.change(person, PLANE, asleep=asked)
        await person.wait(2.5)


async def sleep_by_the_clock(person: Person) -> None:
    """Its schedule puts it to sleep a minute or two from now, and wakes it five minutes later."""
    minute = (BEGIN + timedelta(seconds=person.world.loop.time())).replace(second=0) + timedelta(minutes=2)
    sleeps, wakes = (f"{each.minute} {each.hour} * * *" for each in (minute, minute + timedelta(minutes=5)))
    await acts.change(person, PLANE, schedule=[{"sleep": sleeps, "wake": wakes}])
    await person.until(lambda: asleep(person), "it sleeps", seconds=acts.PATIENCE)
    await person.until(lambda: awake()(person), "it wakes", seconds=acts.PATIENCE)
    await acts.change(person, PLANE, schedule=None)


async def change_while_it_sleeps(person: Person) -> None:
    """Flags change and a certificate is lost while it sleeps; and a program can not die."""
    await sleep(person)
    await acts.change(person, SERVER, extraArgs={"v": "2"})
    await acts.delete_secret(person, f"{parts.CLUSTER}-apiserver")
    await person.wait(5)
    await acts.change(person, PLANE, asleep=None)


async def sleep_for_a_year(person: Person) -> None:
    """It sleeps until all its certificates have ended, and wakes."""
    await sleep(person)
    person.world.journal.say("person", "a year passes")
    person.world.managers.step_clocks(YEAR)
    person.world.part(HostMachine).jump(YEAR)
    await acts.change(person, PLANE, asleep=False)


async def sleep_and_delete(person: Person) -> None:
    """It is deleted while it sleeps."""
    await sleep(person)
    await acts.delete(person, [PLANE])


def lose_data(*, given_up: bool) -> Part:
    """Data vanishes while it sleeps, and it is woken: it waits until a user says what is meant."""

    async def act(person: Person) -> None:
        await sleep(person)
        machine = person.world.part(HostMachine)
        lost = sorted(machine.workloads[NAME].data)[:2]
        person.world.journal.say("person", "moves data away")
        disks = machine.workloads[NAME].data
        machine.vanished = {(NAME, each): disks.pop(each) for each in lost}
        await acts.change(person, PLANE, asleep=False)
        await person.until(
            lambda: acts.ready_reason(person, ETCD) == "DataLost", "it says so", seconds=acts.PATIENCE
        )
        await person.wait(10)
        if given_up:
            names = ",".join(f"{parts.name_of_part(ETCD)}-{each}" for each in lost)
            await acts.annotate(person, ETCD, LOST_DATA_ANNOTATION, names)
        else:
            person.world.journal.say("person", "brings the data back")
            disks.update({each: disk for (_, each), disk in machine.vanished.items()})
            machine.vanished = {}

    return act


async def sleep_while_etcd_grows(person: Person) -> None:
    """It falls asleep while its etcd gets members, and wakes."""
    await acts.change(person, ETCD, replicas=3)
    await person.wait(3)
    await sleep_and_wake(person)


OF_MANY = {ETCD: {"replicas": 3}, SERVER: {"replicas": 2}}
YEAR = 370 * 86400.0


def _story(name: str, act: Part, end: End | None = None, before: Mapping[str, Any] | None = None) -> Story:
    return story(name, act, end or awake(), written(plane(**(before or {}))))


STORIES: Sequence[Story] = (
    _story("sleeps", sleep, asleep),
    _story("sleeps-and-wakes", sleep_and_wake),
    _story("sleeps-or-not", change_its_mind),
    _story("sleeps-by-the-clock", sleep_by_the_clock),
    _story("sleeps-through-changes", change_while_it_sleeps),
    _story("sleeps-for-a-year", sleep_for_a_year),
    _story("sleeps-and-goes", sleep_and_delete, nothing_left),
    _story("sleeps-and-loses-data", lose_data(given_up=False), awake(3), {"etcd": {"replicas": 3}}),
    _story("sleeps-and-gives-data-up", lose_data(given_up=True), serving()),
    _story("sleeps-while-etcd-grows", sleep_while_etcd_grows, awake(3)),
    _story(
        "three-sleep-and-wake",
        sleep_and_wake,
        awake(3, 2),
        {"etcd": {"replicas": 3}, SERVER: {"replicas": 2}},
    ),
)
