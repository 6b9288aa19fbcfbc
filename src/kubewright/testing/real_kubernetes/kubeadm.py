"""kubeadm itself: what it says about the documents that we write for it, and about clusters to join.

Theory.      ``kubeadm config validate`` decodes a document strictly, fills in what is missing and checks
             every value, as ``init`` and ``join`` do on a machine. It needs no cluster and touches nothing.
             The phase ``preflight`` of ``join`` reads in a cluster all that a machine needs.
Called by    tools/kube/install.py, tests/conformance.
"""

import subprocess
from pathlib import Path

from kubewright.testing.real_kubernetes.binaries import VERSION
from kubewright.testing.real_kubernetes.cached import Cached

KUBEADM = Cached("kubeadm", VERSION)
SECONDS = 60.0


def problems(program: Path, document: Path) -> str:
    """What kubeadm says against a document; empty when it takes it. That an API is old is no problem."""
    done = subprocess.run(
        [program, "config", "validate", "--config", document, "--allow-deprecated-api"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return "" if done.returncode == 0 and not done.stderr else done.stderr or done.stdout


def refusal(program: Path, document: Path) -> str:
    """Why kubeadm would not join a cluster that is there; empty when it would.

    It finds the cluster, trusts it and reads how it is configured, and changes nothing. What it says of this
    machine, which has neither a container runtime nor a kubelet, does not count.
    """
    done = subprocess.run(
        [program, "join", "phase", "preflight", "--config", document, "--ignore-preflight-errors=all"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr or done.stdout
