"""A small API server for the tests of the client."""

import pytest

from kubewright.testing.clocks import LoopClock
from kubewright.testing.tiny_server import TinyServer


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
def toy(clock: LoopClock) -> TinyServer:
    return TinyServer(clock)
