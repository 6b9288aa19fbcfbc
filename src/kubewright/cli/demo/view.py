"""Machines, nodes and VMs at one moment, counted; and what changed between two moments. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RUNNING = "Running"
LEAVING = ("Terminating", "Deleting")
"""The states of machines that go; each API has one of them."""
GONE = "gone"


@dataclass(frozen=True, slots=True)
class Words:
    """What a story calls things.

    ``prologue``  its first sentence
    ``sort``      what tells machines apart, as the head of a column
    ``states``    why one machine, or several, are in a state; causes before what follows from them
    ``cluster``   why the cluster is in a phase, where a story has one
    """

    prologue: str
    sort: str
    states: Mapping[str, tuple[str, str]]
    cluster: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One machine as the table shows it; ``sort`` is what tells it from others, such as its class."""

    name: str
    sort: str
    state: str
    node: str


@dataclass(frozen=True, slots=True)
class View:
    """All machines, how many nodes are ready, how many VMs there are; and the phase of a cluster."""

    rows: tuple[Row, ...]
    ready_nodes: int
    nodes: int
    vms: int
    cluster: str = ""

    def count(self, *states: str) -> int:
        return sum(1 for row in self.rows if row.state in states)

    def settled(self, count: int, sort: str = "") -> bool:
        """Exactly so many machines, all Running (of that sort), each with its ready node and its VM."""
        fine = all(row.state == RUNNING and sort in ("", row.sort) for row in self.rows)
        return fine and len(self.rows) == self.ready_nodes == self.nodes == self.vms == count

    @property
    def empty(self) -> bool:
        return not self.rows and not self.nodes and not self.vms and not self.cluster


EMPTY = View((), ready_nodes=0, nodes=0, vms=0)


def fitting(rows: Sequence[Row], room: int) -> Sequence[Row]:
    """The rows that a table of so many lines shows: if there is no room for all, those not Running first."""
    if len(rows) <= room:
        return rows
    chosen = sorted(rows, key=lambda row: (row.state == RUNNING, row.name))[:room]
    return sorted(chosen, key=lambda row: row.name)


def happened(words: Words, before: View, after: View) -> list[str]:
    """One sentence for each state that machines or the cluster came into, and one for what is gone."""
    was = {row.name: row for row in before.rows}
    now = {row.name: row for row in after.rows}
    moved: dict[str, list[Row]] = {}
    for row in after.rows:
        if row.name not in was or was[row.name].state != row.state:
            moved.setdefault(row.state, []).append(row)
    if gone := [row for row in before.rows if row.name not in now]:
        moved[GONE] = gone
    known = [state for state in words.states if state in moved]
    states = (*known, *sorted(set(moved) - set(known)))
    return [
        *_of_cluster(words, before, after),
        *(_of_machines(words, state, moved[state]) for state in states),
    ]


def _of_cluster(words: Words, before: View, after: View) -> list[str]:
    if before.cluster == after.cluster:
        return []
    phase = after.cluster or GONE
    reason = f": {words.cluster[phase]}" if phase in words.cluster else ""
    return [f"the cluster is {phase}{reason}"]


def _of_machines(words: Words, state: str, rows: Sequence[Row]) -> str:
    reasons = words.states.get(state, ())
    one, several = (f": {reason}" for reason in reasons) if reasons else ("", "")
    if len(rows) == 1:
        return f"{rows[0].name} is {state}{one}"
    sorts = {row.sort for row in rows}
    sort = f"{sorts.pop()} " if len(sorts) == 1 else ""
    return f"{len(rows)} {sort}machines are {state}{several}"
