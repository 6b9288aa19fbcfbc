"""The strings of an update in place, by which controllers, users and the agent on a node speak to each other.

Theory.      Three parties mark one node, and each mark has one writer: a deployment's controller or a user
             labels it as a candidate and as selected, the machine's controller answers with reasons of
             the node's condition ``InPlaceUpdate``, the agent on the node labels it with the result.
Invariants.  A reader never raises: what it cannot read counts as absent.
Source       mcm.md §2.1, §2.2, §2.5, §4.11. The other strings of this API stand in ``names``.
Called by    ``machines.machine.living`` and ``health``.
"""

from collections.abc import Mapping
from enum import StrEnum

CANDIDATE_LABEL = "node.machine.sapcloud.io/candidate-for-update"
"""On a Node: its machine is of an older template, and the node may be updated in place."""
SELECTED_LABEL = "node.machine.sapcloud.io/selected-for-update"
"""On a Node: it is to be updated now. Its presence counts, whatever the value."""
UPDATE_RESULT_LABEL = "node.machine.sapcloud.io/update-result"
"""On a Node: how its update in place ended, one of ``UpdateResult``; the agent on the node writes it. On a
Machine: it was updated and moved to another set, whose size may not count it yet."""
UPDATE_FAILED_REASON_ANNOTATION = "node.machine.sapcloud.io/update-failed-reason"
"""On a Node: why its update in place failed, in the words of the agent on the node."""
UPDATE_AIM_ANNOTATION = "kubewright.dev/update-aim"
"""On a Node: the hash of the template that the controller selected it for; none if a user selected it."""
SCALE_UP_DISABLED_BY_US = "in-place-update"
"""Our value of the label that keeps an old set from creating machines; a user or MCM writes another one."""


class UpdateReason(StrEnum):
    """How far a node is in its update in place: reasons of its condition ``InPlaceUpdate`` (mcm.md §4.11)."""

    CANDIDATE = "CandidateForUpdate"
    SELECTED = "SelectedForUpdate"
    DRAINED = "DrainSuccessful"
    READY = "ReadyForUpdate"
    SUCCESSFUL = "UpdateSuccessful"
    FAILED = "UpdateFailed"


UNFINISHED = (UpdateReason.DRAINED, UpdateReason.READY, UpdateReason.FAILED)
"""The node was emptied for an update that has not succeeded."""


class UpdateResult(StrEnum):
    """What the agent on a node says of an update in place: values of ``UPDATE_RESULT_LABEL``."""

    SUCCESSFUL = "successful"
    FAILED = "failed"


def update_result(labels: Mapping[str, str]) -> UpdateResult | None:
    """How the update of a node ended, by its labels; None while it has not, or the value is unknown."""
    try:
        return UpdateResult(labels.get(UPDATE_RESULT_LABEL, ""))
    except ValueError:
        return None
