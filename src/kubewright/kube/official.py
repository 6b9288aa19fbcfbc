"""The transport on the Kubernetes project's own Python client.

Theory.      We use its low-level door only: ``Configuration``, ``ApiClient`` and ``DynamicClient.request``
             with ``serialize=False``, which sends one request and hands out aiohttp's answer. Its
             watches, informers, models and discovery stay unused; python-libs.md §3 and §6.1 say why.
Adapter      ``trust_env`` off (it costs two thread hops a request), a large read buffer, our headers
rules.       instead of its own, certificates through files that live for milliseconds, no retries of
             its own, a new client when the client certificate changed. Its exceptions for answers
             of 400 and above become plain answers again.
Cost.        It decodes and encodes each body once more; ``plain`` does not (see there).
Called by    ``config``.
"""

from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic import DynamicClient

from kubewright.base.clock import Clock
from kubewright.kube import tls
from kubewright.kube.access import Access
from kubewright.kube.login import Credentials
from kubewright.kube.sockets import CHUNK_BYTES, PATH_CHARACTERS, Settings, Sockets
from kubewright.wire.http import JSON, Request, Response


class Official(Sockets):
    """Requests through ``kubernetes.aio``."""

    def __init__(self, access: Access, settings: Settings, clock: Clock) -> None:
        super().__init__(access, settings, clock)
        self._door: DynamicClient | None = None
        self._retired: DynamicClient | None = None
        self._pair: tuple[bytes, bytes] | None = None

    async def _send(
        self, request: Request, credentials: Credentials, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse | Response:
        headers = {name: value for name, value in request.headers.items() if name != "content-type"}
        if credentials.authorization:
            headers["authorization"] = credentials.authorization
        try:
            answer: aiohttp.ClientResponse = await (await self._ready(credentials)).request(
                request.method.lower(),
                quote(request.path, safe=PATH_CHARACTERS),
                body=msgspec.json.decode(request.body) if request.body else None,
                query_params=list(request.query),
                header_params=headers,
                content_type=request.headers.get("content-type", JSON),
                serialize=False,
                _request_timeout=timeout,
            )
        except ApiException as refusal:
            return _answer(refusal)
        return answer

    async def _close(self) -> None:
        for door in (self._door, self._retired):
            if door is not None:
                await door.client.close()

    async def _ready(self, credentials: Credentials) -> DynamicClient:
        """The library's client, made anew when the client certificate is another one.

        The last one stays open until the next change: its watches end by themselves.
        """
        pair = (credentials.certificate, credentials.key)
        if self._door is None or pair != self._pair:
            oldest, self._retired = self._retired, self._door
            self._door, self._pair = self._make(*pair), pair
            if oldest is not None:
                await oldest.client.close()
        return self._door

    def _make(self, certificate: bytes, key: bytes) -> DynamicClient:
        access = self.access
        made = Configuration(host=access.server, connection_pool_maxsize=0)  # bounded in ``sockets``
        made.ca_cert_data = access.ca.decode() or None
        made.verify_ssl = not access.insecure
        made.disable_strict_ssl_verification = True  # many private CAs predate its rules
        made.tls_server_name = access.tls_server_name or None
        made.proxy = self.settings.proxy or access.proxy or None
        made.client_session_kwargs = {"trust_env": False, "read_bufsize": CHUNK_BYTES}
        with tls.explained(access), tls.key_files(certificate, key) as (made.cert_file, made.key_file):
            client = ApiClient(made)
        client.default_headers.clear()
        return DynamicClient(client)  # type: ignore[no-untyped-call]


def _answer(refusal: Any) -> Response:
    headers = {name.lower(): value for name, value in (refusal.headers or {}).items()}
    body = refusal.body or ""
    return Response(
        int(refusal.status),
        body if isinstance(body, bytes) else body.encode(),
        headers.get("content-type", JSON),
        headers,
    )
