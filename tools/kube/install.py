"""What ``make kube`` runs: a real Kubernetes for this machine, to judge our tests.

Theory.      Where KUBEWRIGHT_KUBE names a folder, that one is used and no other; without it what is
             installed (KUBEBUILDER_ASSETS, PATH); else what an earlier run put into the
             cache; else everything is built from the modules of go.mod beside this file, with the
             Go toolchain and the module registry that this machine is set up for, and moved into
             the cache in one step. A second run waits for the first and finds its result.
             About five minutes on two cores.
Called by    the Makefile; ``testing.judge.binaries`` finds the result again.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubewright.testing.judge.binaries import (
    PROGRAMS,
    VERSION,
    Binaries,
    NoKubernetes,
    cache_folder,
    find,
    find_installed,
    in_folder,
)

HERE = Path(__file__).parent
PACKAGES = {
    "go.etcd.io/etcd/server/v3": "etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver": "kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager": "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kubectl": "kubectl",
}
STAMP = "k8s.io/component-base/version.git"


def main() -> int:
    try:
        named = os.environ.get("KUBEWRIGHT_KUBE")
        found = find() if named else find_installed(os.environ) or cached_or_built()
    except (Failed, NoKubernetes) as failure:
        print(f"make kube: {failure}", file=sys.stderr)
        return 1
    print(f"Kubernetes {found.version}: {found.apiserver.parent}")
    return 0


class Failed(Exception):
    """The programs could not be had; the message is for a person."""


def cached_or_built() -> Binaries:
    folder = cache_folder()
    if found := in_folder(folder):
        return found
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_one(folder.with_name(f"{VERSION}.lock")):
            if (found := in_folder(folder)) is None:  # another run may have built while we waited
                build_into(folder)
    except OSError as error:
        raise Failed(f"cannot write the cache {folder.parent}: {error.strerror or error}") from error
    if found := found or in_folder(folder):
        return found
    raise Failed(f"what was built in {folder} does not run here")


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold a lock that the kernel frees when this process ends, however it ends."""
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("make kube: another one is at it; waiting", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build_into(folder: Path) -> None:
    """Build beside ``folder`` and rename: the folder is complete from its first moment."""
    go = shutil.which("go")
    if go is None:
        raise Failed(
            "no Kubernetes 1.34 or newer here (KUBEBUILDER_ASSETS, PATH), and no Go toolchain to build one; "
            "install either"
        )
    with tempfile.TemporaryDirectory(prefix=f".{VERSION}-", dir=folder.parent) as scratch:
        building = Path(scratch) / "bin"
        building.mkdir()
        for package, program in PACKAGES.items():
            print(f"make kube: building {program} ({VERSION})", file=sys.stderr, flush=True)
            compile_program(go, package, building / program)
        shutil.rmtree(folder, ignore_errors=True)  # incomplete or broken, else we were not here
        building.rename(folder)


def compile_program(go: str, package: str, target: Path) -> None:
    major, minor, _ = VERSION.removeprefix("v").split(".")
    flags = f"-s -w -X {STAMP}Version={VERSION} -X {STAMP}Major={major} -X {STAMP}Minor={minor}"
    command = [
        go,
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        flags,
        "-o",
        str(target),
        package,
    ]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise Failed(f"`go build {package}` failed:\n{tail}")


assert set(PACKAGES.values()) == set(PROGRAMS)

if __name__ == "__main__":
    sys.exit(main())
