"""Which certificates and kubeconfigs each component of a control plane needs, and for which names. Pure.

Theory.      etcd has an authority of its own, and so have the API server and its front proxy. A server's
             certificate is good for every name and address by which others reach it: in pods through
             Services, on this machine through loopback addresses, as the placement says. The API server is
             reached by pods of its cluster too: through the first address of each range of Services.
Invariants.  An authority stands before what it signs. What etcd's authority signs for the API server is made
             by the API server's controller, where the authority has a key; else who runs etcd brings it.
Source       nested.md A6 (the recommended set), A7; S3-24, S3-25, S3-27 to S3-29.
Called by    the controllers of components.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network

from kubewright.api.cluster.names import kubeconfig_secret
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.certificates.reasons import canonical
from kubewright.controlplanes.certificates.wanted import (
    Authority,
    KeyPair,
    Kubeconfig,
    Leaf,
    Signer,
    Wanted,
)
from kubewright.controlplanes.hosting.contract import Placement
from kubewright.runtime.credentials.values import ADMIN, Purpose, secret_name, url
from kubewright.wire.http import User

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONTROLLER_MANAGER = User("system:kube-controller-manager", ())


@dataclass(frozen=True, slots=True)
class Around:
    """What the certificates of a component name.

    ``cluster``         what names of Secrets and programs begin with
    ``placement``       of the component
    ``endpoint``        by which clients reach the API server; None: not known yet
    ``service_cidr``    ranges of the addresses of Services, with commas between them
    ``service_domain``  the DNS domain of Services
    """

    cluster: str
    namespace: str
    placement: Placement
    service_cidr: str
    service_domain: str
    endpoint: ApiEndpoint | None = None


def etcd_health_client(cluster: str) -> str:
    """The Secret with which our controllers are clients of an etcd."""
    return f"{cluster}-etcd-health-client"


def wanted_by(component: Component, around: Around) -> tuple[Wanted, ...]:
    """What the controller of a component makes."""
    match component:
        case Component.ETCD:
            return tuple(_of_etcd(around))
        case Component.API_SERVER:
            return tuple(_of_api_server(around))
        case Component.CONTROLLER_MANAGER:
            return tuple(_of_controller_manager(around))


def needed(component: Component, wanted: Iterable[Wanted], mounted: Collection[str]) -> tuple[Wanted, ...]:
    """Those of them that a workload needs whose volumes name these Secrets.

    Probes and snapshots of an etcd are clients of its members, where these have certificates.
    """
    every = tuple(wanted)
    leaves = {each.secret for each in every if isinstance(each, Leaf | Signer)}
    some = leaves & set(mounted)
    kept = leaves if some and component is Component.ETCD else some
    return tuple(each for each in every if not isinstance(each, Leaf | Signer) or each.secret in kept)


def _of_etcd(around: Around) -> Iterator[Wanted]:
    cluster = around.cluster
    authority = secret_name(cluster, Purpose.ETCD)
    names = _etcd_names(around)
    yield Authority(authority, "etcd-ca")
    yield Leaf(f"{cluster}-etcd-server", authority, User("kube-etcd", ()), names)
    yield Leaf(f"{cluster}-etcd-peer", authority, User("kube-etcd-peer", ()), names)
    health = User("kube-etcd-healthcheck-client", ())
    yield Leaf(etcd_health_client(cluster), authority, health)


def _of_api_server(around: Around) -> Iterator[Wanted]:
    cluster = around.cluster
    authority, proxy = secret_name(cluster, Purpose.CA), secret_name(cluster, Purpose.FRONT_PROXY)
    yield Authority(authority, "kubernetes")
    yield Authority(proxy, "front-proxy-ca")
    yield KeyPair(secret_name(cluster, Purpose.SERVICE_ACCOUNT))
    serving = User("kube-apiserver", ())
    yield Leaf(f"{cluster}-apiserver", authority, serving, _api_server_names(around), client=False)
    to_etcd = User("kube-apiserver-etcd-client", ())
    yield Leaf(secret_name(cluster, Purpose.ETCD_CLIENT), secret_name(cluster, Purpose.ETCD), to_etcd)
    to_kubelets = User("kube-apiserver-kubelet-client", ("system:masters",))
    yield Leaf(f"{cluster}-kubelet-client", authority, to_kubelets)
    yield Leaf(f"{cluster}-proxy-client", proxy, User("front-proxy-client", ()))
    if around.endpoint is not None:
        server, entry = url(around.endpoint), f"{cluster}-admin"
        yield Kubeconfig(kubeconfig_secret(cluster), authority, server, ADMIN, cluster, entry)


def _of_controller_manager(around: Around) -> Iterator[Wanted]:
    authority = secret_name(around.cluster, Purpose.CA)
    yield Signer(f"{around.cluster}-{Component.CONTROLLER_MANAGER}-signer", authority)
    if around.endpoint is not None:
        yield Kubeconfig(
            kubeconfig_secret(f"{around.cluster}-{Component.CONTROLLER_MANAGER}"),
            authority,
            url(around.endpoint),
            CONTROLLER_MANAGER,
            around.cluster,
            CONTROLLER_MANAGER.name,
        )


def _etcd_names(around: Around) -> frozenset[str]:
    """Every member by its own name behind the headless Service, the Service, and where members are placed."""
    service = f"{around.cluster}-{Component.ETCD}"
    members = [f"{service}-{ordinal}.{service}" for ordinal in range(len(around.placement.hosts))]
    placed = (*around.placement.hosts, *around.placement.also)
    names = [*LOOPBACK, *placed, *_of_service(service, around)]
    names += [name for member in members for name in _of_service(member, around)[1:]]
    return canonical(names)


def _api_server_names(around: Around) -> frozenset[str]:
    service = f"{around.cluster}-{Component.API_SERVER}"
    inside = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    names = [*LOOPBACK, *inside, f"kubernetes.default.svc.{around.service_domain}"]
    names += [*_of_service(service, around), *_first_addresses(around.service_cidr)]
    names += [*around.placement.hosts, *around.placement.also]
    if around.endpoint is not None:
        names.append(around.endpoint.host)
    if around.placement.endpoint is not None:
        names.append(around.placement.endpoint[0])
    return canonical(names)


def _of_service(name: str, around: Around) -> list[str]:
    """The names of a Service, or of a pod behind a headless one, from the shortest to the full one."""
    local = f"{name}.{around.namespace}"
    return [name, local, f"{local}.svc", f"{local}.svc.{around.service_domain}"]


def _first_addresses(ranges: str) -> list[str]:
    """By which pods reach the API server. What is no range has no address: the API server refuses it."""
    found = []
    for each in ranges.split(","):
        try:
            network = ip_network(each.strip(), strict=False)
        except ValueError:
            continue
        found.append(str(network[1] if network.num_addresses > 1 else network[0]))
    return found
