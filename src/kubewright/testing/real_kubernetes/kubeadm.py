"""kubeadm itself: what it says about the documents that we write for it, and about clusters to join.

Theory.      ``kubeadm config validate`` decodes a document strictly, fills in what is missing and checks
             every value, as ``init`` and ``join`` do on a machine. It needs no cluster and touches nothing.
             The phase ``preflight`` of ``join`` reads in a cluster all that a machine needs.
Invariants.  Nothing is downloaded or built here (tools/kube does that). The program is not looked for in
             other places than the cache: those have a kubeadm of another release, if any.
Called by    tools/kube/install.py, tests/conformance.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.testing.real_kubernetes.binaries import VERSION, kubewright_cache

PROGRAM = "kubeadm"
SECONDS = 60.0


class NoKubeadm(InvalidInput):
    """This machine has no kubeadm to ask; the message says what to do."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where ``make kube`` puts it; apart from the programs of a cluster, which may be installed elsewhere."""
    return kubewright_cache(environ) / PROGRAM / VERSION


def in_folder(folder: Path) -> Path | None:
    """The program in a folder, if it is there."""
    program = folder / PROGRAM
    return program if os.access(program, os.X_OK) else None


def find(environ: Mapping[str, str] | None = None) -> Path:
    """The program.

    Raises:
        NoKubeadm: the cache has not got it.
    """
    if (found := in_folder(cache_folder(environ))) is not None:
        return found
    raise NoKubeadm(f"no kubeadm {VERSION} on this machine; `make kube` builds one")


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
