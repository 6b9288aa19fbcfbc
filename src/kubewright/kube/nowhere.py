"""A transport to no cluster: what is asked for is not there, and nothing changes.

Theory.      Machines may have no cluster that their VMs join (``--target-kubeconfig none``). Controllers
             still ask for nodes, and the answer that lets all of them go on is that there is none: lists are
             empty, objects are not found (each by its name: that is certain), a watch shows nothing. So no
             controller has to know two kinds of worlds; what a machine without a node is, is one setting
             (``MachineSettings.joins``).
Invariants.  Nothing can be written. A watch ends when its client has asked it to, and until then tells every
             minute that it lives, as a server does.
Called by    ``compose.on_kubernetes``.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec

from kubewright.base.clock import Clock
from kubewright.wire.errors import ApiError, MethodNotAllowed, NotFound, to_status
from kubewright.wire.http import Request, Response

BOOKMARK_SECONDS = 60.0
VERSION = b'"metadata":{"resourceVersion":"1"}'
EMPTY = Response(200, b'{"apiVersion":"v1","kind":"List","items":[],' + VERSION + b"}")
BOOKMARK = b'{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"List",' + VERSION + b"}}\n"


class Nowhere:
    """Answers as a server without objects does. ``clock`` times the watches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        if request.method == "GET" and _is_list(request.path):
            return EMPTY
        said = f"{request.method} {request.path}: there is no cluster that has it"
        missing = NotFound(said, details={"name": "".join(_parts(request.path)[1:2])})
        error: ApiError = MethodNotAllowed(said) if request.method == "POST" else missing
        return Response(error.code, msgspec.json.encode(to_status(error)))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        stream = self._bookmarks(float(request.param("timeoutSeconds", "300")))
        async with aclosing(stream):
            yield stream

    async def _bookmarks(self, seconds: float) -> AsyncGenerator[bytes, None]:
        """A bookmark each minute, for so many seconds."""
        end = self._clock.monotonic() + seconds
        while (left := end - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(BOOKMARK_SECONDS, left))
            yield BOOKMARK

    async def close(self) -> None:
        """As ``Transport.close``: there is nothing to give up."""


def _is_list(path: str) -> bool:
    """Whether a path names a collection, in a namespace, in all of them or outside; discovery is none."""
    return len(_parts(path)) == 1


def _parts(path: str) -> list[str]:
    """The plural of a kind, then the name of an object, then its subresource, as far as a path has them."""
    _, root, *rest = path.split("/")
    parts = rest[1:] if root == "api" else rest[2:]
    return parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts
