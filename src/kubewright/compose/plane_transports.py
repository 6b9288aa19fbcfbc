"""Transports to the control planes of this process: no socket, but the checks of a TLS connection.

Theory.      Our own controllers reach a workload cluster by its kubeconfig, wherever it runs. For a cluster
             of this process a TLS connection would cost more than the requests, and on the simulator's
             virtual time there are no sockets. So a request is passed to the API server in process; trust and
             the user are checked from the kubeconfig, as a TLS handshake would check them.
Invariants.  A kubeconfig whose authority is not the cluster's gets no answer, one whose certificate or token
             is not of the cluster gets 401, and the user is the one that the certificate names: what is
             refused at a socket is refused here. A control plane that does not serve does not answer.
Called by    ``compose`` as the ``Connect`` of the worlds that have workload clusters.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from kubewright.apiserver.http.answers import failure
from kubewright.apiserver.http.authn import Authenticator, refuse_anonymous
from kubewright.base.clock import Clock
from kubewright.clusters.sessions import Connect, by_sockets
from kubewright.compose.api_servers import Plane, Planes
from kubewright.kube.access import Access, Token, impersonation
from kubewright.kube.errors import ConnectFailed
from kubewright.kube.transport import InProcess, Transport
from kubewright.pki.certificates import Identity
from kubewright.pki.facts import is_trusted, public_key_hashes
from kubewright.pki.keys import pems
from kubewright.wire.errors import Unauthorized
from kubewright.wire.http import Request, Response


class PlaneTransports:
    """Makes transports (``Connect``): to ``planes`` in process, to all other clusters by ``others``."""

    def __init__(self, planes: Planes, others: Connect = by_sockets) -> None:
        self._planes = planes
        self._others = others

    def __call__(self, access: Access, clock: Clock) -> Transport:
        """The transport for this access. Contacts nothing."""
        address = access.server.removeprefix("https://").rstrip("/")
        if self._planes.is_ours(address):
            return _PlaneTransport(self._planes, address, access, clock)
        return self._others(access, clock)


class _PlaneTransport:
    """Requests to one cluster, as the user of one kubeconfig."""

    def __init__(self, planes: Planes, address: str, access: Access, clock: Clock) -> None:
        self._planes = planes
        self._address = address
        self._access = access
        self._clock = clock
        self._closed = False
        self._checked_for: tuple[Plane, Authenticator, bytes | None] | None = None

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        try:
            transport, sent = self._checked(request)
        except Unauthorized as refused:
            return failure(refused)
        return await transport.request(sent, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        transport, sent = self._checked(request)
        async with transport.stream(sent) as chunks:
            yield chunks

    async def close(self) -> None:
        """As ``Transport.close``."""
        self._closed = True

    def _checked(self, request: Request) -> tuple[InProcess, Request]:
        """The transport to the cluster, and the request with the user of the kubeconfig.

        Raises:
            ConnectFailed: it does not serve, or it is not the one that the kubeconfig means.
            Unauthorized: it does not know the user.
        """
        plane = self._planes.find(self._address)
        if self._closed or plane is None:
            raise ConnectFailed(f"no API server answers at {self._address}")
        if self._checked_for is None or self._checked_for[0] is not plane:
            self._checked_for = (
                plane,
                Authenticator(self._clock, plane.server.user_of_token),
                self._client_certificate(plane),
            )
        _, authenticator, certificate = self._checked_for
        login = self._access.login
        bearer = f"Bearer {login.token}" if isinstance(login, Token) else ""
        user = authenticator.user(certificate, bearer)
        refuse_anonymous(user, request.method, request.path)
        headers = dict(request.headers)
        for name, value in impersonation(self._access.acts_as):
            headers[name] = f"{headers[name]}\n{value}" if name in headers else value
        return InProcess(plane.handle), replace(request, headers=headers, user=user)

    def _client_certificate(self, plane: Plane) -> bytes | None:
        """The client's certificate, as a handshake would have checked it; None if it has none."""
        trusted = set(public_key_hashes(self._access.ca)) if self._access.ca else set()
        if not self._access.insecure and not trusted & set(public_key_hashes(plane.authority)):
            raise ConnectFailed(f"the certificate of {self._address} is signed by an unknown authority")
        if not self._access.certificate:
            return None
        try:
            identity = Identity.from_pem(self._access.certificate + b"\n" + self._access.key)
        except ValueError:
            raise ConnectFailed("the client certificate of the kubeconfig has no key that fits") from None
        if not is_trusted(identity.certificate, plane.authority):
            raise ConnectFailed(f"{self._address} does not know who has signed the client's certificate")
        return ssl.PEM_cert_to_DER_cert(pems(identity.certificate)[0].decode())
