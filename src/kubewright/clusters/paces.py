"""How soon a status of each kind is written, by what it says beside the one on the server. Pure.

Theory.      A cluster comes up in a dozen steps, and each object of it says at each step what it waits for;
             its owners repeat it. Most of it is over in a moment, and each write costs a request and a pass
             of every controller that watches the object. So a status that only says that something is still
             on its way is written when that has been so for ``WORDS_SECONDS``, and again no sooner than that.
             What others wait for is news, and is written at once: infrastructure that is ready, a Node,
             replicas that are ready, a failure, a deletion.
Invariants.  Whatever lasts is written. A new error is news.
Called by    the reconcilers of ``cluster`` and ``machine``; the policies of ``machineset`` and
             ``machinedeployment``. ``runtime.reports`` carries it out.
"""

from typing import Any

from kubewright.api.cluster.conditions import ERROR, READY, ConditionType
from kubewright.api.cluster.v1beta1 import ClusterStatus, MachineStatus
from kubewright.api.conditions import condition_of, is_condition_true
from kubewright.base.delays import WORDS_SECONDS
from kubewright.runtime.pace import STATUS_SECONDS, Pace


def machine_underway(before: MachineStatus, status: MachineStatus) -> bool:
    """Whether a machine is still coming up: nothing waits for its status until it has a Node."""
    with_node = before.node_ref is not None or status.node_ref is not None
    return not with_node and _failure(before) == _failure(status) and _lives_on(before, status)


def cluster_underway(before: ClusterStatus, status: ClusterStatus) -> bool:
    """Whether a cluster has no infrastructure yet. Once it has, machines wait for what its status says."""
    same = (_ready(before), _failure(before)) == (_ready(status), _failure(status))
    return not status.infrastructure_ready and same and _lives_on(before, status)


def replicas_underway(before: Any, status: Any) -> bool:
    """Whether machines are still coming up: none is gone, and as many are ready as before."""
    if before.observed_generation not in (0, status.observed_generation):
        return False
    was, now = (is_condition_true(each.conditions, READY) for each in (before, status))
    grows = (before.replicas or 0) <= (status.replicas or 0)
    same = was == now and _ready_replicas(before) == _ready_replicas(status)
    return grows and same and _lives_on(before, status)


def _failure(status: MachineStatus | ClusterStatus) -> tuple[str | None, str | None]:
    return status.failure_reason, status.failure_message


def _ready(status: ClusterStatus) -> tuple[bool, ...]:
    initialized = is_condition_true(status.conditions, ConditionType.CONTROL_PLANE_INITIALIZED)
    return bool(status.infrastructure_ready), bool(status.control_plane_ready), initialized


def _ready_replicas(status: Any) -> tuple[int, int]:
    return status.ready_replicas or 0, status.available_replicas or 0


def _lives_on(before: Any, status: Any) -> bool:
    """Whether a status tells neither of a new error nor of a deletion."""
    errors, known = (
        {each.type for each in found.conditions if each.severity == ERROR} for found in (status, before)
    )
    return errors <= known and condition_of(status.conditions, ConditionType.DELETING) is None


MACHINES = Pace(WORDS_SECONDS, only_waiting=machine_underway)
CLUSTERS = Pace(WORDS_SECONDS, only_waiting=cluster_underway)
SETS = Pace(WORDS_SECONDS, only_waiting=replicas_underway)
DEPLOYMENTS = Pace(WORDS_SECONDS, STATUS_SECONDS, replicas_underway)
"""A deployment counts machines itself, and repeats what its set says of itself a moment later."""
