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
from simulation.story import End, Part, Story, expected, then, until, wait

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

    return then(
        before,
        expected(lambda person: person.world.part(HostMachine).write(*NAME, ENTRY), "etcd answers"),
    )


sleep = then(acts.change(PLANE, asleep=True), until(asleep, "it sleeps", acts.PATIENCE))
"""By hand."""


sleep_and_wake = then(sleep, wait(5), acts.change(PLANE, asleep=False))
"""By hand, and back."""


async def change_its_mind(person: Person) -> None:
    """It is woken while it falls asleep, and put to sleep while it wakes, and woken."""
    for asked in (True, False, True, False):
        await acts.change(PLANE, asleep=asked)(person)
        await person.wait(2.5)


async def sleep_by_the_clock(person: Person) -> None:
    """Its schedule puts it to sleep a minute or two from now, and wakes it five minutes later."""
    minute = (BEGIN + timedelta(seconds=person.world.loop.time())).replace(second=0) + timedelta(minutes=2)
    sleeps, wakes = (f"{each.minute} {each.hour} * * *" for each in (minute, minute + timedelta(minutes=5)))
    await acts.change(PLANE, schedule=[{"sleep": sleeps, "wake": wakes}])(person)
    await person.until(lambda: asleep(person), "it sleeps", seconds=acts.PATIENCE)
    await person.until(lambda: awake()(person), "it wakes", seconds=acts.PATIENCE)
    await acts.change(PLANE, schedule=None)(person)


change_while_it_sleeps = then(
    sleep,
    acts.change(SERVER, extraArgs={"v": "2"}),
    acts.delete_secret(f"{parts.CLUSTER}-apiserver"),
    wait(5),
    acts.change(PLANE, asleep=None),
)
"""Flags change and a certificate is lost while it sleeps; and a program can not die."""


async def sleep_for_a_year(person: Person) -> None:
    """It sleeps until all its certificates have ended, and wakes."""
    await sleep(person)
    person.world.journal.say("person", "a year passes")
    person.world.managers.step_clocks(YEAR)
    person.world.part(HostMachine).jump(YEAR)
    await acts.change(PLANE, asleep=False)(person)


sleep_and_delete = then(sleep, acts.delete([PLANE]))
"""It is deleted while it sleeps."""


def lose_data(*, given_up: bool) -> Part:
    """Data vanishes while it sleeps, and it is woken: it waits until a user says what is meant."""

    async def act(person: Person) -> None:
        await sleep(person)
        machine = person.world.part(HostMachine)
        lost = sorted(machine.workloads[NAME].data)[:2]
        person.world.journal.say("person", "moves data away")
        disks = machine.workloads[NAME].data
        machine.vanished = {(NAME, each): disks.pop(each) for each in lost}
        await acts.change(PLANE, asleep=False)(person)
        await person.until(
            lambda: acts.ready_reason(person, ETCD) == "DataLost", "it says so", seconds=acts.PATIENCE
        )
        await person.wait(10)
        if given_up:
            names = ",".join(f"{parts.name_of_part(ETCD)}-{each}" for each in lost)
            await acts.annotate(ETCD, LOST_DATA_ANNOTATION, names)(person)
        else:
            person.world.journal.say("person", "brings the data back")
            disks.update({each: disk for (_, each), disk in machine.vanished.items()})
            machine.vanished = {}

    return act


sleep_while_etcd_grows = then(acts.change(ETCD, replicas=3), wait(3), sleep_and_wake)
"""It falls asleep while its etcd gets members, and wakes."""


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
