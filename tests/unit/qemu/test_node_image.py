"""The archive in which a container's image comes with a node image, and which Kubernetes one of its VMs runs."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools" / "node_image"


@pytest.fixture
def oci(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import oci

    yield oci
    sys.modules.pop("oci")


def test_an_archive_names_each_part_by_its_hash(oci) -> None:
    made = oci.archive("example.com/pause:1", {"pause": b"program"}, "/pause", "amd64")
    assert made == oci.archive("example.com/pause:1", {"pause": b"program"}, "/pause", "amd64")
    with tarfile.open(fileobj=io.BytesIO(made)) as whole:
        files = {each.name: whole.extractfile(each).read() for each in whole}

    def blob(described):
        content = files[f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"]
        assert len(content) == described["size"]
        return content

    described = json.loads(files["index.json"])["manifests"][0]
    assert described["annotations"] == {"io.containerd.image.name": "example.com/pause:1"}
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    layer = blob(manifest["layers"][0])
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"] == {"Entrypoint": ["/pause"]}
    with tarfile.open(fileobj=io.BytesIO(layer)) as inside:
        assert [(each.name, each.mode) for each in inside] == [("pause", 0o755)]


def version_of(root: Path, data: str) -> subprocess.CompletedProcess[str]:
    """Run the guest's program on a disk with two releases, whose newest is in place."""
    for version in ("v1.35.4", "v1.36.3"):
        (folder := root / "usr/lib/kubernetes" / version).mkdir(parents=True)
        for each in ("kubelet", "kubeadm"):
            (folder / each).write_text("")
            (folder / each).chmod(0o755)
    for each in ("usr/bin", "run/cloud-init", "dev"):
        (root / each).mkdir(parents=True)
    for each in ("kubelet", "kubeadm"):
        (root / "usr/bin" / each).symlink_to(f"/usr/lib/kubernetes/v1.36.3/{each}")
    (root / "run/cloud-init/instance-data.json").write_text(data)
    command = ["sh", str(TOOLS / "guest" / "kubernetes-version"), str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)


@pytest.mark.parametrize(
    ("metadata", "placed"), [({"kubernetes_version": "v1.35.4"}, "v1.35.4"), ({"x": "v1.35.4"}, "v1.36.3")]
)
def test_a_vm_runs_the_kubernetes_that_its_metadata_says_else_the_newest(
    tmp_path: Path, metadata: dict[str, str], placed: str
) -> None:
    done = version_of(tmp_path, json.dumps({"ds": {"meta_data": metadata}}, indent=1))
    assert done.returncode == 0
    for each in ("kubelet", "kubeadm"):
        assert (tmp_path / "usr/bin" / each).readlink() == Path(f"/usr/lib/kubernetes/{placed}/{each}")


def test_a_vm_runs_no_other_kubernetes_than_the_one_it_is_to_run(tmp_path: Path) -> None:
    done = version_of(tmp_path, json.dumps({"kubernetes_version": "v1.36.2"}, indent=1))
    said = "kubernetes-version: no Kubernetes v1.36.2 is on this disk; there are: v1.35.4 v1.36.3\n"
    assert (done.returncode, done.stdout) == (1, said)
    assert (tmp_path / "dev" / "console").read_text() == said
    assert list((tmp_path / "usr/bin").iterdir()) == []
