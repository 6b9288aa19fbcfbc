"""The rules of a CapacityReserve beyond its schema.

Theory.      What no placeholder could be made of is refused, and what would let the reserve feed itself: a
             share of the pool counts nodes that were added for placeholders, too. With ``p`` percent a pool
             ends at 1/(1 - p/100) times its work, so up to half of the pool needs no bound, and more does.
             How large the pool is changes with every node, so a reserve that is larger than its pool is no
             mistake of this object: its condition tells.
Invariants.  Pure; every violation is reported, in the order of the fields. Controllers ask these rules in
             every pass, since an object may have come past any webhook.
Called by    the controller of reserves; admission.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from kubewright.api.capacity.v1alpha1 import (
    LOWEST_SEEN,
    MOST,
    CapacityReserve,
    CapacityReserveSpec,
    Toleration,
    ZoneSpread,
)
from kubewright.api.faults import Errors, Fault, FieldError
from kubewright.api.meta import Quantity
from kubewright.base.limits import remembered
from kubewright.wire.quantity import parse

WAYS = ("replicas", "percent", "total", "machines")
UNBOUNDED_PERCENT = 50
"""The highest percentage that needs no limits."""
OPERATORS = ("Exists", "Equal")
EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_reserve(reserve: CapacityReserve) -> list[FieldError]:
    """Every broken rule of a CapacityReserve; empty when it is good."""
    spec = reserve.spec
    return [
        *_unit(spec),
        *_way(spec),
        *_number("spec.replicas", spec.replicas),
        *_percent(spec),
        *_amounts("spec.total", spec.total or {}, spec, least="must not be negative"),
        *_number("spec.machines", spec.machines),
        *_amounts("spec.limits", spec.limits, spec, least="must not be negative"),
        *(each for at, one in enumerate(spec.tolerations) for each in _toleration(at, one)),
        *_zone_spread(spec),
        *_priority(spec),
    ]


def reserve_warnings(reserve: CapacityReserve) -> list[str]:
    """What its writer should know of a CapacityReserve in which nothing is wrong."""
    priority = reserve.spec.priority
    if priority < LOWEST_SEEN:
        return [
            f"spec.priority: cluster-autoscaler adds no nodes for pods with a priority below {LOWEST_SEEN}, "
            "unless it is told otherwise (--expendable-pods-priority-cutoff)"
        ]
    if priority == 0:
        return [
            "spec.priority: pods without a PriorityClass have priority 0, too, unless one is the default of "
            "all, and cannot take the place of these placeholders"
        ]
    return []


def amounts(quantities: Mapping[str, Quantity]) -> Mapping[str, Decimal]:
    """Quantities as numbers; what is no quantity counts as 0."""
    return {name: known for name, text in quantities.items() if (known := amount(text)) is not None}


def amount(quantity: Quantity) -> Decimal | None:
    """A quantity as a number; None for what is none."""
    return _amount(str(quantity))


@remembered(4096)
def _amount(quantity: str) -> Decimal | None:
    """All nodes of a pool say the same few."""
    try:
        return parse(quantity)
    except ValueError:
        return None


def _unit(spec: CapacityReserveSpec) -> Errors:
    if not spec.unit:
        yield FieldError("spec.unit", "must name at least one resource, such as cpu: 500m")
    for name, quantity in spec.unit.items():
        path, found = f"spec.unit[{name}]", amount(quantity)
        if name == "pods":
            yield FieldError(path, "each placeholder is one pod already", Fault.FORBIDDEN)
        elif found is None:
            yield FieldError(path, "must be a quantity like 2, 500m or 8Gi", Fault.INVALID, quantity)
        elif found <= 0:
            yield FieldError(
                path, "must be greater than zero: it keeps nothing free", Fault.INVALID, quantity
            )


def _way(spec: CapacityReserveSpec) -> Errors:
    """Exactly one way to say how much."""
    found = [name for name in WAYS if getattr(spec, name) is not None]
    if not found:
        yield FieldError("spec", f"one of {_listed(WAYS, 'or')} must say how much is kept free")
    elif len(found) > 1:
        named = _listed(found, "and")
        yield FieldError("spec", f"{named} are set; only one may say how much is kept free", Fault.FORBIDDEN)


def _number(path: str, number: int | None) -> Errors:
    if number is not None and number < 0:
        yield FieldError(path, "must not be negative", Fault.INVALID, number)
    elif number is not None and number > MOST:
        yield FieldError(path, f"must not be greater than {MOST}", Fault.INVALID, number)


def _percent(spec: CapacityReserveSpec) -> Errors:
    percent = spec.percent
    if percent is None:
        return
    if not percent:
        yield FieldError("spec.percent", "must name at least one resource, such as cpu: 10")
    for name, share in percent.items():
        path = f"spec.percent[{name}]"
        yield from _known(path, name, spec)
        if share < 0:
            yield FieldError(path, "must not be negative", Fault.INVALID, share)
        elif share > 100:
            yield FieldError(path, "must not be greater than 100", Fault.INVALID, share)
        elif share > UNBOUNDED_PERCENT and name not in spec.limits:
            why = "each node that is added for placeholders makes the share larger"
            least = f"is needed with more than {UNBOUNDED_PERCENT} percent: {why}"
            yield FieldError(f"spec.limits[{name}]", least)


def _amounts(
    path: str, quantities: Mapping[str, Quantity], spec: CapacityReserveSpec, *, least: str
) -> Errors:
    if path == "spec.total" and spec.total is not None and not spec.total:
        yield FieldError(path, "must name at least one resource, such as cpu: 8")
    for name, quantity in quantities.items():
        at, found = f"{path}[{name}]", amount(quantity)
        yield from _known(at, name, spec)
        if found is None:
            yield FieldError(at, "must be a quantity like 2, 500m or 8Gi", Fault.INVALID, quantity)
        elif found < 0:
            yield FieldError(at, least, Fault.INVALID, quantity)


def _known(path: str, name: str, spec: CapacityReserveSpec) -> Iterator[FieldError]:
    if name not in spec.unit:
        yield FieldError(path, "placeholders do not ask for it: spec.unit does not name it", Fault.FORBIDDEN)


def _toleration(at: int, toleration: Toleration) -> Errors:
    path = f"spec.tolerations[{at}]"
    if toleration.operator not in OPERATORS:
        yield FieldError(f"{path}.operator", "must be Exists or Equal", Fault.INVALID, toleration.operator)
    elif toleration.operator == "Exists" and toleration.value:
        wrong = "must be empty when `operator` is Exists"
        yield FieldError(f"{path}.value", wrong, Fault.INVALID, toleration.value)
    elif toleration.operator == "Equal" and not toleration.key:
        yield FieldError(f"{path}.operator", "must be Exists when `key` is empty", Fault.INVALID, "Equal")
    if toleration.effect not in EFFECTS:
        wrong = "must be NoSchedule, PreferNoSchedule or NoExecute, or empty"
        yield FieldError(f"{path}.effect", wrong, Fault.INVALID, toleration.effect)


def _zone_spread(spec: CapacityReserveSpec) -> Errors:
    if spec.zone_spread not in tuple(ZoneSpread):
        wrong = f"must be {_listed(tuple(ZoneSpread), 'or')}"
        yield FieldError("spec.zoneSpread", wrong, Fault.INVALID, spec.zone_spread)


def _priority(spec: CapacityReserveSpec) -> Errors:
    if spec.priority > 0:
        wrong = "must be zero or lower: placeholders must give way to workloads, not preempt them"
        yield FieldError("spec.priority", wrong, Fault.INVALID, spec.priority)


def _listed(names: Sequence[str], word: str) -> str:
    *first, last = names
    return f"{', '.join(first)} {word} {last}"
