"""What we write onto nodes, as patches.

Theory.      Kubelets, autoscalers and people write to the same nodes, so each mark is the smallest
             patch that makes it, and an empty patch when it is there already. Labels and
             annotations merge by key. Conditions merge by type, which only a *strategic* merge
             patch does (``STRATEGIC_PATCH``). Taints cannot be merged by anything: a patch that
             changes them carries the resourceVersion that it was made from.
             A machine's node template is kept on its node by a three-way merge: what the template
             had and has no longer is removed, what it has is set, and everything else is left to
             others. What it had is remembered in an annotation (mcm.md §4.9).
Invariants.  Pure. A mark that is made twice gives ``{}`` the second time. ``timeAdded`` of a
             taint never counts as a difference.
Called by    ``machines`` and whoever marks nodes; sent with ``kube.Client.patch``.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from kubewright.api.core import Node, NodeCondition, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import NodeConditionType, Phase, TerminatingReason
from kubewright.api.machine.v1alpha1 import Machine, NodeTemplateSpec
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import rfc3339

Patch = dict[str, Any]
Edits = Mapping[str, str | None]
"""Labels or annotations to set; None removes one."""


_AUTOSCALER = (names.SCALE_DOWN_DISABLED_ANNOTATION, names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION)
"""Keep the autoscaler off a node; the second proves that the first is ours."""


def cordon() -> Patch:
    """No new pods. Merge patch on the node."""
    return {"spec": {"unschedulable": True}}


def uncordon() -> Patch:
    """New pods again. Merge patch on the node."""
    return {"spec": {"unschedulable": None}}


def label(node: Node, edits: Edits) -> Patch:
    """Set and remove labels. Merge patch on the node."""
    found = _differences(node.metadata.labels, edits)
    return {"metadata": {"labels": found}} if found else {}


def annotate(node: Node, edits: Edits) -> Patch:
    """Set and remove annotations. Merge patch on the node."""
    found = _differences(node.metadata.annotations, edits)
    return {"metadata": {"annotations": found}} if found else {}


def taint(node: Node, mark: Taint) -> Patch:
    """Put a taint on, or give it another value. Merge patch on the node, with its version."""
    return _taint_patch(node, _merged_taints(node.spec.taints, (), (mark,)))


def untaint(node: Node, key: str, effect: str) -> Patch:
    """Take a taint off. Merge patch on the node, with its version."""
    return _taint_patch(node, _merged_taints(node.spec.taints, (Taint(key=key, effect=effect),), ()))


def condition(node: Node, wanted: NodeCondition, now: datetime) -> Patch:
    """Set a condition. *Strategic* merge patch on the node's ``status``.

    ``lastTransitionTime`` stays as long as status and reason do.
    """
    old = next((item for item in node.status.conditions if item.type == wanted.type), None)
    if old and _face(old) == _face(wanted):
        return {}
    moved = old is None or (old.status, old.reason) != (wanted.status, wanted.reason)
    since = now if moved or old is None else old.last_transition_time or now
    entry = {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastHeartbeatTime": rfc3339(now),
        "lastTransitionTime": rfc3339(since),
    }
    return {"status": {"conditions": [entry]}}


def terminating(node: Node, reason: TerminatingReason, now: datetime) -> Patch:
    """Say that the node's machine is being deleted, and why. *Strategic* merge patch on ``status``.

    The first reason stands: why the deletion began does not change while it goes on.
    """
    kind = NodeConditionType.TERMINATING
    if any(item.type == kind and item.status == "True" for item in node.status.conditions):
        return {}
    wanted = NodeCondition(type=kind, status="True", reason=reason, message=reason.message)
    return condition(node, wanted, now)


def preserved(node: Node, now: datetime, phase: Phase) -> Patch:
    """The marks of a machine that is preserved (mcm.md §4.12). Merge patch on the node.

    The autoscaler leaves it alone; who said so himself keeps his word. New pods stay away while the
    machine is Failed, and may come again once it runs.
    """
    free = node.metadata.annotations.get(names.SCALE_DOWN_DISABLED_ANNOTATION) != "true"
    edits = dict.fromkeys(_AUTOSCALER, "true") if free else {}
    if phase is Phase.FAILED:
        taints = taint(node, Taint(key=names.PRESERVED_TAINT, effect="NoSchedule", time_added=now))
    else:
        taints = untaint(node, names.PRESERVED_TAINT, "NoSchedule") if phase is Phase.RUNNING else {}
    return _joined(annotate(node, edits), taints)


def unpreserved(node: Node, *, drop: bool) -> Patch:
    """None of those marks, where they are ours; with ``drop`` the annotation that asked for them goes too."""
    ours = names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION in node.metadata.annotations
    wanted = [*(_AUTOSCALER if ours else ()), *([names.PRESERVE_ANNOTATION] if drop else [])]
    return _joined(
        annotate(node, dict.fromkeys(wanted, None)), untaint(node, names.PRESERVED_TAINT, "NoSchedule")
    )


def sync_node(node: Node, machine: Machine) -> Patch:
    """Keep the machine's name and node template on its node. Merge patch on the node.

    It carries the node's version when taints change, because a list can only be sent whole.
    """
    template, base = machine.spec.node_template, _last_applied(node)
    own = {names.MACHINE_NAME_LABEL: machine.metadata.name}
    labels = _three_way(node.metadata.labels, base.metadata.labels, {**template.metadata.labels, **own})
    annotations = _three_way(
        node.metadata.annotations, base.metadata.annotations, template.metadata.annotations
    )
    annotations.pop(names.LAST_APPLIED_ANNOTATION, None)
    if _gist(base) != (gist := _gist(template)):
        annotations[names.LAST_APPLIED_ANNOTATION] = msgspec.json.encode(gist).decode()
    metadata = {name: edits for name, edits in (("labels", labels), ("annotations", annotations)) if edits}
    taints = _taint_patch(node, _merged_taints(node.spec.taints, base.spec.taints, template.spec.taints))
    if not taints:
        return {"metadata": metadata} if metadata else {}
    return {**taints, "metadata": {**taints["metadata"], **metadata}}


def _joined(metadata: Patch, taints: Patch) -> Patch:
    """One patch of the two; the version that taints need counts for both."""
    if not metadata or not taints:
        return metadata or taints
    return {**taints, "metadata": {**metadata["metadata"], **taints["metadata"]}}


def _differences(present: Mapping[str, str], edits: Edits) -> dict[str, str | None]:
    return {key: value for key, value in edits.items() if present.get(key) != value}


def _three_way(
    present: Mapping[str, str], base: Mapping[str, str], wanted: Mapping[str, str]
) -> dict[str, str | None]:
    dropped: dict[str, str | None] = {key: None for key in base if key not in wanted}
    return _differences(present, {**dropped, **wanted})


def _merged_taints(
    present: Sequence[Taint], base: Iterable[Taint], wanted: Sequence[Taint]
) -> tuple[Taint, ...]:
    """The three-way merge for taints, which are told apart by key and effect; order is kept."""
    wish = {_place(item): item for item in wanted}
    dropped = {_place(item) for item in base} - wish.keys()
    kept = {_place(item): item for item in present if _place(item) not in dropped}
    for place, item in wish.items():
        since = kept[place].time_added if place in kept else item.time_added
        kept[place] = structs.replace(item, time_added=since)
    return tuple(kept.values())


def _taint_patch(node: Node, taints: tuple[Taint, ...]) -> Patch:
    if taints == node.spec.taints:
        return {}
    version = {"resourceVersion": node.metadata.resource_version} if node.metadata.resource_version else {}
    return {"metadata": version, "spec": {"taints": [msgspec.to_builtins(item) for item in taints] or None}}


def _place(item: Taint) -> tuple[str, str]:
    return item.key, item.effect


def _face(item: NodeCondition) -> tuple[str, str, str]:
    return item.status, item.reason, item.message


def _last_applied(node: Node) -> NodeTemplateSpec:
    """The template of the last sync; an empty one when there is none, or somebody broke the text."""
    try:
        text = node.metadata.annotations[names.LAST_APPLIED_ANNOTATION]
        return msgspec.json.decode(text, type=NodeTemplateSpec)
    except (KeyError, msgspec.DecodeError):
        return NodeTemplateSpec()


def _gist(template: NodeTemplateSpec) -> NodeTemplateSpec:
    """What of a template the next sync must know: everything that it can put onto a node."""
    metadata = ObjectMeta(labels=template.metadata.labels, annotations=template.metadata.annotations)
    taints = tuple(structs.replace(item, time_added=None) for item in template.spec.taints)
    return NodeTemplateSpec(metadata=metadata, spec=structs.replace(template.spec, taints=taints))
