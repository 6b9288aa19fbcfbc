"""How the labels of a node change when it is updated in place. Pure.

Theory.      Each change is one merge patch on the node. A node that was selected has been cordoned for its
             drain, so letting go of it uncordons it, too; one that was a candidate only may have been
             cordoned by a user, and stays as it is.
Source       mcm.md §2.1, §7.9. Differently from MCM a node gets no taint for critical components afterwards:
             only Gardener's own controllers would remove it.
Called by    ``reconciler``.
"""

from kubewright.api.core import Node
from kubewright.api.diff import Patch
from kubewright.api.machine import updates
from kubewright.machines.rolling.updating import UpdateMark

_OF_RESULT = (updates.SELECTED_LABEL, updates.UPDATE_RESULT_LABEL)
_OF_AGENT = (updates.UPDATE_FAILED_REASON_ANNOTATION, updates.UPDATE_AIM_ANNOTATION)


def update_labels(node: Node, mark: UpdateMark, aim: str) -> Patch:
    """The patch; empty where the node has what it should have."""
    labels, annotations = node.metadata.labels, node.metadata.annotations
    if mark is UpdateMark.CANDIDATE:
        return {"metadata": {"labels": {updates.CANDIDATE_LABEL: "true"}}}
    if mark is UpdateMark.SELECTED:
        notes = {updates.UPDATE_AIM_ANNOTATION: aim}
        return {"metadata": {"labels": {updates.SELECTED_LABEL: "true"}, "annotations": notes}}
    gone = _OF_RESULT if mark is UpdateMark.CANDIDATE_AGAIN else (updates.CANDIDATE_LABEL, *_OF_RESULT)
    metadata = {
        "labels": {key: None for key in gone if key in labels},
        "annotations": {key: None for key in _OF_AGENT if key in annotations},
    }
    patch: Patch = {"metadata": {part: edits for part, edits in metadata.items() if edits}}
    if updates.SELECTED_LABEL in labels and node.spec.unschedulable:
        patch["spec"] = {"unschedulable": False}
    return patch
