"""The table of stories of nested control planes.

Called by    ``library``, and tests.
"""

from collections.abc import Sequence
from itertools import permutations

from kubewright.api.cluster.names import PAUSED_ANNOTATION
from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION, Component
from kubewright.api.core import SECRET
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.keys import Algorithm
from kubewright.testing.clocks import BEGIN
from simulation import resources
from simulation.controlplanes import acts, backups, parts, pods, resting, rotating, scaling
from simulation.controlplanes.acts import nothing_left, plane, serving
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, MANAGER, ORDER, PLANE, SERVER
from simulation.controlplanes.setup import story
from simulation.journal import NAMESPACE_NAME, Object
from simulation.person import Person
from simulation.story import Part, Story, expect, then, until, wait

OLD, NEW = "3.6.7", "3.6.8"
"""Versions of etcd."""
OLDER, NEWER = "1.35.0", "1.36.3"
"""Versions of Kubernetes."""
BETWEEN, LONG = 0.4, 5.0
"""Seconds between two things that a user does, while the controllers still work; and when they have done."""

YEAR = 370 * 86400.0
"""Longer than any certificate of ours lasts, but for authorities."""


# ---------------------------------------------------------------- coming and going


def made(order: Sequence[str], pause: float = 0.0) -> Part:
    """The four objects, in this order."""
    return acts.create(order, pause)


def made_and_deleted(order: Sequence[str]) -> Story:
    """The four objects, in this order at once, and deleted in the same order."""

    async def act(person: Person) -> None:
        await acts.create(order)(person)
        await person.until(lambda: serving()(person), "a control plane", seconds=acts.PATIENCE)
        await acts.delete(order)(person)

    return story("-".join(order), act, nothing_left)


def deleted(order: Sequence[str], pause: float = 0.0) -> Part:
    """Some of the four are deleted, in this order."""
    return acts.delete(order, pause)


make_and_delete = then(acts.create(), wait(2.5), acts.delete(ORDER))
"""All is deleted while it comes up."""


async def two_parts(person: Person) -> None:
    """A control plane that names no controller manager."""
    for which in (PLANE, ETCD, SERVER):
        await acts.make(which, **({"parts": (ETCD, SERVER)} if which == PLANE else {}))(person)


make_again = then(acts.delete(ORDER), until(nothing_left, "nothing is left", acts.PATIENCE), acts.create())
"""Deleted and made again at once, under the same names."""


async def keep_data(person: Person) -> None:
    """etcd is deleted, but not its data; and made again."""
    await acts.annotate(ETCD, KEEP_DATA_ANNOTATION)(person)
    await acts.delete([ETCD])(person)
    journal = person.world.journal
    await person.until(lambda: parts.find(journal, ETCD) is None, "etcd is gone", seconds=acts.PATIENCE)
    retained = person.world.part(HostMachine).retained
    expect(person, list(retained) == [(NAMESPACE_NAME, parts.name_of_part(ETCD))], "the data is there")
    await acts.make(ETCD)(person)


# ---------------------------------------------------------------- changes


async def sleep(person: Person) -> None:
    """All instances end; the data stays."""
    for which in (MANAGER, SERVER, ETCD):
        await acts.change(which, replicas=0)(person)
    machine = person.world.part(HostMachine)

    def asleep() -> bool:
        runs = any(each.programs for each in machine.workloads.values())
        return not runs and not parts.ready(parts.find(person.world.journal, PLANE))

    await person.until(asleep, "all of it sleeps", seconds=acts.PATIENCE)
    await person.wait(LONG)


async def sleep_and_wake(person: Person) -> None:
    """And begin again, in any order."""
    await sleep(person)
    for which in (MANAGER, ETCD, SERVER):
        await acts.change(which, replicas=1)(person)


change_on_the_way = then(
    acts.create(),
    wait(1),
    acts.change(SERVER, version=OLDER),
    acts.change(ETCD, extraArgs={"quota-backend-bytes": "1000000000"}),
    wait(2),
    acts.change(SERVER, version=NEWER, extraArgs={"v": "2"}),
    acts.change(MANAGER, version=OLDER),
)
"""Versions and flags change while it comes up, and again."""


