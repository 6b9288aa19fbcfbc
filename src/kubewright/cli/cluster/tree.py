"""A cluster as a tree: what belongs to what, how each part is, and what it waits for. Pure.

Theory.      The tree has the shape that users of clusterctl know: infrastructure, control plane, workers;
             below these, deployments, sets and machines, by the owner references of the objects, and the
             components that a nested control plane names. Below an object stand those of its conditions that
             are not as they should be. Machines with the same phase and conditions are one line.
Invariants.  A field that an object lacks is empty. Every object that was read is somewhere in the tree.
Called by    ``command``, which prints it as ``lines`` or, with ``-o json``, as JSON.
"""

import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from msgspec import structs

from kubewright.api.cluster.conditions import ERROR, READY, TRUE, ConditionType
from kubewright.api.cluster.names import CONTROL_PLANE_LABEL
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.controlplane.names import PlaneCondition
from kubewright.api.meta import Json, Value
from kubewright.base.durations import human
from kubewright.cli.counts import part, ready_of_wanted
from kubewright.driver.answers import printable

JsonObject = Mapping[str, Json]
BAD_WHILE_TRUE = frozenset(
    {
        ConditionType.DELETING,
        PlaneCondition.ROLLING_OUT,
        PlaneCondition.SLEEPING,
        PlaneCondition.COMPONENT_CONFLICT,
    }
)
"""The conditions that say that something is not as it should be while they are True."""

NAMES_SHOWN = 3
"""Names of one line; of the rest only the number is shown."""


