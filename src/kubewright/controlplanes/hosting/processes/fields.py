"""Which fields of a rendered manifest a process cannot have. Pure.

Theory.      A pod may have what a process cannot: other containers, folders of its node, a network of its
             own. Such fields are reported, and the component does not run until they are removed: ignoring
             them silently would run something else than the user asked for. Fields about images, scheduling,
             and rights that a process does not have anyway, are ignored.
             Names of volumes and paths of mounts become folders of this machine, and ports of probes become
             addresses that this program asks: they are judged here, before anything is made of them.
Invariants.  A field that is in no list here is reported, so fields that Kubernetes adds later are too.
Source       nested.md D6 (the subset of PodSpec).
Called by    ``host``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from kubewright.wire.quantity import parse

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
CHECKS = {"httpGet": {"path", "port", "scheme"}, "tcpSocket": {"port"}}
"""No command, which would run with our rights, and no other host, which we would ask for a user."""
VOLUMES = {
    "configMap": {"defaultMode", "items", "name", "optional"},
    "emptyDir": {"medium", "sizeLimit"},
    "projected": {"defaultMode", "sources"},
    "secret": {"defaultMode", "items", "optional", "secretName"},
}
SOURCES = {"configMap": {"items", "name", "optional"}, "secret": {"items", "name", "optional"}}
ENTRY = {"key", "mode", "path"}
MOUNT = {"mountPath", "name", "readOnly"}
TOLD_CHARS = 120
FIELD_REFERENCES = {"metadata.name", "metadata.namespace", "status.podIP"}


LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
MOUNT_PATH = re.compile(r"/[^\0:\n]{1,1000}")
PROBED_PATH = re.compile(r"[!-~]{0,1000}")
MOST = 2**63 - 1
SCHEMES = ("HTTP", "HTTPS")


def unsafe(workload: Fields) -> Iterator[str]:
    """What is wrong with names and paths of which folders and addresses are made, a sentence each.

    No API server has looked at them: the schema of a component lets any patch through.
    """
    pod = workload["spec"]["template"]["spec"]
    container = pod["containers"][0]
    claims = [each["metadata"] for each in workload["spec"].get("volumeClaimTemplates") or ()]
    volumes = pod.get("volumes") or ()
    for path, named in (("spec.volumeClaimTemplates", claims), (f"{POD}.volumes", volumes)):
        for number, each in enumerate(named):
            if not LABEL.fullmatch(each["name"]):
                yield f"{path}[{number}] has the name {_short(each['name'])}, which is no DNS label"
    yield from _unsafe_mounts(container, {each["name"] for each in (*claims, *volumes)})
    limits = (container.get("resources") or {}).get("limits") or {}
    for name in ("cpu", "memory"):
        if not _is_amount(limits.get(name, 0)):
            told = f"has to be an amount from 0 to {MOST}"
            yield f"{POD}.containers[0].resources.limits.{name} is {_short(limits[name])}, and {told}"
    ports = {each["name"]: each["containerPort"] for each in container.get("ports") or () if "name" in each}
    checks = ((name, check) for name in PROBES for check in CHECKS)
    for name, check in checks:
        if asked := (container.get(name) or {}).get(check):
            yield from _unsafe_probe(asked, ports, f"{POD}.containers[0].{name}.{check}")


def _unsafe_mounts(container: Fields, volumes: Set[str]) -> Iterator[str]:
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        path, at = mount["mountPath"], f"{POD}.containers[0].volumeMounts[{number}]"
        if mount["name"] not in volumes:
            yield f"{at} names the volume {_short(mount['name'])}, which there is not"
        parts = path.strip("/").split("/")
        if not MOUNT_PATH.fullmatch(path) or {"", ".", ".."} & set(parts):
            yield f"{at}.mountPath is {_short(path)}, and has to be an absolute path without . and .."


def _is_amount(quantity: Any) -> bool:
    """Whether a limit is a number that the kernel and Go could have."""
    try:
        return 0 <= parse(quantity) <= MOST
    except ValueError:
        return False


def _unsafe_probe(asked: Fields, ports: Mapping[str, int], path: str) -> Iterator[str]:
    port = asked.get("port")
    if not isinstance(ports.get(port, port) if isinstance(port, str) else port, int):
        yield f"{path}.port is {_short(port)}, and has to be a number, or the name of a port"
    if asked.get("scheme", "HTTP") not in SCHEMES:
        yield f"{path}.scheme has to be HTTP or HTTPS"
    if not PROBED_PATH.fullmatch(asked.get("path", "")):
        yield f"{path}.path has characters that no path of a URL has"


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= TOLD_CHARS else f"{told[:TOLD_CHARS]}..."


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
