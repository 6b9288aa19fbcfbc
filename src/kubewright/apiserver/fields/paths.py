"""Sets of paths of fields, and how ``managedFields`` writes them down.

Theory.      A path is a tuple of elements in the notation of FieldsV1: ``f:<name>`` is a field,
             ``k:<json>`` the item of a list by the fields that are its key, ``v:<json>`` an item of a set of
             plain values. A set is a frozenset of paths, so Python's own operators are the set algebra: a
             path does not contain those below it.
             FieldsV1 is the same as a tree: ``{"f:data": {"f:a": {}}}``. A path that is in the set and has
             others below it is marked in the tree by ``"."``.
Invariants.  ``decoded(encoded(paths)) == paths``; ``encoded`` is sorted, so equal sets are equal bytes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

Path = tuple[str, ...]
Paths = frozenset[Path]
NONE: Paths = frozenset()

MOST_DEEP = 200
"""Levels that an applied object or a set of fields may have. The deepest of known CRDs have about 60."""

SELF = "."
"""In a tree, what marks a path that is in the set itself, and not only on the way to others."""

_KINDS = ("f:", "k:", "v:", "i:")


class Malformed(ValueError):
    """A set of fields that cannot be read; the message says where."""


def field(name: str) -> str:
    """The element of a field."""
    return f"f:{name}"


def keyed(keys: Mapping[str, Any]) -> str:
    """The element of a list's item, by its keys."""
    return f"k:{_json(keys)}"


def valued(value: Any) -> str:
    """The element of an item of a set."""
    return f"v:{_json(value)}"


def encoded(paths: Iterable[Path]) -> dict[str, Any]:
    """The set as FieldsV1."""
    return _sorted(tree(paths), shallow=True)


def tree(paths: Iterable[Path]) -> dict[str, Any]:
    """The set as nested dicts; each member has the key ``"."``."""
    root: dict[str, Any] = {}
    for path in paths:
        at = root
        for element in path:
            at = at.setdefault(element, {})
        at[SELF] = {}
    return root


def _sorted(branch: dict[str, Any], *, shallow: bool = False) -> dict[str, Any]:
    if not shallow and branch.keys() == {SELF}:
        return {}
    return {name: _sorted(branch[name]) if name != SELF else {} for name in sorted(branch)}


def decoded(fields: Any) -> Paths:
    """The set that FieldsV1 says.

    Raises:
        Malformed: it is none.
    """
    if not isinstance(fields, dict):
        raise Malformed("a set of fields is an object")
    found: list[Path] = []
    _decode(fields, (), found)
    return frozenset(found)


def _decode(branch: dict[str, Any], path: Path, found: list[Path]) -> None:
    if len(path) > MOST_DEEP:
        raise Malformed(f"{shown(path[:4])}…: deeper than {MOST_DEEP} levels")
    for name, inner in branch.items():
        if name == SELF and path:
            found.append(path)
            continue
        where = (*path, name)
        if name[:2] not in _KINDS or not isinstance(inner, dict):
            raise Malformed(f"{shown(path)}: {name!r} is no element of a path")
        if inner:
            _decode(inner, where, found)
        else:
            found.append(where)


def shown(path: Path) -> str:
    """The path as people read it: ``.spec.containers[name="a"].image``."""
    return "".join(_shown(element) for element in path)


def _shown(element: str) -> str:
    kind, rest = element[:2], element[2:]
    try:
        if kind == "k:":
            keys = sorted(orjson.loads(rest).items())
            return f"[{','.join(f'{name}={_json(value)}' for name, value in keys)}]"
    except (orjson.JSONDecodeError, AttributeError):
        return f"[{rest}]"
    return {"v:": f"[={rest}]", "i:": f"[{rest}]"}.get(kind, f".{rest}")


def outside(paths: Paths, roots: Iterable[Path]) -> Paths:
    """The paths that are not at or below one of ``roots``."""
    cut = tuple(roots)
    if not cut:
        return paths
    return frozenset(path for path in paths if not any(path[: len(root)] == root for root in cut))


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
