"""The table of stories: what people do, and how the world must look in the end.

Theory.      A story has three parts. ``before`` makes a world to begin with, undisturbed. ``act`` is
             what people do; from its first word on writes count and faults strike. ``end`` is what
             must be true, and stay true. To add a story is to add a row to ``STORIES``; every crash
             point of it is then tried, and every seed may draw it.
Called by    ``run``; every new controller adds its rows here.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kubewright.testing.simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS
from kubewright.testing.simulation.person import Person

Part = Callable[[Person], Awaitable[None]]

SURGE = 1
"""``maxSurge`` and ``maxUnavailable`` of every deployment in the stories."""


async def _nothing(_person: Person) -> None:
    """An empty world."""


@dataclass(frozen=True, slots=True)
class Story:
    """One row. ``hurts``: the story itself harms nodes, so machines may be replaced."""

    name: str
    act: Part
    end: Callable[[Person], bool]
    before: Part = _nothing
    hurts: bool = False


def _pool(count: int, **spec: Any) -> Part:
    async def before(person: Person) -> None:
        await person.deploy("pool", count, **spec)
        await person.until(lambda: person.settled(count), f"{count} machines")

    return before


def _settled(count: int, machine_class: str = "") -> Callable[[Person], bool]:
    return lambda person: person.settled(count, machine_class)


def _nothing_left(person: Person) -> bool:
    return person.settled(0) and person.empty(MACHINE_SETS) and person.empty(MACHINE_DEPLOYMENTS)


async def _create(person: Person) -> None:
    await person.deploy("pool", 3)


async def _scale_up(person: Person) -> None:
    await person.change("pool", replicas=4)


async def _scale_down(person: Person) -> None:
    await person.change("pool", replicas=1)


async def _roll(person: Person) -> None:
    await person.roll("pool", "large")


async def _roll_twice(person: Person) -> None:
    await person.roll("pool", "large")
    await person.wait(0.6)
    await person.roll("pool", "huge")


async def _pause_and_resume(person: Person) -> None:
    await person.change("pool", paused=True)
    await person.roll("pool", "large")
    await person.wait(3.0)
    await person.change("pool", replicas=4)
    await person.wait(3.0)
    await person.change("pool", paused=False)


async def _heal(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.kill(person.vms[0].id)


async def _vanish(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.vanish(person.vms[0].id)


def _healed(count: int) -> Callable[[Person], bool]:
    return lambda person: person.settled(count) and person.victim not in {vm.name for vm in person.vms}


async def _delete(person: Person) -> None:
    await person.delete("pool")


async def _delete_while_creating(person: Person) -> None:
    await person.deploy("pool", 3)
    await person.wait(0.08)
    await person.delete("pool")


async def _with_pods(person: Person) -> None:
    await _pool(2)(person)
    for number, vm in enumerate(person.vms):
        await person.run_pod(f"work-{number}", vm.node_name, seconds=20)
    await person.wait(5.0)


async def _delete_while_draining(person: Person) -> None:
    await person.change("pool", replicas=1)
    await person.wait(4.0)
    await person.delete("pool")


async def _delete_one(person: Person) -> None:
    person.victim = str(person.machines[0]["metadata"]["name"])
    await person.delete_machine(person.victim)


async def _stray(person: Person) -> None:
    await person.make_machine("stray", "lonely")
    await person.until(lambda: person.settled(1), "the stray machine")


async def _adopt(person: Person) -> None:
    await person.make_set("lonely", 2)


def _adopted(person: Person) -> bool:
    owned = [m for m in person.machines if m["metadata"].get("ownerReferences")]
    named = person.hurt or any(m["metadata"]["name"] == "stray" for m in owned)
    return person.settled(2) and len(owned) == 2 and named


async def _class_comes_late(person: Person) -> None:
    await person.deploy("pool", 1, "late")
    await person.wait(3.0)
    await person.make_class("late")


RECREATE = {"type": "Recreate"}

STORIES: tuple[Story, ...] = (
    Story("create", _create, _settled(3)),
    Story("scale-up", _scale_up, _settled(4), before=_pool(2)),
    Story("scale-down", _scale_down, _settled(1), before=_pool(4)),
    Story("roll", _roll, _settled(3, "large"), before=_pool(3)),
    Story("roll-twice", _roll_twice, _settled(3, "huge"), before=_pool(3)),
    Story("recreate", _roll, _settled(3, "large"), before=_pool(3, strategy=RECREATE)),
    Story("pause-and-resume", _pause_and_resume, _settled(4, "large"), before=_pool(3)),
    Story("heal", _heal, _healed(2), before=_pool(2), hurts=True),
    Story("vanish", _vanish, _healed(2), before=_pool(2), hurts=True),
    Story("delete", _delete, _nothing_left, before=_pool(2)),
    Story("delete-while-creating", _delete_while_creating, _nothing_left),
    Story("delete-while-draining", _delete_while_draining, _nothing_left, before=_with_pods),
    Story("delete-one", _delete_one, _healed(2), before=_pool(2)),
    Story("adopt", _adopt, _adopted, before=_stray),
    Story("class-comes-late", _class_comes_late, _settled(1, "late")),
)

BY_NAME = {story.name: story for story in STORIES}
