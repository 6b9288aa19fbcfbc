"""The errors of the registry, with kube-apiserver's messages, which users and clients know.

Every function returns an error and does not raise it: ``raise not_found(...)`` shows the control flow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.apiserver.schema.causes import TOO_MANY, Cause, bounded
from kubewright.wire import errors
from kubewright.wire.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
)
from kubewright.wire.gvk import Resource

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def _about(resource: Resource, name: str, **more: Any) -> dict[str, Any]:
    named = {"name": name} if name else {}
    group = {"group": resource.group} if resource.group else {}
    return {**named, **group, "kind": resource.plural, **more}


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource} "{name}" not found', details=_about(resource, name))


def other_namespace() -> BadRequest:
    """The namespace in the body is not that of the URL."""
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def no_such_path() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def already_exists(resource: Resource, name: str, *, deleting: bool = False) -> AlreadyExists:
    said = "object is being deleted: " if deleting else ""
    return AlreadyExists(f'{said}{resource} "{name}" already exists', details=_about(resource, name))


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> Conflict:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Conflict(message, details=_about(resource, name))


def apply_conflict(message: str, causes: Sequence[Mapping[str, str]]) -> Conflict:
    """An apply would change fields of other managers; the causes name each of them."""
    return Conflict(message, details={"causes": list(causes)})


def precondition_failed(resource: Resource, name: str, why: str) -> Conflict:
    """A precondition of a delete failed; here kube-apiserver names the kind, not the resource."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {**_about(resource, name), "kind": resource.kind}
    return Conflict(f'Operation cannot be fulfilled on {kind} "{name}": {why}', details=details)


def forbidden(resource: Resource, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()) -> Forbidden:
    subject = f'{resource} "{name}"' if name else f"{resource}"
    more = {"causes": list(causes)} if causes else {}
    return Forbidden(f"{subject} is forbidden: {why}", details=_about(resource, name, **more))


def no_kubelet(resource: Resource, name: str, subresource: str) -> ApiError:
    """For subresources that need a kubelet: 501, so that a client can tell this from a missing pod."""
    why = "no containers run behind the pods of this node, as it has no kubelet that could be asked"
    said = f'{resource} "{name}" has no {subresource}: {why}'
    return ApiError(said, code=501, reason="NotImplemented", details=_about(resource, name))


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> Invalid:
    """422 with every cause, as far as there is a bound for them."""
    # The one that stands for others comes last, and does not count.
    cut = [cause for cause in causes if cause.reason == TOO_MANY]
    shown = causes if cut else bounded(causes)
    told = [{"reason": c.reason, "message": c.message, "field": c.field} for c in shown]
    return errors.invalid(resource, name, told)


def cannot_be_handled(resource: Resource, why: str) -> BadRequest:
    """The body cannot be decoded as the kind."""
    kind, version = resource.kind, resource.version
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def expired(message: str) -> Gone:
    return Gone(message, reason="Expired")


def too_large_version(asked: int, current: int) -> ApiError:
    """A version that is not there yet. kube-apiserver waits first; this server has only one store."""
    return ApiError(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        code=504,
        reason="Timeout",
        details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
        retry_after=1.0,
    )
