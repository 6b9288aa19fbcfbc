"""The tree of a cluster as text: a table whose first column is the tree. Pure.

Theory.      The same lines go to a pipe and to a terminal, where each also has a colour. What an object waits
             for stands in a line below it, since a sentence does not fit into a column.
Called by    ``command``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.cluster.conditions import ERROR, TRUE
from kubewright.apiserver.registry.builtin.cells import human
from kubewright.cli.cluster.tree import TreeNode

HEAD = ("NAME", "PHASE", "READY", "SINCE", "REPLICAS")
NAMES_SHOWN = 3
"""Names of one line; of the rest only the number is shown."""

GOOD, WAITING, BAD, PLAIN = "green", "yellow", "red", ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its colour. A ``note`` has one cell, which may be as long as it likes."""

    cells: tuple[str, ...]
    colour: str = PLAIN
    note: bool = False


def lines(root: TreeNode, now: datetime) -> Iterator[Line]:
    """All lines of a tree, head first."""
    yield Line(HEAD)
    yield from _lines(root, now, "", "")


def text(found: Sequence[Line]) -> list[str]:
    """The lines with their cells in columns, as ``kubectl`` has them."""
    rows = [each.cells for each in found if not each.note]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return [each.cells[0] if each.note else _padded(each.cells, widths) for each in found]


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _lines(node: TreeNode, now: datetime, first: str, rest: str) -> Iterator[Line]:
    """``first`` is drawn before the node, ``rest`` before what is below it."""
    ready = next((each for each in node.conditions if each.type == "Ready"), None)
    at = ready.last_transition_time if ready is not None else None
    since = human(now - at) if at is not None else ""
    yield Line((first + _label(node), node.phase, node.ready, since, node.detail), _colour(node))
    bar = "│ " if node.children else "  "
    for each in node.waits_for:
        yield Line((f"{rest}{bar}  {each}",), _colour(node), note=True)
    for number, child in enumerate(node.children, 1):
        last = number == len(node.children)
        yield from _lines(child, now, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _label(node: TreeNode) -> str:
    if not node.kind:
        return node.name
    if len(node.names) == 1:
        return f"{node.kind} {node.name}"
    shown, more = ", ".join(node.names[:NAMES_SHOWN]), len(node.names) - NAMES_SHOWN
    return f"{len(node.names)} {node.kind}s {shown}" + (f" and {more} more" if more > 0 else "")


def _colour(node: TreeNode) -> str:
    if not node.kind:
        return PLAIN
    if node.phase == "Failed" or any(each.severity == ERROR for each in node.conditions):
        return BAD
    good = node.ready == TRUE and not node.waits_for and node.phase != "Deleting"
    return GOOD if good else WAITING
