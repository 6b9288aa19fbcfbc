"""The conditions of a patch: on which object, and on which version of it, it applies.

Theory.      Third parties own fields of the same objects, so we never send a whole object back
             (design decision D3). A reconciler changes a copy of what it read; the difference is
             the patch (``api.diff``), and the condition that goes with it says what it was computed from.
             A condition that is not met is a ``Conflict``, whether it is the version or the uid: nothing has
             been refused, and the next look decides anew.
Called by    every ``act`` that patches; ``Client.patch`` sends the result.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.diff import Patch
from kubewright.api.meta import ObjectMeta
from kubewright.wire.errors import Conflict, Invalid


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

    The server answers ``Invalid`` when it does not; ``Client.patch`` raises ``Conflict`` (``conflict_of``).
    Of a custom kind, servers do not look at it in a status: there only the version is a condition.
    """
    return _with_metadata(patch, "uid", uid)


def conflict_of(error: Invalid, body: Any) -> Conflict | None:
    """What an answer to a patch means that names the uid of an object whose name another one has by now; None
    if the answer is about something else.

    To a server the uid in a patch is a field that never changes, so it says that the patch is invalid, as it
    says of a value that breaks a rule. But for who sent it, it was a condition, as the version is.
    """
    another = uid_of(body) and any(cause.get("field") == "metadata.uid" for cause in error.causes)
    return Conflict(error.message, details=error.details) if another else None


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
