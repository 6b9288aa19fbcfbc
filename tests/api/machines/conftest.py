"""What the machine suites share: worlds whose timeouts pass within seconds of virtual time."""

from collections.abc import Callable, Iterable
from datetime import timedelta

from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.compose.options import Options
from kubewright.machines.machine.settings import MachineSettings
from kubewright.testing.world import Sight


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def options(**machine: timedelta | int) -> Options:
    """Silent nodes are lost after six seconds and unhealthy machines after three; more as asked."""
    quick = {"health_timeout": seconds(3), "report_after": seconds(0.2), "confirm_absent": seconds(2)}
    settings = MachineSettings(**{**quick, **machine})  # type: ignore[arg-type]
    return Options(driver_options={"leaseSeconds": "4"}, machine=settings, grace=6.0)


def phases(machines: Iterable[Machine]) -> list[str]:
    return sorted(machine.status.current_status.phase for machine in machines)


def in_phase(phase: Phase, count: int = 1) -> Callable[[Sight], bool]:
    return lambda sight: phases(sight.machines).count(phase) >= count
