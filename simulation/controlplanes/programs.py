"""What the host machine has of a workload: its programs, and the data of each ordinal.

Called by    ``machine``; read by ``host``, ``members`` and rules.
"""

import asyncio
from dataclasses import dataclass, field

from kubewright.base.errors import After, KubewrightError
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from simulation.controlplanes.etcd import Disk

Name = tuple[str, str]
"""Namespace, and name of the workload."""


class StillRemoved(KubewrightError):
    """A workload was applied while the one of the same name is being removed."""

    retry = After(1.0)


@dataclass(eq=False, slots=True)
class Program:
    """One instance.

    ``alive``  its process runs; ``up``: it has started, and serves if what it needs does
    ``ready``  what its readiness probe said last
    ``died``   set to kill it
    ``up_at``  when it was up last, by the clock of the loop
    """

    identity: WorkloadIdentity
    ordinal: int
    workload: Workload
    since: float
    alive: bool = True
    up: bool = False
    ready: bool = False
    ending: bool = False
    restarts: int = 0
    up_at: float = 0.0
    died: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


@dataclass(eq=False, slots=True)
class HostedWorkload:
    """One workload: what was applied last, its instances by ordinal, and the data of ordinals.

    ``discarded``  ordinals beyond the number that is wanted: their data goes when they have ended
    """

    identity: WorkloadIdentity
    applied: Workload
    programs: dict[int, Program] = field(default_factory=dict)
    data: dict[int, Disk] = field(default_factory=dict)
    discarded: set[int] = field(default_factory=set)
    removing: bool = False
    keeps_data: bool = False

    @property
    def wanted(self) -> int:
        """How many instances there should be."""
        return 0 if self.removing else self.applied.replicas


def name_of(identity: WorkloadIdentity) -> Name:
    """The namespace and the name of the workload of this place."""
    return identity.namespace, identity.workload
