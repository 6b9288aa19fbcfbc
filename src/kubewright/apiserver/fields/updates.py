"""Who manages what after a create, an update or a patch.

Theory.      Such a write makes its manager the only one of the fields that it changes, and what it removes
             has no manager. There are no conflicts.
             A kind may have several versions, and each entry names fields in the terms of the version in
             which its manager wrote. So the difference is computed in each of these versions; managers of
             a version that is no longer served are forgotten.
Invariants.  Pure. At most ``MOST_UPDATERS`` entries come from updates: older ones of one version are joined.
Source       kube-apiserver's rules, ``ancient-changes`` included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubewright.apiserver.fields.changes import Difference, difference
from kubewright.apiserver.fields.gotypes import rewritten, with_zeros, without_empty
from kubewright.apiserver.fields.managers import UPDATE, Managed, Manager, Managers, updater
from kubewright.apiserver.fields.paths import NONE, Path, Paths, field
from kubewright.apiserver.schema.node import Node

Object = dict[str, Any]
Schemas = Callable[[str], Node | None]
"""The schema of a version of the kind; None when it is not served. Versions differ in their schema only."""

MOST_UPDATERS = 10
ANCIENT = "ancient-changes"
"""The manager of what the oldest of too many updaters had."""

BEFORE_APPLY = "before-first-apply"
"""The manager of all that an object had when it was first applied, if nothing was known of its managers."""

_METADATA = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
             "managedFields", "resourceVersion")  # fmt: skip
UNMANAGED: Paths = frozenset(
    [(field(name),) for name in ("apiVersion", "kind", "metadata")]
    + [(field("metadata"), field(name)) for name in _METADATA]
)
"""What identifies an object or belongs to the server has no manager."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write.

    ``name``         of the field manager that writes
    ``version``      ``apps/v1``: in which the object is written
    ``subresource``  through which it is written; empty for the object itself
    ``time``         of the write (RFC 3339)
    ``schemas``      of the versions of the kind
    ``builtin``      the kind is built in: kube-apiserver compares its objects as Go types
    ``ignored``      what the endpoint of the write cannot change
    """

    name: str
    version: str
    subresource: str
    time: str
    schemas: Schemas
    builtin: bool = False
    ignored: Sequence[Path] = ()

    @property
    def schema(self) -> Node:
        """The schema of its own version."""
        found = self.schemas(self.version)
        assert found is not None, f"{self.version} is served: a request came for it"
        return found

    def without_empty(self, obj: Object) -> Object:
        """The object without empty lists and maps that Go leaves out."""
        return rewritten(without_empty, self.schema, obj, builtin=self.builtin)


class Change:
    """What a write changes, in the terms of any version, without what its endpoint cannot change."""

    def __init__(self, write: Write, old: Object, new: Object) -> None:
        self._write, self._old, self._new = write, old, new
        self._known: dict[str, Difference | None] = {}

    def of(self, version: str) -> Difference | None:
        """The difference; None when the version is not served. It is computed once for each version."""
        if version not in self._known:
            self._known[version] = self._computed(version)
        return self._known[version]

    def _computed(self, version: str) -> Difference | None:
        write = self._write
        schema = write.schemas(version)
        if schema is None:
            return None
        old, new = (
            rewritten(with_zeros, schema, obj, builtin=write.builtin) for obj in (self._old, self._new)
        )
        return difference(schema, old, new).outside(write.ignored)


def updated(write: Write, managers: Managers, old: Object, new: Object) -> dict[Manager, Managed]:
    """The managers after a write that made ``new`` of ``old`` (an empty object, when it is created)."""
    change = Change(write, write.without_empty(old), write.without_empty(new))
    left = after_change(change, managers)
    own = change.of(write.version)
    if own is not None and (mine := own.set - UNMANAGED):
        me = updater(write.name, write.version, write.subresource)
        before = left[me].paths if me in left else NONE
        left[me] = Managed(before | mine, write.version, write.time)
    return _capped(left)


def after_change(change: Change, managers: Managers) -> dict[Manager, Managed]:
    """The managers, without what a change took from them."""
    left = {}
    for manager, managed in managers.items():
        found = change.of(managed.version)
        if found is not None and (kept := managed.paths - found.set - found.removed):
            left[manager] = replace(managed, paths=kept)
    return left


def conflicts(change: Change, managers: Managers, but: Manager) -> list[tuple[Manager, Path]]:
    """The fields of other managers that the change sets to other values, in order."""
    found = []
    for manager, managed in managers.items():
        other = change.of(managed.version)
        if manager != but and other is not None:
            found += [(manager, path) for path in managed.paths & other.set]
    return sorted(
        found, key=lambda pair: (pair[0].name, pair[0].version, pair[0].subresource, _order(pair[1]))
    )


def _order(path: Path) -> tuple[tuple[bool, str], ...]:
    """Fields of one level before those below them."""
    return tuple((depth < len(path), element) for depth, element in enumerate(path, 1))


def _capped(managers: dict[Manager, Managed]) -> dict[Manager, Managed]:
    """At most ``MOST_UPDATERS`` updaters: the oldest of each version are joined into one."""
    updaters = sorted(
        (manager for manager in managers if manager.operation == UPDATE),
        key=lambda manager: (managers[manager].time, manager.name, manager.version, manager.subresource),
    )
    excess = len(updaters) - MOST_UPDATERS
    first: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        version = managers[manager].version
        bucket = updater(ANCIENT, version, "")
        if version not in first:
            first[version] = manager
            continue
        if bucket not in managers:
            managers[bucket] = managers.pop(first[version])
        old = managers.pop(manager)
        managers[bucket] = replace(old, paths=old.paths | managers[bucket].paths)
        excess -= 1
    return managers