roll_servers: Part = acts.change(SERVER, extraArgs={"v": "2"})
"""Two API servers get another flag, one after another."""


async def lose_leaves(person: Person) -> None:
    """Certificates and kubeconfigs, but no authority, are deleted."""
    for name in ("apiserver", "kubeconfig", "etcd-server", "controller-manager-kubeconfig"):
        await acts.delete_secret(f"{parts.CLUSTER}-{name}")(person)
        await person.wait(BETWEEN)


async def move_endpoint(person: Person) -> None:
    """The endpoint gets another host name, and then another."""
    for name in ("one.example.com", "two.example.com"):
        await acts.change(PLANE, controlPlaneEndpoint={"host": name, "port": 443})(person)
        await person.wait(3)


async def own_secrets(person: Person) -> None:
    """Secrets of the user's own."""
    pair = new_cluster_authority(BEGIN, Algorithm.EC, "mine")
    await acts.make_secret(f"{parts.CLUSTER}-ca", {"tls.crt": pair.certificate, "tls.key": pair.key})(person)
    await acts.make_secret(f"{parts.CLUSTER}-apiserver-notes", {"mine": b"yes"})(person)


bring_own = then(own_secrets, acts.create())
"""The authority of the API server is the user's, and so is a Secret whose name begins as ours do."""


bring_own_and_delete = then(bring_own, until(serving(), "a control plane", acts.PATIENCE), acts.delete(ORDER))
"""What the user brought stays when all else goes."""


async def bring_what_does_not_fit(person: Person) -> None:
    """The certificate of the API server is the user's, by another authority; then the user deletes it."""
    pair = new_cluster_authority(BEGIN, Algorithm.EC, "another")
    name = f"{parts.CLUSTER}-apiserver"
    await acts.make_secret(name, {"tls.crt": pair.certificate, "tls.key": pair.key})(person)
    await acts.create()(person)
    await person.until(
        lambda: (
            bool(acts.ready_reason(person, SERVER)) and parts.ready(parts.find(person.world.journal, ETCD))
        ),
        "the API server says what is wrong",
        seconds=acts.PATIENCE,
    )
    await person.wait(LONG)
    await acts.delete_secret(name)(person)


async def lose_authority(person: Person) -> None:
    """The API server's authority is deleted, and restored from a copy."""
    name = f"{parts.CLUSTER}-ca"
    held = person.world.journal.objects[resources.SECRETS][f"{NAMESPACE_NAME}/{name}"]
    await acts.delete_secret(name)(person)
    await person.wait(LONG)
    await person.make(SECRET, name, data=dict(held["data"]), metadata={**kept_metadata(held), "name": name})


def kept_metadata(held: Object) -> dict[str, object]:
    """What a backup has of an object's metadata."""
    meta = held["metadata"]
    return {each: meta[each] for each in ("namespace", "labels", "ownerReferences") if each in meta}


# ---------------------------------------------------------------- others


async def hand_over_and_back(person: Person) -> None:
    """Another program manages etcd for a while; what the user changes meanwhile counts afterwards."""
    await acts.hand_over(ETCD)(person)
    await person.wait(LONG)
    await acts.change(ETCD, version=NEW)(person)
    await person.wait(10)
    found = person.world.part(HostMachine).instances(NAMESPACE_NAME, parts.name_of_part(ETCD))
    expect(person, [each.workload.version for each in found] == [OLD], "etcd is as it was")
    await acts.hand_over(ETCD, None)(person)


pause_all = then(
    acts.annotate(PLANE, PAUSED_ANNOTATION),
    wait(LONG),
    acts.change(ETCD, version=NEW),
    acts.delete_secret(f"{parts.CLUSTER}-apiserver"),
    wait(10),
    acts.annotate(PLANE, PAUSED_ANNOTATION, None),
)
"""What a user changes while it is paused is done when it is not any more."""


