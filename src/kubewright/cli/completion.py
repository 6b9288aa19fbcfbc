"""``kubewright completion``: words completed by the shell, set up as kubectl's are.

Theory.      The shell runs ``kubewright`` with a variable that asks for completions; typer answers from
             the same declarations that it parses. What has no completions is completed as a file.
             Typer itself offers this as two switches only, so this module calls the functions behind
             them; a test with a real shell notices when an update of typer changes them.
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
    """The script that a shell must source, so that it asks for completions."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    return get_completion_script(prog_name=PROGRAM, complete_var=ASKED, shell=shell.value)


def prepare() -> None:
    """Register typer's shells, when a shell asks for completions."""
    if ASKED in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
