"""Scenes of a KubeadmConfig: what the caches and the Secrets of its namespace hold, and what the look must say."""

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec import structs

from kubewright.api.bootstrap.names import JOIN_FILE
from kubewright.api.bootstrap.v1beta1 import (
    KUBEADM_CONFIG,
    BootstrapTokenDiscovery,
    Discovery,
    JoinConfiguration,
    KubeadmConfig,
    KubeadmConfigSpec,
    KubeadmConfigStatus,
)
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    ApiEndpoint,
    Bootstrap,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    Machine,
    MachineSpec,
    ObjectReference,
)
from kubewright.api.core import CONFIG_MAP, SECRET, Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.delays import UNHEARD
from kubewright.bootstrap import lock
from kubewright.bootstrap.look import Caches, Looker
from kubewright.bootstrap.seen import BootstrapSettings, DataSeen, Seen, TokenSeen
from kubewright.bootstrap.token_calls import TokenCalls
from kubewright.bootstrap.tokens import Token, new_token
from kubewright.pki.clusters import new_pair
from kubewright.pki.credentials import Purpose, data_of, secret_name
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.runtime.sessions.session import NotConnected
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene, Shelf
from kubewright.wire.gvk import Key

NS, LABELS = "n", {"cluster.x-k8s.io/cluster-name": "c"}
EC, SHORT = BootstrapSettings(algorithm=Algorithm.EC), BootstrapSettings(token_ttl=timedelta(minutes=3))
PAIR, LATER_PAIR = (new_pair(Purpose.CA, BEGIN + timedelta(days=day), Algorithm.EC) for day in (0, 1))
TOKEN, OTHER_TOKEN = Token("abcdef", "0123456789abcdef"), Token("fedcba", "0123456789abcdef")
DATA = f"""write_files:
- path: {JOIN_FILE}
  content: |
    discovery:
      bootstrapToken:
        token: TOKEN
runcmd: []
"""
CA = secret_name("c", Purpose.CA)


def secret(name: str, **data: bytes) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace=NS, labels=LABELS), data=data)


def authority(pair: KeyPair, purpose: Purpose = Purpose.CA) -> Secret:
    return secret(secret_name("c", purpose), **data_of(pair.certificate, pair.key))


def data_for(token: Token) -> Secret:
    return secret("m", value=DATA.replace("TOKEN", token.text).encode())


def config(*, ready: bool = False, **spec: object) -> KubeadmConfig:
    owner = OwnerReference(api_version="cluster.x-k8s.io/v1beta1", kind="Machine", name="m", uid="m")
    status = KubeadmConfigStatus(ready=True, data_secret_name="m") if ready else KubeadmConfigStatus()
    return KubeadmConfig(
        metadata=ObjectMeta(name="m", namespace=NS, uid="config", owner_references=(owner,)),
        spec=KubeadmConfigSpec(**spec),
        status=status,
    )


def joins_by(token: Token) -> JoinConfiguration:
    return JoinConfiguration(
        discovery=Discovery(
            bootstrap_token=BootstrapTokenDiscovery(token=token.text, api_server_endpoint="h:6443")
        )
    )


def machine(name: str = "m", *, control_plane: bool = False, data: str | None = None) -> Machine:
    labels = LABELS | ({"cluster.x-k8s.io/control-plane": ""} if control_plane else {})
    kind = KUBEADM_CONFIG.resource
    ref = ObjectReference(api_version=kind.api_version, kind=kind.kind, name=name)
    return Machine(
        metadata=ObjectMeta(name=name, namespace=NS, uid=name, labels=labels),
        spec=MachineSpec(
            cluster_name="c", version="v1.31.0", bootstrap=Bootstrap(config_ref=ref, data_secret_name=data)
        ),
    )


def cluster(*, initialized: bool) -> Cluster:
    told = (Condition(type="ControlPlaneInitialized", status="True"),) if initialized else ()
    return Cluster(
        metadata=ObjectMeta(name="c", namespace=NS, uid="cluster"),
        spec=ClusterSpec(control_plane_endpoint=ApiEndpoint(host="h", port=6443)),
        status=ClusterStatus(infrastructure_ready=True, conditions=told),
    )


class Away:
    """No workload cluster can be reached."""

    def get(self, cluster: Key) -> object:
        raise NotConnected(f"{cluster} is away")


class Provider(Shelf):
    """The provider's caches, and its looker."""

    def __init__(self, settings: BootstrapSettings = EC) -> None:
        super().__init__()
        self.in_caches = Caches(self.caches)
        self.calls = TokenCalls(Away(), self.clock, settings.token_ttl, lambda _key: None)
        self.looker = Looker(self.caches, self.in_caches, self.calls, settings)

    @staticmethod
    def key(name: str) -> Key:
        return Key(NS, name)

    async def has(self, *, initialized: bool = True, of: Machine | None = None) -> None:
        await self.put(MACHINE, of or machine())
        await self.put(CLUSTER, cluster(initialized=initialized))


async def _alone() -> Seen:
    return await Provider().looker.look(config())


async def _a_copy() -> Seen:
    provider = Provider()
    await provider.has()
    named = structs.replace(config(), metadata=structs.replace(config().metadata, name="copy"))
    return await provider.looker.look(named)


