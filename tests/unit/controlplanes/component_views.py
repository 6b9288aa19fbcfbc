"""Views of a component for tests of decisions: an API server whose etcd is ready, until a test changes it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import ObjectReference
from kubewright.api.controlplane.names import FINALIZER, Component
from kubewright.api.controlplane.v1alpha4 import (
    NestedAPIServer,
    NestedControlPlane,
    NestedControlPlaneSpec,
    NestedEtcd,
    NestedEtcdStatus,
)
from kubewright.api.meta import ObjectMeta, owner_of
from kubewright.controlplanes.component.policies import API_SERVER
from kubewright.controlplanes.component.seen import Seen
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import Instance, Running, Workload, WorkloadIdentity
from kubewright.controlplanes.templates.choice import Choice
from kubewright.controlplanes.templates.render import Rendered

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def plane(**spec: Any) -> NestedControlPlane:
    """A control plane that names an etcd and an API server."""
    named = {"etcd": ObjectReference(name="store"), "apiserver": ObjectReference(name="front"), **spec}
    meta = ObjectMeta(name="demo", namespace="team", uid="p")
    return NestedControlPlane(metadata=meta, spec=NestedControlPlaneSpec(**named))


def etcd(*, ready: bool = True) -> NestedEtcd:
    meta = ObjectMeta(name="store", namespace="team", uid="e")
    return NestedEtcd(metadata=meta, status=NestedEtcdStatus(ready=ready))


def family(*components: NestedEtcd, of: NestedControlPlane | None = None) -> Family:
    return Family(
        of or plane(), components=dict.fromkeys((Component.ETCD,), components[0]) if components else {}
    )


def api_server(**fields: Any) -> NestedAPIServer:
    meta = ObjectMeta(
        name="front",
        namespace="team",
        uid="a",
        generation=2,
        finalizers=(FINALIZER,),
        labels={CLUSTER_NAME_LABEL: "demo"},
    )
    return NestedAPIServer(metadata=meta, **fields)


def with_meta(found: NestedAPIServer, **changes: Any) -> NestedAPIServer:
    return structs.replace(found, metadata=structs.replace(found.metadata, **changes))


PLACE = WorkloadIdentity(
    "team", "demo", Component.API_SERVER, owner_of(api_server(), "v1", "NestedAPIServer")
)


def workload(version: str = "1.36.3", replicas: int = 1, *, problems: tuple[str, ...] = ()) -> Workload:
    """What should run; another version is another fingerprint."""
    pod = {"spec": {"containers": [{"name": "apiserver", "image": version}]}}
    manifest = {"kind": "StatefulSet", "metadata": {"name": "demo-apiserver"}, "spec": {"template": pod}}
    return Workload(PLACE, version, Rendered([manifest], problems), replicas)


def instance(ordinal: int = 0, of: Workload | None = None, **fields: Any) -> Instance:
    """An instance that runs what ``of`` says, and is ready."""
    running = of or workload()
    given = {"fingerprint": running.fingerprint, "version": running.version, "ready": True, **fields}
    return Instance(ordinal, PLACE.instance(ordinal), "127.0.0.1", **given)


def running(*instances: Instance, of: Workload | None = None) -> Running:
    """These instances, of a workload that was applied."""
    applied = of or workload(replicas=len(instances))
    return Running(instances, applied.fingerprint, applied.replicas, exists=True)


WAITING = Seen(
    API_SERVER,
    api_server(),
    NOW,
    family=family(etcd()),
    identity=PLACE,
    choice=Choice("1.36.3", ()),
    rendered=workload().rendered,
    workload=workload(),
)
"""Nothing runs yet, and nothing holds it up."""

RUNNING = replace(WAITING, running=running(instance()))
"""One instance runs as the spec wants it."""
