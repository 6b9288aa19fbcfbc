"""What the replica counts of a custom resource with a ``scale`` subresource must be: whole, not negative.

The schema alone would let ``-1`` or ``3.0`` through, and then ``kubectl scale`` and autoscalers fail
on the object. kube-apiserver checks the two paths; so do we, in its words.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kubewright.apiserver.registry.builtin.cells import at
from kubewright.apiserver.registry.kind import Cause, Object, Scale
from kubewright.apiserver.schema.causes import quoted

_LARGEST = 2**31 - 1
_GO = {bool: "bool", float: "float64", str: "string", list: "[]interface {}"}


def check(scale: Scale) -> Callable[[Object, Object | None], list[Cause]]:
    """The rule for the counts at both paths of ``scale``."""
    paths = (scale.spec_path, scale.status_path)
    return lambda new, _old: [cause for path in paths for cause in _count(path, at(new, path))]


def _count(path: str, value: Any) -> Iterator[Cause]:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        found = quoted(value).removesuffix(".0").strip('"')
        kind = _GO.get(type(value), "map[string]interface {}")
        words = f".{path} accessor error: {found} is of the type {kind}, expected int64"
        yield Cause("FieldValueInvalid", f".{path}", f"Invalid value: 0: {words}")
    elif value < 0:
        yield Cause(
            "FieldValueInvalid", f".{path}", f"Invalid value: {value}: should be a non-negative integer"
        )
    elif value > _LARGEST:
        words = f"should be less than or equal to {_LARGEST}"
        yield Cause("FieldValueInvalid", f".{path}", f"Invalid value: {value}: {words}")
