"""Since when something is so: dates are what others say, and what happens before our eyes we know better.

Theory.      Ages are differences of times. A date in an object was written by somebody's wall clock, in whole
             seconds, and our own wall clock may be set at any moment: a step of an hour would make each
             machine an hour older. So whoever saw a date change counts from the moment in which it did,
             on a clock that does not step. What was there when we first looked is as old as its date
             says, but never younger than our look: a date in the future is somebody's wrong clock.
Invariants.  What is known here is knowledge of this process; it is written nowhere. Losing it costs
             nothing but the protection.
Called by    the index of members, and deployments. ``machines.machine.moments`` is its kin.
"""

from kubewright.base.clock import SteadyClock


class Witness:
    """Remembers one date for each key, and when it came to be. Times are seconds since the epoch."""

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float | None, float]] = {}

    def since(self, key: str, dated: float | None) -> float | None:
        """Since when ``key`` is what it is since ``dated``; None while it is not. Asking is looking."""
        known = self._seen.get(key)
        if known is None or known[0] != dated:
            now = self._clock.now().timestamp()
            known = (dated, now if known is not None or dated is None else min(dated, now))
            self._seen[key] = known
        return known[1] if dated is not None else None

    def forget(self, key: str) -> None:
        """It is gone for good."""
        self._seen.pop(key, None)
