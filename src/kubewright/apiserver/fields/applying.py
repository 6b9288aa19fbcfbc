"""The object after an apply, and who manages what then.

Theory.      1. What is applied is merged into the live object.
             2. What the applier named last time and names no more is removed, unless another manager has it.
             3. A field of another manager that changes by this is a conflict. A forced apply takes it.
             The applier's entry is then exactly what it applied.
             An object whose managers are not known gets ``before-first-apply`` as the manager of all it has.
             ``kubectl apply`` kept what it applied in an annotation, before there were managers: for the
             manager ``kubectl`` fields that still are as the annotation says are no conflict.
Invariants.  Pure. A refused apply changes nothing.
Source       Kubernetes' structured merge and kube-apiserver's field manager, as observed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.changes import difference
from kubewright.apiserver.fields.managers import Managed, Manager, Managers, applier
from kubewright.apiserver.fields.merging import merged, without
from kubewright.apiserver.fields.paths import NONE, Path, Paths
from kubewright.apiserver.fields.shapes import field_set, with_parents
from kubewright.apiserver.fields.updates import (
    BEFORE_APPLY,
    UNMANAGED,
    Change,
    Object,
    Write,
    after_change,
    conflicts,
    updated,
)

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
    while one of them does.
    """
    schema = write.schemas(last.version) if last is not None and last.paths else None
    if last is None or schema is None:
        return obj
    before = with_parents(schema, last.paths)
    left = without(schema, obj, before)
    for version in sorted({managed.version for managed in managers.values()}):
        left = _with_managed(write, version, managers, obj, left)
    here = with_parents(schema, field_set(schema, obj))
    there = with_parents(schema, field_set(schema, left))
    pruned: Object = without(schema, obj, (here - there) & before)
    return pruned


def _with_managed(write: Write, version: str, managers: Managers, whole: Object, left: Object) -> Object:
    """``left`` with those parts of ``whole`` that a manager has in this version."""
    schema = write.schemas(version)
    if schema is None:
        return left
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
