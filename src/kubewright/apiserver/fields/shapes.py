"""Values under a schema: whose parts are managed one by one, and the paths in them. Pure.

Theory.      A schema says of each map and list whether its parts are managed one by one (granular) or whether
             it is managed as a whole (atomic). A list is granular if it is a set, or if its items have keys;
             built-in kinds that say nothing else follow their strategic-merge keys. What no schema declares
             is granular in its maps and atomic in its lists.
             An item of a list stands at the path of its keys, not of its index. Items with equal keys are one
             path, without parts.
             A difference compares values part by part as far as their parts are managed one by one, and as a
             whole below that. It is three sets of paths: a manager loses what another write sets or removes,
             and an apply conflicts with what it would set.
             Go leaves empty lists and maps out, and writes structs that are no pointers even if they are
             empty. So an empty list is no field that a manager could have, and the ``strategy`` of a new
             Deployment is not added: it was there. Built-in kinds are Go types, and so is all metadata;
             kube-apiserver compares them in that form (``rewritten``).
Invariants.  Arguments are not changed, results share parts with them. A null is there: a manager can own that
             a field is null.
Called by    ``ownership``.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import orjson

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import NONE, Path, Paths
from kubewright.apiserver.schema.node import MISSING, Node

_FREE: Final = Node()
"""The schema of what no schema declares."""


class Unkeyed(ValueError):
    """An item of a list has no keys, or those of another item; the message says where."""


class Shape(Enum):
    """How a value is managed: as a whole, by its fields, or by its items."""

    LEAF = 0
    MAP = 1
    LIST = 2


def shape(node: Node, value: Any) -> Shape:
    """How the value is managed. A null has the shape of the values that its schema declares."""
    if isinstance(value, dict):
        return Shape.MAP if node.type in ("", "object") and not node.atomic else Shape.LEAF
    if isinstance(value, list):
        return Shape.LIST if _granular(node) else Shape.LEAF
    if value is None and _granular(node):
        return Shape.LIST
    declared = node.type == "object" or node.fields or node.values is not None
    return Shape.MAP if value is None and declared and not node.atomic else Shape.LEAF


def _granular(node: Node) -> bool:
    return node.items is not None and _list_type(node) != "atomic"


def _list_type(node: Node) -> str:
    """``map``, ``set`` or ``atomic``."""
    if node.list_type or "merge" not in node.strategies:
        return node.list_type or "atomic"
    return "map" if node.merge_key else "set"


def field_of(node: Node, name: str) -> Node:
    """The schema of a field."""
    return node.fields.get(name) or node.values or _FREE


def items_of(node: Node) -> Node:
    """The schema of the items of a list."""
    return node.items or _FREE


def element_of(node: Node, item: Any) -> str:
    """The path element of an item of a granular list; an item without keys stands for itself."""
    found = _keys(node, item)
    return paths.keyed(found) if found else paths.valued(item)


def _keys(node: Node, item: Any) -> dict[str, Any]:
    """The keys of an item of a list that is a map; none for those of sets."""
    if _list_type(node) == "set" or not isinstance(item, dict):
        return {}
    fields = items_of(node).fields
    found = {}
    for name in node.list_keys or ((node.merge_key,) if node.merge_key else ()):
        if item.get(name) is not None:
            found[name] = item[name]
        elif name in fields and fields[name].has_default:
            found[name] = fields[name].default
    return found


def indexed(node: Node, values: Any) -> dict[str, list[Any]]:
    """The items of a list (none, if it is null or absent) by their path element, in order."""
    found: dict[str, list[Any]] = {}
    for item in values if isinstance(values, list) else ():
        found.setdefault(element_of(node, item), []).append(item)
    return found


def check(node: Node, value: Any, path: Path = ()) -> None:
    """Check that every item of every granular list has keys, and that no keys come twice.

    Raises:
        Unkeyed: with the path of the list.
    """
    if isinstance(value, dict) and shape(node, value) is Shape.MAP:
        for name, inner in value.items():
            check(field_of(node, name), inner, (*path, paths.field(name)))
    elif isinstance(value, list) and shape(node, value) is Shape.LIST:
        where = paths.shown(path)
        if _list_type(node) == "map" and any(not _keys(node, item) for item in value):
            raise Unkeyed(f"{where}: an item has none of the keys of this list")
        for element, items in indexed(node, value).items():
            if len(items) > 1:
                raise Unkeyed(f"{where}: duplicate entries for key {paths.shown((element,))}")
            check(items_of(node), items[0], (*path, element))


def field_set(node: Node, value: Any) -> Paths:
    """The paths in a value: its leaves, the items of granular lists, and fields that no schema declares."""
    return frozenset(_field_set(node, value, ()))


def _field_set(node: Node, value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict) and shape(node, value) is Shape.MAP:
        for name, inner in value.items():
            where = (*path, paths.field(name))
            yield from _field_set(field_of(node, name), inner, where)
            if inner is None or inner == {} or name not in node.fields:
                yield where
    elif isinstance(value, list) and shape(node, value) is Shape.LIST:
        for element, items in indexed(node, value).items():
            where = (*path, element)
            yield where
            if len(items) == 1:
                yield from _field_set(items_of(node), items[0], where)
    elif shape(node, value) is Shape.LEAF:
        yield path


def with_parents(node: Node, found: Paths) -> Paths:
    """The paths, and each declared field on the way to one of them."""
    more = set(found)
    for path in found:
        at: Node | None = node
        for depth, element in enumerate(path[:-1], 1):
            if at is None:
                break
            if element.startswith("f:"):
                name = element[2:]
                if name in at.fields:
                    more.add(path[:depth])
                at = field_of(at, name)
            else:
                at = at.items
    return frozenset(more)


ABSENT: Final = object()
"""No value: null would be one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The paths that are new in the second value, gone from it, or there in both with other values."""

    added: Paths = NONE
    removed: Paths = NONE
    modified: Paths = NONE

    @property
    def set(self) -> Paths:
        """The paths that the second value sets."""
        return self.added | self.modified

    def outside(self, roots: Sequence[Path]) -> "Difference":
        """The difference without what is at or below ``roots``."""
        return Difference(*(paths.outside(each, roots) for each in (self.added, self.removed, self.modified)))


@dataclass(slots=True)
class _Found:
    added: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)


def difference(node: Node, old: Any, new: Any) -> Difference:
    """What changes from ``old`` to ``new``."""
    found = _Found()
    _differ(node, old, new, (), found)
    top = {()}
    return Difference(
        frozenset(found.added - top), frozenset(found.removed - top), frozenset(found.modified - top)
    )


def _differ(node: Node, old: Any, new: Any, path: Path, found: _Found) -> None:
    if old is new:
        return
    before = None if old is ABSENT else shape(node, old)
    after = None if new is ABSENT else shape(node, new)
    if before and after and before is not after:
        _differ_wholly(node, old, new, path, found)
        return
    managed = after or before
    if managed is Shape.LEAF or (_empty(old) and _empty(new)):
        _differ_leaves(old, new, path, found)
        return
    if managed is Shape.MAP:
        _differ_maps(node, old, new, path, found)
    else:
        _differ_lists(node, old, new, path, found)
    if old is ABSENT:
        found.added.add(path)
    elif new is ABSENT:
        found.removed.add(path)


def _empty(value: Any) -> bool:
    return value is ABSENT or value is None or value in ({}, [])


def _differ_wholly(node: Node, old: Any, new: Any, path: Path, found: _Found) -> None:
    """The value changes its type: its parts before are gone, those after are new."""
    gone, come = _Found(), _Found()
    _differ(node, old, ABSENT, path, gone)
    _differ(node, ABSENT, new, path, come)
    found.removed |= gone.removed - {path}
    found.added |= come.added - {path}
    found.modified.add(path)


def _differ_leaves(old: Any, new: Any, path: Path, found: _Found) -> None:
    if old is ABSENT:
        found.added.add(path)
    elif new is ABSENT:
        found.removed.add(path)
    elif not _same(old, new):
        found.modified.add(path)


def _same(old: Any, new: Any) -> bool:
    """Equal as JSON: Python takes ``1`` and ``true`` for equal."""
    return old == new and _sorted(old) == _sorted(new)


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _differ_maps(node: Node, old: Any, new: Any, path: Path, found: _Found) -> None:
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    for name in before.keys() | after.keys():
        where = (*path, paths.field(name))
        _differ(field_of(node, name), before.get(name, ABSENT), after.get(name, ABSENT), where, found)


def _differ_lists(node: Node, old: Any, new: Any, path: Path, found: _Found) -> None:
    before, after = indexed(node, old), indexed(node, new)
    for element in before.keys() | after.keys():
        was, now = before.get(element, []), after.get(element, [])
        where = (*path, element)
        if len(was) <= 1 and len(now) <= 1:
            first, second = was[0] if was else ABSENT, now[0] if now else ABSENT
            _differ(items_of(node), first, second, where, found)
            continue
        if len(was) > 1 and len(now) > 1:
            if not _same(was, now):
                found.modified.add(where)
            continue
        # Items with equal keys are one path without parts; from or to a single item, its parts come or go.
        single = _Found()
        if len(was) > 1:
            _differ(items_of(node), ABSENT, now[0] if now else ABSENT, where, single)
            found.removed.add(where)
        else:
            _differ(items_of(node), was[0] if was else ABSENT, ABSENT, where, single)
            found.added.add(where)
        found.added |= single.added
        found.removed |= single.removed


Tree = dict[str, Any]


def merged(node: Node, live: Any, wanted: Any) -> Any:
    """``live`` with what ``wanted`` says in it; the order of a granular list follows ``wanted``."""
    both = shape(node, live)
    if not live or both is Shape.LEAF or shape(node, wanted) is not both:
        return wanted
    if both is Shape.MAP:
        result = dict(live)
        for name, value in (wanted or {}).items():
            result[name] = merged(field_of(node, name), live[name], value) if name in live else value
        return result
    return _merged_list(node, live, wanted or [])


def _merged_list(node: Node, live: list[Any], wanted: list[Any]) -> list[Any]:
    """The items of ``wanted`` in their order. Items that only ``live`` has stay before the first item of
    both that followed them; new items come after those that stand before the next item of both."""
    here = [element_of(node, item) for item in live]
    there = {element_of(node, item): item for item in wanted}
    count = Counter(here)
    single = {element: item for element, item in zip(here, live, strict=True) if count[element] == 1}
    shared = [element for element in there if element in count]
    result: list[Any] = []
    at = 0
    for element, item in there.items():
        target = shared[0] if shared else None
        while at < len(here) and here[at] != target:
            if here[at] not in there:
                result.append(live[at])
            at += 1
        result.append(merged(items_of(node), single[element], item) if element in single else item)
        if element == target:
            shared.pop(0)
    return result + [item for element, item in zip(here[at:], live[at:], strict=True) if element not in there]


def without(node: Node, value: Any, removed: Paths) -> Any:
    """``value`` without what stands at the paths; a map or list that loses all of it becomes null."""
    return _without(node, value, paths.tree(removed))


def _without(node: Node, value: Any, tree: Tree) -> Any:
    if isinstance(value, dict) and shape(node, value) is Shape.MAP:
        kept = {}
        for name, inner in value.items():
            branch = tree.get(paths.field(name), {})
            if paths.SELF not in branch:
                kept[name] = _without(field_of(node, name), inner, branch) if branch else inner
        return kept or None
    if isinstance(value, list) and shape(node, value) is Shape.LIST:
        left = []
        for item in value:
            branch = tree.get(element_of(node, item), {})
            if paths.SELF not in branch:
                left.append(_without(items_of(node), item, branch) if branch else item)
        return left or None
    return value


Rewrite = Callable[[Node, Any], Any]


def rewritten(rewrite: Rewrite, schema: Node, obj: dict[str, Any], *, builtin: bool) -> dict[str, Any]:
    """The object after one of the two functions below; of a custom one only the metadata is rewritten."""
    if builtin:
        whole: dict[str, Any] = rewrite(schema, obj)
        return whole
    if "metadata" not in obj:
        return obj
    return {**obj, "metadata": rewrite(schema.fields["metadata"], obj["metadata"])}


def without_empty(node: Node, value: Any) -> Any:
    """The value without empty lists and maps."""
    if isinstance(value, list):
        return [without_empty(items_of(node), item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: without_empty(field_of(node, name), inner) for name, inner in value.items()}
    return {name: inner for name, inner in kept.items() if not _left_out(field_of(node, name), inner)}


def _left_out(node: Node, value: Any) -> bool:
    return value == [] or (value == {} and node.values is not None)


def with_zeros(node: Node, value: Any) -> Any:
    """The value with the fields that Go writes even if they were not set."""
    if isinstance(value, list):
        return [with_zeros(items_of(node), item) for item in value]
    if not isinstance(value, dict):
        return value
    there = {name: with_zeros(field_of(node, name), inner) for name, inner in value.items()}
    for name, child in node.fields.items():
        if child.zero is not MISSING and there.get(name) is None:
            there[name] = with_zeros(child, child.zero)
    return there