async def name_twice(person: Person) -> None:
    """A second control plane names an etcd that belongs to the first; then it is deleted."""
    second = {parts.FIELDS[ETCD]: {"name": parts.name_of_part(ETCD)}}
    await person.make(parts.kind_of(PLANE), "second", spec=second)
    await person.wait(10)
    await person.remove(parts.kind_of(PLANE), "second")


# ---------------------------------------------------------------- deaths, and time


async def jump_a_year(person: Person) -> None:
    """The clocks of managers and of the machine jump: all certificates but the authorities' have ended."""
    person.world.journal.say("person", "a year passes")
    person.world.managers.step_clocks(YEAR)
    person.world.part(HostMachine).jump(YEAR)


def dies(component: Component, *, times: int = 1) -> Part:
    """A program dies, and is started again; the control plane is ready again after that."""

    async def act(person: Person) -> None:
        journal, machine = person.world.journal, person.world.part(HostMachine)
        for number in range(1, times + 1):
            await acts.kill(component)(person)
            await person.wait(BETWEEN)
            expect(person, not machine.answers(NAMESPACE_NAME, parts.name_of_part(component)), "it is dead")
            await person.until(
                lambda: (
                    machine.answers(NAMESPACE_NAME, parts.name_of_part(component))
                    and parts.ready(parts.find(journal, PLANE))
                ),
                f"it is there again, {number}",
                seconds=acts.PATIENCE,
            )

    return act


async def die_together(person: Person) -> None:
    """All programs die at once, while the API server gets another flag."""
    await acts.change(SERVER, extraArgs={"v": "2"})(person)
    for component in Component:
        await acts.kill(component)(person)


# ---------------------------------------------------------------- the table


def _orders() -> list[Story]:
    """Made, and deleted: each of the four first once."""
    orders = {each[0]: each for each in permutations(ORDER[::-1])}
    first = [story(f"up-{which}-first", made(order, BETWEEN)) for which, order in orders.items()]
    last = [
        story(f"gone-{which}-first", deleted(order, BETWEEN), nothing_left, plane())
        for which, order in orders.items()
    ]
    return [*first, *last]


STORIES = (
    story("up", made(ORDER)),
    *_orders(),
    story("up-with-two-parts", two_parts, serving(parts=(ETCD, SERVER))),
    story("gone", deleted([PLANE]), nothing_left, plane()),
    story("gone-at-once", deleted(ORDER), nothing_left, plane()),
    story("gone-backwards", deleted(ORDER, 0.15), nothing_left, plane()),
    story("gone-on-the-way", make_and_delete, nothing_left),
    story("made-again", make_again, before=plane()),
    story("keeps-data", keep_data, before=plane()),
    story("asleep-and-awake", sleep_and_wake, before=plane()),
    story("changed-on-the-way", change_on_the_way, serving(apiserver=NEWER)),
    story("two-servers", roll_servers, serving(2), plane(apiserver={"replicas": 2})),
    story("leaves-lost", lose_leaves, before=plane()),
    story("endpoint", move_endpoint, before=plane()),
    story("own-authority", bring_own),
    story("own-authority-and-gone", bring_own_and_delete, nothing_left),
    story("own-leaf", bring_what_does_not_fit),
    story("authority-lost", lose_authority, before=plane()),
    story("handed-over", hand_over_and_back, serving(etcd=NEW), plane(etcd={"version": OLD})),
    story("paused", pause_all, serving(etcd=NEW), plane(etcd={"version": OLD})),
    story("named-twice", name_twice, before=plane()),
    story("etcd-dies", dies(ETCD), before=plane()),
    story("server-dies", dies(SERVER, times=2), before=plane()),
    story("manager-dies", dies(MANAGER), before=plane()),
    story("a-year-later", jump_a_year, before=plane()),
    story("all-die", die_together, before=plane()),
)
DAY_TWO = (*backups.STORIES, *pods.STORIES, *resting.STORIES, *rotating.STORIES, *scaling.STORIES)
"""What users do with control planes that run for long."""
ALL = (*STORIES, *DAY_TWO)
BY_NAME = {story.name: story for story in ALL}
