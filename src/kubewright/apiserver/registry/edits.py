"""The change that an update makes: applying a patch, limits of each subresource, the generation. Pure.

Theory.      An object has several writers: users own its spec, controllers its status, the
             namespace controller a namespace's finalizers. Each endpoint takes its part of the
             sent object and keeps the rest as stored, so that no writer undoes another's change by accident.
             The generation counts changes of the desired state.
"""

from collections.abc import Callable
from typing import Any

from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.wire import gojson
from kubewright.wire.errors import BadRequest, UnsupportedMedia
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubewright.wire.patch import apply_json, apply_merge, apply_strategic

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
