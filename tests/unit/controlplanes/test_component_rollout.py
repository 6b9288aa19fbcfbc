"""Which instance is replaced next: one at a time, what is broken first, never below a majority."""

from dataclasses import replace
from itertools import product

import pytest
from tests.unit.controlplanes.component_views import instance, workload

from kubewright.controlplanes.component.workload import next_instance, size_in_rollout
from kubewright.controlplanes.hosting.contract import Instance, Running

NEW, OLD = workload("1.37.0", 3), workload("1.36.3", 3)


def old(ordinal: int, **fields: bool) -> Instance:
    return instance(ordinal, OLD, **fields)


def new(ordinal: int, **fields: bool) -> Instance:
    return instance(ordinal, NEW, **fields)


CASES = {
    "the highest ordinal first, when all are ready": ((old(0), old(1), old(2)), 2),
    "the next one when the one before is ready": ((old(0), old(1), new(2)), 1),
    "none while the one before starts": ((old(0), old(1), new(2, ready=False)), None),
    "none while one ends": ((old(0), old(1), old(2, ending=True, ready=False)), None),
    "one that is not ready before those that are": ((old(0, ready=False), old(1), old(2)), 0),
    "a broken one even while a new one is not ready": ((old(0, ready=False), old(1), new(2, ready=False)), 0),
    "none while an instance is missing": ((old(0), old(1)), None),
    "none when all are new": ((new(0), new(1), new(2)), None),
    "none that is going to be ended anyway": ((new(0), new(1), new(2), old(3)), None),
}


@pytest.mark.parametrize(("instances", "ordinal"), CASES.values(), ids=CASES.keys())
def test_the_next_instance(instances: tuple[Instance, ...], ordinal: int | None) -> None:
    assert next_instance(NEW, Running(instances, NEW.fingerprint, 3, exists=True)) == ordinal


SIZES = {
    "as many as are wanted at the first start": (1, (), 0, 1),
    "one more before a ready one is replaced": (1, (old(0),), 1, 2),
    "still one more while it starts": (1, (old(0), new(1, ready=False)), 2, 2),
    "still one more while the first one is replaced": (1, (new(0, ready=False), new(1)), 2, 2),
    "still one more while the first one ends": (1, (old(0, ready=False, ending=True), new(1)), 2, 2),
    "one again when the first one is ready": (1, (new(0), new(1)), 2, 1),
    "one again when the former settings are wanted again": (1, (new(0), old(1, ready=False)), 2, 1),
    "one where the first one is not ready, so that nothing is lost": (1, (old(0, ready=False),), 1, 1),
    "one where it has just been started": (1, (new(0, ready=False),), 1, 1),
    "one where the other one still ends": (1, (new(0), new(1, ready=False, ending=True)), 1, 1),
    "two while a smaller number waits for the first one": (1, (new(0, ready=False), new(1), new(2)), 3, 2),
    "two of two, which are replaced one after another": (2, (old(0), old(1)), 2, 2),
    "none of none": (0, (old(0),), 1, 0),
}


@pytest.mark.parametrize(("wanted", "instances", "applied", "expected"), SIZES.values(), ids=SIZES.keys())
def test_how_many_run_where_there_can_be_one_more(
    wanted: int, instances: tuple[Instance, ...], applied: int, expected: int
) -> None:
    running = Running(instances, NEW.fingerprint, applied, exists=True)
    assert size_in_rollout(workload("1.37.0", wanted), running) == expected


def test_a_single_instance_is_replaced_beside_another_one_and_one_is_always_ready() -> None:
    """Each step of the way, from what the one before it leads to."""
    ways = [
        (old(0),),
        (old(0), new(1, ready=False)),
        (old(0), new(1)),
        (new(0, ready=False), new(1)),
        (new(0), new(1)),
    ]
    wanted = workload("1.37.0", 1)
    found = []
    for instances in ways:
        running = Running(instances, wanted.fingerprint, len(instances), exists=True)
        applied = replace(wanted, replicas=size_in_rollout(wanted, running))
        found.append((applied.replicas, next_instance(applied, running)))
        assert any(each.ready for each in instances)
    assert found == [(2, None), (2, None), (2, 0), (2, None), (1, None)]


def test_never_fewer_members_than_a_majority_serve_because_of_a_rollout() -> None:
    kinds = [(of, ready, ending) for of, ready, ending in product((OLD, NEW), (True, False), (True, False))]
    for members in product(kinds, repeat=3):
        seen = tuple(
            instance(number, of, ready=ready, ending=ending)
            for number, (of, ready, ending) in enumerate(members)
        )
        chosen = next_instance(NEW, Running(seen, NEW.fingerprint, 3, exists=True))
        if chosen is not None and seen[chosen].ready:
            assert sum(each.ready for each in seen) - 1 >= 2, seen
