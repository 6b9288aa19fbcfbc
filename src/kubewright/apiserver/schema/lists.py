"""Lists that are sets or maps: no item twice.

Theory.      ``x-kubernetes-list-type: set`` forbids equal items, ``map`` forbids equal keys. JSON
             Schema has no word for the second, so these are checked on the tree, and only where a
             schema has such lists at all.
Called by    ``compiled.Compiled.validate``.
"""

from collections.abc import Iterator
from typing import Any

from kubewright.apiserver.registry.kind import Cause
from kubewright.apiserver.schema.causes import quoted
from kubewright.apiserver.schema.node import Node


def duplicates(node: Node, value: Any, path: str = "") -> Iterator[Cause]:
    """A cause for each item that stands in its list a second time."""
    if not node.unique:
        return
    if isinstance(value, dict):
        for name, child in node.unique_fields:
            if name in value:
                yield from duplicates(child, value[name], f"{path}.{name}" if path else name)
        if node.values is not None:
            for name in sorted(value.keys() - node.fields.keys()):
                yield from duplicates(node.values, value[name], f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.items is not None:
        yield from _twice(node, value, path)
        for index, item in enumerate(value):
            yield from duplicates(node.items, item, f"{path}[{index}]")


def _twice(node: Node, values: list[Any], path: str) -> Iterator[Cause]:
    if node.list_type not in ("set", "map"):
        return
    seen: set[str] = set()
    for index, item in enumerate(values):
        shown = quoted(_key(node, item))
        if shown in seen:
            yield Cause("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {shown}")
        seen.add(shown)


def _key(node: Node, item: Any) -> Any:
    if node.list_type == "set" or not isinstance(item, dict) or node.items is None:
        return item
    fields = node.items.fields
    defaults = {
        key: fields[key].default for key in node.list_keys if key in fields and fields[key].has_default
    }
    return {key: item.get(key, defaults.get(key)) for key in node.list_keys if key in item or key in defaults}
