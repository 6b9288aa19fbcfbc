"""The errors of requests: no usable answer, or an answer of 400 and above. No I/O.

Theory.      ``TransportError`` is what can happen between us and an API server; it is retried by the key's
             own backoff. Only ``ConnectFailed`` proves that nothing happened, so only it lets
             ``health.pause`` repeat an unguarded write; ``unanswered`` asks that question of any error. What
             a server answers becomes a ``wire.errors.ApiError`` here. ``MayBeGone`` tells the end of an
             object from a 404 that says nothing of it.
Called by    the client, the feed, the transports, and all who catch what a request raises.
"""

import re

import msgspec

from kubewright.base.errors import Backoff, KubewrightError, Retry
from kubewright.wire.errors import ApiError, NotFound, from_status, without_words
from kubewright.wire.http import Request, Response


class TransportError(KubewrightError):
    """No usable answer from an API server; whether a write happened is unknown."""

    retry: Retry = Backoff()


class ConnectFailed(TransportError):
    """No connection could be made, or none was tried; nothing was sent, so no write happened."""


class Unresolved(ConnectFailed):
    """The name of the host has no address; nothing was sent."""


class Untrusted(ConnectFailed):
    """TLS came to no agreement: a certificate that we do not trust, or no TLS at all; nothing was sent."""


class LoginFailed(ConnectFailed):
    """A credential plugin or a token file failed; nothing was sent, least of all without credentials."""


class Silent(ConnectFailed):
    """The server did not answer the last requests, so this one was not sent (``health``)."""


class Deposed(ConnectFailed):
    """This process does not lead any more, so this write was not sent (``transport``)."""


class TimedOut(TransportError):
    """The deadline passed first."""


class Disconnected(TransportError):
    """The connection ended in the middle."""


class BadAnswer(TransportError):
    """The answer is not JSON, not an API object, or longer than we read."""


def unanswered(error: KubewrightError) -> bool:
    """Whether a write that ended so may have happened all the same: the server did not refuse it."""
    if isinstance(error, ApiError):
        return error.code >= 500
    return not isinstance(error, ConnectFailed)


class MayBeGone:
    """Goes on where the server says that the object of this name does not exist: that is what the request in
    the ``with`` was to bring about.

    Any other 404 is raised: it is that of a proxy without a backend, or of a server that does not serve the
    kind for now. A caller that took it for the end of the object would never look again.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return isinstance(error, NotFound) and error.names(self._name)


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
