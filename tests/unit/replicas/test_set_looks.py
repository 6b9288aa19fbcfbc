"""How long a set waits for its deployment to size it anew, and which numbers it has seen."""

import pytest

from kubewright.replicas.set.look import MAX_TAKEN, RESIZE_SECONDS, Memory
from kubewright.wire.gvk import Key
from simulation.toys.kinds import TOY

from ..looks.of_sets import Sets, Them, contradicted, toy, toy_set, waits


async def test_a_set_that_was_sized_for_another_size_waits_a_while_from_when_that_was_noticed():
    pauses = await contradicted(3, 5, 10, 12, 10 + RESIZE_SECONDS)
    assert pauses == [waits(RESIZE_SECONDS), waits(RESIZE_SECONDS - 2), None]


@pytest.mark.parametrize(("sized_for", "wanted"), [(5, 5), (-1, 5)], ids=["the same size", "not told"])
async def test_a_set_that_was_sized_for_what_its_deployment_wants_does_not_wait(sized_for, wanted):
    assert await contradicted(sized_for, wanted, 10) == [None]


async def test_a_new_contradiction_is_waited_for_anew():
    memory = Memory()
    assert memory.pause("one", 0, 5).seconds == 5
    assert memory.pause("two", 4, 5).seconds == 5
    assert memory.pause("", 5, 5) is None
    assert memory.pause("two", 8, 5).seconds == 5


async def test_a_member_that_another_set_takes_or_that_is_gone_is_seen_no_more():
    sets = Sets()
    await sets.put(TOY, toy("a"), toy("b"))
    await sets.put(TOY, toy("a", owner="another"))
    assert sets.looker.look(toy_set(), sets.memory).members == Them("b")
    await sets.client.delete(TOY, Key("n", "b"))
    assert sets.looker.look(toy_set(), sets.memory).members == ()


def test_names_of_others_are_forgotten_before_they_are_too_many():
    memory = Memory()
    for number in range(MAX_TAKEN + 1):
        memory.belongs_to_another(f"s-{number}")
    assert memory.taken == {f"s-{MAX_TAKEN}"}
