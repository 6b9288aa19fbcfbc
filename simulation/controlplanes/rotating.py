"""Stories of authorities that are replaced while all of a control plane serves.

Called by    ``stories``, which adds them to its table.
"""

from base64 import b64decode
from collections.abc import Sequence
from datetime import timedelta

from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.keys import BACKDATED, Algorithm, pems
from kubewright.testing.clocks import BEGIN
from simulation import resources
from simulation.controlplanes import acts, health, parts
from simulation.controlplanes.acts import nothing_left, plane, serving
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, MANAGER, PLANE, SERVER
from simulation.controlplanes.setup import story
from simulation.journal import NAMESPACE_NAME
from simulation.person import Person
from simulation.story import End, Part, Story, then, wait

OURS = ("-ca", "-etcd", "-proxy")
NINE_YEARS = 9.3 * 365 * 86400.0
OF_MANY = {ETCD: {"replicas": 3}, SERVER: {"replicas": 2}}


def rotates(stop: str = "Never") -> Part:
    """All authorities that were made before now are replaced; ``stop``: before which phase it waits."""

    return lambda person: acts.change(
        PLANE, certificateAuthorities={"rotateAfter": person.date(), "stopBefore": stop}
    )(person)


async def rotate_by_hand(person: Person) -> None:
    """A user lets it go on from phase to phase."""
    await rotates("Signing")(person)
    await person.until(lambda: _bundles(person) == [2, 2, 2], "both are trusted", seconds=acts.PATIENCE)
    await person.wait(10)
    for stop in ("Dropping", "Never"):
        await acts.change(PLANE, certificateAuthorities={"stopBefore": stop})(person)
        await person.wait(20)


async def rotate_and_kill(person: Person) -> None:
    """Programs die on the way."""
    await rotates()(person)
    for component in (ETCD, SERVER, MANAGER):
        await person.wait(2)
        await acts.kill(component)(person)


rotate_and_sleep = then(
    rotates(), wait(4), acts.change(PLANE, asleep=True), wait(30), acts.change(PLANE, asleep=False)
)
"""It falls asleep on the way, and wakes."""


rotate_and_delete = then(rotates(), wait(4), acts.delete([PLANE]))
"""It is deleted on the way."""


rotate_and_grow = then(rotates(), wait(1), acts.change(ETCD, replicas=3))
"""Its etcd gets members on the way."""


async def grow_old(person: Person) -> None:
    """Nine years pass: authorities have to be replaced, and all that they signed has ended."""
    person.world.journal.say("person", "nine years pass")
    person.world.managers.step_clocks(NINE_YEARS)
    person.world.part(HostMachine).jump(NINE_YEARS)


async def bring_own(person: Person) -> None:
    """The authority of the API server is the user's."""
    pair = new_cluster_authority(BEGIN, Algorithm.EC, "mine")
    await acts.make_secret(f"{parts.CLUSTER}-ca", {"tls.crt": pair.certificate, "tls.key": pair.key})(person)
    await plane()(person)


def rotated(servers: int = 1, etcds: int = 1, kept: Sequence[str] = ()) -> End:
    """All serves with new authorities alone; ``kept``: those that are a user's."""

    def end(person: Person) -> bool:
        new = all(_is_new(person, each) == [each not in kept] for each in OURS)
        return new and serving(servers, etcds=etcds)(person)

    return end


def _bundles(person: Person) -> list[int]:
    """How many certificates each authority has."""
    return [len(_is_new(person, each)) for each in OURS]


def _is_new(person: Person, suffix: str) -> list[bool]:
    """Of each certificate of an authority, whether it was made after the story began."""
    held = person.world.journal.objects[resources.SECRETS].get(f"{NAMESPACE_NAME}/{parts.CLUSTER}{suffix}")
    found = pems(b64decode(held["data"]["tls.crt"])) if held is not None else []
    began = BEGIN + timedelta(seconds=int(person.world.began))
    return [health.facts(each).not_before + BACKDATED >= began for each in found]


STORIES: Sequence[Story] = (
    story("rotated", rotates(), rotated(), plane()),
    story("rotated-of-many", rotates(), rotated(2, 3), plane(**OF_MANY)),
    story("rotated-by-hand", rotate_by_hand, rotated(), plane()),
    story("rotated-and-killed", rotate_and_kill, rotated(), plane()),
    story("rotated-in-its-sleep", rotate_and_sleep, rotated(), plane()),
    story("rotated-and-gone", rotate_and_delete, nothing_left, plane()),
    story("rotated-while-etcd-grows", rotate_and_grow, rotated(etcds=3), plane()),
    story("rotated-but-its-own", rotates(), rotated(kept=["-ca"]), bring_own),
    story("nine-years-later", grow_old, rotated(), plane()),
)
