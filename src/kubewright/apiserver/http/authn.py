"""Which user sends a request: by a certificate, a bearer token, or neither; and whom it impersonates.

Theory.      The first credential that the request has decides, in this order: certificate, token, none.
             TLS has checked a certificate's signature; here its names are read (common name is the
             user, organizations are the groups), and whether it has expired since the handshake.
             Invalid credentials are refused, never treated as anonymous.
             The ``Impersonate-*`` headers (``kubectl --as``) may name another user, with groups, a uid and
             extra values; the server then answers as if that user had asked. The real user needs the verb
             ``impersonate`` for each of them: the user or service account, each group, the uid, each extra
             value.
Invariants.  No message says what was wrong with a credential, and none is ever logged.
             An anonymous client can reach only the public paths (health, version, discovery, and the
             ConfigMap that a machine reads before it joins), and those only if a role allows it.
             The values of a header that came several times are joined by newlines, since group names
             may have commas. The impersonated user is in ``system:authenticated``, unless it is
             ``system:anonymous`` or the headers name the group ``system:unauthenticated``.
Called by    ``listener``, for every request that comes over a socket; ``app``, for whom it impersonates.
Source       kube-apiserver's impersonation, observed on v1.36; its newer verbs ``impersonate-on:*``
             and ``impersonate:*`` are not supported.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from urllib.parse import unquote

from kubewright.apiserver.authorization.policy import ACCOUNT, Attributes
from kubewright.base.clock import Clock
from kubewright.pki.facts import read_user
from kubewright.wire.errors import BadRequest, Unauthorized
from kubewright.wire.http import AUTHENTICATED, UNAUTHENTICATED, User

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


PREFIX = "impersonate-"
_USER, _GROUP, _UID, _EXTRA = (f"{PREFIX}{what}" for what in ("user", "group", "uid", "extra-"))
_AUTHN = "authentication.k8s.io"


def requested(headers: Mapping[str, str]) -> User | None:
    """The user whom the headers of a request name to be impersonated; None when they name none.

    Raises:
        BadRequest: the headers name groups, a uid or extra values, but no user.
    """
    given = {name: value for name, value in headers.items() if name.startswith(PREFIX)}
    if not given:
        return None
    groups = tuple(given[_GROUP].split("\n")) if _GROUP in given else ()
    extra = tuple(
        (unquote(name.removeprefix(_EXTRA)).lower(), tuple(value.split("\n")))
        for name, value in sorted(given.items())
        if name.startswith(_EXTRA)
    )
    name, uid = given.get(_USER, ""), given.get(_UID, "")
    if not name:
        if groups or uid or extra:
            raise BadRequest("groups, a uid or extra words were asked for without impersonating a user name")
        return None
    return User(name, groups, uid, extra)


def needed(asker: User, target: User) -> Iterator[Attributes]:
    """What the real user must be allowed, in the order in which the server checks it."""
    account = _account(target.name)
    if account is not None:
        namespace, name = account
        yield Attributes(asker, "impersonate", resource="serviceaccounts", namespace=namespace, name=name)
    else:
        yield Attributes(asker, "impersonate", resource="users", name=target.name)
    for group in target.groups:
        yield Attributes(asker, "impersonate", resource="groups", name=group)
    for key, values in target.extra:
        for value in values:
            yield Attributes(asker, "impersonate", _AUTHN, "userextras", key, name=value)
    if target.uid:
        yield Attributes(asker, "impersonate", _AUTHN, "uids", name=target.uid)


def impersonated(target: User) -> User:
    """The impersonated user, with the groups that follow from its name (``system:authenticated``, ...)."""
    groups = target.groups
    account = _account(target.name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if target.name == User().name:
        groups = groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(target.name, groups, target.uid, target.extra)


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account whose user name this is; None for other users."""
    namespace, colon, own = name.removeprefix(ACCOUNT).partition(":")
    return (namespace, own) if name.startswith(ACCOUNT) and colon and namespace and own else None
