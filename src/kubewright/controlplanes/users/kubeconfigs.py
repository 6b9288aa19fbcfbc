"""Read and write the text of a kubeconfig with a token.

Invariants.  No token is in a message. The claims of a token are read without verifying it: the API server
             verifies it, and what is read decides only when another one is issued.
Source       kube-apiserver's bound tokens (the claim ``kubernetes.io``).
Called by    ``wiring``.
"""

import base64
from datetime import UTC, datetime

import msgspec

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.users.seen import TokenKubeconfig
from kubewright.kube.access import Token
from kubewright.kube.config import inline_access
from kubewright.pki.clusters import by_token, kubeconfig
from kubewright.wire.http import User


def read(value: bytes) -> TokenKubeconfig | None:
    """What a kubeconfig says; None: it is no kubeconfig with a token and a user whom it impersonates."""
    try:
        found = inline_access(value)
    except InvalidInput:
        return None
    if not isinstance(found.login, Token) or found.acts_as is None or found.certificate:
        return None
    claims = _claims(found.login.token)
    if claims is None:
        return None
    issued, expires = (datetime.fromtimestamp(moment, UTC) for moment in (claims.iat, claims.exp))
    uid = claims.kubernetes.serviceaccount.uid
    return TokenKubeconfig(found.login.token, found.server, found.ca, found.acts_as, uid, issued, expires)


def render(cluster: str, server: str, authority: bytes, user: User, token: str) -> bytes:
    """The text of a kubeconfig: this token, and this user whom its bearer impersonates."""
    return kubeconfig(cluster, user.name, server, authority, by_token(token, user))


class _Account(msgspec.Struct):
    uid: str


class _Bound(msgspec.Struct):
    serviceaccount: _Account


class _Claims(msgspec.Struct):
    """The claims of a bound token that are read; only the API server verifies it."""

    iat: int
    exp: int
    kubernetes: _Bound = msgspec.field(name="kubernetes.io")


def _claims(token: str) -> _Claims | None:
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        return msgspec.json.decode(
            base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims
        )
    except ValueError:
        return None
