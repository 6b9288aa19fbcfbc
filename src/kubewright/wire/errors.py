"""The errors of an API server: one exception per reason, and the Status body of each.

Tree.    ApiError                     any answer of 400 and above
         ├── Refusal                  the same request is refused again, until something else has changed
         │   ├── BadRequest       400    malformed request, body, selector or parameter
         │   ├── MethodNotAllowed 405
         │   ├── NotAcceptable    406
         │   ├── TooLarge         413
         │   ├── UnsupportedMedia 415
         │   └── Invalid          422    the object breaks its schema or rules; ``causes`` says where
         ├── Unauthorized     401
         ├── Forbidden        403
         ├── NotFound         404
         ├── Conflict         409    the resourceVersion or uid was not the one expected: look again
         │   └── AlreadyExists 409   the name is taken
         ├── Gone             410    the history asked for is no longer kept (also reason Expired)
         ├── TooManyRequests  429    retry after ``retry_after``; also when a budget forbids an eviction
         ├── ServerError      500
         └── Unavailable      503, 504

Theory.  The server raises these and ``to_status`` renders them; the client parses the body with
         ``from_status`` and raises the same class, so both sides catch the same classes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubewright.base import delays
from kubewright.base.errors import After, Backoff, KubewrightError, Retry
from kubewright.wire.gvk import Resource

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause in the refusal of a new object in a namespace that is being deleted."""


class ApiError(KubewrightError):
    """An API server refused. ``details`` is the Status' details object, ``message`` its message."""

    code: int = 500
    reason: str = "Unknown"

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.code = code or type(self).code
        self.reason = type(self).reason if reason is None else reason
        self.retry_after = retry_after
        if retry_after is not None:
            self.retry: Retry = After(retry_after)

    @property
    def causes(self) -> Sequence[Mapping[str, str]]:
        """The ``{reason, message, field}`` entries of a validation failure."""
        causes: Sequence[Mapping[str, str]] = self.details.get("causes", ())
        return causes


class Refusal(ApiError):
    """The server answers the same request so again, until the object or a rule of the cluster has changed.

    Rules change unseen (a webhook, a policy, a CRD), so time alone brings the next attempt.
    """

    retry: Retry = delays.MEDIUM


class BadRequest(Refusal):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"

    @property
    def namespace_ends(self) -> bool:
        """Whether that is because the namespace is being deleted: the refusal will not change, and what was
        to be in the namespace goes with it."""
        return any(cause.get("reason") == NAMESPACE_TERMINATING for cause in self.causes)


class NotFound(ApiError):
    code, reason = 404, "NotFound"

    def names(self, name: str) -> bool:
        """Whether the server says that the object of this name does not exist. It does not while it serves no
        such kind (its CRD is applied anew), and a proxy does not."""
        return self.details.get("name") == name


class MethodNotAllowed(Refusal):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(Refusal):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    code, reason, retry = 409, "Conflict", delays.OVERTAKEN


class AlreadyExists(Conflict):
    code, reason = 409, "AlreadyExists"


class Gone(ApiError):
    code, reason = 410, "Expired"


class TooLarge(Refusal):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMedia(Refusal):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(Refusal):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class ServerError(ApiError):
    code, reason, retry = 500, "InternalError", Backoff()


class Unavailable(ApiError):
    code, reason, retry = 503, "ServiceUnavailable", Backoff()


def invalid(resource: Resource, name: str, causes: Sequence[Mapping[str, str]]) -> Invalid:
    """422 with every cause, at least one; the message joins them as kube-apiserver does."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    said = _joined(f"{cause['field']}: {cause['message']}" for cause in causes)
    about = {"name": name, "group": resource.group, "kind": resource.kind}
    details = {**{key: value for key, value in about.items() if value}, "causes": list(causes)}
    return Invalid(f'{kind} "{name}" is invalid: {said}', details=details)


def _joined(sentences: Iterable[str]) -> str:
    said = list(dict.fromkeys(sentences))
    return said[0] if len(said) == 1 else f"[{', '.join(said)}]"


def is_refusal(error: BaseException) -> bool:
    """Whether the server would refuse the same request again: by validation, RBAC or a webhook.

    False for a conflict (read again), for what does not exist (a cache will show it), for too many requests,
    for server errors, and for invalid credentials (401): they are refreshed, or no request works at all.
    """
    return isinstance(error, Forbidden | Refusal)


STALE = (AlreadyExists, Conflict, NotFound)
"""What a server says when an object is no longer as it was seen: a cache will soon show how it is."""


def is_stale(error: BaseException) -> bool:
    """Whether the server says that an object is no longer as it was seen, or is gone, or is another one.

    A 404 that names no object says nothing of it (``NotFound.names``).
    """
    if isinstance(error, NotFound):
        return bool(error.details.get("name"))
    return isinstance(error, STALE)


_KNOWN: tuple[type[ApiError], ...] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists, Conflict,
    Gone, TooLarge, UnsupportedMedia, Invalid, TooManyRequests, ServerError, Unavailable,
)  # fmt: skip
_BY_REASON = {known.reason: known for known in _KNOWN}
_BY_CODE = {known.code: known for known in _KNOWN}


def to_status(error: ApiError) -> dict[str, Any]:
    """The ``Status`` object that goes over the wire for an error."""
    details = dict(error.details)
    if error.retry_after is not None:
        details["retryAfterSeconds"] = int(error.retry_after)
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "details": details,  # always: kubectl looks into it without asking whether it is there
        "code": error.code,
    }


def from_status(code: int, body: Any, retry_after: float | None = None) -> ApiError:
    """The exception for an answer of 400 and above; ``body`` is its decoded JSON, or anything else.

    Proxies answer with HTML or nothing: then only the code counts.
    """
    status: Mapping[str, Any] = body if isinstance(body, Mapping) and body.get("kind") == "Status" else {}
    code = int(status.get("code") or code)
    reason = str(status.get("reason") or "")
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(details["retryAfterSeconds"])
    fallback = Unavailable if code in (502, 504) else ServerError if code >= 500 else ApiError
    known = _BY_REASON.get(reason) or _BY_CODE.get(code) or fallback
    message = str(status.get("message") or f"the server answered {code}")
    return known(message, details=details, code=code, reason=reason or known.reason, retry_after=retry_after)


def without_words(error: ApiError) -> ApiError:
    """The same error, of the same object and the same fields, without what the server has said: that may
    quote the object."""
    details = {name: told for name, told in error.details.items() if name != "causes"}
    if fields := [{"field": cause.get("field", "")} for cause in error.causes]:
        details["causes"] = fields
    return type(error)(
        f"the server answered {error.code} {error.reason}",
        details=details,
        code=error.code,
        reason=error.reason,
        retry_after=error.retry_after,
    )
