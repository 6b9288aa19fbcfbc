"""Scenes of a KubewrightCluster: what the management cluster's caches hold, and what the look must say."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.api.kinds import Undecodable
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import DriverError
from kubewright.driver.guard import GuardedDriver
from kubewright.driver.registry import RoutedDriver
from kubewright.infra.caches import Caches, Shared
from kubewright.infra.cluster.endpoints import EndpointCalls
from kubewright.infra.cluster.look import Looker
from kubewright.infra.cluster.seen import NOTHING, EndpointSeen, Seen
from kubewright.infra.settings import InfraSettings
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.testing.acts import Told
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene, Shelf
from kubewright.wire.gvk import Key

NS, LABELS = "n", {"cluster.x-k8s.io/cluster-name": "c"}
CORE = "cluster.x-k8s.io/v1beta1"
DELETED = {"deletionTimestamp": "2029-12-31T23:59:00Z", "finalizers": ["f"]}
PAUSED = {"annotations": {"cluster.x-k8s.io/paused": ""}}
OWNED = {"ownerReferences": [{"apiVersion": CORE, "kind": "Cluster", "name": "c", "uid": "c"}]}
ELSEWHERE = {"ownerReferences": [{"apiVersion": CORE, "kind": "Cluster", "name": "d", "uid": "d"}]}
SHARED = {"credentialsRef": {"name": "cloud"}}
There = tuple[Any, Any]


def _meta(name: str, /, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": NS, "uid": name, **more}


def found(of: dict[str, Any] | None = None, **spec: Any) -> Any:
    return KUBEWRIGHT_CLUSTER.from_plain({"metadata": _meta("k", **(of or {})), "spec": spec})


def a_cluster(name: str = "c", of: dict[str, Any] | None = None, **spec: Any) -> There:
    return CLUSTER, CLUSTER.from_plain({"metadata": _meta(name, **(of or {})), "spec": spec})


def a_machine(name: str, *, of: dict[str, Any] | None = None, cluster: str = "c") -> There:
    labels = {"cluster.x-k8s.io/cluster-name": cluster}
    return KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE.from_plain(
        {"metadata": _meta(name, labels=labels, **(of or {}))}
    )


def a_core_machine(infrastructure: str) -> There:
    kind = KUBEWRIGHT_MACHINE.resource
    ref = {"apiVersion": kind.api_version, "kind": kind.kind, "name": infrastructure}
    return MACHINE, MACHINE.from_plain(
        {"metadata": _meta("m", labels=LABELS), "spec": {"clusterName": "c", "infrastructureRef": ref}}
    )


def a_secret(**data: str) -> There:
    return SECRET, SECRET.from_plain({"metadata": _meta("cloud"), "data": data})


class Offering:
    """A driver that gives endpoints. ``given``: by name and owner of the class, with which credentials."""

    def __init__(self) -> None:
        self.error: DriverError | None = None
        self.given: dict[tuple[str, str], dict[str, bytes]] = {}

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        if self.error is not None:
            raise self.error
        self.given[_place(request)] = dict(request.secret.data)
        return "10.0.0.1", 6443

    async def release(self, request: ClassRequest) -> None:
        self.given.pop(_place(request))


def _place(request: ClassRequest) -> tuple[str, str]:
    meta = request.machine_class.metadata
    return meta.name, meta.uid


class Clusters(Shelf):
    """The caches, two drivers of which ``offers`` gives endpoints, and the looker."""

    def __init__(self) -> None:
        super().__init__()
        self.generations = True
        self.in_caches, self.told, self.offering = Caches(self.caches), Told(), Offering()
        guarded: dict[str, Any] = {
            "sim": GuardedDriver(object(), self.clock),
            "offers": GuardedDriver(self.offering, self.clock),
        }
        self.shared = Shared(
            self.client,
            self.in_caches,
            RoutedDriver(guarded, "sim"),
            cast("Recorder", self.told),
            self.clock,
            InfraSettings(),
            Metrics(),
        )
        self.answered: list[Key] = []
        steady = self.client.steady()
        self.calls = EndpointCalls(self.shared.driver, steady, self.answered.append)
        self.looker = Looker(self.shared, self.calls, steady)


def scene(
    of: Any,
    *there: There,
    before: Callable[[Clusters], object] = lambda _clusters: None,
    at: float = 0,
) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        clusters = Clusters()
        for kind, each in there:
            await clusters.put(kind, each)
        before(clusters)
        clusters.clock.passed = at
        return clusters.looker.look(of)

    return look


def _called(clusters: Clusters) -> None:
    request = clusters.looker.request(Seen(found(), BEGIN))
    clusters.calls.release(Key(NS, "k"), "k", request)


async def _unreadable() -> Seen:
    clusters = Clusters()
    broken = {"metadata": {"name": "k", "namespace": NS, "uid": "k"}, "spec": {"driver": 5}}
    with suppress(Undecodable):
        await clusters.client.create(KUBEWRIGHT_CLUSTER, broken, namespace=NS)
    return clusters.looker.look(found(**SHARED))


NO_HOST = "a port alone is no endpoint"
UNREADABLE = (
    "KubewrightCluster k is unreadable: cannot read KubewrightCluster: spec.driver: Expected `str`, got `int`"
)
KIND = KUBEWRIGHT_CLUSTER.resource
TO_ORIGINAL = {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": "o"}
PLAIN = found()
LABELLED = found({"labels": LABELS})
GOING = found({"labels": LABELS, **DELETED})
LOOK = Look(
    "infra.cluster.look",
    Seen,
    (
        Scene(
            "nothing else is there",
            scene(PLAIN, a_machine("a", cluster="")),
            {"cluster": PLAIN, "now": BEGIN, "owner": None, "lives": False, "paused": False}
            | {"machines": (), "unowned": (), "problem": "", "offers_endpoints": False, "endpoint": NOTHING}
            | {"original": ""},
        ),
        Scene(
            "all is there",
            scene(
                found(OWNED, driver="offers", **SHARED),
                a_cluster(),
                a_machine("b"),
                a_machine("a"),
                a_machine("x", cluster="x"),
                a_secret(key="eA=="),
                before=_called,
                at=60,
            ),
            {"cluster": found(OWNED, driver="offers", **SHARED), "now": BEGIN + timedelta(seconds=60)}
            | {"owner": Named("c"), "lives": True, "machines": (Key(NS, "b"), Key(NS, "a")), "unowned": ()}
            | {"offers_endpoints": True, "endpoint": EndpointSeen(running=True, releasing=True)}
            | {"problem": ""},
        ),
        Scene(
            "a label says of which Cluster it is, where nothing owns it",
            scene(LABELLED, a_cluster(), a_machine("a")),
            {"owner": None, "lives": True, "machines": (Key(NS, "a"),)},
        ),
        Scene(
            "a copy of the one that its Cluster names",
            scene(
                found(
                    {"labels": LABELS, "annotations": {"kubewright.dev/cloud-owner": "kubewrightcluster.o"}}
                ),
                a_cluster(infrastructureRef=TO_ORIGINAL),
                (KUBEWRIGHT_CLUSTER, found({"name": "o", "uid": "o"})),
            ),
            {"original": "o"},
        ),
        Scene(
            "beside the one that its Cluster names, and no copy of it",
            scene(
                LABELLED,
                a_cluster(infrastructureRef=TO_ORIGINAL),
                (KUBEWRIGHT_CLUSTER, found({"name": "o", "uid": "o"})),
            ),
            {"original": ""},
        ),
        Scene(
            "its owner counts more than its label",
            scene(
                found({"labels": LABELS, **ELSEWHERE}), a_cluster(), a_cluster("d", DELETED), a_machine("a")
            ),
            {"owner": Named("d"), "lives": False, "machines": ()},
        ),
        Scene(
            "its owner is gone",
            scene(found({"labels": LABELS, **ELSEWHERE}), a_cluster(), a_machine("a")),
            {"owner": None, "lives": True, "machines": (Key(NS, "a"),)},
        ),
        Scene("it is paused", scene(found(PAUSED)), {"paused": True}),
        Scene("its Cluster is paused", scene(found(OWNED), a_cluster(paused=True)), {"paused": True}),
        Scene(
            "it is being deleted, and some of its machines nobody deletes",
            scene(
                GOING,
                a_machine("owned", of=OWNED),
                a_machine("going", of=DELETED),
                a_machine("named"),
                a_machine("left"),
                a_core_machine("named"),
            ),
            {
                "machines": tuple(Key(NS, name) for name in ("owned", "going", "named", "left")),
                "unowned": (Key(NS, "left"),),
            },
        ),
        Scene(
            "its spec breaks a rule, and its credentials are missing",
            scene(found(controlPlaneEndpoint={"port": 6443}, **SHARED)),
            {"problem": f"spec.controlPlaneEndpoint.host: Required value: {NO_HOST}"},
        ),
        Scene(
            "what it was made from does not hold it up when it is deleted",
            scene(found(DELETED, controlPlaneEndpoint={"port": 6443})),
            {"problem": ""},
        ),
        Scene(
            "what drivers are told of it cannot be read",
            _unreadable,
            {"problem": UNREADABLE},
        ),
        Scene(
            "its credentials are missing",
            scene(found(**SHARED)),
            {"problem": "there is no Secret cloud with credentials"},
        ),
        Scene(
            "its credentials are empty",
            scene(found(**SHARED), a_secret()),
            {"problem": "Secret cloud, which should have credentials, is empty"},
        ),
        Scene(
            "its driver does not run here, which is told before its credentials",
            scene(found(driver="foo", **SHARED)),
            {"problem": "driver 'foo' does not run in this program, only: offers, sim"},
        ),
    ),
)
