"""The client of one API server: typed verbs over a transport.

Theory.      A verb builds one request, sends it (repeating it where ``retries`` says that this is
             safe), and decodes the answer with the kind's type. Listeners get every acknowledged
             write before the caller goes on, so this process' informers show a write at once
             (``cache``), not only when the watch delivers it.
Invariants.  An answer of 400 and above raises its ``wire.errors`` class, no answer a
             ``kube.errors`` class; one call never takes longer than ``REQUEST_SECONDS``. An object
             that we did not create is only patched. Bodies are never logged. What a
             server says when it refuses to write a Secret is in no error: it may quote what is in it.
Called by    every package above ``kube``. Continues in ``transport`` and ``informer``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import structlog

from kubewright.api.kinds import Kind, Undecodable
from kubewright.base.clock import Clock, SteadyClock
from kubewright.base.limits import EVICTION_SECONDS, LIST_PAGE, REQUEST_SECONDS
from kubewright.kube import patches
from kubewright.kube.errors import Silent, TransportError, refused
from kubewright.kube.header import read_page, read_status
from kubewright.kube.health import Health, Outage, Skew, pause
from kubewright.kube.patches import CONTESTS, Target
from kubewright.kube.scope import Scope
from kubewright.kube.transport import Transport
from kubewright.wire.errors import ApiError, Gone, Invalid, NotFound, TooManyRequests
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import JSON, MERGE_PATCH, Query, Request, Response

log = structlog.get_logger(__name__)

T = TypeVar("T")
Body = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Written:
    """A write that the server acknowledged.

    ``body`` is the object as the server answered it: as it is now, or as it last was when the
    write removed it (see ``header.read_answer``). Many deletes answer only a ``Status``: then
    ``body`` is empty and ``uid`` says which object is gone; it too is empty when that is not known.
    ``object`` is what ``body`` says, as ``kind`` reads it, where the client has read all of it already.
    """

    resource: Resource
    key: Key
    body: bytes = b""
    uid: str = ""
    deleted: bool = False
    kind: Kind[Any] | None = field(default=None, compare=False, repr=False)
    object: Any = field(default=None, compare=False, repr=False)


class Client:
    """One API server. All methods raise ``ApiError`` or ``TransportError``."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        name: str = "cluster",
        user_agent: str = "kubewright",
        one_clock: bool = False,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.name = name
        self.one_clock = one_clock
        """The server is in this process: it dates objects by our clock, and a list is never older than it."""
        self.health = Health()
        self.skew = Skew()
        self.outage = Outage()
        self._headers = {"accept": JSON, "user-agent": user_agent}
        self._listeners: list[Callable[[Written], None]] = []

    def steady(self) -> SteadyClock:
        """A clock for ages of this server's objects: it begins with the server's time, and does not step."""
        return SteadyClock(self.clock, lambda: self.skew.anchor)

    def over(self, transport: Transport, *, user_agent: str) -> "Client":
        """A client of the same server over another transport, which shares this one's ``skew``."""
        other = Client(transport, self.clock, name=self.name, user_agent=user_agent, one_clock=self.one_clock)
        other.skew = self.skew
        return other

    def on_write(self, listener: Callable[[Written], None]) -> None:
        """Tell ``listener`` of each acknowledged write, before the writer goes on. It must not raise."""
        self._listeners.append(listener)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """One object, from the server.

        Raises:
            NotFound: there is none.
        """
        request = self.request("GET", _path(kind, key))
        return kind.decode((await self.send(request, safe=True)).body)

    async def list(
        self, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[T]:
        """Every object that matches, page by page from one moment in the server's history.

        Args:
            kind: what to list.
            namespace: only there; empty means all.
            labels: a label selector, as kubectl writes it.
            fields: a field selector.
        """
        query = Scope(labels=labels, fields=fields).query
        try:
            return await _list(self, kind, namespace, (*query, ("limit", str(LIST_PAGE))))
        except Gone:  # the version expired before we had all pages: take one large page
            return await _list(self, kind, namespace, query)

    async def create(self, kind: Kind[T], obj: T | Mapping[str, Any], *, namespace: str = "") -> T:
        """Create an object; answers it as the server completed it.

        ``namespace`` defaults to the object's own.

        Raises:
            AlreadyExists: the name is taken.
            Invalid: the object breaks its schema.
        """
        namespace = namespace or _key(obj).namespace
        if kind.resource.namespaced and not namespace:
            raise ValueError(f"a {kind.resource.kind} needs a namespace")
        request = self.request("POST", kind.resource.path(namespace), _encode(kind, obj))
        return self._written(kind, (await self.send(request)).body, "")

    async def patch(
        self,
        kind: Kind[T],
        key: Key,
        body: Body,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> T:
        """Change an object; answers it as it is now. An empty patch is not sent: the object is read.

        Args:
            kind: what it is.
            key: where it is.
            body: a merge patch (``patches``), or what ``content_type`` says.
            subresource: usually ``status`` or nothing.
            content_type: ``wire.http`` has the names.

        Raises:
            NotFound: there is no such object.
            Conflict: the patch carries a version or a uid, and the object has another: look again.
            Invalid: the result breaks the schema.
            Contested: in the pass of a controller that has written the same again and again (``contests``).
        """
        if not body:
            return await self.get(kind, key)
        request = self.request(
            "PATCH", _path(kind, key, subresource), msgspec.json.encode(body), content_type=content_type
        )
        contests = CONTESTS.get()
        if contests is not None:
            target = Target(self.name, kind.resource, key, subresource, patches.uid_of(body))
            admitted = contests.admit(target, body)
        try:
            response = await self.send(request, safe=patches.guarded(body))
        except Invalid as error:
            raise patches.conflict_of(error, body) or error from None
        if contests is not None:
            contests.wrote(admitted)
        return self._written(kind, response.body, subresource)

    async def replace(self, kind: Kind[T], key: Key, obj: T, *, subresource: str = "") -> T:
        """Put a whole object. Only for objects that we made and own alone, such as our Lease.

        Raises:
            Conflict: ``obj`` carries a resourceVersion that is no longer current.
        """
        request = self.request("PUT", _path(kind, key, subresource), kind.encode(obj))
        return self._written(kind, (await self.send(request)).body, subresource)

    async def delete(
        self,
        kind: Kind[Any],
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: str = "",
    ) -> None:
        """Delete an object, or begin to: with finalizers or a grace period it lives on for a while.

        Args:
            kind: what it is.
            key: where it is.
            uid: only if it is this very object.
            resource_version: only if it is still at this version.
            grace: seconds that a pod gets; None leaves it to the pod.
            propagation: ``Foreground``, ``Background`` or ``Orphan``; empty leaves it to the server.

        Raises:
            NotFound: there is none, perhaps no longer.
            Conflict: ``uid`` or ``resource_version`` do not fit.
        """
        conditions = _present(uid=uid, resourceVersion=resource_version)
        options = _present(preconditions=conditions, propagationPolicy=propagation)
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        body = (
            msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", **options}) if options else b""
        )
        try:
            response = await self.send(self.request("DELETE", _path(kind, key), body), safe=bool(conditions))
        except NotFound as error:
            if uid and error.names(key.name):  # perhaps our own delete, whose answer was lost: it is gone now
                self._notify(Written(kind.resource, key, uid=uid, deleted=True))
            raise
        self._notify_deleted(kind.resource, key, response.body, uid)

    async def evict(self, key: Key, *, uid: str = "", grace: int | None = None) -> None:
        """Ask for a pod to be removed where its disruption budget allows it.

        Raises:
            TooManyRequests: a budget forbids it now.
            NotFound: there is no such pod.
            Conflict: the pod of that name has another uid.
        """
        options = _present(preconditions=_present(uid=uid))
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name, "namespace": key.namespace},
            **_present(deleteOptions=options),
        }
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/eviction"
        await self.send(self.request("POST", path, msgspec.json.encode(body)), safe=bool(uid), eviction=True)

    async def send(self, request: Request, *, safe: bool = False, eviction: bool = False) -> Response:
        """One request with retries, deadline and errors as of all verbs; for paths that have no verb here.

        Args:
            request: what to send.
            safe: sending it twice does no harm.
            eviction: it is one. When it is refused the server asks to wait and repeat, as a busy server does:
                that is an answer to the caller. And it may take long on a server that is well.
        """
        clock = self.clock
        deadline = clock.monotonic() + (EVICTION_SECONDS if eviction else REQUEST_SECONDS)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._once(request, deadline - clock.monotonic(), slow=eviction)
                if response.status < 400:
                    return response
                raise refused(request, response)
            except (ApiError, TransportError) as error:
                if eviction and isinstance(error, TooManyRequests):
                    raise
                wait = pause(error, attempt, safe=safe, draw=clock.random.random())
                if wait is None or clock.monotonic() + wait >= deadline:
                    raise
            await clock.sleep(wait)

    def measure_skew(self, response: Response, began: float) -> None:
        """Measure the server's clock by the answer to a request that was sent at the moment ``began``."""
        now, date = self.clock.monotonic(), response.headers.get("date", "")
        if self.skew.measure(date, self.clock.now(), now, now - began):
            warning = "our clock is not the server's: one of them needs NTP; ages count by the server's"
            log.warning(warning, server=self.name, seconds_ahead=round(self.skew.ahead, 1))

    def request(
        self, method: str, path: str, body: bytes = b"", *, query: Query = (), content_type: str = JSON
    ) -> Request:
        """A request with this client's usual headers, for ``send`` and ``Transport.stream``."""
        headers = {**self._headers, "content-type": content_type} if body else self._headers
        return Request(method, path, query, headers, body)

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    async def _once(self, request: Request, timeout: float, *, slow: bool) -> Response:
        began = self.clock.monotonic()
        admitted = self.health.admit(began, timeout, slow=slow)
        if admitted is None:
            raise Silent(f"{self.name} has not answered the last requests")
        try:
            response = await self.transport.request(request, timeout=admitted)
        except BaseException:  # cancelled too: the caller may have a shorter deadline than we
            now = self.clock.monotonic()
            self.health.failed(now, now - began, slow=slow)
            raise
        self.health.answered()
        self.measure_skew(response, began)
        return response

    def _written(self, kind: Kind[T], body: bytes, subresource: str) -> T:
        """Tell the listeners, and decode. Only ``status`` answers with the object itself.

        The write is done, so of an answer that cannot be read what can be is taken.
        """
        try:
            obj, whole = kind.decode(body), kind
        except Undecodable:
            obj, whole = kind.part(body), None
        if self._listeners and subresource in ("", "status"):
            self._notify(Written(kind.resource, _key(obj), body, kind=whole, object=obj))
        return obj

    def _notify_deleted(self, resource: Resource, key: Key, body: bytes, uid: str) -> None:
        if self._listeners:
            status = read_status(body)
            if status is None:
                self._notify(Written(resource, key, body, deleted=True))
            else:
                self._notify(Written(resource, key, uid=status.uid or uid, deleted=True))

    def _notify(self, written: Written) -> None:
        for listener in self._listeners:
            listener(written)


async def _list(client: Client, kind: Kind[T], namespace: str, query: Query) -> list[T]:
    found: list[T] = []
    token: Query = ()
    while True:
        request = client.request("GET", kind.resource.path(namespace), query=query + token)
        page = read_page((await client.send(request, safe=True)).body)
        found.extend(kind.decode(bytes(item)) for item in page.items)
        if not page.token:
            return found
        token = (("continue", page.token),)


def _path(kind: Kind[Any], key: Key, subresource: str = "") -> str:
    return kind.resource.path(key.namespace, key.name, subresource)


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def _encode(kind: Kind[T], obj: T | Mapping[str, Any]) -> bytes:
    if isinstance(obj, Mapping):
        named = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        return msgspec.json.encode({**named, **obj})
    return kind.encode(obj)


def _key(obj: Any) -> Key:
    """The key of an object, whether it is a Struct or a dict."""
    if isinstance(obj, Mapping):
        metadata = obj.get("metadata") or {}
        return Key(metadata.get("namespace") or "", metadata.get("name") or "")
    return Key(obj.metadata.namespace, obj.metadata.name)
