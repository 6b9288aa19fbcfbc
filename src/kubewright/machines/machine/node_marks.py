"""What the Machine API writes onto nodes: the template, and the marks of deletion and preservation.

Theory.      ``nodes.marks`` knows how a node is patched, this file which names and texts the patches carry.
             What the template put onto a node is remembered in an annotation of the node, in the form that
             MCM reads and writes (mcm.md §4.9).
Invariants.  Pure. The patch of a node that has been patched so is ``{}``.
Source       mcm.md §2.5, §4.9, §4.10, §4.12.
Called by    ``health``, ``deletion``, ``preservation``, ``orphans.cleanup``.
"""

from datetime import datetime

import msgspec
from msgspec import structs

from kubewright.api.conditions import is_condition_true
from kubewright.api.core import Node, NodeCondition, Taint
from kubewright.api.diff import Patch
from kubewright.api.machine import names
from kubewright.api.machine.names import NodeConditionType, Phase, TerminatingReason
from kubewright.api.machine.v1alpha1 import Machine, NodeTemplateSpec
from kubewright.api.meta import ObjectMeta, without_finalizer
from kubewright.machines.machine.steps import DeleteNode
from kubewright.nodes import marks
from kubewright.nodes.marks import Desired

_AUTOSCALER = (names.SCALE_DOWN_DISABLED_ANNOTATION, names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION)
"""Keep the autoscaler off a node; the second proves that the first is ours."""


def sync_node(node: Node, machine: Machine) -> Patch:
    """Keep the machine's name and node template on its node. Merge patch on the node."""
    template, applied = machine.spec.node_template, _last_applied(node)
    wanted = _desired(template)
    labels, annotations = (
        {**wanted.labels, names.MACHINE_NAME_LABEL: machine.metadata.name},
        wanted.annotations,
    )
    if _lasting(applied) != (lasting := _lasting(template)):
        annotations = {**annotations, names.LAST_APPLIED_ANNOTATION: msgspec.json.encode(lasting).decode()}
    return marks.sync(node, Desired(labels, annotations, wanted.taints), _desired(applied))


def terminating(node: Node, reason: TerminatingReason, now: datetime) -> Patch:
    """Say that the node's machine is being deleted, and why. *Strategic* merge patch on ``status``.

    The first reason stands: why the deletion began does not change while it goes on.
    """
    kind = NodeConditionType.TERMINATING
    if is_condition_true(node.status.conditions, kind):
        return {}
    wanted = NodeCondition(type=kind, status="True", reason=reason, message=reason.message)
    return marks.condition(node, wanted, now)


def preserved(node: Node, now: datetime, phase: Phase) -> Patch:
    """The marks of a machine that is preserved (mcm.md §4.12). Merge patch on the node.

    The autoscaler leaves it alone; the annotation of a user who said so stays the user's. New pods stay
    away while the machine is Failed, and may come again once it runs.
    """
    free = node.metadata.annotations.get(names.SCALE_DOWN_DISABLED_ANNOTATION) != "true"
    edits = dict.fromkeys(_AUTOSCALER, "true") if free else {}
    if phase is Phase.FAILED:
        taints = marks.taint(node, Taint(key=names.PRESERVED_TAINT, effect="NoSchedule", time_added=now))
    else:
        taints = marks.untaint(node, names.PRESERVED_TAINT, "NoSchedule") if phase is Phase.RUNNING else {}
    return marks.together(marks.annotate(node, edits), taints)


def unpreserved(node: Node, *, drop: bool) -> Patch:
    """Remove what ``preserved`` wrote; with ``drop`` also the annotation that asked for it. Merge patch."""
    ours = names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION in node.metadata.annotations
    wanted = [*(_AUTOSCALER if ours else ()), *([names.PRESERVE_ANNOTATION] if drop else [])]
    taints = marks.untaint(node, names.PRESERVED_TAINT, "NoSchedule")
    return marks.together(marks.annotate(node, dict.fromkeys(wanted, None)), taints)


def deletion(node: Node) -> DeleteNode:
    """The step that deletes this very node, and takes MCM's finalizer off first."""
    meta = node.metadata
    left = tuple(without_finalizer(meta.finalizers, names.NODE_FINALIZER))
    return DeleteNode(meta.name, meta.uid, left if left != meta.finalizers else None)


def _desired(template: NodeTemplateSpec) -> Desired:
    """What a template wants; the annotation that remembers it is the controller's alone."""
    own, meta = names.LAST_APPLIED_ANNOTATION, template.metadata
    annotations = {key: value for key, value in meta.annotations.items() if key != own}
    return Desired(meta.labels, annotations, template.spec.taints)


def _last_applied(node: Node) -> NodeTemplateSpec:
    """The template of the last sync; an empty one when there is none, or the text is broken."""
    try:
        text = node.metadata.annotations[names.LAST_APPLIED_ANNOTATION]
        return msgspec.json.decode(text, type=NodeTemplateSpec)
    except (KeyError, msgspec.DecodeError):
        return NodeTemplateSpec()


def _lasting(template: NodeTemplateSpec) -> NodeTemplateSpec:
    """What of a template the next sync must know: everything that it can put onto a node."""
    metadata = ObjectMeta(labels=template.metadata.labels, annotations=template.metadata.annotations)
    taints = tuple(structs.replace(item, time_added=None) for item in template.spec.taints)
    return NodeTemplateSpec(metadata=metadata, spec=structs.replace(template.spec, taints=taints))
