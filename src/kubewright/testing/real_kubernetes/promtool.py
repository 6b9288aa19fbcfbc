"""promtool itself: what Prometheus' own checker says of our alerts, of their tests and of what we serve.

Theory.      It changes nothing and asks no server. Built from its Go module it would take minutes, because
             it can look for targets in all clouds; Debian's package of Prometheus is there in seconds
             (docs/decisions/0049).
Invariants.  A promtool on PATH goes before the cache's.
Called by    tools/kube/debian.py, tests/conformance.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kubewright.testing.real_kubernetes.cached import Cached

PROMTOOL = Cached("promtool", "debian")
SECONDS = 60.0


def find(environ: Mapping[str, str] | None = None) -> Path:
    """The program: the one on PATH, else the cache's.

    Raises:
        NoProgram: there is none.
    """
    there = shutil.which(PROMTOOL.name, path=(os.environ if environ is None else environ).get("PATH"))
    return Path(there) if there else PROMTOOL.find(environ)


def complaints(program: Path, *words: str, stdin: str = "") -> str:
    """What ``promtool check …`` or ``test …`` says against what it is given; empty when it takes it.

    It says also what it would only advise, which counts here.
    """
    done = subprocess.run(
        [program, *words], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return "" if done.returncode == 0 and not done.stderr else done.stderr + done.stdout
