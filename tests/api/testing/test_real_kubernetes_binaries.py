"""Finding a Kubernetes on the machine: three places, never mixed, never too old."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubewright.controlplanes.wiring import templates
from kubewright.testing.real_kubernetes.binaries import (
    PROGRAMS,
    VERSION,
    NoKubernetes,
    cache_folder,
    find,
    in_folder,
    recent,
)
from kubewright.wire.release import KUBERNETES


def install(folder: Path, version: str = "v1.35.1", programs: tuple[str, ...] = PROGRAMS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs:
        path = folder / program
        path.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
        path.chmod(0o755)
    return folder


KUBE_MODULE, ETCD_MODULE = r"k8s\.io/kubernetes", r"go\.etcd\.io/etcd/server/v3"


def test_the_real_kubernetes_is_built_from_the_release_that_we_say_we_speak() -> None:
    pinned = (Path(__file__).parents[3] / "tools" / "kube" / "go.mod").read_text()
    assert re.findall(r"k8s\.io/kubernetes (\S+)", pinned) == [KUBERNETES]
    assert VERSION == KUBERNETES


def test_an_earlier_release_is_built_in_the_versions_that_its_channel_names() -> None:
    channel = templates().channels["1.35"]
    wanted = {each.package: f"v{each.version}" for each in channel}
    pinned = (Path(__file__).parents[3] / "tools" / "kube" / "1.35" / "go.mod").read_text()
    kubernetes, etcd = (re.findall(rf"require {name} (\S+)", pinned) for name in (KUBE_MODULE, ETCD_MODULE))
    assert wanted == {"etcd": etcd[0], "apiserver": kubernetes[0], "controller-manager": kubernetes[0]}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        ("v1.34.0", True),
        ("v1.36.3", True),
        ("v2.0.0", True),
        ("v1.33.9", False),
        ("v1.4.0", False),
        ("", False),
    ],
)
def test_a_release_counts_only_while_it_is_supported(version: str, accepted: bool) -> None:
    assert recent(version) is accepted


def test_nothing_anywhere_says_what_to_do(environ: dict[str, str]) -> None:
    with pytest.raises(NoKubernetes, match="make kube"):
        find(environ)


def test_the_assets_folder_wins_over_path(environ: dict[str, str], tmp_path: Path) -> None:
    assets = install(tmp_path / "assets", "v1.35.0")
    install(tmp_path / "path", "v1.36.0")
    assert find(environ | {"KUBEBUILDER_ASSETS": str(assets)}).version == "v1.35.0"


def test_an_incomplete_assets_folder_is_passed_over(environ: dict[str, str], tmp_path: Path) -> None:
    assets = install(tmp_path / "assets", programs=("etcd", "kube-apiserver", "kubectl"))
    install(cache_folder(environ), VERSION)
    found = find(environ | {"KUBEBUILDER_ASSETS": str(assets)})
    assert found.etcd == cache_folder(environ) / "etcd"


def test_an_old_kubernetes_on_path_is_passed_over(environ: dict[str, str], tmp_path: Path) -> None:
    install(tmp_path / "path", "v1.29.4")
    install(cache_folder(environ), VERSION)
    assert find(environ).version == VERSION


def test_a_named_folder_is_the_only_one_looked_at(environ: dict[str, str], tmp_path: Path) -> None:
    install(cache_folder(environ), VERSION)
    named = install(tmp_path / "named", programs=("etcd",))
    with pytest.raises(NoKubernetes, match="it has no kube-apiserver, kube-controller-manager, kubectl"):
        find(environ | {"KUBEWRIGHT_KUBE": str(named)})


def test_a_named_folder_that_is_too_old_says_so(environ: dict[str, str], tmp_path: Path) -> None:
    named = install(tmp_path / "named", "v1.20.0")
    with pytest.raises(NoKubernetes, match=r"v1\.20\.0, older than 1\.34"):
        find(environ | {"KUBEWRIGHT_KUBE": str(named)})


def test_the_cache_follows_the_desktop_standard() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/kubewright/kube") / VERSION
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/kubewright/kube") / VERSION


def test_a_program_that_does_not_run_is_no_kubernetes(tmp_path: Path) -> None:
    folder = install(tmp_path)
    (folder / "kube-apiserver").write_text("no program")
    assert in_folder(folder) is None


def make_kube(named: Path, *releases: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(Path(__file__).parents[3] / "tools" / "kube" / "install.py"), *releases]
    environ = {"KUBEWRIGHT_KUBE": str(named), "PATH": "", "HOME": "/nowhere"}
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=20, check=False)


def test_make_kube_takes_the_folder_that_is_named_and_builds_nothing(tmp_path: Path) -> None:
    done = make_kube(install(tmp_path / "kube"))
    assert (done.returncode, done.stdout) == (0, f"Kubernetes v1.35.1: {tmp_path / 'kube'}\n")


def test_make_kube_says_which_earlier_releases_there_are(tmp_path: Path) -> None:
    for name in ("1.20", "../kube", "cluster-api/.."):
        done = make_kube(tmp_path, name)
        told = f"make kube: there is no release {name}; there are: 1.35\n"
        assert (done.returncode, done.stderr) == (1, told)


def test_make_kube_says_what_the_named_folder_lacks(tmp_path: Path) -> None:
    done = make_kube(tmp_path)
    assert done.returncode == 1
    assert "it has no etcd" in done.stderr
