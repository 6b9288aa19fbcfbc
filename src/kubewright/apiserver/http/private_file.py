"""Small files that hold secrets: readable by their owner only, and replaced atomically.

Theory.      Written under another name, forced to disk, then renamed: a program that opens the file finds
             the old content or the new one. The mode is set before the first byte is written.
Called by    ``pki`` (keys), ``kubeconfig``.
"""

import os
import tempfile
from pathlib import Path

from kubewright.base.errors import InvalidInput, Unwritten

OWNER_ONLY_FOLDER = 0o700


def write_private(path: Path, content: bytes) -> None:
    """Put ``content`` into ``path`` with mode 0600, all of it or nothing; missing folders are made.

    A symbolic link is followed: what it points to is replaced, not the link.

    Raises:
        Unwritten: the file cannot be written there.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        _replace(target, content)
    except OSError as error:
        raise Unwritten(f"cannot write {path}: {error.strerror or error}") from None


def make_private_folder(folder: Path) -> None:
    """Make ``folder`` if it is missing; set its mode to 0700.

    Raises:
        InvalidInput: it cannot be made, or is not ours.
    """
    try:
        folder.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        folder.chmod(OWNER_ONLY_FOLDER)
    except OSError as error:
        raise InvalidInput(f"cannot use the folder {folder}: {error.strerror or error}") from None


def _replace(target: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # its mode is 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
