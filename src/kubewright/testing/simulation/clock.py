"""A clock for one process of a simulation: the loop's time, a seed's chance, and a wall that can jump."""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from random import Random  # noqa: TID251 -- to take chance away

from kubewright.base.clock import LoopClock
from kubewright.testing.simulation.loop import SimLoop

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
"""When every world begins."""


class _Even(Random):
    """Chance that knows no extremes."""

    def uniform(self, a: float, b: float) -> float:
        """The middle."""
        return (a + b) / 2


class SimClock(LoopClock):
    """What one process knows about time; ``ahead`` is by how many seconds its wall clock is wrong."""

    def __init__(self, loop: SimLoop, seed: str) -> None:
        super().__init__(BEGIN, seed=number(seed))
        if loop.even:
            self.random = _Even(number(seed))
        self.ahead = 0.0
        self._loop = loop

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self._loop.time() + self.ahead)

    def monotonic(self) -> float:
        return self._loop.time()


def number(words: str) -> int:
    """A seed from words: the same everywhere, unlike ``hash``."""
    return int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), "big")
