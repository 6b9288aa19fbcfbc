"""promtool itself: what Prometheus' own checker says of our alerts, of their tests and of what we serve.

Theory.      It changes nothing and asks no server. Built from its Go module it would take minutes, because
             it can look for targets in all clouds; Debian's package of Prometheus is there in seconds
             (docs/decisions/0049).
Invariants.  Nothing is downloaded here (tools/kube does that). A promtool on PATH goes before the cache's.
Called by    tools/kube/promtool.py, tests/conformance.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.testing.real_kubernetes.binaries import kubewright_cache

PROGRAM = "promtool"
SECONDS = 60.0


class NoPromtool(InvalidInput):
    """This machine has no promtool; the message says what to do."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where ``make kube`` puts it."""
    return kubewright_cache(environ) / PROGRAM / "debian"


def in_folder(folder: Path) -> Path | None:
    """The program in a folder, if it is there."""
    program = folder / PROGRAM
    return program if os.access(program, os.X_OK) else None


def find(environ: Mapping[str, str] | None = None) -> Path:
    """The program: the one on PATH, else the cache's.

    Raises:
        NoPromtool: there is none.
    """
    if there := shutil.which(PROGRAM, path=(os.environ if environ is None else environ).get("PATH")):
        return Path(there)
    if (found := in_folder(cache_folder(environ))) is not None:
        return found
    raise NoPromtool("no promtool on this machine: install Prometheus, or on Debian say `make kube`")


def complaints(program: Path, *words: str, stdin: str = "") -> str:
    """What ``promtool check …`` or ``test …`` says against what it is given; empty when it takes it.

    It says also what it would only advise, which counts here.
    """
    done = subprocess.run(
        [program, *words], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return "" if done.returncode == 0 and not done.stderr else done.stderr + done.stdout
