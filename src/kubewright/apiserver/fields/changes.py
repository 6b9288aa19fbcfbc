"""The difference of two values under a schema.

Theory.      Values are compared part by part as far as their parts are managed one by one (``shapes``), and
             as a whole below that. The difference is three sets of paths: a field manager loses what another
             write sets or removes, and an apply conflicts with what it would set.
Invariants.  Pure.
Called by    ``updates``, for each version in which an object has managers; ``applying``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import NONE, Path, Paths
from kubewright.apiserver.fields.shapes import Shape, field_of, indexed, items_of, shape
from kubewright.apiserver.schema.node import Node

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
