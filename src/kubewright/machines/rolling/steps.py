"""What a pass over the nodes of a deployment that rolls out may do: the closed set of its steps.

Called by    ``decide`` and ``updating`` plan them; ``reconciler`` performs them.
"""

from dataclasses import dataclass
from enum import StrEnum

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MachineSet
from kubewright.machines.machineset.member import MachineMember


class UpdateMark(StrEnum):
    """What the labels of a node are changed to; the values are what the user reads of it, with a number."""

    CANDIDATE = "new candidates for an update in place"
    SELECTED = "nodes selected for their update in place"
    CANDIDATE_AGAIN = "nodes updated to a template that is wanted no longer, candidates again"
    RELEASED = "nodes released, since their machines are of the wanted template"


@dataclass(frozen=True, slots=True)
class MarkNode:
    """Put taint and annotation of a rollout on the node of a machine, or take them off; None leaves one as it
    is."""

    member: MachineMember
    taint: bool | None = None
    annotate: bool | None = None

    @property
    def node(self) -> str:
        return names.node_name(self.member.labels)


@dataclass(frozen=True, slots=True)
class LabelNode:
    """Change the labels of a machine's node; ``aim``: the hash of the template that it is selected for."""

    member: MachineMember
    mark: UpdateMark
    aim: str = ""

    @property
    def node(self) -> str:
        return names.node_name(self.member.labels)


@dataclass(frozen=True, slots=True)
class MarkSet:
    """Annotate a set whose nodes get the taint, or end that; MCM removes no taint without the annotation."""

    set: MachineSet
    tainted: bool


@dataclass(frozen=True, slots=True)
class Move:
    """Give a machine, whose node was updated, to the current set."""

    member: MachineMember
    source: MachineSet
    target: MachineSet


@dataclass(frozen=True, slots=True)
class ClearMoved:
    """Take the label off a machine that says that it has been moved: the size of its set counts it."""

    member: MachineMember


NodeStep = MarkNode | LabelNode
UpdateStep = LabelNode | Move | ClearMoved
Step = NodeStep | MarkSet | Move | ClearMoved
