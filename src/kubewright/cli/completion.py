"""``kubewright completion``: words completed by the shell, set up as kubectl's are.

Theory.      The shell runs ``kubewright`` with a variable that asks for completions; typer answers from
             the same declarations that it parses. What has no completions is completed as a file.
             Typer itself offers this as two switches only, so what is behind them is called here, and
             a test with a real shell says whether it still is what it was.
"""

import os
from enum import StrEnum

PROGRAM = "kubewright"
ASKED = "_KUBEWRIGHT_COMPLETE"
"""The variable by which a shell asks; its name follows from the program's."""


class Shell(StrEnum):
    """The shells that can ask."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def script(shell: Shell) -> str:
    """What a shell must read once, so that it asks."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    return get_completion_script(prog_name=PROGRAM, complete_var=ASKED, shell=shell.value)


def prepare() -> None:
    """Let typer know the shells, if one of them asks."""
    if ASKED in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
