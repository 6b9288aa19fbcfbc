"""One request in, one answer out: authorization, routing, failures, health.

Theory.      Every request is authorized first. It becomes ``Attributes``: a verb, a resource, and perhaps an
             object's name; or a verb and a non-resource path. The current policy decides. A list or watch of
             one object by a field selector (``metadata.name=a``) counts as a request for that name.
             Every error of a client is an ``ApiError`` and becomes a Status. Any other exception is a bug
             of ours: it is logged with its traceback and answered with 500, and the server goes on.
Invariants.  ``App`` is a ``Handler``: it does not know sockets. Every request is counted once; ``make bench``
             reads
             ``Counts``, so that every client's are counted in the same way. Authorization looks at the head
             of a request only (method, path, query, headers). Members of ``system:masters`` are allowed
             without asking the policy; our own controllers are members.
Called by    ``server``. ``authorization`` decides, ``resources`` and its neighbours answer.
"""

import platform
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import orjson
import structlog

from kubewright import __version__
from kubewright.apiserver.authorization.policy import MASTERS, Attributes, forbidden
from kubewright.apiserver.http import answers, authn, discovery, openapi, requests
from kubewright.apiserver.http.kubelet_requests import STREAMS
from kubewright.apiserver.http.kubelets import Kubelets, no_upgrade
from kubewright.apiserver.http.requests import ResourcePath
from kubewright.apiserver.http.resources import Resources, verb_of
from kubewright.apiserver.http.subresources import Subresources
from kubewright.apiserver.http.usage import GROUP as METRICS
from kubewright.apiserver.http.usage import Measurements
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Catalog
from kubewright.apiserver.registry.policies import Policies
from kubewright.apiserver.registry.reading import Reading
from kubewright.apiserver.registry.tokens import Tokens
from kubewright.apiserver.registry.writing import Writing
from kubewright.apiserver.store import Refused, Store
from kubewright.base.clock import Clock
from kubewright.wire import selectors
from kubewright.wire.errors import ApiError, BadRequest, ServerError, Unavailable
from kubewright.wire.http import Request, Response, User, upgrade_of
from kubewright.wire.release import KUBERNETES, version_of

_PLAIN = {"HEAD": "get"}
_SELECTING = ("list", "watch", "deletecollection")

_ENTERING = ("attach", "exec", "portforward")
"""Subresources of Pods that are ``create``, also by GET: a WebSocket begins with one, and who may only read
must not get into a container by it (kube-apiserver since 1.35)."""


