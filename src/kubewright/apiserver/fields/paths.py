"""Sets of paths of fields, and the entries of ``managedFields`` that write them down. Pure.

Theory.      A path is a tuple of elements in the notation of FieldsV1: ``f:<name>`` is a field,
             ``k:<json>`` the item of a list by the fields that are its key, ``v:<json>`` an item of a set of
             plain values. A set is a frozenset of paths, so Python's own operators are the set algebra: a
             path does not contain those below it.
             FieldsV1 is the same as a tree: ``{"f:data": {"f:a": {}}}``. A path that is in the set and has
             others below it is marked in the tree by ``"."``. An entry has a manager and such a tree.
Invariants.  ``decoded(encoded(paths)) == paths``; ``read(written(managers)) == managers``. Both are sorted,
             the managers as kube-apiserver sorts them, so equal sets and equal managers are equal bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


APPLY, UPDATE = "Apply", "Update"
_FIELDS_V1 = "FieldsV1"


@dataclass(frozen=True, slots=True)
class Manager:
    """Who manages fields, by applies or by updates.

    An applier is the same in all versions of a kind, so its ``version`` is empty.
    """

    name: str
    operation: str
    version: str = ""
    subresource: str = ""

    @property
    def shown(self) -> str:
        """As the message of a conflict names it."""
        through = f' with subresource "{self.subresource}"' if self.subresource else ""
        using = f" using {self.version}" if self.operation == UPDATE else ""
        return f'"{self.name}"{through}{using}'


@dataclass(frozen=True, slots=True)
class Managed:
    """What one manager has: paths in terms of ``version``, and when it last wrote (RFC 3339)."""

    paths: Paths
    version: str
    time: str = ""


Managers = Mapping[Manager, Managed]


def applier(name: str, subresource: str) -> Manager:
    return Manager(name, APPLY, subresource=subresource)


def updater(name: str, version: str, subresource: str) -> Manager:
    return Manager(name, UPDATE, version, subresource)


def read(entries: Any) -> dict[Manager, Managed]:
    """The managers that ``managedFields`` names.

    Raises:
        Malformed
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise Malformed("managedFields is a list")
    found = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("operation") not in (APPLY, UPDATE):
            raise Malformed("operation must be `Apply` or `Update`")
        words = [entry.get(name) or "" for name in ("manager", "apiVersion", "subresource", "time")]
        if not all(isinstance(word, str) for word in words):
            raise Malformed("manager, apiVersion, subresource and time are strings")
        name, version, subresource, time = words
        if not version or entry.get("fieldsType") != _FIELDS_V1:
            raise Malformed("apiVersion must not be empty, and fieldsType must be FieldsV1")
        applied = entry["operation"] == APPLY
        manager = applier(name, subresource) if applied else updater(name, version, subresource)
        found[manager] = Managed(decoded(entry.get("fieldsV1") or {}), version, time)
    return found


def written(managers: Managers) -> list[dict[str, Any]]:
    """The managers as ``managedFields``."""
    order = sorted(
        managers.items(),
        key=lambda pair: (
            pair[0].operation,
            pair[1].time,
            pair[0].name,
            pair[1].version,
            pair[0].subresource,
        ),
    )
    return [_entry(manager, managed) for manager, managed in order]


def _entry(manager: Manager, managed: Managed) -> dict[str, Any]:
    return {
        **({"manager": manager.name} if manager.name else {}),
        "operation": manager.operation,
        "apiVersion": managed.version,
        **({"time": managed.time} if managed.time else {}),
        "fieldsType": _FIELDS_V1,
        "fieldsV1": encoded(managed.paths),
        **({"subresource": manager.subresource} if manager.subresource else {}),
    }
