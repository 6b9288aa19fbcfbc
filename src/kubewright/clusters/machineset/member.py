"""A Machine as sets and deployments see it, and which of several is deleted first. Pure.

Theory.      A machine is ready while its condition NodeHealthy is True: its own controller looks at its
             Node, so no set ever reads one. What only changes times changes no fact, and wakes nothing.
Invariants.  The order of deletion: what is going anyway, what users or the autoscaler have marked, what
             is not healthy, and then by the set's policy; ties by name.
Source       capi.md §7.5 with HEAD's ranks, §7.6, §7.7, appendix A (no Nodes are read).
Called by    ``replicas.members.MemberIndex``, which reads each version of a Machine once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.names import DeletePolicy
from kubewright.api.cluster.v1beta1 import Condition, Machine, MachineSet, MachineSpec
from kubewright.api.conditions import condition_of
from kubewright.api.meta import integer
from kubewright.base.clock import stamp
from kubewright.kube.header import Header
from kubewright.replicas.member import Member, verified_number
from kubewright.rollout.model import Rank

DELETING, MARKED, UNHEALTHY, ANY = 100.0, 80.0, 50.0, 20.0
"""Priorities of deletion; the highest goes first."""
TEN_DAYS = 864_000.0
"""The age at which most of an age's weight is reached, in seconds."""

Timeouts = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class MachineMember(Member):
    """One Machine, as far as replicas are concerned.

    ``marked``     it is to be deleted first
    ``healthy``    it has a Node, no failure, and its Node is not known to be unhealthy
    ``remediate``  its health check wants its owner to replace it
    ``summary``    its condition Ready, without times
    """

    marked: bool = False
    healthy: bool = False
    remediate: bool = False
    summary: Condition | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = (None, None, None)


def read(header: Header, machine: Machine | None) -> MachineMember:
    """The facts of one Machine in a cache; None: one that the type cannot read, which counts."""
    facts = (header.key, header.uid, header.owner_uid, header.labels, header.deleting)
    if machine is None:
        return MachineMember(*facts)
    meta, status = machine.metadata, machine.status
    node = condition_of(status.conditions, ConditionType.NODE_HEALTHY)
    failed = bool(status.failure_reason or status.failure_message)
    remediated = condition_of(status.conditions, ConditionType.OWNER_REMEDIATED)
    ready = condition_of(status.conditions, ConditionType.READY)
    return MachineMember(
        *facts,
        created=stamp(meta.creation_timestamp) or 0.0,
        ready_since=_ready_since(machine, node),
        number=verified_number(
            header.owner_uid, meta.name, integer(meta.annotations, names.NUMBER_ANNOTATION)
        ),
        version=meta.resource_version,
        marked=names.marked_for_deletion(meta.annotations),
        healthy=status.node_ref is not None and not failed and (node is None or node.status == "True"),
        remediate=remediated is not None and remediated.status == "False",
        summary=structs.replace(ready, last_transition_time=None) if ready is not None else None,
        annotations=meta.annotations,
        timeouts=timeouts(machine.spec),
    )


def same_but_for_summary(before: MachineMember, after: MachineMember) -> bool:
    """Whether a Machine has changed in no more than its condition Ready, which no deployment reads."""
    return before == replace(after, summary=before.summary)


def timeouts(spec: MachineSpec) -> Timeouts:
    """The three timeouts that change without a rollout."""
    return spec.node_drain_timeout, spec.node_volume_detach_timeout, spec.node_deletion_timeout


def _ready_since(machine: Machine, node: Condition | None) -> float | None:
    if machine.status.node_ref is None or node is None or node.status != "True":
        return None
    return stamp(node.last_transition_time or machine.metadata.creation_timestamp) or 0.0


def priority(member: MachineMember, policy: str, now: float) -> float:
    """From 0 (stays) to 100 (goes anyway)."""
    if member.deleting:
        return DELETING
    if member.marked:
        return MARKED
    if not member.healthy:
        return UNHEALTHY
    if policy not in (DeletePolicy.OLDEST, DeletePolicy.NEWEST):
        return ANY
    age = now - member.created
    if member.created <= 0 or age <= 0:
        return 0.0
    oldness = UNHEALTHY * (1 - math.exp(-age / TEN_DAYS))
    return oldness if policy == DeletePolicy.OLDEST else UNHEALTHY - oldness


def ranking(
    machine_set: MachineSet, wall: float, _living: Sequence[MachineMember] = ()
) -> Callable[[MachineMember], Rank]:
    """The smallest rank is deleted first."""
    policy = machine_set.spec.delete_policy
    return lambda member: (-priority(member, policy, wall), member.name)
