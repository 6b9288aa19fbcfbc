"""Objects of a control plane for scenes: the Cluster, the control plane and its components; and a shelf."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT
from kubewright.api.controlplane.v1alpha4 import NESTED_CLUSTER, NESTED_CONTROL_PLANE
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.family import KINDS
from kubewright.controlplanes.hosting.contract import Running, Workload, WorkloadAddresses, WorkloadIdentity
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.acts import Told
from kubewright.testing.clocks import ManualClock
from kubewright.testing.looks import Shelf
from kubewright.testing.passes import Stage, Wired
from kubewright.wire.gvk import Key

NS = "n"
CORE, NESTED = "cluster.x-k8s.io/v1beta1", "controlplane.cluster.x-k8s.io/v1alpha4"
CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
OF_CLUSTER = {CLUSTER_LABEL: "c"}
PAUSED = {"annotations": {"cluster.x-k8s.io/paused": ""}}
FOREIGN = {"annotations": {"cluster.x-k8s.io/managed-by": "another"}}
FINALIZED = {"finalizers": ["nested.controlplane.cluster.x-k8s.io"]}
DELETED = {**FINALIZED, "deletionTimestamp": "2029-12-31T23:59:00Z"}
NAMED = {"etcd": {"name": "e"}, "apiserver": {"name": "a"}, "controllerManager": {"name": "m"}}

There = tuple[Any, Any]


def meta(name: str, /, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": NS, "uid": name, **more}


def owner(
    api_version: str, kind: str, name: str, uid: str = "", *, controller: bool = True
) -> dict[str, Any]:
    ref = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or name}
    return {"ownerReferences": [{**ref, "controller": controller}]}


BY_CLUSTER = owner(CORE, "Cluster", "c")
BY_PLANE = owner(NESTED, "NestedControlPlane", "p")


def plane(name: str = "p", status: dict[str, Any] | None = None, named: Any = NAMED, **spec: Any) -> Any:
    """A control plane of Cluster c. ``of``: its metadata instead."""
    of = spec.pop("of", BY_CLUSTER)
    given = {"metadata": meta(name, **of), "spec": {**named, **spec}, "status": status or {}}
    return NESTED_CONTROL_PLANE.from_plain(given)


def component(which: Component, status: dict[str, Any] | None = None, **spec: Any) -> Any:
    """The component of control plane p. ``of``: metadata beside the owner."""
    name, of = which[0] if which is not Component.CONTROLLER_MANAGER else "m", spec.pop("of", {})
    given = {"metadata": meta(name, **{**BY_PLANE, **of}), "spec": spec, "status": status or {}}
    return KINDS[which].from_plain(given)


def a_component(which: Component, status: dict[str, Any] | None = None, **spec: Any) -> There:
    return KINDS[which], component(which, status, **spec)


def a_plane(name: str = "p", status: dict[str, Any] | None = None, **spec: Any) -> There:
    return NESTED_CONTROL_PLANE, plane(name, status, **spec)


def a_cluster(name: str = "c", **spec: Any) -> There:
    return CLUSTER, CLUSTER.from_plain({"metadata": meta(name), "spec": spec})


def a_nested_cluster(status: dict[str, Any] | None = None, of: Any = BY_CLUSTER, **spec: Any) -> There:
    given = {"metadata": meta("c", **of), "spec": spec, "status": status or {}}
    return NESTED_CLUSTER, NESTED_CLUSTER.from_plain(given)


def a_snapshot(name: str = "first", status: dict[str, Any] | None = None, **spec: Any) -> There:
    of = spec.pop("of", {})
    given = {"metadata": meta(name, **of), "spec": {"controlPlaneName": "p", **spec}, "status": status or {}}
    return CONTROL_PLANE_SNAPSHOT, CONTROL_PLANE_SNAPSHOT.from_plain(given)


def a_restore(name: str = "back", status: dict[str, Any] | None = None, **spec: Any) -> There:
    of = spec.pop("of", {})
    given = {"metadata": meta(name, **of), "spec": spec or {"snapshotName": "first"}, "status": status or {}}
    return CONTROL_PLANE_RESTORE, CONTROL_PLANE_RESTORE.from_plain(given)


def a_secret(name: str, *, labels: Any = OF_CLUSTER, **texts: str) -> There:
    data = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
    return SECRET, SECRET.from_plain({"metadata": meta(name, labels=labels), "data": data})


def a_config_map(name: str, **texts: str) -> There:
    return CONFIG_MAP, CONFIG_MAP.from_plain({"metadata": meta(name), "data": texts})


class Planes(Shelf):
    """A management cluster with control planes: its server, its caches, and what controllers are wired to."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.told, self.generations = Told(), True
        session = Session(self.client, self.caches)
        self.environment = Environment(
            session,
            Fixed(session),
            lambda: True,
            cast("Recorder", self.told),
            self.clock,
            Metrics(),
        )
        self.in_caches = Caches(self.caches)

    async def holds(self, *there: There) -> None:
        """Put these, each of its kind."""
        for kind, each in there:
            await self.put(kind, each)


@dataclass
class Host:
    """A host of components, which has ``running`` of any workload.

    ``knows``     the addresses of any workload; a text: why there are none
    ``problem``   why it cannot run a workload
    ``asked_for`` for how many instances each workload's addresses were asked
    """

    running: Running = field(default_factory=Running)
    knows: WorkloadAddresses | str = field(default_factory=WorkloadAddresses)
    problem: str = ""
    asked_for: dict[str, int] = field(default_factory=dict)

    def status(self, _identity: WorkloadIdentity) -> Running:
        return self.running

    def addresses(self, identity: WorkloadIdentity, replicas: int) -> WorkloadAddresses:
        self.asked_for[identity.workload] = replicas
        if isinstance(self.knows, str):
            raise InvalidInput(self.knows)
        return self.knows

    def problem_of(self, _workload: Workload) -> str:
        return self.problem


@dataclass
class Reserving(Host):
    """A host that has to make a part of each workload before its addresses are known."""

    made: bool = False

    def must_reserve(self, _workload: Workload) -> bool:
        return not self.made

    async def reserve(self, _workload: Workload) -> None:
        self.made = True


def key(name: str) -> Key:
    return Key(NS, name)


def staged(wire: Callable[[Environment], Controller], *there: There) -> Stage:
    """These objects, and the controller that ``wire`` makes."""

    async def wired() -> Wired:
        shelf = Planes()
        controller = wire(shelf.environment)
        await shelf.holds(*there)
        return Wired(shelf, controller, shelf.told)

    return wired