async def _without_cluster() -> Seen:
    provider = Provider(SHORT)
    provider.clock.passed = 60
    await provider.put(MACHINE, machine())
    return await provider.looker.look(config())


def _first(*, holder: str, there: bool) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        provider = Provider()
        await provider.has(initialized=False, of=machine(control_plane=True))
        if there:
            await provider.put(MACHINE, machine(holder, control_plane=True))
        made = CONFIG_MAP.from_plain(lock.config_map(cluster(initialized=False), holder))
        await provider.put(
            CONFIG_MAP, structs.replace(made, metadata=structs.replace(made.metadata, uid="lock"))
        )
        return await provider.looker.look(config())

    return look


def _gave_up(*, forgotten: bool) -> Callable[[], Awaitable[Seen]]:
    """The machine gave up the lock twenty seconds ago. ``forgotten``: its KubeadmConfig was another one then."""

    async def look() -> Seen:
        provider = Provider()
        await provider.has(initialized=False, of=machine(control_plane=True))
        provider.clock.passed = 10
        provider.looker.gave_up(provider.key("m"))
        provider.clock.passed = 30
        provider.looker.forget(provider.key("m" if forgotten else "other"))
        return await provider.looker.look(config())

    return look


async def _joins() -> Seen:
    provider = Provider()
    await provider.has()
    await provider.put(SECRET, authority(PAIR), authority(PAIR, Purpose.ETCD), secret("words", motd=b"hello"))
    source = {"secret": {"name": "words", "key": "motd"}}
    files = KUBEADM_CONFIG.from_plain(
        {"metadata": {"name": "m"}, "spec": {"files": [{"path": "/etc/motd", "contentFrom": source}]}}
    ).spec.files
    return await provider.looker.look(config(files=files))


async def _joins_as_control_plane() -> Seen:
    provider = Provider()
    await provider.has(of=machine(control_plane=True))
    await provider.put(SECRET, *(authority(PAIR, each) for each in (Purpose.CA, Purpose.ETCD)))
    return await provider.looker.look(config(join_configuration=joins_by(TOKEN)))


def _has_data(there: Secret | None, *, labelled: bool = True) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        provider = Provider()
        await provider.has(of=machine(data="m"))
        if there is not None and labelled:
            await provider.put(SECRET, there)
        elif there is not None:
            provider.lay(SECRET, there)
        return await provider.looker.look(config(ready=True))

    return look


WORDS = {"words": Named("words")}
AWAY = TokenSeen(next=BEGIN + UNHEARD, problem="n/c is away")
LOOK = Look(
    "bootstrap.look",
    Seen,
    (
        Scene(
            "the Machine that owns it names another one",
            _a_copy,
            {"machine": None, "cluster": None, "secret": None},
        ),
        Scene(
            "no Machine owns it",
            _alone,
            {"config": config(), "now": BEGIN, "settings": EC, "machine": None, "cluster": None, "lock": None}
            | {
                "secret": None,
                "data": None,
                "pairs": {},
                "sources": {},
                "token": TokenSeen(),
                "new_token": None,
            },
        ),
        Scene(
            "its Machine has no Cluster",
            _without_cluster,
            {
                "now": BEGIN + timedelta(seconds=60),
                "settings": SHORT,
                "machine.metadata.name": "m",
                "cluster": None,
            },
        ),
        Scene(
            "another machine holds the lock, and is gone",
            _first(holder="other", there=False),
            {
                "lock": lock.Lock("lock", "other", holder_exists=False),
                "cluster.metadata.name": "c",
                "pairs": {},
            },
        ),
        Scene(
            "another machine holds the lock",
            _first(holder="other", there=True),
            {"lock": lock.Lock("lock", "other", holder_exists=True), "yields_until": None},
        ),
        Scene(
            "the machine has given up the lock",
            _gave_up(forgotten=False),
            {"lock": None, "yields_until": BEGIN + timedelta(seconds=10) + UNHEARD},
        ),
        Scene(
            "a KubeadmConfig of the same name had given it up",
            _gave_up(forgotten=True),
            {"yields_until": None},
        ),
        Scene(
            "a worker joins: of the authority it needs the certificate, and a token is made up",
            _joins,
            {"pairs": {Purpose.CA: KeyPair(PAIR.certificate)}, "sources": WORDS}
            | {"new_token": new_token(random.Random(0).choice), "token": AWAY, "secret": None, "data": None},
        ),
        Scene(
            "a control plane joins: it needs the keys, too, and has a token",
            _joins_as_control_plane,
            {"pairs": {Purpose.CA: PAIR, Purpose.ETCD: PAIR}, "new_token": None, "token": AWAY}
            | {"config": config(join_configuration=joins_by(TOKEN))},
        ),
        Scene(
            "its data are there, with a token",
            _has_data(data_for(TOKEN)),
            {"secret.metadata.name": "m", "data": DataSeen(made=True, token=TOKEN), "token": AWAY},
        ),
        Scene(
            "its data are there, and no label shows them",
            _has_data(data_for(OTHER_TOKEN), labelled=False),
            {"secret.metadata.name": "m", "data": DataSeen(made=True, token=OTHER_TOKEN)},
        ),
        Scene("its data are gone", _has_data(None), {"secret": None, "data": DataSeen(made=False)}),
    ),
)
