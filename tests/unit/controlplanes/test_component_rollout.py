"""Which instance is replaced next: one at a time, what is broken first, never below a majority."""

from itertools import product

import pytest
from tests.unit.controlplanes.component_views import instance, workload

from kubewright.controlplanes.component.rollout import next_instance
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
