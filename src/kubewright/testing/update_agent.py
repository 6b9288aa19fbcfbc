"""An agent that updates nodes in place, as a distribution has one: for tests that play a whole update.

Called by    tests/api/machines, tests/conformance.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from kubewright.api.core import NODE, Node
from kubewright.api.machine.names import CANDIDATE_LABEL, UPDATE_RESULT_LABEL, UpdateReason
from kubewright.machines.machine.living import reason_in
from kubewright.testing.world import World
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key


@dataclass
class Agent:
    """What runs on the nodes of a world: it labels those that are ready for their update with a result.

    ``result``   what it says of a node, by its name; ``seconds``: how long it works on one
    ``worked``   the nodes on which it worked, in order
    ``out_of_service``  how many nodes were cordoned at a time, at most
    """

    world: World
    result: Callable[[str], str] = lambda _node: "successful"
    seconds: float = 5.0
    worked: list[str] = field(default_factory=list)
    out_of_service: int = 0

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as group:
            at_work = set[str]()
            while True:
                busy = frozenset(at_work)  # those may get their result while the nodes are listed
                nodes = await self.world.target.list(NODE)
                out = [node for node in nodes if node.spec.unschedulable]
                self.out_of_service = max(self.out_of_service, len(out))
                for node in nodes:
                    name = node.metadata.name
                    if is_ready(node) and name not in busy:
                        at_work.add(name)
                        group.create_task(self._work(name, at_work))
                await self.world.clock.sleep(0.5)

    async def _work(self, name: str, at_work: set[str]) -> None:
        self.worked.append(name)
        await self.world.clock.sleep(self.seconds)
        with suppress(NotFound):  # the node went with its machine
            await label(self.world, name, **{UPDATE_RESULT_LABEL: self.result(name)})
        at_work.discard(name)


def is_ready(node: Node) -> bool:
    ready, labels = reason_in(node.status.conditions) == UpdateReason.READY, node.metadata.labels
    return ready and CANDIDATE_LABEL in labels and UPDATE_RESULT_LABEL not in labels


async def label(world: World, name: str, **labels: str | None) -> None:
    await world.target.patch(NODE, Key("", name), {"metadata": {"labels": labels}})
