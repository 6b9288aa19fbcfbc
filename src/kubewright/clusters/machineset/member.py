"""A Machine as sets and deployments see it, and which of several is deleted first. Pure.

Theory.      A machine is ready while its condition NodeHealthy is True: its own controller looks at its
             Node, so no set ever reads one. What only changes times changes no fact, and wakes nothing.
Invariants.  The order of deletion: what is going anyway, what users or the autoscaler have marked, what
             is not healthy, and then by the set's policy; ties by name.
Called by    ``replicas.members.MemberIndex``, which reads each version of a Machine once.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.names import DeletePolicy
from kubewright.api.cluster.v1beta1 import Condition, Machine, MachineSet, MachineSpec
from kubewright.api.cluster.validate import NODE_DELETION_TIMEOUT
from kubewright.api.conditions import condition_of
from kubewright.api.meta import integer
from kubewright.base.clock import stamp
from kubewright.kube.header import Header
from kubewright.replicas.objects import Member, verified_number
from kubewright.replicas.set.seen import Seen
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


MachineSetSeen = Seen[MachineSet, MachineMember]
Texts = Mapping[str, str]

TIMEOUT_NAMES = ("nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout")
NOT_SHARED = frozenset((names.PROPAGATED_ANNOTATION, names.NUMBER_ANNOTATION, names.LAST_APPLIED_ANNOTATION))
"""Annotations that belong to one object alone."""


def wanted_labels(machine_set: MachineSet) -> dict[str, str]:
    """The labels of a set's machines and of their clones."""
    meta = machine_set.metadata
    labels = {
        **machine_set.spec.template.metadata.labels,
        names.CLUSTER_NAME_LABEL: machine_set.spec.cluster_name,
        names.SET_NAME_LABEL: names.label_value(meta.name),
    }
    inherited = (names.DEPLOYMENT_NAME_LABEL, names.WATCH_FILTER_LABEL)
    return {**labels, **{key: meta.labels[key] for key in inherited if meta.labels.get(key)}}


def wanted_annotations(machine_set: MachineSet) -> dict[str, str]:
    """The annotations that the template gives to machines and clones."""
    found = machine_set.spec.template.metadata.annotations
    return {key: text for key, text in found.items() if key not in NOT_SHARED}


def wanted_timeouts(machine_set: MachineSet) -> Timeouts:
    """The timeouts of a set's machines, the deletion of a Node with its default."""
    drain, detach, deletion = timeouts(machine_set.spec.template.spec)
    return drain, detach, deletion or NODE_DELETION_TIMEOUT


def marker(machine_set: MachineSet) -> str:
    """The annotation that names the keys which the set puts onto a machine."""
    keys = {
        "labels": sorted(wanted_labels(machine_set)),
        "annotations": sorted(wanted_annotations(machine_set)),
    }
    return json.dumps(keys, separators=(",", ":"))


def stale(seen: MachineSetSeen) -> list[MachineMember]:
    """The machines that lack something, or have something that left the template."""
    wanted = (wanted_labels(seen.set), wanted_annotations(seen.set), wanted_timeouts(seen.set))
    return [member for member in seen.members if member.version and _is_stale(member, *wanted)]


def _is_stale(member: MachineMember, labels: Texts, annotations: Texts, timeouts: Timeouts) -> bool:
    if member.timeouts != timeouts:
        return True
    return member.alive and bool(
        _changes(member.labels, labels, _propagated_keys(member.annotations, "labels"))
        or _changes(member.annotations, annotations, _propagated_keys(member.annotations, "annotations"))
    )


def propagated_patch(machine_set: MachineSet, machine: Machine) -> dict[str, Any]:
    """What is to change on a machine, as a merge patch; empty for nothing."""
    metadata = metadata_of(machine_set, machine)
    before, after = timeouts(machine.spec), wanted_timeouts(machine_set)
    spec = {name: new for name, old, new in zip(TIMEOUT_NAMES, before, after, strict=True) if old != new}
    if metadata:
        noted = {names.PROPAGATED_ANNOTATION: marker(machine_set)}
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **noted}}
    parts = {"metadata": metadata, "spec": spec}
    return {key: value for key, value in parts.items() if value}


def metadata_of(machine_set: MachineSet, machine: Machine) -> dict[str, Any]:
    """What is to change on a machine's metadata, and on that of its clones; empty for nothing."""
    meta = machine.metadata
    if meta.deleting:
        return {}
    labels = _changes(meta.labels, wanted_labels(machine_set), _propagated_keys(meta.annotations, "labels"))
    annotations = _changes(
        meta.annotations, wanted_annotations(machine_set), _propagated_keys(meta.annotations, "annotations")
    )
    parts = {"labels": labels, "annotations": annotations}
    return {key: value for key, value in parts.items() if value}


def _changes(has: Texts, wanted: Texts, propagated: frozenset[str]) -> dict[str, str | None]:
    """What leads from ``has`` to ``wanted``, of the keys that are wanted or were ``propagated`` before."""
    gone: dict[str, str | None] = {
        key: None for key in sorted(propagated) if key in has and key not in wanted
    }
    return {**gone, **{key: text for key, text in wanted.items() if has.get(key) != text}}


def _propagated_keys(annotations: Texts, part: str) -> frozenset[str]:
    """The keys that the set has put there, by the annotation that says so; none if it cannot be read."""
    try:
        found = json.loads(annotations.get(names.PROPAGATED_ANNOTATION, "{}"))
        return frozenset(each for each in found[part] if isinstance(each, str))
    except (ValueError, TypeError, KeyError, RecursionError):
        return frozenset()
