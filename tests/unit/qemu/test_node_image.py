"""The archive in which a container's image comes with a node image."""

import io
import json
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
