"""The command lines of etcd, kube-apiserver, kube-controller-manager and kube-scheduler, all in one place.

Theory.      Everything listens on 127.0.0.1 only, but for the API server of a cluster that machines are to
             reach: that one listens on all addresses, of a network namespace of the test's own. Admission is
             the release's default but for ``ServiceAccount``, unless machines are to join: it would refuse a
             Pod until a controller has made the account of its namespace, and tests of Pods would have to
             wait for that.
Called by    ``cluster``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubewright.testing.real_kubernetes.binaries import Binaries

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
)
"""What our controllers meet in a cluster; nothing that needs a cloud, a disk or a scheduler."""

FOR_KUBELETS = (
    "bootstrap-signer-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "endpointslice-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "token-cleaner-controller",
)
"""What a kubelet needs that joins."""

Command = list[str | Path]


@dataclass(frozen=True, slots=True)
class Options:
    """How it differs from the release's defaults.

    ``fsync=False`` makes writes as fast as memory and loses them with the power: for tests, where
    nothing is measured. ``node_grace_seconds`` is how long a kubelet may be silent. ``rates``
    are the queries a second, and the burst, of the controller manager. ``reached_at`` is the address
    by which real kubelets reach it, which may then join by bootstrap tokens; their pods are placed
    by ``scheduler``, a program.
    """

    fsync: bool = True
    controllers: tuple[str, ...] = CONTROLLERS
    node_grace_seconds: int = 40
    rates: tuple[int, int] = (200, 400)
    apiserver_flags: tuple[str, ...] = ()
    reached_at: str = ""
    scheduler: Path | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    apiserver: int
    manager: int
    scheduler: int


Line = Callable[[Binaries, Path, Ports, Options], Command]


def etcd(binaries: Binaries, folder: Path, ports: Ports, options: Options) -> Command:
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    command: Command = [
        binaries.etcd,
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]
    return command if options.fsync else [*command, "--unsafe-no-fsync"]


def apiserver(binaries: Binaries, folder: Path, ports: Ports, options: Options) -> Command:
    return [
        binaries.apiserver,
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={ports.apiserver}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--service-account-key-file={folder / 'server.crt'}",
        f"--service-account-signing-key-file={folder / 'server.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--shutdown-delay-duration=0s",
        *(_for_kubelets(folder) if options.reached_at else ("--disable-admission-plugins=ServiceAccount",)),
        *options.apiserver_flags,
    ]


def _for_kubelets(folder: Path) -> Command:
    """Flags of an API server that real kubelets join, and that asks them for logs."""
    return [
        "--bind-address=0.0.0.0",  # the address of a network that comes later
        "--enable-bootstrap-token-auth=true",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={folder / 'kubelets.crt'}",
        f"--kubelet-client-key={folder / 'kubelets.key'}",
    ]


def controller_manager(binaries: Binaries, folder: Path, ports: Ports, options: Options) -> Command:
    return [
        binaries.controller_manager,
        f"--kubeconfig={folder / 'manager.kubeconfig'}",
        f"--authentication-kubeconfig={folder / 'manager.kubeconfig'}",
        f"--authorization-kubeconfig={folder / 'manager.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.manager}",
        f"--controllers={','.join((*options.controllers, *(FOR_KUBELETS if options.reached_at else ())))}",
        "--leader-elect=false",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={options.node_grace_seconds}s",
        "--node-startup-grace-period=60s",
        "--namespace-sync-period=30s",
        f"--kube-api-qps={options.rates[0]}",
        f"--kube-api-burst={options.rates[1]}",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--service-account-private-key-file={folder / 'server.key'}",
        f"--cluster-signing-cert-file={folder / 'ca.crt'}",
        f"--cluster-signing-key-file={folder / 'ca.key'}",
    ]


def scheduler(binaries: Binaries, folder: Path, ports: Ports, options: Options) -> Command:
    assert options.scheduler is not None, "started where there is one"
    return [
        options.scheduler,
        f"--kubeconfig={folder / 'manager.kubeconfig'}",
        f"--authentication-kubeconfig={folder / 'manager.kubeconfig'}",
        f"--authorization-kubeconfig={folder / 'manager.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.scheduler}",
        "--leader-elect=false",
    ]
