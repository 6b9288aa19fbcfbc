"""How soon the status of a control plane is written, by what it says beside the one on the server. Pure.

Theory.      A control plane comes up in a dozen steps, and repeats what its components say of each. While it
             is not ready, a status that only says what is still waited for is written when that has lasted
             for ``WORDS_SECONDS``. What others wait for is news, and is written at once: that it is ready, or
             is initialized; that it sleeps, where its etcd is and which addresses its Services have, which
             its components read; an error; and each condition that exists only while it is True.
Invariants.  Whatever lasts is written.
Source       decision 0006 (report what lasts); ``clusters.paces`` says the same of Clusters.
Called by    ``act``; ``runtime.reports`` carries it out.
"""

from kubewright.api.cluster.conditions import ERROR
from kubewright.api.controlplane.reasons import PlaneCondition
from kubewright.api.controlplane.v1alpha4 import NestedControlPlaneStatus
from kubewright.base.delays import WORDS_SECONDS
from kubewright.runtime.pace import Pace

_WHILE_THEY_HOLD = {
    PlaneCondition.COMPONENT_CONFLICT,
    PlaneCondition.ROLLING_OUT,
    PlaneCondition.ROTATING_CERTIFICATES,
    PlaneCondition.SLEEPING,
    PlaneCondition.PAUSED,
    PlaneCondition.DELETING,
}


def underway(before: NestedControlPlaneStatus, status: NestedControlPlaneStatus) -> bool:
    """Whether a control plane is still not ready, and its status says nothing that others wait for."""
    if before.ready or status.ready or _read_by_others(before) != _read_by_others(status):
        return False
    errors, known = (
        {each.type for each in found.conditions if each.severity == ERROR} for found in (status, before)
    )
    return errors <= known


def _read_by_others(status: NestedControlPlaneStatus) -> tuple[object, ...]:
    holds = {each.type for each in status.conditions} & _WHILE_THEY_HOLD
    moments = status.asleep, status.wakes_at, status.sleeps_at
    return status.initialized, status.version, status.etcd, status.apiserver, moments, holds


CONTROL_PLANES = Pace(WORDS_SECONDS, only_waiting=underway)
