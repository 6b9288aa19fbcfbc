"""Which fields of a rendered manifest a process cannot have. Pure.

Theory.      A pod may have what a process cannot: other containers, folders of its node, a network of its
             own. Such fields are reported, and the component does not run until they are removed: ignoring
             them silently would run something else than the user asked for. Fields about images, scheduling,
             and rights that a process does not have anyway, are ignored.
Invariants.  A field that is in no list here is reported, so fields that Kubernetes adds later are too.
Source       nested.md D6 (the subset of PodSpec).
Called by    ``host``.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

Fields = Mapping[str, Any]

POD = "spec.template.spec"
POD_FIELDS = {"containers", "volumes", "terminationGracePeriodSeconds"}
OF_NODES = {
    "affinity",
    "automountServiceAccountToken",
    "dnsPolicy",
    "enableServiceLinks",
    "hostNetwork",
    "hostname",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "subdomain",
    "tolerations",
    "topologySpreadConstraints",
}
"""Fields of a pod about scheduling, host names and rights, which are ignored for a process."""
CONTAINER_FIELDS = {"args", "command", "env", "name", "ports", "resources", "volumeMounts"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
OF_IMAGES = {
    "image",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
}
OF_TIME = {"failureThreshold", "initialDelaySeconds", "periodSeconds", "timeoutSeconds"}
CHECKS = {"httpGet": {"host", "path", "port", "scheme"}, "tcpSocket": {"host", "port"}, "exec": {"command"}}
VOLUMES = {
    "configMap": {"defaultMode", "items", "name", "optional"},
    "emptyDir": {"medium", "sizeLimit"},
    "projected": {"defaultMode", "sources"},
    "secret": {"defaultMode", "items", "optional", "secretName"},
}
SOURCES = {"configMap": {"items", "name", "optional"}, "secret": {"items", "name", "optional"}}
ENTRY = {"key", "mode", "path"}
MOUNT = {"mountPath", "name", "readOnly"}
FIELD_REFERENCES = {"metadata.name", "metadata.namespace", "status.podIP"}


def unsupported(workload: Fields) -> list[str]:
    """The fields of a StatefulSet that a process cannot have, by their paths."""
    pod = workload["spec"]["template"]["spec"]
    first, *others = pod["containers"]
    found = list(_beyond(pod, POD_FIELDS | OF_NODES, POD))
    found += [f"{POD}.containers[{number}]" for number, _ in enumerate(others, start=1)]
    found += _of_container(first, f"{POD}.containers[0]")
    for number, volume in enumerate(pod.get("volumes") or ()):
        found += _of_volume(volume, f"{POD}.volumes[{number}]")
    return found


def _of_container(container: Fields, path: str) -> Iterator[str]:
    yield from _beyond(container, CONTAINER_FIELDS | OF_IMAGES | set(PROBES), path)
    context = container.get("securityContext") or {}
    for name in ("privileged", "capabilities"):
        wanted = context.get(name)
        if wanted is True or (isinstance(wanted, Mapping) and wanted.get("add")):
            yield f"{path}.securityContext.{name}"
    for number, entry in enumerate(container.get("env") or ()):
        source = entry.get("valueFrom") or {}
        reference = (source.get("fieldRef") or {}).get("fieldPath", "")
        if source and reference not in FIELD_REFERENCES:
            yield f"{path}.env[{number}].valueFrom"
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _beyond(mount, MOUNT, f"{path}.volumeMounts[{number}]")
    for name in PROBES:
        if probe := container.get(name):
            yield from _of_probe(probe, f"{path}.{name}")


def _of_probe(probe: Fields, path: str) -> Iterator[str]:
    once = {"successThreshold"} if probe.get("successThreshold") == 1 else set()
    yield from _beyond(probe, OF_TIME | once | CHECKS.keys(), path)
    for name, fields in CHECKS.items():
        yield from _beyond(probe.get(name) or {}, fields, f"{path}.{name}")


def _of_volume(volume: Fields, path: str) -> Iterator[str]:
    yield from _beyond(volume, VOLUMES.keys() | {"name"}, path)
    for name, fields in VOLUMES.items():
        yield from _beyond(volume.get(name) or {}, fields, f"{path}.{name}")
        yield from _of_items(volume.get(name) or {}, f"{path}.{name}")
    for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        at = f"{path}.projected.sources[{number}]"
        yield from _beyond(source, SOURCES.keys(), at)
        for name, fields in SOURCES.items():
            yield from _beyond(source.get(name) or {}, fields, f"{at}.{name}")
            yield from _of_items(source.get(name) or {}, f"{at}.{name}")


def _of_items(source: Fields, path: str) -> Iterator[str]:
    """Unknown fields of entries, and paths that leave the volume, which a kubelet refuses too."""
    for number, item in enumerate(source.get("items") or ()):
        yield from _beyond(item, ENTRY, f"{path}.items[{number}]")
        parts = str(item.get("path", "")).split("/")
        if {"", ".", ".."} & set(parts):
            yield f"{path}.items[{number}].path"


def _beyond(found: Iterable[str], known: Set[str], path: str) -> Iterator[str]:
    """The paths of the fields that are set and not known."""
    yield from (f"{path}.{name}" for name in found if name not in known)
