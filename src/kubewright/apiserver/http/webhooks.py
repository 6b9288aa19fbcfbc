"""Calls of conversion webhooks: one POST over TLS, to the URL or the service that a definition names.

Theory.      Who writes definitions says whom this server calls. So the name is looked up first, each address
             that is found is checked (``allowed``), and one of them is dialled: no second answer of DNS
             leads elsewhere. The server at the other end must have a certificate for the name that was
             called, of the authority in ``caBundle``, or of one that this machine trusts where there is none.
             A service is found by its object: of type ExternalName, by the name that it gives; else by the
             addresses of its EndpointSlices or Endpoints. There is no network of services here, so its
             clusterIP leads nowhere, and a service without addresses is refused with that sentence. The
             certificate must be for ``NAME.NAMESPACE.svc``, as everywhere.
Invariants.  No redirect is followed. A call ends after ``SECONDS``, an answer at ``ANSWER_BYTES``.
Called by    ``registry.reviews``.
"""

import asyncio
import base64
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from kubewright.apiserver.http.dialing import Allowed
from kubewright.apiserver.http.kubelet_requests import is_address
from kubewright.apiserver.registry.versions import Failed
from kubewright.apiserver.store import Store
from kubewright.base.limits import remembered
from kubewright.pki import tls
from kubewright.wire.http import JSON

SECONDS = 30.0
"""For one call, from the look-up of the name to the last byte."""

ANSWER_BYTES = 32 * 1024 * 1024
"""A review has 4 MiB of objects, or one that is larger."""

