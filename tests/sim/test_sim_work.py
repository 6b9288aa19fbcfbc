"""How stale managers are, how many requests they may send, and how many writes a story takes: bounds as tables."""

from collections.abc import Iterator
from operator import attrgetter

import pytest

from kubewright.wire.http import Request, Response
from simulation.crashes import undisturbed
from simulation.journal import MACHINES, MADE, Write
from simulation.loop import Process, SimLoop
from simulation.run import SLACK, Outcome, Work
from simulation.staleness import CONTROL, SLACK_SECONDS, Staleness
from simulation.stories import STORIES

WRITES = {
    "create": 29, "scale-up": 19, "scale-down": 20, "zero-and-back": 31, "roll": 61, "roll-twice": 114,
    "roll-and-scale": 55, "roll-back": 45, "recreate": 47, "pause-and-resume": 93, "relabel": 43,
    "roll-carefully": 76, "roll-there-and-back": 122, "relabel-nodes": 7, "two-pools": 54, "autoscaler": 13, "heal": 23, "vanish": 22, "delete": 15,
    "delete-while-creating": 33, "delete-while-draining": 26, "delete-one": 15, "keep-sets": 4, "keep-machines": 5,
    "adopt": 11, "adopt-vm": 21, "class-comes-late": 20, "class-goes-first": 11, "secret-comes-late": 23,
    "secret-goes-first": 40, "class-refused": 43, "class-refused-by-force": 15, "class-breaks": 31,
    "trigger-deletion": 17, "delete-against-budget": 17, "preserve-failed": 31, "preserve-now": 11,
    "name-too-long": 8, "nodes-forbidden": 19,
    "class-comes-too-late": 31, "stuck": 70, "stuck-recreate": 58, "stuck-while-paused": 62,
    "drain-volumes": 29, "roll-databases": 61, "drain-in-vain": 27, "roll-under-budget": 72, "heal-in-turn": 56,
    "freeze": 78, "update": 98, "update-with-surge": 60, "update-fails": 79, "update-hangs": 77, "update-and-back": 94, "update-and-scale": 83,
    "spare-scale": 19, "spare-grow": 21, "spare-shrink": 10, "spare-roll": 68, "spare-end": 58, "spare-heal": 25,
    "hot-update": 4, "hot-update-and-back": 14,
    "create-without-nodes": 20, "roll-without-nodes": 28, "delete-without-nodes": 11,
}  # fmt: skip
"""Writes to API and cloud in each story when nothing goes wrong: the most that five seeds took. A new story
comes with its own number."""


@pytest.fixture(scope="module", params=STORIES, ids=attrgetter("name"))
def calm(request: pytest.FixtureRequest) -> Outcome:
    """A story when nothing goes wrong; what is counted in it is looked at by several tests."""
    return undisturbed(request.param, seed=1)


def test_an_undisturbed_story_takes_so_many_writes(calm: Outcome) -> None:
    writes = calm.counts.writes
    assert writes <= WRITES.get(calm.story, 0), f"{calm.story} takes {writes} writes: right, and in WRITES?"


EVENTS = {
    "create": 7, "scale-up": 5, "scale-down": 7, "zero-and-back": 10, "roll": 18, "roll-carefully": 18, "roll-twice": 35,
    "roll-and-scale": 15, "roll-back": 13, "recreate": 14, "pause-and-resume": 27, "relabel": 12, "roll-there-and-back": 36, "relabel-nodes": 0,
    "two-pools": 15, "autoscaler": 3, "heal": 6, "vanish": 6, "delete": 4, "delete-while-creating": 10,
    "delete-while-draining": 7, "delete-against-budget": 4, "delete-one": 3, "trigger-deletion": 4, "keep-sets": 0,
    "keep-machines": 0, "adopt": 2, "adopt-vm": 3, "class-comes-late": 4, "class-goes-first": 2, "name-too-long": 2,
    "nodes-forbidden": 6, "secret-comes-late": 5, "secret-goes-first": 12, "stuck": 23, "stuck-recreate": 20, "stuck-while-paused": 20,
    "class-comes-too-late": 9, "preserve-failed": 7, "preserve-now": 2,
    "drain-volumes": 6, "roll-databases": 14, "drain-in-vain": 4, "roll-under-budget": 16, "heal-in-turn": 17,
    "freeze": 18, "update": 18, "update-with-surge": 12, "update-fails": 16, "update-hangs": 16, "update-and-back": 16, "update-and-scale": 15,
    "class-refused": 14, "class-refused-by-force": 12, "class-breaks": 12,
    "spare-scale": 3, "spare-grow": 5, "spare-shrink": 3, "spare-roll": 18, "spare-end": 15, "spare-heal": 6,
    "hot-update": 0, "hot-update-and-back": 4,
    "create-without-nodes": 7, "roll-without-nodes": 12, "delete-without-nodes": 4,
}  # fmt: skip
"""Events told in each story when nothing goes wrong, of sets, deployments and machines: two of a machine that
comes and goes quickly, more where something lasts, as a drain or an unhealthy node."""


