"""maxSurge and maxUnavailable for a given number of replicas.

A percentage of surge is rounded up, one of unavailability down. If both result in 0 no step would ever be
possible: then one member may be unavailable (mcm.md §1.5, capi.md §7.9).
"""

import re
from dataclasses import dataclass

from kubewright.base.limits import number_of

_PERCENT = re.compile(r"([0-9]+)%")
INT32_MAX = 2**31 - 1

IntOrPercent = int | str


@dataclass(frozen=True, slots=True)
class Bounds:
    """By how many members a fleet may exceed or fall short of its replicas during a rollout."""

    replicas: int
    surge: int = 0
    unavailable: int = 0

    @property
    def ceiling(self) -> int:
        """The most members that may exist; a fleet of no replicas gets no surge."""
        return self.replicas + self.surge if self.replicas > 0 else 0

    @property
    def floor(self) -> int:
        """The fewest members that must be available."""
        return self.replicas - self.unavailable


def resolve(value: IntOrPercent, of: int, *, up: bool) -> int:
    """An absolute number, or a percentage of ``of`` rounded ``up`` or down.

    Raises:
        ValueError: neither a whole number that fits 32 bits nor digits followed by ``%``.
    """
    if isinstance(value, int):
        if not 0 <= value <= INT32_MAX:
            raise ValueError(f"{value} is no whole number between 0 and {INT32_MAX}")
        return value
    if not (match := _PERCENT.fullmatch(value)) or number_of(match[1]) > INT32_MAX:
        raise ValueError(f"{value!r} is neither a whole number nor a percentage such as 25%")
    return (of * int(match[1]) + (99 if up else 0)) // 100


def bounds(replicas: int, surge: IntOrPercent, unavailable: IntOrPercent) -> Bounds:
    """Both limits resolved for ``replicas``.

    Raises:
        ValueError: as ``resolve``.
    """
    above = resolve(surge, replicas, up=True)
    below = min(resolve(unavailable, replicas, up=False), replicas)
    if above == 0 and below == 0 and replicas > 0:
        below = 1
    return Bounds(replicas, above, below)
