"""What differs between the three components, as one value each. Pure.

Theory.      A component needs another one before it starts, and finds it through their control plane. What it
             needs of it stands in that object's status, so a foreign program can have made it; an etcd that
             no NestedEtcd stands for has its addresses in the status of the control plane.
Invariants.  What is waited for is said with kind and name.
Source       nested.md A4, A8 (defaults), A9 (what may start when); S3-20, S3-21, S3-42 to S3-45.
Called by    ``obstacles``, ``workload``, ``status``, ``look``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from kubewright.api.cluster.v1beta1 import ApiEndpoint, ObjectReference
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import Address, NestedEtcd
from kubewright.api.kinds import Kind
from kubewright.controlplanes.component.membership import CLIENTS, bracketed
from kubewright.controlplanes.family import KINDS, Family, references
from kubewright.controlplanes.hosting.contract import Place, Placement, Running

SERVICE_CIDR = "10.96.0.0/12"
SERVICE_DOMAIN = "cluster.local"
"""The defaults of kubeadm."""
REPOSITORY = "registry.k8s.io"
"""Where Kubernetes publishes its images."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One of the three.

    ``needs``     what has to be there before it starts: a clause that says what is missing, or empty
    ``values``    what its templates leave open, beside what all have; without those that are not known
    ``further``   further fields of its status
    ``members``   whether its instances are members that have to agree, so that their number is odd
    ``needed_by`` the component that cannot end well without this one
    """

    component: Component
    kind: Kind[Any]
    needs: Callable[[Family], str]
    values: Callable[[Family, int], Mapping[str, str]]
    further: Callable[[Place, Placement, Running], Mapping[str, Any]]
    members: bool = False
    needed_by: Component | None = None


def common_values(family: Family, place: Place) -> dict[str, str]:
    """What the templates of all components leave open."""
    return {
        "cluster": place.cluster,
        "secrets": family.name,
        "component": place.object.name,
        "repository": REPOSITORY,
        "service_cidr": service_cidr(family),
        "service_domain": service_domain(family),
    }


def service_cidr(family: Family) -> str:
    """Where the addresses of Services come from."""
    shared = family.plane.status.apiserver
    if shared is not None and shared.service_cidr:
        return shared.service_cidr
    network = family.cluster.spec.cluster_network if family.cluster is not None else None
    ranges = network.services.cidr_blocks if network is not None and network.services is not None else ()
    return ",".join(ranges) or SERVICE_CIDR


def service_domain(family: Family) -> str:
    """The DNS domain of Services."""
    network = family.cluster.spec.cluster_network if family.cluster is not None else None
    return (network.service_domain if network is not None else "") or SERVICE_DOMAIN


def etcd_addresses(family: Family) -> tuple[Address, ...]:
    """Where etcd is reached: as the NestedEtcd says, or the control plane where it names none."""
    if Component.ETCD in references(family.plane.spec):
        found = family.components.get(Component.ETCD)
        return found.status.addresses if isinstance(found, NestedEtcd) else ()
    status = family.plane.status.etcd
    return status.addresses if status is not None else ()


def _needs_nothing(_family: Family) -> str:
    return ""


def _needs_etcd(family: Family) -> str:
    if Component.ETCD in references(family.plane.spec):
        return _not_ready(family, Component.ETCD)
    if etcd_addresses(family):
        return ""
    return (
        f"NestedControlPlane {family.plane.name} names no NestedEtcd, and its status.etcd.addresses is empty"
    )


def _needs_api_server(family: Family) -> str:
    if Component.API_SERVER in references(family.plane.spec):
        return _not_ready(family, Component.API_SERVER)
    return f"NestedControlPlane {family.plane.name} names no NestedAPIServer"


def _not_ready(family: Family, component: Component) -> str:
    named, kind = references(family.plane.spec)[component].name, KINDS[component].resource.kind
    found = family.components.get(component)
    if found is None:
        return f"there is no {kind} {named}"
    if found.metadata.deleting:
        return f"{kind} {named} is being deleted"
    return "" if found.status.ready else f"{kind} {named} is not ready"


def _no_values(_family: Family, _replicas: int) -> Mapping[str, str]:
    return {}


def _of_api_server(family: Family, _replicas: int) -> Mapping[str, str]:
    servers = [
        f"https://{bracketed(each.hostname or each.ip)}:{each.port or CLIENTS}"
        for each in etcd_addresses(family)
    ]
    return {"etcd_servers": ",".join(servers)} if servers else {}


def _of_controller_manager(_family: Family, replicas: int) -> Mapping[str, str]:
    return {"leader_elect": "true" if replicas > 1 else "false"}


def _addresses(_place: Place, placement: Placement, running: Running) -> Mapping[str, Any]:
    """Those of its members; one that is asleep keeps those that it had, and wakes with them."""
    if running.applied and not running.replicas:
        return {}
    there = tuple(_address(host) for host in placement.hosts[: running.replicas])
    return {"addresses": there}


def _address(host: str) -> Address:
    try:
        ip_address(host)
    except ValueError:
        return Address(hostname=host, port=CLIENTS)
    return Address(ip=host, port=CLIENTS)


def _reached(place: Place, placement: Placement, running: Running) -> Mapping[str, Any]:
    """Where clients reach an API server, known before it runs; and by which Service, if there is one."""
    host, port = placement.endpoint or ("", 0)
    service = ObjectReference(
        api_version="v1", kind="Service", name=running.service, namespace=place.namespace
    )
    return {
        "endpoint": ApiEndpoint(host=host, port=port) if host else None,
        "apiserver_service": service if running.service else None,
    }


def _nothing_further(_place: Place, _placement: Placement, _running: Running) -> Mapping[str, Any]:
    return {}


ETCD = Policy(
    Component.ETCD,
    KINDS[Component.ETCD],
    needs=_needs_nothing,
    values=_no_values,
    further=_addresses,
    members=True,
    needed_by=Component.API_SERVER,
)
API_SERVER = Policy(
    Component.API_SERVER,
    KINDS[Component.API_SERVER],
    needs=_needs_etcd,
    values=_of_api_server,
    further=_reached,
    needed_by=Component.CONTROLLER_MANAGER,
)
CONTROLLER_MANAGER = Policy(
    Component.CONTROLLER_MANAGER,
    KINDS[Component.CONTROLLER_MANAGER],
    needs=_needs_api_server,
    values=_of_controller_manager,
    further=_nothing_further,
)
POLICIES = (ETCD, API_SERVER, CONTROLLER_MANAGER)
