"""The kubeconfig of the embedded server: everything inline, one cluster, one user, one context.

Theory.      Our entries are written anew at each start (the port may have changed). What kubectl or a user
             put beside them or into them (``kubectl config set-context --namespace``) stays. A kubeconfig
             that has nothing of ours is never changed, not even to add a context and not even in our data
             folder (which may be any folder of the user): users keep the keys of their real clusters in such
             files. Only ``change`` does that, for ``up --merge-kubeconfig``.
Invariants.  Mode 0600, and always a whole file: a reader meanwhile sees the old or the new one.
Called by    the composition root, when the server listens; ``cli.up.merging``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any

from kubewright.apiserver.http.config_text import BODIES, Ours, is_cluster_of, merged
from kubewright.apiserver.http.pki import make_private_folder, write_private
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.pki import clusters
from kubewright.pki.certificates import Identity
from kubewright.wire import goyaml

NAME = "kubewright"
"""Of the context, the cluster and the user."""

LARGEST = 4 * 1024 * 1024
"""Bytes of a file that may be a kubeconfig."""

OWNER_ONLY = 0o600

STALE_SECONDS = 60.0
"""A lock of our own kubeconfig is held for milliseconds; one of this age was left behind."""


def render(url: str, authority: bytes, identity: Identity) -> bytes:
    """The text of a kubeconfig: where the server is, the authority to trust, and the user."""
    return clusters.kubeconfig(NAME, NAME, url, authority, clusters.by_certificate(identity), context=NAME)


def write(path: Path, content: bytes, data_dir: Path) -> None:
    """Put the entries of a kubeconfig of ours into ``path``, which keeps what else it has.

    Raises:
        InvalidInput: the file there has nothing of ours, or it cannot be read or written.
    """
    before = _existing(path)
    if not _has_ours(before, content, data_dir):
        raise InvalidInput(
            f"{path} is not a kubeconfig of ours and will not be overwritten; "
            "choose another file with --kubeconfig, or move this one away"
        )
    patience = STALE_SECONDS if path.absolute().parent == data_dir.absolute() else None
    change(path, ours_in(content, NAME, data_dir), certain=True, patience=patience)


def change(
    path: Path, ours: Ours, *, use: bool = False, certain: bool = False, patience: float | None = None
) -> None:
    """Put entries into the file at ``path``, as ``config_text.merged`` does, under kubectl's own lock.

    ``patience``: seconds after which a lock was left by a process that was killed; None: no lock is.

    Raises:
        InvalidInput: it has the name for something else, or cannot be changed safely, read or written;
            another program is changing it.
    """
    _existing(path)  # before anything is made beside it
    if not path.parent.is_dir():
        make_private_folder(path.parent)
    with _locked(path, patience):
        before = _text(path, _existing(path))
        try:
            after = merged(before, ours, use=use, certain=certain)
        except InvalidInput as error:
            raise InvalidInput(f"{path} was left as it is: {error}") from None
        if after != before:
            write_private(path, after.encode())
        elif before:
            path.chmod(OWNER_ONLY)


def ours_in(content: bytes, name: str, data_dir: Path) -> Ours:
    """Our entries in a kubeconfig that ``write`` or ``render`` made, under another name."""
    whole = goyaml.loads(content)
    cluster, user = (
        next(entry[body] for entry in whole[part] if entry["name"] == NAME)
        for part, body in (("clusters", "cluster"), ("users", "user"))
    )
    return Ours(name, cluster, user, str(data_dir.absolute()))


def _has_ours(before: bytes, content: bytes, data_dir: Path) -> bool:
    """Whether a file is empty, has entries of our name only, or has the cluster of this data folder."""
    if not before.strip():
        return True
    try:
        found = goyaml.loads(before)
    except goyaml.Unreadable:
        return False
    if not isinstance(found, Mapping):
        return False
    named = {each for part in BODIES for each in _names(found.get(part))}
    return named == {NAME} or is_cluster_of(found, ours_in(content, NAME, data_dir))


def _names(entries: Any) -> set[Any]:
    """The names in a list of named things, none where there is none; {None} where it is not such a list."""
    if entries is None:
        return set()
    if not isinstance(entries, list):
        return {None}
    return {str(entry.get("name")) if isinstance(entry, Mapping) else None for entry in entries}


def _existing(path: Path) -> bytes:
    """What a kubeconfig has now, nothing where there is none.

    Only a regular file is opened, and so replaced later: a pipe would never end, and a device such as
    ``/dev/null`` would become a file for every program of the machine.
    """
    try:
        if not S_ISREG(path.stat().st_mode):
            raise InvalidInput(f"{path} is no regular file, so it cannot become a kubeconfig")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise InvalidInput(f"{path} was left as it is: it is too large for a kubeconfig")
    return content


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} was left as it is: it is not UTF-8") from None


@contextmanager
def _locked(path: Path, patience: float | None) -> Iterator[None]:
    """Hold kubectl's own lock of a kubeconfig, so that neither program loses what the other writes."""
    lock = path.with_name(path.name + ".lock")
    try:
        if (
            patience is not None
            and lock.exists()
            and SystemClock().now().timestamp() > lock.stat().st_mtime + patience
        ):
            lock.unlink(missing_ok=True)
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, OWNER_ONLY))
    except FileExistsError:
        raise InvalidInput(f"another program is changing {path}; if none is, delete {lock}") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {lock}: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
