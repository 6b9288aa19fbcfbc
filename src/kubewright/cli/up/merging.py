"""Puts our context into the user's own kubeconfig, for ``up --merge-kubeconfig``.

Theory.      The file is the one that kubectl writes to: the first in ``$KUBECONFIG``, else
             ``~/.kube/config``. This module takes kubectl's own lock beside it, so that neither program
             loses what the other writes, and replaces the file as a whole, mode 0600.
Invariants.  A file that ``kubeconfig_text`` refuses is not touched.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from kubewright.apiserver.http.kubeconfig import LARGEST
from kubewright.apiserver.http.private_file import make_private_folder, write_private
from kubewright.base.errors import InvalidInput
from kubewright.cli.up.kubeconfig_text import Ours, merged


@dataclass(frozen=True, slots=True)
class Merge:
    """The switches: the name of the context, and whether it becomes the current one."""

    context: str
    use: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidInput for a name that is empty or has unprintable characters."""
        if not self.context.strip() or not self.context.isprintable():
            raise InvalidInput(f"--context {self.context!r} is no name of a context")


def merge(asked: Merge, kubeconfig: Path, data_dir: Path, environment: Mapping[str, str]) -> Path | None:
    """Put the entries of ``kubeconfig`` (ours) into the user's file; returns its path, None where it is ours.

    Raises:
        InvalidInput: the file is no kubeconfig, has the name for something else, or cannot be written.
    """
    path = users_file(environment)
    if path.exists() and path.samefile(kubeconfig):
        return None
    whole = yaml.safe_load(kubeconfig.read_bytes())
    ours = Ours(
        asked.context, whole["clusters"][0]["cluster"], whole["users"][0]["user"], str(data_dir.absolute())
    )
    if not path.parent.is_dir():
        make_private_folder(path.parent)
    with _locked(path):
        before = _read(path)
        try:
            after = merged(before, ours, use=asked.use)
        except InvalidInput as error:
            raise InvalidInput(f"{path} was left as it is: {error}") from None
        if after != before:
            write_private(path, after.encode())
    return path


def users_file(environment: Mapping[str, str]) -> Path:
    """The file that ``kubectl config`` writes to."""
    listed = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(listed[0] if listed else "~/.kube/config").expanduser()


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise InvalidInput(f"{path} was left as it is: it is too large for a kubeconfig")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} was left as it is: it is not UTF-8") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(path.name + ".lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise InvalidInput(f"another program is changing {path}; if none is, delete {lock}") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {lock}: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
