"""Whether a control plane sleeps now, and until when: by its spec and its schedule. Pure.

Theory.      Where ``spec.asleep`` is set, it decides. Else the latest moment of all entries of the schedule
             decides: it is either a sleep or a wake. Nothing is kept, so after a time in which no controller
             ran the answer is the same as if one had run.
Invariants.  Moments before the object was created do not count, so a control plane that is created in the
             evening starts. If a sleep and a wake are at the same moment, it wakes.
Source       nested.md R-09, C11.
Called by    ``reconciler``; components read the result in ``status.asleep``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.controlplane.schedules import following, latest
from kubewright.api.controlplane.v1alpha4 import NestedControlPlaneSpec

Find = Callable[[str, str, datetime], datetime | None]


@dataclass(frozen=True, slots=True)
class Rest:
    """Whether it sleeps. ``until``: when the schedule next changes that; None: it does not.

    ``by_hand``  whether ``spec.asleep`` decides
    """

    asleep: bool = False
    until: datetime | None = None
    by_hand: bool = False


def rest_of(spec: NestedControlPlaneSpec, made: datetime | None, now: datetime) -> Rest:
    """Whether a control plane with this spec sleeps at ``now``. ``made``: when it was created.

    Raises:
        InvalidInput: a schedule cannot be read.
    """
    if spec.asleep is not None:
        return Rest(spec.asleep, by_hand=True)
    since = made if made is not None else now
    sleeps, wakes = (
        max((each for each in _all(spec, sleep, latest, now) if each > since), default=None)
        for sleep in (True, False)
    )
    asleep = sleeps is not None and (wakes is None or wakes < sleeps)
    return Rest(asleep, min(_all(spec, not asleep, following, now), default=None))


def _all(spec: NestedControlPlaneSpec, sleep: bool, find: Find, now: datetime) -> Iterator[datetime]:
    """The moment that ``find`` finds in each entry: of its sleep, or of its wake."""
    for each in spec.schedule:
        expression = each.sleep if sleep else each.wake
        if expression and (moment := find(expression, each.time_zone, now)) is not None:
            yield moment
