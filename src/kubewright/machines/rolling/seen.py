"""What the controller of rollouts sees: a deployment with its machines, and which nodes carry which marks.

Called by    ``reconciler`` makes it; ``decide`` and ``updating`` decide by it.
"""

from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.machines.machineset.member import MachineMember
from kubewright.replicas.deployment.seen import Seen

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
