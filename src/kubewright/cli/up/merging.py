"""Puts our context into the user's own kubeconfig, for ``up --merge-kubeconfig``.

Theory.      The file is the one that kubectl writes to: the first in ``$KUBECONFIG``, else
             ``~/.kube/config``; ``kubeconfig.change`` changes it.
Invariants.  A file that cannot be changed safely is not touched.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubewright.apiserver.http.kubeconfig import change, ours_in
from kubewright.base.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Merge:
    """The switches: the name of the context, and whether it becomes the current one."""

    context: str
    use: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidInput for a name that is empty or has unprintable characters."""
        if not self.context.strip() or not self.context.isprintable():
            raise InvalidInput(f"--context {self.context!r} is no name of a context")


def wanted(context: str, *, merge: bool, use: bool) -> Merge | None:
    """What the switches ask for; None: to leave the user's file alone.

    Raises:
        InvalidInput: the context is to be used and not to be merged, or its name is none.
    """
    if use and not merge:
        raise InvalidInput("--use-context goes with --merge-kubeconfig")
    return Merge(context, use) if merge else None


def merge(asked: Merge, kubeconfig: Path, data_dir: Path, environment: Mapping[str, str]) -> Path | None:
    """Put the entries of ``kubeconfig`` (ours) into the user's file; returns its path, None where it is ours.

    Raises:
        InvalidInput: the file is no kubeconfig, has the name for something else, or cannot be written.
    """
    path = users_file(environment)
    if os.path.realpath(path) == os.path.realpath(kubeconfig):
        return None
    change(path, ours_in(kubeconfig.read_bytes(), asked.context, data_dir), use=asked.use)
    return path


def users_file(environment: Mapping[str, str]) -> Path:
    """The file that ``kubectl config`` writes to."""
    listed = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(listed[0] if listed else "~/.kube/config").expanduser()
