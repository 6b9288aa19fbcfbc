"""What kubelets answer through this server: logs of containers, connections to them, and ``nodes/proxy``.

Theory.      The request is authorized, the pod and its Node are found, and only then is the kubelet asked,
             which asks this server in turn whether ``kube-apiserver-kubelet-client`` may do that. An exec,
             attach or port-forward is a tunnel: the kubelet switches to the protocol that the client wants,
             or refuses it, and then kubectl itself falls back from WebSocket to SPDY. Refusals are in
             kube-apiserver's words.
Invariants.  A pod whose Node has no kubelet (``kubelet_requests``) gets the one answer that it can get, and
             no connection is tried. Of a client's headers a kubelet gets those that it needs, never a
             credential. Of a kubelet's headers the client gets no cookie, no redirect to elsewhere and no
             right of origins.
Called by    ``app``, before ``subresources``. Continues in ``dialing``.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import quote, unquote, urlencode

from kubewright.apiserver.http.dialing import Answer, Dialer, Upgraded
from kubewright.apiserver.http.kubelet_requests import (
    STREAMS,
    Kubelet,
    kubelet_of,
    log_path,
    refused_log,
    stream_path,
)
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Catalog, Target
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Store
from kubewright.wire.errors import ApiError, BadRequest, ServerError
from kubewright.wire.http import Request, Response, upgrade_of

_NOT_PRINTED = b"kubewright: no containers run behind the pods of this node, so this one prints nothing\n"
"""The log of a pod without a kubelet. Not an error: ``kubectl logs -f`` repeats the request after one."""

PLAIN = "text/plain"
PROXY = "proxy"

_UPGRADE = (
    "upgrade", "connection", "user-agent", "origin", "x-stream-protocol-version", "sec-websocket-key",
    "sec-websocket-version", "sec-websocket-protocol", "sec-websocket-extensions",
)  # fmt: skip
_UPGRADED = (
    "upgrade", "connection", "x-stream-protocol-version", "sec-websocket-accept", "sec-websocket-protocol",
    "sec-websocket-extensions",
)  # fmt: skip
_ASKED = (
    "accept",
    "accept-encoding",
    "content-type",
    "if-modified-since",
    "if-none-match",
    "range",
    "user-agent",
)
_ANSWERED = ("content-encoding", "content-range", "etag", "last-modified", "retry-after")
_VERBS = {"log": ("get",), **dict.fromkeys(STREAMS, ("get", "create"))}
_IN_PATHS = "/:@!$&'()*+,;=~"
_T = TypeVar("_T")


class Kubelets:
    """Answers the requests for which ``serves`` returns true. ``dialer`` None: no kubelet can be asked."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store, self._catalog = store, catalog
        self.dialer: Dialer | None = None

    def serves(self, target: Target, subresource: str) -> bool:
        return subresource in target.kind.by_kubelet or (subresource == "log" and not target.kind.custom)

    async def serve(self, request: Request, target: Target, verb: str, subresource: str) -> Response:
        """The answer.

        Raises:
            ApiError
        """
        if subresource == PROXY:
            return await self._proxy(request, target)
        if verb not in _VERBS.get(subresource, (verb,)):
            raise refusals.not_allowed()
        pod = self._found(target)
        if subresource in STREAMS:
            return await self._stream(request, pod, target, subresource)
        if subresource == "log":
            return await self._log(request, pod, target)
        raise self._no_debugging(pod, target, subresource)

    async def _log(self, request: Request, pod: Object, target: Target) -> Response:
        path = log_path(pod, request.query)
        if not pod["spec"].get("nodeName"):
            return Response(204, content_type=PLAIN)  # it has not begun
        kubelet = self._kubelet_of(pod)
        if kubelet is None or self.dialer is None:
            return Response(200, _NOT_PRINTED, f"{PLAIN}; charset=utf-8")
        end = self.dialer.begin(request.user)
        answer = await _or_end(end, self.dialer.ask(kubelet, "GET", path))
        if answer.stream is None or answer.status >= 300:
            answer.close()
            end()
            if answer.status < 400:
                raise ServerError("redirects forbidden", reason="")
            raise refused_log(answer.status, answer.said.decode(errors="replace").strip(), target.name)
        answer.stream.ended = end
        return Response(200, content_type=PLAIN, stream=answer.stream, patient=True)

    async def _stream(self, request: Request, pod: Object, target: Target, subresource: str) -> Response:
        path = stream_path(pod, subresource, request.query)
        if not pod["spec"].get("nodeName"):
            raise BadRequest(f"pod {target.name} does not have a host assigned")
        kubelet = self._kubelet_of(pod)
        if kubelet is None or self.dialer is None:
            raise refusals.no_kubelet(target.kind.resource, target.name, subresource)
        if not upgrade_of(request.headers):
            raise BadRequest("Upgrade request required")
        end = self.dialer.begin(request.user)
        headers = _upgrade_headers(request.headers)
        answer = await _or_end(end, self.dialer.upgrade(kubelet, request.method, path, headers))
        if isinstance(answer, Upgraded):
            talk = answer.talk
            kept = {name: value for name, value in answer.headers.items() if name in _UPGRADED}
            return Response(101, headers=kept, talk=lambda received: talk(received, end), patient=True)
        end()
        if answer.status < 400:
            raise ServerError(f"invalid upgrade response: status code {answer.status}", reason="")
        return Response(answer.status, answer.said, answer.headers.get("content-type", PLAIN))

    async def _proxy(self, request: Request, target: Target) -> Response:
        name, port = _name_and_port(target.name)
        node = self._found(Target(target.kind, "", name))
        kubelet = kubelet_of(node)
        if kubelet is None or self.dialer is None:
            raise refusals.no_kubelet(target.kind.resource, name, PROXY)
        if port not in ("", str(kubelet.port)):
            said = (
                f"this server asks the kubelet of a node and nothing else there: its port is {kubelet.port}"
            )
            raise BadRequest(said)
        if upgrade_of(request.headers):
            raise no_upgrade(request.headers)
        place = f"/api/v1/nodes/{target.name}/{PROXY}"
        path = quote(request.path[len(place) :] or "/", safe=_IN_PATHS)
        asked = f"{path}?{urlencode(request.query)}" if request.query else path
        headers = {name: request.headers[name] for name in _ASKED if name in request.headers}
        end = self.dialer.begin(request.user)
        answer = await _or_end(end, self.dialer.ask(kubelet, request.method, asked, headers, request.body))
        if answer.stream is None:
            end()
        else:
            answer.stream.ended = end
        return _proxied(answer, place)

    def _no_debugging(self, pod: Object, target: Target, subresource: str) -> ApiError:
        if not pod["spec"].get("nodeName") or self._kubelet_of(pod) is None:
            return refusals.no_kubelet(target.kind.resource, target.name, subresource)
        said = (
            f'pods "{target.name}" has no {subresource}: this server adds no containers to pods that are made'
        )
        return ApiError(said, code=501, reason="NotImplemented")

    def look(self, target: Target) -> Object | None:
        """A stored object."""
        record = self._store.get(target.collection, target.key)
        return None if record is None else target.kind.decode(record)

    def _found(self, target: Target) -> Object:
        if (found := self.look(target)) is None:
            raise refusals.not_found(target.kind.resource, target.name)
        return found

    def _kubelet_of(self, pod: Object) -> Kubelet | None:
        kind = self._catalog.find("", "v1", "nodes")
        assert kind is not None
        return kubelet_of(self._found(Target(kind, "", pod["spec"]["nodeName"])))