class Authorizer:
    """Lets a request pass, or raises Forbidden."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def authorize(self, request: Request, path: ResourcePath | None, verb: str) -> Request:
        """The request as the server is to answer it: with the impersonated user, where its headers name one.

        ``path`` is None for a non-resource path; ``verb`` is empty when the resource has none for the method.

        Raises:
            Forbidden: the user may not impersonate that user, or may not do what the request asks for.
            BadRequest: its headers name groups, a uid or extra values to impersonate, but no user.
        """
        target = authn.requested(request.headers)
        if target is not None:
            for asked in authn.needed(request.user, target):
                self._ask(asked)
            request = replace(request, user=authn.impersonated(target))
        if MASTERS not in request.user.groups:
            self._ask(attributes(request, path, verb))
            if path is not None and path.plural == "pods" and path.subresource in _ENTERING and verb == "get":
                self._ask(attributes(request, path, "create"))
        return request

    def _ask(self, asked: Attributes) -> None:
        if MASTERS in asked.user.groups:
            return
        decision = self._policies.current.decide(asked)
        if not decision.allowed:
            raise forbidden(asked, decision.reason)


def attributes(request: Request, path: ResourcePath | None, verb: str) -> Attributes:
    """A request in the terms of authorization."""
    user: User = request.user
    if path is None:
        method = request.method
        return Attributes(user, _PLAIN.get(method, method.lower()), url=request.path)
    name = path.name or (_selected(request) if verb in ("list", "watch") else "")
    # A Namespace object counts as an object in itself: a Role in it may allow reading it.
    namespace = path.name if path.plural == "namespaces" else path.namespace
    verb = verb or _PLAIN.get(request.method, request.method.lower())
    node = _selected(request, "spec.nodeName") if verb in _SELECTING else ""
    return Attributes(user, verb, path.group, path.plural, path.subresource, namespace, name, node=node)


def _selected(request: Request, field: str = "metadata.name") -> str:
    """The one value of a field that a field selector selects; empty when there is none."""
    text = request.param("fieldSelector")
    if not text:
        return ""
    try:
        return selectors.parse_fields(text).value_of(field) or ""
    except BadRequest:
        return ""  # the handler refuses it, and says why


CLIENTS = 100
"""How many client programs are counted by name."""

_CLIENT = re.compile(r"[\w.-]+")
_TEXT = "text/plain; charset=utf-8"
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Call:
    """The labels of one count; ``verb`` is GET, LIST, WATCH, POST, PUT, PATCH or DELETE."""

    verb: str
    group: str
    resource: str
    subresource: str
    code: int


class Counts:
    """Requests since the start, by ``Call`` and by client program (its user agent up to the first ``/``)."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[Call, str]] = Counter()
        self._clients: set[str] = set()
        self.beside: list[Callable[[], bytes]] = []
        """What else is shown, in Prometheus' text form: the numbers of what runs in the same process."""

    def add(self, call: Call, user_agent: str = "") -> None:
        """Count a request; programs beyond the first ``CLIENTS`` count as ``other``."""
        client = "".join(_CLIENT.findall(user_agent.partition("/")[0]))[:32]
        if client not in self._clients:
            client = client if len(self._clients) < CLIENTS else "other"
            self._clients.add(client)
        self._calls[call, client] += 1

    def exposition(self) -> bytes:
        """The counts in Prometheus' text form, under kube-apiserver's name."""
        lines = [
            "# HELP apiserver_request_total Requests answered.",
            "# TYPE apiserver_request_total counter",
        ]
        for (call, client), count in self._calls.items():
            labels = f'verb="{call.verb}",group="{call.group}",resource="{call.resource}"'
            labels = f'{labels},subresource="{call.subresource}",code="{call.code}",client="{client}"'
            lines.append(f"apiserver_request_total{{{labels}}} {count}")
        return b"".join((("\n".join(lines) + "\n").encode(), *(each() for each in self.beside)))


def vitals(path: str, counts: Counts, refusal: Callable[[], str]) -> Response | None:
    """The answer to GET of ``path``; None for other paths. ``refusal``: why the store refuses writes."""
    if path in ("/healthz", "/livez", "/readyz") or path.startswith(("/healthz/", "/livez/", "/readyz/")):
        why = refusal()
        return (
            Response(500, f"[-]store failed: {why}\n".encode(), _TEXT) if why else Response(200, b"ok", _TEXT)
        )
    if path == "/version":
        return Response(200, orjson.dumps(version()))
    if path == "/metrics":
        return Response(200, counts.exposition(), _TEXT)
    return None


def version() -> dict[str, str]:
    """The answer of ``/version``."""
    major, minor, _patch = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": version_of(__version__),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "cpython",
        "platform": f"{platform.system().lower()}/{_GO_NAMES.get(platform.machine(), platform.machine())}",
    }


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
        path = requests.parse_path(request.path)
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
            kind = self._catalog.find(path.group, path.version, path.plural)
            if kind is not None and kind.deprecated:
                answer = answers.also_warned(answer, kind.deprecated)
            counted = _COUNTED_AS.get(verb, request.method)
            client = request.headers.get("user-agent", "")
            self.counts.add(Call(counted, path.group, path.plural, path.subresource, answer.status), client)
        return answer

    async def _answer(self, request: Request, path: requests.ResourcePath | None, verb: str) -> Response:
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
            group = requests.group_of(request.path)
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
        if (answer := vitals(path, self.counts, lambda: self._store.refusal)) is not None:
            return answer
        if (page := self.pages.get(path)) is not None:
            return Response(200, page(request))
        if path.startswith("/openapi/"):
            known = request.headers.get("if-none-match", "")
            return openapi.respond(self._catalog, path, accept, known, request.param("hash"))
        return discovery.respond(self._catalog, path, accept)
