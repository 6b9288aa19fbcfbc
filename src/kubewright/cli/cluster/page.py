"""The tree of a cluster as text: a table whose first column is the tree. Pure.

Theory.      The same lines go to a pipe and to a terminal, where each also has a colour. The names of several
             objects that look the same, and what an object waits for, stand in lines below it, since they do
             not fit into a column. On a terminal that is still too narrow long names are shortened in their
             middle: their ends tell them apart.
Called by    ``command``.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.cluster.conditions import ERROR, TRUE
from kubewright.apiserver.registry.builtin.cells import human
from kubewright.cli.cluster.tree import TreeNode, some
from kubewright.driver.answers import printable

HEAD = ("NAME", "PHASE", "READY", "SINCE", "REPLICAS")
GAP = "  "
LEAST_NAME = 24
"""Columns of a name, or of a sentence, on the narrowest terminal."""

GOOD, WAITING, BAD, PLAIN = "green", "yellow", "red", ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its colour. A ``note`` has one cell, which goes on below itself with ``hang`` before it."""

    cells: tuple[str, ...]
    colour: str = PLAIN
    hang: str | None = None


def lines(root: TreeNode, now: datetime) -> Iterator[Line]:
    """All lines of a tree, head first."""
    yield Line(HEAD)
    yield from _lines(root, now, "", "")


def text(found: Sequence[Line], width: int | None = None) -> list[str]:
    """The lines with their cells in columns, as ``kubectl`` has them; ``width``: that of a terminal."""
    rows = [each.cells for each in found if each.hang is None]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    if width is not None:
        widths[0] = min(widths[0], max(LEAST_NAME, width - sum(widths[1:]) - len(GAP) * len(widths[1:])))
    return [
        printable(_row(each.cells, widths) if each.hang is None else _note(each.cells[0], each.hang, width))
        for each in found
    ]


def shortened(name: str, room: int) -> str:
    """A name in so many columns: what is too long loses its middle."""
    if len(name) <= room:
        return name
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[len(name) - end :]}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    columns = [shortened(*first).ljust(first[1]), *(cell.ljust(width) for cell, width in rest)]
    return GAP.join(columns).rstrip()


def _note(sentence: str, hang: str, width: int | None) -> str:
    if width is None:
        return sentence
    room = max(width, len(hang) + LEAST_NAME)
    return textwrap.fill(
        sentence, room, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
    )


def _lines(node: TreeNode, now: datetime, first: str, rest: str) -> Iterator[Line]:
    """``first`` is drawn before the node, ``rest`` before what is below it."""
    ready = next((each for each in node.conditions if each.type == "Ready"), None)
    at = ready.last_transition_time if ready is not None else None
    since = human(now - at) if at is not None else ""
    yield Line((first + _label(node), node.phase, node.ready, since, node.detail), _colour(node))
    before = rest + ("│ " if node.children else "  ") + "  "
    notes = [*([some(node.names)] if len(node.names) > 1 else []), *node.waits_for]
    yield from (Line((before + each,), _colour(node), hang=before + "  ") for each in notes)
    for number, child in enumerate(node.children, 1):
        last = number == len(node.children)
        yield from _lines(child, now, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _label(node: TreeNode) -> str:
    if not node.kind:
        return node.name
    return f"{node.kind} {node.name}" if len(node.names) == 1 else f"{len(node.names)} {node.kind}s"


def _colour(node: TreeNode) -> str:
    if not node.kind:
        return PLAIN
    if node.phase == "Failed" or any(each.severity == ERROR for each in node.conditions):
        return BAD
    good = node.ready == TRUE and not node.waits_for and node.phase != "Deleting"
    return GOOD if good else WAITING