class TreeNode(Value, frozen=True, kw_only=True):
    """One part of a cluster.

    ``kind`` is empty for a heading, such as Workers. ``names``: of all objects that the line is about.
    ``waits_for``: a clause for each condition that is not as it should be.
    """

    kind: str = ""
    name: str = ""
    names: tuple[str, ...] = ()
    phase: str = ""
    ready: str = ""
    detail: str = ""
    waits_for: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    children: tuple["TreeNode", ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """The objects of a cluster, as plain JSON.

    ``infrastructure``, ``control_plane``  what the Cluster refers to, or why it cannot be shown
    ``others``      deployments, sets, machines and health checks that belong to it
    ``components``  the references of a nested control plane to its components, each with the object, or
                    why it cannot be shown
    """

    cluster: JsonObject
    infrastructure: JsonObject | str = ""
    control_plane: JsonObject | str = ""
    others: Sequence[JsonObject] = ()
    components: Sequence[tuple[JsonObject, JsonObject | str]] = ()


def some(names: Sequence[str]) -> str:
    """The first of these names; of the others their number."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def tree(read: ClusterObjects) -> TreeNode:
    """The tree of a cluster."""
    spec = part(read.cluster, "spec")
    others = _ByOwner(read.others)
    parts = [_referred(read.infrastructure, part(spec, "infrastructureRef"))]
    control_plane_machines = others.take(
        lambda each: _kind(each) == "Machine" and CONTROL_PLANE_LABEL in _labels(each)
    )
    if part(spec, "controlPlaneRef"):
        components = [_referred(found, ref) for ref, found in read.components]
        below = [*(each for each in components if each is not None), *control_plane_machines]
        parts.append(_referred(read.control_plane, part(spec, "controlPlaneRef"), below))
    elif control_plane_machines:
        parts.append(TreeNode(name="Control plane", children=tuple(grouped(control_plane_machines))))
    checks = others.take(lambda each: _kind(each) == "MachineHealthCheck")
    workers = [
        *others.take_trees("MachineDeployment"),
        *others.take_trees("MachineSet"),
        *others.take_trees("Machine"),
    ]
    if workers:
        parts.append(TreeNode(name="Workers", children=tuple(grouped(workers))))
    parts += checks
    return structs.replace(node(read.cluster), children=tuple(each for each in parts if each is not None))


def node(found: JsonObject, children: Iterable[TreeNode] = ()) -> TreeNode:
    """One object."""
    conditions = _conditions(found)
    name = _name(found)
    return TreeNode(
        kind=_kind(found),
        name=name,
        names=(name,),
        phase=_phase(found),
        ready=next((each.status for each in conditions if each.type == READY), ""),
        detail=ready_of_wanted(found),
        waits_for=tuple(waits_for(conditions)),
        conditions=conditions,
        children=tuple(children),
    )


def waits_for(conditions: Sequence[Condition]) -> Iterator[str]:
    """A clause for each condition that is not as it should be; Ready, which sums up the others, only where no
    other is."""
    wrong = [each for each in conditions if each.type != READY and not _good(each)]
    for each in wrong or [each for each in conditions if not _good(each)]:
        yield f"{each.type}: {each.message or each.reason or each.status}"


def _good(condition: Condition) -> bool:
    return (condition.status == TRUE) != (condition.type in BAD_WHILE_TRUE)


def grouped(nodes: Iterable[TreeNode]) -> Iterator[TreeNode]:
    """The same nodes; those without children that look the same become one, with all their names."""
    alike: dict[tuple[Json, ...], list[TreeNode]] = {}
    for each in nodes:
        alone = each.name if each.children else ""
        said = (alone, each.kind, each.phase, each.ready, each.detail, each.waits_for)
        alike.setdefault(said, []).append(each)
    for same in alike.values():
        yield structs.replace(same[0], names=tuple(each.name for each in same))


class _ByOwner:
    """Objects by their controlling owners. An object that a method took is in no later answer."""

    def __init__(self, objects: Iterable[JsonObject]) -> None:
        self._objects = {(_kind(each), _name(each)): each for each in objects}
        self._children: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for place, each in self._objects.items():
            owner = _controller(each)
            if owner in self._objects:
                self._children[owner].append(place)
        self._taken: set[tuple[str, str]] = set()

    def take(self, of: Callable[[JsonObject], bool]) -> list[TreeNode]:
        """The objects for which ``of`` is true, without children."""
        found = [place for place, each in sorted(self._objects.items()) if of(each)]
        self._taken.update(found)
        return [node(self._objects[place]) for place in found]

    def take_trees(self, kind: str) -> list[TreeNode]:
        """The objects of a kind that none of these objects controls, with all that they control."""
        owned = {place for places in self._children.values() for place in places}
        return [
            self._node(place)
            for place in sorted(self._objects)
            if place[0] == kind and place not in self._taken and place not in owned
        ]

    def _node(self, place: tuple[str, str]) -> TreeNode:
        self._taken.add(place)
        below = [self._node(each) for each in sorted(self._children[place]) if each not in self._taken]
        return node(self._objects[place], grouped(below))


def _referred(found: JsonObject | str, ref: JsonObject, children: Iterable[TreeNode] = ()) -> TreeNode | None:
    """The object of a provider; where it cannot be shown, why."""
    if not ref:
        return None
    if not isinstance(found, str):
        return node(found, grouped(children))
    name = _text(ref, "name")
    return TreeNode(
        kind=_text(ref, "kind"),
        name=name,
        names=(name,),
        waits_for=(found,),
        children=tuple(grouped(children)),
    )


def _phase(found: JsonObject) -> str:
    if part(found, "metadata").get("deletionTimestamp"):
        return "Deleting"
    return _text(part(found, "status"), "phase")


def _conditions(found: JsonObject) -> tuple[Condition, ...]:
    listed = part(found, "status").get("conditions")
    conditions: list[Condition] = []
    for each in listed if isinstance(listed, list) else ():
        try:
            conditions.append(msgspec.convert(each, Condition))
        except msgspec.ValidationError:
            continue
    return tuple(conditions)


def _controller(found: JsonObject) -> tuple[str, str]:
    owners = part(found, "metadata").get("ownerReferences")
    for each in owners if isinstance(owners, list) else ():
        if isinstance(each, Mapping) and each.get("controller"):
            return _text(each, "kind"), _text(each, "name")
    return "", ""


def _labels(found: JsonObject) -> JsonObject:
    return part(part(found, "metadata"), "labels")


def _kind(found: JsonObject) -> str:
    return _text(found, "kind")


def _name(found: JsonObject) -> str:
    return _text(part(found, "metadata"), "name")


def _text(found: JsonObject, key: str) -> str:
    inner = found.get(key)
    return inner if isinstance(inner, str) else ""


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
