"""Whether a control plane sleeps now, and when that changes: by hand, or by its schedule. Pure.

Theory.      ``spec.asleep`` says it, where it is set. Else the last moment of the schedules counts, of all
             entries together: a sleep or a wake. Nothing is remembered, so after a time in which no
             controller ran the answer is the one that it would have been.
Invariants.  A moment before the object was made does not count: what is made in the evening starts. Where
             a sleep and a wake come together, it wakes.
Source       nested.md R-09, C11.
Called by    ``seen``; components follow what the status says.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.controlplane.schedules import following, latest
from kubewright.api.controlplane.v1alpha4 import NestedControlPlaneSpec

Find = Callable[[str, str, datetime], datetime | None]


@dataclass(frozen=True, slots=True)
class Rest:
    """Whether it sleeps. ``until``: when the schedule says otherwise next; None: it never does."""

    asleep: bool = False
    until: datetime | None = None
    by_hand: bool = False


def rest_of(spec: NestedControlPlaneSpec, made: datetime | None, now: datetime) -> Rest:
    """Whether a control plane with this spec, made then, sleeps now.

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
    """The moments of one sort that ``find`` finds in all entries."""
    for each in spec.schedule:
        expression = each.sleep if sleep else each.wake
        if expression and (moment := find(expression, each.time_zone, now)) is not None:
            yield moment
