"""Machines, nodes and VMs at one moment, counted; and what changed between two moments. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.cli.counts import ready, state

TERMINATING = Phase.TERMINATING.value
PENDING = Phase.PENDING.value
_GONE = "gone"
_REASONS: Mapping[str, tuple[str, str]] = {
    Phase.UNKNOWN: ("its node is silent", "their nodes are silent"),
    Phase.FAILED: ("its node stayed silent", "their nodes stayed silent"),
    Phase.TERMINATING: ("its node is drained", "their nodes are drained"),
    _GONE: ("its VM is deleted", "their VMs are deleted"),
    Phase.PENDING: ("its VM is being made", "their VMs are being made"),
    Phase.RUNNING: ("its node is ready", "their nodes are ready"),
}
"""Why one machine, or several, are in a state; causes before what follows from them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One machine as the table shows it."""

    name: str
    machine_class: str
    state: str
    node: str


@dataclass(frozen=True, slots=True)
class View:
    """All machines, how many nodes are ready, how many VMs the cloud has."""

    rows: tuple[Row, ...]
    ready_nodes: int
    nodes: int
    vms: int

    def count(self, state: str) -> int:
        return sum(1 for row in self.rows if row.state == state)

    def settled(self, count: int, machine_class: str = "") -> bool:
        """Exactly so many machines, all Running (of that class), each with its ready node and its VM."""
        fine = all(
            row.state == Phase.RUNNING and machine_class in ("", row.machine_class) for row in self.rows
        )
        return fine and len(self.rows) == self.ready_nodes == self.nodes == self.vms == count

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
        )
        for machine in sorted(machines, key=lambda machine: machine.metadata.name)
    )
    return View(rows, sum(map(ready, nodes)), len(nodes), vms)


def happened(before: View, after: View) -> list[str]:
    """One sentence for each state that machines came into, and one for those that are gone."""
    was = {row.name: row for row in before.rows}
    now = {row.name: row for row in after.rows}
    moved: dict[str, list[Row]] = {}
    for row in after.rows:
        if row.name not in was or was[row.name].state != row.state:
            moved.setdefault(row.state, []).append(row)
    if gone := [row for row in before.rows if row.name not in now]:
        moved[_GONE] = gone
    known = [state for state in _REASONS if state in moved]
    return [_sentence(state, moved[state]) for state in (*known, *sorted(set(moved) - set(known)))]


def _sentence(state: str, rows: Sequence[Row]) -> str:
    one, several = (f": {reason}" for reason in _REASONS[state]) if state in _REASONS else ("", "")
    if len(rows) == 1:
        return f"{rows[0].name} is {state}{one}"
    classes = {row.machine_class for row in rows}
    sort = f"{classes.pop()} " if len(classes) == 1 else ""
    return f"{len(rows)} {sort}machines are {state}{several}"
