"""Where the programs of a real control plane are on this machine.

Theory.      Three places, in this order: the folder named by ``KUBEBUILDER_ASSETS``, PATH, and
             the cache that ``make kube`` fills. A place counts only when it has all of
             ``PROGRAMS`` and their Kubernetes is ``OLDEST`` or newer; programs of two places
             are never mixed. ``KUBEWRIGHT_KUBE`` may name one place; then no other is looked at.
Invariants.  Nothing is downloaded or built here (``tools/kube`` does that), nothing is written.
Called by    ``cluster``, tools/kube/install.py, and the tests' fixtures.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.wire.release import KUBERNETES

VERSION = KUBERNETES
"""The release that ``make kube`` builds; pinned in tools/kube/go.mod as well."""

OLDEST = (1, 34)
"""The oldest release that we compare with: the oldest that is still supported upstream."""

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
VERSION_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one Kubernetes release, in one folder or all on PATH."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    kubectl: Path
    version: str

    @classmethod
    def at(cls, paths: Mapping[str, Path]) -> "Binaries | None":
        """The programs at these paths, or None when they are older than ``OLDEST``."""
        version = kubernetes_version(paths["kube-apiserver"])
        etcd, apiserver, manager, kubectl = (paths[name] for name in PROGRAMS)
        return cls(etcd, apiserver, manager, kubectl, version) if recent(version) else None


class NoKubernetes(InvalidInput):
    """This machine has no Kubernetes to compare with; the message says what to do."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where ``make kube`` puts ``VERSION``; outside every checkout, shared by all of them."""
    return kubewright_cache(environ) / "kube" / VERSION


def kubewright_cache(environ: Mapping[str, str] | None = None) -> Path:
    """Where all that ``make kube`` builds is, by the desktop's standard."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "kubewright"


def find(environ: Mapping[str, str] | None = None) -> Binaries:
    """The programs to use.

    Raises:
        NoKubernetes: no place has all of them in a release that is new enough.
    """
    environ = os.environ if environ is None else environ
    if named := environ.get("KUBEWRIGHT_KUBE"):
        if found := in_folder(Path(named)):
            return found
        raise NoKubernetes(f"KUBEWRIGHT_KUBE is {named}, but {_lacking(Path(named))}")
    if found := (find_installed(environ) or in_folder(cache_folder(environ))):
        return found
    raise NoKubernetes(f"no Kubernetes of {_dotted(OLDEST)} or newer on this machine; `make kube` gets one")


def find_installed(environ: Mapping[str, str]) -> Binaries | None:
    """What is installed on this machine: in ``KUBEBUILDER_ASSETS``, else on PATH."""
    if (assets := environ.get("KUBEBUILDER_ASSETS")) and (found := in_folder(Path(assets))):
        return found
    return on_path(environ.get("PATH", ""))


def in_folder(folder: Path) -> Binaries | None:
    paths = {name: folder / name for name in PROGRAMS}
    return Binaries.at(paths) if all(os.access(path, os.X_OK) for path in paths.values()) else None


def on_path(path: str) -> Binaries | None:
    found = {name: shutil.which(name, path=path) for name in PROGRAMS}
    complete = {name: Path(where) for name, where in found.items() if where}
    return Binaries.at(complete) if len(complete) == len(PROGRAMS) else None


def kubernetes_version(apiserver: Path) -> str:
    """``v1.36.3`` as the program itself says it; empty when it does not say."""
    try:
        said = subprocess.run(
            [apiserver, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"v\d+\.\d+\.\d+\S*", said)
    return found[0] if found else ""


def recent(version: str) -> bool:
    """Whether we compare ourselves with a release: ``v1.34.0`` may, ``v1.33.9`` and ``""`` may not."""
    found = re.match(r"v(\d+)\.(\d+)\.", version)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST


def _lacking(folder: Path) -> str:
    missing = [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]
    if missing:
        return f"it has no {', '.join(missing)}"
    version = kubernetes_version(folder / "kube-apiserver")
    return f"its Kubernetes is {version or 'of unknown version'}, older than {_dotted(OLDEST)}"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
