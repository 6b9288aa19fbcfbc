"""The cells of Nodes and Services."""

from datetime import datetime
from typing import Any

from kubewright.apiserver.registry.builtin.cells import NONE, Cell, at
from kubewright.apiserver.registry.kind import Object

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def status(node: Object, _now: datetime) -> str:
    """``Ready``, ``NotReady`` or ``Unknown``, and ``SchedulingDisabled`` when cordoned."""
    ready = [c for c in at(node, "status.conditions", ()) if c.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[-1].get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if at(node, "spec.unschedulable") else word


def roles(node: Object, _now: datetime) -> str:
    """What the role labels say, sorted."""
    found = set()
    for label, value in at(node, "metadata.labels", {}).items():
        if label.startswith(_ROLE_PREFIX):
            found.add(label.removeprefix(_ROLE_PREFIX))
        elif label == _ROLE_LABEL:
            found.add(value)
    return ",".join(sorted(found - {""})) or NONE


def address(wanted: str) -> Cell:
    """The first address of a type."""

    def cell(node: Object, _now: datetime) -> str:
        found = (a.get("address", "") for a in at(node, "status.addresses", ()) if a.get("type") == wanted)
        return next(found, NONE)

    return cell


def kernel(node: Object, _now: datetime) -> str:
    """The kernel's version, and the architecture where it is known."""
    info: dict[str, Any] = at(node, "status.nodeInfo", {})
    version = info.get("kernelVersion") or "<unknown>"
    return f"{version} ({info['architecture']})" if info.get("architecture") else version


def cluster_ip(service: Object, _now: datetime) -> str:
    ips = at(service, "spec.clusterIPs", ()) or [at(service, "spec.clusterIP", NONE)]
    return str(ips[0])


def external_ip(service: Object, _now: datetime) -> str:
    own = list(at(service, "spec.externalIPs", ()))
    match at(service, "spec.type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            ingress = at(service, "status.loadBalancer.ingress", ())
            given = {entry.get("ip") or entry.get("hostname") for entry in ingress} - {None, ""}
            return ",".join([*sorted(given), *own]) or "<pending>"
        case "ExternalName":
            return str(at(service, "spec.externalName", ""))
    return "<unknown>"


def ports(service: Object, _now: datetime) -> str:
    def one(port: dict[str, Any]) -> str:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"

    return ",".join(one(port) for port in at(service, "spec.ports", ())) or NONE
