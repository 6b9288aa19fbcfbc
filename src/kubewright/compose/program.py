"""The name or path of this program, so that a user can paste the commands which it prints.

Theory.      After ``make setup`` the program is ``.venv/bin/kubewright``, and on PATH only where a user
             puts it there. So messages name it as the user called it: by its bare name where the shell
             finds this same file by that name, else by its path, which is relative below the current folder.
Called by    what prints commands: ``preflight``, and the demo of ``cli``.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "kubewright"


def program() -> str:
    """The words that start this program in this shell."""
    if Path(sys.argv[0]).name == "__main__.py":
        return shlex.join([sys.orig_argv[0], "-m", NAME])
    return called(sys.argv[0], shutil.which(NAME), Path.cwd())


def called(path: str, found: str | None, here: Path) -> str:
    """The word for the program at ``path``; ``found`` is what the shell finds by the bare name."""
    if Path(path).name != NAME:  # another program has called us: a test, a debugger
        return NAME
    whole = Path(os.path.abspath(here / path))
    if found is not None and Path(os.path.abspath(here / found)) == whole:
        return NAME
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))
