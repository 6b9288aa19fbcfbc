"""The Node of a Machine: whether it is healthy, and its labels, annotations and taints. Pure.

Theory.      A machine's Node is the one with its providerID. It gets annotations that point back to the
             machine, and those labels of the machine that belong on Nodes; the keys of these stand in an
             annotation, so that a label which goes from the machine goes from the Node. The taint with which
             a worker joins goes once the labels are there: before, pods could be scheduled that the labels
             would have kept away.
Invariants.  Labels of others are never touched. The patch of a Node that was patched so is empty.
             A definite complaint of a Node weighs more than what is not known; only where nothing at all is
             known is the Node's health Unknown.
Source       capi.md §5.4 (arithmetic of NodeHealthy), §5.5 (patch).
Called by    ``decide``, ``conditions``, ``deletion``.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    WARNING,
    ConditionType,
    Reason,
    false_condition,
    true_condition,
    unknown_condition,
)
from kubewright.api.cluster.v1beta1 import Condition, Machine
from kubewright.api.core import Taint
from kubewright.clusters.external import fields
from kubewright.clusters.machine.seen import Seen
from kubewright.clusters.sessions.node import ClusterNode
from kubewright.nodes import marks
from kubewright.nodes.marks import Desired

HEALTHY = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
"""The conditions of a Node that count, with the status that each should have."""

UNINITIALIZED = Taint(key=names.UNINITIALIZED_TAINT, effect="NoSchedule")
OUTDATED = Taint(key=names.OUTDATED_REVISION_TAINT, effect="PreferNoSchedule")

UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
"""On a Node whose kubelet has been silent: nothing ends its pods."""


def health(node: ClusterNode) -> Condition:
    """The condition NodeHealthy of a Node that is there."""
    found = {each.type: each.status for each in node.status.conditions}
    statuses = {condition_type: found.get(condition_type, "Unknown") for condition_type in HEALTHY}
    complaints = {each: status for each, status in statuses.items() if status != HEALTHY[each]}
    message = "".join(f"Node condition {each} is {status}. " for each, status in complaints.items())
    if any(status != "Unknown" for status in complaints.values()):
        return false_condition(ConditionType.NODE_HEALTHY, Reason.NODE_CONDITIONS_FAILED, WARNING, message)
    if len(complaints) == len(HEALTHY):
        return unknown_condition(ConditionType.NODE_HEALTHY, Reason.NODE_CONDITIONS_FAILED, message)
    return true_condition(ConditionType.NODE_HEALTHY)


def silent(node: ClusterNode) -> bool:
    """Nothing ends the pods of this Node, because its kubelet cannot be reached."""
    return any(taint.key == UNREACHABLE_TAINT for taint in node.spec.taints)


def belongs_on_nodes(label: str) -> bool:
    """Whether a label of a machine is to be on its Node too, by the domain of its key."""
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if domain == names.NODE_ROLE_LABEL_PREFIX:
        return True
    shared = (names.NODE_RESTRICTION_LABEL_DOMAIN, names.MANAGED_NODE_LABEL_DOMAIN)
    return domain in shared or any(domain.endswith(f".{each}") for each in shared)


def sync(seen: Seen, node: ClusterNode) -> dict[str, Any]:
    """The merge patch that a Node lacks of labels, annotations and taints; empty if it lacks none."""
    machine, annotations = seen.machine, node.metadata.annotations
    labels = {key: value for key, value in machine.metadata.labels.items() if belongs_on_nodes(key)}
    before = names.names_in(annotations.get(names.LABELS_FROM_MACHINE_ANNOTATION, ""))
    interruptible = seen.infrastructure.flag(fields.INTERRUPTIBLE)
    wanted = Desired(
        labels={**labels, names.INTERRUPTIBLE_LABEL: ""} if interruptible else labels,
        annotations={
            **_pointers(machine),
            names.LABELS_FROM_MACHINE_ANNOTATION: ",".join(sorted(labels)),
        },
        taints=(OUTDATED,) if seen.outdated else (),
    )
    applied = Desired(labels=dict.fromkeys(before, ""), taints=(UNINITIALIZED, OUTDATED))
    return marks.sync(node, wanted, applied)


def _pointers(machine: Machine) -> Mapping[str, str]:
    """The annotations that say to which machine a Node belongs; they are added and never removed."""
    owner = machine.metadata.controller
    pointers = {
        names.NODE_CLUSTER_NAME_ANNOTATION: machine.spec.cluster_name,
        names.NODE_CLUSTER_NAMESPACE_ANNOTATION: machine.metadata.namespace,
        names.NODE_MACHINE_ANNOTATION: machine.name,
    }
    if owner is not None:
        pointers[names.NODE_OWNER_KIND_ANNOTATION] = owner.kind
        pointers[names.NODE_OWNER_NAME_ANNOTATION] = owner.name
    return pointers
