"""The worlds that the machine suite runs in: embedded on virtual time, and a real Kubernetes."""

import itertools
from collections.abc import AsyncIterator

import pytest

from kubewright.testing.world import World, embedded_world, real_world

_numbers = itertools.count(1)
WORLDS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.kube, pytest.mark.looptime(False)]),
]


@pytest.fixture(params=WORLDS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A world with the classes ``small`` and ``large`` in a namespace of its own, and no machines."""
    if request.param == "embedded":
        start = embedded_world()
    else:
        start = real_world(request.getfixturevalue("judge"), f"machines-{next(_numbers)}")
    async with start as found:
        yield found
