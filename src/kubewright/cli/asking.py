"""Ask one server, for the commands that are over once they have an answer.

Called by    ``cluster.command``, ``rollout.command``, ``explain.command``, ``troubles.command``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.kube import config
from kubewright.kube.client import Client

T = TypeVar("T")


OUTPUTS = ("", "json")
"""The forms of output: text, which differs by command, and JSON."""


def refuse_unknown(output: str) -> None:
    """Raise InvalidInput for a form of output that there is not."""
    if output not in OUTPUTS:
        raise InvalidInput(f"-o {output!r} is not known; there is: json")


def asked(kubeconfig: Path | None, ask: Callable[[Client], Awaitable[T]]) -> T:
    """What ``ask`` answers, with a client of the server that this kubeconfig names.

    Raises:
        InvalidInput: the kubeconfig cannot be used, or what ``ask`` raises.
    """

    async def work() -> T:
        clock = SystemClock()
        transport = config.load(kubeconfig, clock=clock)
        client = Client(transport, clock, name=transport.access.server)
        try:
            return await ask(client)
        finally:
            await client.close()

    return asyncio.run(work())
