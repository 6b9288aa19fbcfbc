"""The volumes of a pod as folders of a process: files from Secrets and ConfigMaps, and data. Pure.

Theory.      The folder of an instance stands in for the file system of a container. What a container would
             find at ``/etc/kubernetes/pki/ca`` is at ``files/etc/kubernetes/pki/ca``; a writable volume is at
             ``volumes/<name>`` and is kept. An argument that names a path below a mount is changed to the
             path that the process has, so the same patch works for pods and processes.
Invariants.  Names and paths were judged before (``fields.unsafe``). Every path that a program is given is
             absolute. A process of another user cannot enter the folders above its own, so it is given paths
             below ``/proc/self/cwd``: the folder of the instance is its working folder.
Source       nested.md D5.
Called by    ``instances`` and ``host``; ``store`` for one name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import Contents, Workload
from kubewright.controlplanes.templates.render import DATA_FOLDER
from kubewright.processes.program import FILES

WORKING = "/proc/self/cwd"
"""The working folder of the process that opens this path; the folders above it need not be readable."""
VOLUMES = "volumes"
DATA = "data"
"""The volume for ``$(DATA_DIR)`` where the manifest mounts none there."""

_PATH = re.compile(r"(^|[=,])(/[^=,]*)")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the paths of a container are in the folder of an instance.

    ``mounts``   by path of a mount in the container: the folder below ``root``
    ``data``     folders that the program may write to
    ``root``     the path of the instance's folder that its program can use
    """

    mounts: Mapping[str, str]
    data: tuple[str, ...]
    root: str

    def of(self, path: str) -> str:
        """The path that the process has for a path of the container."""
        return self._below_mount(path) or f"{self.root}/{FILES}{path}"

    def argument(self, text: str) -> str:
        """An argument, ``--flag=/path`` or ``/path`` or several, with the paths that the process has."""
        return _PATH.sub(lambda found: found[1] + (self._below_mount(found[2]) or found[2]), text)

    def _below_mount(self, path: str) -> str:
        fits = [mount for mount in self.mounts if path == mount or path.startswith(f"{mount}/")]
        best = max(fits, key=len, default="")
        return f"{self.root}/{self.mounts[best]}{path.removeprefix(best)}" if best else ""


def folders(workload: Fields, root: str) -> Folders:
    """The folders of an instance of this StatefulSet. ``root``: see ``Folders``."""
    pod = workload["spec"]["template"]["spec"]
    claimed = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates") or ()}
    written = claimed | {each["name"] for each in pod.get("volumes") or () if "emptyDir" in each}
    mounts = {}
    for mount in pod["containers"][0].get("volumeMounts") or ():
        name, path = mount["name"], "/" + mount["mountPath"].strip("/")
        mounts[path] = f"{VOLUMES}/{name}" if name in written else f"{FILES}{path}"
    data = {folder for folder in mounts.values() if folder.startswith(f"{VOLUMES}/")}
    if not Folders(mounts, (), "").of(DATA_FOLDER).startswith(f"/{VOLUMES}/"):
        mounts[DATA_FOLDER] = f"{VOLUMES}/{DATA}"
        data.add(f"{VOLUMES}/{DATA}")
    return Folders(mounts, tuple(sorted(data)), root)


def files(workload: Workload) -> dict[str, bytes]:
    """The files of an instance by their paths below ``files/``.

    Raises:
        InvalidInput: a Secret, a ConfigMap or a key that a volume names is not there.
    """
    pod = workload.rendered.workload["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod.get("volumes") or ()}
    found = {}
    for mount in pod["containers"][0].get("volumeMounts") or ():
        for path, content in _of_volume(volumes.get(mount["name"], {}), workload):
            found[f"{mount['mountPath'].strip('/')}/{path}"] = content
    return found


def _of_volume(volume: Fields, workload: Workload) -> Iterator[tuple[str, bytes]]:
    for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        if secret := part.get("secret"):
            yield from _entries(secret.get("secretName") or secret["name"], secret, workload.contents)
        if config := part.get("configMap"):
            yield from _entries(config["name"], config, workload.config)


def _entries(name: str, source: Fields, contents: Mapping[str, Contents]) -> Iterator[tuple[str, bytes]]:
    """The paths and the content of one Secret or ConfigMap: the entries that are named, or all."""
    if name not in contents:
        if source.get("optional"):
            return
        raise InvalidInput(f"{name}, which a volume names, is not there")
    entries = contents[name]
    if not (items := source.get("items")):
        yield from entries.items()
        return
    for item in items:
        if item["key"] in entries:
            yield item["path"], entries[item["key"]]
        elif not source.get("optional"):
            raise InvalidInput(f"{name}, which a volume names, has no key {item['key']}")
