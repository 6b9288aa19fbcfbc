"""Bootstrap tokens: what one is, when it is refreshed, when it must be made again.

Theory.      A machine joins by a token, a Secret in its cluster's ``kube-system`` that the cluster deletes
             when it expires. While the machine has no node, the provider looks at the token every third of
             its time to live, and sets the expiration to a whole time to live from then when less than five
             sixths of one are left. A token whose Secret is gone is made again under the same name: the
             machine may boot at any time. Which token that is the data say, and not the spec, into which it
             was written once: a user or a tool may have put the spec back since.
Invariants.  Pure; time and randomness are arguments. The secret part is in no message.
Source       Cluster API's kubeadm bootstrap provider, which gives up when the Secret is missing.
Called by    ``look``, ``decide``, ``token_calls``.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

import msgspec

from kubewright.api.bootstrap.names import (
    IGNITION_FILE,
    JOIN_FILE,
    TOKEN_GROUPS,
    TOKEN_NAMESPACE,
    TOKEN_TYPE,
    token_secret_name,
)
from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.wire import goyaml
from kubewright.wire.gvk import Key

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
EXPIRATION = "expiration"
DESCRIPTION = "made by kubewright for a machine of Cluster API"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_FIRST = re.compile(r"^write_files:\n( *+)- ", re.MULTILINE)
"""Where the files of cloud-config begin."""

_LINE = re.compile(r"""^ *+token: *+["']?([a-z0-9]{6}\.[a-z0-9]{16})["']?$""", re.MULTILINE)
_LARGEST = 64 * 1024
"""The most characters of a document for ``kubeadm join`` that are read."""


class _Contents(msgspec.Struct):
    source: str = ""


class _File(msgspec.Struct):
    path: str = ""
    contents: _Contents = msgspec.field(default_factory=_Contents)


class _Storage(msgspec.Struct):
    files: list[_File] = msgspec.field(default_factory=list)


class _Ignition(msgspec.Struct):
    """What is read of an Ignition config."""

    storage: _Storage = msgspec.field(default_factory=_Storage)


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
    """The token by which a machine joins with these data, cloud-config or Ignition; None if by none.

    It is read from the document for ``kubeadm join`` alone: files of users may have others.
    """
    document = _of_ignition(text) if text.startswith("{") else _of_cloud_config(text)
    if not document or len(document) > _LARGEST:
        return None
    try:
        found = [_joins_by(each) for each in goyaml.load_all(document)]
    except goyaml.Unreadable:  # statements of Jinja stand in it, and it is YAML only after that
        found = [each[1] for each in _LINE.finditer(document)]
    return next((token for each in found if (token := parse_token(each)) is not None), None)


def _joins_by(document: Any) -> str:
    """The token in a document of kubeadm; empty if there is none."""
    for name in ("discovery", "bootstrapToken", "token"):
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, str) else ""


def _of_cloud_config(text: str) -> str:
    """The document for ``kubeadm join``: the last file of its path, since cloud-init writes them in order.

    Only that file is read as YAML: others may be large. An item of the list begins where the first does, and
    what stands in a file has more indent.
    """
    files = text[:end] if (end := text.rfind("\nruncmd:\n")) >= 0 else text
    first = _FIRST.search(files)
    if first is None:
        return ""
    dash = first[1]
    path = re.compile(rf"""^{dash}- ++path: *+["']?{re.escape(JOIN_FILE)}["']?$""", re.MULTILINE)
    starts = [found.start() for found in path.finditer(files, first.start(1))]
    if not starts:
        return ""
    item = files[starts[-1] : starts[-1] + _LARGEST].partition(f"\n{dash}- ")[0]
    try:
        (file,) = goyaml.loads(item)
    except goyaml.Unreadable:
        return item
    return str(file.get("content", ""))


def _of_ignition(text: str) -> str:
    """The document for ``kubeadm``, from its data URL."""
    try:
        files = msgspec.json.decode(text, type=_Ignition).storage.files
    except (msgspec.DecodeError, UnicodeError):
        return ""
    sources = [each.contents.source for each in files if each.path == IGNITION_FILE]
    head, _, body = sources[-1].partition(",") if sources else ("", "", "")
    if not head.endswith(";base64"):
        return unquote(body[: 3 * _LARGEST])
    try:
        return base64.b64decode(body[: 2 * _LARGEST]).decode(errors="replace")
    except ValueError:
        return ""


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
