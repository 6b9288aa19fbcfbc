"""A clock that a test sets: how much time has passed, and by how much the wall clock is wrong.

Called by    tests of how ages are measured, which need no event loop.
"""

from datetime import UTC, datetime, timedelta

from kubewright.base.clock import LoopClock

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock(LoopClock):
    """``passed`` seconds since it was made; a wall clock that is ``ahead`` by so many. Tests set both."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = self.ahead = 0.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.passed + self.ahead)

    def monotonic(self) -> float:
        return self.passed
