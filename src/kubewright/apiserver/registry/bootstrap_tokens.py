"""Bootstrap tokens: by which a machine that joins says who it is, before it has a certificate.

Theory.      A token is ``<id>.<secret>``, and lives in the Secret ``bootstrap-token-<id>`` of kube-system.
             It is read anew at each use, so a token that was deleted, changed or has expired is refused at
             once.
Invariants.  Secrets are compared in constant time. A group that is no group of bootstrappers is not given.
Source       capi.md §9.4; Kubernetes' token authenticator for bootstrap.kubernetes.io/token.
Called by    ``server``, for requests with a bearer token that is no service account's.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Mapping

import orjson

from kubewright.base.clock import Clock, parse_rfc3339
from kubewright.wire.http import User

TYPE = "bootstrap.kubernetes.io/token"
NAMESPACE = "kube-system"
GROUP = "system:bootstrappers"

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    """Reads tokens; ``read`` returns the bytes of a Secret (namespace, name), or None."""

    def __init__(self, read: Callable[[str, str], bytes | None], clock: Clock) -> None:
        self._read, self._clock = read, clock

    def user(self, token: str) -> User | None:
        """The user of a token; None when it is none, is not there, has expired, or may not authenticate."""
        parts = _TOKEN.fullmatch(token)
        raw = self._read(NAMESPACE, f"bootstrap-token-{parts[1]}") if parts is not None else None
        if parts is None or raw is None:
            return None
        secret = orjson.loads(raw)
        data = _decoded(secret.get("data") or {})
        if secret.get("type") != TYPE or (secret.get("metadata") or {}).get("deletionTimestamp"):
            return None
        same = (
            hmac.compare_digest(data.get("token-secret", ""), parts[2]) and data.get("token-id") == parts[1]
        )
        allowed = data.get("usage-bootstrap-authentication") == "true"
        if not same or not allowed or not self._lasts(data.get("expiration", "")):
            return None
        extra = [each.strip() for each in data.get("auth-extra-groups", "").split(",") if each.strip()]
        groups = (GROUP, *(each for each in extra if _EXTRA.fullmatch(each)))
        return User(f"system:bootstrap:{parts[1]}", groups)

    def _lasts(self, expiration: str) -> bool:
        """Whether a token with this end is valid now; without one it is, with one that is none it is not."""
        if not expiration:
            return True
        try:
            return parse_rfc3339(expiration) > self._clock.now()
        except ValueError:
            return False


def _decoded(data: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, value in data.items():
        try:
            found[key] = base64.b64decode(value).decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found
