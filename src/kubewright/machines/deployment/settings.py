"""What an operator may set for all MachineDeployments."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """Times are in seconds."""

    concurrency: int = 32
    """Requests of one pass in flight."""

    status_seconds: float = 0.5
    """Least time between two status writes of one deployment; the last state is always written."""

    gather_seconds: float = 0.05
    """How long a machine's change waits for others before its deployment looks: each look may resize sets,
    and each resize is a write."""

    workers: int = 10
