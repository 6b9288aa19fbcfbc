"""How many clusters connect at one time, and which is next.

Theory.      To connect costs a TLS handshake and full lists, so a start with a thousand clusters would stop
             the program for seconds if all came at once. But an attempt that hangs costs nearly nothing,
             and hundreds of clusters may hang. So an attempt holds its slot for ``patience`` seconds at
             most, and goes on without it; and clusters that failed wait behind those that did not.
Invariants.  Clusters that failed go behind all others. Where ``n`` others came before it, a cluster that has
             not failed waits for ``patience * n / size`` seconds at most, and for none that failed. A slot is
             given back once, whatever ends its attempt; what is cancelled while it waits never has one.
Called by    ``connection``; ``registry`` has one for all of its clusters.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from heapq import heappop, heappush


class Slots:
    """``size`` slots, each held for ``patience`` seconds at most."""

    def __init__(self, size: int, patience: float) -> None:
        self._free = size
        self._patience = patience
        self._numbers = itertools.count()
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def hold(self, *, failed: bool) -> AsyncIterator[None]:
        """Wait for a slot; ``failed``: this cluster's last attempt failed. The block may outlast the slot."""
        await self._take(failed)
        slot = ExitStack()  # closed by the timer or at the end, and the second time nothing is left to call
        slot.callback(self._give_back)
        end = asyncio.get_running_loop().call_later(self._patience, slot.close)
        try:
            yield
        finally:
            end.cancel()
            slot.close()

    async def _take(self, failed: bool) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (failed, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot came at the same moment
                self._give_back()
            raise

    def _give_back(self) -> None:
        """Hand the slot to the next who waits; a future that is done was cancelled while it waited."""
        while self._waiting:
            *_, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
