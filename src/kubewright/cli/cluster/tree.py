"""A cluster as a tree: what belongs to what, how each part is, and what it waits for. Pure.

Theory.      The tree has the shape that users of clusterctl know: infrastructure, control plane, workers;
             below these, deployments, sets and machines, by the owner references of the objects, and the
             components that a nested control plane names. An object says how it is by its conditions; what is
             not as it should be is what a user wants to see.
             Machines that say the same are one line.
Invariants.  Whatever an object lacks is empty. Everything that was read is somewhere in the tree.
Called by    ``command``; ``page`` prints it, and its JSON is what ``-o json`` shows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs

from kubewright.api.cluster.conditions import READY, TRUE
from kubewright.api.cluster.names import CONTROL_PLANE_LABEL
from kubewright.api.cluster.reasons import ConditionType
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.controlplane.reasons import PlaneCondition
from kubewright.api.meta import Json, Value

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


class Node(Value, frozen=True, kw_only=True):
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
    children: tuple["Node", ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """The objects of a cluster, as plain JSON.

    ``infrastructure``, ``control_plane``  what the Cluster refers to, or why it cannot be shown
    ``others``   deployments, sets, machines and health checks that belong to it
    ``components``  what the control plane names as its parts: each reference, and what it refers to
    """

    cluster: JsonObject
    infrastructure: JsonObject | str = ""
    control_plane: JsonObject | str = ""
    others: Sequence[JsonObject] = ()
    components: Sequence[tuple[JsonObject, JsonObject | str]] = ()


def tree(read: Read) -> Node:
    """The tree of a cluster."""
    spec = _struct(read.cluster, "spec")
    family = _Family(read.others)
    parts = [_referred(read.infrastructure, _struct(spec, "infrastructureRef"))]
    masters = family.left(lambda each: _kind(each) == "Machine" and CONTROL_PLANE_LABEL in _labels(each))
    if _struct(spec, "controlPlaneRef"):
        components = [_referred(found, ref) for ref, found in read.components]
        below = [*(each for each in components if each is not None), *masters]
        parts.append(_referred(read.control_plane, _struct(spec, "controlPlaneRef"), below))
    elif masters:
        parts.append(Node(name="Control plane", children=tuple(grouped(masters))))
    checks = family.left(lambda each: _kind(each) == "MachineHealthCheck")
    workers = [*family.top("MachineDeployment"), *family.top("MachineSet"), *family.top("Machine")]
    if workers:
        parts.append(Node(name="Workers", children=tuple(grouped(workers))))
    parts += checks
    return structs.replace(node(read.cluster), children=tuple(each for each in parts if each is not None))


def node(found: JsonObject, children: Iterable[Node] = ()) -> Node:
    """One object."""
    conditions = _conditions(found)
    name = _name(found)
    return Node(
        kind=_kind(found),
        name=name,
        names=(name,),
        phase=_phase(found),
        ready=next((each.status for each in conditions if each.type == READY), ""),
        detail=_detail(found),
        waits_for=tuple(waits_for(conditions)),
        conditions=conditions,
        children=tuple(children),
    )


def waits_for(conditions: Sequence[Condition]) -> Iterator[str]:
    """What is not as it should be. Ready sums up the others, so it counts only where it is alone."""
    wrong = [each for each in conditions if each.type != READY and not _good(each)]
    for each in wrong or [each for each in conditions if not _good(each)]:
        yield f"{each.type}: {each.message or each.reason or each.status}"


def _good(condition: Condition) -> bool:
    return (condition.status == TRUE) != (condition.type in BAD_WHILE_TRUE)


def grouped(nodes: Iterable[Node]) -> Iterator[Node]:
    """The same nodes; those without children that say the same are one."""
    alike: dict[tuple[Json, ...], list[Node]] = {}
    for each in nodes:
        alone = each.name if each.children else ""
        said = (alone, each.kind, each.phase, each.ready, each.detail, each.waits_for)
        alike.setdefault(said, []).append(each)
    for same in alike.values():
        yield structs.replace(same[0], names=tuple(each.name for each in same))


class _Family:
    """Objects by who controls them; each is taken once."""

    def __init__(self, objects: Iterable[JsonObject]) -> None:
        self._objects = {(_kind(each), _name(each)): each for each in objects}
        self._children: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for place, each in self._objects.items():
            owner = _controller(each)
            if owner in self._objects:
                self._children[owner].append(place)
        self._taken: set[tuple[str, str]] = set()

    def left(self, of: Callable[[JsonObject], bool]) -> list[Node]:
        """The objects for which ``of`` is true, without children; they are taken."""
        found = [place for place, each in sorted(self._objects.items()) if of(each)]
        self._taken.update(found)
        return [node(self._objects[place]) for place in found]

    def top(self, kind: str) -> list[Node]:
        """The objects of a kind that nothing in the family controls, with all below them; they are taken."""
        owned = {place for places in self._children.values() for place in places}
        return [
            self._node(place)
            for place in sorted(self._objects)
            if place[0] == kind and place not in self._taken and place not in owned
        ]

    def _node(self, place: tuple[str, str]) -> Node:
        self._taken.add(place)
        below = [self._node(each) for each in sorted(self._children[place]) if each not in self._taken]
        return node(self._objects[place], grouped(below))


def _referred(found: JsonObject | str, ref: JsonObject, children: Iterable[Node] = ()) -> Node | None:
    """The object of a provider; where it cannot be shown, why."""
    if not ref:
        return None
    if not isinstance(found, str):
        return node(found, grouped(children))
    name = _text(ref, "name")
    return Node(
        kind=_text(ref, "kind"),
        name=name,
        names=(name,),
        waits_for=(found,),
        children=tuple(grouped(children)),
    )


def _detail(found: JsonObject) -> str:
    """How many machines, or instances, there are of those that there should be."""
    wanted, status = _struct(found, "spec").get("replicas"), _struct(found, "status")
    if not isinstance(wanted, int):
        return ""
    ready, there = status.get("readyReplicas") or 0, status.get("replicas") or 0
    return f"{ready} of {wanted} ready" + (f", {there} there" if there != wanted else "")


def _phase(found: JsonObject) -> str:
    if _struct(found, "metadata").get("deletionTimestamp"):
        return "Deleting"
    return _text(_struct(found, "status"), "phase")


def _conditions(found: JsonObject) -> tuple[Condition, ...]:
    listed = _struct(found, "status").get("conditions")
    conditions: list[Condition] = []
    for each in listed if isinstance(listed, list) else ():
        try:
            conditions.append(msgspec.convert(each, Condition))
        except msgspec.ValidationError:
            continue
    return tuple(conditions)


def _controller(found: JsonObject) -> tuple[str, str]:
    owners = _struct(found, "metadata").get("ownerReferences")
    for each in owners if isinstance(owners, list) else ():
        if isinstance(each, Mapping) and each.get("controller"):
            return _text(each, "kind"), _text(each, "name")
    return "", ""


def _labels(found: JsonObject) -> JsonObject:
    return _struct(_struct(found, "metadata"), "labels")


def _kind(found: JsonObject) -> str:
    return _text(found, "kind")


def _name(found: JsonObject) -> str:
    return _text(_struct(found, "metadata"), "name")


def _struct(found: JsonObject, key: str) -> JsonObject:
    inner = found.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _text(found: JsonObject, key: str) -> str:
    inner = found.get(key)
    return inner if isinstance(inner, str) else ""
