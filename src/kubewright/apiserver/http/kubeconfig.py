"""The kubeconfig of the embedded server: everything inline, one cluster, one user, one context.

Theory.      A file that we wrote is rewritten at each start (the port may have changed). Any other
             kubeconfig is never changed, not even to add a context and not even in our data folder
             (which may be any folder of the user): users keep the keys of their real clusters
             in such files.
Invariants.  Mode 0600, and always a whole file: a reader meanwhile sees the old or the new one.
Called by    the composition root, when the server listens.
"""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kubewright.apiserver.http.private_file import write_private
from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import Identity

NAME = "kubewright"
"""Of the context, the cluster and the user."""

LARGEST = 4 * 1024 * 1024
"""Bytes of a file that are read to see whether it is ours."""


def render(url: str, authority: bytes, identity: Identity) -> bytes:
    """The text of a kubeconfig: where the server is, the authority to trust, and the user."""
    return f"""\
apiVersion: v1
kind: Config
current-context: {NAME}
clusters:
- name: {NAME}
  cluster:
    server: {url}
    certificate-authority-data: {_inline(authority)}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
users:
- name: {NAME}
  user:
    client-certificate-data: {_inline(identity.certificate)}
    client-key-data: {_inline(identity.key)}
""".encode()


def write(path: Path, content: bytes) -> None:
    """Put a kubeconfig of ours into ``path``.

    Raises:
        InvalidInput: the file there is not ours, or it cannot be written.
    """
    if not is_ours(_existing(path)):
        raise InvalidInput(
            f"{path} is not a kubeconfig of ours and will not be overwritten; "
            "choose another file with --kubeconfig, or move this one away"
        )
    write_private(path, content)


def is_ours(content: bytes) -> bool:
    """Whether a file has only our context, or is empty."""
    if not content.strip():
        return True
    try:
        found = yaml.safe_load(content)
    except yaml.YAMLError:
        return False
    return isinstance(found, Mapping) and all(
        _names(found.get(part)) == {NAME} for part in ("contexts", "clusters", "users")
    )


def _names(entries: Any) -> set[Any]:
    """The names in a list of named things; {None} where it is not such a list."""
    if not isinstance(entries, list):
        return {None}
    return {str(entry.get("name")) if isinstance(entry, Mapping) else None for entry in entries}


def _existing(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None


def _inline(pem: bytes) -> str:
    return b64encode(pem).decode()
