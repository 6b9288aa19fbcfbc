"""From what a client sent to an object of the kind: identity, unknown fields, defaults, rules.

Invariants.  Pure but for the warnings it leaves in ``Options``. What comes out of ``taken`` has the
             kind's apiVersion and kind, no unknown field, and its defaults.
"""

from collections.abc import Sequence
from typing import Any

from kubewright.wire.errors import ApiError, BadRequest
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Cause, Object, ServedKind
from kubewright.apiserver.registry.metadata import shaped
from kubewright.apiserver.registry.target import IGNORE, STRICT, Options, Target


def taken(kind: ServedKind, sent: Any, options: Options, *, doubled: Sequence[str] = ()) -> Object:
    """The object that a body means. ``doubled`` are the paths of fields that stood in it twice.

    Raises:
        BadRequest: it is of another kind, malformed, or (strict) has unknown or double fields.
    """
    obj = shaped(kind, identified(kind, sent))
    kept = kind.schema.prune(obj)
    if (kept is not obj or doubled) and options.validation != IGNORE:
        unknown = [f'unknown field "{path}"' for path in kind.schema.unknown_fields(obj)] if kept is not obj else []
        _complain(kind, [*unknown, *(f'duplicate field "{path}"' for path in doubled)], options)
    return kind.schema.default(kept)


def _complain(kind: ServedKind, said: list[str], options: Options) -> None:
    if not said:
        return
    if options.validation == STRICT:
        error = f"strict decoding error: {', '.join(said)}"
        raise BadRequest(error) if kind.custom else refusals.cannot_be_handled(kind.resource, error)
    options.warnings += said


def identified(kind: ServedKind, sent: Any) -> Any:
    """The body with apiVersion and kind, which a client may leave out for built-in kinds only."""
    if not isinstance(sent, dict):
        return sent
    resource = kind.resource
    version, name = sent.get("apiVersion"), sent.get("kind")
    if version == resource.api_version and name == resource.kind:
        return sent
    if kind.custom and not (version and name):
        what = "Kind" if not name else "apiVersion"
        raise BadRequest(f"Object '{what}' is missing in the object that was sent")
    if (version or resource.api_version) == resource.api_version and (name or resource.kind) == resource.kind:
        return {"apiVersion": resource.api_version, "kind": resource.kind, **sent}
    sent_as = f"{version or resource.api_version}, Kind={name or resource.kind}"
    wanted = f"{resource.api_version}, Kind={resource.kind}"
    raise BadRequest(
        f"the API version and kind in the data ({sent_as}) do not match the expected ones ({wanted})",
    )


def placed(target: Target, obj: Object) -> None:
    """The object must be where the URL says.

    Raises:
        BadRequest: its name or namespace is another one.
    """
    metadata = obj["metadata"]
    if metadata.get("namespace") not in (None, "", target.namespace):
        said = "the namespace of the provided object does not match the namespace sent on the request"
        raise BadRequest(said)
    name = metadata.get("name", "")
    if target.name and name != target.name:
        if not name:
            raise BadRequest("the name of the object must be set: it is not in the body")
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def refusal(kind: ServedKind, name: str, causes: Sequence[Cause], *, patched: bool = False) -> ApiError:
    """The error for an object that breaks rules: built-in kinds cannot even be read with wrong types."""
    wrong = [cause for cause in causes if cause.reason == "FieldValueTypeInvalid"]
    if wrong and not kind.custom and not patched:
        said = ", ".join(f"{cause.field}: {cause.message}" for cause in wrong)
        return refusals.cannot_be_handled(kind.resource, f"json: cannot unmarshal: {said}")
    return refusals.invalid(kind.resource, name, causes)
