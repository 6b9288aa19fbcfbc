"""Which instances are tried for a new connection, and in which order. Pure.

Theory.      The instances in the set come first: those that say that they are ready, and to which no attempt
             has failed in the last second. The one with the fewest open connections is the first of them. All
             others follow, because an instance that is not ready still answers more than none does: while an
             etcd is away, every API server says that it is not ready.
Invariants.  Every instance is in the order exactly once.
Called by    ``relay``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NEVER = float("-inf")
AVOIDED_SECONDS = 1.0
"""For how long an instance that failed is out of the set; meanwhile it is asked whether it is ready."""


@dataclass(slots=True)
class Instance:
    """One instance, as the balancer sees it; ``readiness`` and ``relay`` keep it up to date.

    ``ready``        what it has answered last; true where there is no such question
    ``connections``  how many are open to it
    ``failed``       when an attempt to use it failed last, in seconds of a monotonic clock
    """

    host: str
    ready: bool = False
    connections: int = 0
    failed: float = NEVER


def in_set(instance: Instance, now: float) -> bool:
    """Whether new connections go to this instance."""
    return instance.ready and now >= instance.failed + AVOIDED_SECONDS


def order(instances: Sequence[Instance], now: float) -> list[Instance]:
    """All instances, the ones to try first in front."""
    return sorted(instances, key=lambda each: (not in_set(each, now), each.connections))
