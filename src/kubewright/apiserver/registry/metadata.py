"""``metadata``: what the server sets, what is immutable, and its validation.

Theory.      Some fields are set by the server (uid, creationTimestamp, generation), some are immutable:
             ``created``, ``carried``. ``causes_new`` and ``causes_changed`` validate.
Invariants.  Pure: times and random values are arguments. Every field has its type: ``intake`` has
             checked that.
Source       kube-apiserver's sentences and field paths, observed on v1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import orjson

from kubewright.apiserver.registry.kind import Cause, Object, ServedKind, some
from kubewright.apiserver.schema.causes import cut, invalid
from kubewright.wire import naming

ANNOTATION_BYTES = 256 * 1024
"""Most bytes of keys and values of all annotations of an object together."""

_TWICE = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)
IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_STANDARD_FINALIZERS = frozenset((_FOREGROUND, _ORPHAN, "kubernetes"))

_NAME_RULES: Mapping[str, Callable[[str], list[str]]] = {
    "dns-label": naming.dns_label,
    "dns-subdomain": naming.dns_subdomain,
    "path": naming.path_segment,
}


def created(obj: Object, *, name: str, namespace: str, uid: str, now: str, generation: bool) -> Object:
    """A new object: with the fields that only the server may set."""
    given = dict(obj["metadata"])
    for owned in (
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generation",
        "selfLink",
    ):
        given.pop(owned, None)
    place = {"name": name, **({"namespace": namespace} if namespace else {})}
    stamps = {"uid": uid, "creationTimestamp": now, **({"generation": 1} if generation else {})}
    given = {key: value for key, value in given.items() if key not in ("name", "namespace", *stamps)}
    head = {"generateName": given.pop("generateName")} if given.get("generateName") else {}
    return {**obj, "metadata": {**head, **place, **stamps, **given}}


def carried(new: Object, old: Object) -> Object:
    """``new`` with those fields of ``old`` that a client may leave out but not change. An empty uid is
    none."""
    was, now = old["metadata"], new["metadata"]
    kept = {name: was[name] for name in ("generation", *IMMUTABLE, "generateName") if name in was}
    left_out = ("creationTimestamp",) if now.get("uid") else ("creationTimestamp", "uid")
    given = {name: now[name] for name in IMMUTABLE if name in now and name not in left_out}
    merged = {**kept, **given}
    if all(now.get(name) == value for name, value in merged.items()):
        return new
    return {**new, "metadata": {**now, **merged}}


def without_duplicates(obj: Object, *, patched: bool) -> tuple[Object, list[str]]:
    """The object with each owner reference once, and the warning that some were there twice."""
    kept: dict[bytes, Any] = {}
    twice = []
    for owner in obj["metadata"].get("ownerReferences") or ():
        if (same := orjson.dumps(owner, option=orjson.OPT_SORT_KEYS)) in kept:
            twice.append(str(owner.get("uid", "")))
        kept.setdefault(same, owner)
    if not twice:
        return obj, []
    when = " after mutating admission happens" if patched else ""
    words = _TWICE.format(when, ", ".join(twice))
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": list(kept.values())}}, [words]


def warnings(kind: ServedKind, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Of new finalizers whose names may be another program's too; built-in kinds refuse those."""
    if not kind.custom:
        return []
    added = set(new.get("finalizers") or ()) - set((old or {}).get("finalizers") or ())
    found = []
    for finalizer in sorted(added - _STANDARD_FINALIZERS):
        if "/" not in finalizer:
            path = " including a path (/)" if "." in finalizer else ""
            words = (
                f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other "
            )
            found.append(f'metadata.finalizers: "{finalizer}": {words}finalizer writers')
    return found


