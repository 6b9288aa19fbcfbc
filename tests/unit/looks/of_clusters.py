"""Scenes of a Cluster: what belongs to it, its kubeconfig and what signs that, and what the look must say."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import cache
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_SET, ApiEndpoint, Cluster
from kubewright.api.core import SECRET, Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.clusters.cluster.act import kubeconfig_secret
from kubewright.clusters.cluster.look import Looker
from kubewright.clusters.cluster.seen import Child, Seen
from kubewright.clusters.external.object import External, look_up
from kubewright.pki.credentials import data_of
from kubewright.pki.keys import KeyPair
from kubewright.runtime.credentials.contents import read_secret
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Scene, Shelf
from kubewright.wire.gvk import Key

from .of_cluster_machines import INFRA, PLANE, Providers, machine, of_revision, plain
from .of_kubeadm_configs import LATER_PAIR, PAIR

KEY, ENDPOINT = Key("n", "c"), {"controlPlaneEndpoint": {"host": "h", "port": 6443}}
DELETED = {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": [names.CLUSTER_FINALIZER]}
LABELS = {names.CLUSTER_NAME_LABEL: "c"}
MINE = OwnerReference(api_version="cluster.x-k8s.io/v1beta1", kind="Cluster", name="c", uid="c")


def cluster(meta: dict[str, Any] | None = None, **spec: Any) -> Cluster:
    found = {"name": "c", "namespace": "n", "uid": "c", **(meta or {})}
    return CLUSTER.from_plain({"metadata": found, "spec": spec})


def authority(pair: KeyPair) -> Secret:
    meta = ObjectMeta(name="c-ca", namespace="n", labels=LABELS)
    return Secret(metadata=meta, data=data_of(pair.certificate, pair.key))


@cache
def kubeconfig(host: str, trusts: KeyPair = PAIR) -> Secret:
    """One that the program made for the endpoint at this host."""
    endpoint = ApiEndpoint(host=host, port=6443)
    made = kubeconfig_secret("c", MINE, endpoint, read_secret(authority(trusts)), BEGIN)
    return SECRET.from_plain({**made, "metadata": {**made["metadata"], "namespace": "n"}})


class Verdict:
    """What the API server says of an authority: the same of each."""

    def __init__(self, problem: str | None = "") -> None:
        self.says = problem

    def problem(self, cluster: Key, url: str, authority: Any) -> str | None:
        return self.says

    def forget(self, cluster: Key) -> None:
        """Nothing is kept."""


class Clusters(Shelf):
    """The management cluster and the looker of Clusters."""

    def __init__(self, providers: Providers | None = None, verdict: str | None = "") -> None:
        super().__init__()
        self.looker = Looker(self.client, self.caches, providers or Providers({}), Verdict(verdict))


def scene(
    of: Cluster,
    *there: tuple[Any, Any],
    unlisted: tuple[tuple[Any, Any], ...] = (),
    providers: Providers | None = None,
    verdict: str | None = "",
    at: float = 0,
) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        clusters = Clusters(providers, verdict)
        for kind, each in there:
            await clusters.put(kind, each)
        for kind, each in unlisted:
            clusters.lay(kind, each)
        clusters.clock.passed = at
        return await clusters.looker.look(of)

    return look


def found(ref: Any, providers: Providers) -> External:
    return look_up(providers, KEY, ref)


def member(name: str) -> tuple[Any, Any]:
    return MACHINE, machine(name, labels={names.CONTROL_PLANE_LABEL: ""}, node=name)


NOTHING, THERE = Providers({}), Providers({"Foo": {"spec": {}}, "Plane": {"spec": {}}})
LISTED = Child(MACHINE, "Machine", "m", "m", begun=False, control_plane=True)
SET_CHILD = Child(MACHINE_SET, "MachineSet", "s", "s")
LATER = timedelta(days=2).total_seconds()
HELD = ((SECRET, authority(LATER_PAIR)), (SECRET, kubeconfig("h")))
LOOK = Look(
    "clusters.cluster.look",
    Seen,
    (
        Scene(
            "nothing is there",
            scene(cluster(**ENDPOINT)),
            {"cluster": cluster(**ENDPOINT), "now": BEGIN, "infrastructure": None, "control_plane": None}
            | {"children": (), "first_node": "", "kubeconfig": None, "authority": None, "unverified": ""},
        ),
        Scene(
            "what its references name is there",
            scene(
                cluster(infrastructureRef=plain(INFRA), controlPlaneRef=plain(PLANE)), providers=THERE, at=60
            ),
            {"cluster.spec.control_plane_ref.name": "p", "now": BEGIN + timedelta(seconds=60)}
            | {"infrastructure": found(INFRA, THERE), "control_plane": found(PLANE, THERE)},
        ),
        Scene(
            "its kubeconfig trusts another authority, and the API server does not verify by the new one",
            scene(cluster(**ENDPOINT), *HELD, member("b"), member("a"), verdict="no", at=LATER),
            {"first_node": "a", "authority.pair": LATER_PAIR, "unverified": "no"}
            | {
                "kubeconfig.metadata.name": "c-kubeconfig",
                "kubeconfig.kubeconfig.authority": PAIR.certificate,
            },
        ),
        Scene(
            "the API server is being asked",
            scene(cluster(**ENDPOINT), *HELD, verdict=None, at=LATER),
            {"unverified": None},
        ),
        Scene(
            "its kubeconfig trusts its authority: nobody is asked",
            scene(cluster(**ENDPOINT), (SECRET, authority(PAIR)), HELD[1], verdict="no"),
            {"unverified": "", "authority.pair": PAIR},
        ),
        Scene(
            "in deletion, with machines and sets",
            scene(cluster(DELETED), member("m"), of_revision(MACHINE_SET, "s", "1")),
            {"children": (SET_CHILD, LISTED)},
        ),
        Scene(
            "in deletion, with a machine that no cache shows",
            scene(cluster(DELETED), unlisted=(member("m"),)),
            {"children": (LISTED,)},
        ),
        Scene(
            "in deletion, and the kind of its infrastructure is not served",
            scene(cluster(DELETED, infrastructureRef=plain(INFRA)), providers=Providers({}, served=False)),
            {"infrastructure": found(INFRA, NOTHING).if_served(served=False)},
        ),
    ),
    given={"failed": "the reconciler puts in what the steps of the pass could not do"},
)
