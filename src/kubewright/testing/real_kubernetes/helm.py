"""helm itself: what it makes of the chart in ``deploy/chart``, and what it installs of it.

Invariants.  A call has a deadline, and a home of its own, so that no configuration, plugin or repository of
             the machine's helm matters.
Called by    tools/kube/install.py, tests/conformance.
"""

import subprocess
from pathlib import Path

from kubewright.testing.real_kubernetes.cached import Cached

HELM = Cached("helm", "v4.2.4")
SECONDS = 120.0


class Helm:
    """``helm("lint", "deploy/chart")`` is what it printed; ``refused`` is what it complained about."""

    def __init__(self, program: Path, home: Path, kubeconfig: Path | None = None) -> None:
        self._program, self._home, self._kubeconfig = program, home, kubeconfig

    def __call__(self, *words: str) -> str:
        """Run, and answer standard output; an assertion that it succeeded."""
        done = self.run(*words)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr or done.stdout}"
        return done.stdout

    def refused(self, *words: str) -> str:
        """Run, and answer all that it said; an assertion that it failed."""
        done = self.run(*words)
        assert done.returncode != 0, f"helm {' '.join(words)} succeeded: {done.stdout}"
        return done.stdout + done.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self._home)}
        if self._kubeconfig is not None:
            environ["KUBECONFIG"] = str(self._kubeconfig)
        return subprocess.run(
            [self._program, *words],
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
