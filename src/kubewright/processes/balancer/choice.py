"""Which instances are tried for a new connection, and in which order. Pure.

Theory.      First come the instances in rotation: those that answer that they are ready, and to which no
             attempt has failed in the last second; the one with the fewest open connections is tried first.
             All others follow, because an instance that is not ready is better than none: while etcd does
             not answer, every API server answers that it is not ready, and still serves some requests.
Invariants.  Every instance is in the order exactly once.
Called by    ``relay``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NEVER = float("-inf")
AVOIDED_SECONDS = 1.0
"""For how long an instance that failed is out of rotation; ``readiness`` goes on asking it meanwhile."""


@dataclass(slots=True)
class Instance:
    """One instance, as the balancer sees it; ``readiness`` and ``relay`` keep it up to date.

    ``ready``        what it has answered last; true where instances are not asked
    ``connections``  how many are open to it
    ``failed``       when an attempt to use it failed last, in seconds of a monotonic clock
    """

    host: str
    ready: bool = False
    connections: int = 0
    failed: float = NEVER


def in_rotation(instance: Instance, now: float) -> bool:
    """Whether new connections go to this instance."""
    return instance.ready and now >= instance.failed + AVOIDED_SECONDS


def order(instances: Sequence[Instance], now: float) -> list[Instance]:
    """All instances, the ones to try first in front."""
    return sorted(instances, key=lambda each: (not in_rotation(each, now), each.connections))
