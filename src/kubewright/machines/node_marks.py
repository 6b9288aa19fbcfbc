"""What the Machine API writes onto nodes: template, capacity, marks of deletion, preservation, rollouts.

Theory.      ``nodes.marks`` knows how a node is patched, this file which names and texts the patches carry.
             What the template put onto a node is remembered in an annotation of the node, in the form that
             MCM reads and writes.
             A class names resources that its nodes shall offer beside those of their kubelets
             (``nodeTemplate.virtualCapacity``). They are kept in ``status.capacity`` by the same three-way
             merge: what was written last stands in an annotation, so that what the class no longer names can
             be told from what a kubelet or a device plugin has put there. The status is written before the
             annotation: after a crash between the two the same patch is planned again.
Invariants.  Pure. The patch of a node that has been patched so is ``{}``. Keys of the capacity that the class
             has never named stay. A class without ``nodeTemplate`` changes nothing, as in MCM.
Called by    ``machine``, ``orphans``, ``rolling``. The statements of MCM: docs/reference/mcm-parity.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from kubewright.api.conditions import condition_of, is_condition_true
from kubewright.api.core import Node, NodeCondition, Taint
from kubewright.api.diff import Patch
from kubewright.api.machine import excess, names
from kubewright.api.machine.names import (
    REASONED_CONDITIONS,
    EventReason,
    NodeConditionType,
    Phase,
    TerminatingReason,
)
from kubewright.api.machine.v1alpha1 import Machine, MachineClass, NodeTemplateSpec
from kubewright.api.meta import ObjectMeta, without_finalizer
from kubewright.kube.patches import onto
from kubewright.machines.machine.seen import DeleteNode
from kubewright.nodes import marks
from kubewright.nodes.health import conditions_differ
from kubewright.nodes.marks import Desired
from kubewright.wire import quantity

Capacity = Mapping[str, str | int]
"""Amounts by the names of resources."""

_KEEP_AUTOSCALER_OFF = (names.SCALE_DOWN_DISABLED_ANNOTATION, names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION)
"""Keep the autoscaler off a node; the second proves that the first is ours."""
_OURS = names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION
_LAST_APPLIED_ANNOTATIONS = (names.LAST_APPLIED_ANNOTATION, names.LAST_APPLIED_CAPACITY_ANNOTATION)


def sync_node(
    node: Node, machine: Machine, *, running: bool = False, capacity: Capacity | None = None
) -> Patch:
    """Keep the machine's name and node template on its node. Merge patch on the node.

    Args:
        node: as it is.
        machine: whose node it is.
        running: it is Running, or becomes it now: the taint that its kubelet registered with goes.
        capacity: its class's virtual capacity, which the node has or is about to have; None: not known.
    """
    template, applied = machine.spec.node_template, _last_applied(node)
    wanted, before = _desired(template), _desired(applied)
    edits: dict[str, str] = {}
    if _lasting(applied) != (lasting := _lasting(template)):
        edits[names.LAST_APPLIED_ANNOTATION] = msgspec.json.encode(lasting).decode()
    if capacity:
        edits[names.LAST_APPLIED_CAPACITY_ANNOTATION] = capacity_text(capacity)
    elif capacity is not None:
        before = replace(
            before, annotations={**before.annotations, names.LAST_APPLIED_CAPACITY_ANNOTATION: ""}
        )
    if running:
        lasting_taints = tuple(item for item in wanted.taints if item not in _unready(wanted.taints))
        wanted = replace(wanted, taints=lasting_taints)
        before = replace(before, taints=(*before.taints, *_unready(node.spec.taints)))
    labels = {**wanted.labels, names.MACHINE_NAME_LABEL: machine.metadata.name}
    if excess.effects_of(template):
        edits |= excess.claimed(node.metadata.annotations, excess.PROOF_ANNOTATION)
    elif gone := excess.let_go(node.metadata.annotations, excess.PROOF_ANNOTATION):
        before = replace(before, annotations={**before.annotations, **dict.fromkeys(gone, "")})
    return marks.sync(node, Desired(labels, {**wanted.annotations, **edits}, wanted.taints), before)


def terminating(node: Node, reason: TerminatingReason, now: datetime) -> Patch:
    """Say that the node's machine is being deleted, and why. *Strategic* merge patch on ``status``.

    The first reason stands: why the deletion began does not change while it goes on.
    """
    kind = NodeConditionType.TERMINATING
    if is_condition_true(node.status.conditions, kind):
        return {}
    wanted = NodeCondition(type=kind, status="True", reason=reason, message=reason.message)
    return marks.condition(node, wanted, now)


def drain_failed(node: Node, why: str, now: datetime) -> Patch:
    """Say why waiting does not end the drain of a node; or, with an empty ``why``, that it goes on after all.
    *Strategic* merge patch on ``status``."""
    kind = NodeConditionType.DRAIN_FAILED
    if not why and not is_condition_true(node.status.conditions, kind):
        return {}
    reason = EventReason.FAILED_DRAIN if why else EventReason.DRAINING
    wanted = NodeCondition(type=kind, status=str(bool(why)), reason=reason, message=why)
    return marks.condition(node, wanted, now)


def preserved(node: Node, now: datetime, phase: Phase) -> Patch:
    """The marks of a machine that is preserved. Merge patch on the node.

    The autoscaler leaves it alone; the annotation of a user who said so stays the user's. New pods stay
    away while the machine is Failed, and may come again once it runs.
    """
    annotations = node.metadata.annotations
    free = annotations.get(names.SCALE_DOWN_DISABLED_ANNOTATION) != "true"
    edits = dict.fromkeys(_KEEP_AUTOSCALER_OFF, "true") if free else excess.claimed(annotations, _OURS)
    if phase is Phase.FAILED:
        taints = marks.taint(node, Taint(key=names.PRESERVED_TAINT, effect="NoSchedule", time_added=now))
    else:
        taints = marks.untaint(node, names.PRESERVED_TAINT, "NoSchedule") if phase is Phase.RUNNING else {}
    return marks.together(marks.annotate(node, edits), taints)


def unpreserved(node: Node, *, drop: bool) -> Patch:
    """Remove what ``preserved`` wrote; with ``drop`` also the annotation that asked for it. Merge patch."""
    ours = names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION in node.metadata.annotations
    gone: tuple[str, ...] = _KEEP_AUTOSCALER_OFF if ours else ()
    if excess.PROOF_ANNOTATION in node.metadata.annotations:
        gone = excess.let_go(node.metadata.annotations, _OURS)
    wanted = [*gone, *([names.PRESERVE_ANNOTATION] if drop else [])]
    taints = marks.untaint(node, names.PRESERVED_TAINT, "NoSchedule")
    return _if_shared(node, marks.together(marks.annotate(node, dict.fromkeys(wanted, None)), taints))


def rolling(node: Node, *, taint: bool | None, annotated: bool | None) -> Patch:
    """The marks of a rollout, put on or taken off; None leaves them. Merge patch on the node.

    An annotation that keeps the autoscaler away goes only with the one that says that it is ours; if a user
    has given it another value since, or the node is kept free, it stays.
    """
    annotations, mark = node.metadata.annotations, names.PREFER_NO_SCHEDULE
    edits: dict[str, str | None] = {}
    if annotated:
        edits = {**excess.claimed(annotations, _OURS)}
    elif annotated is False:
        edits = dict.fromkeys(excess.let_go(annotations, _OURS), None)
    taints: Patch = {}
    if taint:
        taints = marks.taint(node, Taint(key=mark, value=names.TRUE, effect="PreferNoSchedule"))
    elif taint is False:
        taints = marks.untaint(node, mark, "PreferNoSchedule")
    return _if_shared(node, marks.together(marks.annotate(node, edits), taints))


def _if_shared(node: Node, patch: Patch) -> Patch:
    """A patch that ends one of two reasons for an annotation, for the version of the node that was seen: the
    other may end at the same time, and one of the two has to take the annotation off."""
    if not patch or excess.PROOF_ANNOTATION not in node.metadata.annotations:
        return patch
    return onto(patch, node.metadata)


def same(before: Node, after: Node) -> bool:
    """Whether no decision about a machine can tell apart two nodes whose labels are equal."""
    return before.metadata.annotations == after.metadata.annotations and _same_but_marks(before, after)


def _same_but_marks(before: Node, after: Node) -> bool:
    return (
        before.spec == after.spec  # a Node has no generation
        and before.status.capacity == after.status.capacity
        and not conditions_differ(before.status.conditions, after.status.conditions, REASONED_CONDITIONS)
    )


def patched_alone(before: Node, after: Node, patch: Mapping[str, Any]) -> bool:
    """Whether a node is what it was, and what this patch of its metadata says: no other client has written
    between the two what decides about its machine."""
    edits: Mapping[str, Any] = patch.get("metadata", {})
    old, new = before.metadata, after.metadata
    return (
        old.deleting == new.deleting
        and new.labels == _merged(old.labels, edits.get("labels", {}))
        and new.annotations == _merged(old.annotations, edits.get("annotations", {}))
        and _same_but_marks(before, after)
    )


def _merged(old: Mapping[str, str], edits: Mapping[str, str | None]) -> Mapping[str, str | None]:
    return {key: value for key, value in {**old, **edits}.items() if value is not None}


def decides_as(machine: Machine, before: Node, after: Node) -> bool:
    """Whether two versions of a node decide the same about its machine."""
    old, new = before.metadata, after.metadata
    if old.resource_version == new.resource_version:
        return old.uid == new.uid
    alike = (old.uid, old.deleting, old.labels) == (new.uid, new.deleting, new.labels)
    if not alike or same(before, after):
        return alike
    return rollout_alone(before, after) and not heeds_rollouts(machine, before, after)


def rollout_alone(before: Node, after: Node) -> bool:
    """Whether two nodes whose labels are equal differ in nothing but marks of a rollout."""
    return same(_unmarked(before), _unmarked(after))


def _unmarked(node: Node) -> Node:
    """The node without the marks of a rollout."""
    others = {key: text for key, text in node.metadata.annotations.items() if key not in _KEEP_AUTOSCALER_OFF}
    taints = tuple(each for each in node.spec.taints if each.key != names.PREFER_NO_SCHEDULE)
    metadata = structs.replace(node.metadata, annotations=others)
    return structs.replace(node, metadata=metadata, spec=structs.replace(node.spec, taints=taints))


def heeds_rollouts(machine: Machine, *nodes: Node) -> bool:
    """Whether the marks of a rollout on these nodes, or that they go, may matter to their machine: it is
    preserved or kept free, is asked to be, or its node template names the same keys."""
    template, current = machine.spec.node_template, machine.status.current_status
    if current.preserve_expiry_time is not None or names.PRESERVE_ANNOTATION in machine.metadata.annotations:
        return True
    keys = (*_KEEP_AUTOSCALER_OFF, names.PREFER_NO_SCHEDULE)
    if any(key in template.metadata.annotations for key in keys) or excess.effects_of(template):
        return True
    if any(taint.key in keys for taint in template.spec.taints):
        return True
    return any(_heeded(node, keys) for node in nodes)


def _heeded(node: Node, keys: Iterable[str]) -> bool:
    annotations, conditions = node.metadata.annotations, node.status.conditions
    applied = annotations.get(names.LAST_APPLIED_ANNOTATION, "")
    if names.PRESERVE_ANNOTATION in annotations or excess.PROOF_ANNOTATION in annotations:
        return True
    preserved = condition_of(conditions, NodeConditionType.PRESERVED) is not None
    return preserved or any(key in applied for key in keys)


def deletion(node: Node) -> DeleteNode:
    """The step that deletes this very node, and takes MCM's finalizer off first."""
    meta = node.metadata
    left = tuple(without_finalizer(meta.finalizers, names.NODE_FINALIZER))
    return DeleteNode(meta.name, meta.uid, left if left != meta.finalizers else None, meta.resource_version)


