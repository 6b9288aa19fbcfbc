"""An OCI archive of one program on nothing: what containerd imports as an image. Pure.

Theory.      An archive is a tar with an index, a manifest, a configuration and one layer, each named by its
             hash; the annotation ``io.containerd.image.name`` says what containerd calls it.
Source       OCI image-spec 1.1; containerd's ``ctr images import``.
Called by    ``build``.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TYPE = "application/vnd.oci.image"


def archive(name: str, files: Mapping[str, bytes], entrypoint: str, architecture: str) -> bytes:
    """The archive of an image that holds these files, all executable."""
    layer = tar({path: (content, 0o755) for path, content in files.items()})
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": [entrypoint]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": _descriptor(f"{_TYPE}.config.v1+json", config),
            "layers": [_descriptor(f"{_TYPE}.layer.v1.tar", layer)],
        }
    )
    described = _descriptor(f"{_TYPE}.manifest.v1+json", manifest)
    index = {
        "schemaVersion": 2,
        "manifests": [{**described, "annotations": {"io.containerd.image.name": name}}],
    }
    blobs = {f"blobs/sha256/{_digest(each)[7:]}": each for each in (layer, config, manifest)}
    whole = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **blobs}
    return tar({path: (content, 0o644) for path, content in whole.items()})


def tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """A tar of files with their modes, always the same for the same files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as written:
        for path, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            written.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def _json(what: object) -> bytes:
    return json.dumps(what, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(kind: str, content: bytes) -> Mapping[str, object]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}
