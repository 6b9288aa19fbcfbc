"""What the machine controllers are made of: put together once by ``compose``, handed around as one value."""

from dataclasses import dataclass

from kubewright.base.clock import Clock
from kubewright.driver.contract import Driver
from kubewright.kube.client import Client
from kubewright.kube.informers import Informers
from kubewright.machines.machine.settings import MachineSettings
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Parts:
    """``control`` has the machines, ``target`` their nodes; they may be the same server.

    ``driver`` is fenced (``driver.calls``). ``recorder`` writes events next to the machines.
    """

    control: Client
    target: Client
    control_caches: Informers
    target_caches: Informers
    driver: Driver
    recorder: Recorder
    clock: Clock
    settings: MachineSettings
    metrics: Metrics
