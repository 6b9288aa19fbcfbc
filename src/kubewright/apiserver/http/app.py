"""One request in, one answer out: authorization, routing, failures.

Theory.      Every error of a client is an ``ApiError`` and becomes a Status. Any other exception is a bug
             of ours: it is logged with its traceback and answered with 500, and the server goes on.
Invariants.  ``App`` is a ``Handler``: it does not know sockets. Every request is counted once.
"""

from collections.abc import Callable

import structlog

from kubewright.apiserver.http import answers, discovery, openapi, paths, status
from kubewright.apiserver.http.authz import Authorizer
from kubewright.apiserver.http.kubelets import Kubelets, no_upgrade
from kubewright.apiserver.http.resources import Resources, verb_of
from kubewright.apiserver.http.status import Call, Counts
from kubewright.apiserver.http.subresources import Subresources
from kubewright.apiserver.http.usage import GROUP as METRICS
from kubewright.apiserver.http.usage import Measurements
from kubewright.apiserver.kubelets.questions import STREAMS
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Catalog
from kubewright.apiserver.registry.policies import Policies
from kubewright.apiserver.registry.reading import Reading
from kubewright.apiserver.registry.subresources.tokens import Tokens
from kubewright.apiserver.registry.writing import Writing
from kubewright.apiserver.store import Refused, Store
from kubewright.base.clock import Clock
from kubewright.wire.errors import ApiError, ServerError, Unavailable
from kubewright.wire.http import Request, Response, upgrade_of

log = structlog.get_logger("kubewright.apiserver")

Page = Callable[[Request], bytes]
"""Answers the JSON of a page."""

_COUNTED_AS = {
    "get": "GET", "list": "LIST", "watch": "WATCH", "create": "POST",
    "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip


class App:
    """The server without a socket: ``listener`` and in-process clients call it with requests."""

    def __init__(
        self, store: Store, catalog: Catalog, writing: Writing, tokens: Tokens, clock: Clock
    ) -> None:
        self._store, self._catalog = store, catalog
        reading = Reading(store)
        self.counts = Counts()
        self.pages: dict[str, Page] = {}
        """Pages of what runs in the same process, by their paths; users need a rule for the path."""
        policies = Policies(store)
        self._authorizer = Authorizer(policies)
        self._resources = Resources(reading, writing, policies, catalog, clock)
        self.kubelets = Kubelets(store, catalog)
        self.measurements = Measurements(store, catalog, self.kubelets, clock)
        self._subresources = Subresources(store, writing, catalog, tokens, policies, clock=clock)

    async def __call__(self, request: Request) -> Response:
        path = paths.parse(request.path)
        verb = "" if path is None else verb_of(request, path)
        try:
            answer = await self._answer(self._authorizer.authorize(request, path, verb), path, verb)
        except ApiError as error:
            answer = answers.failure(error)
        except Refused as refused:
            answer = answers.failure(Unavailable(str(refused)))
        except Exception:
            log.exception("a request failed", method=request.method, path=request.path)
            answer = answers.failure(ServerError("Internal error occurred: see the server's log"))
        if path is not None:
            counted = _COUNTED_AS.get(verb, request.method)
            client = request.headers.get("user-agent", "")
            self.counts.add(Call(counted, path.group, path.plural, path.subresource, answer.status), client)
        return answer

    async def _answer(self, request: Request, path: paths.ResourcePath | None, verb: str) -> Response:
        found = None if path is None else self._catalog.find(path.group, path.version, path.plural)
        if upgrade_of(request.headers) and not (path is not None and path.subresource in STREAMS):
            raise no_upgrade(request.headers)
        if request.method == "HEAD" and discovery.lacks_head(self._catalog, request.path, found):
            raise refusals.not_allowed()
        if path is not None and path.group == METRICS and found is None:
            return await self.measurements.serve(request, path, verb)
        if path is None or (found is None and request.method in ("GET", "HEAD")):
            answer = self._unmapped(request)
            if answer is not None:
                return answer
            group = paths.group_of(request.path)
            if not any(kind.resource.group == group for kind in self._catalog):
                return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
            raise refusals.no_such_path()
        target = self._resources.target(path)
        if not verb:
            raise refusals.not_allowed()
        if self.kubelets.serves(target, path.subresource):
            return await self.kubelets.serve(request, target, verb, path.subresource)
        if self._subresources.serves(target, path.subresource):
            return await self._subresources.serve(request, target, verb, path.subresource)
        return await self._resources.serve(request, target, verb, path.subresource)

    def _unmapped(self, request: Request) -> Response | None:
        """The answer for health, metrics, OpenAPI and discovery paths; None for unknown paths."""
        path, accept = request.path.rstrip("/") or "/", request.headers.get("accept", "")
        if path == "/":  # to any method, as at kube-apiserver
            return discovery.index(self._catalog)
        if request.method not in ("GET", "HEAD"):
            return None
        if (answer := status.answer(path, self.counts, lambda: self._store.refusal)) is not None:
            return answer
        if (page := self.pages.get(path)) is not None:
            return Response(200, page(request))
        if path.startswith("/openapi/"):
            known = request.headers.get("if-none-match", "")
            return openapi.respond(self._catalog, path, accept, known, request.param("hash"))
        return discovery.respond(self._catalog, path, accept)
