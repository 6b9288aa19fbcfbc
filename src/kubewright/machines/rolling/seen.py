"""What the controller of rollouts sees, and the closed set of what a pass may do about it.

Called by    ``act`` makes ``Nodes`` and performs the steps; ``decide`` plans them.
"""

from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from kubewright.api.diff import Patch
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.machines.machineset.member import MachineMember
from kubewright.replicas.deployment.seen import Seen
from kubewright.wire.gvk import Key

RollingSeen = Seen[MachineDeployment, MachineSet, MachineMember]


@dataclass(frozen=True, slots=True)
class Nodes:
    """The names of nodes that exist, and of those that carry marks, in the whole cluster.

    ``foreign``    they have the name of a machine's node and stand on another VM
    ``tainted``    the scheduler prefers others to them
    ``annotated``  they have cluster-autoscaler's annotation, with any value, and not only for being kept free
    ``ours``       they have the one that says that we wrote it
    ``candidates`` may be updated in place; ``selected``: are to be, or are being, updated
    ``begun``      the agent on them may have begun: they are drained or ready, and have no result yet
    ``updated``    their update succeeded
    ``aimed``      the controller selected them for a template; ``aimed_elsewhere``: for one that is not the
                   current one
    """

    there: Container[str] = frozenset()
    foreign: AbstractSet[str] = frozenset()
    tainted: AbstractSet[str] = frozenset()
    annotated: AbstractSet[str] = frozenset()
    ours: AbstractSet[str] = frozenset()
    candidates: AbstractSet[str] = frozenset()
    selected: AbstractSet[str] = frozenset()
    begun: AbstractSet[str] = frozenset()
    updated: AbstractSet[str] = frozenset()
    aimed: AbstractSet[str] = frozenset()
    aimed_elsewhere: AbstractSet[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether the node of a machine's name exists and may be that of its VM."""
        return name in self.there and name not in self.foreign


@dataclass(frozen=True, slots=True)
class SeenWithNodes:
    """A deployment with all below it, and the nodes of the cluster; None: that has not answered yet."""

    deployment: RollingSeen
    nodes: Nodes | None


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


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Write this on a node: what all steps about it say, as one patch."""

    key: Key
    body: Patch


NodeStep = MarkNode | LabelNode
UpdateStep = LabelNode | Move | ClearMoved
Step = NodeStep | PatchNode | MarkSet | Move | ClearMoved
