"""What an omitted field of a MachineDeployment means.

Theory.      The seed promises defaults that upstream never fills in: an empty strategy is a
             RollingUpdate, and its bounds have values. Our CRDs say so too, where a schema can:
             upstream refuses such objects, so the server's filling them in breaks nothing for MCM
             beside us. But what a schema cannot say (bounds for a RollingUpdate that has no block
             of its own), and a cluster that has upstream's CRDs, need this module: controllers
             apply it when they read a deployment, and never write the result back.
             An omitted ``excessReplicas`` means what an annotation says (``excess.KEPT_ANNOTATION``).
             An omitted bound means 1 for maxSurge and 0 for maxUnavailable, as Gardener gives its
             workers: nothing is taken away before its successor is there. With a surge of 0 an
             omitted maxUnavailable means 1, because both cannot be 0 (where both are given as 0,
             ``rollout`` takes 1 as well).
Invariants.  Pure and idempotent. A field that is set is never changed. What is wrong stays wrong:
             ``validate`` judges the result. An InPlaceUpdate gets the same bounds, but never a
             strategy block or an orchestration that it did not have.
Source       seed 004 (MachineDeploymentStrategy, RollingUpdateMachineDeployment); mcm.md §1.5.
Called by    ``machines`` before ``validate``.
"""

from typing import TypeVar

from msgspec import structs

from kubewright.api.machine import excess
from kubewright.api.machine.names import StrategyType
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineDeploymentStrategy, RollingUpdate
from kubewright.api.meta import integer

MAX_SURGE = 1
MAX_UNAVAILABLE = 0

Bounds = TypeVar("Bounds", bound=RollingUpdate)


def with_defaults(deployment: MachineDeployment) -> MachineDeployment:
    """The deployment as controllers must understand it."""
    given = deployment.spec
    strategy, more = _strategy(given.strategy), given.excess_replicas
    if more is None and excess.KEPT_ANNOTATION in deployment.metadata.annotations:
        more = integer(deployment.metadata.annotations, excess.KEPT_ANNOTATION)
    if (strategy, more) == (given.strategy, given.excess_replicas):
        return deployment
    return structs.replace(deployment, spec=structs.replace(given, strategy=strategy, excess_replicas=more))


def _strategy(given: MachineDeploymentStrategy) -> MachineDeploymentStrategy:
    kind = given.type or StrategyType.ROLLING_UPDATE
    rolling, in_place = given.rolling_update, given.in_place_update
    if kind == StrategyType.ROLLING_UPDATE:
        rolling = _bounds(rolling or RollingUpdate())
    if kind == StrategyType.IN_PLACE_UPDATE and in_place is not None:
        in_place = _bounds(in_place)
    return MachineDeploymentStrategy(type=kind, rolling_update=rolling, in_place_update=in_place)


def _bounds(given: Bounds) -> Bounds:
    surge, unavailable = given.max_surge, given.max_unavailable
    if surge is None:
        surge = MAX_SURGE
    if unavailable is None:
        unavailable = 1 if _is_zero(surge) else MAX_UNAVAILABLE
    return structs.replace(given, max_surge=surge, max_unavailable=unavailable)


def _is_zero(value: int | str) -> bool:
    return value in (0, "0%")
