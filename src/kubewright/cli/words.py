"""Words of the command line that several commands take, read and refused alike."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput


def path_of(switch: str) -> Callable[[str], Path]:
    """A reader of a switch's path.

    An empty word is a variable that is not set, ``--data-dir "$DATA"``; as a path it would mean the
    folder that one happens to be in.
    """

    def read(text: str) -> Path:
        if not str(text).strip():
            raise InvalidInput(f"{switch} is empty; name a path, or leave the switch out")
        return Path(text)

    return read


DataDir = Annotated[
    Path,
    typer.Option(help="Where everything is kept.", metavar="DIR", parser=path_of("--data-dir")),
]

DATA_DIR = Path(".kubewright")
"""Where everything is kept when no folder is named."""


def duration(switch: str, text: str) -> timedelta:
    """A switch's duration, as Go writes them.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"{switch}: {error}") from None
