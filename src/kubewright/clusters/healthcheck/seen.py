"""A health check, its cluster and the machines that it watches, as one frozen value; and the steps. Pure.

Called by    ``look``, which makes it; ``decide``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.cluster.v1beta1 import Cluster, Condition, Machine, MachineHealthCheck
from kubewright.api.meta import ObjectMeta
from kubewright.clusters.external.object import External


@dataclass(frozen=True, slots=True)
class NodeState:
    """A Node as a health check sees it: the status of each condition, and since when it has been so, in
    seconds since the epoch on the process' steady clock."""

    conditions: Mapping[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A machine that is watched.

    ``node``       its Node; None: it has none yet, there is none of that name, or it cannot be seen
    ``reachable``  the Nodes of the cluster can be seen
    ``since``      from when it could become a Node: the latest of its creation, the moment at which its
                   cluster could take it in, and the one at which the cluster could be reached again; in
                   seconds since the epoch
    ``request``    its external remediation request; None: the check has no template of them
    """

    machine: Machine
    node: NodeState | None = None
    reachable: bool = True
    since: float = 0.0
    request: External | None = None

    @property
    def name(self) -> str:
        return self.machine.metadata.name


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a pass looks at. ``now`` is on the clock of ages, ``wall`` the date.

    ``problem``: which rule the check breaks, as a clause; empty: none.
    """

    check: MachineHealthCheck
    cluster: Cluster | None
    now: float
    wall: datetime
    targets: tuple[Target, ...] = ()
    template: External | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class UpdateHealthCheck:
    """Write the labels and owners of the health check."""

    meta: ObjectMeta


@dataclass(frozen=True, slots=True)
class WriteConditions:
    """Write these conditions onto a machine, in the version that was read. ``unhealthy``: send an event."""

    machine: Machine
    conditions: tuple[Condition, ...]
    unhealthy: bool = False


@dataclass(frozen=True, slots=True)
class CreateRemediationRequest:
    """Create the external remediation request of a machine from the template."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class DeleteRemediationRequest:
    """Delete the external remediation request of a machine that is healthy again."""

    machine: Machine
    request: External


Step = UpdateHealthCheck | WriteConditions | CreateRemediationRequest | DeleteRemediationRequest
