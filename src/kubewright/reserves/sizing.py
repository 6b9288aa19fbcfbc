"""How many placeholders a reserve has. Pure.

Theory.      A percentage is one of what the Ready nodes of the pool offer, placeholders or not. Nodes that
             are added for placeholders raise it, and with them the next number; but each round adds the
             percentage of what the one before added, so the numbers end at a fixed point, with 50 percent at
             twice the work. Above that a user names a limit (``api.capacity.validate``), and ``MOST`` bounds
             all. The number follows the pool upward at once, and downward when less was wanted without a
             break for ``WINDOW``, to the highest number of that time: as a HorizontalPodAutoscaler does. So a
             node that is not Ready for a minute, or is replaced in a rollout, moves no placeholder.
Invariants.  Numbers are rounded up where they promise room, and down where they limit it. A node that is
             cordoned, deleted or about to be removed by an autoscaler is no part of the pool.
Called by    ``decide``; ``pool_of`` and ``gathering`` by ``reconciler``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil, floor

from kubewright.api.capacity.v1alpha1 import MOST, CapacityReserveSpec, Reason, Toleration
from kubewright.api.capacity.validate import amounts
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import NODE_READY, Node, Taint

WINDOW = timedelta(minutes=5)
"""How long fewer placeholders must be enough before there are fewer."""
LOOK = 2e-5
"""How many seconds of a core a look takes for each node, about."""
FREE, SPARSE, LONGEST = 0.002, 20, 30.0
"""Looks that take less than ``FREE`` seconds come at once; others take one of ``SPARSE`` seconds, as long as
they wait no longer than ``LONGEST``."""
REPELLING = ("NoSchedule", "NoExecute")
LEAVING = "ToBeDeletedByClusterAutoscaler"
"""cluster-autoscaler's taint on a node that it removes: it goes, also where placeholders tolerate that."""

Amounts = Mapping[str, Decimal]


def gathering(nodes: int, reserves: int) -> float:
    """For how many seconds a change of a node waits for others, since each reserve looks at all of them."""
    cost = nodes * reserves * LOOK
    return 0.0 if cost <= FREE else min(cost * SPARSE, LONGEST)


@dataclass(frozen=True, slots=True)
class Pool:
    """What each Ready node of a pool offers to pods, by resource."""

    nodes: tuple[Amounts, ...] = ()

    def offers(self, resource: str) -> Decimal:
        """The sum over all nodes."""
        return sum((each.get(resource, Decimal(0)) for each in self.nodes), Decimal(0))


@dataclass(frozen=True, slots=True)
class Size:
    """How many placeholders are wanted: ``number``, after the bounds; ``because``: a clause.

    ``unbounded``  how many it were without a bound; ``bound``: which one made it smaller
    """

    number: int
    because: str
    unbounded: int
    bound: Reason | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """The number of placeholders now, and what is on record of a lower one (``status.lowerTo``)."""

    number: int
    lower_to: int | None = None
    lower_since: datetime | None = None
    wake: timedelta | None = None


def pool_of(spec: CapacityReserveSpec, nodes: Iterable[Node]) -> Pool:
    """The pool of a reserve among all nodes, in the order of their names."""
    found = sorted((each for each in nodes if belongs(spec, each)), key=lambda each: each.name)
    return Pool(tuple(amounts(each.status.allocatable) for each in found))


def belongs(spec: CapacityReserveSpec, node: Node) -> bool:
    """Whether placeholders may stand on a node, and it is there to stay."""
    if node.metadata.deleting or node.spec.unschedulable:
        return False
    if not is_condition_true(node.status.conditions, NODE_READY):
        return False
    if not spec.node_selector.items() <= node.metadata.labels.items():
        return False
    return not any(_repels(spec, taint) for taint in node.spec.taints)


def _repels(spec: CapacityReserveSpec, taint: Taint) -> bool:
    if taint.key == LEAVING:
        return True
    return taint.effect in REPELLING and not any(_tolerates(each, taint) for each in spec.tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def wanted(spec: CapacityReserveSpec, pool: Pool) -> Size:
    """The number that a valid spec asks for with this pool."""
    unit = amounts(spec.unit)
    number, because = _asked(spec, unit, pool)
    limits = {name: limit for name, limit in amounts(spec.limits).items() if name in unit}
    limit = min((floor(limit / unit[name]) for name, limit in limits.items()), default=number)
    if limit < min(number, MOST):
        return Size(limit, f"{because}; spec.limits allows {limit}", number, Reason.BY_LIMITS)
    if number > MOST:
        return Size(MOST, f"{because}; a reserve has {MOST} at most", number, Reason.BY_NUMBER)
    return Size(number, because, number)


def _asked(spec: CapacityReserveSpec, unit: Amounts, pool: Pool) -> tuple[int, str]:
    """The number without bounds, and why it is that, a clause."""
    if spec.replicas is not None:
        return spec.replicas, f"spec.replicas is {spec.replicas}"
    if spec.percent is not None:
        shares = {name: pool.offers(name) * share / 100 for name, share in spec.percent.items()}
        told = " and ".join(f"{share} % of {name}" for name, share in sorted(spec.percent.items()))
        return _units(shares, unit), f"{told} of {len(pool.nodes)} nodes"
    if spec.total is not None:
        told = " and ".join(f"{name} {amount}" for name, amount in sorted(spec.total.items()))
        return _units(amounts(spec.total), unit), f"spec.total is {told}"
    machines = spec.machines or 0
    each = max((fits(unit, node) for node in pool.nodes), default=1)
    each = max(each, 1)  # one that fits nowhere waits, and is told
    return machines * each, f"{each} for each of {machines} machines"


def _units(amounts: Amounts, unit: Amounts) -> int:
    """How many units have at least these amounts."""
    return max((ceil(amount / unit[name]) for name, amount in amounts.items() if name in unit), default=0)


def fits(unit: Amounts, node: Amounts) -> int:
    """How many units fit into a node that is empty."""
    found = min((floor(node.get(name, Decimal(0)) / amount) for name, amount in unit.items()), default=0)
    return min(found, floor(node["pods"])) if "pods" in node else found


def paced(size: int, before: Pace, now: datetime, *, at_once: bool) -> Pace:
    """The number of placeholders now, when ``size`` is wanted and there were ``before.number``.

    ``at_once``: a user changed the reserve, or there was none yet.
    """
    if at_once or size >= before.number:
        return Pace(size)
    if before.lower_since is None or before.lower_to is None:
        return Pace(before.number, size, now, WINDOW)
    highest = max(size, min(before.lower_to, before.number))
    since = min(before.lower_since, now)  # a clock that was wrong for a while must not hold it for ever
    left = since + WINDOW - now
    if left > timedelta():
        return Pace(before.number, highest, since, left)
    if highest == size:
        return Pace(size)
    return Pace(highest, size, now, WINDOW)
