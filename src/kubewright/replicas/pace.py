"""How often the status of one object is written.

A burst of changes becomes a few writes: the first goes out at once, the next ones no sooner than an
interval apart, and the reconciler comes back for one that is too early, so the last state is always written.
Called by the reconcilers of ``set`` and ``deployment``.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """Times are monotonic seconds."""

    interval: float
    last: float = float("-inf")

    def wait(self, now: float) -> float:
        """Seconds until the next write may go out; 0 when it may now."""
        return max(0.0, self.last + self.interval - now)

    def wrote(self, now: float) -> None:
        """A write has been sent at ``now``."""
        self.last = now
