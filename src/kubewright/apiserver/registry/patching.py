"""Which patch a content type means, and how it is applied to an object."""

from collections.abc import Callable
from typing import Any

from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.wire import gojson
from kubewright.wire.errors import BadRequest, UnsupportedMedia
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubewright.wire.patch import json_patch, merge, strategic

_NO_APPLY = (
    "server-side apply (application/apply-patch+yaml) is not supported by this server; "
    "use client-side apply (kubectl apply without --server-side), or a merge patch"
)


def edit_of(kind: ServedKind, media: str, patch: Any) -> Callable[[Object], Object]:
    """The change that a patch makes.

    Raises:
        UnsupportedMedia: the kind takes no such patch.
        BadRequest: the patch is malformed.
    """
    if media == JSON_PATCH:
        return lambda obj: json_patch.apply(obj, patch)
    if media == APPLY_PATCH:
        raise UnsupportedMedia(_NO_APPLY)
    if media not in (MERGE_PATCH, STRATEGIC_PATCH) or (media == STRATEGIC_PATCH and not kind.strategic):
        if not kind.custom:
            raise UnsupportedMedia("415: Unsupported Media Type")
        taken = (JSON_PATCH, MERGE_PATCH)
        said = "the body of the request was in an unknown format - accepted media types include:"
        raise UnsupportedMedia(f"{said} {', '.join(taken)}")
    if not isinstance(patch, dict):
        said = gojson.cannot_unmarshal(patch, "map[string]interface {}")
        raise BadRequest(said if media == STRATEGIC_PATCH else f"error decoding patch: {said}")
    if media == STRATEGIC_PATCH:
        return lambda obj: strategic.apply(obj, patch, kind.schema.merge_keys)
    return lambda obj: merge.apply(obj, patch)
