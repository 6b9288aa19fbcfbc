"""kubectl as a person uses it, for tests of a whole server with it.

Theory.      An unmodified kubectl is the strictest client there is: discovery, OpenAPI, tables,
             patches and watches in the combinations that people live on. Each call is a process
             of its own with a home of its own, so nothing of the machine's kubectl matters.
Called by    tests/conformance/test_kubectl*.py.
"""

import os
import shutil
import subprocess
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.testing.real_kubernetes.binaries import NoKubernetes, find

CALL_SECONDS = 40.0


class NoKubectl(InvalidInput):
    """There is no kubectl on this machine; the message says where one comes from."""


def find_kubectl() -> Path:
    """The kubectl on PATH, else the one that ``make kube`` made.

    Raises:
        NoKubectl: there is none.
    """
    if found := shutil.which("kubectl"):
        return Path(found)
    try:
        return find().kubectl
    except NoKubernetes:
        raise NoKubectl("no kubectl on PATH; `make kube` makes one") from None


class Kubectl:
    """``kubectl("get", "pods")`` is what it printed; ``refused`` is what it complained about.

    ``namespace`` is the one that calls work in when they name none.
    """

    def __init__(self, program: Path, kubeconfig: Path, home: Path, flavour: str, namespace: str) -> None:
        self.program = program
        self.kubeconfig = kubeconfig
        self.home = home
        self.flavour = flavour
        self.namespace = namespace

    def __call__(self, *words: str, stdin: str = "", **environ: str) -> str:
        """Run, and answer standard output; an assertion that it succeeded."""
        done = self.run(*words, stdin=stdin, **environ)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr or done.stdout}"
        return done.stdout

    def refused(self, *words: str, stdin: str = "") -> str:
        """Run, and answer standard error; an assertion that it failed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(words)} succeeded: {done.stdout}"
        return done.stderr

    def run(self, *words: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            check=False,
            env=self.environment(**environ),
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Run beside the test; it is the caller's to end."""
        return subprocess.Popen(
            self.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(),
        )

    def command(self, *words: str) -> list[str]:
        return [str(self.program), f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *words]

    def environment(self, **more: str) -> dict[str, str]:
        # A call lasts a tenth of a second, and a fifth of that would be Go's garbage collector.
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.home), "GOGC": "off", **more}
