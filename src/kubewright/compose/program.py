"""What this program was called as, so that a command which we print can be pasted as it stands.

Theory.      After ``make setup`` the program is ``.venv/bin/kubewright``, and on PATH only where a user
             puts it there. So it is named as it was called: by its bare name where the shell finds this
             very file by it, else by its path, from here where it is below here.
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
    """The word for the program at ``path``, where the shell finds ``found`` by its name."""
    if Path(path).name != NAME:  # another program has called us: a test, a debugger
        return NAME
    whole = Path(os.path.abspath(here / path))
    if found is not None and Path(os.path.abspath(here / found)) == whole:
        return NAME
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))
