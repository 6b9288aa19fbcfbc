"""A folder that belongs to its owner alone. Called by ``embedded`` and ``cluster``."""

from pathlib import Path

from kubewright.base.errors import InvalidInput


def private_folder(path: Path) -> Path:
    """The folder; made with mode 0700 if it is missing, left as it is if it is there.

    Raises:
        InvalidInput: it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot use {path} as a data folder: {error.strerror}") from None
    return path
