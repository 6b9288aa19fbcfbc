"""What the demo's world looks like at one moment, counted. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.cli.counts import ready, state

TERMINATING = Phase.TERMINATING.value
PENDING = Phase.PENDING.value


@dataclass(frozen=True, slots=True)
class Row:
    """One machine as the table shows it."""

    name: str
    machine_class: str
    state: str
    node: str
    provider_id: str


@dataclass(frozen=True, slots=True)
class View:
    """All machines, how many nodes are ready, how many VMs the cloud has."""

    rows: tuple[Row, ...]
    ready_nodes: int
    nodes: int
    vms: int

    def count(self, state: str) -> int:
        return sum(1 for row in self.rows if row.state == state)

    def classes(self) -> Mapping[str, int]:
        """Machines that are Running, by class."""
        return Counter(row.machine_class for row in self.rows if row.state == Phase.RUNNING)

    def settled(self, count: int, machine_class: str = "") -> bool:
        """Exactly so many machines, all Running (of that class), each with its ready node and its VM."""
        running = self.classes()[machine_class] if machine_class else self.count(Phase.RUNNING)
        return running == len(self.rows) == self.ready_nodes == self.nodes == self.vms == count

    @property
    def empty(self) -> bool:
        return not self.rows and not self.nodes and not self.vms


def view(machines: Sequence[Machine], nodes: Sequence[Node], vms: int) -> View:
    """Count what is there."""
    rows = tuple(
        Row(
            machine.metadata.name,
            machine.spec.machine_class.name,
            state(machine),
            names.node_name(machine.metadata.labels),
            machine.spec.provider_id,
        )
        for machine in sorted(machines, key=lambda machine: machine.metadata.name)
    )
    return View(rows, sum(map(ready, nodes)), len(nodes), vms)
