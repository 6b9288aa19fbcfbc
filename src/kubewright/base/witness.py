"""Since when something is so: by an object's date, or from the moment at which this process saw it change.

Theory.      Ages are differences of times. A date in an object was written by another program's wall clock,
             in whole seconds, and our own wall clock may be set at any moment: a step of an hour would make
             each machine an hour older. So a process that saw a date change counts from the moment in
             which it did, on a clock that does not step. What was there when it first looked is as old as
             its date says; a date in the future, which a wrong clock wrote, counts as that first look.
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
        """Since when ``key`` is what it is since ``dated``; None while it is not. It notes the date."""
        known = self._seen.get(key)
        if known is None or known[0] != dated:
            now = self._clock.now().timestamp()
            known = (dated, now if known is not None or dated is None else min(dated, now))
            self._seen[key] = known
        return known[1] if dated is not None else None

    def forget(self, key: str) -> None:
        """It is gone for good."""
        self._seen.pop(key, None)
