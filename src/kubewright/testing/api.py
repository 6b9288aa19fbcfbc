"""Plain questions to any API server, for tests that judge answers: status, body, watch events.

Theory.      ``kube.client.Client`` hides what a conformance test wants to see: codes, headers, bodies of
             refusals. ``Api`` sends exactly what a test says over any transport, and shows all of
             the answer. The same test then runs on the embedded server (in process, virtual
             time) and on a real kube-apiserver.
Invariants.  Nothing is retried, but for one answer that says nothing of the request: a real server whose
             cache of a kind is being made anew, as after a change of its definition, says 429 until it
             is there. Every wait has a deadline.
Called by    tests/conformance; any comparison of two servers.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kubewright.base.clock import Clock
from kubewright.kube.transport import Transport
from kubewright.wire.errors import ApiError
from kubewright.wire.http import JSON, MERGE_PATCH, Request

CALL_SECONDS = 30.0
POLL_SECONDS = 0.1
CACHE_SECONDS = 20.0
CACHE_IS_BEING_MADE = "storage is (re)initializing"
"""What kube-apiserver 1.36 says with 429, and for how long a test asks again."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. ``body`` is decoded JSON, or text when it is none."""

    code: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""

    @property
    def message(self) -> str:
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else str(self.body)

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """(reason, field, message) of every cause, in the order given."""
        causes = (self.body.get("details") or {}).get("causes") or []
        return [(c.get("reason", ""), c.get("field", ""), c.get("message", "")) for c in causes]

    def ok(self) -> Object:
        """The object answered; an assertion that there was no refusal."""
        assert self.code < 300, f"{self.code} {self.message}"
        body: Object = self.body
        return body


class Watch:
    """The events of one watch, in order."""

    def __init__(self, lines: AsyncIterator[Object]) -> None:
        self._lines = lines

    async def next(self, type_: str = "") -> Object:
        """The next event that is no bookmark; of type ``type_`` if given.

        Raises:
            StopAsyncIteration: the server ended the watch.
        """
        while (event := await anext(self._lines))["type"] == "BOOKMARK":
            pass
        assert not type_ or event["type"] == type_, event
        return event

    async def bookmark(self) -> Object:
        """The next bookmark; events before it are dropped."""
        while (event := await anext(self._lines))["type"] != "BOOKMARK":
            pass
        return event

    async def rest(self) -> list[Object]:
        """Everything until the server ends the watch."""
        return [event async for event in self._lines]


class Api:
    """One server. ``flavour`` is ``embedded`` or ``real``; ``namespace`` is the test's own; ``headers``
    go with every request."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        flavour: str,
        namespace: str = "default",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.flavour = flavour
        self.namespace = namespace
        self._headers = dict(headers or {})

    def as_user(self, name: str, *, group: str = "") -> "Api":
        """The same server, asked as another user (by impersonation)."""
        headers = {"impersonate-user": name, **({"impersonate-group": group} if group else {})}
        return Api(self.transport, self.clock, self.flavour, self.namespace, headers=headers)

    def differs(self, what: str) -> bool:
        """Whether this is the embedded server, which differs here on purpose.

        ``what`` is a heading of docs/reference/api-differences.md; a test sees to it that both
        name the same differences.
        """
        assert what
        return self.flavour == "embedded"

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """Send; ``body`` is bytes as they are, or an object that becomes JSON."""
        request = _request(method, path, query or {}, accept=accept, body=body, content_type=content_type)
        request = replace(request, headers={**request.headers, **self._headers})
        deadline = self.clock.monotonic() + CACHE_SECONDS
        while True:
            response = await self.transport.request(request, timeout=CALL_SECONDS)
            answer = Answer(response.status, _decoded(response.body), response.headers)
            if not _cache_is_being_made(answer.code, answer.message) or self.clock.monotonic() >= deadline:
                return answer
            await self.clock.sleep(POLL_SECONDS)

    async def get(self, path: str, *, accept: str = JSON, **query: str) -> Answer:
        return await self.call("GET", path, query=query, accept=accept)

    async def post(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("POST", path, body, query=query)

    async def put(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("PUT", path, body, query=query)

    async def patch(self, path: str, body: Any, *, content_type: str = MERGE_PATCH, **query: str) -> Answer:
        return await self.call("PATCH", path, body, query=query, content_type=content_type)

    async def delete(self, path: str, body: Any = None, **query: str) -> Answer:
        return await self.call("DELETE", path, body, query=query)

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = JSON, **query: str) -> AsyncIterator[Watch]:
        """Watch a collection until the block ends.

        Raises:
            ApiError: the server refused.
        """
        asked = {"timeoutSeconds": "20", **query, "watch": "true"}
        request = _request("GET", path, asked, accept=accept)
        request = replace(request, headers={**request.headers, **self._headers})
        async with AsyncExitStack() as opened:
            yield Watch(_lines(await self._open(request, opened)))

    async def _open(self, request: Request, opened: AsyncExitStack) -> AsyncIterator[bytes]:
        deadline = self.clock.monotonic() + CACHE_SECONDS
        while True:
            try:
                return await opened.enter_async_context(self.transport.stream(request))
            except ApiError as error:
                if not _cache_is_being_made(error.code, error.message) or self.clock.monotonic() >= deadline:
                    raise
                await self.clock.sleep(POLL_SECONDS)

    async def eventually(
        self, check: Callable[[], Awaitable[Any]], what: str, *, seconds: float = 40.0
    ) -> Any:
        """Ask until the answer is true, and return it; an assertion error after ``seconds``."""
        deadline = self.clock.monotonic() + seconds
        while not (answer := await check()):
            assert self.clock.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            await self.clock.sleep(POLL_SECONDS)
        return answer

    async def gone(self, path: str, *, seconds: float = 20.0) -> None:
        """Wait until there is nothing at ``path``."""

        async def absent() -> bool:
            return (await self.get(path)).code == 404

        await self.eventually(absent, f"{path} is gone", seconds=seconds)

    def at(self, plural: str, name: str = "", *, group: str = "", version: str = "v1") -> str:
        """A path in the test's namespace: ``at("pods", "a")``."""
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return "/".join(part for part in (prefix, "namespaces", self.namespace, plural, name) if part)


def _cache_is_being_made(code: int, message: str) -> bool:
    return code == 429 and CACHE_IS_BEING_MADE in message


def _request(
    method: str,
    path: str,
    query: Mapping[str, str],
    *,
    accept: str,
    body: Any = None,
    content_type: str = JSON,
) -> Request:
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"accept": accept, "user-agent": "kubewright-conformance"}
    if body is not None:
        headers["content-type"] = content_type
    pairs = tuple((_wire_name(name), value) for name, value in query.items())
    return Request(method, path, pairs, headers, raw)


def _wire_name(name: str) -> str:
    """``continue_`` is how Python spells the query parameter ``continue``."""
    return name.rstrip("_")


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body) if body else {}
    except ValueError:
        return body.decode(errors="replace")


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[Object]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield json.loads(line)
