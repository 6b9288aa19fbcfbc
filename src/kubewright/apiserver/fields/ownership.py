"""Who manages what after a create, an update, a patch or an apply. Pure.

Theory.      A create, an update or a patch makes its manager the only one of the fields that it changes, and
             what it removes has no manager. There are no conflicts.
             An apply: 1. What is applied is merged into the live object. 2. What the applier named last time
             and names no more is removed, unless another manager has it. 3. A field of another manager that
             changes by this is a conflict. A forced apply takes it. The applier's entry is then exactly what
             it applied. An object whose managers are not known gets ``before-first-apply`` as the manager of
             all it has.
             ``kubectl apply`` kept what it applied in an annotation, before there were managers: for the
             manager ``kubectl`` fields that still are as the annotation says are no conflict.
             A kind may have several versions, and each entry names fields in the terms of the version in
             which its manager wrote. So the difference is computed in each of these versions, of the objects
             as they are converted to it; managers of a version that there is no longer are forgotten.
Invariants.  A refused apply changes nothing. At most ``MOST_UPDATERS`` entries come from updates: older ones
             of one version are joined.
Source       Kubernetes' structured merge and kube-apiserver's field manager, ``ancient-changes`` included, as
             observed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import (
    NONE,
    UPDATE,
    Managed,
    Manager,
    Managers,
    Path,
    Paths,
    applier,
    field,
    updater,
)
from kubewright.apiserver.fields.shapes import (
    Difference,
    difference,
    field_set,
    merged,
    rewritten,
    with_parents,
    with_zeros,
    without,
    without_empty,
)
from kubewright.apiserver.schema.node import Node

Object = dict[str, Any]
Schemas = Callable[[str], Node | None]
"""The schema of a version of the kind; None when there is none."""

Convert = Callable[[Object, str], Object]
"""An object of the kind in another version."""

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
    ``convert``      an object in one of these
    ``builtin``      the kind is built in: kube-apiserver compares its objects as Go types
    ``ignored``      what the endpoint of the write cannot change
    """

    name: str
    version: str
    subresource: str
    time: str
    schemas: Schemas
    convert: Convert = lambda obj, _version: obj
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
            rewritten(with_zeros, schema, write.convert(obj, version), builtin=write.builtin)
            for obj in (self._old, self._new)
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


KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Conflicts(Exception):
    """Other managers have fields that the apply would change."""

    def __init__(self, found: Sequence[tuple[Manager, Path]]) -> None:
        super().__init__(_message(found))
        self.found = found


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome: the object, whose ``managedFields`` are not written yet, and its managers."""

    obj: Object
    managers: dict[Manager, Managed]


def applied(write: Write, managers: Managers, live: Object, wanted: Object, *, force: bool) -> Applied:
    """The object after ``wanted`` was applied to ``live`` (an empty object, when there is none).

    Raises:
        Conflicts: the apply is not forced.
    """
    if not managers and live:
        before = replace(write, name=BEFORE_APPLY)
        managers = updated(before, {}, {}, live)
    live = write.without_empty(live)
    try:
        outcome = _applied(write, managers, live, wanted, force=force)
    except Conflicts as error:
        if write.name != KUBECTL:
            raise
        allowed = _as_last_applied(write, live)
        left = [each for each in error.found if each[1] not in allowed]
        if left:
            raise Conflicts(left) from None
        outcome = _applied(write, managers, live, wanted, force=True)
    if write.name == KUBECTL and not write.subresource:
        return replace(outcome, obj=_with_last_applied(outcome.obj, wanted))
    return outcome


def _applied(write: Write, managers: Managers, live: Object, wanted: Object, *, force: bool) -> Applied:
    me = applier(write.name, write.subresource)
    last = managers.get(me)
    mine = paths.outside(field_set(write.schema, wanted), write.ignored)
    now = {**managers, me: Managed(mine, write.version, write.time)}
    new = _pruned(write, now, merged(write.schema, live, wanted), last)
    change = Change(write, live, new)
    if not force and (found := conflicts(change, now, me)):
        raise Conflicts(found)
    after = after_change(change, now)
    after[me] = Managed(mine - UNMANAGED, write.version, write.time)
    return Applied(new, {manager: managed for manager, managed in after.items() if managed.paths})


def _pruned(write: Write, managers: Managers, obj: Object, last: Managed | None) -> Object:
    """The merged object without what only the applier's last entry has.

    What a field contains goes with it, unless it has a manager; a field that only leads to others stays
    while one of them does. All this is decided in the version of that entry, and for what others have in
    the versions of theirs; so it is the same whichever version the applier names now.
    """
    schema = write.schemas(last.version) if last is not None and last.paths else None
    if last is None or schema is None:
        return obj
    whole = write.convert(obj, last.version)
    before = with_parents(schema, last.paths)
    left = without(schema, whole, before)
    for version in _versions(managers, last.version):
        left = _with_managed(write, version, managers, whole, left)
    left = write.convert(left, last.version)
    here = with_parents(schema, field_set(schema, whole))
    there = with_parents(schema, field_set(schema, left))
    pruned: Object = without(schema, whole, (here - there) & before)
    return write.convert(pruned, write.version)


def _versions(managers: Managers, first: str) -> list[str]:
    """The versions of all entries, one of them first."""
    return sorted({managed.version for managed in managers.values()}, key=lambda each: (each != first, each))


def _with_managed(write: Write, version: str, managers: Managers, whole: Object, left: Object) -> Object:
    """``left`` with those parts of ``whole`` that a manager has in this version; in this version."""
    schema = write.schemas(version)
    if schema is None:
        return left
    whole, left = write.convert(whole, version), write.convert(left, version)
    managed = NONE.union(*(each.paths for each in managers.values() if each.version == version))
    keep = with_parents(schema, field_set(schema, left)) | with_parents(schema, managed)
    result: Object = without(schema, whole, with_parents(schema, field_set(schema, whole)) - keep)
    return result


def _as_last_applied(write: Write, live: Object) -> Paths:
    """The fields that are as kubectl's annotation says that it applied them; none without one."""
    try:
        said = orjson.loads(_annotation(live) or "null")
    except orjson.JSONDecodeError:
        return NONE
    if not isinstance(said, dict) or said.get("apiVersion") != write.version:
        return NONE
    other = difference(write.schema, said, live)
    return field_set(write.schema, said) - other.set - other.removed


def _annotation(obj: Object) -> str:
    said = ((obj.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    return said if isinstance(said, str) else ""


def _with_last_applied(obj: Object, wanted: Object) -> Object:
    """The object with what kubectl applied in its annotation, if it has one: client-side applies read it."""
    if not _annotation(obj):
        return obj
    metadata = wanted.get("metadata") or {}
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED
    }
    said = {**wanted, "metadata": {**metadata, "annotations": annotations}}
    text = orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    there = obj["metadata"]
    return {**obj, "metadata": {**there, "annotations": {**there["annotations"], LAST_APPLIED: text}}}


def _message(found: Sequence[tuple[Manager, Path]]) -> str:
    """In kubectl's words: its users and other clients look for them."""
    if len(found) == 1:
        ((manager, path),) = found
        return f"Apply failed with 1 conflict: conflict with {manager.shown}: {paths.shown(path)}"
    lines = []
    for manager in dict.fromkeys(manager for manager, _ in found):
        lines.append(f"conflicts with {manager.shown}:")
        lines += [f"- {paths.shown(path)}" for each, path in found if each == manager]
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
