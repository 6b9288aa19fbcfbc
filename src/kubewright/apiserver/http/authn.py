"""Authentication: which user sends a request, by a client certificate of ours, a bearer token, or neither.

Theory.      The first credential that the request has decides, in this order: certificate, token, none.
             TLS has checked a certificate's signature; here its names are read (common name is the
             user, organizations are the groups), and whether it has expired since the handshake.
             Invalid credentials are refused, never treated as anonymous.
Invariants.  No message says what was wrong with a credential, and none is ever logged.
             An anonymous client can reach only the public paths (health, version, discovery, and the
             ConfigMap that a machine reads before it joins), and those only if a role allows it (``authz``).
Called by    ``exchange``, for every request that comes over a socket.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from kubewright.base.clock import Clock
from kubewright.pki.facts import read_user
from kubewright.wire.errors import Unauthorized
from kubewright.wire.http import AUTHENTICATED, User

ANONYMOUS = User()

REMEMBERED = 1024
"""Certificates whose users are cached: parsing one takes as long as a small request."""

_PUBLIC = re.compile(
    r"/(healthz|livez|readyz)(/.*)?"
    r"|/version/?"
    r"|/api(/[^/]+)?/?"
    r"|/apis(/[^/]+){0,2}/?"
    r"|/openapi(/.*)?"
    r"|/api/v1/namespaces/kube-public/configmaps/cluster-info"
)

Verifier = Callable[[str], User | None]
"""The user of a token (a service account, say); None for an unknown token."""


class Authenticator:
    """Finds users by certificate, and by token with ``verify``."""

    def __init__(self, clock: Clock, verify: Verifier) -> None:
        self._clock, self._verify = clock, verify
        self._read: dict[bytes, tuple[User | None, datetime]] = {}

    def user(self, certificate: bytes | None, authorization: str = "") -> User:
        """The user who sends a request; ``ANONYMOUS`` without credentials.

        Args:
            certificate: the client's, in DER, from a handshake that has checked its signature.
            authorization: the header of that name.

        Raises:
            Unauthorized: the credentials are not valid.
        """
        if certificate:
            return self._by_certificate(certificate)
        if authorization:
            return self._by_header(authorization)
        return ANONYMOUS

    def _by_certificate(self, der: bytes) -> User:
        known = self._read.get(der)
        if known is None:
            if len(self._read) >= REMEMBERED:
                self._read.clear()
            try:
                user, expires = read_user(der)
            except ValueError as error:
                raise Unauthorized("Unauthorized") from error
            known = self._read[der] = (user and _authenticated(user), expires)
        user, expires = known
        if user is None or self._clock.now() >= expires:
            raise Unauthorized("Unauthorized")
        return user

    def _by_header(self, authorization: str) -> User:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized("Unauthorized")
        user = self._verify(token)
        if user is None:
            raise Unauthorized("Unauthorized")
        return _authenticated(user)


def refuse_anonymous(user: User, method: str, path: str) -> None:
    """Refuse a request without credentials, unless its path is public.

    Raises:
        Unauthorized: a client without credentials asks for a path that is not public.
    """
    if AUTHENTICATED not in user.groups and not is_public(method, path):
        raise Unauthorized("Unauthorized")


def is_public(method: str, path: str) -> bool:
    """Whether a client without credentials may read this: health, version, discovery, the schema, and what a
    machine reads to know the server before it joins."""
    return method in ("GET", "HEAD") and _PUBLIC.fullmatch(path) is not None


def _authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))
