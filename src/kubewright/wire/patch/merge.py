"""JSON merge patch (RFC 7386)."""

from collections.abc import Mapping
from typing import Any


def apply(document: Any, patch: Any) -> Any:
    """The patched document. Parts that the patch does not name are shared with ``document``."""
    if not isinstance(patch, Mapping):
        return patch
    merged: dict[str, Any] = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = apply(merged.get(name), value)
        else:
            merged[name] = value
    return merged
