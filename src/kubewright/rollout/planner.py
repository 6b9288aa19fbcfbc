"""The entry point for all strategies: scale first where the policy wants that, then take the strategy's step.

A paused fleet is scaled and nothing else. A strategy is a value; adding one means a class here
and its step in ``strategies`` or, if it is longer, in a file of its own.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from kubewright.rollout.bounds import Bounds, IntOrPercent, bounds
from kubewright.rollout.in_place import in_place
from kubewright.rollout.model import Fleet, Sizes
from kubewright.rollout.proportional import Growth, scale, scaling_wanted
from kubewright.rollout.rolling import rolling
from kubewright.rollout.strategies import on_delete, recreate


class Strategy(Protocol):
    """How old members give way to new ones."""

    def limits(self, replicas: int) -> Bounds:
        """How far the fleet may be above and below its replicas meanwhile."""

    def step(self, fleet: Fleet) -> Sizes:
        """How the rollout goes on from what there is now; idle sizes mean wait, or done."""


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """Old and new side by side, within bounds."""

    max_surge: IntOrPercent = 1
    max_unavailable: IntOrPercent = 0

    def limits(self, replicas: int) -> Bounds:
        return bounds(replicas, self.max_surge, self.max_unavailable)

    def step(self, fleet: Fleet) -> Sizes:
        return rolling(fleet, self.limits(fleet.replicas))


@dataclass(frozen=True, slots=True)
class Recreate:
    """All old ones are deleted before the first new one is created."""

    def limits(self, replicas: int) -> Bounds:
        return Bounds(replicas)

    def step(self, fleet: Fleet) -> Sizes:
        return recreate(fleet)


@dataclass(frozen=True, slots=True)
class InPlaceUpdate:
    """Old ones are updated where they are; ``manual``: a user chooses which, so nothing is made on top."""

    max_surge: IntOrPercent = 1
    max_unavailable: IntOrPercent = 0
    manual: bool = False

    def limits(self, replicas: int) -> Bounds:
        return bounds(replicas, 0 if self.manual else self.max_surge, self.max_unavailable)

    def step(self, fleet: Fleet) -> Sizes:
        return in_place(fleet, self.limits(fleet.replicas))


@dataclass(frozen=True, slots=True)
class OnDelete:
    """New ones only replace what users delete."""

    def limits(self, replicas: int) -> Bounds:
        return Bounds(replicas)

    def step(self, fleet: Fleet) -> Sizes:
        return on_delete(fleet)


@dataclass(frozen=True, slots=True)
class Scaling:
    """What differs between the APIs about scaling: ``first``, before any rollout step (MCM)."""

    first: bool
    growth: Growth


MCM_SCALING = Scaling(first=True, growth=Growth.CURRENT)
CAPI_SCALING = Scaling(first=False, growth=Growth.SHARED)


def plan(fleet: Fleet, strategy: Strategy, scaling: Scaling = MCM_SCALING) -> Sizes:
    """What to do next with a fleet.

    An update in place is not scaled first: its own step scales the fleet, too, and deletes no member that
    could be updated instead.
    """
    limits = strategy.limits(fleet.replicas)
    if fleet.paused:
        step = scale(fleet, limits, scaling.growth)
        return replace(step, notes=(*step.notes, "paused"))
    if scaling.first and scaling_wanted(fleet) and not isinstance(strategy, InPlaceUpdate):
        step = scale(fleet, limits, scaling.growth)
        if not step.idle:
            return step
    return strategy.step(fleet)
