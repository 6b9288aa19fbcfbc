"""What a test of decisions sees: a cluster, a machine and its KubeadmConfig, with one thing changed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from msgspec import structs

from kubewright.api.bootstrap.v1beta1 import (
    BootstrapTokenDiscovery,
    ClusterConfiguration,
    Discovery,
    InitConfiguration,
    JoinConfiguration,
    KubeadmConfig,
    KubeadmConfigSpec,
    KubeadmConfigStatus,
)
from kubewright.api.cluster.v1beta1 import (
    ApiEndpoint,
    Bootstrap,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    Machine,
    MachineSpec,
)
from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.bootstrap import certificates
from kubewright.bootstrap.lock import Lock
from kubewright.bootstrap.seen import BootstrapSettings, Seen, TokenSeen
from kubewright.bootstrap.tokens import Token
from kubewright.pki.clusters import new_pair
from kubewright.pki.credentials import Purpose
from kubewright.pki.keys import Algorithm

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TTL = timedelta(minutes=15)
TOKEN = Token("abcdef", "0123456789abcdef")
PAIRS = {each: new_pair(each, NOW, Algorithm.EC) for each in Purpose if each is not Purpose.ETCD_CLIENT}
GOOD = TokenSeen(until=NOW + TTL, next=NOW + TTL / 3)
SETTINGS = BootstrapSettings(algorithm=Algorithm.EC)
INITIALIZED = (Condition(type="ControlPlaneInitialized", status="True"),)
MINE = OwnerReference(
    api_version="bootstrap.cluster.x-k8s.io/v1beta1",
    kind="KubeadmConfig",
    name="m",
    uid="config",
    controller=True,
)
DATA = Secret(metadata=ObjectMeta(name="m", namespace="n", owner_references=(MINE,)), data={"value": b"x"})
JOIN = JoinConfiguration(
    discovery=Discovery(
        bootstrap_token=BootstrapTokenDiscovery(
            token=TOKEN.text,
            api_server_endpoint="h:6443",
            ca_cert_hashes=certificates.hashes(PAIRS),
        )
    )
)


def cluster(**spec) -> Cluster:
    given = {"control_plane_endpoint": ApiEndpoint(host="h", port=6443), **spec}
    return Cluster(
        metadata=ObjectMeta(name="c", namespace="n", uid="cluster"),
        spec=ClusterSpec(**given),
        status=ClusterStatus(infrastructure_ready=True),
    )


def machine(*, control_plane: bool, **spec) -> Machine:
    labels = {"cluster.x-k8s.io/cluster-name": "c"} | (
        {"cluster.x-k8s.io/control-plane": ""} if control_plane else {}
    )
    given = {"cluster_name": "c", "version": "v1.31.0", **spec}
    return Machine(
        metadata=ObjectMeta(name="m", namespace="n", uid="m", labels=labels), spec=MachineSpec(**given)
    )


def first(**changes) -> Seen:
    """The first machine of a control plane, in a cluster whose infrastructure is ready and that has certificates."""
    seen = Seen(
        config=KubeadmConfig(
            metadata=ObjectMeta(name="m", namespace="n", uid="config"),
            spec=KubeadmConfigSpec(
                cluster_configuration=ClusterConfiguration(), init_configuration=InitConfiguration()
            ),
        ),
        now=NOW,
        settings=SETTINGS,
        machine=machine(control_plane=True),
        cluster=cluster(),
        pairs=PAIRS,
        new_token=TOKEN,
    )
    return replace(seen, **changes)


def holding(**changes) -> Seen:
    """The same, when it has the init lock."""
    return replace(first(lock=Lock("lock", "m", holder_exists=True)), **changes)


def joining(*, control_plane: bool = False, **changes) -> Seen:
    """A machine that joins a cluster that is initialized; its spec is complete, its token known."""
    initialized = structs.replace(
        cluster(), status=ClusterStatus(infrastructure_ready=True, conditions=INITIALIZED)
    )
    seen = first(
        machine=machine(control_plane=control_plane),
        cluster=initialized,
        config=with_spec(first().config, KubeadmConfigSpec(join_configuration=JOIN)),
        token=GOOD,
    )
    return replace(seen, **changes)


def ready(**changes) -> Seen:
    """A machine whose data is made, and that has no node yet."""
    seen = joining()
    status = KubeadmConfigStatus(ready=True, data_secret_name="m")
    return replace(seen, config=structs.replace(seen.config, status=status), **{"secret": DATA, **changes})


def with_spec(config: KubeadmConfig, spec: KubeadmConfigSpec) -> KubeadmConfig:
    return structs.replace(config, spec=spec)


def given_data(name: str) -> Machine:
    """A machine whose data is in this Secret already."""
    return machine(control_plane=False, bootstrap=Bootstrap(data_secret_name=name))
