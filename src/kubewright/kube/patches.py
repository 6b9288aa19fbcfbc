"""The conditions of a patch: on which object, and on which version of it, it applies.

Theory.      Third parties own fields of the same objects, so we never send a whole object back
             (design decision D3). A reconciler changes a copy of what it read; the difference is
             the patch (``api.diff``), and the condition that goes with it says what it was computed from.
Called by    every ``act`` that patches; ``Client.patch`` sends the result.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.diff import Patch
from kubewright.api.meta import ObjectMeta
from kubewright.wire.errors import ApiError


def onto(patch: Mapping[str, Any], meta: ObjectMeta) -> Patch:
    """The patch for the very object, in the very version, that was read. An empty patch stays empty.

    The server answers ``Conflict`` when it has changed: a decision that rests on what was read is not
    written over anything else, however late the request arrives.
    """
    return with_version(with_uid(patch, meta.uid), meta.resource_version)


def with_version(patch: Mapping[str, Any], resource_version: str) -> Patch:
    """The patch with the condition that the object is still the one that was read.

    The server answers ``Conflict`` when it is not. An empty patch stays empty.
    """
    return _with_metadata(patch, "resourceVersion", resource_version)


def with_uid(patch: Mapping[str, Any], uid: str) -> Patch:
    """The patch with the condition that the name still belongs to this very object.

    ``Client.patch`` raises ``Conflict`` when it does not (``for_another``).
    It is no condition of a patch of the status of a custom resource: of that a server reads no metadata but
    the version.
    """
    return _with_metadata(patch, "uid", uid)


def for_another(body: Any, error: ApiError) -> bool:
    """Whether a patch was refused because its name belongs to another object than the one that it is for.

    A server answers that by ``Invalid``, not by ``Conflict``: the field is immutable.
    """
    return bool(uid_of(body)) and any(cause.get("field") == "metadata.uid" for cause in error.causes)


def guarded(body: Any) -> bool:
    """Whether a patch carries a condition on version or uid, so that sending it twice does no harm."""
    if isinstance(body, Mapping):
        metadata = body.get("metadata")
        return isinstance(metadata, Mapping) and any(
            metadata.get(name) for name in ("resourceVersion", "uid")
        )
    tested = ("/metadata/resourceVersion", "/metadata/uid")
    return any(step.get("op") == "test" and step.get("path") in tested for step in body)


def uid_of(body: Any) -> str:
    """The uid of the object that a patch is for; empty if it does not say."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return str(metadata.get("uid") or "") if isinstance(metadata, Mapping) else ""


def _with_metadata(patch: Mapping[str, Any], name: str, value: str) -> Patch:
    if not patch:
        return {}
    return {**patch, "metadata": {**patch.get("metadata", {}), name: value}}
