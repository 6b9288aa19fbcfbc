"""The patches by which controllers write onto nodes.

Theory.      Kubelets, autoscalers and users write to the same nodes, so each function answers the smallest
             patch that does its work, and an empty patch when there is nothing to change. Labels and
             annotations merge by key. Conditions merge by type, which only a *strategic* merge
             patch does (``STRATEGIC_PATCH``). Taints cannot be merged by anything: a patch that
             changes them carries the resourceVersion that it was made from.
             What an API wants its nodes to carry for good (``Desired``) is kept by a three-way merge:
             what was desired at the last sync and no longer is gets removed, what is desired is set,
             and everything else is left to others. The API remembers what it applied last, usually
             in an annotation of the node.
Invariants.  Pure. Patching twice is a no-op: the second patch is ``{}``, except for ``cordon``, which reads
             no node. ``timeAdded`` of a taint never counts as a difference.
Called by    the contexts that own machines; sent with ``kube.Client.patch``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import structs

from kubewright.api.conditions import condition_of, dated, node_condition
from kubewright.api.core import Node, NodeCondition, NodeSpec, Taint
from kubewright.api.diff import Patch
from kubewright.api.meta import ObjectMeta

Edits = Mapping[str, str | None]
"""Labels or annotations to set; None removes one."""


class Markable(Protocol):
    """What a Node has in every type that an API reads it by."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> NodeSpec: ...


@dataclass(frozen=True, slots=True)
class Desired:
    """The labels, annotations and taints that an API wants on a node, beside those of others."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


def sync(node: Markable, desired: Desired, applied: Desired) -> Patch:
    """Bring a node in line with what is desired. Merge patch on the node.

    It carries the node's version when taints change, because a list can only be sent whole.

    Args:
        node: as it is.
        desired: what it should carry, beside the marks of others.
        applied: what was desired at the last sync; empty if there was none.
    """
    metadata = {
        "labels": _three_way(node.metadata.labels, applied.labels, desired.labels),
        "annotations": _three_way(node.metadata.annotations, applied.annotations, desired.annotations),
    }
    changed = {name: edits for name, edits in metadata.items() if edits}
    taints = _taint_patch(node, _merged_taints(node.spec.taints, applied.taints, desired.taints))
    return together({"metadata": changed} if changed else {}, taints)


def cordon() -> Patch:
    """Let the scheduler bind no new pods to it. Merge patch on the node."""
    return {"spec": {"unschedulable": True}}


def cordon_as_seen(node: Node) -> Patch:
    """The same for a node that will take pods again: a request that arrives late, when the drain is over,
    must not cordon it once more. Merge patch on the node in the version that was read."""
    return {"metadata": {"resourceVersion": node.metadata.resource_version}, **cordon()}


def annotate(node: Markable, edits: Edits) -> Patch:
    """Set and remove annotations. Merge patch on the node."""
    found = _differences(node.metadata.annotations, edits)
    return {"metadata": {"annotations": found}} if found else {}


def taint(node: Markable, mark: Taint) -> Patch:
    """Put a taint on, or give it another value. Merge patch on the node, with its version."""
    return _taint_patch(node, _merged_taints(node.spec.taints, (), (mark,)))


def untaint(node: Markable, key: str, effect: str) -> Patch:
    """Take a taint off. Merge patch on the node, with its version."""
    return _taint_patch(node, _merged_taints(node.spec.taints, (Taint(key=key, effect=effect),), ()))


def together(metadata: Patch, taints: Patch) -> Patch:
    """One patch of a patch of metadata and one of taints; the version that taints need counts for both."""
    if not metadata or not taints:
        return metadata or taints
    return {**taints, "metadata": {**taints["metadata"], **metadata["metadata"]}}


def condition(node: Node, wanted: NodeCondition, now: datetime) -> Patch:
    """Set a condition. *Strategic* merge patch on the node's ``status``.

    ``now`` is the date that is written; ``lastTransitionTime`` stays as long as status and reason do.
    """
    old = condition_of(node.status.conditions, wanted.type)
    if old and _statement(old) == _statement(wanted):
        return {}
    fresh = structs.replace(wanted, last_heartbeat_time=now, last_transition_time=now)
    entry = dated(fresh, old if old and old.reason == wanted.reason else None)
    return {"status": {"conditions": [node_condition(entry)]}}


def _differences(present: Mapping[str, str], edits: Edits) -> dict[str, str | None]:
    return {key: value for key, value in edits.items() if present.get(key) != value}


def _three_way(
    present: Mapping[str, str], applied: Mapping[str, str], desired: Mapping[str, str]
) -> dict[str, str | None]:
    dropped: dict[str, str | None] = {key: None for key in applied if key not in desired}
    return _differences(present, {**dropped, **desired})


def _merged_taints(
    present: Sequence[Taint], applied: Iterable[Taint], desired: Sequence[Taint]
) -> tuple[Taint, ...]:
    """The three-way merge for taints, which are told apart by key and effect; order is kept."""
    desired_by_key = {_key_and_effect(item): item for item in desired}
    dropped = {_key_and_effect(item) for item in applied} - desired_by_key.keys()
    kept = {_key_and_effect(item): item for item in present if _key_and_effect(item) not in dropped}
    for key, item in desired_by_key.items():
        since = kept[key].time_added if key in kept else item.time_added
        kept[key] = structs.replace(item, time_added=since)
    return tuple(kept.values())


def _taint_patch(node: Markable, taints: tuple[Taint, ...]) -> Patch:
    if taints == node.spec.taints:
        return {}
    version = {"resourceVersion": node.metadata.resource_version} if node.metadata.resource_version else {}
    return {"metadata": version, "spec": {"taints": [msgspec.to_builtins(item) for item in taints] or None}}


def _key_and_effect(item: Taint) -> tuple[str, str]:
    return item.key, item.effect


def _statement(item: NodeCondition) -> tuple[str, str, str]:
    return item.status, item.reason, item.message
