"""``metadata``: its form, what the server fills in, and what nobody may change.

Theory.      Form first (``shaped``): after it every field has its type, so all other code may read
             without asking. Then ownership: some fields are the server's (uid, creationTimestamp,
             generation), some can be set once. Then the rules (``causes_new``, ``causes_changed``).
Invariants.  Pure: the clock's readings and draws come in as values.
Source       kube-apiserver's sentences and field paths, observed on v1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubewright.wire import naming
from kubewright.apiserver.registry.kind import Cause, Object, ServedKind
from kubewright.apiserver.registry.refusals import cannot_be_handled

ANNOTATION_BYTES = 256 * 1024
"""Most bytes of keys and values of all annotations of an object together."""

IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_STANDARD_FINALIZERS = frozenset((_FOREGROUND, _ORPHAN, "kubernetes"))

_NAME_RULES: Mapping[str, Callable[[str], list[str]]] = {
    "dns-label": naming.dns_label,
    "dns-subdomain": naming.dns_subdomain,
    "path": naming.path_segment,
}
_STRINGS = (
    "name", "generateName", "namespace", "uid", "resourceVersion",
    "creationTimestamp", "deletionTimestamp", "selfLink",
)  # fmt: skip


def shaped(kind: ServedKind, obj: Any) -> Object:
    """The object with a well-formed ``metadata``; nulls in it are dropped.

    Raises:
        BadRequest: it is no object, or a field of its metadata has the wrong type.
    """
    if not isinstance(obj, dict):
        raise cannot_be_handled(kind.resource, f"json: cannot unmarshal {_type(obj)} into {kind.resource.kind}")
    metadata = obj.get("metadata")
    if metadata is None:
        return {**obj, "metadata": {}}
    if not isinstance(metadata, dict):
        raise _mistyped(kind, "metadata", metadata, "ObjectMeta")
    if None in metadata.values():
        metadata = {name: value for name, value in metadata.items() if value is not None}
        obj = {**obj, "metadata": metadata}
    for path, value, wanted in _wrong_types(metadata):
        raise _mistyped(kind, f"metadata.{path}", value, wanted)
    return obj


def _wrong_types(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    for name in _STRINGS:
        if not isinstance(value := metadata.get(name, ""), str):
            yield name, value, "string"
    for name in ("generation", "deletionGracePeriodSeconds"):
        if not isinstance(value := metadata.get(name, 0), int) or isinstance(value, bool):
            yield name, value, "int64"
    for name in ("labels", "annotations"):
        yield from _wrong_strings(name, metadata.get(name, {}))
    for name in ("finalizers", "ownerReferences"):
        element = str if name == "finalizers" else dict
        value = metadata.get(name, [])
        if not isinstance(value, list):
            yield name, value, "[]" + ("string" if element is str else "v1.OwnerReference")
        elif strays := [each for each in value if not isinstance(each, element)]:
            yield name, strays[0], "string" if element is str else "v1.OwnerReference"


def _wrong_strings(name: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    if not isinstance(value, dict):
        yield name, value, "map[string]string"
    elif strays := [each for each in value.values() if not isinstance(each, str)]:
        yield name, strays[0], "string"


def _mistyped(kind: ServedKind, path: str, value: Any, wanted: str) -> Exception:
    said = f"json: cannot unmarshal {_type(value)} into Go struct field ObjectMeta.{path} of type {wanted}"
    return cannot_be_handled(kind.resource, said)


def _type(value: Any) -> str:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def born(obj: Object, *, name: str, namespace: str, uid: str, now: str, generation: bool) -> Object:
    """The object as it begins: what only the server may say is said by the server."""
    given = dict(obj["metadata"])
    for owned in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation", "selfLink"):
        given.pop(owned, None)
    place = {"name": name, **({"namespace": namespace} if namespace else {})}
    stamps = {"uid": uid, "creationTimestamp": now, **({"generation": 1} if generation else {})}
    given = {key: value for key, value in given.items() if key not in ("name", "namespace", *stamps)}
    head = {"generateName": given.pop("generateName")} if given.get("generateName") else {}
    return {**obj, "metadata": {**head, **place, **stamps, **given}}


def carried(new: Object, old: Object) -> Object:
    """``new`` with those fields of ``old`` that a client may leave out but not change."""
    was, now = old["metadata"], new["metadata"]
    kept = {name: was[name] for name in ("generation", *IMMUTABLE, "generateName") if name in was}
    given = {name: now[name] for name in IMMUTABLE if name in now and name != "creationTimestamp"}
    merged = {**kept, **given}
    if all(now.get(name) == value for name, value in merged.items()):
        return new
    return {**new, "metadata": {**now, **merged}}


def causes_new(kind: ServedKind, metadata: Mapping[str, Any]) -> list[Cause]:
    """Every rule that the metadata of a new object breaks."""
    name_rule = _NAME_RULES.get(kind.strict_names, naming.dns_subdomain)
    causes = [
        _invalid("generateName", prefix, said)
        for prefix in [metadata.get("generateName", "")]
        for said in (name_rule(prefix.rstrip("-") or prefix) if prefix else ())
    ]
    if not (name := metadata.get("name", "")):
        causes.append(Cause("FieldValueRequired", "metadata.name", "Required value: name or generateName is required"))
    else:
        causes += [_invalid("name", name, said) for said in name_rule(name)]
    return [*causes, *_causes_content(kind, metadata), *_causes_finalizers(kind, metadata)]


def causes_changed(kind: ServedKind, new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Every rule that a change of metadata breaks; what did not change is not looked at again."""
    causes = []
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            said = "no new finalizers can be added if the object is being deleted, found new finalizers"
            message = f"Forbidden: {said} []string{{{listed}}}"
            causes.append(Cause("FieldValueForbidden", "metadata.finalizers", message))
    for name in IMMUTABLE:
        if new.get(name) != old.get(name):
            causes.append(_invalid(name, new.get(name), "field is immutable"))
    changed = {name: value for name, value in new.items() if old.get(name) is not value and old.get(name) != value}
    causes += _causes_content(kind, changed)
    return causes + _causes_finalizers(kind, changed)


