"""Conditions of a write that depend on other objects: the namespace, and the PriorityClass of a Pod.

Theory.      Nothing is created in a namespace that is missing or being deleted; three are never deleted.
             Deleting the objects in a namespace that is being deleted is the task of the namespace
             controller (package ``builtin``).
             A Pod names a PriorityClass; drains and schedulers read a number (``spec.priority``).
             As upstream the server writes the number when the Pod is created, so a class that changes later
             changes no Pod; and it refuses a class that does not exist, since a Pod with a wrong
             priority is worse than none.
Called by    ``writing``.
Source       kube-apiserver's admission plugins NamespaceLifecycle and Priority; the two classes that every
             cluster has.
"""

from typing import Any

import orjson

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Object
from kubewright.apiserver.registry.target import Target
from kubewright.apiserver.store import Store
from kubewright.wire.errors import NAMESPACE_TERMINATING
from kubewright.wire.gvk import Resource

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that are made at the first start."""

UNDELETABLE = frozenset(("default", "kube-public", "kube-system"))

CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Admission:
    """Checks against the latest state of the store, staged writes included."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, target: Target) -> None:
        """Check that a new object may be created here.

        Raises:
            NotFound: the namespace is missing.
            Forbidden: it is being deleted.
        """
        if not target.kind.resource.namespaced:
            return
        name = target.namespace
        record = self._store.latest(str(NAMESPACES), name)
        if record is None:
            raise refusals.not_found(NAMESPACES, name)
        if record.deleting:
            why = f"unable to create new content in namespace {name} because it is being terminated"
            said = f"namespace {name} is being terminated"
            cause = {"reason": NAMESPACE_TERMINATING, "message": said, "field": "metadata.namespace"}
            raise refusals.forbidden(target.kind.resource, target.name, why, [cause])

    def admit_deletion(self, target: Target) -> None:
        """Check that an object may be deleted.

        Raises:
            Forbidden: it is a namespace that the system needs.
        """
        if target.kind.resource == NAMESPACES and target.name in UNDELETABLE:
            raise refusals.forbidden(NAMESPACES, target.name, "this namespace may not be deleted")

    def with_priority(self, target: Target, obj: Object) -> Object:
        """A new Pod with the priority of its class; any other object as it is.

        Raises:
            Forbidden: there is no such class.
        """
        spec = obj.get("spec") or {}
        name = spec.get("priorityClassName") if str(target.kind.resource) == str(PODS) else None
        if not name:
            return obj
        if name in SYSTEM_CLASSES:
            return _with_class(obj, {"value": SYSTEM_CLASSES[name]})
        record = self._store.latest(str(CLASSES), name)
        if record is None:
            meta = obj["metadata"]
            subject = meta.get("name") or meta.get("generateName", "")
            raise refusals.forbidden(
                target.kind.resource, subject, f"no PriorityClass with name {name} was found"
            )
        return _with_class(obj, orjson.loads(record.data))


def _with_class(pod: Object, found: dict[str, Any]) -> Object:
    policy = {"preemptionPolicy": found.get("preemptionPolicy", "PreemptLowerPriority")}
    return {**pod, "spec": {**policy, **pod["spec"], "priority": found["value"]}}
