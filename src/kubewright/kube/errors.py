"""The errors of requests without a usable answer: what can happen between us and an API server.

Theory.  An answer of 400 and above is not here: that is ``wire.errors.ApiError``. Everything here
         is retried by the key's own backoff. Only ``ConnectFailed`` proves that nothing happened,
         so only it lets ``retries`` repeat an unguarded write; ``unanswered`` asks that question of
         any error. ``MayBeGone`` tells the end of an object from a 404 that says nothing of it.
"""

from kubewright.base.errors import Backoff, KubewrightError, Retry
from kubewright.wire.errors import ApiError, NotFound


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
    """This process does not lead any more, so this write was not sent (``fence``)."""


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
