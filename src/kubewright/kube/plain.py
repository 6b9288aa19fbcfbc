"""The transport on aiohttp alone: fallback and yardstick for ``official``.

Theory.      The same promises, logins and errors (``sockets``) without the library in between: bodies go
             out as the bytes they are. python-libs.md §2 measured 63 µs of CPU a write against 112.
Called by    ``config``, when ``Settings.client`` says ``plain``.
"""

from io import BytesIO
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from kubewright.base.clock import Clock
from kubewright.kube import tls
from kubewright.kube.access import Access
from kubewright.kube.login import Credentials
from kubewright.kube.sockets import CHUNK_BYTES, PATH_CHARACTERS, Settings, Sockets
from kubewright.wire.http import Request


class Plain(Sockets):
    """Requests through an aiohttp session of our own."""

    def __init__(self, access: Access, settings: Settings, clock: Clock) -> None:
        super().__init__(access, settings, clock)
        self._session: aiohttp.ClientSession | None = None
        self._retired: aiohttp.ClientSession | None = None
        self._pair: tuple[bytes, bytes] | None = None

    async def _send(
        self, request: Request, credentials: Credentials, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = dict(request.headers)
        if credentials.authorization:
            headers["authorization"] = credentials.authorization
        session = await self._ready(credentials)
        return await session.request(
            request.method,
            self._url(request),
            data=BytesIO(request.body) if request.body else None,  # aiohttp minds large bytes
            headers=headers,
            timeout=timeout,
            proxy=self.settings.proxy or self.access.proxy or None,
            server_hostname=self.access.tls_server_name or None,
            allow_redirects=False,
        )

    def _url(self, request: Request) -> URL:
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        return URL(f"{self.access.server}{quote(request.path, safe=PATH_CHARACTERS)}{query}", encoded=True)

    async def _close(self) -> None:
        for session in (self._session, self._retired):
            if session is not None:
                await session.close()

    async def _ready(self, credentials: Credentials) -> aiohttp.ClientSession:
        """The session, made anew when the client certificate is another one.

        The last one stays open until the next change: its watches end by themselves.
        """
        pair = (credentials.certificate, credentials.key)
        if self._session is None or pair != self._pair:
            oldest, self._retired = self._retired, self._session
            self._session, self._pair = self._make(*pair), pair
            if oldest is not None:
                await oldest.close()
        return self._session

    def _make(self, certificate: bytes, key: bytes) -> aiohttp.ClientSession:
        context = tls.context(self.access, certificate, key)
        connector = aiohttp.TCPConnector(limit=0, ssl=context or True)
        return aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=CHUNK_BYTES)
