"""The form that Go gives an object whose kind is a Go type: kube-apiserver compares objects in it.

Theory.      Go leaves empty lists and maps out, and writes structs that are no pointers even if they are
             empty. So an empty list is no field that a manager could have, and the ``strategy`` of a new
             Deployment is not added: it was there. Built-in kinds are Go types; so is all metadata.
Invariants.  Pure.
Called by    ``updates``.
"""

from collections.abc import Callable
from typing import Any

from kubewright.apiserver.fields.shapes import field_of, items_of
from kubewright.apiserver.schema.node import MISSING, Node

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
