"""Which certificates and kubeconfigs each component of a control plane needs, and for which names. Pure.

Theory.      etcd, the API server and its front proxy have an authority each. The certificate of a server
             contains every name and address by which others reach it: of Services where it runs in pods,
             loopback addresses where it is a process, as its host says. Pods of the new cluster reach
             the API server through the first address of each range of Services.
Invariants.  An authority comes before what it signs. The API server's certificate for etcd is made by the API
             server's controller if etcd's authority has a key; else by the program that runs etcd.
Source       S3-24, S3-25, S3-27 to S3-29.
Called by    ``keeper``; ``component.look`` for one name.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network

from kubewright.api.cluster.names import kubeconfig_secret
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import WorkloadAddresses
from kubewright.pki.credentials import (
    ADMIN,
    Authority,
    Kubeconfig,
    Leaf,
    Purpose,
    Signer,
    TokenKeys,
    Wanted,
    canonical,
    secret_name,
)
from kubewright.runtime.credentials.values import url
from kubewright.wire.http import User

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONTROLLER_MANAGER = User("system:kube-controller-manager", ())


@dataclass(frozen=True, slots=True)
class Naming:
    """What the names and addresses in certificates, and the names of their Secrets, are made from.

    ``cluster``         the name with which names of Secrets begin
    ``addresses``       of the component
    ``endpoint``        by which clients reach the API server; None: not known yet
    ``service_cidr``    ranges of the addresses of Services, with commas between them
    ``service_domain``  the DNS domain of Services
    """

    cluster: str
    namespace: str
    addresses: WorkloadAddresses
    service_cidr: str
    service_domain: str
    endpoint: ApiEndpoint | None = None


def etcd_health_client(cluster: str) -> str:
    """The Secret with the certificate by which our controllers, and probes, are clients of an etcd."""
    return f"{cluster}-etcd-health-client"


def wanted_by(component: Component, naming: Naming) -> tuple[Wanted, ...]:
    """The certificates and kubeconfigs that the controller of a component makes."""
    match component:
        case Component.ETCD:
            return tuple(_of_etcd(naming))
        case Component.API_SERVER:
            return tuple(_of_api_server(naming))
        case Component.CONTROLLER_MANAGER:
            return tuple(_of_controller_manager(naming))


def needed(component: Component, wanted: Iterable[Wanted], mounted: Collection[str]) -> tuple[Wanted, ...]:
    """Without the leaves that no volume of the workload mounts. ``mounted``: names of Secrets.

    An etcd that mounts one of its leaves needs all, since probes and snapshots are clients of its members.
    """
    every = tuple(wanted)
    leaves = {each.secret for each in every if isinstance(each, Leaf | Signer)}
    some = leaves & set(mounted)
    kept = leaves if some and component is Component.ETCD else some
    return tuple(each for each in every if not isinstance(each, Leaf | Signer) or each.secret in kept)


def _of_etcd(naming: Naming) -> Iterator[Wanted]:
    cluster = naming.cluster
    authority = secret_name(cluster, Purpose.ETCD)
    names = _etcd_names(naming)
    yield Authority(authority, "etcd-ca")
    yield Leaf(f"{cluster}-etcd-server", authority, User("kube-etcd", ()), names)
    yield Leaf(f"{cluster}-etcd-peer", authority, User("kube-etcd-peer", ()), names)
    health = User("kube-etcd-healthcheck-client", ())
    yield Leaf(etcd_health_client(cluster), authority, health)


def _of_api_server(naming: Naming) -> Iterator[Wanted]:
    cluster = naming.cluster
    authority, proxy = secret_name(cluster, Purpose.CA), secret_name(cluster, Purpose.FRONT_PROXY)
    yield Authority(authority, "kubernetes")
    yield Authority(proxy, "front-proxy-ca")
    yield TokenKeys(secret_name(cluster, Purpose.SERVICE_ACCOUNT))
    serving = User("kube-apiserver", ())
    yield Leaf(f"{cluster}-apiserver", authority, serving, _api_server_names(naming), client=False)
    to_etcd = User("kube-apiserver-etcd-client", ())
    yield Leaf(secret_name(cluster, Purpose.ETCD_CLIENT), secret_name(cluster, Purpose.ETCD), to_etcd)
    to_kubelets = User("kube-apiserver-kubelet-client", ("system:masters",))
    yield Leaf(f"{cluster}-kubelet-client", authority, to_kubelets)
    yield Leaf(f"{cluster}-proxy-client", proxy, User("front-proxy-client", ()))
    if naming.endpoint is not None:
        server, entry = url(naming.endpoint), f"{cluster}-admin"
        yield Kubeconfig(kubeconfig_secret(cluster), authority, server, ADMIN, cluster, entry)


def _of_controller_manager(naming: Naming) -> Iterator[Wanted]:
    authority = secret_name(naming.cluster, Purpose.CA)
    yield Signer(f"{naming.cluster}-{Component.CONTROLLER_MANAGER}-signer", authority)
    if naming.endpoint is not None:
        yield Kubeconfig(
            kubeconfig_secret(f"{naming.cluster}-{Component.CONTROLLER_MANAGER}"),
            authority,
            url(naming.endpoint),
            CONTROLLER_MANAGER,
            naming.cluster,
            CONTROLLER_MANAGER.name,
        )


def _etcd_names(naming: Naming) -> frozenset[str]:
    """The names of each member behind the headless Service, of the Service, and those that the host adds."""
    service = f"{naming.cluster}-{Component.ETCD}"
    members = [f"{service}-{ordinal}.{service}" for ordinal in range(len(naming.addresses.hosts))]
    placed = (*naming.addresses.hosts, *naming.addresses.also)
    names = [*LOOPBACK, *placed, *_of_service(service, naming)]
    names += [name for member in members for name in _of_service(member, naming)[1:]]
    return canonical(names)


def _api_server_names(naming: Naming) -> frozenset[str]:
    service = f"{naming.cluster}-{Component.API_SERVER}"
    inside = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    names = [*LOOPBACK, *inside, f"kubernetes.default.svc.{naming.service_domain}"]
    names += [*_of_service(service, naming), *_first_addresses(naming.service_cidr)]
    names += [*naming.addresses.hosts, *naming.addresses.also]
    if naming.endpoint is not None:
        names.append(naming.endpoint.host)
    if naming.addresses.endpoint is not None:
        names.append(naming.addresses.endpoint[0])
    return canonical(names)


def _of_service(name: str, naming: Naming) -> list[str]:
    """The names of a Service, or of a pod behind a headless one, from the shortest to the full one."""
    local = f"{name}.{naming.namespace}"
    return [name, local, f"{local}.svc", f"{local}.svc.{naming.service_domain}"]


def _first_addresses(ranges: str) -> list[str]:
    """The first address of each range, by which pods reach the API server.

    A text that is no range is skipped: the API server itself refuses it.
    """
    found = []
    for each in ranges.split(","):
        try:
            network = ip_network(each.strip(), strict=False)
        except ValueError:
            continue
        found.append(str(network[1] if network.num_addresses > 1 else network[0]))
    return found
