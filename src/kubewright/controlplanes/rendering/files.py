"""The folders of a container that flags name, and the user's own files in one of them. Pure.

Theory.      A flag names a folder by a variable such as ``$(PKI_DIR)``: a container has these folders at
             fixed paths, a process has them below a folder of its own. The user's files come from entries of
             Secrets and ConfigMaps in one projected volume, so each host mounts them like any other volume.
Invariants.  A file without a source adds nothing: admission has refused it.
Source       nested.md C9, D5, R-07.
Called by    ``render``; hosts use the paths.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.controlplane.v1alpha4 import ExtraFile

PKI_FOLDER = "/etc/kubernetes/pki"
FILES_FOLDER = "/etc/kubernetes/files"
DATA_FOLDER = "/var/lib/etcd/data"
"""The paths in a container that ``$(PKI_DIR)``, ``$(FILES_DIR)`` and ``$(DATA_DIR)`` stand for."""

VOLUME = "extra-files"


def with_files(pod: Mapping[str, Any], files: Iterable[ExtraFile]) -> dict[str, Any]:
    """The spec of a pod whose first container has these files below ``$(FILES_DIR)``."""
    sources = [source for file in files if (source := _source(file))]
    if not sources:
        return dict(pod)
    first, *others = pod["containers"]
    mount = {"name": VOLUME, "mountPath": FILES_FOLDER, "readOnly": True}
    volume = {"name": VOLUME, "projected": {"sources": sources, "defaultMode": 0o400}}
    mounted = {**first, "volumeMounts": [*first.get("volumeMounts", ()), mount]}
    return {**pod, "containers": [mounted, *others], "volumes": [*pod.get("volumes", ()), volume]}


def _source(file: ExtraFile) -> dict[str, Any] | None:
    """One entry of a Secret or a ConfigMap, as a projected volume names it."""
    for kind, reference in (("secret", file.secret), ("configMap", file.config_map)):
        if reference is not None:
            return {kind: {"name": reference.name, "items": [{"key": reference.key, "path": file.path}]}}
    return None
