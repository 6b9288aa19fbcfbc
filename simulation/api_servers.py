"""One API server of a world: its data, and the process that serves it, which may be killed and started again.

Called by    ``world``: once for the machines' cluster, and once for the nodes' where they have their own.
"""

from collections.abc import Callable

from kubewright.apiserver.server import ApiServer
from simulation.clock import SimClock
from simulation.journal import Journal, MemoryLog
from simulation.loop import Process, SimLoop
from simulation.network import Host

RESTART_SECONDS = 0.7
"""From the kill of a manager or server to the start of the next one."""


class SimServer:
    """``host`` is the server as the network sees it; ``version`` that of its last write."""

    def __init__(self, loop: SimLoop, journal: Journal, name: str, clock: Callable[[str], SimClock]) -> None:
        self.name = name
        self.host = Host(name, clock(f"{name} network"))
        self._loop = loop
        self._journal = journal
        self._clock = clock
        self._disk = MemoryLog(journal, name)
        self._lives = 0

    @property
    def version(self) -> int:
        """Of the last write."""
        return self._disk.version

    async def start(self) -> None:
        """Start a server on the objects that are there."""
        self._lives += 1
        process = Process(self._loop, f"{self.name} server")
        server = ApiServer(self._clock(f"{process.name} {self._lives}"), log=self._disk)
        await process.spawn(server.start(), name="start")
        self.host.up(process, server.handle)

    async def restart(self) -> None:
        """Kill the server and start it again with what it had acknowledged. One that is down stays down."""
        if not self.host.is_up:
            return
        self._journal.say("world", f"the {self.name} server is killed")
        self.host.down()
        await self._clock("fate").sleep(RESTART_SECONDS)
        await self.start()
