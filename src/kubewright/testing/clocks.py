"""Clocks of tests: one that follows the event loop, and one that a test sets.

Called by    tests and the simulator; ``ManualClock`` by tests of how ages are measured, which need no loop.
"""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kubewright.base.clock import SystemClock

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
"""When the wall clock of every test and every simulated world begins."""


class LoopClock(SystemClock):
    """Wall time that follows the event loop: on a virtual loop the whole system is repeatable.

    ``now`` returns ``start`` at its first call, whenever that is. The loop of that first reading is the
    clock's for good: it is read many thousand times in a test, and a test has one loop.
    """

    def __init__(self, start: datetime | None = None, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self._start = start or BEGIN
        self._origin = 0.0
        self._time: Callable[[], float] | None = None

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        if self._time is None:
            self._time = asyncio.get_running_loop().time
            self._origin = self._time()
        return self._time() - self._origin


class ManualClock(LoopClock):
    """``passed`` seconds since it was made; a wall clock that is ``ahead`` by so many. Tests set both."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = self.ahead = 0.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.passed + self.ahead)

    def monotonic(self) -> float:
        return self.passed
