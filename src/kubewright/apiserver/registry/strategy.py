"""The pure steps of a write, which are kube-apiserver's strategies: from what was sent to what is stored.

Theory.      In the order in which ``writing`` takes them.
             *Intake*: identity, types, unknown fields, defaults. What comes out of ``normalized`` has the
             kind's apiVersion and kind, a ``metadata`` whose fields have their types, no unknown field, and
             its defaults. *Edits*: an object has several writers: users own its spec, controllers its status,
             the namespace controller a namespace's finalizers. Each endpoint takes its part of the
             sent object and keeps the rest as stored, so that no writer undoes another's change by accident.
             The generation counts changes of the desired state.
             *Metadata*: some fields are set by the server (uid, creationTimestamp, generation), some are
             immutable:
             ``created``, ``carried``. ``causes_new`` and ``causes_changed`` validate.
             *Lifecycle*: a delete either removes the object, or marks it (deletionTimestamp). A marked object
             stays while it has a finalizer or its grace period runs. The write that removes the last
             finalizer removes it. Dependents are the garbage collector's task: ``Foreground`` and ``Orphan``
             only add a finalizer, which the collector removes when it is done. A later delete with another
             policy replaces the finalizer, unless a grace period runs.
Invariants.  Pure but for the warnings that it leaves in ``Options``: times and random values are arguments.
Source       kube-apiserver's sentences and field paths, observed on v1.36.
Called by    ``writing``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import orjson

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.custom import float_count
from kubewright.apiserver.registry.kind import IGNORE, STRICT, Options, ServedKind, Target
from kubewright.apiserver.schema.causes import MOST_CAUSES, MOST_QUOTED, Cause, cut, invalid, some
from kubewright.apiserver.schema.node import Object, at
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.wire import gojson, naming
from kubewright.wire.errors import ApiError, BadRequest, Invalid, UnsupportedMedia
from kubewright.wire.gvk import Resource
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubewright.wire.patch import apply_json, apply_merge, apply_strategic


def normalized(
    kind: ServedKind,
    sent: Any,
    options: Options,
    *,
    duplicates: Sequence[str] = (),
    patched: bool = False,
    applied: bool = False,
) -> Object:
    """The object that a request sends, ready to be checked: pruned and with defaults.

    ``duplicates`` are the paths of fields that occur in it twice;
    ``patched`` says that the body is what a patch made of the stored object, ``applied`` that an apply did.

    Raises:
        BadRequest, or Invalid for a patch: it is of another kind, has wrong types, or (under strict
            validation) unknown or duplicate fields.
    """
    obj = identified(kind, sent)
    if obj.get("metadata") is None:
        obj = {**obj, "metadata": {}}
    if not duplicates and (ready := kind.schema.ready(obj)) is not None:
        return ready
    if causes := float_counts(kind, obj):
        raise refusals.invalid(kind.resource, str(obj["metadata"].get("name", "")), causes)
    obj = kind.schema.whole(obj)
    if (error := kind.schema.decode_error(obj)) is not None:
        raise unreadable(kind.resource, error, patched=patched)
    kept = kind.schema.prune(obj)
    if (kept is not obj or duplicates) and options.validation != IGNORE:
        unknown = (
            [f'unknown field "{path}"' for path in kind.schema.unknown_fields(obj)] if kept is not obj else []
        )
        said = _first([*unknown, *(f'duplicate field "{path}"' for path in duplicates)])
        if said and options.validation == STRICT:
            said_all = f"strict decoding error: {', '.join(said)}"
            raise unreadable(kind.resource, said_all, patched=patched)
        options.warnings += said
    if applied and (causes := kind.schema.nulls(kept)):
        raise refusals.invalid(kind.resource, str(kept["metadata"].get("name", "")), causes)
    return kind.schema.default(kept)


def _first(said: list[str]) -> list[str]:
    """As many as one answer tells, each of a bounded length."""
    told = [each if len(each) <= MOST_QUOTED else f"{each[:MOST_QUOTED]}..." for each in said[:MOST_CAUSES]]
    more = len(said) - len(told)
    return [*told, f"and {more} more such fields"] if more else told


def float_counts(kind: ServedKind, obj: Object) -> list[Cause]:
    """What is wrong with the counts of ``scale``: there kube-apiserver does not take 2.0 for 2."""
    paths = (kind.scale.spec_path, kind.scale.status_path) if kind.scale and kind.custom else ()
    return [cause for path in paths for cause in float_count(path, at(obj, path))]


def unreadable(resource: Resource, error: str, *, patched: bool) -> ApiError:
    """400 for a body; 422 for the result of a patch, as at kube-apiserver, but without that result: it may be
    a Secret that the client may not read, and megabytes that its operations have copied."""
    if not patched:
        return refusals.cannot_be_handled(resource, error)
    message = f'Invalid value: "the patched object": {error}'
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]
    return Invalid(f' "" is invalid: patch: {message}', details={"causes": causes})


def identified(kind: ServedKind, sent: Any) -> Object:
    """The body with apiVersion and kind, which a client may leave out for built-in kinds only.

    Raises:
        BadRequest: it is of another kind, or not an object.
    """
    resource = kind.resource
    if not isinstance(sent, dict):  # a JSON patch can replace the whole object
        raise BadRequest(gojson.cannot_unmarshal(sent, resource.kind))
    version, name = sent.get("apiVersion"), sent.get("kind")
    if version == resource.api_version and name == resource.kind:
        return sent
    if kind.custom and not (version and name):
        what = "apiVersion" if name else "Kind"
        raise BadRequest(f"Object '{what}' is missing in the object that was sent")
    if (version or resource.api_version) == resource.api_version and (name or resource.kind) == resource.kind:
        return {**sent, "apiVersion": resource.api_version, "kind": resource.kind}
    raise _other_kind(kind, str(version or resource.api_version), str(name or resource.kind), sent)


def _other_kind(kind: ServedKind, version: str, name: str, sent: Object) -> ApiError:
    resource = kind.resource
    if not kind.custom:
        said = f'no kind "{name}" is registered for version "{version}" in this place'
        short = version.rpartition("/")[2]
        return BadRequest(f'{name} in version "{short}" cannot be handled as a {resource.kind}: {said}')
    if version != resource.api_version:
        expected = f"does not match the expected API version ({resource.api_version})"
        return BadRequest(f"the API version in the data ({version}) {expected}")
    cause = Cause("FieldValueInvalid", "kind", f'Invalid value: "{name}": must be {resource.kind}')
    metadata = sent.get("metadata")
    about = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return refusals.invalid(replace(resource, kind=name), str(about), [cause])


def check_place(target: Target, obj: Object) -> None:
    """Check that name and namespace of the object are those of the URL.

    Raises:
        BadRequest: its name or namespace differs.
    """
    metadata = obj["metadata"]
    if metadata.get("namespace") not in (None, "", target.namespace):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    name = metadata.get("name", "")
    if target.name and not name:
        said = "was undeterminable: name must be provided"
        raise BadRequest(f"the name of the object ({target.name} based on URL) {said}")
    if target.name and name != target.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


_NO_APPLY = "server-side apply of a subresource other than status is not supported by this server"


def edit_of(kind: ServedKind, media: str, patch: Any) -> Callable[[Object], Object]:
    """The change that a patch makes.

    Raises:
        UnsupportedMedia: the kind does not support this type of patch.
        BadRequest: the patch is malformed.
    """
    if media == JSON_PATCH:
        return lambda obj: _bounded(apply_json(obj, patch))
    if media == APPLY_PATCH:
        raise UnsupportedMedia(_NO_APPLY)  # on objects and their status it is a verb of ``writing``
    if media not in (MERGE_PATCH, STRATEGIC_PATCH) or (media == STRATEGIC_PATCH and not kind.strategic):
        if not kind.custom:
            raise UnsupportedMedia("415: Unsupported Media Type")
        taken = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
        said = "the body of the request was in an unknown format - accepted media types include:"
        raise UnsupportedMedia(f"{said} {', '.join(taken)}")
    if not isinstance(patch, dict):
        said = gojson.cannot_unmarshal(patch, "map[string]interface {}")
        raise BadRequest(said if media == STRATEGIC_PATCH else f"error decoding patch: {said}")
    if media == STRATEGIC_PATCH:  # unlike in other patches, an integer field takes 3.0
        return lambda obj: apply_strategic(obj, gojson.whole(patch), kind.schema.merge_keys)
    return lambda obj: apply_merge(obj, patch)


def _bounded(obj: Object) -> Object:
    """The object, unless operations that copy and move have nested it too deep."""
    if not gojson.writable(obj):
        raise BadRequest(str(gojson.TooDeep()))
    return obj


def limited_to_subresource(kind: ServedKind, new: Object, old: Object, subresource: str, now: str) -> Object:
    """``old`` with those changes of ``new`` that a write to this subresource (empty: the object) may make."""
    if subresource in kind.parts:
        return kind.parts[subresource].limit(new, old, now)
    if subresource == "status":
        return _only_status(kind, new, old)
    if subresource == "finalize":
        return _with_finalizers(old, new)
    if subresource == "binding":
        return new
    if "finalize" in kind.subresources:
        new = _with_finalizers(new, old)
    if kind.has_status and new.get("status") is not old.get("status"):
        kept = {key: value for key, value in new.items() if key != "status"}
        return {**kept, "status": old["status"]} if "status" in old else kept
    return new


def _with_finalizers(obj: Object, source: Object) -> Object:
    """The namespace ``obj`` with the ``spec.finalizers`` of ``source``."""
    finalizers = (source.get("spec") or {}).get("finalizers", [])
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if name != "finalizers"}
    if finalizers == (obj.get("spec") or {}).get("finalizers", []):
        return obj
    return {**obj, "spec": {**spec, **({"finalizers": finalizers} if finalizers else {})}}


def _only_status(kind: ServedKind, new: Object, old: Object) -> Object:
    """``old`` with the new status; in built-in kinds also labels and annotations: kubelets write them. There
    a uid that was sent is compared too (``metadata.causes_changed``); of a custom kind it is not looked at.
    """
    result = {key: value for key, value in old.items() if key != "status"}
    if "status" in new:
        result["status"] = new["status"]
    if not kind.custom:
        theirs = ("labels", "annotations")
        kept = {name: value for name, value in old["metadata"].items() if name not in theirs}
        told = {name: new["metadata"][name] for name in (*theirs, "uid") if name in new["metadata"]}
        result["metadata"] = {**kept, **told}
    return result


def with_generation(kind: ServedKind, new: Object, old: Object) -> Object:
    """``new`` with the next generation if anything but metadata and (as a subresource) status changed."""
    if not kind.has_generation:
        return new
    beside = ("metadata", "status") if kind.has_status else ("metadata",)
    before = old["metadata"].get("generation", 0)
    same = all(new.get(key) == old.get(key) for key in new.keys() | old.keys() if key not in beside)
    after = before if same else before + 1
    if new["metadata"].get("generation", 0) == after:
        return new
    return {**new, "metadata": {**new["metadata"], "generation": after}}


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


LONGEST_GRACE = 2**31 - 1
"""Most seconds of grace: 68 years, so that the deletionTimestamp is a valid date."""

FOREGROUND_FINALIZER, ORPHAN_FINALIZER = "foregroundDeletion", "orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options and preconditions of a delete; the defaults are those of the kind."""

    uid: str = ""
    resource_version: str = ""
    grace: int | None = None
    propagation: str = ""


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the object at once: it has no finalizer and no grace period."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Keep the object, marked as being deleted; ``obj`` may equal the stored one."""

    obj: Object


