"""Bootstrap tokens: by which a machine that joins says who it is, before it has a certificate.

Theory.      What a token is and when it counts says ``api.bootstrap.tokens``. Its Secret is read anew at each
             use, so a token that was deleted, changed or has expired is refused at once.
Invariants.  Secrets are compared in constant time. A group that is no group of bootstrappers is not given.
Source       capi.md §9.4; Kubernetes' token authenticator for bootstrap.kubernetes.io/token.
Called by    ``server``, for requests with a bearer token that is no service account's.
"""

import base64
import binascii
from collections.abc import Callable, Mapping

import orjson

from kubewright.api.bootstrap import tokens
from kubewright.api.bootstrap.names import TOKEN_NAMESPACE
from kubewright.base.clock import Clock
from kubewright.wire.gvk import Key
from kubewright.wire.http import User


class BootstrapTokens:
    """Reads tokens; ``read`` returns the bytes of a Secret (namespace, name), or None."""

    def __init__(self, read: Callable[[str, str], bytes | None], clock: Clock) -> None:
        self._read, self._clock = read, clock

    def user(self, token: str) -> User | None:
        """The user of a token; None when it is none, is not there, has expired, or may not authenticate."""
        name = tokens.secret_of(token)
        raw = self._read(TOKEN_NAMESPACE, name) if name else None
        if raw is None:
            return None
        secret = orjson.loads(raw)
        if (secret.get("metadata") or {}).get("deletionTimestamp"):
            return None
        data = _decoded(secret.get("data") or {})
        known = tokens.read(Key(TOKEN_NAMESPACE, name), str(secret.get("type", "")), data)
        if known is None or not known.is_text(token) or not known.authenticates:
            return None
        if not known.lasts(self._clock.now()):
            return None
        return User(f"system:bootstrap:{known.id}", known.groups)


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    found = {}
    for key, value in data.items():
        try:
            found[key] = base64.b64decode(value)
        except binascii.Error:
            continue
    return found
