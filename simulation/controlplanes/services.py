"""The Services of a simulated cluster, which give workloads their addresses.

Theory.      Where they are needed, a workload with clients has its own before it starts, as a host in pods
             makes it (``Reserves``). The load balancer of an API server gets an address some seconds later;
             until then no certificate can name it.
Invariants.  A Service belongs to one workload. It goes when that is removed, also if it was never applied.
Called by    ``machine`` has one; ``host`` asks it, ``pods`` has its stories and rules.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from simulation.controlplanes.programs import Name, name_of

BALANCED_SECONDS = 4.0
"""Until a load balancer has an address."""


@dataclass(slots=True)
class Services:
    """All Services, with the time at which each was made. ``needed``: whether this cluster has any."""

    now: Callable[[], float]
    needed: bool = False
    made: dict[Name, float] = field(default_factory=dict)

    def lacks(self, identity: WorkloadIdentity) -> bool:
        """Whether the Service of a workload has to be made first. A controller manager has no clients."""
        has_clients = identity.component is not Component.CONTROLLER_MANAGER
        return self.needed and has_clients and name_of(identity) not in self.made

    def make(self, identity: WorkloadIdentity) -> bool:
        """Make it; False: it is there."""
        if not self.lacks(identity):
            return False
        self.made[name_of(identity)] = self.now()
        return True

    def waits(self, identity: WorkloadIdentity) -> str:
        """Why the address of an API server is not known yet, a clause; empty: it is."""
        if not self.needed or identity.component is not Component.API_SERVER:
            return ""
        since = self.made.get(name_of(identity))
        known = since is not None and self.now() >= since + BALANCED_SECONDS
        return "" if known else f"the load balancer of Service {identity.workload} has no address yet"

    def end(self, identity: WorkloadIdentity) -> bool:
        """Delete it; False: there is none."""
        return self.made.pop(name_of(identity), None) is not None
