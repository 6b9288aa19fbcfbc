"""One request and one response as values: the interface between every client and every server.

Theory.      A server is ``async (Request) -> Response`` (a ``Handler``). Behind a socket an
             adapter builds these values from HTTP; in process the client calls the handler
             itself, so tests and zero-setup mode use the very same server without a port.
Invariants.  Bodies are JSON bytes unless ``content_type`` says otherwise. A streamed answer is
             an async iterator of byte chunks and ends when the iterator does; the code that takes
             one closes it (``aclose``), which is how the server learns that a client has closed its watch.
             An answer 101 has a ``talk``: both sides send bytes from then on. The code that takes one calls
             it, and closes the stream that it gets.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Query = tuple[tuple[str, str], ...]


AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
"""The groups of users with valid credentials, and of those without credentials."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request, as authentication found it. ``extra`` are further values, by key."""

    name: str = "system:anonymous"
    groups: tuple[str, ...] = (UNAUTHENTICATED,)
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ADMIN = User("kubewright-admin", ("system:masters", AUTHENTICATED))
"""The user of requests within this process: no credentials needed."""


@dataclass(frozen=True, slots=True)
class Request:
    """``path`` is decoded and has no query; ``headers`` have lower-case names."""

    method: str
    path: str
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User = ADMIN

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), default)


Talk = Callable[[AsyncIterator[bytes]], AsyncGenerator[bytes, None]]
"""What follows a 101: from what the client sends, what it is sent."""


@dataclass(frozen=True, slots=True)
class Response:
    """``stream`` is set instead of ``body`` for a watch; ``headers`` have lower-case names.

    ``talk`` is set where the connection changes its protocol. ``patient``: a person may read what comes, and
    let it wait for hours.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None
    talk: Talk | None = None
    patient: bool = False


def upgrade_of(headers: Mapping[str, str]) -> str:
    """The protocol to which a request wants its connection to change; empty: to none that matters here."""
    wanted = headers.get("upgrade", "")
    return wanted if "upgrade" in headers.get("connection", "").lower() and wanted.lower() != "h2c" else ""


Handler = Callable[[Request], Awaitable[Response]]
