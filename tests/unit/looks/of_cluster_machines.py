"""Scenes of a Machine of Cluster API: the management cluster's caches, the workload cluster, and what is seen."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_DRAIN_RULE,
    MACHINE_SET,
    Machine,
    ObjectReference,
)
from kubewright.api.core import POD
from kubewright.api.kinds import dynamic
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.clusters.external.object import External, look_up
from kubewright.clusters.machine.look import Caches, Looker, WorkloadCalls
from kubewright.clusters.machine.seen import DeletionState, Seen, Workload
from kubewright.clusters.node import CLUSTER_NODE, INDEXES
from kubewright.runtime.references.reference import Absent, Answer, Cause, Found, Reference
from kubewright.runtime.sessions.session import Health, NotConnected, Session
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene, Shelf
from kubewright.wire.errors import Forbidden, NotFound
from kubewright.wire.gvk import Key, Resource

NS, LABELS = "n", {"cluster.x-k8s.io/cluster-name": "c"}
KEY, VM, SECOND = Key(NS, "m"), "sim:///here/vm-1", timedelta(seconds=1)
FOO = dynamic(Resource("infrastructure.cluster.x-k8s.io", "v1beta1", "foos", "Foo"))
INFRA = ObjectReference(api_version=FOO.resource.api_version, kind="Foo", name="m")
CONFIG = ObjectReference(api_version="bootstrap.cluster.x-k8s.io/v1beta1", kind="Bar", name="m")
PLANE = ObjectReference(api_version="controlplane.cluster.x-k8s.io/v1beta1", kind="Plane", name="p")
DELETED = {"deletionTimestamp": "2029-12-31T23:59:00Z", "finalizers": [names.MACHINE_FINALIZER]}
SINCE = BEGIN - timedelta(minutes=1)


def plain(ref: ObjectReference) -> dict[str, str]:
    return {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name}


def machine(
    name: str = "m",
    *,
    meta: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    node: str = "",
    conditions: tuple[dict[str, Any], ...] = (),
    **spec: Any,
) -> Machine:
    given = {"clusterName": "c", "bootstrap": {}, "infrastructureRef": plain(INFRA), **spec}
    status: dict[str, Any] = {"conditions": list(conditions)}
    if node:
        status["nodeRef"] = {"kind": "Node", "name": node}
    found = {
        "name": name,
        "namespace": NS,
        "uid": name,
        "labels": {**LABELS, **(labels or {})},
        **(meta or {}),
    }
    return MACHINE.from_plain({"metadata": found, "spec": given, "status": status})


def succeeded(kind: str, at: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": at}


def cluster(**spec: Any) -> tuple[Any, Any]:
    return CLUSTER, CLUSTER.from_plain({"metadata": {"name": "c", "namespace": NS, "uid": "c"}, "spec": spec})


def node(
    name: str, provider_id: str = VM, *, cordoned: bool = True, volumes: tuple[str, ...] = ()
) -> tuple[Any, Any]:
    spec = {"providerID": provider_id, "unschedulable": cordoned}
    status = {"volumesAttached": [{"name": each} for each in volumes]}
    return CLUSTER_NODE, CLUSTER_NODE.from_plain({"metadata": {"name": name}, "spec": spec, "status": status})


def of_revision(kind: Any, name: str, revision: str, **labels: str) -> tuple[Any, Any]:
    meta = {"name": name, "namespace": NS, "uid": name, "annotations": {names.REVISION_ANNOTATION: revision}}
    spec = {
        "clusterName": "c",
        "selector": {"matchLabels": LABELS},
        "template": {"spec": {"clusterName": "c"}},
    }
    return kind, kind.from_plain({"metadata": {**meta, "labels": {**LABELS, **labels}}, "spec": spec})


class Providers:
    """The objects of providers, by kind; the others are not ``there`` for a ``cause``. ``served``: whether the
    server serves their kinds."""

    def __init__(
        self,
        there: Mapping[str, Mapping[str, Any]],
        *,
        served: bool = True,
        cause: Cause = Cause.NOT_INSTALLED,
    ) -> None:
        self.there, self.served, self.cause = there, served, cause
        self.asked: list[tuple[str, str]] = []
        self.forgotten: list[Key] = []

    def get(self, owner: Key, reference: Reference) -> Answer:
        found = self.there.get(reference.kind)
        if found is None:
            return Absent(self.cause, f"there is no {reference}")
        return Found({"metadata": {"name": reference.key.name}, **found}, FOO, "v1beta1")

    async def is_served(self, group: str, kind: str) -> bool:
        self.asked.append((group, kind))
        return self.served

    def forget(self, owner: Key) -> None:
        self.forgotten.append(owner)


class Machines(Shelf):
    """The management cluster, its one workload cluster on a shelf of its own, and the looker."""

    def __init__(self, providers: Providers, *, away: bool = False, strict: bool = False) -> None:
        super().__init__()
        self.away, self.health_of = away, Health(connected=False, answers=False, since=10.0)
        self.workload = Shelf(self.clock)
        nodes = self.workload.caches.get(CLUSTER_NODE)
        for name, of in INDEXES.items():
            nodes.index(name, of)
        self.in_caches = Caches(self.caches)
        self.providers = providers
        calls = WorkloadCalls(self.clock)
        self.looker = Looker(self.client, self.in_caches, providers, self, calls, strict_running=strict)

    def get(self, cluster: Key) -> Session:
        if self.away:
            raise NotConnected(f"{cluster} is away")
        return Session(self.workload.client, self.workload.caches, cluster)

    def health(self, cluster: Key) -> Health | None:
        return self.health_of


def scene(
    of: Machine,
    *there: tuple[Any, Any],
    in_cluster: tuple[tuple[Any, Any], ...] = (),
    providers: Providers | None = None,
    before: Callable[[Machines], object] = lambda _machines: None,
    at: float = 0,
    **how: bool,
) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        machines = Machines(providers or Providers({}), **how)
        for kind, each in there:
            await machines.put(kind, each)
        for kind, each in in_cluster:
            await machines.workload.put(kind, each)
        before(machines)
        machines.clock.passed = at
        return await machines.looker.look(of)

    return look


def found(ref: ObjectReference, **more: Any) -> External:
    return look_up(Providers({ref.kind: more}), KEY, ref)


def missing(ref: ObjectReference, *, gone: bool = False) -> External:
    return look_up(Providers({}), KEY, ref).if_served(served=not gone)


def _pods(machines: Machines) -> None:
    machines.workload.lay(
        POD,
        *(
            POD.from_plain(
                {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": {"nodeName": at}}
            )
            for name, at in (("a", "node-1"), ("b", "node-2"))
        ),
    )


def _refused(machines: Machines) -> None:
    machines.workload.answers[POD.resource.path()] = Forbidden("no")


def _without_rules(machines: Machines) -> None:
    _pods(machines)
    machines.answers[MACHINE_DRAIN_RULE.resource.path(NS)] = NotFound("no such page")


def _attached(machines: Machines) -> None:
    for name, at in (("x", "node-1"), ("y", "node-2")):
        body = {"metadata": {"name": name}, "spec": {"nodeName": at}}
        machines.workload.lay(VOLUME_ATTACHMENT, VOLUME_ATTACHMENT.from_plain(body))


def _node_error(machines: Machines) -> None:
    machines.looker.notes("m").node_error = "it said no"
    machines.looker.notes("m").node_error_since = SINCE


def _never_wanted(machines: Machines) -> None:
    machines.health_of = None


def _stepped(machines: Machines) -> None:
    machines.client.skew.anchor = (BEGIN, 0.0)
    machines.clock.ahead = 3600


PLANE_FOR = {"controlPlaneRef": plain(PLANE)}
OTHER_PLANE = (MACHINE, machine("cp", labels={names.CONTROL_PLANE_LABEL: ""}))
GOING = machine(meta=DELETED, node="node-1", providerID=VM)
HOOKED = succeeded("PreDrainDeleteHookSucceeded", "2029-12-31T23:59:30Z")
DRAINED = succeeded("DrainingSucceeded", "2029-12-31T23:59:40Z")
DETACHING = machine(meta=DELETED, node="node-1", providerID=VM, conditions=(HOOKED, DRAINED))
OWNED = {
    "ownerReferences": [
        {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "MachineSet",
            "name": "s",
            "uid": "s",
            "controller": True,
        }
    ]
}
NOT_DELETED = {
    f"deletion.{name}": value
    for name, value in zip(
        DeletionState.__dataclass_fields__, (None, 0, None, (), "", "", None, None, None, None), strict=True
    )
}
WITH_NODE = (node("node-1"),)
LOOK = Look(
    "clusters.machine.look",
    Seen,
    (
        Scene(
            "nothing else is there",
            scene(machine()),
            {
                "machine": machine(),
                "now": BEGIN,
                "wall": BEGIN,
                "infrastructure": missing(INFRA),
                "cluster": None,
            }
            | {"bootstrap": None, "has_maker": False, "outdated": False, "strict_running": False}
            | {"workload.unreachable": "", "workload.unreachable_for": timedelta(), "workload.nodes": ()}
            | {"workload.taken_by": "", **NOT_DELETED},
        ),
        Scene(
            "its objects are there, and its Node",
            scene(
                machine(providerID=VM, bootstrap={"configRef": plain(CONFIG)}, meta=OWNED),
                cluster(),
                in_cluster=(*WITH_NODE, node("node-2", "sim:///here/vm-2")),
                providers=Providers({"Foo": {"status": {"ready": True}}, "Bar": {}}),
                strict=True,
                at=20,
            ),
            {
                "infrastructure": found(INFRA, status={"ready": True}),
                "bootstrap": found(CONFIG),
                "has_maker": True,
            }
            | {"cluster": Named("c"), "now": BEGIN + 20 * SECOND, "wall": BEGIN + 20 * SECOND}
            | {"machine.spec.provider_id": VM, "workload.nodes": (Named("node-1"),), "strict_running": True},
        ),
        Scene(
            "the wall clock was set",
            scene(machine(), before=_stepped),
            {"now": BEGIN, "wall": BEGIN + 3600 * SECOND},
        ),
        Scene(
            "its cluster is away",
            scene(machine(providerID=VM), away=True, at=40),
            {
                "workload.unreachable": "n/c is away",
                "workload.unreachable_for": 30 * SECOND,
                "workload.nodes": (),
            },
        ),
        Scene(
            "its cluster was never asked for",
            scene(machine(providerID=VM), away=True, before=_never_wanted),
            {"workload.unreachable_for": timedelta.max},
        ),
        Scene(
            "an older machine has its providerID",
            scene(machine(providerID=VM), (MACHINE, machine("a", providerID=VM, node="node-1"))),
            {"workload.taken_by": "a"},
        ),
        Scene(
            "its set is of an older revision than its deployment",
            scene(
                machine(labels={names.DEPLOYMENT_NAME_LABEL: "d"}, meta=OWNED),
                of_revision(MACHINE_SET, "s", "1"),
                of_revision(MACHINE_DEPLOYMENT, "d", "2"),
            ),
            {"outdated": True},
        ),
        Scene(
            "its set is of the same revision",
            scene(
                machine(labels={names.DEPLOYMENT_NAME_LABEL: "d"}, meta=OWNED),
                of_revision(MACHINE_SET, "s", "2"),
                of_revision(MACHINE_DEPLOYMENT, "d", "2"),
            ),
            {"outdated": False},
        ),
        Scene(
            "in deletion, its pods drain",
            scene(
                GOING,
                cluster(**PLANE_FOR),
                OTHER_PLANE,
                in_cluster=WITH_NODE,
                before=_pods,
                providers=Providers({"Plane": {}, "Foo": {}}),
            ),
            {
                "deletion.control_plane": found(PLANE),
                "deletion.active_control_planes": 1,
                "deletion.deleted_at": SINCE,
            }
            | {"deletion.drain.evict": (Named("a"),), "deletion.unread": "", "deletion.drain_since": None},
        ),
        Scene(
            "in deletion, its pods may not be listed",
            scene(
                GOING,
                cluster(**PLANE_FOR),
                OTHER_PLANE,
                in_cluster=WITH_NODE,
                before=_refused,
                providers=Providers({"Plane": {}, "Foo": {}}),
            ),
            {"deletion.drain": None}
            | {"deletion.unread": "of cluster n/c pods, volumes or drain rules are not known: no"},
        ),
        Scene(
            "in deletion, drain rules are not served just now, though they may be there: no pod is asked to go",
            scene(
                GOING,
                cluster(**PLANE_FOR),
                OTHER_PLANE,
                in_cluster=WITH_NODE,
                before=_without_rules,
                providers=Providers({"Plane": {}, "Foo": {}}),
            ),
            {"deletion.drain": None}
            | {"deletion.unread": "of cluster n/c pods, volumes or drain rules are not known: no such page"},
        ),
        Scene(
            "in deletion, drain rules are not installed: there are none",
            scene(
                GOING,
                cluster(**PLANE_FOR),
                OTHER_PLANE,
                in_cluster=WITH_NODE,
                before=_without_rules,
                providers=Providers({"Plane": {}, "Foo": {}}, served=False),
            ),
            {"deletion.drain.evict": (Named("a"),), "deletion.unread": ""},
        ),
        Scene(
            "in deletion, its volumes are attached",
            scene(
                DETACHING,
                cluster(**PLANE_FOR),
                OTHER_PLANE,
                in_cluster=WITH_NODE,
                before=_attached,
                providers=Providers({"Plane": {}, "Foo": {}}),
            ),
            {"deletion.volumes": ("x",), "deletion.drain_since": SINCE + 30 * SECOND}
            | {"deletion.detach_since": SINCE + 40 * SECOND},
        ),
        Scene(
            "in deletion, its Node names volumes",
            scene(
                DETACHING,
                cluster(**PLANE_FOR),
                OTHER_PLANE,
                in_cluster=(node("node-1", volumes=("v",)),),
                before=_attached,
                providers=Providers({"Plane": {}, "Foo": {}}),
            ),
            {"deletion.volumes": ("v",)},
        ),
        Scene(
            "in deletion, its Node could not be deleted",
            scene(GOING, before=_node_error),
            {"deletion.node_error": "it said no", "deletion.node_error_since": SINCE}
            | {"deletion.active_control_planes": 0},
        ),
        Scene(
            "in deletion, and the kind of its infrastructure is not served",
            scene(GOING, providers=Providers({}, served=False)),
            {"infrastructure": missing(INFRA, gone=True)},
        ),
        Scene(
            "in deletion, and its infrastructure may be there all the same",
            scene(GOING),
            {"infrastructure": missing(INFRA)},
        ),
    ),
    parts={"workload": Workload, "deletion": DeletionState},
    given={"failed": "the reconciler puts in what the steps of the pass could not do"},
)