def _desired(template: NodeTemplateSpec) -> Desired:
    """What a template wants; the annotations that remember it are the controller's alone."""
    meta = template.metadata
    annotations = {
        key: value for key, value in meta.annotations.items() if key not in _LAST_APPLIED_ANNOTATIONS
    }
    return Desired(meta.labels, annotations, template.spec.taints)


def _unready(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Those of the taints that say that the machine is not ready."""
    return tuple(item for item in taints if item.key == names.INSTANCE_NOT_READY_TAINT)


def _last_applied(node: Node) -> NodeTemplateSpec:
    """The template of the last sync; an empty one when there is none, or the text is broken."""
    try:
        text = node.metadata.annotations[names.LAST_APPLIED_ANNOTATION]
        return msgspec.json.decode(text, type=NodeTemplateSpec)
    except (KeyError, msgspec.DecodeError, RecursionError):
        return NodeTemplateSpec()


def _lasting(template: NodeTemplateSpec) -> NodeTemplateSpec:
    """What of a template the next sync must know: everything that it can put onto a node."""
    metadata = ObjectMeta(labels=template.metadata.labels, annotations=template.metadata.annotations)
    taints = tuple(structs.replace(item, time_added=None) for item in template.spec.taints)
    return NodeTemplateSpec(metadata=metadata, spec=structs.replace(template.spec, taints=taints))


def capacity_of(found: MachineClass | None) -> Capacity | None:
    """What the nodes of a class shall offer in addition; None: it is not known, so nothing is changed."""
    template = found.node_template if found is not None else None
    return template.virtual_capacity if template is not None else None


def capacity_patch(node: Node, wanted: Capacity | None) -> Patch:
    """Bring ``status.capacity`` in line with the class. Merge patch on the node's ``status``."""
    if wanted is None:
        return {}
    present, before = node.status.capacity, _applied_capacity(node)
    edits: dict[str, str | None] = {key: None for key in before if key not in wanted and key in present}
    edits |= {key: str(value) for key, value in wanted.items() if not _same_amount(present.get(key), value)}
    return {"status": {"capacity": edits}} if edits else {}


def capacity_text(wanted: Capacity) -> str:
    """The text of the annotation that records what was applied."""
    return msgspec.json.encode({key: str(value) for key, value in wanted.items()}, order="sorted").decode()


def _applied_capacity(node: Node) -> Mapping[str, Any]:
    """What was written last; empty when nothing was, or the text is broken."""
    text = node.metadata.annotations.get(names.LAST_APPLIED_CAPACITY_ANNOTATION)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _same_amount(present: str | int | None, wanted: str | int) -> bool:
    """Whether two quantities are one amount (``1000m`` is ``1``); one that cannot be read is its text."""
    if present is None:
        return False
    try:
        return quantity.parse(present) == quantity.parse(wanted)
    except ValueError:
        return str(present) == str(wanted)
