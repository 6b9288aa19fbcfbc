"""Bootstrap tokens: what one is, when it is refreshed, when it must be made again.

Theory.      A machine joins by a token, a Secret in its cluster's ``kube-system`` that the cluster deletes
             when it expires. While the machine has no node, the provider looks at the token every third of
             its time to live, and sets the expiration to a whole time to live from then when less than five
             sixths of one are left. A token whose Secret is gone is made again under the same name: the
             machine may boot at any time. Which token that is the data say, and not the spec, into which it
             was written once: a user or a tool may have put the spec back since.
Invariants.  Pure; time and randomness are arguments. The secret part is in no message.
Source       capi.md §9.4. Upstream gives up when the Secret is missing.
Called by    ``look``, ``decide``, ``token_calls``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import unquote

from kubewright.api.bootstrap.names import TOKEN_GROUPS, TOKEN_NAMESPACE, TOKEN_TYPE, token_secret_name
from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.wire.gvk import Key

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
EXPIRATION = "expiration"
DESCRIPTION = "made by kubewright for a machine of Cluster API"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_IN_DATA = re.compile(r"bootstrapToken\W.{0,4096}?\btoken\W+([a-z0-9]{6}\.[a-z0-9]{16})\b", re.DOTALL)
"""In the document for ``kubeadm join``, however its keys are quoted and indented; addresses and hashes may
come before it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its public name, and its secret."""

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """As kubeadm reads it. Never log it."""
        return f"{self.id}.{self.secret}"

    @property
    def key(self) -> Key:
        """Where its Secret is, in the workload cluster."""
        return Key(TOKEN_NAMESPACE, token_secret_name(self.id))


def new_token(choice: Callable[[str], str]) -> Token:
    """A token of characters that ``choice`` picks; it cannot be guessed if ``choice`` is a secure source."""
    letters = [choice(ALPHABET) for _ in range(22)]
    return Token("".join(letters[:6]), "".join(letters[6:]))


def parse_token(text: str) -> Token | None:
    """The token in a text; None when it is none."""
    found = _TOKEN.fullmatch(text)
    return Token(found[1], found[2]) if found else None


def token_in_data(text: str) -> Token | None:
    """The token by which a machine joins with these data, cloud-config or Ignition; None if by none."""
    found = _IN_DATA.search(unquote(text))
    return parse_token(found[1]) if found is not None else None


def token_secret(token: Token, expires: datetime) -> Secret:
    """The Secret by which a cluster knows the token until it expires."""
    data = {
        "token-id": token.id,
        "token-secret": token.secret,
        EXPIRATION: rfc3339(expires),
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": TOKEN_GROUPS,
        "description": DESCRIPTION,
    }
    metadata = ObjectMeta(name=token.key.name, namespace=token.key.namespace)
    return Secret(metadata=metadata, type=TOKEN_TYPE, data={key: text.encode() for key, text in data.items()})


def expiration(secret: Secret) -> datetime | None:
    """Until when a token is good; None if that cannot be read."""
    try:
        return parse_rfc3339(secret.data.get(EXPIRATION, b"").decode())
    except (ValueError, UnicodeDecodeError):
        return None


def check_every(ttl: timedelta) -> timedelta:
    """How often a token is looked at while a machine may still need it."""
    return ttl / 3


def needs_refresh(until: datetime | None, ttl: timedelta, now: datetime) -> bool:
    """Whether to move the expiration. If not, two more looks come before the token expires."""
    return until is None or until <= now + ttl * 5 / 6