SERVICES, ENDPOINTS, SLICES = "services", "endpoints", "endpointslices.discovery.k8s.io"
_SERVICE = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a webhook is: its URL, by whose host its certificate is checked, and what is dialled for it."""

    url: URL
    host: str
    port: int

    @property
    def shown(self) -> str:
        """As Go shows it."""
        return f'Post "{self.url.update_query(timeout="30s")}"'


def any_address(_host: str) -> bool:
    """What a server of its own machine may dial: its administrators write definitions."""
    return True


class _Fixed(AbstractResolver):
    """Answers with the addresses that were checked."""

    def __init__(self, found: list[ResolveResult]) -> None:
        self._found = found

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        del host, port, family
        return self._found

    async def close(self) -> None:
        pass


class Caller:
    """Calls webhooks. ``allowed`` says which addresses may be dialled."""

    def __init__(self, store: Store, allowed: Allowed) -> None:
        self._store, self._allowed = store, allowed

    async def __call__(self, config: Mapping[str, Any], body: bytes) -> bytes:
        """The answer to a review.

        Raises:
            Failed
        """
        service = config.get("service")
        place = _of_url(config) if service is None else self._of_service(service)
        try:
            async with asyncio.timeout(SECONDS):
                return await self._called(place, config.get("caBundle") or "", body)
        except TimeoutError:
            raise Failed(f"{place.shown}: context deadline exceeded") from None
        except (OSError, aiohttp.ClientError, ValueError) as error:
            raise Failed(f"{place.shown}: {_why(error)}") from None

    async def _called(self, place: Place, bundle: str, body: bytes) -> bytes:
        connector = aiohttp.TCPConnector(
            resolver=_Fixed(await self._addresses(place)), ssl=_context(bundle), force_close=True
        )
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar) as session:
            answer = await session.post(
                place.url.update_query(timeout="30s"),
                data=body,
                headers={"content-type": JSON, "accept": JSON},
                allow_redirects=False,
            )
            async with answer:
                data = await _bounded(answer, place)
        if answer.status >= 300 or answer.status < 200:
            raise Failed(_refusal(answer.status, data))
        return data

    async def _addresses(self, place: Place) -> list[ResolveResult]:
        """All that the host stands for, with the port to dial: each must be allowed."""
        hosts = [place.host] if is_address(place.host) else await _looked_up(place)
        if refused := next((host for host in hosts if not self._allowed(host)), None):
            raise Failed(f"{place.shown}: address not allowed: {refused}")
        name = place.url.host or ""
        return [
            ResolveResult(hostname=name, host=host, port=place.port, family=0, proto=0, flags=0)
            for host in hosts
        ]

    def _of_service(self, service: Mapping[str, Any]) -> Place:
        namespace, name, port = service["namespace"], service["name"], service.get("port", 443)
        path = "/" + str(service.get("path") or "").removeprefix("/")
        url = URL.build(scheme="https", host=f"{name}.{namespace}.svc", port=port, path=path)
        asked = Place(url, "", port)
        record = self._store.get(SERVICES, f"{namespace}/{name}")
        if record is None:
            raise Failed(f'{asked.shown}: service "{name}" not found')
        spec = orjson.loads(record.data).get("spec") or {}
        if spec.get("type") == "ExternalName":
            return Place(url, str(spec.get("externalName", "")), port)
        wanted = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
        if wanted is None:
            raise Failed(f'{asked.shown}: no service port {port} found for service "{name}"')
        found = next(self._endpoints(namespace, name, wanted), None)
        if found is None:
            said = (
                f'{asked.shown}: no endpoints available for service "{name}"; this server has no network of'
            )
            raise Failed(f"{said} services: it dials the addresses in their EndpointSlices, or externalName")
        return Place(url, *found)

    def _endpoints(self, namespace: str, name: str, port: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        """Addresses of a service that are ready, with the port that its port stands for."""
        named = port.get("name") or ""
        for record in self._store.scan(SLICES, f"{namespace}/"):
            if record.labels.get(_SERVICE) != name:
                continue
            piece = orjson.loads(record.data)
            ports = _ports(piece, named)
            for each in piece.get("endpoints") or ():
                if (each.get("conditions") or {}).get("ready", True) and ports:
                    yield from ((address, ports[0]) for address in each.get("addresses") or ())
        old = self._store.get(ENDPOINTS, f"{namespace}/{name}")
        for subset in () if old is None else orjson.loads(old.data).get("subsets") or ():
            if ports := _ports(subset, named):
                yield from ((each["ip"], ports[0]) for each in subset.get("addresses") or ())


def _ports(piece: Mapping[str, Any], named: str) -> list[int]:
    """The ports of this name; one that has no number stands for all, which says nothing of which to dial."""
    found = piece.get("ports") or ()
    return [each["port"] for each in found if (each.get("name") or "") == named and each.get("port")]


def _of_url(config: Mapping[str, Any]) -> Place:
    given = str(config.get("url", ""))
    try:
        url = URL(given)
        return Place(url, url.host or "", url.port or 443)
    except ValueError as error:  # the definition was taken: Go reads hosts that yarl does not
        raise Failed(f'Post "{given[:1024]}": {error}') from None


async def _looked_up(place: Place) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(place.host, place.port, proto=6)
    except OSError:
        raise Failed(f"{place.shown}: dial tcp: lookup {place.host}: no such host") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


@remembered(64)
def _context(bundle: str) -> ssl.SSLContext:
    """TLS by the authorities of a bundle: made once for each, as that takes milliseconds."""
    try:
        anchors = base64.b64decode(bundle, validate=True).strip()
        context = tls.client(anchors or None)
    except ValueError as error:
        raise ValueError(f"unable to load root certificates: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _bounded(answer: aiohttp.ClientResponse, place: Place) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_chunked(64 * 1024):
        data += piece
        if len(data) > ANSWER_BYTES:
            raise Failed(f"{place.shown}: the answer has more than {ANSWER_BYTES} bytes")
    return bytes(data)


def _refusal(status: int, data: bytes) -> str:
    """What a Status says, or what kube-apiserver says of an answer that is none."""
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError:
        said = None
    if isinstance(said, dict) and said.get("kind") == "Status" and isinstance(said.get("message"), str):
        return str(said["message"])[:1024]
    if status == 404:
        return "the server could not find the requested resource"
    return f"an error on the server ({status}) has prevented the request from succeeding"


def _why(error: Exception) -> str:
    """In words that people look for: Go's, of the errors that are common."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error.strerror or str(error.os_error)
        refused = isinstance(error.os_error, ConnectionRefusedError)
        return f"dial tcp {error.host}:{error.port}: connect: {'connection refused' if refused else reason}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__