def causes_new(kind: ServedKind, metadata: Mapping[str, Any]) -> list[Cause]:
    """Every rule that the metadata of a new object breaks."""
    name_rule = _NAME_RULES.get(kind.strict_names, naming.dns_subdomain)
    causes = [
        _invalid("generateName", prefix, said)
        for prefix in [metadata.get("generateName", "")]
        for said in (name_rule(prefix.rstrip("-") or prefix) if prefix else ())
    ]
    if not (name := metadata.get("name", "")):
        causes.append(
            Cause("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
        )
    else:
        causes += [_invalid("name", name, said) for said in name_rule(name)]
    return some(chain(causes, _causes_content(metadata), _causes_finalizers(kind, metadata)))


def causes_changed(kind: ServedKind, new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Every rule that a change of metadata breaks; fields that did not change are not checked again."""
    causes = []
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            listed = cut(", ".join(f'"{each}"' for each in added))
            said = "no new finalizers can be added if the object is being deleted, found new finalizers"
            message = f"Forbidden: {said} []string{{{listed}}}"
            causes.append(Cause("FieldValueForbidden", "metadata.finalizers", message))
    for name in IMMUTABLE:
        if new.get(name) != old.get(name):
            causes.append(_invalid(name, new.get(name), "field is immutable"))
    changed = {
        name: value for name, value in new.items() if old.get(name) is not value and old.get(name) != value
    }
    return some(chain(causes, _causes_content(changed), _causes_finalizers(kind, changed)))


def _causes_content(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    for key, value in metadata.get("labels", {}).items():
        yield from (_invalid("labels", key, said) for said in naming.label_key(key))
        yield from (_invalid("labels", value, said) for said in naming.label_value(value))
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    for key in annotations:
        yield from (_invalid("annotations", key, said) for said in naming.label_key(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATION_BYTES:
        message = f"Too long: may not be more than {ANNOTATION_BYTES} bytes"
        yield Cause("FieldValueTooLong", "metadata.annotations", message)
    yield from _causes_owners(metadata.get("ownerReferences", ()))


def _causes_owners(owners: Any) -> Iterator[Cause]:
    for owner in owners:
        version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            yield _invalid("ownerReferences.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield _invalid(f"ownerReferences.{name}", "", "must not be empty")
        if (version, kind) == ("v1", "Event"):
            words = "/v1, Kind=Event is disallowed from being an owner"
            yield _owners_invalid(_as_go_has_it(owner), words)
    leaders = [
        f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller") is True
    ]
    if len(leaders) > 1:
        found = f'Found "true" in references for {leaders[0]} and {leaders[1]}'
        message = f"Only one reference can have Controller set to true. {found}"
        yield _owners_invalid([_as_go_has_it(owner) for owner in owners], message)


def _causes_finalizers(kind: ServedKind, metadata: Mapping[str, Any]) -> Iterator[Cause]:
    finalizers = metadata.get("finalizers", ())
    for index, finalizer in enumerate(finalizers):
        said = naming.label_key(finalizer)
        if not said and not kind.custom and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            said = ["name is neither a standard finalizer name nor is it fully qualified"]
        yield from (_invalid(f"finalizers[{index}]", finalizer, each) for each in said)
    if _FOREGROUND in finalizers and _ORPHAN in finalizers:
        message = f"Invalid value: finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        yield Cause("FieldValueInvalid", "metadata.finalizers", message)


def _invalid(name: str, value: Any, said: str) -> Cause:
    return invalid(f"metadata.{name}", value, said)


def _owners_invalid(owners: Any, said: str) -> Cause:
    """Of one owner, or all of them, with their fields in Go's order."""
    shown = cut(orjson.dumps(owners).decode())
    return Cause("FieldValueInvalid", "metadata.ownerReferences", f"Invalid value: {shown}: {said}")


def _as_go_has_it(owner: Mapping[str, Any]) -> dict[str, Any]:
    always = {name: owner.get(name) or "" for name in ("apiVersion", "kind", "name", "uid")}
    flags = ("controller", "blockOwnerDeletion")
    return {**always, **{name: owner[name] for name in flags if owner.get(name) is not None}}
