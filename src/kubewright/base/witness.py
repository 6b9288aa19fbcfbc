"""Since when an object is in its state: by a date in it, or from when this process saw it change.

Theory.      Ages are differences of times. A date in an object was written by another program's wall clock,
             in whole seconds, and our own wall clock may be set at any moment: a step of an hour would make
             each machine an hour older. So a process that saw a state change counts from the moment in
             which it did, on a clock that does not step. What was so when it first looked is as old as
             its date says; a date in the future, which a wrong clock wrote, counts as that first look.
Invariants.  What is known here is knowledge of this process; it is written nowhere. Losing it costs
             nothing but the protection.
Called by    the index of members, and deployments (by date); ``machines.machine.moments`` (by state).
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
"""How times are told: as datetimes, or as seconds since the epoch."""


class Witness(Generic[T]):
    """Remembers one state for each key, and when it came to be. ``now`` reads a ``SteadyClock``."""

    def __init__(self, now: Callable[[], T]) -> None:
        self._now = now
        self._seen: dict[str, tuple[Any, T | None]] = {}

    def began(self, key: str, state: Any, dated: T | None) -> T | None:
        """When ``key`` came to be in ``state``, if this process saw it; None: its date counts."""
        known = self._seen.get(key)
        if known is None or known[0] != state:
            now: Any = self._now()
            seen = known is not None or (dated is not None and dated > now)
            known = self._seen[key] = (state, now if seen else None)
        return known[1]

    def since(self, key: str, dated: T | None) -> T | None:
        """Since when ``key`` is what it is since ``dated``; None while it is not. It notes the date."""
        began = self.began(key, dated, dated)
        return began if began is not None and dated is not None else dated

    def forget(self, key: str) -> None:
        """It is gone for good."""
        self._seen.pop(key, None)
