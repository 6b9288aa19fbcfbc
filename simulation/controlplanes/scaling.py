"""Stories of size and version: an etcd gains and loses members, or is deleted; a control plane becomes newer.

Called by    ``stories``, which adds them to its table.
"""

from collections.abc import Sequence
from functools import partial

from simulation.controlplanes import acts
from simulation.controlplanes.acts import plane, serving
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, MANAGER, PLANE, SERVER, find, name_of_part
from simulation.controlplanes.setup import story
from simulation.journal import NAMESPACE_NAME
from simulation.person import Person
from simulation.story import End, Part, Story, expect, then, wait

OLDER, NEWER = "v1.35.4", "v1.36.3"
"""Versions of Kubernetes, of one minor version and the next."""


def sized(*sizes: int) -> Part:
    """The number of members becomes each of these, one after another."""

    async def act(person: Person) -> None:
        for size in sizes:
            await acts.change(ETCD, replicas=size)(person)
            await person.until(
                partial(serving(etcds=size), person),
                f"{size} members",
                seconds=acts.PATIENCE,
            )

    return act


def changes_its_mind(seconds: float, *sizes: int) -> Part:
    """The number changes again while members are added or removed."""

    async def act(person: Person) -> None:
        for size in sizes:
            await acts.change(ETCD, replicas=size)(person)
            await person.wait(seconds)

    return act


def grown_while(seconds: float, ordinal: int) -> Part:
    """A member dies while others are added."""

    return then(acts.change(ETCD, replicas=3), wait(seconds), acts.kill(ETCD, ordinal))


change_flags = then(
    acts.change(ETCD, extraArgs={"quota-backend-bytes": "1000000000"}), wait(2), acts.kill(ETCD, 1)
)
"""The members get another flag, one after another; and one dies meanwhile."""


change_flags_and_size: Part = acts.change(ETCD, extraArgs={"quota-backend-bytes": "1000000000"}, replicas=3)
"""The members get another flag and become more."""


def grown_and_changed(seconds: float) -> Part:
    """The members get another flag while others are added."""

    return then(
        acts.change(ETCD, replicas=3),
        wait(seconds),
        acts.change(ETCD, extraArgs={"quota-backend-bytes": "1000000000"}),
    )


async def stop_and_start(person: Person) -> None:
    """An etcd of three is stopped, gets another number meanwhile, and starts again."""
    for which in (MANAGER, SERVER, ETCD):
        await acts.change(which, replicas=0)(person)
    machine = person.world.part(HostMachine)
    await person.until(
        lambda: not any(each.programs for each in machine.workloads.values()),
        "all of it has ended",
        seconds=acts.PATIENCE,
    )
    for which, count in ((ETCD, 1), (SERVER, 1), (MANAGER, 1)):
        await acts.change(which, replicas=count)(person)


# ---------------------------------------------------------------- versions


def older(**specs: dict[str, object]) -> Part:
    """A control plane that names the older version."""

    async def before(person: Person) -> None:
        await acts.create(specs={PLANE: {"version": OLDER}, **specs})(person)
        etcds, servers = (int(str(specs.get(each, {}).get("replicas", 1))) for each in (ETCD, SERVER))
        await person.until(
            lambda: serving(servers, etcds=etcds)(person), "a control plane", seconds=acts.PATIENCE
        )

    return before


upgrade: Part = acts.change(PLANE, version=NEWER)
"""The control plane gets the next minor version."""


async def upgrade_and_kill(person: Person) -> None:
    """And programs die on the way."""
    await upgrade(person)
    for component in (ETCD, SERVER, MANAGER):
        await person.wait(2.5)
        await acts.kill(component)(person)


upgrade_and_back = then(upgrade, wait(0.2), acts.change(PLANE, version=OLDER), wait(10), upgrade)
"""The version is taken back before etcd is ready with it, and then raised after all."""


async def upgrade_from_the_end(person: Person) -> None:
    """A user raises the versions of components by hand, the last one first."""
    for which in (MANAGER, SERVER):
        await acts.change(which, version=NEWER[1:])(person)
        await person.wait(1)


def upgraded(servers: int = 1, etcds: int = 1) -> End:
    """All components run with the newer version, and say so."""

    def end(person: Person) -> bool:
        journal, machine = person.world.journal, person.world.part(HostMachine)
        found = find(journal, PLANE) or {}
        programs = (machine.instances(NAMESPACE_NAME, name_of_part(each)) for each in (SERVER, MANAGER))
        new = all(one.workload.version == NEWER[1:] for each in programs for one in each)
        told = found.get("status", {}).get("version") == NEWER
        return new and told and serving(servers, etcds=etcds)(person)

    return end


async def delete_etcd_alone(person: Person) -> None:
    """etcd is deleted, and stays as long as the API server uses it; then both begin anew."""
    await acts.delete([ETCD])(person)
    await person.wait(150)
    machine, journal = person.world.part(HostMachine), person.world.journal
    expect(person, machine.answers(NAMESPACE_NAME, name_of_part(ETCD)), "etcd runs")
    told = "; ".join((find(journal, ETCD) or {}).get("status", {}).get("errors", ()))
    expect(person, name_of_part(SERVER) in told, "its status says what uses it")
    await acts.change(SERVER, replicas=0)(person)
    await person.until(lambda: find(journal, ETCD) is None, "etcd is gone", seconds=acts.PATIENCE)
    await acts.make(ETCD)(person)
    await acts.change(SERVER, replicas=1)(person)


# ---------------------------------------------------------------- the table


def _of(size: int) -> Part:
    return plane(etcd={"replicas": size})


STORIES: Sequence[Story] = (
    story("etcd-grows", sized(3), serving(etcds=3), plane()),
    story("etcd-grows-more", sized(5), serving(etcds=5), _of(3)),
    story("etcd-shrinks", sized(3), serving(etcds=3), _of(5)),
    story("etcd-shrinks-more", sized(1), serving(), _of(3)),
    story("etcd-grows-and-shrinks", changes_its_mind(4.0, 3, 1, 5, 3), serving(etcds=3), plane()),
    story("etcd-dies-while-it-grows", grown_while(3.0, 0), serving(etcds=3), plane()),
    story("etcd-learner-dies", grown_while(2.0, 1), serving(etcds=3), plane()),
    story("etcd-of-three-rolls", change_flags, serving(etcds=3), _of(3)),
    story("etcd-rolls-and-grows", change_flags_and_size, serving(etcds=3), plane()),
    story("etcd-rolls-while-it-grows", grown_and_changed(4.5), serving(etcds=3), plane()),
    story("etcd-of-three-stops", stop_and_start, serving(), _of(3)),
    story("upgraded", upgrade, upgraded(), older()),
    story("upgraded-and-killed", upgrade_and_kill, upgraded(), older()),
    story("upgraded-after-all", upgrade_and_back, upgraded(), older()),
    story("upgraded-from-the-end", upgrade_from_the_end, upgraded(), older()),
    story(
        "upgraded-of-many",
        upgrade,
        upgraded(2, 3),
        older(etcd={"replicas": 3}, apiserver={"replicas": 2}),
    ),
    story("etcd-deleted-alone", delete_etcd_alone, serving(), plane()),
)