def _causes_content(kind: ServedKind, metadata: Mapping[str, Any]) -> list[Cause]:
    causes = []
    for key, value in metadata.get("labels", {}).items():
        causes += [_invalid("labels", key, said) for said in naming.label_key(key)]
        causes += [_invalid("labels", value, said) for said in naming.label_value(value)]
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    for key in annotations:
        causes += [_invalid("annotations", key, said) for said in naming.label_key(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATION_BYTES:
        message = f"Too long: may not be more than {ANNOTATION_BYTES} bytes"
        causes.append(Cause("FieldValueTooLong", "metadata.annotations", message))
    return causes + _causes_owners(metadata.get("ownerReferences", ()))


def _causes_owners(owners: Any) -> list[Cause]:
    causes = []
    for owner in owners:
        rules = (("apiVersion", "version must not be empty"), ("kind", "must not be empty"),
                 ("name", "must not be empty"), ("uid", "must not be empty"))  # fmt: skip
        causes += [_invalid(f"ownerReferences.{name}", "", said) for name, said in rules if not owner.get(name)]
    leaders = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller") is True]
    if len(leaders) > 1:
        found = f'Found "true" in references for {leaders[0]} and {leaders[1]}'
        message = f"Only one reference can have Controller set to true. {found}"
        causes.append(_invalid("ownerReferences", leaders, message))
    return causes


def _causes_finalizers(kind: ServedKind, metadata: Mapping[str, Any]) -> list[Cause]:
    finalizers = metadata.get("finalizers", ())
    causes = []
    for index, finalizer in enumerate(finalizers):
        said = naming.label_key(finalizer)
        if not said and not kind.custom and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            said = ["name is neither a standard finalizer name nor is it fully qualified"]
        causes += [_invalid(f"finalizers[{index}]", finalizer, each) for each in said]
    if _FOREGROUND in finalizers and _ORPHAN in finalizers:
        said = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        causes.append(Cause("FieldValueInvalid", "metadata.finalizers", f"Invalid value: {said}"))
    return causes


def _invalid(name: str, value: Any, said: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else "null" if value is None else f"{value}"
    return Cause("FieldValueInvalid", f"metadata.{name}", f"Invalid value: {shown}: {said}")
