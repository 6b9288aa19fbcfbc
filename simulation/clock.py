"""A clock for one process: the loop's time, a seed's random numbers, a wall clock that can jump.

Invariants.  Processes differ by the name in their seed, so what one draws changes no other's numbers.
Called by    ``world``, for each process and each part that draws.
"""

from datetime import datetime, timedelta
from hashlib import blake2b
from random import Random  # noqa: TID251 -- a subclass that draws nothing

from kubewright.testing.clocks import BEGIN, LoopClock
from simulation.loop import SimLoop


class _Even(Random):
    """Random numbers for an even loop: delays have their mean."""

    def uniform(self, a: float, b: float) -> float:
        """The middle."""
        return (a + b) / 2


class SimClock(LoopClock):
    """The clock of one process; ``ahead`` is by how many seconds its wall clock is wrong."""

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
    """A seed from a text: the same in every process, unlike ``hash``."""
    return int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), "big")
