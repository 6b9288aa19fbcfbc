"""From what a client sent to an object of the kind: identity, types, unknown fields, defaults.

Invariants.  Pure but for the warnings it leaves in ``Options``. What comes out of ``normalized`` has the
             kind's apiVersion and kind, a ``metadata`` whose fields have their types, no unknown
             field, and its defaults.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.builtin.cells import at
from kubewright.apiserver.registry.custom import float_count
from kubewright.apiserver.registry.kind import MOST_CAUSES, Cause, Object, ServedKind
from kubewright.apiserver.registry.target import IGNORE, STRICT, Options, Target
from kubewright.apiserver.schema.causes import MOST_QUOTED
from kubewright.wire import gojson
from kubewright.wire.errors import ApiError, BadRequest, Invalid
from kubewright.wire.gvk import Resource


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
