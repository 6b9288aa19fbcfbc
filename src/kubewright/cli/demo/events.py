"""What happened between two views, in sentences a newcomer understands. Pure."""

from collections.abc import Mapping, Sequence

from kubewright.api.machine.names import Phase
from kubewright.cli.demo.view import Row, View

_GONE = "gone"
_ONE: Mapping[str, str] = {
    Phase.UNKNOWN: "its node is silent",
    Phase.FAILED: "its node stayed silent",
    Phase.TERMINATING: "its node is drained",
    _GONE: "its VM is deleted",
    Phase.PENDING: "its VM is being made",
    Phase.RUNNING: "its node is ready",
}
_SEVERAL: Mapping[str, str] = {
    Phase.UNKNOWN: "their nodes are silent",
    Phase.FAILED: "their nodes stayed silent",
    Phase.TERMINATING: "their nodes are drained",
    _GONE: "their VMs are deleted",
    Phase.PENDING: "their VMs are being made",
    Phase.RUNNING: "their nodes are ready",
}
_ORDER = (Phase.UNKNOWN, Phase.FAILED, Phase.TERMINATING, _GONE, Phase.PENDING, Phase.RUNNING)
"""Causes before what follows from them."""


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
    known = [state for state in _ORDER if state in moved]
    return [_sentence(state, moved[state]) for state in (*known, *sorted(set(moved) - set(known)))]


def _sentence(state: str, rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return f"{rows[0].name} is {state}" + _because(_ONE, state)
    classes = {row.machine_class for row in rows}
    sort = f"{classes.pop()} " if len(classes) == 1 else ""
    return f"{len(rows)} {sort}machines are {state}" + _because(_SEVERAL, state)


def _because(reasons: Mapping[str, str], state: str) -> str:
    return f": {reasons[state]}" if state in reasons else ""
