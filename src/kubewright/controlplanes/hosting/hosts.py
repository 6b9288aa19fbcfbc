"""Which host runs a component: by its version, and by where it runs already.

Theory.      A component of version ``embedded`` is a part of our own API server, which a program can run in
             its own process: ``kubewright up``, and ``run`` with the simulated cloud. All other versions are
             real programs: processes of this machine, or pods on a Kubernetes. ``compose`` decides which of
             the two a program has.
Invariants.  A workload that runs is found in whichever host has it, so it can always be ended.
Source       nested.md E, decision 5.
Called by    the controllers of components and of snapshots; ``compose`` makes the value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubewright.controlplanes.hosting.contract import Hosting, Running, WorkloadIdentity
from kubewright.wire.gvk import Key

EMBEDDED = "embedded"
"""The version, and the channel, that stand for our own API server."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of this program, and the folder of snapshots that belongs to them; None: it has no such one.

    ``embedded``   the host of components of version ``embedded``
    ``programs``   the host of all other versions
    ``snapshots``  the folder for files of snapshots
    """

    embedded: Hosting | None = None
    programs: Hosting | None = None
    snapshots: Path | None = None

    def of(self, version: str) -> Hosting | None:
        """The host for a version."""
        return self.embedded if version == EMBEDDED else self.programs

    def holding(self, identity: WorkloadIdentity) -> tuple[Hosting | None, Running]:
        """The host that has something of a workload, and what it has."""
        for host in self._all():
            running = host.status(identity)
            if running.exists:
                return host, running
        return None, Running()

    def listen(self, changed: Callable[[Key], None]) -> None:
        """As ``Hosting.listen``, for all of them."""
        for host in self._all():
            host.listen(changed)

    def _all(self) -> list[Hosting]:
        return [each for each in (self.embedded, self.programs) if each is not None]


def why_absent(version: str) -> str:
    """Why this program cannot run a version, a sentence: it has no host for it."""
    if version == EMBEDDED:
        return (
            "channel embedded is the API server inside of `kubewright up` and `run --driver sim`, and this "
            "program has none: name another channel, or a version"
        )
    return f"this program cannot run version {version}: it has only channel {EMBEDDED}"


def why_elsewhere(version: str) -> str:
    """Why a workload cannot get a version that another host runs, a sentence."""
    return (
        f"it cannot become version {version} while it runs by other means: its data would stay behind; "
        "delete the component, or name a version of the same kind"
    )
