"""Objects around a CapacityReserve for scenes, on one cluster: the reserve, nodes, and what stands for it."""

from typing import Any

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, FINALIZER, OWNER_LABEL, PRIORITY_CLASS
from kubewright.api.core import NODE
from kubewright.reserves import placeholders
from kubewright.reserves.seen import ReserveSettings
from kubewright.reserves.wiring import wire
from kubewright.testing.passes import Stage
from kubewright.wire.gvk import Key

from . import planes
from .planes import There

NS, NAME = "n", "spare"
DEPLOYMENT_NAME = placeholders.name_of(Key(NS, NAME))
CLASS_NAME = placeholders.class_name(Key(NS, NAME), -1)
SETTINGS = ReserveSettings("pause")
SPEC: dict[str, Any] = {"unit": {"cpu": "1"}, "percent": {"cpu": 50}}


def a_reserve(spec: Any = SPEC, status: Any = None, **meta: Any) -> There:
    given = {"name": NAME, "namespace": NS, "uid": "u", "finalizers": [FINALIZER], **meta}
    return CAPACITY_RESERVE, CAPACITY_RESERVE.from_plain(
        {"metadata": given, "spec": spec, "status": status or {}}
    )


def a_node(name: str, cpu: str = "4", *, ready: str = "True", **spec: Any) -> There:
    status = {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": ready}]}
    return NODE, NODE.from_plain({"metadata": {"name": name, "uid": name}, "spec": spec, "status": status})


def placed(replicas: int = 2, *, ready: int = 2, uid: str = "u") -> There:
    body: dict[str, Any] = placeholders.deployment(a_reserve()[1], replicas, "pause")
    body["metadata"] |= {"uid": "d", "labels": {OWNER_LABEL: uid}}
    return DEPLOYMENT, DEPLOYMENT.from_plain(
        {**body, "status": {"readyReplicas": ready, "updatedReplicas": replicas}}
    )


def a_class(uid: str = "u", name: str = CLASS_NAME) -> There:
    body: dict[str, Any] = placeholders.priority_class(a_reserve()[1])
    body["metadata"] |= {"uid": "c", "name": name, "labels": {OWNER_LABEL: uid}}
    return PRIORITY_CLASS, PRIORITY_CLASS.from_plain(body)


def staged(*there: There) -> Stage:
    return planes.staged(lambda environment: wire(environment, SETTINGS), *there)
