"""Where the kubelet of a Node is, and whether it may be dialled. Pure.

Theory.      A kubelet writes its addresses and its port into the status of its Node. The order of kinds of
             addresses is kubeadm's (``--kubelet-preferred-address-types``): addresses before names, because a
             machine's name is often known to nothing but itself. A Node whose status has no port has no
             kubelet that can be asked: simulated ones are so, and those that a user has made by hand.
Invariants.  Who may write a Node's status must not make this server a client of whatever listens near it. So
             no loopback address is dialled, none of the link (the metadata service of a cloud is there), and
             none of many machines; kube-apiserver has the same rule for ``nodes/proxy``. An address by which
             others reach this machine is allowed: a kubelet may run here.
Called by    ``dialing``, ``http.kubelets``, ``http.usage``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

PREFERRED = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")

_BROADCAST = IPv4Address("255.255.255.255")


@dataclass(frozen=True, slots=True)
class Kubelet:
    """The kubelet of one Node. ``trouble`` is what the Node says of why it is not ready, else empty."""

    node: str
    host: str
    port: int
    trouble: str = ""

    @property
    def address(self) -> str:
        """Host and port, as they stand in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def told(self) -> str:
        """What follows an error of a connection to it: the reason, where its Node knows it already."""
        return f' (node "{self.node}" is not ready: {self.trouble})' if self.trouble else ""


def kubelet_of(node: Mapping[str, Any]) -> Kubelet | None:
    """The kubelet of a Node; None: it has none that could be asked."""
    status = node.get("status") or {}
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    port = endpoint.get("Port") or 0
    addresses = status.get("addresses") or ()
    host = next((each["address"] for kind in PREFERRED for each in addresses if each["type"] == kind), "")
    if not 0 < port <= 65535 or not host:
        return None
    return Kubelet(node["metadata"]["name"], host, port, _trouble(status))


def _trouble(status: Mapping[str, Any]) -> str:
    for each in status.get("conditions") or ():
        if each.get("type") == "Ready" and each.get("status") != "True":
            return str(each.get("message") or each.get("reason") or "it does not say why")
    return ""


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def may_be_dialled(address: str) -> bool:
    """Whether an address is one of a machine somewhere: Go's ``IsGlobalUnicast``."""
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    special = found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local
    return not special and found != _BROADCAST
