"""Switches and values that several commands have, parsed and refused in the same way."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput


def path_of(switch: str) -> Callable[[str], Path]:
    """A parser of a switch's path.

    An empty value comes from a variable that is not set, ``--data-dir "$DATA"``; as a path it would mean
    the current folder.
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
    """The value of a switch as a duration, in Go's syntax.

    Raises:
        InvalidInput: it is no duration.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"{switch}: {error}") from None
