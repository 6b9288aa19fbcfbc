"""Merging an applied value into a live one, and removing what stands at paths.

Invariants.  Pure: arguments are not changed, results share parts with them.
Called by    ``applying``.
"""

from collections import Counter
from typing import Any

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import Paths
from kubewright.apiserver.fields.shapes import Shape, element_of, field_of, items_of, shape
from kubewright.apiserver.schema.node import Node

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
