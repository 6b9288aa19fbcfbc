"""Which creations of members are in doubt: from before they are sent until it is known what came of them."""

import asyncio

from kubewright.base.limits import DOUBT_SECONDS
from kubewright.replicas.set.act import Creation
from kubewright.replicas.set.look import Memory
from kubewright.replicas.writes import Creations
from kubewright.testing.looks import Shelf
from simulation.toys.policy import TOY_SETS

from ..looks.of_sets import toy_set
from .things import but


def test_a_creation_is_in_doubt_until_it_is_settled() -> None:
    doubts = Creations()
    assert not doubts.creating("set", "a", 0.0)
    assert doubts.creating("set", "a", 1.0), "it was in doubt when it was asked for again"
    doubts.resolved("set", "a")
    assert doubts.open("set") == ()
    assert not doubts.creating("set", "a", 2.0)


def test_the_doubt_that_came_first_stays_first() -> None:
    doubts = Creations()
    for name in ("b", "a", "b"):
        doubts.creating("set", name, 0.0)
    assert doubts.open("set") == ("b", "a")


def test_a_doubt_ends_when_no_request_can_be_on_its_way_any_more() -> None:
    doubts = Creations()
    doubts.creating("set", "a", 0.0)
    doubts.creating("set", "b", 1.0)
    doubts.expire("set", DOUBT_SECONDS)
    assert doubts.open("set") == ("b",)


def test_the_doubts_of_sets_are_their_own() -> None:
    doubts = Creations()
    doubts.creating("one", "a", 0.0)
    doubts.creating("other", "a", 0.0)
    doubts.forget("one")
    assert (doubts.open("one"), doubts.open("other")) == ((), ("a",))


async def test_a_creation_that_we_cancel_stays_in_doubt() -> None:
    """The process ends, or no longer leads: the server may have the request."""
    shelf, sent = Shelf(), asyncio.Event()

    async def create(_client: object, _owner: object, _name: str) -> None:
        sent.set()
        await asyncio.Event().wait()

    policy = but(TOY_SETS, create=create)
    creation = Creation(policy, shelf.client, toy_set(), Memory(), Creations())
    attempt = asyncio.create_task(creation.one("a"))
    await sent.wait()
    attempt.cancel()
    await asyncio.wait([attempt])
    assert (creation.doubts.open("s"), creation.created) == (("a",), [])
    assert shelf.asked == [], "and what it was to need is not taken back"
