"""By what an object of a control plane is paused, and the condition that says so. Pure.

Theory.      As in Cluster API, an object is paused by its own annotation, by that of its control plane, and
             by ``spec.paused`` of its Cluster. While it is paused its controller changes nothing: the
             programs go on as they are, and a deletion waits. The one thing that it writes is the condition
             Paused, so that a user sees why nothing happens.
Invariants.  The condition exists only while the object is paused. An object that clusterctl has moved to
             another management cluster, and deletes here, is not written at all.
Source       nested.md A5, A10 (``Paused``); capi.md 3.5; decision 0042.
Called by    the decisions and statuses of ``component``, ``plane``, ``nestedcluster``, ``templated``,
             ``users`` and ``snapshots``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import PAUSED, with_conditions
from kubewright.api.cluster.v1beta1 import Cluster, Condition
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.api.meta import ObjectMeta
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.controlplanes.family import Family


@dataclass(frozen=True, slots=True)
class Pause:
    """By what an object is paused, a clause. ``moved``: clusterctl deletes it here, so it is not written."""

    because: str
    moved: bool = False


def pause_of(
    meta: ObjectMeta, plane: NestedControlPlane | None = None, cluster: Cluster | None = None
) -> Pause | None:
    """By what an object is paused; None: it is not. ``plane``, ``cluster``: those that it belongs to."""
    above = plane.metadata.annotations if plane is not None else {}
    for annotations in (meta.annotations, above):
        if names.DELETE_FOR_MOVE_ANNOTATION in annotations:
            return Pause("clusterctl has moved it to another management cluster", moved=True)
    if names.paused(meta.annotations):
        return Pause(f"it has the annotation {names.PAUSED_ANNOTATION}")
    if plane is not None and names.paused(above):
        return Pause(f"NestedControlPlane {plane.name} has the annotation {names.PAUSED_ANNOTATION}")
    if cluster is not None and cluster.spec.paused:
        return Pause(f"Cluster {cluster.name} has spec.paused")
    return None


def pause_of_family(meta: ObjectMeta, family: Family | None) -> Pause | None:
    """By what an object of a control plane is paused. ``family``: None while there is no control plane."""
    return pause_of(meta) if family is None else pause_of(meta, family.plane, family.cluster)


def with_pause(conditions: Iterable[Condition], pause: Pause, now: datetime) -> tuple[Condition, ...]:
    """The conditions as they were, and Paused."""
    told = Condition(type=PAUSED, status="True", reason=PAUSED, message=pause.because[:MESSAGE_CHARS])
    return with_conditions(conditions, [told], now)


def without_pause(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions of an object that is not paused."""
    return tuple(each for each in conditions if each.type != PAUSED)
