"""Decide what comes next for one NestedCluster, and what its status says. Pure.

Invariants.  Of a NestedCluster that is paused only the condition Paused is written; one that another program
             manages is not written at all. Every plan has a reason. An endpoint that is set is never changed.
             ``ready`` becomes true and false again with the control plane. Equal views give equal statuses.
Source       S3-25, S3-30.
Called by    ``wiring``.
"""

from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from kubewright.api.cluster.conditions import (
    INFO,
    READY,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import ApiEndpoint, Cluster
from kubewright.api.controlplane.names import Reason
from kubewright.api.controlplane.v1alpha4 import NestedCluster, NestedClusterStatus, NestedControlPlane
from kubewright.base import plan
from kubewright.base.plan import Awaited
from kubewright.controlplanes.family import Pause, with_pause, without_pause


@dataclass(frozen=True, slots=True)
class Seen:
    """One NestedCluster, and all around it.

    ``owner``  the Cluster that owns it, if that exists
    ``plane``  the NestedControlPlane that the Cluster names, if that exists
    ``pause``  by what it is paused; None: it is not
    """

    cluster: NestedCluster
    now: datetime
    owner: Cluster | None = None
    plane: NestedControlPlane | None = None
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class PublishEndpoint:
    """Write the endpoint of the control plane into the spec."""

    endpoint: ApiEndpoint


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[PublishEndpoint]):
    """What to do now with a NestedCluster."""


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    meta = seen.cluster.metadata
    if MANAGED_BY_ANNOTATION in meta.annotations:
        return Plan(because="another program manages it", silent=True)
    if seen.pause is not None:
        return Plan(because=f"paused: {seen.pause.because}", silent=seen.pause.moved)
    if meta.deleting:
        return Plan(because="it is being deleted, and nothing stands behind it", silent=True)
    known = _valid(seen.cluster.spec.control_plane_endpoint)
    found = _valid(seen.plane.spec.control_plane_endpoint) if seen.plane is not None else None
    if known is not None or found is None:
        if known is not None:
            return Plan(because=f"it has the endpoint {known}")
        held = _held(seen)
        remedy = (
            f"see this: {held[1]}" if held is not None else "see the conditions of its NestedControlPlane"
        )
        endpoint = Awaited("an endpoint of its control plane", remedy)
        return Plan(because="its control plane has no endpoint yet", awaits=(endpoint,))
    return Plan((PublishEndpoint(found),), because=f"its control plane is reached at {found}")


def status_of(seen: Seen) -> NestedClusterStatus:
    """The status, as it is to be written."""
    before, held = seen.cluster.status, _held(seen)
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    said = true_condition(READY) if held is None else false_condition(READY, held[0], INFO, held[1])
    return structs.replace(
        before,
        ready=held is None,
        conditions=with_conditions(without_pause(before.conditions), [said], seen.now),
        observed_generation=seen.cluster.metadata.generation,
    )


def _held(seen: Seen) -> tuple[Reason, str] | None:
    """Why machines cannot join yet; None: they can."""
    if seen.owner is None:
        return Reason.WAITING_FOR_OWNER, "no Cluster that is there owns it"
    plane = seen.plane
    if plane is None:
        told = f"Cluster {seen.owner.name} names no NestedControlPlane that is there"
        return Reason.WAITING_FOR_CONTROL_PLANE, told
    if not (plane.status.ready and plane.status.initialized):
        return Reason.WAITING_FOR_CONTROL_PLANE, f"NestedControlPlane {plane.name} is not ready"
    if _valid(plane.spec.control_plane_endpoint) is None:
        return (
            Reason.WAITING_FOR_ENDPOINT,
            f"NestedControlPlane {plane.name} has no endpoint yet",
        )
    return None


def _valid(endpoint: ApiEndpoint | None) -> ApiEndpoint | None:
    return endpoint if endpoint is not None and endpoint.valid else None
