"""Bootstrap tokens, as their Secrets hold them: which are good, and how they sign. Pure.

Theory.      A token is ``<id>.<secret>``, and lives in the Secret ``bootstrap-token-<id>`` of kube-system. It
             has two uses, each of which the Secret allows: a machine that joins says by it who it is, and the
             cluster signs ConfigMap cluster-info with it, so that the machine, which knows nothing of the
             cluster but the token, knows that it may believe what it reads there.
Invariants.  A Secret of another name than its token's is no token, and one whose end cannot be read is none.
             The secret part is in no ``repr`` and no message.
Source       Kubernetes' token authenticator and kube-controller-manager's bootstrapsigner; RFC 7515 (appendix
             F: a signature apart from what it signs).
Called by    the embedded server (authentication), ``builtin`` (signing, cleaning), simulated machines.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

import msgspec

from kubewright.api.bootstrap.names import TOKEN_NAMESPACE, TOKEN_TYPE
from kubewright.base.clock import parse_rfc3339
from kubewright.wire.gvk import Key

PUBLIC = "kube-public"
CLUSTER_INFO = Key(PUBLIC, "cluster-info")
"""The ConfigMap that a machine reads before it trusts anything."""
KUBECONFIG = "kubeconfig"
"""The key in it; it says where the cluster is, and by which authority it is known."""
SIGNATURE = "jws-kubeconfig-"
"""How the keys of signatures begin; the id of their token follows."""
BOOTSTRAPPERS = "system:bootstrappers"

_NAME = re.compile(r"bootstrap-token-([a-z0-9]{6})")
_TEXT = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_SECRET = re.compile(r"[a-z0-9]{16}")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """What a Secret says of its token.

    ``expires``  when it ends; None: never
    ``groups``   of the user that it stands for
    """

    id: str
    secret: str = field(repr=False)
    expires: datetime | None = None
    authenticates: bool = False
    signs: bool = False
    groups: tuple[str, ...] = (BOOTSTRAPPERS,)

    def lasts(self, now: datetime) -> bool:
        """Whether it has not ended."""
        return self.expires is None or self.expires > now

    def is_text(self, text: str) -> bool:
        """Whether this is the token in a text; the time that it takes does not tell."""
        return hmac.compare_digest(f"{self.id}.{self.secret}".encode(), text.encode())


def secret_of(text: str) -> str:
    """The name of the Secret of the token in a text; empty if the text is no token."""
    found = _TEXT.fullmatch(text)
    return f"bootstrap-token-{found[1]}" if found else ""


def ends(data: Mapping[str, bytes]) -> datetime | None:
    """When the token with these data ends; None: never.

    Raises:
        ValueError: that cannot be read.
    """
    text = _words(data, "expiration")
    return parse_rfc3339(text) if text else None


def read(key: Key, kind: str, data: Mapping[str, bytes]) -> BootstrapToken | None:
    """The token in a Secret of this type; None if there is none that counts."""
    named = _NAME.fullmatch(key.name)
    if named is None or kind != TOKEN_TYPE or key.namespace != TOKEN_NAMESPACE:
        return None
    secret = _words(data, "token-secret")
    if _words(data, "token-id") != named[1] or not _SECRET.fullmatch(secret):
        return None
    try:
        expires = ends(data)
    except ValueError:
        return None
    extra = [each.strip() for each in _words(data, "auth-extra-groups").split(",")]
    return BootstrapToken(
        named[1],
        secret,
        expires,
        authenticates=_words(data, "usage-bootstrap-authentication") == "true",
        signs=_words(data, "usage-bootstrap-signing") == "true",
        groups=(BOOTSTRAPPERS, *(each for each in extra if _GROUP.fullmatch(each))),
    )


def signature(content: str, token_id: str, secret: str) -> str:
    """The signature of a text by a token, without the text."""
    head = _base64url(msgspec.json.encode({"alg": "HS256", "kid": token_id}))
    return f"{head}..{_base64url(_digest(head, content, secret))}"


def is_signed(content: str, signature: str, secret: str) -> bool:
    """Whether a signature is by the token with this secret, of this text."""
    head, _, given = signature.partition("..")
    right = _base64url(_digest(head, content, secret))
    return hmac.compare_digest(given.encode(), right.encode())


def _digest(head: str, content: str, secret: str) -> bytes:
    return hmac.digest(secret.encode(), f"{head}.{_base64url(content.encode())}".encode(), sha256)


def _words(data: Mapping[str, bytes], name: str) -> str:
    return data.get(name, b"").decode("ascii", errors="replace")


def _base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
