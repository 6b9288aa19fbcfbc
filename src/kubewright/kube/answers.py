"""The answers of an API server as values: lists, deletions, refusals. No I/O.

Theory.      Objects stay bytes here: ``msgspec.Raw`` finds where each one begins and ends, and
             an object is decoded only when a caller looks at it.
Called by    the client, the reflector and the transports.
"""

import re
from dataclasses import dataclass

import msgspec
from msgspec import Raw, Struct

from kubewright.kube.errors import BadAnswer
from kubewright.wire import gojson
from kubewright.wire.errors import ApiError, from_status, without_words
from kubewright.wire.http import Request, Response

_SECRETS = re.compile("/api/v1/(?:namespaces/[^/]+/)?secrets(?:/.*)?")
"""The paths of Secrets."""


def failure(response: Response) -> ApiError:
    """The error for an answer of 400 and above, with the delay it asks for."""
    return refusal(response.status, response.body, response.headers.get("retry-after", ""))


def refused(request: Request, response: Response) -> ApiError:
    """The error for an answer of 400 and above to a request. What a server says when it refuses to write a
    Secret is left out, since it may quote what is in it."""
    error = failure(response)
    writes = request.method in ("POST", "PUT", "PATCH") and _SECRETS.fullmatch(request.path) is not None
    return without_words(error) if writes else error


def refusal(code: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error that a ``Status`` describes; whatever else the body is, the code counts."""
    try:
        return from_status(code, msgspec.json.decode(body), _seconds(retry_after))
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return from_status(code, None, _seconds(retry_after))


def _seconds(text: str) -> float | None:
    """``Retry-After`` in seconds; API servers do not send its form as a date, which counts as absent."""
    return float(text) if text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: the objects as bytes, the list's version, the token of the next page."""

    items: list[Raw]
    version: int
    token: str


class _ListMeta(Struct, rename="camel", gc=False):
    resource_version: str = ""
    token: str = msgspec.field(name="continue", default="")


class _List(Struct, gc=False):
    metadata: _ListMeta
    items: list[Raw] | None = None


_list = msgspec.json.Decoder(_List)


def read_page(body: bytes) -> Page:
    """Split a list answer.

    Raises:
        BadAnswer: it is not a list.
    """
    try:
        try:
            answer = _list.decode(body)
        except RecursionError:
            answer = _list.decode(gojson.shallow(body, gojson.LEVEL_OF_LIST))
        return Page(answer.items or [], int(answer.metadata.resource_version or 0), answer.metadata.token)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadAnswer(f"the server answered a list request with something else: {error}") from None


class StatusDetails(Struct, gc=False):
    """The ``details`` of a ``Status``: which object it is about."""

    uid: str = ""


class _Status(Struct, gc=False):
    kind: str = ""
    details: StatusDetails | None = None


_status = msgspec.json.Decoder(_Status)


def read_status(body: bytes) -> StatusDetails | None:
    """The details of the ``Status`` that answers a delete; None when the answer is the object itself.

    Raises:
        BadAnswer: it is neither of the two.
    """
    try:
        try:
            answer = _status.decode(body)
        except RecursionError:
            answer = _status.decode(gojson.shallow(body, gojson.LEVEL_OF_OBJECT))
    except msgspec.DecodeError as error:
        raise BadAnswer(f"the server answered a delete with something else: {error}") from None
    if answer.kind != "Status":
        return None
    return answer.details or StatusDetails()
