"""How stale a manager is said to be: by what its deciders have read, not by what else its process has."""

import asyncio

import pytest

from kubewright.kube.discovery import MetadataOnly
from kubewright.wire.http import Request, Response
from simulation.journal import MACHINES, MADE, Write
from simulation.loop import Process, SimLoop
from simulation.staleness import CONTROL, SLACK_SECONDS, Received, Staleness

LIST = Request("GET", "/apis/machine.sapcloud.io/v1alpha1/machines")


class AnswersAt7:
    """A server whose lists have version 7."""

    async def request(self, _request: Request, *, timeout: float) -> Response:
        return Response(200, b'{"metadata":{"resourceVersion":"7"},"items":[]}')

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    ("wrapped", "age"),
    [
        pytest.param(lambda line: line, 0.0, id="a list of the objects makes the process current"),
        pytest.param(MetadataOnly, 10.0, id="a list of metadata, as the garbage collector's, does not"),
    ],
)
def test_a_manager_is_as_stale_as_what_it_decides_on(wrapped, age) -> None:
    now = 0.0
    manager = Process(loop := SimLoop(1), "manager-1")
    loop.destroy()
    staleness = Staleness(lambda: now, lambda: [(manager, MACHINES)])
    line = Received(AnswersAt7(), staleness, manager, CONTROL)
    staleness.received(manager, MACHINES, 6)
    staleness.learn(Write(MACHINES, "garden/m", MADE, after={}, number=7))
    asyncio.run(wrapped(line).request(LIST, timeout=1.0))
    now = 10.0
    assert now - staleness.since() == pytest.approx(age + SLACK_SECONDS)
