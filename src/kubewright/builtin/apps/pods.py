"""A Pod as ReplicaSets and Deployments see it, and which of several is deleted first.

Theory.      A Pod that has Succeeded or Failed stays as it is and is no replica: it is read as one
             without an owner. One that is being deleted is no replica either, and is still known: with
             ``Recreate`` the next ones wait for it.
Called by    ``replicas.members.MemberIndex``, which reads each version of a Pod once.
Source       kube-controller-manager: active Pods, and the order of their deletion.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubewright.api.apps import DELETION_COST
from kubewright.api.conditions import find_true_condition
from kubewright.api.core import Pod
from kubewright.api.meta import integer
from kubewright.base.clock import stamp
from kubewright.kube.header import Header
from kubewright.replicas.member import Member
from kubewright.rollout.model import Rank

FINISHED = ("Succeeded", "Failed")
STAGES: Mapping[str, int] = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class PodMember(Member):
    """One Pod. ``cost`` is what an annotation says that its deletion costs."""

    node: str = ""
    stage: int = 0
    cost: int = 0


def read(header: Header, pod: Pod | None) -> PodMember:
    """The facts of one Pod in a cache; None: one that the type cannot read, which counts."""
    if pod is None:
        return PodMember(header.key, header.uid, header.owner_uid, header.labels, header.deleting)
    meta, phase = pod.metadata, pod.status.phase
    return PodMember(
        header.key,
        header.uid,
        "" if phase in FINISHED else header.owner_uid,
        meta.labels,
        deleting=header.deleting or phase in FINISHED,
        created=stamp(meta.creation_timestamp) or 0.0,
        ready_since=_ready_since(pod),
        version=meta.resource_version,
        node=pod.spec.node_name,
        stage=STAGES.get(phase, 0),
        cost=integer(meta.annotations, DELETION_COST),
    )


def _ready_since(pod: Pod) -> float | None:
    if (found := find_true_condition(pod.status.conditions, "Ready")) is None:
        return None
    return stamp(found.last_transition_time or pod.metadata.creation_timestamp) or 0.0


def rank(pod: PodMember) -> Rank:
    """The smallest is deleted first: no node, not running, not ready, cheaper, ready for less time, newer."""
    ready = (0, 0.0) if pod.ready_since is None else (1, -pod.ready_since)
    return (1 if pod.node else 0, pod.stage, ready[0], pod.cost, ready[1], -pod.created, pod.name)