def held(kind: ServedKind, obj: Object) -> bool:
    """Whether a finalizer keeps the object. Namespaces have a second list, in their spec."""
    if obj["metadata"].get("finalizers"):
        return True
    return "finalize" in kind.subresources and bool((obj.get("spec") or {}).get("finalizers"))


def finished(kind: ServedKind, obj: Object) -> bool:
    """Whether a marked object has nothing left to wait for."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("deletionGracePeriodSeconds")
        and not held(kind, obj)
    )


def delete(kind: ServedKind, obj: Object, deletion: DeleteOptions, now: datetime) -> Remove | Mark:
    """What a delete does to the stored object."""
    if "deletionTimestamp" in obj["metadata"]:
        return _delete_again(kind, obj, deletion, now)
    obj = _with_propagation(obj, deletion.propagation)
    grace = _grace(kind, obj, deletion)
    if grace == 0 and not held(kind, obj):
        return Remove()
    return Mark(_marked(kind, obj, now, grace))


def _delete_again(kind: ServedKind, obj: Object, deletion: DeleteOptions, now: datetime) -> Remove | Mark:
    """A second delete can shorten the grace period; when none runs, it may say otherwise of dependents."""
    running = obj["metadata"].get("deletionGracePeriodSeconds") or 0
    if running and (deletion.grace is None or deletion.grace >= running):
        return Mark(obj)
    obj = _with_propagation(obj, deletion.propagation)
    if not running:
        return Mark(obj) if held(kind, obj) else Remove()
    if deletion.grace is not None and deletion.grace <= 0 and not held(kind, obj):
        return Remove()
    grace = max(deletion.grace or 0, 0)
    metadata = obj["metadata"]
    sooner = parse_rfc3339(metadata["deletionTimestamp"]) - timedelta(seconds=running - grace)
    if sooner < now:  # never in the past; who asked for some grace leaves the end to the kubelet
        sooner, grace = now, min(grace, 1)
    stamps = {"deletionTimestamp": rfc3339(sooner), "deletionGracePeriodSeconds": grace}
    return Mark({**obj, "metadata": {**metadata, **stamps}})


def _grace(kind: ServedKind, obj: Object, deletion: DeleteOptions) -> int:
    if kind.grace_seconds is None:
        return 0
    default = kind.grace_seconds(obj)
    wanted = default if deletion.grace is None else deletion.grace
    # Zero by default: no kubelet runs the Pod, so it needs no grace period.
    return 0 if default == 0 else 1 if wanted < 0 else min(wanted, LONGEST_GRACE)


def _marked(kind: ServedKind, obj: Object, now: datetime, grace: int) -> Object:
    metadata = obj["metadata"]
    stamps = {
        "deletionTimestamp": rfc3339(now + timedelta(seconds=grace)),
        "deletionGracePeriodSeconds": grace,
    }
    generation = {"generation": metadata["generation"] + 1} if metadata.get("generation") else {}
    marked = {**obj, "metadata": {**metadata, **generation, **stamps}}
    if "finalize" in kind.subresources:
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return marked


def _with_propagation(obj: Object, policy: str) -> Object:
    wanted = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER}.get(policy)
    before = obj["metadata"].get("finalizers", [])
    if not policy:
        return obj
    others = [each for each in before if each not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    after = [*others, wanted] if wanted else others
    return obj if after == before else {**obj, "metadata": {**obj["metadata"], "finalizers": after}}
