"""What the machine controllers are made of: put together once by ``compose``, handed around as one value."""

from dataclasses import dataclass

from kubewright.base.clock import Clock
from kubewright.driver.contract import Driver
from kubewright.kube.client import Client
from kubewright.kube.informers import Informers
from kubewright.machines.machine.settings import MachineSettings
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import NAMELESS, Lookup


@dataclass(frozen=True, slots=True)
class Parts:
    """``control`` has the machines; ``targets`` finds the cluster of their nodes, which may be the same.

    ``driver`` is fenced (``driver.fence``). ``recorder`` writes events next to the machines.
    """

    control: Client
    targets: Lookup
    control_caches: Informers
    driver: Driver
    recorder: Recorder
    clock: Clock
    settings: MachineSettings
    metrics: Metrics

    @property
    def target(self) -> Client:
        """A client of the one cluster that all machines of this API join."""
        return self.targets.get(NAMELESS).client
