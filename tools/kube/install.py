"""What ``make kube`` runs: a real Kubernetes for this machine, for our tests.

Theory.      Where KUBEWRIGHT_KUBE names a folder, that one is used and no other; without it what is
             installed (KUBEBUILDER_ASSETS, PATH); else what an earlier run put into the
             cache; else everything is built from the modules of go.mod beside this file, with the
             Go toolchain and the module registry that this machine is set up for, and moved into
             the cache in one step. A second run waits for the first and finds its result.
             With the name of a folder beside this file (``1.35``), that earlier release is built instead, for
             control planes of two releases: etcd, the API server and the controller manager alone.
             kubeadm and kube-scheduler are built from the same modules. Cluster API's programs are built
             likewise, from a go.mod of their own, since they need other versions of the same modules; a
             decoder of ours with their types is beside it. helm, which installs our chart, has a go.mod of
             its own, too, and so have the libraries that judge what we write for others (judges). promtool,
             which checks our alerts, and cloud-init are Debian's. About ten minutes on two cores, all in all.
Called by    the Makefile; ``testing.real_kubernetes.binaries`` finds the result again.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import debian

from kubewright.testing.real_kubernetes import capi, judges
from kubewright.testing.real_kubernetes.binaries import (
    PROGRAMS,
    VERSION,
    Binaries,
    NoKubernetes,
    cache_folder,
    find,
    find_installed,
    in_folder,
    kubernetes_version,
)
from kubewright.testing.real_kubernetes.cached import SCHEDULER, Cached
from kubewright.testing.real_kubernetes.helm import HELM
from kubewright.testing.real_kubernetes.kubeadm import KUBEADM

HERE = Path(__file__).parent
ETCDUTL, ETCDUTL_VERSION = "etcdutl", "v3.6.8"
"""The version of the etcd in go.mod."""


@dataclass(frozen=True, slots=True)
class Release:
    """A set of programs that are built together: from the go.mod in ``module``, into ``folder``.

    ``packages`` maps a Go package to the name that its program gets; ``stamp`` are linker flags that tell the
    programs their version. ``found`` answers what is in a folder, None unless all programs are there and run.
    ``name`` and ``version`` are for people and for the lock.
    """

    name: str
    version: str
    module: Path
    folder: Path
    packages: Mapping[str, str]
    stamp: str
    found: Callable[[Path], object]

    def is_complete(self) -> bool:
        return self.found(self.folder) is not None


COMPONENTS = {
    "go.etcd.io/etcd/server/v3": "etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver": "kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager": "kube-controller-manager",
}


def stamp(version: str) -> str:
    """What tells programs of Kubernetes their version."""
    major, minor, _ = version.removeprefix("v").split(".")
    package = "k8s.io/component-base/version.git"
    return f"-X {package}Version={version} -X {package}Major={major} -X {package}Minor={minor}"


def kubernetes() -> Release:
    return Release(
        "Kubernetes",
        VERSION,
        HERE,
        cache_folder(),
        {**COMPONENTS, "k8s.io/kubernetes/cmd/kubectl": "kubectl"},
        stamp(VERSION),
        in_folder,
    )


def earlier_release(name: str) -> Release:
    """A release of the past that has a folder beside this file.

    Raises:
        Failed: there is none of that name.
    """
    module = HERE / name
    there = ", ".join(sorted(each.parent.name for each in HERE.glob("[0-9]*/go.mod")))
    if module.parent != HERE or not (module / "go.mod").is_file():
        raise Failed(f"there is no release {name}; there are: {there}")
    pinned = re.search(r"k8s\.io/kubernetes (v\S+)", (module / "go.mod").read_text())
    assert pinned is not None, "each of them is a release of Kubernetes"
    version = pinned[1]

    def found(folder: Path) -> bool | None:
        there = all(os.access(folder / each, os.X_OK) for each in COMPONENTS.values())
        return (there and kubernetes_version(folder / "kube-apiserver") == version) or None

    folder = cache_folder().with_name(version)
    return Release("Kubernetes", version, module, folder, COMPONENTS, stamp(version), found)


def kubeadm_release() -> Release:
    return alone(KUBEADM, HERE, "k8s.io/kubernetes/cmd/kubeadm", stamp(VERSION))


def scheduler_release() -> Release:
    return alone(SCHEDULER, HERE, "k8s.io/kubernetes/cmd/kube-scheduler", stamp(VERSION))


def etcdutl_release() -> Release:
    """What puts a snapshot of an etcd in place.

    It is in a folder of its own, beside those of Kubernetes, where the host of processes looks: so those that
    are built already need not be built anew.
    """
    folder = cache_folder().parent / f"etcdutl-{ETCDUTL_VERSION}"
    packages = {"go.etcd.io/etcd/etcdutl/v3": ETCDUTL}
    return Release(ETCDUTL, ETCDUTL_VERSION, HERE, folder, packages, "", etcdutl_in)


def etcdutl_in(folder: Path) -> Path | None:
    """The program in a folder, if it is there."""
    program = folder / ETCDUTL
    return program if os.access(program, os.X_OK) else None


def capi_release() -> Release:
    version = capi.VERSION
    major, minor, _ = version.removeprefix("v").split(".")
    root = "sigs.k8s.io/cluster-api"
    package = f"{root}/version.git"
    return Release(
        "Cluster API",
        version,
        HERE / "cluster-api",
        capi.cache_folder(),
        {
            root: capi.CORE,
            f"{root}/bootstrap/kubeadm": capi.BOOTSTRAP,
            f"{root}/cmd/clusterctl": capi.CLUSTERCTL,
        },
        f"-X {package}Version={version} -X {package}Major={major} -X {package}Minor={minor}",
        capi.in_folder,
    )


def helm_release() -> Release:
    flags = f"-X helm.sh/helm/v4/internal/version.version={HELM.version}"
    return alone(HELM, HERE / "helm", "helm.sh/helm/v4/cmd/helm", flags)


def judge_release(program: Cached) -> Release:
    """A library that reads what we write, as a program."""
    return alone(program, HERE / "judges", f"./{program.name}", "")


def conversions_release() -> Release:
    """What the webhooks of Cluster API v1.14 make of objects; in a module of its own versions."""
    return alone(judges.CONVERSIONS, HERE / "conversions", ".", "")


def alone(program: Cached, module: Path, package: str, flags: str) -> Release:
    """A release of one program, in a folder of its own."""
    packages = {package: program.name}
    return Release(
        program.name, program.version, module, program.folder(), packages, flags, program.in_folder
    )


def decoder_release() -> Release:
    """A few lines of Go of ours that read objects by the types of Cluster API."""
    packages = {"./strict": capi.DECODER}
    module = HERE / "cluster-api"
    return Release("decoder", capi.VERSION, module, capi.decoder_folder(), packages, "", capi.decoder_in)


def main(names: Sequence[str]) -> int:
    try:
        for each in map(earlier_release, names):
            build_once(each)
            print(f"{each.name} {each.version}: {each.folder}")
        if names:
            return 0
        named = os.environ.get("KUBEWRIGHT_KUBE")
        found = find() if named else find_installed(os.environ) or cached_or_built()
        print(f"Kubernetes {found.version}: {found.apiserver.parent}")
        if not named:
            for other in (
                etcdutl_release(),
                kubeadm_release(),
                scheduler_release(),
                helm_release(),
                *(judge_release(each) for each in (judges.GO_YAML, judges.CLCT)),
                conversions_release(),
                capi_release(),
                decoder_release(),
            ):
                build_once(other)
                print(f"{other.name} {other.version}: {other.folder}")
            place_programs_of_debian()
    except (Failed, NoKubernetes) as failure:
        print(f"make kube: {failure}", file=sys.stderr)
        return 1
    return 0


def place_programs_of_debian() -> None:
    """Only tests of alerts and of user data need them, so a machine without them has all the rest."""
    for program in (debian.PROMTOOL, debian.CLOUD_INIT):
        try:
            print(f"{program[0].name}: {debian.place(*program)}")
        except debian.Unavailable as failure:
            print(f"make kube: {failure}", file=sys.stderr)


class Failed(Exception):
    """The programs could not be had; the message is for a person."""


def cached_or_built() -> Binaries:
    folder = cache_folder()
    build_once(kubernetes())
    if found := in_folder(folder):
        return found
    raise Failed(f"what was built in {folder} does not run here")


def build_once(release: Release) -> None:
    """Build a release into its folder in the cache, unless it is there."""
    if release.is_complete():
        return
    folder = release.folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_one(folder.with_name(f"{release.version}.lock")):
            if not release.is_complete():  # another run may have built while we waited
                build_into(release)
    except OSError as error:
        raise Failed(f"cannot write the cache {folder.parent}: {error.strerror or error}") from error


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


def build_into(release: Release) -> None:
    """Build beside the folder and rename: the folder is complete from its first moment."""
    go = shutil.which("go")
    if go is None:
        raise Failed(
            "no Kubernetes 1.34 or newer here (KUBEBUILDER_ASSETS, PATH), and no Go toolchain to build one; "
            "install either"
            if release.module == HERE
            else f"no Go toolchain to build {release.name} {release.version}; install one"
        )
    folder = release.folder
    with tempfile.TemporaryDirectory(prefix=f".{release.version}-", dir=folder.parent) as scratch:
        building = Path(scratch) / "bin"
        building.mkdir()
        for package, program in release.packages.items():
            print(f"make kube: building {program} ({release.version})", file=sys.stderr, flush=True)
            compile_program(go, release, package, building / program)
        shutil.rmtree(folder, ignore_errors=True)  # incomplete or broken, else we were not here
        building.rename(folder)


def compile_program(go: str, release: Release, package: str, target: Path) -> None:
    flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {release.stamp}"]
    command = [go, "build", *flags, "-o", str(target), package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        command, cwd=release.module, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise Failed(f"`go build {package}` failed:\n{tail}")


assert set(kubernetes().packages.values()) == set(PROGRAMS)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
