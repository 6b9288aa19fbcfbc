"""Scenes of what is around a MachineSet of Cluster API: its Cluster, what its templates name, its deployment."""

from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE_DEPLOYMENT, MACHINE_SET, MachineSet
from kubewright.clusters.external.object import look_up
from kubewright.clusters.machineset.around import Around
from kubewright.clusters.machineset.policy import Looker
from kubewright.testing.looks import Look, Named, Scene, Shelf
from kubewright.wire.gvk import Key

from .of_cluster_machines import CONFIG, INFRA, LABELS, NS, PLANE, Providers, cluster, plain

KEY, OF = Key(NS, "s"), {names.DEPLOYMENT_NAME_LABEL: "d"}
THERE = Providers({"Foo": {"spec": {"size": 1}}, "Bar": {"spec": {}}, "Plane": {"status": {"ready": True}}})


def machine_set(*, labels: dict[str, str] = LABELS, config: bool = True) -> MachineSet:
    bootstrap = {"configRef": plain(CONFIG)} if config else {"dataSecretName": "data"}
    machine = {"clusterName": "c", "bootstrap": bootstrap, "infrastructureRef": plain(INFRA)}
    spec = {"clusterName": "c", "selector": {"matchLabels": LABELS}, "template": {"spec": machine}}
    meta = {"name": "s", "namespace": NS, "uid": "s", "labels": labels}
    return MACHINE_SET.from_plain({"metadata": meta, "spec": spec})


def deployment(*, matches: dict[str, str] = LABELS, **meta: Any) -> tuple[Any, Any]:
    spec = {
        "clusterName": "c",
        "selector": {"matchLabels": matches},
        "template": {"spec": {"clusterName": "c"}},
    }
    given = {"metadata": {"name": "d", "namespace": NS, "uid": "d", **meta}, "spec": spec}
    return MACHINE_DEPLOYMENT, MACHINE_DEPLOYMENT.from_plain(given)


def scene(
    of: MachineSet, *there: tuple[Any, Any], providers: Providers | None = None
) -> Callable[[], Awaitable[Around]]:
    async def look() -> Around:
        shelf = Shelf()
        clusters, deployments = shelf.caches.get(CLUSTER), shelf.caches.get(MACHINE_DEPLOYMENT)
        looker = Looker(clusters, deployments, providers or Providers({}))
        for kind, each in there:
            await shelf.put(kind, each)
        return looker.look(of)

    return look


NOWHERE = Providers({})
LOOK = Look(
    "clusters.machineset.look",
    Around,
    (
        Scene(
            "nothing is there",
            scene(machine_set(config=False)),
            {"cluster": None, "control_plane": None, "bootstrap": None, "deployed": False}
            | {"infrastructure": look_up(NOWHERE, KEY, INFRA)},
        ),
        Scene(
            "all is there",
            scene(
                machine_set(labels={**LABELS, **OF}),
                cluster(controlPlaneRef=plain(PLANE)),
                deployment(),
                providers=THERE,
            ),
            {"cluster": Named("c"), "control_plane": look_up(THERE, KEY, PLANE), "deployed": True}
            | {"bootstrap": look_up(THERE, KEY, CONFIG), "infrastructure": look_up(THERE, KEY, INFRA)},
        ),
        Scene(
            "its Cluster has no control plane object, and its deployment selects others",
            scene(machine_set(labels={**LABELS, **OF}), cluster(), deployment(matches={"a": "b"})),
            {"cluster": Named("c"), "control_plane": None, "deployed": False},
        ),
        Scene(
            "its deployment is being deleted",
            scene(
                machine_set(labels={**LABELS, **OF}),
                deployment(deletionTimestamp="2030-01-01T00:00:00Z", finalizers=["f"]),
            ),
            {"deployed": False},
        ),
        Scene("its label names no deployment", scene(machine_set(), deployment()), {"deployed": False}),
    ),
)