def no_upgrade(headers: Mapping[str, str]) -> ApiError:
    """501, so that no client waits for an upgrade that never comes."""
    return ApiError(
        f"this server does not upgrade such a connection (to {upgrade_of(headers)[:64]}): that is for exec, "
        "attach and port-forward, and so for cp; there is no watch by websocket",
        code=501,
        reason="NotImplemented",
    )


async def _or_end(end: Callable[[], None], asking: Awaitable[_T]) -> _T:
    """Give the place back where there is no answer."""
    try:
        return await asking
    except BaseException:
        end()
        raise


def _upgrade_headers(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those of an upgrade. Protocols are a line each: not every runtime splits them at commas."""
    for name in _UPGRADE:
        if (value := given.get(name)) is None:
            continue
        if name == "x-stream-protocol-version":
            yield from ((name, each.strip()) for each in value.split(","))
        else:
            yield name, value


def _name_and_port(asked: str) -> tuple[str, str]:
    """The node of ``nodes/[https:]NAME[:PORT]/proxy``."""
    match asked.split(":"):
        case [name]:
            return name, ""
        case [name, port] | ["https", name, port] if name:
            return name, port
    raise BadRequest(f'invalid node request "{asked[:300]}"')


def _leads_out(path: str) -> bool:
    """Whether a client that resolves the dots of a path may come out above of where it begins."""
    return any(unquote(each) in (".", "..") for each in re.split(r"[/\\?#]", path))


def _proxied(answer: Answer, place: str) -> Response:
    """A kubelet's answer as the client gets it; a redirect stays below the place of its node."""
    headers = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
    media = answer.headers.get("content-type", PLAIN)
    if 300 <= answer.status < 400 and answer.status != 304:
        answer.close()
        where = answer.headers.get("location", "")
        if not where.startswith("/") or where.startswith("//") or _leads_out(where):
            said = "the backend attempted to redirect this request, which is not permitted"
            raise ApiError(said, code=502, reason="")
        return Response(answer.status, b"", media, {"location": place + where})
    if answer.stream is None:
        return Response(answer.status, answer.said, media, headers)
    return Response(answer.status, content_type=media, headers=headers, stream=answer.stream)
