"""What differs between the three components, as one value each. Pure.

Theory.      A component needs another one before it starts, and finds it through their control plane. It
             reads that component's status alone, so a foreign program may have made it. Where the control
             plane names no NestedEtcd, the addresses of etcd are in the status of the control plane.
Invariants.  What a component waits for is reported with kind and name.
Source       S3-20, S3-21, S3-42 to S3-45.
Called by    the other modules here; ``plane``, ``certificates`` and ``snapshots`` use the functions about a
             family.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from kubewright.api.cluster.names import SERVICE_CIDR, SERVICE_DOMAIN
from kubewright.api.cluster.v1beta1 import ApiEndpoint, ObjectReference
from kubewright.api.controlplane.names import CLIENT_PORTS, Component
from kubewright.api.controlplane.v1alpha4 import Address, NestedEtcd
from kubewright.api.kinds import Kind
from kubewright.controlplanes.family import KINDS, Family, references
from kubewright.controlplanes.hosting.contract import Running, WorkloadAddresses, WorkloadIdentity
from kubewright.controlplanes.members import bracketed

REPOSITORY = "registry.k8s.io"
"""Where Kubernetes publishes its images."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is particular to one component.

    ``needs``            what has to be ready before it starts: a clause that says what is missing, or empty
    ``template_values``  values for its templates beside ``common_values``, as far as they are known
    ``status_fields``    the fields that only its status has
    ``members``          whether its instances are members of an etcd
    ``needed_by``        the component that needs this one, also to end in an orderly way
    """

    component: Component
    kind: Kind[Any]
    needs: Callable[[Family], str]
    template_values: Callable[[Family, int], Mapping[str, str]]
    status_fields: Callable[[WorkloadIdentity, WorkloadAddresses, Running], Mapping[str, Any]]
    members: bool = False
    needed_by: Component | None = None


def common_values(family: Family, identity: WorkloadIdentity) -> dict[str, str]:
    """The values that the templates of all components may use."""
    return {
        "cluster": identity.cluster,
        "secrets": family.name,
        "component": identity.object.name,
        "repository": REPOSITORY,
        "service_cidr": service_cidr(family),
        "service_domain": service_domain(family),
    }


def service_cidr(family: Family) -> str:
    """The ranges of the addresses of Services, with commas between them."""
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
    """The addresses in the status of the NestedEtcd, or of the control plane where that names none."""
    if Component.ETCD in references(family.plane.spec):
        found = family.components.get(Component.ETCD)
        return found.status.addresses if isinstance(found, NestedEtcd) else ()
    status = family.plane.status.etcd
    return status.addresses if status is not None else ()


def etcd_urls(family: Family) -> list[str]:
    """The URLs by which clients reach etcd, one for each of ``etcd_addresses``."""
    return [
        f"https://{bracketed(each.hostname or each.ip)}:{each.port or CLIENT_PORTS[Component.ETCD]}"
        for each in etcd_addresses(family)
    ]


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


def _values_of_api_server(family: Family, _replicas: int) -> Mapping[str, str]:
    servers = etcd_urls(family)
    return {"etcd_servers": ",".join(servers)} if servers else {}


def _values_of_controller_manager(_family: Family, replicas: int) -> Mapping[str, str]:
    return {"leader_elect": "true" if replicas > 1 else "false"}


def _etcd_status(
    _identity: WorkloadIdentity, addresses: WorkloadAddresses, running: Running
) -> Mapping[str, Any]:
    """The addresses of its members. While no instance is to run they stay: it starts again with as many.

    They stay too while they are not looked up: of an etcd that is deleted, or whose spec has to be mended.
    """
    if not addresses.hosts or not running.replicas:
        return {}
    there = tuple(_address(host) for host in addresses.hosts[: running.replicas])
    return {"addresses": there}


def _address(host: str) -> Address:
    try:
        ip_address(host)
    except ValueError:
        return Address(hostname=host, port=CLIENT_PORTS[Component.ETCD])
    return Address(ip=host, port=CLIENT_PORTS[Component.ETCD])


def _api_server_status(
    identity: WorkloadIdentity, addresses: WorkloadAddresses, running: Running
) -> Mapping[str, Any]:
    """The endpoint of an API server, which is known before it runs; and its Service, if there is one."""
    host, port = addresses.endpoint or ("", 0)
    found = {"endpoint": ApiEndpoint(host=host, port=port)} if host else {}  # it stays while not looked up
    service = ObjectReference(
        api_version="v1", kind="Service", name=running.service, namespace=identity.namespace
    )
    return {**found, "apiserver_service": service if running.service else None}


def _no_status(
    _identity: WorkloadIdentity, _addresses: WorkloadAddresses, _running: Running
) -> Mapping[str, Any]:
    return {}


ETCD = Policy(
    Component.ETCD,
    KINDS[Component.ETCD],
    needs=_needs_nothing,
    template_values=_no_values,
    status_fields=_etcd_status,
    members=True,
    needed_by=Component.API_SERVER,
)
API_SERVER = Policy(
    Component.API_SERVER,
    KINDS[Component.API_SERVER],
    needs=_needs_etcd,
    template_values=_values_of_api_server,
    status_fields=_api_server_status,
    needed_by=Component.CONTROLLER_MANAGER,
)
CONTROLLER_MANAGER = Policy(
    Component.CONTROLLER_MANAGER,
    KINDS[Component.CONTROLLER_MANAGER],
    needs=_needs_api_server,
    template_values=_values_of_controller_manager,
    status_fields=_no_status,
)
POLICIES = (ETCD, API_SERVER, CONTROLLER_MANAGER)