def test_an_undisturbed_story_writes_so_many_events(calm: Outcome) -> None:
    events = calm.counts.events
    assert events <= EVENTS.get(calm.story, 0), f"{calm.story} tells {events} events: right, and in EVENTS?"


class Desk:
    """A manager, and what it receives."""

    def __init__(self, loop: SimLoop) -> None:
        self.time = 100.0
        self.manager = Process(loop, "manager-1")
        self.staleness = Staleness(
            lambda: self.time, lambda: [(self.manager, resource) for resource in CONTROL.values()]
        )

    def happens(self, version: int) -> None:
        self.staleness.learn(Write(MACHINES, "ns/m", MADE, after={}, number=version))

    def received(self, version: int) -> None:
        self.staleness.received(self.manager, MACHINES, version)

    @property
    def age(self) -> float:
        return self.time - self.staleness.since()


@pytest.fixture
def desk() -> Iterator[Desk]:
    loop = SimLoop(1)
    yield Desk(loop)
    loop.close()


def test_a_manager_that_has_received_everything_is_not_stale(desk: Desk) -> None:
    desk.received(1)
    desk.time += 50
    desk.happens(2)
    desk.time += 0.01
    desk.received(2)
    assert desk.age == SLACK_SECONDS


def test_a_manager_is_stale_since_the_first_change_that_it_has_not_received(desk: Desk) -> None:
    desk.received(1)
    desk.happens(2)
    desk.time += 50
    assert desk.age == pytest.approx(50 + SLACK_SECONDS)


def test_a_pass_that_is_under_way_when_a_change_arrives_may_still_end(desk: Desk) -> None:
    desk.received(1)
    desk.happens(2)
    desk.time += 50
    desk.received(2)
    desk.time += SLACK_SECONDS / 2
    assert desk.age > 50
    desk.time += SLACK_SECONDS
    assert desk.age == SLACK_SECONDS


def test_a_write_is_as_old_as_the_pass_that_sent_it(desk: Desk) -> None:
    """The second write of a pass is sent the moment that the first one is answered."""
    first, second = Request("POST", "/one"), Request("POST", "/two")
    desk.staleness.sends(desk.manager, first)
    desk.time += 30
    desk.staleness.has_sent(desk.manager, first)
    desk.staleness.sends(desk.manager, second)
    desk.time += 0.001
    desk.staleness.arrives("manager-1", second)
    assert desk.age > 30
    desk.staleness.is_done("manager-1", second, Response(200))


def test_a_write_of_a_later_pass_is_young(desk: Desk) -> None:
    first, second = Request("POST", "/one"), Request("POST", "/two")
    desk.staleness.sends(desk.manager, first)
    desk.time += 30
    desk.staleness.has_sent(desk.manager, first)
    desk.time += 0.25
    desk.staleness.sends(desk.manager, second)
    desk.staleness.arrives("manager-1", second)
    assert desk.age == SLACK_SECONDS


WORK: list[tuple[str, Work, float]] = [
    ("users who ask for three machines", Work(machines=3), 18 + 36),
    ("machines that no user asked for do not raise the bound", Work(machines=500, desired=4), 18 + 48),
    ("but those that a fault cost are", Work(machines=500, desired=4, faults={"at:freeze": 1}), 18 + 72 + 6),
    ("pods that stay are asked again", Work(held=20), 18 + 10),
    ("each change has its price", Work(machines=3, changes=2), 30 + 36),
    ("a life more lists and watches everything", Work(near=50, lives=2), 18 + 125),
    ("in both clusters", Work(near=50, far=40, apart=True, lives=2), 18 + 205),
    ("watches end by themselves", Work(near=50, seconds=600), 18 + 100),
    ("who wants to lead asks for two Leases", Work(seconds=600, elect=True), 18 + 300),
    ("a lost answer costs a look and another try", Work(faults={"api:lose-answer": 2}), 18 + 12),
    ("a server without history makes all list again", Work(near=50, faults={"at:restart-server": 1}), 18 + 156),
    ("the nodes' server only what watches nodes", Work(50, 40, True, faults={"at:restart-target": 1}), 18 + 126),
    ("a term lost is a life", Work(near=50, elect=True, faults={"at:lease-stolen": 1}), 18 + 131),
    ("but not where no leader is elected", Work(near=50, faults={"at:lease-stolen": 1}), 18 + 6),
]  # fmt: skip


@pytest.mark.parametrize(("work", "price"), [row[1:] for row in WORK], ids=[row[0] for row in WORK])
def test_the_bound_is_the_sum_of_the_prices(work: Work, price: float) -> None:
    assert work.bound() == round(SLACK * price)
